package identity

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/xdg-go/scram"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
)

// oneUser is a Scram that knows joe, whose password is secret.
func oneUser(t testing.TB) *Scram {
	t.Helper()
	u, err := access.NewScopedUser(access.Spec{Name: "joe", Password: access.HashPassword([]byte("secret"))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return NewScram(func(user []byte, _ netip.Addr) (broker.Login, error) {
		if string(user) != u.Name {
			return broker.Login{}, broker.ErrRefused
		}
		return broker.Login{User: u}, nil
	}, nil)
}

// TestScram_UnknownUser: the salt of a user that does not exist stays the same, as
// that of one that does.
func TestScram_UnknownUser(t *testing.T) {
	s := oneUser(t)
	salt := func(user string) string {
		challenge, _, _, err := s.Begin(amqp.Peer{}).Next([]byte("n,,n=" + user + ",r=x"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(challenge), ",")
		return rest
	}
	for _, user := range []string{"joe", "nobody"} {
		if a, b := salt(user), salt(user); a != b {
			t.Errorf("%s: %s, then %s", user, a, b)
		}
	}
	if salt("nobody") == salt("somebody") {
		t.Error("one salt for all")
	}
}

// TestScram_LineEnds: what a decoder of base64 would pass over makes no proof.
func TestScram_LineEnds(t *testing.T) {
	client, err := scram.SHA256.NewClient("joe", "secret", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, between := range []string{"", "\n", "\r\n"} {
		talk := client.NewConversation()
		first, err := talk.Step("")
		if err != nil {
			t.Fatal(err)
		}
		e := oneUser(t).Begin(amqp.Peer{})
		challenge, _, _, err := e.Next([]byte(first))
		if err != nil {
			t.Fatal(err)
		}
		final, err := talk.Step(string(challenge))
		if err != nil {
			t.Fatal(err)
		}
		middle := len(final) - 8
		if _, _, _, err = e.Next([]byte(final[:middle] + between + final[middle:])); (err == nil) != (between == "") {
			t.Errorf("%q in the proof: %v", between, err)
		}
	}
}

// FuzzScram: whatever a client says, nobody is logged in who does not know the
// password, and each run ends.
func FuzzScram(f *testing.F) {
	client, err := scram.SHA256.NewClient("joe", "secret", "")
	if err != nil {
		f.Fatal(err)
	}
	first, err := client.NewConversation().Step("")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(first), []byte("c=biws,r=x,p=AAAA"), []byte(""))
	f.Add([]byte("y,a=joe,n=joe,r=x"), []byte("c=eSxhPWpvZSw=,r=x,e=1,p="), []byte("x"))
	f.Add([]byte("n,,n=j=2Co=3De,r=x,e"), []byte(",p="), []byte(""))
	s := oneUser(f)
	f.Fuzz(func(t *testing.T, first, final, last []byte) {
		e := s.Begin(amqp.Peer{})
		for _, response := range [][]byte{first, final, last} {
			challenge, login, _, err := e.Next(response)
			if err != nil {
				if !errors.Is(err, broker.ErrRefused) {
					t.Fatal(err)
				}
				return
			}
			if challenge == nil {
				t.Fatalf("logged in as %v", login.User)
			}
		}
		t.Fatal("it does not end")
	})
}
