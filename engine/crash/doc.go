// Package crash proves the durability contract against the real broker: it
// starts the built program, loads it, takes it down without warning, starts it
// again on the same data, and checks that everything promised is there and
// nothing that ended has come back. Only tests use it.
//
// A Session is one data directory over many lives of the broker. A life:
//
//  1. start the broker (sometimes killed while it still recovers, and started again)
//  2. observe the topology and compare it with what was answered
//  3. audit the queues: read everything, give it back or ack it, and compare
//     with the ledger; some queues are passed over, so that doubts last
//  4. load for a random while: publishers, consumers, transactions, declares
//  5. cut: SIGKILL, or a file system shut down under the running broker
//
// TestFeatures is another thing: it uses each feature of the broker once, over one
// restart in the middle.
//
// # What is checked (the numbers appear where they are)
//
//  1. A persistent message that was confirmed, or committed by a transaction,
//     and not acked since is in its queue, in each of them for a fanout.
//  2. A message acked longer than Rules.AckGrace before the cut never comes
//     back. The time counts from the answer to a request sent after the ack,
//     because acks have no answer. An ack that once survived a cut stays.
//  3. An ack younger than that may be lost; then its message comes with
//     redelivered set (Rules.Flagged). So does one that was delivered in an
//     earlier life.
//  4. What was never published, was rolled back, or was not yet asked to be
//     committed never appears, and bodies are what was sent, byte for byte.
//  5. In one life no message is delivered twice, unless it was given back; then
//     it is flagged.
//  6. First deliveries to one consumer keep the order of each publisher; an
//     audit, which is alone with its queue, sees all messages in that order.
//  7. A transaction cut before commit-ok took effect wholly or not at all
//     (Rules.Transactions).
//  8. The topology is the one answered, plus a prefix of the requests that were
//     under way, in the order they were sent.
//  9. The broker ends only when it is taken down, and logs no error before.
//  10. What is sent to a broker that has no disk any more is not confirmed,
//     unless a consumer acked it. (Answers to earlier requests that come after
//     the disk went prove nothing either way: see ledger.answered.)
//
// What is seen after a cut was read from files, so it counts as kept for the
// cuts to come even if it was never confirmed.
//
// Threading: a Session belongs to one goroutine; its workers have one goroutine
// and one connection each, and share the ledger, which has one lock.
// Randomness comes from the seed alone; moments do not, so a seed repeats the
// load and the plan of a run, not each interleaving.
package crash
