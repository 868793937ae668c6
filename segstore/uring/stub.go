//go:build !(uring && linux)

package uring

// Built is true when this binary contains the io_uring backends.
const Built = false

// Probe returns an UnavailableError: this binary was built without io_uring.
func Probe() error {
	return &UnavailableError{Hint: `this binary was built without io_uring (build tag "uring" on Linux)`}
}
