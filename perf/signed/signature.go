package signed

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
)

const (
	sigTitle = "basaltmq-signature 1"

	// Suffix is what the name of a signature has more than that of its file.
	Suffix = ".sig"
)

// Why a file is refused, for errors.Is.
var (
	ErrUnsigned  = errors.New("not signed")
	ErrUntrusted = errors.New("signed by a key that is not trusted")
	ErrForged    = errors.New("the signature is not one of this content")
)

// signature is the content of a signature file.
type signature struct {
	file    string // base name of the file that was signed
	key     Fingerprint
	ed25519 []byte
	mldsa   []byte
}

func (s *signature) encode() []byte {
	return encodeLines(sigTitle, "file", s.file, "key", s.key.String(),
		"ed25519", base64.StdEncoding.EncodeToString(s.ed25519),
		"ml-dsa-65", base64.StdEncoding.EncodeToString(s.mldsa))
}

func decodeSignature(raw []byte) (*signature, error) {
	values, err := decodeLines(raw, sigTitle, "file", "key", "ed25519", "ml-dsa-65")
	if err != nil {
		return nil, err
	}
	s := &signature{file: values[0]}
	if err := checkFileName(s.file); err != nil {
		return nil, err
	}
	if s.key, err = parseFingerprint(values[1]); err != nil {
		return nil, err
	}
	if s.ed25519, err = decodeBase64(values[2], "Ed25519 signature", ed25519.SignatureSize); err != nil {
		return nil, err
	}
	if s.mldsa, err = decodeBase64(values[3], "ML-DSA-65 signature", mldsa65.SignatureSize); err != nil {
		return nil, err
	}
	return s, nil
}

// statement is what both algorithms sign; see the package comment.
func statement(file string, key Fingerprint, canonical []byte) []byte {
	return append(encodeLines(sigTitle, "file", file, "key", key.String()), canonical...)
}

// sign makes a signature of canonical JSON under the name of its file.
func (k *PrivateKey) sign(file string, canonical []byte) (*signature, error) {
	if err := checkFileName(file); err != nil {
		return nil, err
	}
	message := statement(file, k.Fingerprint, canonical)
	s := &signature{
		file: file, key: k.Fingerprint,
		ed25519: ed25519.Sign(k.ed25519, message),
		mldsa:   make([]byte, mldsa65.SignatureSize),
	}
	// Randomised: harder on whoever listens to the signer's hardware.
	if err := mldsa65.SignTo(k.mldsa, message, []byte(sigTitle), true, s.mldsa); err != nil {
		return nil, fmt.Errorf("ML-DSA-65: %w", err)
	}
	return s, nil
}

// verify checks both signatures (invariant 1).
func (k *PublicKey) verify(s *signature, canonical []byte) error {
	message := statement(s.file, k.Fingerprint, canonical)
	classic := ed25519.Verify(k.ed25519, message, s.ed25519)
	lattice := mldsa65.Verify(k.mldsa, message, []byte(sigTitle), s.mldsa)
	switch {
	case classic && lattice:
		return nil
	case classic:
		return fmt.Errorf("%w (only its Ed25519 half verifies)", ErrForged)
	case lattice:
		return fmt.Errorf("%w (only its ML-DSA-65 half verifies)", ErrForged)
	}
	return fmt.Errorf("%w: the file or its signature was changed after signing", ErrForged)
}

// SignFile signs a result; the signature goes to path + [Suffix], in place of
// one that is there.
func SignFile(path string, key *PrivateKey) error {
	raw, err := readLimited(path, resultBytesMax)
	if err != nil {
		return fmt.Errorf("signed: can't read what is to be signed: %w", err)
	}
	canonical, err := Canonical(raw)
	if err != nil {
		return fmt.Errorf("signed: %s: %w", path, err)
	}
	s, err := key.sign(filepath.Base(path), canonical)
	if err != nil {
		return fmt.Errorf("signed: %s: %w", path, err)
	}
	if err := os.WriteFile(path+Suffix, s.encode(), 0o644); err != nil {
		return fmt.Errorf("signed: can't write the signature: %w", err)
	}
	return nil
}

// Verify checks that a result is what the owner of a trusted key signed, under
// this name.
func Verify(path string, trusted *Trusted) error {
	_, _, err := ReadVerified(path, trusted)
	return err
}

// ReadVerified returns the content of a verified result and who signed it. Who
// goes on to use the content takes it from here: the file may change after it
// was verified.
func ReadVerified(path string, trusted *Trusted) (content []byte, signer *PublicKey, err error) {
	content, err = readLimited(path, resultBytesMax)
	if err != nil {
		return nil, nil, fmt.Errorf("signed: can't read what is to be verified: %w", err)
	}
	encoded, err := readLimited(path+Suffix, sigFileBytesMax)
	if os.IsNotExist(err) {
		return nil, nil, fmt.Errorf("signed: %s: %w: there is no %s; sign it with \"basaltmqperf sign\"", path, ErrUnsigned, path+Suffix)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("signed: can't read the signature: %w", err)
	}
	signer, err = verifyContent(filepath.Base(path), content, encoded, trusted)
	if err != nil {
		return nil, nil, fmt.Errorf("signed: %s: %w", path, err)
	}
	return content, signer, nil
}

func verifyContent(file string, content, encoded []byte, trusted *Trusted) (*PublicKey, error) {
	s, err := decodeSignature(encoded)
	if err != nil {
		return nil, fmt.Errorf("its signature is damaged: %w; take both files from where they were recorded, or sign again", err)
	}
	if s.file != file {
		return nil, fmt.Errorf("%w: it was made for a file named %s; give the file its name back, or sign it under this one", ErrForged, s.file)
	}
	key, err := trusted.find(s.key)
	if err != nil {
		return nil, err
	}
	canonical, err := Canonical(content)
	if err != nil {
		return nil, err
	}
	if err := key.verify(s, canonical); err != nil {
		return nil, err
	}
	return key, nil
}
