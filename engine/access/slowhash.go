package access

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// Slow password hashes. What they may cost is bounded when a hash is set: a
// login must not be able to take the machine.
const (
	bcryptCostMax = 16 // about 5 s

	argonPrefix    = "$argon2id$"
	argonKiBMax    = 256 << 10
	argonRoundsMax = 64
	argonLanesMax  = 16
	argonBytesMax  = 64 // of salt and digest
)

func checkBcrypt(text string) error {
	cost, err := bcrypt.Cost([]byte(text))
	if err == nil && len(text) != 60 {
		err = fmt.Errorf("it has %d characters instead of 60", len(text))
	}
	switch {
	case err != nil:
		return errorf(Invalid, "the password hash is not a bcrypt hash: %v", err)
	case cost > bcryptCostMax:
		return errorf(Invalid, "the bcrypt hash has cost %d; more than %d would take too long at each login", cost, bcryptCostMax)
	}
	return nil
}

func bcryptMatches(text string, password []byte) bool {
	return bcrypt.CompareHashAndPassword([]byte(text), password) == nil
}

// argon is a parsed "$argon2id$v=19$m=65536,t=3,p=1$salt$digest".
type argon struct {
	kib, rounds  uint32
	lanes        uint8
	salt, digest []byte
}

func parseArgon(text string) (a argon, err error) {
	refuse := func(format string, args ...any) (argon, error) {
		return argon{}, errorf(Invalid, "the password hash is not an argon2id hash ($argon2id$v=19$m=…,t=…,p=…$salt$digest): "+format, args...)
	}
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" {
		return refuse("%d parts", len(parts))
	}
	if parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return refuse("version %q", parts[2])
	}
	var kib, rounds, lanes uint32
	if n, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &kib, &rounds, &lanes); err != nil || n != 3 || parts[3] != fmt.Sprintf("m=%d,t=%d,p=%d", kib, rounds, lanes) {
		return refuse("parameters %q", parts[3])
	}
	if kib < 8*lanes || kib > argonKiBMax || rounds < 1 || rounds > argonRoundsMax || lanes < 1 || lanes > argonLanesMax {
		return refuse("parameters %q: at most m=%d, t=%d, p=%d are taken, for a login must not be able to take the machine", parts[3], argonKiBMax, argonRoundsMax, argonLanesMax)
	}
	a = argon{kib: kib, rounds: rounds, lanes: uint8(lanes)}
	for i, p := range []*[]byte{&a.salt, &a.digest} {
		if *p, err = decode64(base64.RawStdEncoding, parts[4+i]); err != nil || len(*p) < 8 || len(*p) > argonBytesMax {
			return refuse("salt and digest are base64 without padding, of 8 to %d bytes", argonBytesMax)
		}
	}
	return a, nil
}

func argonMatches(text string, password []byte) bool {
	a, err := parseArgon(text)
	if err != nil {
		return false
	}
	got := argon2.IDKey(password, a.salt, a.rounds, a.kib, a.lanes, uint32(len(a.digest)))
	return subtle.ConstantTimeCompare(got, a.digest) == 1
}

// HashPasswordWith is HashPassword with an algorithm of one's choice. It takes
// long with slow ones. Errors: Invalid.
func HashPasswordWith(algorithm Algorithm, password []byte) (Hash, error) {
	password = Prepared(password)
	switch {
	case algorithm == Bcrypt:
		text, err := bcrypt.GenerateFromPassword(password, bcrypt.DefaultCost)
		if err != nil {
			return Hash{}, errorf(Invalid, "the password cannot be hashed: %v", err)
		}
		return Hash{Algorithm: Bcrypt, Text: string(text)}, nil
	case algorithm == Argon2id:
		salt := make([]byte, 16)
		_, _ = rand.Read(salt)                    // never fails (crypto/rand)
		const kib, rounds, lanes = 64 << 10, 1, 4 // RFC 9106, section 4, second choice
		key := argon2.IDKey(password, salt, rounds, kib, lanes, 32)
		b64 := base64.RawStdEncoding.EncodeToString
		return Hash{Algorithm: Argon2id, Text: fmt.Sprintf("%sv=%d$m=%d,t=%d,p=%d$%s$%s", argonPrefix, argon2.Version, kib, rounds, lanes, b64(salt), b64(key))}, nil
	case digests[algorithm] != 0:
		var salt [saltBytes]byte
		_, _ = rand.Read(salt[:]) // never fails (crypto/rand)
		return saltedHash(algorithm, salt[:], password), nil
	}
	return Hash{}, errorf(Invalid, "the password hashing algorithm '%s' is not known", algorithm)
}
