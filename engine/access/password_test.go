package access

import (
	"strings"
	"testing"
)

// madeElsewhere are hashes of "test12" by other programs: Python's hashlib (the
// first is also the example of RabbitMQ's documentation), libcrypt, and Python's
// cryptography.
var madeElsewhere = []struct {
	name, algorithm, text string
	want                  Algorithm
}{
	{"sha256", "rabbit_password_hashing_sha256", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", SHA256},
	{"sha512", "rabbit_password_hashing_sha512", "kI3GChuNuIYf8lRbCCxZjgjKwsY19ns6+uFO0zcXRBGA/XGJPYD8OWMy7EB8TaOmAzjP2azv84GbINYwX2cDWb4DHnc=", SHA512},
	{"md5", "rabbit_password_hashing_md5", "kI3GChNpte2FApYFXScl+0dIluk=", MD5},
	{"no algorithm means md5", "", "kI3GChNpte2FApYFXScl+0dIluk=", MD5},
	{"bcrypt", "bcrypt", "$2b$04$abcdefghijklmnopqrstuu.DVVGLfP4tg2vyQ7TXKFqBaf6BeH1Ge", Bcrypt},
	{"bcrypt of LavinMQ", "lavinmq_bcrypt", "$2b$04$abcdefghijklmnopqrstuu.DVVGLfP4tg2vyQ7TXKFqBaf6BeH1Ge", Bcrypt},
	{"bcrypt by its text", "", "$2b$04$abcdefghijklmnopqrstuu.DVVGLfP4tg2vyQ7TXKFqBaf6BeH1Ge", Bcrypt},
	{"argon2id", "argon2id", "$argon2id$v=19$m=1024,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$7Tz7sAXvTmLRvtKHNLDqQk1DuM2E1HRe0XTcDGk31u0", Argon2id},
	{"argon2id by its text", "", "$argon2id$v=19$m=1024,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$7Tz7sAXvTmLRvtKHNLDqQk1DuM2E1HRe0XTcDGk31u0", Argon2id},
}

func TestParseHash_MadeElsewhere(t *testing.T) {
	t.Parallel()
	for _, row := range madeElsewhere {
		h, err := ParseHash(row.algorithm, row.text)
		if err != nil || h.Algorithm != row.want {
			t.Errorf("%s: %+v, %v", row.name, h, err)
			continue
		}
		for password, want := range map[string]bool{"test12": true, "test1": false, "test123": false, "": false, "TEST12": false} {
			if got := h.Matches([]byte(password)); got != want {
				t.Errorf("%s: %q matches: %v", row.name, password, got)
			}
		}
		if h.Slow() != (row.want == Bcrypt || row.want == Argon2id) {
			t.Errorf("%s: slow %v", row.name, h.Slow())
		}
	}
}

func TestParseHash_Refused(t *testing.T) {
	t.Parallel()
	digest := strings.Repeat("A", 43)
	rows := []struct{ algorithm, text, want string }{
		{"rabbit_password_hashing_sha256", "not base64!", "not base64"},
		{"rabbit_password_hashing_sha256", "kI3GChNpte2FApYFXScl+0dIluk=", "digest of 32"}, // an MD5 one
		{"rabbit_password_hashing_sha512", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "digest of 64"},
		{"", "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR", "digest of 16"},
		{"crc32", "kI3GChNpte2FApYFXScl+0dIluk=", "'crc32' is not known"},
		{"bcrypt", "$2b$04$short", "bcrypt"},
		{"bcrypt", "$2b$31$abcdefghijklmnopqrstuu.DVVGLfP4tg2vyQ7TXKFqBaf6BeH1Ge", "cost 31"},
		{"argon2id", "$argon2i$v=19$m=1024,t=2,p=1$c2FsdHNhbHQ$" + digest, "argon2id"},
		{"argon2id", "$argon2id$v=16$m=1024,t=2,p=1$c2FsdHNhbHQ$" + digest, "version"},
		{"argon2id", "$argon2id$v=19$m=99999999,t=2,p=1$c2FsdHNhbHQ$" + digest, "take the machine"},
		{"argon2id", "$argon2id$v=19$m=1024,t=0,p=1$c2FsdHNhbHQ$" + digest, "parameters"},
		{"argon2id", "$argon2id$v=19$m=1024,t=2,p=1,x=2$c2FsdHNhbHQ$" + digest, "parameters"},
		{"argon2id", "$argon2id$v=19$m=1024,t=2,p=1$c2E$" + digest, "8 to 64"},
	}
	for _, row := range rows {
		if _, err := ParseHash(row.algorithm, row.text); !IsReason(err, Invalid) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s %s: %v, want %q", row.algorithm, row.text, err, row.want)
		}
	}
	if h, err := ParseHash("rabbit_password_hashing_sha256", ""); err != nil || !h.IsZero() {
		t.Errorf("a user without a password: %+v, %v", h, err)
	}
}

