// Package broker is the broker's model: virtual hosts, exchanges, bindings,
// queues, consumers, and the file that makes the durable ones survive. It has
// no sockets and knows no protocol's bytes beyond the AMQP field tables that
// arguments are made of.
//
// A queue is a log (package segstore) plus a ready cursor plus a set of
// returned offsets:
//
//		         low            cursor                 next
//		 settled  |  taken, or    |  ready: never        |
//		          |  returned to  |  delivered           |
//		          |  the queue    |                      |
//
//	  - offsets below low, and those in the log's settled set, are done;
//	  - offsets in "returned" were taken once and came back: they are ready again,
//	    are served first in their original order, and carry the redelivered flag;
//	  - other unsettled offsets below cursor are out with some consumer. Who has
//	    them is known to the channel that took them, not to the queue;
//	  - offsets from cursor on are ready, and none of them is settled, but for
//	    records that the store found to be damaged.
//
// Invariants:
//
//  1. ready = returned.Len() + (next - cursor), where purging moves the cursor.
//  2. Every offset is taken by at most one consumer at a time: Take moves it out
//     of the ready set, only Requeue (once) or Settle (once) ends that.
//  3. Consumers in a ring have credit and room. The token (woken) is held by at
//     most one of those of the highest priority; while there are ready messages
//     and a non-empty ring, somebody holds it, or has to fetch a share first that
//     it was told of (deal.go): no message waits beside an idle consumer.
//  4. A queue's log id is never given out twice, so a queue declared again under
//     an old name cannot see old messages.
//  5. A queue that keeps messages for an exchange (history.go, delayed.go) is in no
//     name space and has no consumers; Route gives histories behind all others.
//  6. Definition records are appended in the order of the changes they describe
//     (both happen under the vhost's lock).
//  6. What a change of the ready messages asks for is done in attend, at its
//     end and under the same lock: limits hold whenever the lock is free and no
//     consumer can take. Nothing is read from the disk there.
//  7. A dead letter is neither ready nor with a consumer; it stays unsettled
//     until the keeper has moved it. Those that never were ready are holes behind
//     the cursor: ready = returned.Len() + (next - cursor) - holes.Len().
//  8. Who delivers looks at the record's time first (Deadline): that the keeper
//     is late delivers nothing that has expired.
//
// A queue with limits, times to live, dead letters or a delivery limit has an
// upkeep (upkeep.go), for which a plain one has nil. Its settings are made of
// arguments and policies in one place (effective), immutable, and swapped as a
// whole (apply). What is to be done without a client is done by the keeper
// (keeper.go): one goroutine and a heap of times.
//
// A stream (stream.go) is a queue whose messages stay; its consumers have
// cursors, the queue has none. Of the invariants above 4, 5 and 6 hold for it.
//
// A priority queue is a family of queues, one for each priority in use, with one
// set of consumers and one lock between them (levels.go, crowd.go).
//
// Large messages have their bodies in files (bodies.go): the queue's log holds
// references, the queue removes its name of a file when it settles the message.
//
// Virtual hosts, users and permissions (package access) change under
// Broker.admin, one at a time, each with one record (adminusers.go,
// adminvhosts.go). A change of permissions also raises the version of the
// vhosts: what channels cached under it is void.
//
//  9. Nothing is recorded of a vhost after the record of its deletion: it is
//     marked deleted, under its lock, before.
//
// Policies (policy.go) change under admin too; the set of a vhost is swapped under
// its lock, and applied to what is there without it. Imports (import.go) make
// many changes with one record.
//
// Locks, in this order: Broker.admin, Broker.mu, VHost.mu, Deduplicator.mu,
// Queue.mu, then the log's own; keeper.mu is a leaf. Between Begin and End of a transaction of the
// store VHost.mu must not be taken: who holds it may be waiting for the
// transaction's end.
// Never two of a kind at once, but for those of virtual hosts in a checkpoint and
// in an import, which hold admin; the levels of a priority queue share one. No
// lock is held while a consumer's owner is told something: owners post to their loop.
//
// A paused queue (pause.go) has nobody in its rings. What operators do with messages
// (reading.go) takes them as consumers do, or reads without taking.
//
// Threading: everything may be called from any goroutine. Only Open, Close, Bind to
// an exchange that keeps messages (Replays), and what takes a context wait for the
// disk: the last are not for loops.
package broker
