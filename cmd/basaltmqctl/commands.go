package main

import "slices"

// commands are all commands, in the order of the overview. Words of a path
// that several share ("store") form a group.
func commands() []command {
	return slices.Concat(
		objects(), lists(), users(), vhosts(), policies(), definitionFiles(),
		[]command{storeVerify(), storeDump()},
	)
}
