package broker

import (
	"crypto/rand"
	"encoding/base64"
)

// The changes of a vhost's topology are in declareexchange.go, declarequeue.go
// and bindings.go; what they share is here. Each returns the sequence number of
// its definition record, 0 when nothing needed recording: the answer to the
// client must wait until Definitions.Durable has reached it. What is done
// already (by another client perhaps, a moment ago) waits for all records so
// far: it rests on one of them.

// unlock ends a change: what went with it and has files is removed without the
// lock.
func (vh *VHost) unlock() {
	dropped, values := vh.dropped, vh.droppedValues
	vh.dropped, vh.droppedValues = nil, nil
	vh.mu.Unlock()
	for _, q := range dropped {
		vh.finishDelete(q, nil)
	}
	for _, x := range values {
		x.delete()
	}
}

// unbindAll removes the bindings from source to d, without records: the
// record of the deletion of d implies them.
func (vh *VHost) unbindAll(source *Exchange, d Dest) (seq uint64) {
	removed := source.index.UnbindDestination(d)
	left := source.index.Len()
	if d.Exchange != nil {
		delete(source.outgoing, d.Exchange)
	}
	if len(removed) > 0 && left == 0 && source.AutoDelete && !vh.broker.replaying() {
		return vh.dropExchange(source)
	}
	return 0
}

// GeneratedName returns prefix followed by 22 random characters.
func GeneratedName(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}
