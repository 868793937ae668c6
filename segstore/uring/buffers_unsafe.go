//go:build uring && linux

package uring

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
)

const bufferEntryBytes = 16

var _ [bufferEntryBytes]byte = [unsafe.Sizeof(giouring.BufAndRing{})]byte{}

// bufferEntries views a page-aligned mapping as entries. Sound: the entry has no
// pointers, its size divides the mapping, and the view is dropped before the
// mapping is.
func bufferEntries(mapping []byte) []giouring.BufAndRing {
	return unsafe.Slice((*giouring.BufAndRing)(unsafe.Pointer(unsafe.SliceData(mapping))), len(mapping)/bufferEntryBytes)
}

// storeTail publishes the tail with release ordering. Go has no 16-bit atomic
// store, so the id next to it is stored again with it: only this side writes ids,
// and bytes 12 to 15 of an entry are an aligned word.
func storeTail(first *giouring.BufAndRing, tail uint16) {
	var word [4]byte
	binary.NativeEndian.PutUint16(word[0:], first.Bid)
	binary.NativeEndian.PutUint16(word[2:], tail)
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&first.Bid)), binary.NativeEndian.Uint32(word[:]))
}

// pollWord is the poll mask as the kernel reads it: the two halves of the
// 32-bit word are swapped on big-endian machines.
func pollWord(events uint32) uint32 {
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		return events<<16 | events>>16
	}
	return events
}
