package bodies

import (
	"bytes"
	"testing"
)

func TestRef_Format(t *testing.T) {
	r := Ref{ID: 0x0102030405060708, Size: 0x1112131415, Sum: 0x21222324}
	want := []byte{8, 7, 6, 5, 4, 3, 2, 1, 0x15, 0x14, 0x13, 0x12, 0x11, 0, 0, 0, 0x24, 0x23, 0x22, 0x21, 0, 0, 0, 0}
	if got := r.Append(nil); !bytes.Equal(got, want) {
		t.Fatalf("% x", got)
	}
}

func FuzzDecodeRef(f *testing.F) {
	f.Add(Ref{ID: 1, Size: 2, Sum: 3}.Append(nil))
	f.Add([]byte("123456789012345678901234"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, ok := DecodeRef(data)
		if ok && !bytes.Equal(r.Append(nil), data) {
			t.Fatalf("%+v does not encode to % x", r, data)
		}
	})
}

func TestParseID(t *testing.T) {
	for name, want := range map[string]bool{"0000000000000064": true, "ffffffffffffffff": true, "64": false, "000000000000006G": false, "00000000000000FF": false, "": false, "+000000000000064": false} {
		if _, ok := parseID(name); ok != want {
			t.Errorf("%q: %v", name, ok)
		}
	}
}
