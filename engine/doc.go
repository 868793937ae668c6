// Package engine puts the broker together: data directory, store, definitions,
// event loops, listeners, and an orderly start and stop. It holds no logic of
// its own beyond the order in which things are opened and closed.
//
// Start: listen; lock the data directory; choose I/O backends; open the store
// (its journal is replayed); read the definitions and open the queues' logs; start the loops; accept. Stop: listen
// no more; tell clients (connection.close 320) and wait a moment for them; stop
// the loops; close the store (tails are written and synced, the definitions get
// a last snapshot); leave the mark of a clean stop; unlock.
//
// Threading: Start and Stop are called from one goroutine.
package engine
