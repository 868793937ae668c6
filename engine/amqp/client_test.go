package amqp

import (
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestClientKinds: connections of one program share what it says of itself, which
// goes with the last of them; one that says very much is not listened to.
func TestClientKinds(t *testing.T) {
	properties := func(name, product string) amqp.Table {
		var b amqp.TableBuilder
		b.SetString("connection_name", name)
		b.SetString("product", product)
		return b.Table()
	}
	var k clientKinds
	a, b := k.take([]byte("PLAIN"), properties("a", "p")), k.take([]byte("PLAIN"), properties("b", "p"))
	if a != b || a.mechanism != "PLAIN" {
		t.Errorf("%+v, %+v", a, b)
	}
	if _, named := a.properties.Lookup("connection_name"); named || a.properties.Len() != 1 {
		t.Errorf("%v", a.properties)
	}
	others := []*clientKind{k.take([]byte("AMQPLAIN"), properties("a", "p")), k.take([]byte("PLAIN"), properties("a", "q")), k.take(nil, nil)}
	name, same := []byte("PLAIN"), properties("c", "p")
	if n := testing.AllocsPerRun(10, func() { k.release(k.take(name, same)) }); n != 0 {
		t.Errorf("%v allocations for a program that is known", n)
	}
	if len(k.all) != 4 {
		t.Errorf("%d kinds", len(k.all))
	}
	if large := k.take([]byte("PLAIN"), properties("a", fmt.Sprintf("%*d", clientBytesMax, 1))); large.properties.Len() != 0 {
		t.Errorf("%d bytes are kept", len(large.properties))
	} else {
		k.release(large)
	}
	for _, kind := range append(others, a, b, nil) {
		k.release(kind)
	}
	if len(k.all) != 0 {
		t.Errorf("left are %v", k.all)
	}
}
