package access

import (
	"bytes"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/xdg-go/stringprep"
	"golang.org/x/crypto/bcrypt"
)

// TestPrepared_RFC4013_3 has the examples of the RFC. What it refuses counts as it
// is here.
func TestPrepared_RFC4013_3(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"I\u00adX": "IX", "user": "user", "USER": "USER", "\u00aa": "a", "\u2168": "IX", "\u0007": "\u0007", "\u0627\u0031": "\u0627\u0031",
		"": "", "a\u0300": "\u00e0", "pa\u00a0ss": "pa ss", "\u00ad": "\u00ad", "\xff\xfe": "\xff\xfe",
		"\u017f\U0001f600": "s\U0001f600", // what Unicode 3.2 did not have
		"\u00e0\u0007":     "\u00e0\u0007",
	} {
		if got := string(Prepared([]byte(text))); got != want {
			t.Errorf("%+q: %+q, want %+q", text, got, want)
		}
	}
}

// TestPrepared_AgainstLibrary compares every code point with another
// implementation's tables.
func TestPrepared_AgainstLibrary(t *testing.T) {
	t.Parallel()
	moved := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		_, isNothing := stringprep.TableB1.Map(r)
		isNothing = isNothing || r == 0x1806 // which is in the RFC, and not in the library
		if within(r, mappedToNothing) != isNothing || within(r, mappedToSpace) != stringprep.TableC1_2.Contains(r) {
			t.Fatalf("%U: nothing %v, a space %v", r, within(r, mappedToNothing), within(r, mappedToSpace))
		}
		want := false
		for _, set := range stringprep.SASLprep.Prohibits[1:] {
			want = want || set.Contains(r)
		}
		if got := within(r, prohibited) || r&0xfffe == 0xfffe; got != want {
			t.Fatalf("%U: prohibited %v", r, got)
		}
		if want || stringprep.TableA1.Contains(r) {
			continue // not allowed in any direction, or of later versions of Unicode
		}
		var d direction
		switch {
		case stringprep.TableD1.Contains(r):
			d = rightToLeft
		case stringprep.TableD2.Contains(r):
			d = leftToRight
		}
		if got := directionOf(r); got != d {
			moved++ // Unicode has changed its mind about some that are neutral now, or were
			if got == rightToLeft || d == rightToLeft {
				t.Errorf("%U: direction %d, want %d", r, got, d)
			}
		}
	}
	if moved > 400 {
		t.Errorf("%d code points have another direction", moved)
	}
}

// TestPassword_Prepared: a password can be written in any way that looks the same;
// one that came as a hash counts as it was hashed, too.
func TestPassword_Prepared(t *testing.T) {
	t.Parallel()
	composed, decomposed := []byte("p\u00e4ss"), []byte("pa\u0308ss")
	text, err := bcrypt.GenerateFromPassword(composed, bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	bcrypted := Hash{Algorithm: Bcrypt, Text: string(text)}
	long, err := HashPasswordWith(SHA512, decomposed)
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]Hash{"composed": HashPassword(composed), "decomposed": HashPassword(decomposed), "bcrypt": bcrypted, "SHA-512": long} {
		if !h.Matches(composed) || !h.Matches(decomposed) || h.Matches([]byte("pass")) {
			t.Errorf("%s: %v, %v", name, h.Matches(composed), h.Matches(decomposed))
		}
	}
	elsewhere := saltedHash(SHA256, []byte("salt"), decomposed)
	if !elsewhere.Matches(decomposed) || elsewhere.Matches([]byte("other \u00e4")) {
		t.Error("a hash that was made of the bytes as they were")
	}
	salt := []byte("0123456789abcdef")
	if a, b := newScram(composed, salt, 1).String(), newScram(decomposed, salt, 1).String(); a != b {
		t.Errorf("%s, %s", a, b)
	}
}

// FuzzPrepared: preparing twice is preparing once, and makes text of text.
func FuzzPrepared(f *testing.F) {
	for _, text := range []string{"I\u00adX", "\u00aa", "\u0627\u0031", "a\u0308\u0323", "\xff", "\u1100\u1161\u11a8", "\U0001f600\u200d"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once := Prepared(bytes.Clone(text))
		if twice := Prepared(bytes.Clone(once)); !bytes.Equal(once, twice) {
			t.Fatalf("%+q: %+q, then %+q", text, once, twice)
		}
		if utf8.Valid(text) && !utf8.Valid(once) {
			t.Fatalf("%+q: %+q", text, once)
		}
	})
}
