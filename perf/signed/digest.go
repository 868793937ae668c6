package signed

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"

	"github.com/cloudflare/circl/xof/k12"
)

// digestBytes is the length of all digests here: 128 bits of security against
// collisions, as much as KangarooTwelve gives.
const digestBytes = 32

// DigestFile returns the KangarooTwelve digest of a file in hexadecimal: 32
// bytes, no customisation. For a running program the path is /proc/PID/exe,
// which is the binary that runs even when another one has taken its name.
func DigestFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("signed: can't read the binary to be named by digest: %w", err)
	}
	defer file.Close()
	state := k12.NewDraft10(nil)
	if _, err := io.Copy(&state, file); err != nil {
		return "", fmt.Errorf("signed: can't read the binary to be named by digest: %w", err)
	}
	var sum [digestBytes]byte
	if _, err := state.Read(sum[:]); err != nil {
		return "", fmt.Errorf("signed: can't compute the digest of %s: %w", path, err)
	}
	return hex.EncodeToString(sum[:]), nil
}
