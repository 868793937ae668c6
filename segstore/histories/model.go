package histories

import (
	"fmt"
	"math"
)

// Loss says what stopped a store, from the harmless on.
type Loss uint8

// Kinds of stops.
const (
	LossNone  Loss = iota // a clean stop
	LossKill              // the process died, the page cache lives on
	LossPower             // the power went
)

// Record is what the model knows of one record.
type Record struct {
	Serial    uint64 // unique in a history; its body is made from it
	Size      int    // of the body, bytes
	Template  int
	Timestamp int64 // Unix milliseconds

	Settled  bool // by the user, or found settled after a stop
	Lost     bool // found settled after a stop though nobody had settled it
	Damaged  bool // a bit flipped in its batch: it may be gone, not different
	unsure   bool // settled, and so it was found after a stop that may have cost the record itself
	survives Loss // the worst stop that the record must survive while unsettled
	acked    Loss // the worst stop that its settlement must survive
}

// LogModel is one log as a list. Its offsets are indexes.
type LogModel struct {
	ID        uint64
	Transient bool
	Records   []Record

	low       uint64 // first unsettled
	nextMax   uint64 // the highest Next there ever was
	unsettled uint64
	durable   uint64 // as last observed
	fencedAt  uint64 // Durable when the log was first seen fenced
	fenced    bool
	loss      Loss     // the worst stop since the log was last adopted
	cursors   []uint64 // all it ever was; the last one counts
	oldBelow  uint64   // records below were found after a kill: see doc.go
	tainted   bool     // and a sync had failed before, so that they may never get durable

	// Skip is how many offsets a log that its readers keep offsets of leaves out
	// when it is opened after a kill or a power cut.
	Skip uint64

	vanished      map[uint64]bool // serials of records lost though unsettled
	stayedSettled map[uint64]bool // serials of records whose settlement came through a stop

	// Forgiven: a bit flipped in the journal. What was given up as lost may come
	// back, and what it was is forgotten.
	Forgiven bool

	// AcksDamaged: a bit flipped where settlements are kept, or a sync of them
	// failed: some may be gone.
	AcksDamaged bool
}

// NewLogModel returns an empty log.
func NewLogModel(id uint64, transient bool) *LogModel {
	return &LogModel{ID: id, Transient: transient, cursors: []uint64{0}, vanished: map[uint64]bool{}, stayedSettled: map[uint64]bool{}}
}

// Next is the offset of the next record.
func (m *LogModel) Next() uint64 { return uint64(len(m.Records)) }

// Low is the first unsettled offset.
func (m *LogModel) Low() uint64 { return m.low }

// Unsettled counts the unsettled records.
func (m *LogModel) Unsettled() uint64 { return m.unsettled }

// Cursor is the hint last set.
func (m *LogModel) Cursor() uint64 { return m.cursors[len(m.cursors)-1] }

// Fenced reports whether the log was seen fenced.
func (m *LogModel) Fenced() bool { return m.fenced }

// Append adds records.
func (m *LogModel) Append(records []Record) {
	m.Records = append(m.Records, records...)
	m.unsettled += uint64(len(records))
	m.nextMax = max(m.nextMax, m.Next())
}

// Settle marks [first, first+count) as settled.
func (m *LogModel) Settle(first, count uint64) {
	for o := first; o < min(first+count, m.Next()); o++ {
		if r := &m.Records[o]; !r.Settled {
			r.Settled, r.acked = true, LossNone
			m.unsettled--
		}
	}
	m.raiseLow()
}

func (m *LogModel) raiseLow() {
	for m.low < m.Next() && m.Records[m.low].Settled {
		m.low++
	}
}

// SetCursor sets the hint.
func (m *LogModel) SetCursor(offset uint64) { m.cursors = append(m.cursors, min(offset, m.Next())) }

// NextUnsettled is the first run of unsettled offsets from from on, of at most
// limit.
func (m *LogModel) NextUnsettled(from, limit uint64) (first, count uint64) {
	first = max(from, m.low)
	for first < m.Next() && m.Records[first].Settled {
		first++
	}
	for first+count < m.Next() && count < limit && !m.Records[first+count].Settled {
		count++
	}
	return first, count
}

