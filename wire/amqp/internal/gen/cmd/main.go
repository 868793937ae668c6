// Command cmd writes the generated files of package wire/amqp into the
// current directory; go generate runs it there.
package main

import (
	"fmt"
	"os"

	"github.com/basaltmq/basaltmq/wire/amqp/internal/gen"
)

func main() {
	files, err := gen.Generate()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for name, source := range files {
		if err := os.WriteFile(name, source, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
