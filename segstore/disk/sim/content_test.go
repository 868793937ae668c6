package sim

import (
	"bytes"
	"testing"
)

func TestContent_ClonesAreIndependent(t *testing.T) {
	c := newContent()
	c.write(0, bytes.Repeat([]byte{1}, 2*pageBytes), fileBytesMax)
	before := c.bytes()
	clone := c.clone()
	c.write(5, []byte{2}, 0)
	c.free(pageBytes, 2*pageBytes)
	if !bytes.Equal(clone.bytes(), before) {
		t.Error("a write to the original changed the clone")
	}
	changed := c.bytes()
	clone.write(7, []byte{3}, 0)
	clone.truncate(9)
	if !bytes.Equal(c.bytes(), changed) {
		t.Error("a write to the clone changed the original")
	}
}

func TestContent_HolesTakeNoPages(t *testing.T) {
	c := newContent()
	c.truncate(1 << 40)
	c.write(1<<39, []byte("x"), fileBytesMax)
	other := newContent()
	other.copySector(c, 0, 512)
	if len(c.pages) != 1 || len(other.pages) != 0 {
		t.Errorf("%d pages for one byte, %d for none", len(c.pages), len(other.pages))
	}
	buf := bytes.Repeat([]byte{9}, 3)
	if n := c.read(1<<39-1, buf); n != 3 || !bytes.Equal(buf, []byte{0, 'x', 0}) {
		t.Errorf("read %d bytes %q", n, buf)
	}
	other.write(0, bytes.Repeat([]byte{1}, 1024), fileBytesMax)
	other.copySector(c, 512, 512)
	if got := other.bytes(); got[511] != 1 || !bytes.Equal(got[512:], make([]byte, 512)) {
		t.Error("the sector of a hole is not zeros")
	}
}
