package amqp

import (
	"sync"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// What clients say of themselves. Ten thousand connections are mostly of a few
// programs, and say the same but for their names: it is kept once.

// clientKind is what is the same of many connections.
type clientKind struct {
	mechanism  string     // that they log in by
	properties amqp.Table // but for connection_name
	users      int        // connections; guarded by clientKinds.mu
	key        string
}

// clientKinds are those in use. Any loop.
type clientKinds struct {
	mu      sync.Mutex
	all     map[string]*clientKind
	scratch []byte // a key under construction
}

// clientBytesMax bounds what is kept of a client's properties; of one that says
// more nothing is.
const clientBytesMax = 4096

// take returns what connections with such properties share.
func (k *clientKinds) take(mechanism []byte, properties amqp.Table) *clientKind {
	k.mu.Lock()
	defer k.mu.Unlock()
	b := append(append(k.scratch[:0], mechanism...), 0)
	if len(properties) <= clientBytesMax {
		b = properties.AppendWithout(b, "connection_name")
	}
	k.scratch = b
	kind := k.all[string(b)]
	if kind == nil {
		key := string(b)
		kind = &clientKind{mechanism: string(mechanism), properties: amqp.Table(key[len(mechanism)+1:]), key: key}
		if k.all == nil {
			k.all = map[string]*clientKind{}
		}
		k.all[key] = kind
	}
	kind.users++
	return kind
}

// release is for a connection that has ended; nil had none.
func (k *clientKinds) release(kind *clientKind) {
	if kind == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if kind.users--; kind.users == 0 {
		delete(k.all, kind.key)
	}
}

// describeClient tells operators what the client said of itself.
func (c *conn) describeClient(info *ConnectionInfo) {
	info.ConnectedAt = c.connectedAt
	if c.client != nil {
		info.Mechanism, info.Properties = c.client.mechanism, c.client.properties
	}
}
