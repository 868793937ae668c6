package signed

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPrivateKeyIsWrittenForItsOwnerOnly(t *testing.T) {
	key := newKey(t, "alice")
	path := filepath.Join(t.TempDir(), "keys", "signing-key")
	if err := key.Save(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	loaded, err := LoadKey(path)
	if err != nil || loaded.Name != "alice" || loaded.Fingerprint != key.Fingerprint || loaded.seeds != key.seeds {
		t.Fatalf("%+v, %v", loaded, err)
	}
	result := signResult(t, loaded, "r.json", sampleResult)
	if err := Verify(result, trustIn(t, key)); err != nil {
		t.Error(err)
	}
	if err := newKey(t, "bob").Save(path); err == nil || !strings.Contains(err.Error(), "will not be overwritten") {
		t.Errorf("a key was overwritten: %v", err)
	}
	if again, err := LoadKey(path); err != nil || again.Name != "alice" {
		t.Errorf("after that: %v, %v", again, err)
	}
}

func TestLoadKeyRefuses(t *testing.T) {
	good := newKey(t, "alice").encode()
	other := newKey(t, "alice")
	for _, test := range []struct {
		name    string
		content []byte
		mode    os.FileMode
		text    string
	}{
		{"readable by others", good, 0o644, "chmod 600"},
		{"readable by the group", good, 0o640, "chmod 600"},
		{"empty", nil, 0o600, "begin with"},
		{"another version", bytes.Replace(good, []byte("key 1\n"), []byte("key 2\n"), 1), 0o600, "begin with"},
		{"a bad name", bytes.Replace(good, []byte("alice"), []byte("al ice"), 1), 0o600, "letters, digits"},
		{"another's fingerprint", bytes.Replace(good, good[bytes.Index(good, []byte("fingerprint ")):bytes.Index(good, []byte("ed25519"))],
			[]byte("fingerprint "+other.Fingerprint.String()+"\n"), 1), 0o600, "not that of its seeds"},
		{"cut short", good[:len(good)-1], 0o600, "no line"},
		{"more behind", append(bytes.Clone(good), '\n'), 0o600, "goes on"},
		{"windows line ends", bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")), 0o600, "begin with"},
		{"too large", make([]byte, keyFileBytesMax+1), 0o600, "larger than"},
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, test.content, test.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, test.mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		if _, err := LoadKey(path); err == nil || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v; want %q", test.name, err, test.text)
		}
	}
	if _, err := LoadKey(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "keygen") {
		t.Errorf("no key: %v", err)
	}
	if _, err := LoadKey(t.TempDir()); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Errorf("a directory: %v", err)
	}
}

func TestGenerateKeyMakesDifferentKeys(t *testing.T) {
	a, b := newKey(t, "alice"), newKey(t, "alice")
	if a.Fingerprint == b.Fingerprint || a.seeds[0] == a.seeds[1] || a.seeds[0] == b.seeds[0] || a.seeds[1] == b.seeds[1] {
		t.Error("seeds repeat")
	}
	if _, err := GenerateKey("a name"); err == nil {
		t.Error("a name with a blank was taken")
	}
}

func TestTrustedKeys(t *testing.T) {
	alice, bob := newKey(t, "alice"), newKey(t, "bob")
	path := filepath.Join(t.TempDir(), "trusted-keys")
	// A last line without its end must not swallow the new key.
	if err := os.WriteFile(path, []byte("# none yet"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, key := range []*PrivateKey{alice, bob} {
		if err := Trust(path, &key.PublicKey); err != nil {
			t.Fatal(err)
		}
	}
	trusted, err := LoadTrusted(path)
	if err != nil || len(trusted.keys) != 2 {
		t.Fatalf("%v, %v", trusted, err)
	}
	for _, key := range []*PrivateKey{alice, bob} {
		if got, err := trusted.find(key.Fingerprint); err != nil || got.Name != key.Name {
			t.Errorf("%v, %v", got, err)
		}
	}
	if _, err := trusted.find(Fingerprint{1}); !errors.Is(err, ErrUntrusted) {
		t.Errorf("a stranger: %v", err)
	}
	if err := Trust(path, &alice.PublicKey); err == nil {
		t.Error("a key was added twice")
	}
	if err := Trust(path, &newKey(t, "bob").PublicKey); err == nil {
		t.Error("a name was given to two keys")
	}
	if _, err := LoadTrusted(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "--trusted") {
		t.Errorf("no file: %v", err)
	}
}

func TestTrustedKeysRefuseDamagedLines(t *testing.T) {
	line := newKey(t, "alice").TrustLine()
	fields := strings.Split(line, " ")
	for name, damaged := range map[string]string{
		"no key":          fields[0] + " " + fields[1],
		"two blanks":      strings.Replace(line, " ", "  ", 1),
		"carriage return": line + "\r",
		"fingerprint":     strings.Join([]string{fields[0], strings.Repeat("0", 64), fields[2]}, " "),
		"upper case":      strings.Join([]string{fields[0], strings.ToUpper(fields[1]), fields[2]}, " "),
		"short key":       strings.Join([]string{fields[0], fields[1], fields[2][:len(fields[2])-4]}, " "),
		"key":             strings.Join([]string{fields[0], fields[1], flip(fields[2])}, " "),
	} {
		if _, err := parseTrusted("keys", []byte("# first\n"+damaged+"\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// flip changes the first character of base64 to another one.
func flip(text string) string {
	if text[0] == 'A' {
		return "B" + text[1:]
	}
	return "A" + text[1:]
}

func FuzzDecodePrivateKey(f *testing.F) {
	f.Add(newKey(f, "alice").encode())
	f.Add([]byte(keyTitle + "\nname a\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if key, err := decodePrivateKey(raw); err == nil && !bytes.Equal(key.encode(), raw) {
			t.Errorf("%q was read as %q", raw, key.encode())
		}
	})
}

func FuzzParseTrusted(f *testing.F) {
	f.Add([]byte("# a\n\n" + newKey(f, "alice").TrustLine() + "\n"))
	f.Add([]byte("alice 00 AAAA"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		trusted, err := parseTrusted("fuzz", raw)
		if err != nil {
			return
		}
		for line := range strings.Lines(string(raw)) {
			line = strings.TrimSuffix(line, "\n")
			if line == "" || line[0] == '#' {
				continue
			}
			key, err := parseTrustLine(line)
			if err != nil || key.TrustLine() != line || trusted.keys[key.Fingerprint] == nil {
				t.Errorf("%q was read as %v, %v", line, key, err)
			}
		}
	})
}