func TestHashPassword(t *testing.T) {
	t.Parallel()
	for _, a := range []Algorithm{SHA256, SHA512, MD5, Bcrypt, Argon2id} {
		h, err := HashPasswordWith(a, []byte("päss wörd"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseHash(string(h.Algorithm), h.Text)
		if err != nil || again != h {
			t.Errorf("%s: %+v reads as %+v, %v", a, h, again, err)
		}
		if !h.Matches([]byte("päss wörd")) || h.Matches([]byte("päss wörd ")) {
			t.Errorf("%s: %+v does not match what it should", a, h)
		}
	}
	if a, b := HashPassword([]byte("x")), HashPassword([]byte("x")); a == b || a.Algorithm != SHA256 {
		t.Errorf("%+v, %+v: no salt, or not SHA-256", a, b)
	}
	if _, err := HashPasswordWith(Bcrypt, make([]byte, 73)); !IsReason(err, Invalid) {
		t.Errorf("73 bytes with bcrypt: %v", err)
	}
	if (Hash{}).Matches(nil) || (Hash{}).Matches([]byte("x")) {
		t.Error("no password matches")
	}
}

// FuzzParseHash: what is accepted can be matched against, and reads as itself.
func FuzzParseHash(f *testing.F) {
	for _, row := range madeElsewhere {
		f.Add(row.algorithm, row.text)
	}
	f.Add("", "")
	f.Add("argon2id", "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$c2FsdHNhbHQ")
	f.Fuzz(func(t *testing.T, algorithm, text string) {
		h, err := ParseHash(algorithm, text)
		if err != nil {
			if !IsReason(err, Invalid) {
				t.Fatal(err)
			}
			return
		}
		if again, err := ParseHash(string(h.Algorithm), h.Text); err != nil || again != h {
			t.Fatalf("%+v reads as %+v, %v", h, again, err)
		}
		if !h.Slow() && h.Matches([]byte("surely not this one")) {
			t.Fatalf("%+v matches", h)
		}
	})
}

// TestScram: what is written reads as itself; the keys are those of RFC 7677's
// example.
func TestScram(t *testing.T) {
	t.Parallel()
	s := NewScram([]byte("päss wörd"))
	again, err := ParseScram(s.String())
	if err != nil || again.String() != s.String() || again.Iterations != ScramIterations || len(again.Salt) != scramSaltBytes {
		t.Errorf("%s reads as %+v, %v", s, again, err)
	}
	if other := NewScram([]byte("päss wörd")); other.String() == s.String() {
		t.Error("no salt")
	}
	// Of password "pencil", by Python's hashlib and hmac.
	const pencil = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	if p, err := ParseScram(pencil); err != nil || p.String() != pencil {
		t.Errorf("%v, %v", p, err)
	} else if made := newScram([]byte("pencil"), p.Salt, p.Iterations); made.String() != pencil {
		t.Errorf("made %s", made)
	}
	for _, bad := range []string{"", "SCRAM-SHA-256$", "SCRAM-SHA-1" + pencil[13:], pencil[:len(pencil)-1], pencil + "=", "SCRAM-SHA-256$04096" + pencil[18:], "SCRAM-SHA-256$0" + pencil[18:], "SCRAM-SHA-256$99999999" + pencil[18:]} {
		if _, err := ParseScram(bad); !IsReason(err, Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestHashes_OneWriting: a line end inside base64, or bits that no encoder sets
// at its end, make no hash, in any of the forms that have base64.
func TestHashes_OneWriting(t *testing.T) {
	t.Parallel()
	whole := []Hash{hashPassword([]byte("x")), {Algorithm: MD5, Text: "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}, {Algorithm: Argon2id, Text: "$argon2id$v=19$m=64,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}}
	for _, h := range whole {
		if _, err := ParseHash(string(h.Algorithm), h.Text); err != nil {
			t.Fatalf("%+v: %v", h, err)
		}
		n := len(h.Text)
		for _, bad := range []string{h.Text + "\n", h.Text + "\r\n", h.Text[:n-4] + "\n" + h.Text[n-4:], h.Text[:n-9] + "\r" + h.Text[n-9:]} {
			if got, err := ParseHash(string(h.Algorithm), bad); !IsReason(err, Invalid) {
				t.Errorf("%s %q: %+v, %v", h.Algorithm, bad, got, err)
			}
			if got, err := ParseSaltedHash(bad); !IsReason(err, Invalid) {
				t.Errorf("salted %q: %+v, %v", bad, got, err)
			}
		}
	}
	if got, err := ParseHash(string(MD5), "AAAAAAAAAAAAAAAAAAAAAAAAAAB="); !IsReason(err, Invalid) {
		t.Errorf("bits after the end: %+v, %v", got, err)
	}
	scram := NewScram([]byte("x")).String()
	for i := len(scramPrefix); i <= len(scram); i++ {
		for _, end := range []string{"\n", "\r"} {
			if got, err := ParseScram(scram[:i] + end + scram[i:]); !IsReason(err, Invalid) {
				t.Errorf("a line end at %d: %+v, %v", i, got, err)
			}
		}
	}
}

// FuzzParseScram: what is accepted reads as itself.
func FuzzParseScram(f *testing.F) {
	f.Add(NewScram([]byte("x")).String())
	f.Add("SCRAM-SHA-256$1:AAAAAA==$:")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseScram(text)
		if err == nil && s.String() != text || err != nil && !IsReason(err, Invalid) {
			t.Fatalf("%q reads as %s, %v", text, s, err)
		}
	})
}

// TestHash_MatchesAllocatesNothing: every connection's password is looked at on a loop.
func TestHash_MatchesAllocatesNothing(t *testing.T) {
	for _, row := range madeElsewhere[:3] {
		h, err := ParseHash(row.algorithm, row.text)
		if err != nil {
			t.Fatal(err)
		}
		password := []byte("test12")
		if n := testing.AllocsPerRun(100, func() {
			if !h.Matches(password) {
				t.Error("it does not match")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", row.name, n)
		}
		if long := []byte(strings.Repeat("x", 1000)); h.Matches(long) || !saltedHash(h.Algorithm, []byte("salt"), long).Matches(long) {
			t.Errorf("%s: a long password", row.name)
		}
	}
}
