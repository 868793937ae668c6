// Package signed signs recorded results and verifies them, so that nobody
// lowers the bar by editing a number, and names binaries by digest.
//
// It owns four formats, all of them text, one item per line, decoded strictly:
// what a decoder accepts, its encoder writes back byte for byte.
//
//	private key, mode 0600       trusted keys, a line per key
//	  basaltmq-signing-key 1       NAME FINGERPRINT PUBLIC-KEY
//	  name NAME
//	  fingerprint HEX            signature, FILE.sig beside FILE
//	  ed25519 SEED                 basaltmq-signature 1
//	  ml-dsa-65 SEED               file NAME-OF-FILE
//	                               key FINGERPRINT
//	                               ed25519 SIGNATURE
//	                               ml-dsa-65 SIGNATURE
//
// Seeds, signatures and public keys are base64. A public key is 32 bytes of
// Ed25519 followed by 1952 of ML-DSA-65; its fingerprint is their
// KangarooTwelve digest of 32 bytes, customised with "basaltmq public key 1".
//
// What is signed, by both algorithms, is the statement
//
//	basaltmq-signature 1
//	file NAME-OF-FILE
//	key FINGERPRINT
//	CANONICAL-JSON
//
// with the JSON of the result in the canonical form of RFC 8785. White space
// and the order of members may therefore change without harm; nothing else.
// The file's name is part of the statement because the tables take from it
// which commit and which load a result is about. The fingerprint is part of it
// so that neither signature says anything about another pair of keys. ML-DSA
// gets the first line as its context string besides.
//
// The signature is a file of its own and no member of the result: a result
// stays what the measurement wrote, readers of results need not know of
// signatures, and there is no question which part of a document was signed.
//
// # Invariants
//
//  1. Both signatures verify, or the file is refused: it stays safe while one
//     of the two algorithms does.
//  2. A number means the same before and after canonicalisation. RFC 8785
//     rounds to a double; a number that this would change is refused, so that
//     no reader can see another value than was signed.
//  3. A private key is written with mode 0600 to a file that was not there,
//     and refused when others could read it.
//
// Any function may be called from any goroutine; values are not changed after
// they were made.
package signed
