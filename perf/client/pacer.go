package client

import "time"

// paceTick is the shortest pause of a paced client. Above 20,000 messages a
// second, waking for each one would cost more than sending it; the messages
// due within one tick go together. The wait counts as latency, because that is
// measured from the intended time. (Waking for each at 250,000 a second kept a
// core busy; on two cores the broker then waited for the kernel to take it away.)
const paceTick = 50 * time.Microsecond

// pacer is an open-loop schedule: message i (from 0) is intended for start +
// i/rate, however late the ones before it were. After a stall everything
// overdue is sent at once, and the schedule does not shift.
type pacer struct {
	Start  int64   // ns, CLOCK_MONOTONIC
	Period float64 // ns between messages
}

func NewPacer(start int64, rate uint64) *pacer {
	return &pacer{Start: start, Period: 1e9 / float64(rate)}
}

// intended is when message number i should go.
func (p *pacer) intended(i uint64) int64 { return p.Start + int64(float64(i)*p.Period) }

// dueBy is how many messages should have gone by now.
func (p *pacer) dueBy(now int64) uint64 {
	if now < p.Start {
		return 0
	}
	count := uint64(float64(now-p.Start)/p.Period) + 1
	for count > 0 && p.intended(count-1) > now {
		count-- // rounding must not send early
	}
	return count
}

// wakeUp is when to look again, with message number next not yet due.
func (p *pacer) wakeUp(next uint64, now int64) int64 {
	return max(p.intended(next), now+int64(paceTick))
}
