package broker

import (
	"bytes"
	"strconv"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Filters of streams. A publisher names what a message is about in the header
// x-stream-filter-value: one value, or several separated by commas. A consumer
// names what it wants in x-stream-filter: a string, or an array of strings, of
// which any will do; with x-stream-match-unfiltered also messages without a
// value. Tables in x-stream-filter ask for headers: name and value, compared as
// text. x-filter-match-type says whether all of these conditions have to hold
// (all, the default) or one of them (any); the values together are one.
//
// Each batch of a stream that has a value in it carries a Bloom filter of the
// values, x-stream-filter-size-bytes long, and of the empty one if there are
// messages without:
//
//	two bits for each value v: (h1 + i*h2) mod bits, i = 0, 1, where h1 and h2 are
//	the low and the high half of the FNV-1a hash of v, 64 bits; the lowest bit of
//	a byte first
//
// A batch without any has none. What passes the Bloom filter is compared in full.

const (
	headerFilterValue  = "x-stream-filter-value"
	argumentFilter     = "x-stream-filter"
	argumentMatchType  = "x-filter-match-type"
	argumentUnfiltered = "x-stream-match-unfiltered"

	bloomBits = 2
	// filterTermsMax bounds the conditions of one consumer.
	filterTermsMax = 1000
)

type headerCondition struct {
	name  string
	value []byte
}

// streamFilter is immutable once made.
type streamFilter struct {
	values     [][]byte
	hashes     []uint64 // of values, and of the empty one if unfiltered
	headers    []headerCondition
	any        bool
	unfiltered bool
	query      segstore.Query
}

// parseStreamFilter reads the arguments of a consumer; nil: there is no filter.
// name is the argument that has the problem.
func parseStreamFilter(arguments amqp.Table) (f *streamFilter, name, problem string) {
	f = &streamFilter{}
	if v, ok := arguments.Lookup(argumentUnfiltered); ok && v.Kind() != amqp.KindVoid {
		if f.unfiltered, ok = v.Bool(); !ok {
			return nil, argumentUnfiltered, unacceptableType(v)
		}
	}
	if v, ok := arguments.Lookup(argumentMatchType); ok && v.Kind() != amqp.KindVoid {
		switch text, _ := v.Bytes(); string(text) {
		case "all":
		case "any":
			f.any = true
		default:
			return nil, argumentMatchType, "invalid_match_type"
		}
	}
	v, ok := arguments.Lookup(argumentFilter)
	if !ok || v.Kind() == amqp.KindVoid {
		return nil, "", ""
	}
	if array, ok := v.Array(); ok {
		for element := range array.All() {
			if problem = f.addTerm(element); problem != "" {
				return nil, argumentFilter, problem
			}
		}
	} else if problem = f.addTerm(v); problem != "" {
		return nil, argumentFilter, problem
	}
	if len(f.values)+len(f.headers) == 0 {
		return nil, "", ""
	}
	if len(f.values) > 0 && !(f.any && len(f.headers) > 0) {
		for _, value := range f.values {
			f.hashes = append(f.hashes, filterHash(value))
		}
		if f.unfiltered {
			f.hashes = append(f.hashes, filterHash(nil))
		}
		f.query.Wanted = f.mayMatch
	}
	return f, "", ""
}

func (f *streamFilter) addTerm(v amqp.Value) (problem string) {
	if text, ok := v.Bytes(); ok {
		f.values = append(f.values, bytes.Clone(text))
		if bytes.IndexByte(text, ',') >= 0 {
			for part := range bytes.SplitSeq(text, []byte{','}) {
				f.values = append(f.values, bytes.Clone(part))
			}
		}
	} else if table, ok := v.Table(); ok {
		for name, value := range table.All() {
			text, ok := appendText(nil, value)
			if !ok {
				return unacceptableType(value)
			}
			f.headers = append(f.headers, headerCondition{string(name), text})
		}
	} else {
		return unacceptableType(v)
	}
	if len(f.values)+len(f.headers) > filterTermsMax {
		return "too_many_conditions"
	}
	return ""
}

// appendText renders a value the way it is compared; false for what has no text.
func appendText(dst []byte, v amqp.Value) ([]byte, bool) {
	if text, ok := v.Bytes(); ok {
		return append(dst, text...), true
	}
	if n, ok := v.Int64(); ok {
		return strconv.AppendInt(dst, n, 10), true
	}
	if on, ok := v.Bool(); ok {
		return strconv.AppendBool(dst, on), true
	}
	if x, ok := v.Float64(); ok {
		return strconv.AppendFloat(dst, x, 'g', -1, 64), true
	}
	if seconds, ok := v.Timestamp(); ok {
		return strconv.AppendUint(dst, seconds, 10), true
	}
	return dst, false
}

// matches says whether messages with these encoded properties are wanted.
func (f *streamFilter) matches(properties []byte) bool {
	headers := headersIn(properties)
	if len(f.values) > 0 && f.matchesValue(headers) {
		if f.any || len(f.headers) == 0 {
			return true
		}
	} else if len(f.values) > 0 && !f.any {
		return false
	}
	var scratch [64]byte
	for i := range f.headers {
		c := &f.headers[i]
		v, ok := headers.Lookup(c.name)
		if ok {
			var text []byte
			if text, ok = v.Bytes(); !ok {
				text, ok = appendText(scratch[:0], v)
			}
			ok = ok && bytes.Equal(text, c.value)
		}
		if ok == f.any {
			return ok
		}
	}
	return !f.any
}

func (f *streamFilter) matchesValue(headers amqp.Table) bool {
	value, ok := filterValue(headers)
	if !ok {
		return f.unfiltered
	}
	for _, want := range f.values {
		if bytes.Equal(value, want) {
			return true
		}
	}
	for rest := value; bytes.IndexByte(value, ',') >= 0; {
		part, more, found := bytes.Cut(rest, []byte{','})
		for _, want := range f.values {
			if bytes.Equal(part, want) {
				return true
			}
		}
		if !found {
			return false
		}
		rest = more
	}
	return false
}

// mayMatch says whether a batch with that Bloom filter may hold something wanted.
func (f *streamFilter) mayMatch(bloom []byte) bool {
	if bloom == nil {
		return f.unfiltered
	}
	for _, h := range f.hashes {
		if bloomHas(bloom, h) {
			return true
		}
	}
	return false
}

// headersIn are the headers in encoded properties, as a view; empty if there are
// none.
func headersIn(properties []byte) amqp.Table {
	if len(properties) < 2 || properties[0]&byte(amqp.FlagHeaders>>8) == 0 {
		return nil
	}
	p, err := amqp.DecodeProperties(clearMarks(properties))
	if err != nil {
		return nil
	}
	return p.Headers
}

func filterValue(headers amqp.Table) ([]byte, bool) {
	v, ok := headers.Lookup(headerFilterValue)
	if !ok {
		return nil, false
	}
	return v.Bytes()
}

// filterHash is FNV-1a. It is part of the format.
func filterHash(value []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range value {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

func bloomAdd(bloom []byte, hash uint64) {
	for i := range uint64(bloomBits) {
		bit := (hash&0xFFFFFFFF + i*(hash>>32)) % uint64(len(bloom)*8)
		bloom[bit/8] |= 1 << (bit % 8)
	}
}

func bloomHas(bloom []byte, hash uint64) bool {
	for i := range uint64(bloomBits) {
		bit := (hash&0xFFFFFFFF + i*(hash>>32)) % uint64(len(bloom)*8)
		if bloom[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
	}
	return true
}

// headed says whether messages of the batch have headers at all.
func headed(b *segstore.Batch) bool {
	for i := range b.Templates() {
		if p := b.TemplateAt(i).Properties; len(p) > 0 && p[0]&byte(amqp.FlagHeaders>>8) != 0 {
			return true
		}
	}
	return false
}

// setFilter gives a batch that goes to a stream its Bloom filter.
func (s *stream) setFilter(b *segstore.Batch) {
	var bits [segstore.FilterBytesMax]byte
	bloom := bits[:s.filterBytes]
	some, bare := false, false
	for i := range b.Templates() {
		value, ok := filterValue(headersIn(b.TemplateAt(i).Properties))
		if !ok {
			bare = true
			continue
		}
		some = true
		bloomAdd(bloom, filterHash(value))
		for rest := value; bytes.IndexByte(value, ',') >= 0; {
			part, more, found := bytes.Cut(rest, []byte{','})
			bloomAdd(bloom, filterHash(part))
			if !found {
				break
			}
			rest = more
		}
	}
	switch {
	case !some:
		b.SetFilter(nil)
		return
	case bare:
		bloomAdd(bloom, filterHash(nil))
	}
	b.SetFilter(bloom)
}
