//go:build !uring

package crash

// How the broker is built: portable, as plain go build does.
const (
	buildTags  = ""
	buildFlags = ""
)
