package signin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/dialect/dialecttest"
	"github.com/agon-arena/agon/kinds/shopping/signin/signintest"
)

// sessionRig is a server of the three session routes, and a way to use a token.
type sessionRig struct {
	t   *testing.T
	s   *Sessions
	v   *dialect.Verifier
	now time.Time
}

func newSessionRig(t *testing.T) *sessionRig {
	rig := &sessionRig{t: t, now: dialecttest.Now}
	clock := func() time.Time { return rig.now }
	v := dialecttest.Verifier(t)
	v.Now = clock
	rig.s = &Sessions{Keep: signintest.New(clock), Verifier: v}
	v.Dialects = []dialect.Dialect{ORO{Sessions: rig.s}}
	rig.v = v
	return rig
}

func (rig *sessionRig) post(path, body string, headers ...string) (int, map[string]any, string) {
	rig.t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	rig.s.Handler().ServeHTTP(w, r)
	var m map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &m); err != nil {
		rig.t.Fatalf("%s: %v: %s", path, err, w.Body)
	}
	return w.Code, m, w.Body.String()
}

func (rig *sessionRig) challenge(k *auth.Key) string {
	rig.t.Helper()
	code, m, text := rig.post("/challenge", `{"hotkey":"`+k.SS58()+`"}`)
	challenge, _ := m["challenge"].(string)
	if code != 200 || m["expires_at"] != float64(rig.now.Unix()+60) || !strings.HasPrefix(challenge, fmt.Sprintf("bittensor-auth:%d:", rig.now.Unix())) ||
		len(challenge[strings.LastIndexByte(challenge, ':')+1:]) != 32 {
		rig.t.Fatalf("challenge: %d %s", code, text)
	}
	return challenge
}

func (rig *sessionRig) session(k *auth.Key, challenge, signature string) (int, string) {
	body, _ := json.Marshal(map[string]string{"hotkey": k.SS58(), "challenge": challenge, "signature": signature})
	code, m, text := rig.post("/session", string(body))
	if token, ok := m["session_token"].(string); ok {
		return code, token
	}
	return code, text
}

func (rig *sessionRig) open(k *auth.Key) string {
	rig.t.Helper()
	c := rig.challenge(k)
	code, token := rig.session(k, c, "0x"+dialecttest.Sign(rig.t, k, []byte(c)))
	if code != 200 || !strings.HasPrefix(token, "ses_") || len(token) != 68 {
		rig.t.Fatalf("session: %d %s", code, token)
	}
	return token
}

func (rig *sessionRig) use(header string, need dialect.Need) string {
	return dialecttest.Outcome(rig.v.Verify(context.Background(), dialecttest.Request("GET", "/x", "", "Authorization", header), need))
}

