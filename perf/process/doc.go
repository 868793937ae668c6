// Package process reads what Linux tells about a running process from outside:
// CPU time, memory, bytes written, the load of each thread (brokerstat.go), and
// the blocks allocated below its data directory (diskusage.go).
//
// Everything is read when asked; nothing is kept, so any goroutine may call.
package process
