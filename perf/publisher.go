package perf

// publisherBufferBytes is how much a publisher offers to the socket at once.
// Larger writes save system calls but fall out of the core's own cache.
const publisherBufferBytes = 128 << 10

// stampedBytesTotal bounds the buffers of all publishers that stamp bodies:
// those have one each, the others share.
const stampedBytesTotal = 64 << 20

// publisher writes publishes to one connection.
//
// Plain publishers send the same buffer again and again, from any position;
// stamped ones fill it, send all of it, and fill it again. Either way the
// number of messages is bytes divided by message size.
type publisher struct {
	socket
	loop     *loop
	encoding publishEncoding
	layout   bodyLayout
	identity uint64 // publisher number, shifted

	buffer []byte
	pos    int // next byte to send
	end    int // behind the last byte that may be sent

	published uint64 // whole messages accepted by the socket
	partial   int    // bytes of the next one accepted
	filled    uint64 // stamped: messages put into the buffer since the start

	quota      uint64 // messages to publish in total
	window     uint64 // confirm window; 0: no confirms
	txSize     uint64 // messages per transaction; 0: none
	commits    uint64 // tx.commits sent
	pace       *pacer // nil: unlimited
	finished   bool   // reported as finished
	seenNacked uint64
	seenSettle uint64
}

func (p *publisher) work(now int64) (again bool, err error) {
	if p.readable {
		if err := p.takeReplies(); err != nil {
			return false, err
		}
	}
	if p.closing {
		return p.farewell(p.loop.buffer), nil
	}
	if err := p.flush(); err != nil {
		return false, err
	}
	if !p.writable || len(p.out) > 0 {
		return p.readable, nil
	}
	if !p.prepare(now) {
		p.checkFinished()
		return p.readable || len(p.out) > 0, nil
	}
	n, err := p.send(p.buffer[p.pos:p.end])
	if err != nil {
		return false, err
	}
	p.advance(n, now)
	return p.writable || p.readable, nil
}

// advance accounts for n bytes accepted by the socket.
func (p *publisher) advance(n int, now int64) {
	p.pos += n
	if p.pos == len(p.buffer) && !p.layout.stamped() {
		p.pos = 0
	}
	bytes := p.partial + n
	messages := uint64(bytes / p.encoding.size)
	p.partial = bytes % p.encoding.size
	p.published += messages
	p.walker.sent = p.published
	p.loop.addPublished(messages, n, now)
}

// takeReplies reads confirms, commit-oks and bad news.
func (p *publisher) takeReplies() error {
	n, err := p.receive(p.loop.buffer, loopReadBytes)
	p.loop.bytesIn.Add(uint64(n))
	if confirms := p.walker.confirms; confirms != nil {
		settled, nacked := confirms.settled-p.seenSettle, p.walker.nacked-p.seenNacked
		p.seenSettle, p.seenNacked = confirms.settled, p.walker.nacked
		p.loop.confirmed.Add(settled - nacked)
		p.loop.nacked.Add(nacked)
	}
	return err
}

// prepare decides what may be sent now: pos … end of buffer. It reports false
// when that is nothing; then due says when to ask again, if time will help.
func (p *publisher) prepare(now int64) bool {
	p.due = 0
	if p.layout.stamped() && p.pos < p.end {
		return true
	}
	limit := p.limit()
	next := p.published // the first message not yet started
	if p.partial > 0 {
		next++
	}
	if p.pace != nil && next < limit {
		if limit = min(limit, p.pace.dueBy(now)); limit <= next {
			p.due = p.pace.wakeUp(next, now)
		}
	}
	if p.layout.stamped() {
		return p.fill(limit, now)
	}
	if limit < next {
		limit = next
	}
	room := uint64(len(p.buffer) - p.pos)
	if left := limit - p.published; left < room/uint64(p.encoding.size)+1 {
		room = min(room, left*uint64(p.encoding.size)-uint64(p.partial))
	}
	p.end = p.pos + int(room)
	return room > 0
}

// limit is how many messages may have been published by now, pacing aside
// (invariant 1 of the package). At the end of a transaction it queues the
// commit.
func (p *publisher) limit() uint64 {
	limit := p.quota
	if p.window > 0 {
		limit = min(limit, p.walker.confirms.limit(p.window))
	}
	if p.txSize > 0 {
		limit = min(limit, (p.commitOks+1)*p.txSize)
		wanted := p.published / p.txSize
		if p.published == p.quota && p.published%p.txSize != 0 {
			wanted++ // the last transaction may be shorter
		}
		if p.partial == 0 && wanted > p.commits {
			p.out = append(p.out, commitFrame...)
			p.commits++
		}
	}
	return limit
}

// fill stamps as many messages as fit and may be sent.
func (p *publisher) fill(limit uint64, now int64) bool {
	size := p.encoding.size
	count := len(p.buffer) / size
	if limit <= p.filled {
		count = 0
	} else if limit-p.filled < uint64(count) {
		count = int(limit - p.filled)
	}
	sendTime := now
	for i := range count {
		if p.pace != nil {
			sendTime = p.pace.intended(p.filled)
		}
		p.filled++
		p.encoding.stamp(p.buffer[i*size:(i+1)*size], p.layout, sendTime, p.identity|p.filled)
	}
	p.pos, p.end = 0, count*size
	return count > 0
}

// checkFinished tells the run when the quota is published and settled.
func (p *publisher) checkFinished() {
	if p.finished || p.published < p.quota ||
		p.window > 0 && p.walker.confirms.settled < p.published ||
		p.commitOks < p.commits || len(p.out) > 0 {
		return
	}
	p.finished = true
	p.loop.run.publisherFinished()
}

// startClosing sends the rest of a message that was begun, then the farewell.
func (p *publisher) startClosing() {
	var rest []byte
	if p.partial > 0 {
		rest = p.buffer[p.pos : p.pos+p.encoding.size-p.partial]
	}
	p.startFarewell(rest)
}
