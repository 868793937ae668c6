package scenario

import (
	"sync"

	"github.com/basaltmq/basaltmq/perf/signed"
)

// PerfBinary is the digest of this program.
var PerfBinary = sync.OnceValue(func() string { return binaryDigest("self") })

// brokerBinary is the digest of the program whose process the scenario's
// --broker-pid named; empty without.
func (o *Record) brokerBinary() string {
	if o.Flags == nil {
		return ""
	}
	if pid := o.Flags.Value("broker-pid"); pid != "" && pid != "0" {
		return binaryDigest(pid)
	}
	return ""
}

// binaryDigest is empty for what may not be read, as another user's process: a
// measurement is no worse for it, only less well documented.
func binaryDigest(process string) string {
	digest, err := signed.DigestFile("/proc/" + process + "/exe")
	if err != nil {
		return ""
	}
	return digest
}
