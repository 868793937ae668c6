package segstore

// Positions remembers where records are in the batches that were read last, for
// Readers that pass over most of them: of consumers that take turns at a log each
// wants every k-th record, and would otherwise walk over all that the others get.
// What one has walked over the others find here. Readers that share Positions
// (Reader.Use) must all be used by the same goroutine. The zero value is empty.
type Positions struct {
	batches [positionBatches]placed
	last    int // found or made last: consumers read forward
	stamp   uint64
}

const (
	// positionBatches bounds what is remembered: consumers that share a log are not
	// further apart than that, or walk.
	positionBatches = 32
	// positionStep: so many records share a remembered position. Of a batch of a
	// thousand that takes 1 KiB.
	positionStep = 4
	// walkMax: passing over fewer records is cheaper by walking.
	walkMax = 8
)

// placed is what is known of a batch. The bytes that are at an address are those of
// the same batch as long as log, offsets and address are the same: offsets are
// never used again.
type placed struct {
	log       *Log
	first     *byte
	base, end uint64
	stamp     uint64
	at        []uint32 // of every positionStep-th record, from the batch's beginning
}

// Use has the reader remember and look up positions in p.
func (r *Reader) Use(p *Positions) { r.positions = p }

// jump moves the reader, which stands before offset, to the last known position
// that is not behind it.
func (r *Reader) jump(offset uint64) {
	b := r.places
	if b == nil || b.stamp != r.placesStamp || r.placesFor != r.seq {
		b = r.positions.of(r)
		r.places, r.placesStamp, r.placesFor = b, b.stamp, r.seq
	}
	i := (offset - b.base) / positionStep
	r.pos, r.offset = r.batchPos+int(b.at[i]), b.base+i*positionStep
}

// of finds the reader's batch, or walks over it.
func (p *Positions) of(r *Reader) *placed {
	first := &r.data[r.batchPos]
	for n := range positionBatches {
		i := (p.last + n) % positionBatches
		if b := &p.batches[i]; b.first == first && b.log == r.log && b.base == r.base && b.end == r.end {
			p.last = i
			return b
		}
	}
	p.last = p.oldest()
	b := &p.batches[p.last]
	p.stamp++
	*b = placed{log: r.log, first: first, base: r.base, end: r.end, stamp: p.stamp, at: b.at[:0]}
	r.rewind()
	for at := r.base; ; at += positionStep {
		b.at = append(b.at, uint32(r.pos-r.batchPos))
		if r.end-at <= positionStep {
			return b
		}
		r.step(at + positionStep)
	}
}

func (p *Positions) oldest() (at int) {
	for i := range p.batches {
		if p.batches[i].stamp < p.batches[at].stamp {
			at = i
		}
	}
	return at
}
