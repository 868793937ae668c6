package results

import "errors"

// Verify checks the signature of a recorded result and returns why it can't be
// trusted; nil when it can. Whoever knows how results are signed sets it before
// the tool starts; while nobody has, nothing is trusted.
var Verify = func(file string) error {
	return errors.New(file + ": this build of the tool can't check signatures")
}
