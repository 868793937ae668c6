package oauth2

import (
	"errors"
	"strings"
	"testing"
)

// TestReadToken: what a token endpoint may answer.
func TestReadToken(t *testing.T) {
	for _, c := range []struct {
		code       int
		data, want string // the token, or part of the error
	}{
		{200, `{"access_token":"a.b.c","token_type":"Bearer"}`, "a.b.c"},
		{200, `{"access_token":"a.b.c","token_type":"bearer","expires_in":"soon"}`, "a.b.c"},
		{200, `{"access_token":"a.b.c"}`, "of the type ''"},
		{200, `{"access_token":"a.b.c; HttpOnly","token_type":"Bearer"}`, "not one that can be used"},
		{200, `{"access_token":"` + strings.Repeat("x", tokenBytesMax+1) + `","token_type":"Bearer"}`, "not one that can be used"},
		{200, `{"token_type":"Bearer"}`, "no access token"},
		{200, `<html>`, "not understood"},
		{400, `{"error":"invalid_grant","error_description":"used\ntwice"}`, "refuses the code: invalid_grant used?twice"},
		{401, `{"error":"invalid_client"}`, "compare client_id"},
		{500, `{"access_token":"a.b.c","token_type":"Bearer"}`, "answers 500"},
	} {
		token, err := readToken("500 of the test", c.code, []byte(c.data))
		if err == nil && token != c.want || err != nil && !strings.Contains(err.Error(), c.want) || (err == nil) != (c.want == "a.b.c") {
			t.Errorf("%d %.80s: %.20q, %v", c.code, c.data, token, err)
		}
		if errors.Is(err, ErrGrant) != (c.code == 400) {
			t.Errorf("%d: %v", c.code, err)
		}
	}
}

// FuzzReadToken: an answer gives a token that can be in a cookie, or an error that
// can be in a log.
func FuzzReadToken(f *testing.F) {
	f.Add(200, []byte(`{"access_token":"a.b.c","token_type":"Bearer"}`))
	f.Add(400, []byte(`{"error":"invalid_grant","error_description":"\u0000"}`))
	f.Add(302, []byte("x"))
	f.Fuzz(func(t *testing.T, code int, data []byte) {
		token, err := readToken("a status", code, data)
		if err == nil && (token == "" || strings.ContainsAny(token, " ;,\"\\\r\n") || code != 200) {
			t.Fatalf("%d: %q", code, token)
		}
		if errors.Is(err, ErrGrant) && Plain(err.Error()) != err.Error()[:min(len(err.Error()), plainBytesMax)] {
			t.Fatalf("%q", err)
		}
	})
}
