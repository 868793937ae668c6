package definitions

import (
	"fmt"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/engine/broker"
)

// Refused says what of a file was refused: nothing has changed.
type Refused struct{ Lines []broker.Refusal }

// Error implements error: one line for each refusal.
func (r *Refused) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the definitions were refused as a whole, nothing has changed; %d problems:", len(r.Lines))
	if len(r.Lines) == 1 {
		b.Reset()
		b.WriteString("the definitions were refused as a whole, nothing has changed:")
	}
	for _, line := range r.Lines {
		b.WriteString("\n  " + line.String())
	}
	return b.String()
}

// Report says what an import did.
type Report struct {
	Seq     uint64   // of the record; it survives a crash when this is durable
	Changes int      // things created or changed; 0: all was there
	Ignored []string // sections that mean nothing here
}

// Import makes what a file asks for: all of it, or nothing (*Refused). vhost is
// where everything goes if the file is of a single virtual host; else empty.
func Import(b *broker.Broker, data []byte, vhost string) (Report, error) {
	if len(data) > FileBytesMax {
		return Report{}, &Refused{[]broker.Refusal{{At: "$", Text: fmt.Sprintf("has more than %d MiB: import one virtual host after the other", FileBytesMax>>20)}}}
	}
	in, refused, ignored := parse(data, vhost)
	if len(refused) > 0 {
		return Report{}, &Refused{refused}
	}
	result, refused, err := b.Import(in)
	if len(refused) > 0 {
		return Report{}, &Refused{refused[:min(len(refused), refusalsMax)]}
	}
	return Report{Seq: result.Seq, Changes: result.Changes, Ignored: ignored}, err
}

// HasUsers says whether a file has users: who imports it into an empty data
// directory wants those, and no default user beside them.
func HasUsers(data []byte) bool {
	in, _, _ := parse(data, "")
	return slices.ContainsFunc(in.Users, func(u broker.Imported[broker.UserImport]) bool { return u.Value.Name != "" })
}
