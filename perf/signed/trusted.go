package signed

import (
	"fmt"
	"os"
	"strings"
)

// Trusted is a set of public keys whose signatures count.
type Trusted struct {
	source string // for messages
	keys   map[Fingerprint]*PublicKey
}

// LoadTrusted reads a file of trusted keys: one per line, name, fingerprint and
// public key; blank lines and lines that begin with # say nothing.
func LoadTrusted(path string) (*Trusted, error) {
	raw, err := readLimited(path, trustedBytesMax)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("signed: there is no list of trusted keys at %s: name it with --trusted", path)
	}
	if err != nil {
		return nil, fmt.Errorf("signed: can't read the trusted keys: %w", err)
	}
	return parseTrusted(path, raw)
}

func parseTrusted(source string, raw []byte) (*Trusted, error) {
	trusted := &Trusted{source: source, keys: make(map[Fingerprint]*PublicKey)}
	names := make(map[string]bool)
	number := 0
	for line := range strings.Lines(string(raw)) {
		number++
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		key, err := parseTrustLine(line)
		if err == nil && (names[key.Name] || trusted.keys[key.Fingerprint] != nil) {
			err = fmt.Errorf("its name or its key is there twice")
		}
		if err != nil {
			return nil, fmt.Errorf("signed: %s: line %d is not a trusted key: %w; copy the line that \"basaltmqperf keygen\" printed", source, number, err)
		}
		names[key.Name], trusted.keys[key.Fingerprint] = true, key
	}
	return trusted, nil
}

func parseTrustLine(line string) (*PublicKey, error) {
	fields := strings.Split(line, " ")
	if len(fields) != 3 {
		return nil, fmt.Errorf("it has %d fields, not name, fingerprint and key", len(fields))
	}
	if err := checkName(fields[0]); err != nil {
		return nil, err
	}
	fingerprint, err := parseFingerprint(fields[1])
	if err != nil {
		return nil, err
	}
	packed, err := decodeBase64(fields[2], "key", publicKeyBytes)
	if err != nil {
		return nil, err
	}
	key, err := newPublicKey(fields[0], packed)
	if err != nil {
		return nil, err
	}
	if key.Fingerprint != fingerprint {
		return nil, fmt.Errorf("its fingerprint is not that of its key")
	}
	return key, nil
}

// find returns the key with a fingerprint, or why there is none.
func (t *Trusted) find(fingerprint Fingerprint) (*PublicKey, error) {
	if key := t.keys[fingerprint]; key != nil {
		return key, nil
	}
	return nil, fmt.Errorf("%w: %s is not among the %d of %s; if its owner is to be trusted, add the line that keygen printed", ErrUntrusted, fingerprint, len(t.keys), t.source)
}

// Trust appends a key to a file of trusted keys, which is made when it is not
// there.
func Trust(path string, key *PublicKey) error {
	raw, err := readLimited(path, trustedBytesMax)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("signed: can't read the trusted keys: %w", err)
	}
	if len(raw) > 0 && raw[len(raw)-1] != '\n' {
		raw = append(raw, '\n')
	}
	raw = append(raw, key.TrustLine()+"\n"...)
	if _, err := parseTrusted(path, raw); err != nil {
		return err
	}
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		return fmt.Errorf("signed: can't write the trusted keys: %w", err)
	}
	return nil
}
