//go:build !(uring && linux)

package loop

import (
	"fmt"

	"github.com/basaltmq/basaltmq/segstore/uring"
)

// ringPeer does not exist in this build.
//
//lint:ignore U1000 it is used in builds with io_uring
type ringPeer struct{}

func newUring(*Loop) (backend, error) { return nil, fmt.Errorf("loop: %w", uring.Probe()) }
