// Package loop runs the broker's event loops: sockets, timers and mailboxes,
// one loop per core, each locked to its operating-system thread.
//
// The package knows nothing of any protocol. A connection has a Handler; the
// loop lends it received bytes (Input), tells it when an outstanding write has
// left (Drained) and when the socket is gone (Closed). The blocking wait for
// events is the only place where a loop sleeps.
//
// One turn of a loop:
//
//	poll      collect what is ready; sleep only if nothing is, nothing was
//	          posted and no timer is due
//	now       the clock is read once
//	dispatch  Input, Drained, accepted sockets
//	turn      due timers, then posted, then deferred Runners
//	reap      Closed of the connections that died in this turn
//
// Invariants:
//
//  1. Handlers, timers, deferred and posted Runners of a loop all run on that
//     loop's goroutine, one at a time: protocol state needs no locks.
//  2. At most one Write per connection is outstanding. Until Drained the
//     buffer belongs to the loop; if Closed comes instead, the loop has
//     released it, or will when the kernel lets go of it.
//  3. Closed is the last call a Handler gets, exactly once, never from inside
//     another call of that Handler.
//  4. A Post made before the loop goes to sleep is seen before it sleeps, or
//     wakes it (the flag "sleeping" is raised before the mailbox is looked at
//     the last time).
//  5. A paused connection gets no Input; the kernel's socket buffers push back
//     on the peer. Bytes and the peer's end of them that came before keep their
//     order and are delivered when reading resumes. A peer's end may stay
//     unnoticed while reading is paused.
//  6. What was written before CloseAfterDrain reaches a peer that reads it: the
//     loop ends its direction and discards input until the peer has closed too
//     (for seconds at most), because closing a socket with unread input resets
//     the connection and drops what is still on its way out.
//  7. A descriptor number is not given back to the system while an operation
//     that names it may be queued or under way.
//
// A connection may have a Layer (encryption, framing) between its socket and its
// Handler, for which nothing changes: Input is decoded bytes, one call for what
// one read brought; Write takes plain bytes.
//
// Threading: Post, Stop and the methods that say so may be called from any
// goroutine; everything else only on the loop itself.
//
// Two backends implement the waiting and the transfers: epoll (epoll.go), and
// io_uring (uring.go; build tag "uring").
package loop
