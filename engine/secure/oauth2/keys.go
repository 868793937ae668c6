package oauth2

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

const (
	keysMax     = 64   // of one set
	rsaBitsMin  = 2048 // weaker ones are not taken
	rsaBitsMax  = 8192 // stronger ones only cost time
	exponentMax = 1<<31 - 1
)

// key is one public key of the issuer.
type key struct {
	id     string
	method string // RS256, ES256, EdDSA
	public crypto.PublicKey
}

// keySet is what the issuer signs with. Immutable.
type keySet struct{ keys []key }

// find returns the key of a token's header. Without an id the set must leave no
// choice.
func (s *keySet) find(id, method string) (crypto.PublicKey, bool) {
	var found crypto.PublicKey
	n := 0
	for i := range s.keys {
		if k := &s.keys[i]; k.method == method && (id == "" || k.id == id) {
			found = k.public
			n++
		}
	}
	return found, n == 1
}

// parseKeys reads a JWK set (RFC 7517). Keys that are for something else, or of
// kinds that are not used here, are passed over.
func parseKeys(data []byte) (*keySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("the key set is not understood: %w", err)
	}
	if len(set.Keys) > keysMax {
		return nil, fmt.Errorf("the key set has %d keys; %d are possible", len(set.Keys), keysMax)
	}
	out := &keySet{}
	for _, raw := range set.Keys {
		if k, err := parseKey(raw); err == nil {
			out.keys = append(out.keys, k)
		}
	}
	if len(out.keys) == 0 {
		return nil, errors.New("the key set has no key for RS256, ES256 or EdDSA")
	}
	return out, nil
}

var errOtherKey = errors.New("another kind of key")

func parseKey(raw []byte) (key, error) {
	var j struct {
		Type  string `json:"kty"`
		Use   string `json:"use"`
		Alg   string `json:"alg"`
		ID    string `json:"kid"`
		Curve string `json:"crv"`
		N     string `json:"n"`
		E     string `json:"e"`
		X     string `json:"x"`
		Y     string `json:"y"`
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		return key{}, err
	}
	if j.Use != "" && j.Use != "sig" {
		return key{}, errOtherKey
	}
	k := key{id: j.ID}
	var err error
	switch {
	case j.Type == "RSA":
		k.method = "RS256"
		k.public, err = rsaKey(j.N, j.E)
	case j.Type == "EC" && j.Curve == "P-256":
		k.method = "ES256"
		k.public, err = ecKey(j.X, j.Y)
	case j.Type == "OKP" && j.Curve == "Ed25519":
		k.method = "EdDSA"
		k.public, err = edKey(j.X)
	default:
		err = errOtherKey
	}
	if err == nil && j.Alg != "" && j.Alg != k.method {
		err = errOtherKey
	}
	return k, err
}

// decode reads base64url without padding (RFC 7515, 2): nothing else is in it, not
// even line ends, which the decoder would pass over.
func decode(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, errors.New("a line end in base64url")
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

func rsaKey(n, e string) (crypto.PublicKey, error) {
	modulus, err := decode(n)
	exponent, err2 := decode(e)
	if err != nil || err2 != nil {
		return nil, errors.New("not base64url")
	}
	public := &rsa.PublicKey{N: new(big.Int).SetBytes(modulus)}
	power := new(big.Int).SetBytes(exponent)
	bits := public.N.BitLen()
	if bits < rsaBitsMin || bits > rsaBitsMax || !power.IsInt64() || power.Int64() < 3 || power.Int64() > exponentMax {
		return nil, errors.New("an RSA key of a size that is not taken")
	}
	public.E = int(power.Int64())
	return public, nil
}

func ecKey(x, y string) (crypto.PublicKey, error) {
	const size = 32
	a, err := decode(x)
	b, err2 := decode(y)
	if err != nil || err2 != nil || len(a) != size || len(b) != size {
		return nil, errors.New("not a point of P-256")
	}
	// Uncompressed; refused if it is not on the curve.
	return ecdsa.ParseUncompressedPublicKey(elliptic.P256(), append(append([]byte{4}, a...), b...))
}

func edKey(x string) (crypto.PublicKey, error) {
	a, err := decode(x)
	if err != nil || len(a) != ed25519.PublicKeySize {
		return nil, errors.New("not an Ed25519 key")
	}
	return ed25519.PublicKey(a), nil
}
