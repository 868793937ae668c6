// Package config is the broker's configuration: one table of keys (keys.go) from
// which come the file's meaning, the environment variables, the flags, the help,
// the default file and docs/configuration.md.
//
// A value comes from a flag, else from the environment (BASALTMQ_SECTION_KEY),
// else from the TOML file, else it is the default.
//
// Invariants:
//
//  1. Every key is in the table, and nowhere else: what is printed is what is read.
//  2. A key that is not known, or a value that is not allowed, is an error that
//     names the place, the key and what is allowed; nothing is guessed.
//  3. Values are checked alike wherever they come from.
//
// It opens no sockets and starts nothing. Threading: no state of its own; a Config
// belongs to its caller.
package config