// ObserveDurable notes what the log says is durable. level is the worst stop
// that durable records survive.
func (m *LogModel) ObserveDurable(durable uint64, level Loss) error {
	switch {
	case m.Transient:
		return nil
	case durable > m.Next():
		return fmt.Errorf("log %d: promise 2: durable %d is above next %d", m.ID, durable, m.Next())
	case durable < m.durable:
		return fmt.Errorf("log %d: promise 2: durable fell from %d to %d", m.ID, m.durable, durable)
	case m.fenced && durable != m.fencedAt:
		return fmt.Errorf("log %d: promise 2: durable moved from %d to %d after the log was fenced", m.ID, m.fencedAt, durable)
	}
	for o := m.durable; o < durable; o++ {
		if r := &m.Records[o]; !r.Settled {
			r.survives = max(r.survives, level)
		}
	}
	m.durable = durable
	return nil
}

// ObserveFenced notes that the log refuses appends. Durable must have been
// observed just before.
func (m *LogModel) ObserveFenced() {
	if !m.fenced {
		m.fenced, m.fencedAt = true, m.durable
	}
}

// Reopened notes that the log was opened again after it had been fenced. settled
// are the offsets that were settled before.
func (m *LogModel) Reopened(settled []bool) {
	m.fenced = false
	if m.Transient {
		return
	}
	m.AcksDamaged, m.oldBelow, m.tainted = m.Forgiven, 0, false
	for o := range settled {
		switch r := &m.Records[o]; {
		case settled[o] && r.Settled:
			r.acked = LossPower
		case !r.Settled:
			r.survives = LossPower
		}
	}
}

// Rested notes that enough time has passed without faults for everything to
// survive a stop of that kind.
func (m *LogModel) Rested(level Loss) {
	for o := range m.Records {
		r := &m.Records[o]
		if m.tainted && uint64(o) < m.oldBelow {
			continue
		}
		switch {
		case !r.Settled:
			r.survives = max(r.survives, level)
		case level == LossPower: // the journal takes settlements in small portions
			r.acked = max(r.acked, level)
		}
	}
}

// Stop notes that the store stopped; the log was open if its settlements could
// be written before.
func (m *LogModel) Stop(loss Loss) { m.loss = max(m.loss, loss) }

// MustHold reports whether there is a record that the worst stop so far must
// not have cost.
func (m *LogModel) MustHold() bool {
	for o := range m.Records {
		if r := &m.Records[o]; !m.Transient && !r.Settled && !r.Damaged && (m.loss == LossNone || r.survives >= m.loss) {
			return true
		}
	}
	return false
}

// MarkDamaged notes a flipped bit in the batch of [first, end).
func (m *LogModel) MarkDamaged(first, end uint64) {
	for o := first; o < min(end, m.Next()); o++ {
		m.Records[o].Damaged = true
	}
}

// Found is a log as it was found after a stop.
type Found struct {
	Next      uint64
	Unsettled []bool // by offset
	Cursor    uint64
	Durable   uint64
}

// Expect prepares for a log that was found with that Next. It may be above the
// last one, though not above the highest there ever was: a file that was set
// aside without a sync comes back under its old name. None of those offsets may
// be unsettled.
func (m *LogModel) Expect(next uint64) error {
	if next > m.nextMax+m.Skip {
		return fmt.Errorf("log %d: promise 6: next is %d after %s, was %d and never above %d", m.ID, next, m.loss, m.Next(), m.nextMax)
	}
	if next < m.Skip {
		return fmt.Errorf("log %d: promise 7: next is %d after %s: %d offsets had to be left out", m.ID, next, m.loss, m.Skip)
	}
	for m.Next() < next {
		m.Records = append(m.Records, Record{Settled: true, Lost: true, Damaged: m.Forgiven})
	}
	m.nextMax = max(m.nextMax, next)
	for o := next - m.Skip; o < next; o++ {
		if r := &m.Records[o]; !r.Settled && !r.Damaged && r.survives >= m.loss {
			return fmt.Errorf("log %d: promise 7: record %d survives %s, but is among the offsets that are left out below %d", m.ID, o, m.loss, next)
		}
	}
	return nil
}

