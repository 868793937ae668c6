package sso

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"sync"
	"time"
)

const (
	stateBytes    = 32
	verifierBytes = 32
	expiryBytes   = 8
)

// pending is a login that has begun, as its browser keeps it.
type pending struct {
	state    string // what the issuer gives back
	verifier string // what proves that the code is ours
}

// challenge is what the issuer is told of the verifier (RFC 7636, 4.2: S256).
func (p pending) challenge() string {
	sum := sha256.Sum256([]byte(p.verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// sealer makes cookies that nobody else can make, read or change, and that are
// void after stateTime or a restart.
type sealer struct{ aead cipher.AEAD }

func newSealer() *sealer {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails (crypto/rand)
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic("sso: " + err.Error()) // the key has one of AES's lengths
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic("sso: " + err.Error()) // AES has GCM's block size
	}
	return &sealer{aead}
}

// begin makes a login and its cookie.
func (s *sealer) begin(now time.Time) (pending, string) {
	plain := make([]byte, expiryBytes+stateBytes+verifierBytes)
	binary.LittleEndian.PutUint64(plain, uint64(now.Add(stateTime).UnixMilli()))
	_, _ = rand.Read(plain[expiryBytes:]) // never fails (crypto/rand)
	return unpack(plain), base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, nil))
}

// open reads a cookie.
func (s *sealer) open(cookie string, now time.Time) (p pending, ok bool) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cookie)
	if err != nil || strings.ContainsAny(cookie, "\r\n") { // which the decoder passes over
		return p, false
	}
	plain, err := s.aead.Open(nil, nil, sealed, nil)
	if err != nil || len(plain) != expiryBytes+stateBytes+verifierBytes || now.UnixMilli() >= int64(binary.LittleEndian.Uint64(plain)) {
		return p, false
	}
	return unpack(plain), true
}

func unpack(plain []byte) pending {
	b64 := base64.RawURLEncoding.EncodeToString
	return pending{b64(plain[expiryBytes : expiryBytes+stateBytes]), b64(plain[expiryBytes+stateBytes:])}
}

// usedStates are those of callbacks that came, for as long as their cookies would
// be good.
type usedStates struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// use says whether a state was not used before; full is whether there is no room
// to remember it.
func (u *usedStates) use(state string, now time.Time) (fresh, full bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, used := u.until[state]; used {
		return false, false
	}
	if len(u.until) >= usedMax {
		for s, until := range u.until {
			if !now.Before(until) {
				delete(u.until, s)
			}
		}
		if len(u.until) >= usedMax {
			return false, true
		}
	}
	if u.until == nil {
		u.until = map[string]time.Time{}
	}
	u.until[state] = now.Add(stateTime)
	return true, false
}
