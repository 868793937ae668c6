//go:build uring

package crash

// How the broker is built: as `make build` does.
const (
	buildTags  = "uring"
	buildFlags = "-checklinkname=0"
)
