package signed

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const sampleResult = `{
  "scenario": "throughput",
  "consumed_per_s": 16739115.99760478,
  "published_total": 68090853,
  "broker_writes": { "bytes": 0, "bytes_per_payload_byte": 1e-7 },
  "environment": { "cpu": { "model": "A \u0001 CPU", "features": ["AVX", "SSE"] }, "commit": "506122c21c3b" }
}
`

func newKey(t testing.TB, name string) *PrivateKey {
	t.Helper()
	key, err := GenerateKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func trustIn(t testing.TB, keys ...*PrivateKey) *Trusted {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trusted-keys")
	if err := os.WriteFile(path, []byte("# keys\n\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if err := Trust(path, &key.PublicKey); err != nil {
			t.Fatal(err)
		}
	}
	trusted, err := LoadTrusted(path)
	if err != nil {
		t.Fatal(err)
	}
	return trusted
}

func writeResult(t testing.TB, name, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func signResult(t testing.TB, key *PrivateKey, name, content string) (path string) {
	t.Helper()
	path = writeResult(t, name, content)
	if err := SignFile(path, key); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSignedResultVerifies(t *testing.T) {
	key, other := newKey(t, "alice"), newKey(t, "bob")
	path := signResult(t, key, "r.json", sampleResult)
	trusted := trustIn(t, other, key)
	if err := Verify(path, trusted); err != nil {
		t.Fatal(err)
	}
	content, signer, err := ReadVerified(path, trusted)
	if err != nil || string(content) != sampleResult || signer.Name != "alice" || signer.Fingerprint != key.Fingerprint {
		t.Fatalf("%q, %v, %v", content, signer, err)
	}
	// Layout and order of members are not part of what is signed.
	relaid := strings.NewReplacer("\n", "", "  ", "\t").Replace(sampleResult)
	if err := os.WriteFile(path, []byte(relaid), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Verify(path, trusted); err != nil {
		t.Errorf("with another layout: %v", err)
	}
}

func TestVerifyRefuses(t *testing.T) {
	key := newKey(t, "alice")
	trusted := trustIn(t, key)
	for _, test := range []struct {
		name   string
		change func(path string) error
		want   error
		text   string
	}{
		{"no signature", func(path string) error { return os.Remove(path + Suffix) }, ErrUnsigned, "basaltmqperf sign"},
		{"another number", func(path string) error {
			return os.WriteFile(path, bytes.Replace([]byte(sampleResult), []byte("68090853"), []byte("68090852"), 1), 0o644)
		}, ErrForged, "changed after signing"},
		{"a member more", func(path string) error {
			return os.WriteFile(path, bytes.Replace([]byte(sampleResult), []byte("{"), []byte(`{"Consumed_Per_S":1,`), 1), 0o644)
		}, ErrForged, "changed after signing"},
		{"a member twice", func(path string) error {
			return os.WriteFile(path, bytes.Replace([]byte(sampleResult), []byte("{"), []byte(`{"consumed_per_s":1,`), 1), 0o644)
		}, nil, "duplicate"},
		{"no JSON", func(path string) error { return os.WriteFile(path, []byte("hello"), 0o644) }, nil, "no JSON that can be signed"},
		{"a damaged signature", func(path string) error { return os.WriteFile(path+Suffix, []byte("x\n"), 0o644) }, nil, "sign again"},
		{"an enormous signature", func(path string) error { return os.WriteFile(path+Suffix, make([]byte, sigFileBytesMax+1), 0o644) }, nil, "larger than"},
		{"a key not trusted", func(path string) error { return SignFile(path, newKey(t, "alice")) }, ErrUntrusted, "add the line that keygen"},
		{"no file", os.Remove, os.ErrNotExist, "can't read"},
	} {
		path := signResult(t, key, "r.json", sampleResult)
		if err := test.change(path); err != nil {
			t.Fatal(err)
		}
		err := Verify(path, trusted)
		if err == nil || !strings.Contains(err.Error(), test.text) || test.want != nil && !errors.Is(err, test.want) {
			t.Errorf("%s: %v; want %v, %q", test.name, err, test.want, test.text)
		}
	}
}

// A slower result must not take the place of a faster one, nor one commit's
// figures that of another's.
func TestVerifyRefusesSignatureUnderAnotherName(t *testing.T) {
	key := newKey(t, "alice")
	trusted := trustIn(t, key)
	path := signResult(t, key, "old.json", sampleResult)
	renamed := writeResult(t, "new.json", sampleResult)
	encoded, err := os.ReadFile(path + Suffix)
	if err != nil {
		t.Fatal(err)
	}
	for what, sig := range map[string][]byte{
		"renamed":                          encoded,
		"renamed, and the name inside too": bytes.Replace(encoded, []byte("old.json"), []byte("new.json"), 1),
	} {
		if err := os.WriteFile(renamed+Suffix, sig, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Verify(renamed, trusted); !errors.Is(err, ErrForged) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Every byte of the canonical JSON, of both signatures and of the signature
// file's other lines, each changed alone. With -short every 23rd.
func TestTamperingWithAnyByteIsRefused(t *testing.T) {
	key := newKey(t, "alice")
	trusted := trustIn(t, key)
	canonical, err := Canonical([]byte(sampleResult))
	if err != nil {
		t.Fatal(err)
	}
	s, err := key.sign("r.json", canonical)
	if err != nil {
		t.Fatal(err)
	}
	if err := key.verify(s, canonical); err != nil {
		t.Fatal(err)
	}
	step := 1
	if testing.Short() {
		step = 23
	}
	for what, target := range map[string][]byte{"JSON": canonical, "Ed25519": s.ed25519, "ML-DSA-65": s.mldsa, "key": s.key[:]} {
		for i := 0; i < len(target); i += step {
			change := byte(1) << (i % 8)
			target[i] ^= change
			if what == "key" {
				if _, err := verifyContent("r.json", canonical, s.encode(), trusted); err == nil {
					t.Errorf("%s: byte %d changed, and it verifies", what, i)
				}
			} else if key.verify(s, canonical) == nil {
				t.Errorf("%s: byte %d changed, and it verifies", what, i)
			}
			target[i] ^= change
		}
	}
	encoded := s.encode()
	for i := 0; i < len(encoded); i += step {
		encoded[i] ^= 0x01
		if _, err := verifyContent("r.json", canonical, encoded, trusted); err == nil {
			t.Errorf("byte %d of the signature file changed, and it verifies", i)
		}
		encoded[i] ^= 0x01
	}
	if _, err := verifyContent("r.json", canonical, encoded, trusted); err != nil {
		t.Errorf("unchanged: %v", err)
	}
}

// The property in general: files verify exactly when their canonical form, name
// and signatures are those that were made together.
func TestOnlyWhatWasSignedVerifies(t *testing.T) {
	keys := []*PrivateKey{newKey(t, "alice"), newKey(t, "bob")}
	trusted := trustIn(t, keys...)
	canonical, err := Canonical([]byte(sampleResult))
	if err != nil {
		t.Fatal(err)
	}
	other, err := Canonical([]byte(strings.Replace(sampleResult, "68090853", "68090854", 1)))
	if err != nil {
		t.Fatal(err)
	}
	contents, names := [][]byte{canonical, other}, []string{"a.json", "b.json"}
	rapid.Check(t, func(t *rapid.T) {
		pick := func(what string) int { return rapid.IntRange(0, 1).Draw(t, what) }
		signer, content, name := pick("signer"), pick("content"), pick("name")
		s, err := keys[signer].sign(names[name], contents[content])
		if err != nil {
			t.Fatalf("%v", err)
		}
		// Halves of two signatures do not make one.
		half, from := pick("half"), pick("from")
		donor, err := keys[from].sign(names[pick("donor name")], contents[pick("donor content")])
		if err != nil {
			t.Fatalf("%v", err)
		}
		mixed := *s
		wantMixed := from == signer && donor.file == s.file && keys[signer].verify(donor, contents[content]) == nil
		if half == 0 {
			mixed.ed25519 = donor.ed25519
		} else {
			mixed.mldsa = donor.mldsa
		}
		check := func(what string, s *signature, name string, content []byte, want bool) {
			_, err := verifyContent(name, content, s.encode(), trusted)
			if (err == nil) != want {
				t.Fatalf("%s: %v, want it to verify: %v", what, err, want)
			}
		}
		check("mixed", &mixed, names[name], contents[content], wantMixed)
		shownName, shownContent := pick("shown name"), pick("shown content")
		check("swapped", s, names[shownName], contents[shownContent], shownName == name && shownContent == content)

		tampered := bytes.Clone(contents[content])
		at := rapid.IntRange(0, len(tampered)-1).Draw(t, "at")
		tampered[at] = rapid.Byte().Draw(t, "byte")
		// 1E-7 and 1e-7, \u001F and \u001f are one value: equal in canonical form.
		form, err := Canonical(tampered)
		same := err == nil && bytes.Equal(form, contents[content])
		check(fmt.Sprintf("tampered at %d", at), s, names[name], tampered, same)
	})
}

func TestSignRefusesWhatItCouldNotVerify(t *testing.T) {
	key := newKey(t, "alice")
	for name, content := range map[string]string{"r.json": `{"a":9007199254740993}`, "new\nline.json": `{}`} {
		path := writeResult(t, name, content)
		if err := SignFile(path, key); err == nil {
			t.Errorf("%q was signed", name)
		}
		if _, err := os.Stat(path + Suffix); !os.IsNotExist(err) {
			t.Errorf("%q: a signature was left behind: %v", name, err)
		}
	}
}

func FuzzDecodeSignature(f *testing.F) {
	s, err := newKey(f, "alice").sign("r.json", []byte(`{}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(s.encode())
	f.Add([]byte(sigTitle + "\nfile a\nkey 00\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s, err := decodeSignature(raw); err == nil && !bytes.Equal(s.encode(), raw) {
			t.Errorf("%q was read as %q", raw, s.encode())
		}
	})
}
