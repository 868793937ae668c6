package routing

import (
	"math/bits"
	"strconv"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// The exchange types that spread messages by a hash must come to the same
// destination after a restart, on every machine and in every later version. So
// the hash is not the process's seeded one (hashtable.go) but fixed for good:
// FNV-1a of 64 bits, finished with the finaliser of MurmurHash3 because FNV's
// high bits hardly depend on the last bytes.

const (
	fnvOffset uint64 = 0xcbf29ce484222325
	fnvPrime  uint64 = 0x100000001b3
)

// stableHash hashes what a message is spread by. Its values must never change:
// TestStableHash_Vectors holds them.
func stableHash[T ~string | ~[]byte](value T) uint64 {
	hash := fnvOffset
	for i := range len(value) {
		hash = (hash ^ uint64(value[i])) * fnvPrime
	}
	return finish(hash)
}

// finish is the 64-bit finaliser of MurmurHash3.
func finish(hash uint64) uint64 {
	hash ^= hash >> 33
	hash *= 0xff51afd7ed558ccd
	hash ^= hash >> 33
	hash *= 0xc4ceb9fe1a85ec53
	return hash ^ hash>>33
}

// reduce maps a hash to a number below n evenly (multiply and shift: no
// division, and all bits of the hash count).
func reduce(hash uint64, n int) int {
	high, _ := bits.Mul64(hash, uint64(n))
	return int(high)
}

// jump is "jump consistent hash" (Lamping and Veach, 2014): it maps a hash to a
// bucket below n such that going from n to n+1 moves 1/(n+1) of the hashes, all
// of them to the new bucket.
func jump(hash uint64, n int) int {
	bucket, next := int64(-1), int64(0)
	for next < int64(n) {
		bucket = next
		hash = hash*2862933555777941757 + 1
		next = int64(float64(bucket+1) * (float64(1<<31) / float64(hash>>33+1)))
	}
	return int(bucket)
}

// WeightMax bounds the weight of a binding to a consistent hash exchange: a ring
// takes pointsPerWeight points of 8 bytes for each unit of it, so that the
// heaviest binding costs about 1.4 MB.
const WeightMax = 1000

// ValidateWeight checks the routing key of a binding to a consistent hash
// exchange: its weight, a decimal number from 1 to WeightMax. Error 406.
func ValidateWeight(routingKey string) error {
	weight, err := strconv.Atoi(routingKey)
	switch {
	case err != nil:
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "The binding key must be an integer: %s", erlangBinary(routingKey))
	case weight < 1:
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "The binding key must be greater than 0")
	case weight > WeightMax:
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "The binding key must not be greater than %d: it is a weight relative to those of other bindings; divide them all", WeightMax)
	}
	return nil
}

// erlangBinary writes text as RabbitMQ does in its errors.
func erlangBinary(text string) string {
	if text == "" {
		return "<<>>"
	}
	return "<<" + strconv.Quote(text) + ">>"
}

// weightOf is the weight that a routing key says; 1 for one that ValidateWeight
// refuses.
func weightOf(routingKey string) int {
	weight, err := strconv.Atoi(routingKey)
	if err != nil || weight < 1 || weight > WeightMax {
		return 1
	}
	return weight
}
