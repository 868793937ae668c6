package admin

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// idleConns are the connections that wait for their next request, the one that
// has waited for longest first.
type idleConns struct {
	mu     sync.Mutex
	order  list.List // of net.Conn
	places map[net.Conn]*list.Element
	wanted bool // somebody waits for a place
}

// changed follows the states of connections.
func (i *idleConns) changed(c net.Conn, state http.ConnState) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := i.places[c]; at != nil {
		i.order.Remove(at)
		delete(i.places, c)
	}
	if state != http.StateIdle {
		return
	}
	if i.places == nil {
		i.places = map[net.Conn]*list.Element{}
	}
	i.places[c] = i.order.PushBack(c)
	i.close()
}

// makeRoom says whether somebody waits for a place: then the first that is idle,
// or becomes so, is closed.
func (i *idleConns) makeRoom(wanted bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.wanted = wanted
	i.close()
}

// close closes one if it is wanted; others only when that was not enough.
func (i *idleConns) close() {
	first := i.order.Front()
	if !i.wanted || first == nil {
		return
	}
	c := i.order.Remove(first).(net.Conn)
	delete(i.places, c)
	i.wanted = false
	c.Close()
}
