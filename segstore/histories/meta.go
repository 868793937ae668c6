package histories

import (
	"bytes"
	"fmt"
)

// MetaRecord is one record of the store's owner in the journal.
type MetaRecord struct {
	Seq  uint64
	Data []byte
}

// MetaModel is the list of meta records that may come back (promise 11).
// Sequence numbers are never used twice, so that one that was lost is known if
// it appears again.
type MetaModel struct {
	records   []MetaRecord
	last      uint64 // highest number given
	durable   uint64 // MetaDurable of this life
	appended  uint64 // highest number of this life
	written   uint64 // highest number that must come back after a kill
	promised  uint64 // and after a power cut
	loss      Loss   // the worst stop since they were adopted
	elsewhere uint64 // up to here a checkpoint took them over
}

// Append makes the next record.
func (m *MetaModel) Append(data []byte) uint64 {
	m.last++
	m.appended = m.last
	m.records = append(m.records, MetaRecord{m.last, data})
	return m.last
}

// WantDurable is what MetaDurable must come to in this life.
func (m *MetaModel) WantDurable() uint64 { return m.appended }

// Last is the highest number given.
func (m *MetaModel) Last() uint64 { return m.last }

// TookOver notes that a checkpoint made all records up to seq durable
// elsewhere.
func (m *MetaModel) TookOver(seq uint64) { m.elsewhere = max(m.elsewhere, seq) }

// ObserveDurable notes MetaDurable. level is the worst stop that durable records
// survive.
func (m *MetaModel) ObserveDurable(durable uint64, level Loss) error {
	if durable < m.durable || durable > m.last {
		return fmt.Errorf("promise 11: MetaDurable went from %d to %d; the last record is %d", m.durable, durable, m.last)
	}
	m.durable = durable
	m.written = max(m.written, durable)
	if level == LossPower {
		m.promised = max(m.promised, durable)
	}
	return nil
}

// Stop notes that the store stopped.
func (m *MetaModel) Stop(loss Loss) {
	if loss == LossNone {
		m.promised = m.last
	}
	m.loss = max(m.loss, loss)
	m.durable, m.appended = 0, 0
}

// Forgive takes back what was promised for the records there are.
func (m *MetaModel) Forgive() { m.elsewhere, m.promised, m.written = m.last, 0, 0 }

// Adopt compares what Open found.
func (m *MetaModel) Adopt(found []MetaRecord) error {
	must := m.promised
	if m.loss != LossPower {
		must = max(must, m.written)
	}
	m.loss = LossNone
	i := 0
	for _, f := range found {
		for i < len(m.records) && m.records[i].Seq < f.Seq && m.records[i].Seq <= m.elsewhere {
			i++ // needed no more
		}
		switch {
		case i == len(m.records) || m.records[i].Seq > f.Seq:
			return fmt.Errorf("promise 11: meta record %d came twice, out of order, or from nowhere", f.Seq)
		case m.records[i].Seq < f.Seq:
			return fmt.Errorf("promise 11: meta record %d is missing before %d", m.records[i].Seq, f.Seq)
		case !bytes.Equal(m.records[i].Data, f.Data):
			return fmt.Errorf("promise 11: meta record %d has changed", f.Seq)
		}
		i++
	}
	for ; i < len(m.records) && m.records[i].Seq <= m.elsewhere; i++ {
	}
	if i < len(m.records) && m.records[i].Seq <= must {
		return fmt.Errorf("promise 11: meta record %d is lost, durable were %d", m.records[i].Seq, must)
	}
	m.records = m.records[:i] // and what is lost must stay away
	return nil
}
