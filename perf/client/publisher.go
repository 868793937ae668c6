package client

// PublisherBufferBytes is how much a publisher offers to the socket at once.
// Larger writes save system calls but fall out of the core's own cache.
const PublisherBufferBytes = 128 << 10

// StampedBytesTotal bounds the buffers of all publishers that stamp bodies:
// those have one each, the others share.
const StampedBytesTotal = 64 << 20

// Publisher writes publishes to one connection.
//
// Plain publishers send the same buffer again and again, from any position;
// stamped ones fill it, send all of it, and fill it again. Either way the
// number of messages is bytes divided by message size.
type Publisher struct {
	socket
	Loop     *Loop
	Encoding PublishEncoding
	Layout   bodyLayout
	Identity uint64 // publisher number, shifted

	Buffer []byte
	pos    int // next byte to send
	end    int // behind the last byte that may be sent

	published uint64 // whole messages accepted by the socket
	partial   int    // bytes of the next one accepted
	filled    uint64 // stamped: messages put into the buffer since the start

	Quota      uint64 // messages to publish in total
	Window     uint64 // confirm window; 0: no confirms
	TxSize     uint64 // messages per transaction; 0: none
	commits    uint64 // tx.commits sent
	Pace       *pacer // nil: unlimited
	resume     int64  // paced: not before
	finished   bool   // reported as finished
	seenNacked uint64
	seenSettle uint64
}

func (p *Publisher) work(now int64) (again bool, err error) {
	if p.readable {
		if err := p.takeReplies(); err != nil {
			return false, err
		}
	}
	if p.closing {
		return p.farewell(p.Loop.buffer), nil
	}
	if err := p.flush(); err != nil {
		return false, err
	}
	if !p.writable || len(p.Out) > 0 {
		return p.readable, nil
	}
	if !p.prepare(now) {
		p.checkFinished()
		return p.readable || len(p.Out) > 0, nil
	}
	n, err := p.send(p.Buffer[p.pos:p.end])
	if err != nil {
		return false, err
	}
	p.advance(n, now)
	return p.writable || p.readable, nil
}

// advance accounts for n bytes accepted by the socket.
func (p *Publisher) advance(n int, now int64) {
	p.pos += n
	if p.pos == len(p.Buffer) && !p.Layout.Stamped() {
		p.pos = 0
	}
	bytes := p.partial + n
	messages := uint64(bytes / p.Encoding.Size)
	p.partial = bytes % p.Encoding.Size
	p.published += messages
	p.Walker.sent = p.published
	p.Loop.addPublished(messages, n, now)
}

// takeReplies reads confirms, commit-oks and bad news.
func (p *Publisher) takeReplies() error {
	n, err := p.receive(p.Loop.buffer, loopReadBytes)
	p.Loop.BytesIn.Add(uint64(n))
	if confirms := p.Walker.Confirms; confirms != nil {
		settled, nacked := confirms.settled-p.seenSettle, p.Walker.nacked-p.seenNacked
		p.seenSettle, p.seenNacked = confirms.settled, p.Walker.nacked
		p.Loop.Confirmed.Add(settled - nacked)
		p.Loop.Nacked.Add(nacked)
	}
	return err
}

// prepare decides what may be sent now: pos … end of buffer. It reports false
// when that is nothing; then due says when to ask again, if time will help.
func (p *Publisher) prepare(now int64) bool {
	p.due = 0
	if p.Layout.Stamped() && p.pos < p.end {
		return true
	}
	limit := p.limit()
	next := p.published // the first message not yet started
	if p.partial > 0 {
		next++
	}
	if p.Pace != nil && next < limit {
		limit = p.paced(next, limit, now)
	}
	if p.Layout.Stamped() {
		return p.fill(limit, now)
	}
	if limit < next {
		limit = next
	}
	room := uint64(len(p.Buffer) - p.pos)
	if left := limit - p.published; left < room/uint64(p.Encoding.Size)+1 {
		room = min(room, left*uint64(p.Encoding.Size)-uint64(p.partial))
	}
	p.end = p.pos + int(room)
	return room > 0
}

// paced lowers limit to what is due, a tick after the last time at the earliest
// (see paceTick); next is the first message not yet started. If that is nothing,
// due says when it will be more.
func (p *Publisher) paced(next, limit uint64, now int64) uint64 {
	if limit = min(limit, p.Pace.dueBy(now)); limit <= next {
		p.due = p.Pace.intended(next)
	}
	if now < p.resume {
		p.due = max(p.due, p.resume)
		return min(limit, next)
	}
	if limit > next {
		p.resume = now + int64(paceTick)
	}
	return limit
}

// limit is how many messages may have been published by now, pacing aside
// (invariant 1 of the package). At the end of a transaction it queues the
// commit.
func (p *Publisher) limit() uint64 {
	limit := p.Quota
	if p.Window > 0 {
		limit = min(limit, p.Walker.Confirms.limit(p.Window))
	}
	if p.TxSize > 0 {
		limit = min(limit, (p.commitOks+1)*p.TxSize)
		wanted := p.published / p.TxSize
		if p.published == p.Quota && p.published%p.TxSize != 0 {
			wanted++ // the last transaction may be shorter
		}
		if p.partial == 0 && wanted > p.commits {
			p.Out = append(p.Out, commitFrame...)
			p.commits++
		}
	}
	return limit
}

// fill stamps as many messages as fit and may be sent.
func (p *Publisher) fill(limit uint64, now int64) bool {
	size := p.Encoding.Size
	count := len(p.Buffer) / size
	if limit <= p.filled {
		count = 0
	} else if limit-p.filled < uint64(count) {
		count = int(limit - p.filled)
	}
	sendTime := now
	delays := p.Loop.Delays
	if p.Pace == nil {
		delays = nil
	}
	if delays != nil {
		delays.begin()
		defer delays.end()
	}
	for i := range count {
		if p.Pace != nil {
			sendTime = p.Pace.intended(p.filled)
		}
		if delays != nil {
			delays.recordMany(sendTime, 1)
		}
		p.filled++
		p.Encoding.stamp(p.Buffer[i*size:(i+1)*size], p.Layout, sendTime, p.Identity|p.filled)
	}
	p.pos, p.end = 0, count*size
	return count > 0
}

// checkFinished tells the run when the quota is published and settled.
func (p *Publisher) checkFinished() {
	if p.finished || p.published < p.Quota ||
		p.Window > 0 && p.Walker.Confirms.settled < p.published ||
		p.commitOks < p.commits || len(p.Out) > 0 {
		return
	}
	p.finished = true
	p.Loop.owner.ClientFinished()
}

// startClosing sends the rest of a message that was begun, then the farewell.
func (p *Publisher) startClosing() {
	if p.plain {
		p.closed = true
		return
	}
	var rest []byte
	if p.partial > 0 {
		rest = p.Buffer[p.pos : p.pos+p.Encoding.Size-p.partial]
	}
	p.startFarewell(rest)
}
