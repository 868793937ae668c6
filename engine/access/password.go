package access

import (
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"strings"
)

// Algorithm names how a password is hashed, as definitions files do.
type Algorithm string

const (
	SHA256   Algorithm = "rabbit_password_hashing_sha256"
	SHA512   Algorithm = "rabbit_password_hashing_sha512"
	MD5      Algorithm = "rabbit_password_hashing_md5" // of users from before RabbitMQ 3.6
	Bcrypt   Algorithm = "bcrypt"
	Argon2id Algorithm = "argon2id"
)

// saltBytes is the length of the salt before a digest.
const saltBytes = 4

// Hash is a hashed password. The zero value is that of a user without one, who
// cannot log in with a password.
type Hash struct {
	Algorithm Algorithm
	// Text is base64(salt, digest), or for bcrypt and argon2id their usual
	// strings beginning with "$".
	Text string
	// Scram is what SCRAM-SHA-256 needs to know of the same password (scram.go);
	// empty if only its hash is known.
	Scram string
}

// IsZero says that there is no password.
func (h Hash) IsZero() bool { return h.Text == "" }

// HashPassword hashes a new password with a random salt and SHA-256, and for
// SCRAM. It takes a millisecond.
func HashPassword(password []byte) Hash {
	h := hashPassword(password)
	h.Scram = NewScram(password).String()
	return h
}

func hashPassword(password []byte) Hash {
	var salt [saltBytes]byte
	_, _ = rand.Read(salt[:]) // never fails (crypto/rand)
	return saltedHash(SHA256, salt[:], password)
}

func saltedHash(a Algorithm, salt, password []byte) Hash {
	return Hash{Algorithm: a, Text: base64.StdEncoding.EncodeToString(append(salt[:len(salt):len(salt)], digest(a, salt, password)...))}
}

// digests are those that are salted the RabbitMQ way.
var digests = map[Algorithm]func() hash.Hash{SHA256: sha256.New, SHA512: sha512.New, MD5: md5.New}

func digest(a Algorithm, salt, password []byte) []byte {
	d := digests[a]()
	d.Write(salt)
	d.Write(password)
	return d.Sum(nil)
}

// ParseHash checks a hash made elsewhere. An empty algorithm means what RabbitMQ
// takes it for, MD5, unless the text says what it is. An empty text is a user
// without a password. Errors: Invalid.
func ParseHash(algorithm, text string) (Hash, error) {
	a := Algorithm(algorithm)
	switch {
	case text == "":
		return Hash{}, nil
	case a == "lavinmq_bcrypt", a == "" && strings.HasPrefix(text, "$2"):
		a = Bcrypt
	case a == "" && strings.HasPrefix(text, argonPrefix):
		a = Argon2id
	case a == "":
		a = MD5
	}
	h := Hash{Algorithm: a, Text: text}
	switch a {
	case Bcrypt:
		return h, checkBcrypt(text)
	case Argon2id:
		_, err := parseArgon(text)
		return h, err
	}
	if digests[a] == nil {
		return Hash{}, errorf(Invalid, "the password hashing algorithm '%s' is not known: it is one of %s, %s, %s, %s, %s", algorithm, SHA256, SHA512, MD5, Bcrypt, Argon2id)
	}
	raw, err := decode64(base64.StdEncoding, text)
	if size := digests[a]().Size(); err != nil || len(raw) != saltBytes+size {
		return Hash{}, errorf(Invalid, "the password hash is not base64 of a salt of %d bytes and a digest of %d, as %s makes them", saltBytes, size, a)
	}
	return h, nil
}

// ParseSaltedHash is ParseHash for a text without the name of its algorithm, which
// the length tells. Errors: Invalid.
func ParseSaltedHash(text string) (Hash, error) {
	if !strings.HasPrefix(text, "$") {
		raw, err := decode64(base64.StdEncoding, text)
		for a, hash := range digests {
			if err == nil && len(raw) == saltBytes+hash().Size() {
				return Hash{Algorithm: a, Text: text}, nil
			}
		}
		return Hash{}, errorf(Invalid, "the password hash is neither base64 of a salt of %d bytes and a digest of SHA-256, SHA-512 or MD5, nor one of bcrypt or argon2id", saltBytes)
	}
	return ParseHash("", text)
}

// Checked reads a hash that may come from anywhere: ParseHash, and its Scram.
// Errors: Invalid.
func (h Hash) Checked() (Hash, error) {
	parsed, err := ParseHash(string(h.Algorithm), h.Text)
	if err == nil && !parsed.IsZero() {
		parsed.Scram, err = h.Scram, checkScram(h.Scram)
	}
	return parsed, err
}

// decode64 reads base64 in the one way that its bytes can be written: the
// standard library's decoder skips line ends, even where it is strict.
func decode64(encoding *base64.Encoding, text string) ([]byte, error) {
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		return nil, base64.CorruptInputError(i)
	}
	return encoding.Strict().DecodeString(text)
}

// Slow says that Matches takes long (and memory) on purpose: not for a loop.
func (h Hash) Slow() bool { return h.Algorithm == Bcrypt || h.Algorithm == Argon2id }

// slow bounds how many slow hashes are computed at once.
var slow = make(chan struct{}, slowMax)

// Matches compares a password with the hash. An empty password never matches.
// If the hash is Slow it may wait for its turn.
func (h Hash) Matches(password []byte) bool {
	if len(password) == 0 || h.IsZero() {
		return false
	}
	if h.Slow() {
		slow <- struct{}{}
		defer func() { <-slow }()
		if h.Algorithm == Bcrypt {
			return bcryptMatches(h.Text, password)
		}
		return argonMatches(h.Text, password)
	}
	raw, err := decode64(base64.StdEncoding, h.Text)
	if err != nil || len(raw) < saltBytes || digests[h.Algorithm] == nil {
		return false
	}
	return subtle.ConstantTimeCompare(raw[saltBytes:], digest(h.Algorithm, raw[:saltBytes], password)) == 1
}

// unknown is hashed against when there is no such user: the time that a refusal
// takes does not tell.
var unknown = hashPassword([]byte("nobody's"))
