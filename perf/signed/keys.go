package signed

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
	"github.com/cloudflare/circl/xof/k12"
)

const (
	keyTitle       = "basaltmq-signing-key 1"
	fingerprintFor = "basaltmq public key 1"
	publicKeyBytes = ed25519.PublicKeySize + mldsa65.PublicKeySize
)

// PublicKey is a pair of public keys and who owns them.
type PublicKey struct {
	Name        string
	Fingerprint Fingerprint

	ed25519 ed25519.PublicKey
	mldsa   *mldsa65.PublicKey
	packed  [publicKeyBytes]byte
}

func newPublicKey(name string, packed []byte) (*PublicKey, error) {
	key := &PublicKey{Name: name, packed: [publicKeyBytes]byte(packed), mldsa: new(mldsa65.PublicKey)}
	key.ed25519 = key.packed[:ed25519.PublicKeySize]
	if err := key.mldsa.UnmarshalBinary(key.packed[ed25519.PublicKeySize:]); err != nil {
		return nil, fmt.Errorf("its ML-DSA-65 key is damaged: %w", err)
	}
	k12.Draft10Sum(key.Fingerprint[:], key.packed[:], []byte(fingerprintFor))
	return key, nil
}

// TrustLine is the line that makes a key trusted, for the file of trusted keys.
func (k *PublicKey) TrustLine() string {
	return k.Name + " " + k.Fingerprint.String() + " " + base64.StdEncoding.EncodeToString(k.packed[:])
}

// PrivateKey signs.
type PrivateKey struct {
	PublicKey

	seeds   [2][32]byte // Ed25519, ML-DSA-65
	ed25519 ed25519.PrivateKey
	mldsa   *mldsa65.PrivateKey
}

// GenerateKey makes a new key of the named owner.
func GenerateKey(name string) (*PrivateKey, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("signed: %w", err)
	}
	var seeds [2][32]byte
	for i := range seeds {
		rand.Read(seeds[i][:]) // never fails: crypto/rand ends the program first
	}
	return newPrivateKey(name, seeds)
}

func newPrivateKey(name string, seeds [2][32]byte) (*PrivateKey, error) {
	key := &PrivateKey{seeds: seeds, ed25519: ed25519.NewKeyFromSeed(seeds[0][:])}
	var public *mldsa65.PublicKey
	public, key.mldsa = mldsa65.NewKeyFromSeed(&seeds[1])
	packed := append([]byte(nil), key.ed25519.Public().(ed25519.PublicKey)...)
	both, err := newPublicKey(name, append(packed, public.Bytes()...))
	if err != nil {
		return nil, fmt.Errorf("signed: %w", err)
	}
	key.PublicKey = *both
	return key, nil
}

func (k *PrivateKey) encode() []byte {
	return encodeLines(keyTitle, "name", k.Name, "fingerprint", k.Fingerprint.String(),
		"ed25519", base64.StdEncoding.EncodeToString(k.seeds[0][:]),
		"ml-dsa-65", base64.StdEncoding.EncodeToString(k.seeds[1][:]))
}

func decodePrivateKey(raw []byte) (*PrivateKey, error) {
	values, err := decodeLines(raw, keyTitle, "name", "fingerprint", "ed25519", "ml-dsa-65")
	if err != nil {
		return nil, err
	}
	if err := checkName(values[0]); err != nil {
		return nil, err
	}
	fingerprint, err := parseFingerprint(values[1])
	if err != nil {
		return nil, err
	}
	var seeds [2][32]byte
	for i, what := range []string{"Ed25519 seed", "ML-DSA-65 seed"} {
		seed, err := decodeBase64(values[2+i], what, len(seeds[i]))
		if err != nil {
			return nil, err
		}
		seeds[i] = [32]byte(seed)
	}
	key, err := newPrivateKey(values[0], seeds)
	if err != nil {
		return nil, err
	}
	if key.Fingerprint != fingerprint {
		return nil, fmt.Errorf("its fingerprint is not that of its seeds")
	}
	return key, nil
}

// Save writes the key to a new file that only its owner can read.
func (k *PrivateKey) Save(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("signed: can't make the directory of the private key: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if os.IsExist(err) {
		return fmt.Errorf("signed: %s is there already and will not be overwritten: name another file, or move this one away if its key is no longer needed", path)
	}
	if err != nil {
		return fmt.Errorf("signed: can't write the private key: %w", err)
	}
	_, err = file.Write(k.encode())
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		os.Remove(path)
		return fmt.Errorf("signed: can't write the private key: %w", err)
	}
	return nil
}

// LoadKey reads a private key and refuses one that others could have read.
func LoadKey(path string) (*PrivateKey, error) {
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("signed: there is no private key at %s: make one with \"basaltmqperf keygen\", or name yours with --key", path)
	}
	if err != nil {
		return nil, fmt.Errorf("signed: can't read the private key: %w", err)
	}
	defer file.Close()
	if err := checkPrivate(file, path); err != nil {
		return nil, err
	}
	raw, err := readAllLimited(file, path, keyFileBytesMax)
	if err != nil {
		return nil, fmt.Errorf("signed: can't read the private key: %w", err)
	}
	key, err := decodePrivateKey(raw)
	if err != nil {
		return nil, fmt.Errorf("signed: %s is not a private key, or is damaged: %w; restore it from a copy or make a new one with \"basaltmqperf keygen\"", path, err)
	}
	return key, nil
}

// checkPrivate looks at the open file, so that it can't be exchanged in between.
func checkPrivate(file *os.File, path string) error {
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("signed: can't read the private key: %w", err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("signed: the private key %s is not a regular file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fmt.Errorf("signed: the private key %s may be read or changed by others (mode %04o): chmod 600 it; if somebody else could get at it, make a new one and strike the old from the trusted keys", path, mode)
	}
	return nil
}
