package signed

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

// encodeLines writes a file of a title and "label value" lines.
func encodeLines(title string, fields ...string) []byte {
	var out strings.Builder
	out.WriteString(title + "\n")
	for i := 0; i < len(fields); i += 2 {
		out.WriteString(fields[i] + " " + fields[i+1] + "\n")
	}
	return []byte(out.String())
}

// decodeLines reads what encodeLines wrote with the same title and labels, and
// nothing else: no other order, no blank more or less.
func decodeLines(raw []byte, title string, labels ...string) (values []string, err error) {
	rest, found := strings.CutPrefix(string(raw), title+"\n")
	if !found {
		return nil, fmt.Errorf("it does not begin with the line %q", title)
	}
	for _, label := range labels {
		line, behind, ended := strings.Cut(rest, "\n")
		value, labelled := strings.CutPrefix(line, label+" ")
		if !labelled || !ended {
			return nil, fmt.Errorf("it has no line %q where that belongs", label)
		}
		values, rest = append(values, value), behind
	}
	if rest != "" {
		return nil, fmt.Errorf("it goes on after its last line")
	}
	return values, nil
}

// decodeBase64 reads exactly size bytes in the one way they can be written.
func decodeBase64(text, what string, size int) ([]byte, error) {
	// The decoder of the standard library skips line ends.
	if strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("its %s is not base64", what)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("its %s is not base64", what)
	}
	if len(raw) != size {
		return nil, fmt.Errorf("its %s has %d bytes, not %d", what, len(raw), size)
	}
	return raw, nil
}

// Fingerprint names a public key.
type Fingerprint [digestBytes]byte

func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

func parseFingerprint(text string) (f Fingerprint, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(f) || hex.EncodeToString(raw) != text {
		return f, fmt.Errorf("its fingerprint is not %d lower-case hexadecimal digits", 2*len(f))
	}
	return Fingerprint(raw), nil
}

// checkName says whether a key's owner can stand in a line.
func checkName(name string) error {
	if name == "" || len(name) > nameBytesMax {
		return fmt.Errorf("a key's name has 1 to %d characters", nameBytesMax)
	}
	for _, c := range []byte(name) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("._@+-", rune(c)) {
			return fmt.Errorf("a key's name consists of letters, digits and . _ @ + -, not %q", c)
		}
	}
	return nil
}

// checkFileName says whether a file's name can stand in a line.
func checkFileName(name string) error {
	if name == "" || name == "." || name == ".." || len(name) > fileNameMax || strings.ContainsAny(name, "/\n\r\x00") {
		return fmt.Errorf("%q is not the name of a file that can be signed", name)
	}
	return nil
}
