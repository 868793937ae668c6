// Package access decides who may log in and what they may do: users with hashed
// passwords, tags and limits, and their permissions in virtual hosts. It knows
// no sockets, no files and no protocol: names and bytes in, answers out. Package
// broker keeps what is here durable, package amqp asks it.
//
// A User belongs to a Registry under its name. What a user may do in one virtual
// host is a Grant: three regular expressions (configure, write, read) and, per
// topic exchange, two more for routing keys. A Grant never changes: a change of
// permissions puts another in its place and raises the registry's version, so
// whoever keeps a Grant compares one atomic number to know whether it is still
// the one that counts.
//
// Patterns have RabbitMQ's meaning: they may match anywhere in the name unless
// anchored, case counts, and the empty pattern is "^$", which matches no name
// there is. They are Go regular expressions (RE2), compiled once; answers are
// cached, so many per Grant at most (limits.go). What Erlang's re has and RE2
// does not (look-around, back-references, possessive repeats) is refused when
// it is set, with an error that says so.
//
// Passwords are kept as definitions files of RabbitMQ have them: a salt of four
// bytes and the digest of salt and password, in base64. SHA-256 is what new ones
// get; SHA-512, MD5, bcrypt and argon2id are understood. Passwords count as SASLprep
// has them (saslprep.go).
//
// Invariants:
//
//  1. A Grant and a Spec are immutable once published.
//  2. The version is raised after a change is visible: who reads the version
//     before the Grant never takes an old one for a new one.
//  3. A deleted User stays deleted; a new one of its name is another User.
//  4. Comparing a password takes the same time wherever it differs, and a login
//     of an unknown user hashes, too.
//
// Threading: everything may be called from any goroutine. Changes that must be
// recorded in order are serialised by the caller.
package access
