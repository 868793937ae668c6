package loop

import (
	"fmt"
	"io"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// Layer is a codec between a connection's socket and its Handler: encryption, or
// framing. It is called on the loop only, and must not block.
type Layer interface {
	// Decode takes received bytes, which it may alter, and returns what they
	// carry: in scratch, or in raw itself, valid until the next call. scratch has
	// room for len(raw) and LayerSlack more. What is incomplete it keeps. io.EOF
	// says that the peer has ended its direction behind plain; any other error
	// ends the connection, once what Encode has to say is sent.
	Decode(raw, scratch []byte) (plain []byte, err error)
	// Encode appends what the layer itself has to say (Pending), and then plain,
	// at most LayerPiece bytes of it, to dst. It adds at most LayerSlack bytes.
	Encode(dst, plain []byte) ([]byte, error)
	// Pending says whether Encode has something to say without plain bytes.
	Pending() bool
	// End makes the next Encode say good-bye. Nothing but an empty plain is
	// encoded after it.
	End()
}

const (
	// LayerSlack bounds what a layer keeps of earlier input, and what it adds to
	// a piece of output: a TLS record is 16 KiB and a little more.
	LayerSlack = 32 * arena.KiB
	// LayerPiece is how much is encoded and then sent at a time: whole records,
	// and with LayerSlack's share still a buffer of 64 KiB, which fits the cache.
	LayerPiece = 48 * arena.KiB
	// layerReadMax leaves room for LayerSlack in one buffer.
	layerReadMax = readBytesMax - LayerSlack
)

// Link is a connected socket that something else has worked on already.
type Link struct {
	// Remote and Local are the socket's own addresses, if they are known already,
	// or replace them: a proxy has said who is behind it. Those that are not valid
	// are asked of the socket.
	Remote, Local netip.AddrPort
	Layer         Layer // nil: none
	// Early are bytes that were read from the socket already; the layer gets
	// them first.
	Early []byte
}

// layered is the state of a connection with a Layer.
type layered struct {
	layer Layer
	// What the handler writes, and how far it is encoded. While plain is set, the
	// handler has a write outstanding.
	plain    *arena.Buf
	plainPos int
	plainEnd int
	ended    bool // End was called
	finished bool // the peer's end has come while the handler was paused
	waking   bool // a call of Run is due
	conn     *Conn
}

// AdoptLink is Adopt for a Link.
func (l *Loop) AdoptLink(fd int, link Link, makeHandler func(*Conn) Handler) {
	l.conns.Add(1)
	if !l.post(RunnerFunc(func() { l.adoptLink(fd, &link, makeHandler) })) {
		l.conns.Add(-1)
		unix.Close(fd)
	}
}

func (l *Loop) adoptLink(fd int, link *Link, makeHandler func(*Conn) Handler) {
	c := l.newConn(fd, link.Remote, link.Local)
	if link.Layer != nil {
		c.over = &layered{layer: link.Layer, conn: c}
	}
	l.serve(c, makeHandler)
	if !c.dead && (len(link.Early) > 0 || c.over != nil) {
		c.received(link.Early) // a layer may have kept some, too
	}
}

// decode passes input through the layer.
func (c *Conn) decode(raw []byte) {
	o, l := c.over, c.loop
	if l.plain == nil {
		l.plain = l.pool.Get(readBytesMax)
	}
	scratch := l.plain.Bytes()
	if len(raw)+LayerSlack > len(scratch) {
		panic(fmt.Sprintf("loop: %d bytes of input leave no room for a layer", len(raw)))
	}
	plain, err := o.layer.Decode(raw, scratch)
	if len(plain) > 0 {
		c.handler.Input(plain)
	}
	if c.dead {
		return
	}
	if o.layer.Pending() && c.out == nil && o.plain == nil {
		c.push()
	}
	switch {
	case err == nil || c.dead || c.closing:
	case err != io.EOF:
		c.fail(err)
	case c.paused: // input that the handler has kept comes first
		o.finished = true
	default:
		c.endOfInput()
	}
}

// push encodes and sends what there is; true when all of it has left.
func (c *Conn) push() bool {
	o := c.over
	for {
		if o.plain == nil && !o.layer.Pending() {
			return true
		}
		var piece []byte
		if o.plain != nil {
			piece = o.plain.Bytes()[o.plainPos:min(o.plainEnd, o.plainPos+LayerPiece)]
		}
		buf := c.loop.pool.Get(encodedMax(len(piece)))
		encoded, err := o.layer.Encode(buf.Bytes()[:0], piece)
		if err == nil && len(encoded) > buf.Len() {
			panic("loop: a layer has encoded more than there is room for")
		}
		if o.plainPos += len(piece); o.plainPos >= o.plainEnd {
			o.plainPos, o.plainEnd = 0, 0
		}
		if err != nil {
			buf.Release()
			c.fail(err)
			return false
		}
		c.out, c.outPos, c.outEnd = buf, 0, len(encoded)
		done, err := c.loop.backend.write(c)
		if err != nil {
			c.fail(err) // bury releases both buffers
			return false
		}
		if !done {
			return false
		}
		c.sentPiece()
		if o.plain != nil && o.plainEnd == 0 && !o.layer.Pending() {
			return true
		}
	}
}

// encodedMax is the size of a buffer for n encoded bytes: small ones stay small.
func encodedMax(n int) int {
	const perRecord = 256
	return n + (n/(16*arena.KiB)+2)*perRecord + layerControlMax
}

// layerControlMax bounds what a layer has to say by itself at one time.
const layerControlMax = 2 * arena.KiB

func (c *Conn) sentPiece() {
	c.out.Release()
	c.out = nil
}

// writeLayered is Write through the layer.
func (c *Conn) writeLayered(buf *arena.Buf, n int) bool {
	o := c.over
	if o.plain != nil {
		panic("loop: two writes outstanding on one connection")
	}
	if n == 0 || c.closing {
		return true
	}
	o.plain, o.plainPos, o.plainEnd = buf, 0, n
	if c.out != nil {
		return false // behind what the layer itself is sending
	}
	if c.push() || c.dead {
		// It is the caller's again, also when the connection has just died.
		o.plain, o.plainPos, o.plainEnd = nil, 0, 0
		return true
	}
	return false
}

// drainedLayered is drained of a connection with a layer: of a piece.
func (c *Conn) drainedLayered() {
	o := c.over
	c.sentPiece()
	if o.plain == nil || o.plainEnd != 0 {
		if !c.push() {
			return
		}
	}
	plain := o.plain
	o.plain = nil
	switch {
	case c.closing:
		if plain != nil {
			plain.Release()
		}
		c.endLayer()
	case plain != nil:
		c.handler.Drained()
		if !c.dead && c.out == nil && o.plain == nil && o.layer.Pending() {
			c.push()
		}
	}
}

// endLayer says good-bye, and lingers when that has left.
func (c *Conn) endLayer() {
	if o := c.over; !o.ended {
		o.ended = true
		o.layer.End()
	}
	if c.push() {
		c.startLinger()
	}
}

// resumed is called when reading resumes.
func (o *layered) resumed() {
	if o.finished && !o.waking {
		o.waking = true
		o.conn.loop.Defer(o)
	}
}

// Run delivers the peer's end that came while reading was paused.
func (o *layered) Run() {
	o.waking = false
	if c := o.conn; !c.dead && !c.paused && !c.closing {
		c.endOfInput()
	}
}

// drop releases what the layer's connection holds when it dies.
func (o *layered) drop() {
	if o.plain != nil {
		o.plain.Release()
		o.plain = nil
	}
}
