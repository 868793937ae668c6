package routing

import (
	"bytes"
	"hash/maphash"
	"math"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// fieldSet is a field table taken apart once, so that names are found without
// walking the encoded table again. Of repeated names the first counts, as for
// amqp.Table.Lookup. Names and values are views of the table.
type fieldSet struct {
	fields []field
	index  []uint32 // open addressing by name hash, position+1; used when fields are many
	mask   uint32   // length of index in use - 1; 0: few fields, search them in turn
}

type field struct {
	name     []byte
	nameHash uint64
	value    amqp.Value
}

const (
	// fieldsInTurnMax is up to how many fields comparing hashes one by one
	// beats clearing and filling an index.
	fieldsInTurnMax = 16
	// fieldsKeptMax bounds what one message with tens of thousands of headers
	// leaves in the pool (about 80 bytes a field).
	fieldsKeptMax = 1024
)

// parse replaces the content by the fields of table.
func (f *fieldSet) parse(table amqp.Table) {
	f.fields, f.mask = f.fields[:0], 0
	if len(table) == 0 {
		return
	}
	if count := table.Len(); count > fieldsInTurnMax {
		size := 1
		for size < 2*count {
			size *= 2
		}
		if len(f.index) < size {
			f.index = make([]uint32, size)
		}
		clear(f.index[:size])
		f.mask = uint32(size - 1)
	}
	for name, value := range table.All() {
		hash := maphash.Bytes(hashSeed, name)
		if f.find(hash, name) != nil {
			continue
		}
		f.fields = append(f.fields, field{name, hash, value})
		if f.mask != 0 {
			position := uint32(hash) & f.mask
			for f.index[position] != 0 {
				position = (position + 1) & f.mask
			}
			f.index[position] = uint32(len(f.fields))
		}
	}
}

// find returns the field of a name, nil when there is none.
func (f *fieldSet) find(nameHash uint64, name []byte) *field {
	if f.mask == 0 {
		for i := range f.fields {
			if found := &f.fields[i]; found.nameHash == nameHash && bytes.Equal(found.name, name) {
				return found
			}
		}
		return nil
	}
	for position := uint32(nameHash) & f.mask; f.index[position] != 0; position = (position + 1) & f.mask {
		if found := &f.fields[f.index[position]-1]; found.nameHash == nameHash && bytes.Equal(found.name, name) {
			return found
		}
	}
	return nil
}

func (f *fieldSet) reset() {
	clear(f.fields)
	f.fields = f.fields[:0]
	if cap(f.fields) > fieldsKeptMax {
		f.fields, f.index = nil, nil
	}
}

// Salts keep values of different kinds apart.
const (
	saltNumber uint64 = iota + 0x6a09e667f3bcc908
	saltBool
	saltTimestamp
	saltOther
)

// valueHash hashes a value such that values equal by amqp.Equal hash equally.
// selective is false for kinds whose values all hash alike: decimals, arrays,
// tables and void, on which nobody routes in numbers.
func valueHash(v amqp.Value) (hash uint64, selective bool) {
	if content, ok := v.Bytes(); ok { // S and x compare by their bytes
		return maphash.Bytes(hashSeed, content), true
	}
	if number, ok := v.Int64(); ok { // an equal float converts to the same float64
		return combine(saltNumber, floatBits(float64(number))), true
	}
	if number, ok := v.Float64(); ok {
		return combine(saltNumber, floatBits(number)), true
	}
	if value, ok := v.Bool(); ok {
		if value {
			return combine(saltBool, 1), true
		}
		return combine(saltBool, 0), true
	}
	if seconds, ok := v.Timestamp(); ok {
		return combine(saltTimestamp, seconds), true
	}
	return combine(saltOther, 0), false
}

// floatBits maps both zeros to one value, and all NaNs.
func floatBits(number float64) uint64 {
	switch {
	case number == 0:
		return 0
	case number != number:
		return 1
	}
	return math.Float64bits(number)
}

// tableHash hashes a table such that tables equal by amqp.TableEqual hash
// equally: a sum over the fields, in which order plays no part.
func tableHash(table amqp.Table) uint64 {
	if len(table) == 0 {
		return 0
	}
	s := acquireScratch()
	s.fields.parse(table)
	sum := uint64(0)
	for i := range s.fields.fields {
		f := &s.fields.fields[i]
		hash, _ := valueHash(f.value)
		sum += combine(f.nameHash, hash)
	}
	s.release()
	return sum
}
