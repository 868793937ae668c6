// Package routing holds the bindings of one exchange and answers the question
// "which destinations does this message go to?" for the four exchange types of
// AMQP 0-9-1 (direct, fanout, topic and headers) and for those that give each
// message to one destination: consistent hash (ring and jump), modulus hash and
// random.
//
// It owns data structures only. It never locks, reads a clock, does I/O or
// knows what a destination is: a destination is any comparable value (a queue
// or another exchange).
//
// Layout, shared by all types:
//
//	group        what one lookup ends at: a routing key (direct), everything
//	             (fanout and those that spread), a trie node (topic), an argument
//	             table (headers); holds its distinct destinations in one array
//	link         one (group, destination) pair; chained per destination, so
//	             removing a destination costs what it owns
//	record       one binding, that is one (routing key, arguments) of a link;
//	             a link has more than one only if bindings differ in what the
//	             exchange type does not look at
//
// Everything is addressed by 32-bit numbers in slabs instead of pointers: the
// collector has nothing to trace per binding and a binding stays small
// (BenchmarkTopicMemory prints bytes per binding).
//
// Invariants:
//
//  1. A (routing key, arguments, destination) triple is stored once; arguments
//     are compared by amqp.TableEqual.
//  2. A destination occurs once in a group's targets, whatever the number of
//     records behind it.
//  3. A group without targets does not exist: the Unbind that empties it also
//     prunes what led to it (map entry, trie nodes, header buckets).
//  4. Route writes nothing that outlives it: unknown keys leave no trace.
//  5. Route's work is bounded by what matches a prefix of the key (topic) or
//     shares a header (headers), never by the number of bindings. (Jump and
//     modulus make a list of all in the first Route after a change.)
//  6. Which destination a hash leads to depends on the set of bindings and on
//     the names of destinations alone: not on the process, nor on what was bound
//     before.
//
// Order: Route appends in the order of first binding within a group as long as
// nothing was removed from it; across groups, in the order they are reached.
//
// Threading: Bind, Unbind and UnbindDestination need exclusive access. Route,
// Len, All and ForDestination may run concurrently with each other (scratch
// space is taken from a pool per call), so a reader-writer lock of the caller's
// is enough.
package routing
