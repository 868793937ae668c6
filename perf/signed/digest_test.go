package signed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The first vectors of RFC 9861, section 5: the empty message, and messages of
// 17^n bytes of the pattern 00 to FA.
func TestDigestFile_RFC9861_Vectors(t *testing.T) {
	pattern := make([]byte, 17*17*17*17)
	for i := range pattern {
		pattern[i] = byte(i % 251)
	}
	for length, want := range map[int]string{
		0:                 "1ac2d450fc3b4205d19da7bfca1b37513c0803577ac7167f06fe2ce1f0ef39e5",
		1:                 "2bda92450e8b147f8a7cb629e784a058efca7cf7d8218e02d345dfaa65244a1f",
		17:                "6bf75fa2239198db4772e36478f8e19b0f371205f6a9a93a273f51df37122888",
		17 * 17:           "0c315ebcdedbf61426de7dcf8fb725d1e74675d7f5327a5067f367b108ecb67c",
		17 * 17 * 17:      "cb552e2ec77d9910701d578b457ddf772c12e322e4ee7fe417f92c758f0d59d0",
		17 * 17 * 17 * 17: "8701045e22205345ff4dda05555cbb5c3af1a771c2b89baef37db43d9998b9fe",
	} {
		path := filepath.Join(t.TempDir(), fmt.Sprint(length))
		if err := os.WriteFile(path, pattern[:length], 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := DigestFile(path); err != nil || got != want {
			t.Errorf("%d bytes: %s, %v; want %s", length, got, err, want)
		}
	}
	if _, err := DigestFile(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "can't read the binary") {
		t.Errorf("no file: %v", err)
	}
}
