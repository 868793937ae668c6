// Package gen holds the table of every AMQP 0-9-1 method (table.go) and turns
// it into the Go code of package wire/amqp: one file per class with the
// method types and their codecs, and one file with the ids, names and the
// constructor switch.
//
// It runs at development time only ("go generate ./wire/amqp"); the output is
// committed, and a test compares it with what the table gives today.
package gen
