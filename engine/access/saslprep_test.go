package access

import (
	"bytes"
	"testing"
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
	if stringprep.SASLprep.Prohibits[0].Contains('a') || !stringprep.SASLprep.Prohibits[0].Contains(0x0221) || !saslprep().Prohibits[len(saslprep().Prohibits)-1].Contains(0xe0001) {
		t.Error("the library has its tables in another order")
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
