package signed

import (
	"fmt"
	"io"
	"os"
)

// Limits of what is read. A recorded result is a few kilobytes, a line of
// trusted keys under three.
const (
	resultBytesMax  = 16 << 20
	keyFileBytesMax = 4 << 10
	sigFileBytesMax = 16 << 10
	trustedBytesMax = 1 << 20
	nameBytesMax    = 64  // of a key's owner
	fileNameMax     = 255 // as file systems have it
)

// readLimited reads a whole file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAllLimited(file, path, limit)
}

func readAllLimited(file io.Reader, path string, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(raw)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return raw, nil
}
