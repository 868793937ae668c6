package routing

import (
	"hash/maphash"
	"math/bits"
)

// hashSeed makes the hashes of this process unpredictable, so that nobody can
// choose routing keys or header values that collide.
var hashSeed = maphash.MakeSeed()

// mix folds a 64-bit value into 32 well-spread bits (the finaliser of
// MurmurHash3, a bijection, whose halves are then added).
func mix(value uint64) uint32 {
	value ^= value >> 33
	value *= 0xff51afd7ed558ccd
	value ^= value >> 33
	value *= 0xc4ceb9fe1a85ec53
	value ^= value >> 33
	return uint32(value) + uint32(value>>32)
}

// combine hashes an ordered pair of 64-bit hashes.
func combine(a, b uint64) uint64 {
	high, low := bits.Mul64(a^0x9e3779b97f4a7c15, b^0xe7037ed1a0b428db)
	return high ^ low ^ bits.RotateLeft64(a, 23)
}

// hashTable maps 32-bit hashes to numbers other than 0, by open addressing with
// linear probing: 8 bytes a slot, at most 3/4 full, without tombstones. Equal
// hashes may occur more than once; the caller verifies what it finds.
type hashTable struct {
	slots []hashSlot // length is zero or a power of two
	count int
	steps uint64 // slots that remove looked at; see store.work
}

type hashSlot struct{ hash, value uint32 }

const hashTableSlotsMin = 8

// home returns the slot where the search for hash starts.
func (t *hashTable) home(hash uint32) uint32 { return hash & uint32(len(t.slots)-1) }

// probe searches from position on for the next value stored under hash. It
// returns the value and where to go on, or 0 when there is no more:
//
//	for v, p := t.probe(h, t.home(h)); v != 0; v, p = t.probe(h, p) { … }
func (t *hashTable) probe(hash, position uint32) (value, next uint32) {
	if len(t.slots) == 0 {
		return 0, 0
	}
	mask := uint32(len(t.slots) - 1)
	for {
		slot := t.slots[position&mask]
		position = (position + 1) & mask
		if slot.value == 0 || slot.hash == hash {
			return slot.value, position
		}
	}
}

// insert adds a pair; an equal pair must not be there already.
func (t *hashTable) insert(hash, value uint32) {
	if (t.count+1)*4 > len(t.slots)*3 {
		t.resize(max(hashTableSlotsMin, len(t.slots)*2))
	}
	t.place(hashSlot{hash, value})
	t.count++
}

func (t *hashTable) place(entry hashSlot) {
	mask := uint32(len(t.slots) - 1)
	position := t.home(entry.hash)
	for t.slots[position].value != 0 {
		position = (position + 1) & mask
	}
	t.slots[position] = entry
}

// remove takes a pair out and closes the gap, so that no search is cut short.
func (t *hashTable) remove(hash, value uint32) {
	mask := uint32(len(t.slots) - 1)
	position := t.home(hash)
	for t.slots[position] != (hashSlot{hash, value}) {
		if t.slots[position].value == 0 {
			panic("routing: removal of a pair that is not in the hash table")
		}
		position = (position + 1) & mask
		t.steps++
	}
	gap := position
	for {
		position = (position + 1) & mask
		t.steps++
		moved := t.slots[position]
		if moved.value == 0 {
			break
		}
		// moved may fill the gap unless its home lies after the gap.
		if (position-t.home(moved.hash))&mask >= (position-gap)&mask {
			t.slots[gap] = moved
			gap = position
		}
	}
	t.slots[gap] = hashSlot{}
	t.count--
	switch {
	case t.count == 0:
		t.slots = nil
	case len(t.slots) > hashTableSlotsMin && t.count*8 < len(t.slots):
		t.resize(len(t.slots) / 2)
	}
}

func (t *hashTable) resize(slots int) {
	old := t.slots
	t.slots = make([]hashSlot, slots)
	for _, entry := range old {
		if entry.value != 0 {
			t.place(entry)
		}
	}
}
