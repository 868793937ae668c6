package crash

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// messageID names a message: publishers count from 1.
type messageID struct {
	publisher uint16
	sequence  uint64
}

func (id messageID) String() string { return fmt.Sprintf("%d/%d", id.publisher, id.sequence) }

const (
	frameMax     = 128 * 1024
	bodyBytesMax = 1 << 20
	// idBytesMax is what the text "publisher/sequence/" takes at most. Bodies
	// that are shorter have it as message-id property instead.
	idBytesMax = 28
)

// noise fills bodies: each is a window of it, so that checking one is a compare.
var noise = func() []byte {
	b := make([]byte, bodyBytesMax+4096)
	r := rand.NewChaCha8([32]byte{'b', 'a', 's', 'a', 'l', 't'})
	_, _ = r.Read(b) // never fails
	return b
}()

// body makes the body of a message of size bytes.
func body(id messageID, size int) []byte {
	b := make([]byte, 0, size)
	if size >= idBytesMax {
		b = append(b, id.String()...)
		b = append(b, '/')
	}
	from := int((id.sequence*31 + uint64(id.publisher)*1009) % 4096)
	return append(b, noise[from:from+size-len(b)]...)
}

// appendPublish appends the frames that publish a message.
func appendPublish(dst []byte, exchange, key string, id messageID, size int, persistent bool) []byte {
	properties := amqp.Properties{}
	if persistent {
		properties = amqp.Properties{Flags: amqp.FlagDeliveryMode, DeliveryMode: 2}
	}
	if size < idBytesMax {
		properties.Flags |= amqp.FlagMessageID
		properties.MessageID = []byte(id.String())
	}
	limit := uint32(frameMax)
	if id.sequence%2 == 0 {
		limit = amqp.FrameMinSize // bodies of many frames
	}
	return amqptest.AppendPublish(dst, 1, amqptest.Message{
		Exchange: exchange, Key: key, Body: string(body(id, size)), Mandatory: true, Properties: &properties, FrameMax: limit,
	})
}

// identify reads which message an event carries and checks its body.
func identify(event amqptest.Event) (messageID, error) {
	p, err := amqp.DecodeProperties(event.Properties)
	if err != nil {
		return messageID{}, fmt.Errorf("properties of a delivery: %w", err)
	}
	text := string(p.MessageID)
	if p.Flags&amqp.FlagMessageID == 0 {
		text = string(event.Body[:min(len(event.Body), idBytesMax)])
	}
	publisher, rest, _ := strings.Cut(text, "/")
	sequence, _, _ := strings.Cut(rest, "/")
	n, err1 := strconv.ParseUint(publisher, 10, 16)
	s, err2 := strconv.ParseUint(sequence, 10, 64)
	if err1 != nil || err2 != nil {
		return messageID{}, fmt.Errorf("a delivery of %d bytes carries no message number: %q", len(event.Body), text)
	}
	id := messageID{publisher: uint16(n), sequence: s}
	if len(event.Body) > bodyBytesMax || !bytes.Equal(event.Body, body(id, len(event.Body))) {
		return id, fmt.Errorf("the body of message %s (%d bytes) is not what was published", id, len(event.Body))
	}
	return id, nil
}

// randomSize chooses a body size: mostly small, some up to 64 KiB, few of 1 MiB.
func randomSize(r *rand.Rand, large bool) int {
	switch n := r.IntN(100); {
	case n < 10:
		return 0
	case n < 30:
		return r.IntN(idBytesMax)
	case n < 85:
		return r.IntN(512)
	case n < 98 || !large:
		return r.IntN(64 << 10)
	default:
		return bodyBytesMax
	}
}