// Adopt compares what was found after a stop with what was promised and goes
// on from there. tainted: a sync failed since the last power cut, so what is not
// promised may be readable now and gone later.
func (m *LogModel) Adopt(f Found, tainted bool) error {
	if m.Transient {
		if f.Next != 0 {
			return fmt.Errorf("log %d: a transient log came back with next %d", m.ID, f.Next)
		}
		*m = *NewLogModel(m.ID, true)
		return nil
	}
	for o := range m.Next() {
		if err := m.adoptRecord(o, f, tainted); err != nil {
			return err
		}
		m.noteOutcome(o, f)
	}
	if err := m.adoptCursor(f); err != nil {
		return err
	}
	m.Records = m.Records[:f.Next]
	m.low, m.unsettled = 0, 0
	// What was there after a power cut, or after everything was synced, is on
	// the disk; reading it all again after another kill gives the same.
	level := LossPower
	if m.loss == LossKill {
		level = LossKill
	}
	for o := range m.Records {
		r := &m.Records[o]
		if !f.Unsettled[o] && !r.Settled {
			r.Lost, r.survives = true, LossNone // nothing on disk has to name it
		}
		if r.Settled && f.Unsettled[o] && m.AcksDamaged {
			r.Damaged = true // the flipped bit was not synced: it may flip back at a cut
		}
		r.Settled = !f.Unsettled[o]
		if !r.Settled {
			m.unsettled++
		}
		if r.Settled {
			r.acked = max(r.acked, level)
		} else {
			r.survives = max(r.survives, level)
		}
		if tainted && !r.Settled && r.survives < LossPower {
			r.Damaged = true
		}
	}
	m.raiseLow()
	m.durable, m.fenced, m.AcksDamaged = f.Durable, false, tainted
	if m.loss == LossKill {
		m.oldBelow, m.tainted = f.Next, tainted
	} else {
		m.oldBelow, m.tainted = 0, false
	}
	m.loss = LossNone
	return nil
}

func (m *LogModel) adoptRecord(o uint64, f Found, tainted bool) error {
	r := &m.Records[o]
	switch unsettled := o < f.Next && f.Unsettled[o]; {
	case r.Damaged:
	case unsettled && r.Serial == 0:
		return fmt.Errorf("log %d: promise 6: offset %d is unsettled after %s, nothing was ever there", m.ID, o, m.loss)
	case !r.Settled && !unsettled && (m.loss == LossNone || r.survives >= m.loss):
		return fmt.Errorf("log %d: promise %s: record %d is lost after %s; found next %d, before: next %d, durable %d",
			m.ID, broken(m.loss, "3"), o, m.loss, f.Next, m.Next(), m.durable)
	case o >= f.Next && f.Next > 0 && r.survives >= max(m.loss, LossKill) && !m.AcksDamaged && !tainted:
		return fmt.Errorf("log %d: promise 7: after %s offset %d, which was on disk, is going to be given again: found next %d, before: next %d",
			m.ID, m.loss, o, f.Next, m.Next())
	case r.Settled && unsettled && !m.AcksDamaged && (m.loss == LossNone || r.acked >= m.loss):
		return fmt.Errorf("log %d: promise %s: record %d was settled before %s and is back; found next %d, before: next %d, low %d",
			m.ID, broken(m.loss, "5"), o, m.loss, f.Next, m.Next(), m.low)
	}
	return nil
}

func broken(loss Loss, otherwise string) string {
	if loss == LossNone {
		return "4"
	}
	return otherwise
}

// adoptCursor: the cursor is exact after a clean stop of a log that holds
// something; else it is one of those set before.
func (m *LogModel) adoptCursor(f Found) error {
	holds := false
	for _, unsettled := range f.Unsettled {
		holds = holds || unsettled
	}
	known := false
	for i := len(m.cursors) - 1; i >= 0 && !known; i-- {
		known = min(m.cursors[i], f.Next) == f.Cursor
		if m.loss == LossNone && holds && !m.AcksDamaged {
			break
		}
	}
	if !known {
		return fmt.Errorf("log %d: promise 4: cursor %d after %s, was %d", m.ID, f.Cursor, m.loss, m.Cursor())
	}
	m.cursors = append(m.cursors, f.Cursor) // a cut or a flip may bring an older one back
	return nil
}

// String names the stop.
func (l Loss) String() string {
	switch l {
	case LossNone:
		return "a clean stop"
	case LossKill:
		return "a kill"
	case LossPower:
		return "a power cut"
	}
	return "?"
}

// FillBody fills body with the bytes of the record with that serial number.
func FillBody(body []byte, serial uint64) {
	x := serial*0x9E3779B97F4A7C15 + 1
	for i := range body {
		if i%8 == 0 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		body[i] = byte(x >> (i % 8 * 8))
	}
}

// SameBody reports whether body is that of the record.
func (r *Record) SameBody(body []byte) bool {
	if len(body) != r.Size {
		return false
	}
	x := r.Serial*0x9E3779B97F4A7C15 + 1
	for i, b := range body {
		if i%8 == 0 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		if b != byte(x>>(i%8*8)) {
			return false
		}
	}
	return true
}

// NoOffset is no offset of a record.
const NoOffset = math.MaxUint64
