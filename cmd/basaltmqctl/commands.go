package main

import "slices"

// commands are all commands, in the order of the overview. Words of a path
// that several share ("store") form a group.
func commands() []command {
	return slices.Concat(
		server(), declarations(), objects(), queueOperations(), lists(), users(), vhosts(), policies(), definitionFiles(), configuration(), notBuilt(),
		[]command{offlineDefinitions(), storeVerify(), storeDump(), completion()},
	)
}
