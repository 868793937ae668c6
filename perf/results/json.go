package results

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// Write writes a result as JSON, indented, a file's final form.
func Write(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("can't write the result: %w", err)
	}
	return nil
}

// WriteFile writes a result into a file.
func WriteFile(path string, value any) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("can't write the result: %w", err)
	}
	if err := Write(file, value); err != nil {
		file.Close()
		return err
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("can't write the result: %w", err)
	}
	return nil
}
