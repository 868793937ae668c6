package access

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Scram is what a server keeps of a password for SCRAM-SHA-256 (RFC 5802, 7677).
// It cannot be made of a hash, only of the password itself.
type Scram struct {
	Iterations           int
	Salt                 []byte
	StoredKey, ServerKey []byte
}

// ScramIterations is the number for new passwords: what RFC 7677 recommends, and
// PostgreSQL uses. The salted hash beside it is no harder to guess.
const ScramIterations = 4096

const (
	scramPrefix        = "SCRAM-SHA-256$"
	scramSaltBytes     = 16
	scramIterationsMax = 10_000_000
)

// NewScram makes one of a password, as SASLprep has it.
func NewScram(password []byte) Scram {
	salt := make([]byte, scramSaltBytes)
	_, _ = rand.Read(salt) // never fails (crypto/rand)
	return newScram(password, salt, ScramIterations)
}

func newScram(password, salt []byte, iterations int) Scram {
	s := Scram{Iterations: iterations, Salt: salt}
	salted, err := pbkdf2.Key(sha256.New, string(Prepared(password)), s.Salt, s.Iterations, sha256.Size)
	if err != nil {
		panic(fmt.Sprintf("access: %v", err)) // for keys that FIPS 140 does not allow
	}
	mac := func(text string) []byte {
		m := hmac.New(sha256.New, salted)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	s.StoredKey, s.ServerKey = stored[:], mac("Server Key")
	return s
}

// String writes it as PostgreSQL does:
// SCRAM-SHA-256$iterations:salt$stored key:server key.
func (s Scram) String() string {
	b := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s%d:%s$%s:%s", scramPrefix, s.Iterations, b(s.Salt), b(s.StoredKey), b(s.ServerKey))
}

// ParseScram reads what String writes. Errors: Invalid.
func ParseScram(text string) (Scram, error) {
	bad := errorf(Invalid, "the SCRAM credential is not of the form %siterations:salt$key:key", scramPrefix)
	rest, ok := strings.CutPrefix(text, scramPrefix)
	first, second, ok2 := strings.Cut(rest, "$")
	count, salt, ok3 := strings.Cut(first, ":")
	stored, server, ok4 := strings.Cut(second, ":")
	n, err := strconv.Atoi(count)
	if !ok || !ok2 || !ok3 || !ok4 || err != nil || n < 1 || n > scramIterationsMax || strconv.Itoa(n) != count {
		return Scram{}, bad
	}
	s := Scram{Iterations: n}
	for _, field := range []struct {
		text     string
		into     *[]byte
		min, max int
	}{{salt, &s.Salt, 4, 64}, {stored, &s.StoredKey, sha256.Size, sha256.Size}, {server, &s.ServerKey, sha256.Size, sha256.Size}} {
		raw, err := decode64(base64.StdEncoding, field.text)
		if err != nil || len(raw) < field.min || len(raw) > field.max {
			return Scram{}, bad
		}
		*field.into = raw
	}
	return s, nil
}

// checkScram says whether a hash's Scram can be kept.
func checkScram(text string) error {
	if text == "" {
		return nil
	}
	_, err := ParseScram(text)
	return err
}
