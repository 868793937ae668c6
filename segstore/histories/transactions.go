package histories

import "fmt"

// Transactions remembers which records and settlements belong together, and
// finds after a stop whether they stayed together (promise 10).
type Transactions struct {
	list    []*transaction
	durable uint64 // TxDurable of this life
}

// Piece is one record that a transaction appended or settled.
type Piece struct{ Log, Offset, Serial uint64 }

type transaction struct {
	appended, settled []Piece
	ticket            uint64 // in this life, 0 for one of an earlier life or a durable one
}

// Add notes a transaction. settled are only the records that were unsettled
// before.
func (t *Transactions) Add(ticket uint64, appended, settled []Piece) {
	t.list = append(t.list, &transaction{appended, settled, ticket})
}

// ObserveDurable notes TxDurable. level is the worst stop that durable
// transactions survive.
func (t *Transactions) ObserveDurable(durable uint64, level Loss, logs func(id uint64) *LogModel) error {
	if durable < t.durable {
		return fmt.Errorf("promise 10: TxDurable fell from %d to %d", t.durable, durable)
	}
	t.durable = durable
	for _, x := range t.list {
		if x.ticket == 0 || x.ticket > durable {
			continue
		}
		x.ticket = 0
		for _, p := range x.appended {
			if m := logs(p.Log); m != nil && m.holds(p) && !m.Records[p.Offset].Settled {
				m.Records[p.Offset].survives = max(m.Records[p.Offset].survives, level)
			}
		}
		for _, p := range x.settled {
			if m := logs(p.Log); m != nil && m.holds(p) {
				m.Records[p.Offset].acked = max(m.Records[p.Offset].acked, level)
			}
		}
	}
	return nil
}

// Stop notes that the store stopped.
func (t *Transactions) Stop() {
	t.durable = 0
	for _, x := range t.list {
		x.ticket = 0
	}
}

// Adopted compares after a stop, when the logs that logs returns were adopted;
// nil stands for one that can't be asked.
func (t *Transactions) Adopted(logs func(id uint64) *LogModel) error {
	kept := t.list[:0]
	for _, x := range t.list {
		here, gone := "", ""
		for _, p := range x.appended {
			if m := logs(p.Log); m != nil {
				switch {
				case m.vanished[p.Serial]:
					gone = fmt.Sprintf("record %d of log %d is not there", p.Offset, p.Log)
				case m.holds(p) && !m.Records[p.Offset].Settled:
					here = fmt.Sprintf("record %d of log %d is there", p.Offset, p.Log)
				}
			}
		}
		for _, p := range x.settled {
			if m := logs(p.Log); m != nil && m.holds(p) && !m.AcksDamaged {
				switch {
				case !m.Records[p.Offset].Settled:
					gone = fmt.Sprintf("record %d of log %d is not settled", p.Offset, p.Log)
				case m.stayedSettled[p.Serial]:
					here = fmt.Sprintf("record %d of log %d is settled", p.Offset, p.Log)
				}
			}
		}
		if here != "" && gone != "" {
			return fmt.Errorf("promise 10: a transaction came apart: %s, %s", here, gone)
		}
		if gone == "" {
			kept = append(kept, x)
		}
	}
	t.list = kept
	return nil
}

// holds reports whether the log still has the record, undamaged.
func (m *LogModel) holds(p Piece) bool {
	return p.Offset < m.Next() && m.Records[p.Offset].Serial == p.Serial && !m.Records[p.Offset].Damaged
}

// noteOutcome keeps what Adopted needs of a record that is about to be adopted.
func (m *LogModel) noteOutcome(o uint64, f Found) {
	r := &m.Records[o]
	unsettled := o < f.Next && f.Unsettled[o]
	switch {
	case r.Damaged:
	case !r.Settled && !unsettled:
		m.vanished[r.Serial] = true
	case unsettled:
		r.unsure = false
	case r.Settled && o < f.Next && r.survives < m.loss:
		r.unsure = true // from now on, whatever stops come
	case r.Settled && o < f.Next && !r.unsure:
		// The record itself must be there, so it is its settlement that hides it.
		m.stayedSettled[r.Serial] = true
	}
}
