//go:build !(uring && linux)

package disk

import "github.com/basaltmq/basaltmq/segstore/uring"

// OpenUring returns an error that matches errors.ErrUnsupported: this binary
// was built without the tag "uring".
func OpenUring(string) (Disk, error) { return nil, uring.Probe() }