func TestSessions(t *testing.T) {
	rig := newSessionRig(t)
	alice, bob := dialecttest.Key(t, "//Alice"), dialecttest.Key(t, "//Bob")
	token := rig.open(alice)
	for header, want := range map[string]string{
		"Bearer " + token:             "ok",
		"  bearer \t " + token + "  ": "ok",
		"Bearer":                      `Unauthorized {"detail":"Missing or invalid Authorization header"}`,
		"Basic " + token:              `Unauthorized {"detail":"Missing or invalid Authorization header"}`,
		"Bearer ses_x":                `Unauthorized {"detail":"Invalid or expired session"}`,
		"Bearer " + token + " x":      `Unauthorized {"detail":"Invalid or expired session"}`,
	} {
		if got := rig.use(header, dialect.Need{}); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
	// A bad token is not saved by good headers; no Authorization header is none.
	r := oroRequest(t, alice, dialecttest.Stamp(0), "n", "Authorization", "Bearer ses_x")
	if got := dialecttest.Outcome(rig.v.Verify(context.Background(), r, dialect.Need{})); got != `Unauthorized {"detail":"Invalid or expired session"}` {
		t.Error(got)
	}
	r = oroRequest(t, alice, dialecttest.Stamp(0), "n", "Authorization", " ")
	if got := dialecttest.Outcome(rig.v.Verify(context.Background(), r, dialect.Need{})); got != "ok" {
		t.Error(got)
	}
	// Logout.
	for _, c := range []struct{ header, want string }{
		{"", `{"detail":"Missing Authorization header"}`},
		{"Token x", `{"detail":"Invalid Authorization header format"}`},
		{"Bearer ses_x", `{"detail":"Invalid or expired session"}`},
		{"Bearer " + token, `{"success":true}`},
		{"Bearer " + token, `{"detail":"Invalid or expired session"}`},
	} {
		if _, _, text := rig.post("/logout", "", "Authorization", c.header); text != c.want {
			t.Errorf("logout %q: %s", c.header, text)
		}
	}
	if got := rig.use("Bearer "+token, dialect.Need{}); got != `Unauthorized {"detail":"Invalid or expired session"}` {
		t.Error(got)
	}
	// Two hours, and revocation, which ends what is there and nothing later.
	token = rig.open(bob)
	rig.now = rig.now.Add(sessionTTL)
	if got := rig.use("Bearer "+token, dialect.Need{}); got != "ok" {
		t.Error(got)
	}
	rig.now = rig.now.Add(time.Second)
	if got := rig.use("Bearer "+token, dialect.Need{}); !strings.Contains(got, "Invalid or expired session") {
		t.Error(got)
	}
	token = rig.open(bob)
	if err := rig.s.Revoke(context.Background(), bob.SS58()); err != nil {
		t.Fatal(err)
	}
	if got := rig.use("Bearer "+token, dialect.Need{}); !strings.Contains(got, "Invalid or expired session") {
		t.Error("after revocation: " + got)
	}
	rig.now = rig.now.Add(time.Second)
	token = rig.open(bob)
	if got := rig.use("Bearer "+token, dialect.Need{}); got != "ok" {
		t.Error("opened after revocation: " + got)
	}
	// Each use asks again who is registered.
	rig.v.Members = dialect.NewMetagraph(dialecttest.Clock, nil)
	if got := rig.use("Bearer "+token, dialect.Need{}); got != `Unauthorized {"detail":"Hotkey is no longer registered"}` {
		t.Error(got)
	}
}

func TestSessionRefuses(t *testing.T) {
	rig := newSessionRig(t)
	alice, bob, eve, nobody := dialecttest.Key(t, "//Alice"), dialecttest.Key(t, "//Bob"), dialecttest.Key(t, "//Eve"), dialecttest.Key(t, "//Nobody")
	if code, _, text := rig.post("/challenge", `{"hotkey":"5Grw"}`); code != 400 || text != oroBody("INVALID_HOTKEY_FORMAT", "Invalid hotkey format") {
		t.Errorf("%d %s", code, text)
	}
	for body, want := range map[string]string{
		``:                                    `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required"}]}`,
		`{}`:                                  `{"detail":[{"type":"missing","loc":["body","hotkey"],"msg":"Field required"}]}`,
		`{"hotkey":1}`:                        `{"detail":[{"type":"string_type","loc":["body","hotkey"],"msg":"Input should be a valid string"}]}`,
		`{`:                                   `{"detail":[{"type":"json_invalid","loc":["body"],"msg":"JSON decode error"}]}`,
		strings.Repeat(" ", maxSessionBody+1): `{"detail":[{"type":"too_long","loc":["body"],"msg":"Body is too large"}]}`,
	} {
		if code, _, text := rig.post("/challenge", body); code != 422 || text != want {
			t.Errorf("%.20q: %d %s", body, code, text)
		}
	}
	fresh := func(k *auth.Key) (string, string) {
		c := rig.challenge(k)
		return c, dialecttest.Sign(t, k, []byte(c))
	}
	try := func(k *auth.Key, challenge, signature, want string) {
		t.Helper()
		code, text := rig.session(k, challenge, signature)
		status := 401
		if strings.Contains(want, "banned") {
			status = 403
		}
		if code != status || text != `{"detail":"`+want+`"}` {
			t.Errorf("%d %s, want %s", code, text, want)
		}
	}
	c, sig := fresh(alice)
	try(alice, "a:b", sig, "Invalid challenge format")
	try(alice, "a:b:c", sig, "Invalid or expired challenge")
	try(bob, c, sig, "Hotkey mismatch")
	try(alice, c, sig, "Invalid or expired challenge") // burnt by the attempt before
	c, sig = fresh(alice)
	try(alice, "x"+c, sig, "Challenge mismatch")
	c, _ = fresh(alice)
	try(alice, c, dialecttest.Sign(t, bob, []byte(c)), "Invalid signature")
	c, _ = fresh(alice)
	try(alice, c, "zz", "Invalid signature")
	c, sig = fresh(nobody)
	try(nobody, c, sig, "Not registered on subnet")
	c, sig = fresh(eve)
	try(eve, c, sig, "Hotkey is banned")
	c, sig = fresh(alice)
	rig.now = rig.now.Add(61 * time.Second)
	try(alice, c, sig, "Invalid or expired challenge")
	rig.v.Strict = true
	token := rig.open(alice)
	if got := dialecttest.Outcome(rig.v.Verify(context.Background(), dialecttest.Request("POST", "/x", "", "Authorization", "Bearer "+token), dialect.Need{})); !strings.Contains(got, "REQUEST_NOT_BOUND") {
		t.Error(got)
	}
	if got := rig.use("Bearer "+token, dialect.Need{}); got != "ok" {
		t.Error(got)
	}
}

// Of many at once with one challenge, one gets a session.
func TestChallengeRace(t *testing.T) {
	rig := newSessionRig(t)
	alice := dialecttest.Key(t, "//Alice")
	c := rig.challenge(alice)
	sig := dialecttest.Sign(t, alice, []byte(c))
	won := dialecttest.Parallel(func() bool { code, _ := rig.session(alice, c, sig); return code == http.StatusOK })
	if won != 1 {
		t.Errorf("%d sessions", won)
	}
}

func TestSessionBrokenKeep(t *testing.T) {
	rig := newSessionRig(t)
	token := rig.open(dialecttest.Key(t, "//Alice"))
	rig.s.Keep = brokenKeep{}
	if got := rig.use("Bearer "+token, dialect.Need{}); got != `Internal Server Error {"detail":"Internal Server Error"}` {
		t.Error(got)
	}
}

type brokenKeep struct{}

var errBroken = errors.New("disk is full")

func (brokenKeep) Put(context.Context, string, []byte, time.Time) error { return errBroken }

func (brokenKeep) Get(context.Context, string) ([]byte, error) { return nil, errBroken }

func (brokenKeep) Take(context.Context, string) ([]byte, error) { return nil, errBroken }
