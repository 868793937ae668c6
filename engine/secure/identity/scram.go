package identity

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
)

// Scram is the mechanism SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel
// binding. The password never travels, and the server proves that it knows it.
// It takes users whose passwords were set here; of hashes that came from
// elsewhere no credential can be made.
//
// Messages: the client's name and nonce; our nonce, its salt and iterations; its
// proof; ours, as a last challenge; an empty response.
type Scram struct {
	identify func(user []byte, remote netip.Addr) (broker.Login, error)
	guard    *Lockout // nil: none
	secret   [32]byte // salts of users that do not exist
}

// NewScram makes one for users that identify finds, without looking at a password
// (broker.Broker.Identify).
func NewScram(identify func(user []byte, remote netip.Addr) (broker.Login, error), guard *Lockout) *Scram {
	s := &Scram{identify: identify, guard: guard}
	_, _ = rand.Read(s.secret[:]) // never fails (crypto/rand)
	return s
}

const (
	scramMessageBytesMax = 2048
	scramNonceBytes      = 18
)

// Name implements amqp.Mechanism.
func (*Scram) Name() string { return "SCRAM-SHA-256" }

// Offered implements amqp.Mechanism.
func (*Scram) Offered(amqp.Peer) bool { return true }

// Login implements amqp.Mechanism: one message does not do.
func (*Scram) Login([]byte, amqp.Peer) (broker.Login, []byte, error) {
	return broker.Login{}, nil, fmt.Errorf("%w: SCRAM takes several messages", broker.ErrRefused)
}

// Begin implements amqp.Dialogue.
func (s *Scram) Begin(p amqp.Peer) amqp.Exchange { return &scramExchange{mechanism: s, peer: p} }

// scramExchange is one login.
type scramExchange struct {
	mechanism *Scram
	peer      amqp.Peer
	next      func(e *scramExchange, response []byte) ([]byte, error)

	user       []byte
	login      broker.Login
	refusal    error // found out early, told late
	credential access.Scram
	bound      string // what the client has to repeat of its first message
	bare       string // its first message without that
	first      string // our first message
	nonce      string
}

// Next implements amqp.Exchange.
func (e *scramExchange) Next(response []byte) (challenge []byte, login broker.Login, user []byte, err error) {
	if e.next == nil {
		e.next = (*scramExchange).begin
	}
	if len(response) > scramMessageBytesMax {
		err = errors.New("a message is too long")
	} else {
		challenge, err = e.next(e, response)
	}
	if err != nil {
		return nil, broker.Login{}, e.user, fmt.Errorf("%w: SCRAM: %w", broker.ErrRefused, err)
	}
	return challenge, e.login, e.user, nil
}

func (e *scramExchange) begin(response []byte) ([]byte, error) {
	if e.mechanism.guard.Locked(e.peer.Remote) {
		return nil, errLocked
	}
	binding, rest, ok := strings.Cut(string(response), ",")
	as, bare, ok2 := strings.Cut(rest, ",")
	if !ok || !ok2 || binding != "n" && binding != "y" {
		return nil, errors.New("the client's first message is not understood, or wants channel binding")
	}
	name, rest, ok := strings.Cut(bare, ",")
	nonce, _, _ := strings.Cut(rest, ",")
	user, isName := strings.CutPrefix(name, "n=")
	nonce, isNonce := strings.CutPrefix(nonce, "r=")
	if !ok || !isName || !isNonce || nonce == "" {
		return nil, errors.New("the client's first message has no name or no nonce")
	}
	decoded, err := decodeName(user)
	if err != nil {
		return nil, err
	}
	e.user = []byte(decoded)
	if as != "" && as != "a="+user {
		return nil, errors.New("the client wants to act as another user")
	}
	e.find()
	ours := make([]byte, scramNonceBytes)
	_, _ = rand.Read(ours) // never fails (crypto/rand)
	b64 := base64.StdEncoding.EncodeToString
	e.bound, e.bare, e.nonce = binding+","+as+",", bare, nonce+b64(ours)
	e.first = fmt.Sprintf("r=%s,s=%s,i=%d", e.nonce, b64(e.credential.Salt), e.credential.Iterations)
	e.next = (*scramExchange).prove
	return []byte(e.first), nil
}

// decodeName undoes the escapes of a user name.
func decodeName(s string) (string, error) {
	if s == "" || strings.Count(s, "=") != strings.Count(s, "=2C")+strings.Count(s, "=3D") {
		return "", errors.New("the user's name is empty or not escaped properly")
	}
	return strings.NewReplacer("=2C", ",", "=3D", "=").Replace(s), nil
}

// find looks the user up. One that cannot log in gets a credential that nobody
// can meet, with a salt that stays the same: the client does not learn why.
func (e *scramExchange) find() {
	login, err := e.mechanism.identify(e.user, e.peer.Remote)
	if prepared := access.Prepared(e.user); err != nil && !bytes.Equal(prepared, e.user) {
		login, err = e.mechanism.identify(prepared, e.peer.Remote)
	}
	if err == nil {
		text := login.User.Spec().Password.Scram
		if text == "" {
			err = fmt.Errorf("there is no SCRAM credential of user '%s', whose password came as a hash: set it anew, or log in with PLAIN", e.user)
		} else if e.credential, err = access.ParseScram(text); err == nil {
			e.login = login
			return
		}
	}
	e.refusal = err
	mac := hmac.New(sha256.New, e.mechanism.secret[:])
	mac.Write(e.user)
	salt := mac.Sum(nil)[:16]
	e.credential = access.Scram{Iterations: access.ScramIterations, Salt: salt, StoredKey: make([]byte, sha256.Size), ServerKey: make([]byte, sha256.Size)}
}

func (e *scramExchange) prove(response []byte) ([]byte, error) {
	i := bytes.LastIndex(response, []byte(",p="))
	if i < 0 {
		return nil, errors.New("the client's final message has no proof")
	}
	without := string(response[:i])
	text := string(response[i+3:])
	proof, err := base64.StdEncoding.Strict().DecodeString(text)
	// Line ends, which the decoder passes over, are no base64.
	if strings.ContainsAny(text, "\r\n") {
		err = errors.New("a line end in the proof")
	}
	fields := strings.SplitN(without, ",", 3) // extensions may follow
	wanted := "c=" + base64.StdEncoding.EncodeToString([]byte(e.bound))
	if err != nil || len(proof) != sha256.Size || len(fields) < 2 || fields[0] != wanted || fields[1] != "r="+e.nonce {
		return nil, errors.New("the client's final message does not go with its first")
	}
	sign := func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(e.bare + "," + e.first + "," + without))
		return mac.Sum(nil)
	}
	key := sign(e.credential.StoredKey)
	subtle.XORBytes(key, key, proof)
	stored := sha256.Sum256(key)
	good := subtle.ConstantTimeCompare(stored[:], e.credential.StoredKey) == 1
	switch {
	case e.refusal != nil:
		err = e.refusal
	case !good:
		err = errors.New("wrong password")
	case e.login.User.Deleted():
		err = errors.New("the user is deleted")
	}
	if err != nil {
		e.login = broker.Login{}
		e.mechanism.guard.Failed(e.peer.Remote, e.user, proof)
		return nil, err
	}
	e.next = (*scramExchange).end
	return []byte("v=" + base64.StdEncoding.EncodeToString(sign(e.credential.ServerKey))), nil
}

func (e *scramExchange) end(response []byte) ([]byte, error) {
	if len(response) > 0 {
		return nil, errors.New("something follows the server's proof")
	}
	return nil, nil
}
