package access

import (
	"bytes"
	"crypto/md5"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
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
	password = Prepared(password)
	var salt [saltBytes]byte
	_, _ = rand.Read(salt[:]) // never fails (crypto/rand)
	return saltedHash(SHA256, salt[:], password)
}

func saltedHash(a Algorithm, salt, password []byte) Hash {
	return Hash{Algorithm: a, Text: base64.StdEncoding.EncodeToString(appendDigest(bytes.Clone(salt), a, salt, password))}
}

// digests are those that are salted the RabbitMQ way, with their sizes.
var digests = map[Algorithm]int{SHA256: sha256.Size, SHA512: sha512.Size, MD5: md5.Size}

// digestMax is the largest size of a digest.
const digestMax = sha512.Size

// appendDigest appends to dst. It needs no memory for passwords of usual length:
// each connection comes here.
func appendDigest(dst []byte, a Algorithm, salt, password []byte) []byte {
	var room [128]byte
	text := append(append(room[:0], salt...), password...)
	switch a {
	case SHA256:
		sum := sha256.Sum256(text)
		return append(dst, sum[:]...)
	case SHA512:
		sum := sha512.Sum512(text)
		return append(dst, sum[:]...)
	}
	sum := md5.Sum(text)
	return append(dst, sum[:]...)
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
	size, known := digests[a]
	if !known {
		return Hash{}, errorf(Invalid, "the password hashing algorithm '%s' is not known: it is one of %s, %s, %s, %s, %s", algorithm, SHA256, SHA512, MD5, Bcrypt, Argon2id)
	}
	raw, err := decode64(base64.StdEncoding, text)
	if err != nil || len(raw) != saltBytes+size {
		return Hash{}, errorf(Invalid, "the password hash is not base64 of a salt of %d bytes and a digest of %d, as %s makes them", saltBytes, size, a)
	}
	return h, nil
}

// ParseSaltedHash is ParseHash for a text without the name of its algorithm, which
// the length tells. Errors: Invalid.
func ParseSaltedHash(text string) (Hash, error) {
	if !strings.HasPrefix(text, "$") {
		raw, err := decode64(base64.StdEncoding, text)
		for a, size := range digests {
			if err == nil && len(raw) == saltBytes+size {
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
	return appendDecode64(nil, encoding.Strict(), text)
}

// strict64 is the encoding of digests.
var strict64 = base64.StdEncoding.Strict()

// appendDecode64 is decode64 with an encoding that is strict already.
func appendDecode64(dst []byte, strict *base64.Encoding, text string) ([]byte, error) {
	if i := strings.IndexAny(text, "\r\n"); i >= 0 {
		return nil, base64.CorruptInputError(i)
	}
	return strict.AppendDecode(dst, []byte(text))
}

// Slow says that Matches takes long (and memory) on purpose: not for a loop.
func (h Hash) Slow() bool { return h.Algorithm == Bcrypt || h.Algorithm == Argon2id }

// slow bounds how many slow hashes are computed at once.
var slow = make(chan struct{}, slowMax)

// Matches compares a password with the hash: as it is, and as SASLprep has it
// (saslprep.go). Hashes made here are of the latter; one from elsewhere may be of
// either. An empty password never matches. If the hash is Slow it may wait for its
// turn.
func (h Hash) Matches(password []byte) bool {
	if h.matches(password) {
		return true
	}
	prepared := Prepared(password)
	return !bytes.Equal(prepared, password) && h.matches(prepared)
}

func (h Hash) matches(password []byte) bool {
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
	var room, digest [saltBytes + digestMax]byte
	raw, err := appendDecode64(room[:0], strict64, h.Text)
	if err != nil || len(raw) < saltBytes || digests[h.Algorithm] == 0 {
		return false
	}
	return subtle.ConstantTimeCompare(raw[saltBytes:], appendDigest(digest[:0], h.Algorithm, raw[:saltBytes], password)) == 1
}

// unknown is hashed against when there is no such user: the time that a refusal
// takes does not tell.
var unknown = hashPassword([]byte("nobody's"))
