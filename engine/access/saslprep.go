package access

import (
	"sync"

	"github.com/xdg-go/stringprep"
)

// saslprep is SASLprep (RFC 4013) for queries: code points that Unicode 3.2 did not
// have, emoji among them, stay as they are. It is made when a text that is not
// ASCII comes for the first time: its tables are not in memory before.
var saslprep = sync.OnceValue(func() stringprep.Profile {
	p := stringprep.SASLprep
	p.Prohibits = p.Prohibits[1:] // the first are the unassigned ones
	return p
})

// preparedBytesMax bounds what is prepared: nobody has a longer password, and
// normalising takes time.
const preparedBytesMax = 1024

// Prepared is a password or a user's name as SASL mechanisms compare them (RFC
// 4616, 2; RFC 5802, 5.1): text that looks the same is the same. What SASLprep
// does not allow, or is no text, counts as it is. ASCII stays as it is: then the
// answer is text itself.
func Prepared(text []byte) []byte {
	if isASCII(text) || len(text) > preparedBytesMax {
		return text
	}
	out, err := saslprep().Prepare(string(text))
	if err != nil || out == "" {
		return text
	}
	return []byte(out)
}

func isASCII(text []byte) bool {
	for _, b := range text {
		if b >= 0x80 {
			return false
		}
	}
	return true
}
