package amqp

import (
	"testing"
	"unsafe"

	"github.com/basaltmq/basaltmq/engine/loop"
)

// TestFootprint holds what each idle connection has to the size classes of Go's
// allocator that it fits now: one field more may cost an eighth. An object of more
// than 512 bytes has 8 bytes of the allocator's before it. Before raising a figure
// see whether the new field is needed while the connection is idle.
func TestFootprint(t *testing.T) {
	t.Parallel()
	const header = 8
	for _, of := range []struct {
		name        string
		size, class uintptr
	}{
		{"conn", unsafe.Sizeof(conn{}), 896 - header},
		{"channel", unsafe.Sizeof(channel{}), 512},
		{"loop.Conn", unsafe.Sizeof(loop.Conn{}), 144},
	} {
		if of.size > of.class {
			t.Errorf("%s takes %d bytes, its size class ends at %d", of.name, of.size, of.class)
		}
	}
}
