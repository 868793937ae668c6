package client

// ConfirmPublisher is one connection of the confirm scenario: it publishes on
// all its channels, each as far as its window allows.
//
// A message counts as sent when it is put into the buffer that is written
// next, and its latency runs from there until the read that brought its
// confirm: what the socket could not take at once is the broker's to answer
// for.
type ConfirmPublisher struct {
	socket
	Loop     *Loop
	Channels *channelConfirms
	Buffer   []byte // whole publishes
	pos      int    // next byte of it to be written

	seenAcked, seenNacked uint64
}

func (p *ConfirmPublisher) work(int64) (again bool, err error) {
	if p.closing {
		return p.farewell(p.Loop.buffer), nil
	}
	if p.readable {
		if err := p.takeConfirms(); err != nil {
			return false, err
		}
	}
	if p.pos == len(p.Buffer) && p.Channels.size > 0 && !p.Blocked.Load() {
		p.fill()
	}
	if p.writable && p.pos < len(p.Buffer) {
		n, err := p.send(p.Buffer[p.pos:])
		if err != nil {
			return false, err
		}
		p.pos += n
	}
	more := p.pos < len(p.Buffer) || p.Channels.size > 0 && !p.Blocked.Load()
	return p.readable || p.writable && more, nil
}

func (p *ConfirmPublisher) fill() {
	now := Now()
	filled, messages := p.Channels.fill(p.Buffer[:0], now)
	p.Buffer, p.pos = filled, 0
	p.Loop.addPublished(messages, len(filled), now)
}

func (p *ConfirmPublisher) takeConfirms() error {
	p.Loop.Latency.begin()
	n, err := p.receive(p.Loop.buffer, loopReadBytes)
	p.Loop.Latency.end()
	p.Loop.BytesIn.Add(uint64(n))
	p.Loop.Confirmed.Add(p.Channels.acked - p.seenAcked)
	p.Loop.Nacked.Add(p.Channels.nacked - p.seenNacked)
	p.seenAcked, p.seenNacked = p.Channels.acked, p.Channels.nacked
	return err
}

func (p *ConfirmPublisher) startClosing() { p.startFarewell(p.Buffer[p.pos:]) }
