package dialect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/signing"
)

// oroRequest signs the colon form; changes replace headers after signing ("" removes).
func oroRequest(t testing.TB, k *auth.Key, timestamp, nonce string, changes ...string) *Request {
	t.Helper()
	r := request("POST", "/v1/validator/work/claim?a=1", "{}", HeaderHotkey, k.SS58(), HeaderTimestamp, timestamp, HeaderNonce, nonce,
		HeaderSignature, "0x"+sign(t, k, signing.Colon(k.SS58(), timestamp, nonce)))
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "-" {
			r.Header.Del(changes[i])
		} else {
			r.Header.Set(changes[i], changes[i+1])
		}
	}
	return r
}

func stamp(d time.Duration) string { return strconv.FormatInt(testNow.Add(d).Unix(), 10) }

func oroBody(code, message string) string {
	return `{"detail":{"code":"` + code + `","message":"` + message + `"}}`
}

func TestOROVector(t *testing.T) {
	if got := string(signing.Colon("HOTKEY", "1234567890", "abc")); got != "HOTKEY:1234567890:abc" {
		t.Error(got)
	}
}

// The order and the answers of spec/oro.md 2.7: each row is wrong in its own
// place and in every later one that it can be.
func TestOROOrder(t *testing.T) {
	alice, bob, eve, nobody := key(t, "//Alice"), key(t, "//Bob"), key(t, "//Eve"), key(t, "//Nobody")
	long := strings.Repeat("n", 257)
	colon := "a:b" + strings.Repeat("x", 250)
	wrapped := sign(t, alice, []byte("<Bytes>"+string(signing.Colon(alice.SS58(), stamp(0), "w"))+"</Bytes>"))
	for name, c := range map[string]struct {
		r    *Request
		need Need
		want string
	}{
		"good":            {oroRequest(t, alice, stamp(0), "n"), Need{Validator: true}, "ok"},
		"browser":         {oroRequest(t, alice, stamp(0), "w", HeaderSignature, wrapped), Need{}, "ok"},
		"0X, upper hex":   {oroRequest(t, alice, stamp(0), "n", HeaderSignature, "0X"+strings.ToUpper(sign(t, alice, signing.Colon(alice.SS58(), stamp(0), "n")))), Need{}, "ok"},
		"30 s":            {oroRequest(t, alice, stamp(-30*time.Second), "n"), Need{}, "ok"},
		"60 s":            {oroRequest(t, alice, stamp(-60*time.Second), "n"), Need{}, "ok"},
		"60 s ahead":      {oroRequest(t, alice, stamp(60*time.Second), "n"), Need{}, "ok"},
		"python int":      {oroRequest(t, alice, " +1_760_000_000 ", "n"), Need{}, "ok"},
		"empty nonce":     {oroRequest(t, alice, stamp(0), ""), Need{}, "ok"}, // present, so it counts
		"256 characters":  {oroRequest(t, alice, stamp(0), long[1:]), Need{}, "ok"},
		"miner":           {oroRequest(t, bob, stamp(0), "n"), Need{Registered: true}, "ok"},
		"nothing":         {request("POST", "/", ""), Need{}, "Unauthorized " + oroBody("MISSING_HEADERS", "Missing required authentication headers: X-Hotkey, X-Timestamp, X-Nonce, X-Signature")},
		"two missing":     {oroRequest(t, alice, "x", "n", HeaderHotkey, "-", HeaderNonce, "-"), Need{}, "Unauthorized " + oroBody("MISSING_HEADERS", "Missing required authentication headers: X-Hotkey, X-Nonce")},
		"hotkey":          {oroRequest(t, alice, "x", long, HeaderHotkey, "5Grw"), Need{}, "Bad Request " + oroBody("INVALID_HOTKEY_FORMAT", "Invalid hotkey format")},
		"other prefix":    {oroRequest(t, alice, "x", long, HeaderHotkey, "16ADqpMa4yzfmWs3nuTSMhfZ2ckeGtvqhPWCNqECEGDcGgU2"), Need{}, "Bad Request " + oroBody("INVALID_HOTKEY_FORMAT", "Invalid hotkey format")},
		"float time":      {oroRequest(t, alice, "1.5", long), Need{}, "Bad Request " + oroBody("INVALID_TIMESTAMP", "Invalid timestamp format")},
		"61 s":            {oroRequest(t, alice, stamp(-61*time.Second), long), Need{}, "Unauthorized " + oroBody("TIMESTAMP_SKEW", "Timestamp outside acceptable window")},
		"300 s":           {oroRequest(t, alice, stamp(-300*time.Second), "n"), Need{}, "Unauthorized " + oroBody("TIMESTAMP_SKEW", "Timestamp outside acceptable window")},
		"61 s ahead":      {oroRequest(t, alice, stamp(61*time.Second), "n"), Need{}, "Unauthorized " + oroBody("TIMESTAMP_SKEW", "Timestamp outside acceptable window")},
		"far future":      {oroRequest(t, alice, strings.Repeat("9", 40), "n"), Need{}, "Unauthorized " + oroBody("TIMESTAMP_SKEW", "Timestamp outside acceptable window")},
		"long nonce":      {oroRequest(t, alice, stamp(0), long, HeaderSignature, "zz"), Need{}, "Bad Request " + oroBody("NONCE_TOO_LONG", "Nonce exceeds maximum allowed length")},
		"signature":       {oroRequest(t, alice, stamp(0), colon, HeaderSignature, sign(t, bob, nil)), Need{}, "Unauthorized " + oroBody("INVALID_SIGNATURE", "Invalid signature")},
		"no hex":          {oroRequest(t, alice, stamp(0), colon, HeaderSignature, "0xzz"), Need{}, "Unauthorized " + oroBody("INVALID_SIGNATURE", "Invalid signature")},
		"other timestamp": {oroRequest(t, alice, stamp(0), "n", HeaderTimestamp, stamp(time.Second)), Need{}, "Unauthorized " + oroBody("INVALID_SIGNATURE", "Invalid signature")},
		"colon in nonce":  {oroRequest(t, alice, stamp(0), colon), Need{}, "Bad Request " + oroBody("NONCE_INVALID_CHARS", "Nonce contains invalid characters")},
		"unregistered":    {oroRequest(t, nobody, stamp(0), "n"), Need{Registered: true}, "Forbidden " + oroBody("NOT_REGISTERED", "Hotkey not registered on subnet")},
		"no validator":    {oroRequest(t, bob, stamp(0), "n"), Need{Validator: true}, "Forbidden " + oroBody("NOT_REGISTERED_AS_VALIDATOR", "Not registered as validator")},
		"little stake":    {oroRequest(t, alice, stamp(0), "n"), Need{Validator: true, MinStake: 1001}, "Forbidden " + oroBody("NOT_REGISTERED_AS_VALIDATOR", "Not registered as validator")},
		"stranger":        {oroRequest(t, nobody, stamp(0), "n"), Need{Validator: true}, "Forbidden " + oroBody("NOT_REGISTERED_AS_VALIDATOR", "Not registered as validator")},
		"banned":          {oroRequest(t, eve, stamp(0), "n"), Need{Validator: true}, "Forbidden " + oroBody("BANNED", "Hotkey is banned")},
	} {
		if got := outcome(verifier(t, ORO{}).Verify(context.Background(), c.r, c.need)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestOROReplay(t *testing.T) {
	alice, bob := key(t, "//Alice"), key(t, "//Bob")
	v := verifier(t, ORO{})
	// A nonce is not burnt by who cannot sign, nor by another key; membership is asked after.
	for i, c := range []struct {
		r    *Request
		need Need
		want string
	}{
		{oroRequest(t, alice, stamp(0), "n", HeaderSignature, sign(t, bob, nil)), Need{}, "Unauthorized " + oroBody("INVALID_SIGNATURE", "Invalid signature")},
		{oroRequest(t, bob, stamp(0), "n"), Need{Validator: true}, "Forbidden " + oroBody("NOT_REGISTERED_AS_VALIDATOR", "Not registered as validator")},
		{oroRequest(t, bob, stamp(0), "n"), Need{}, "Unauthorized " + oroBody("NONCE_REUSED", "Nonce has already been used")},
		{oroRequest(t, alice, stamp(0), "n"), Need{}, "ok"},
		{oroRequest(t, alice, stamp(0), "n"), Need{}, "Unauthorized " + oroBody("NONCE_REUSED", "Nonce has already been used")},
		{oroRequest(t, alice, stamp(10*time.Second), "n"), Need{}, "Unauthorized " + oroBody("NONCE_REUSED", "Nonce has already been used")},
	} {
		if got := outcome(v.Verify(context.Background(), c.r, c.need)); got != c.want {
			t.Errorf("step %d: %s, want %s", i, got, c.want)
		}
	}
	v.Replay = brokenGuard{}
	if got := outcome(v.Verify(context.Background(), oroRequest(t, alice, stamp(0), "n"), Need{})); got != `Internal Server Error {"detail":"Internal Server Error"}` {
		t.Error(got)
	}
}

func TestORODotsAndCollapse(t *testing.T) {
	alice := key(t, "//Alice")
	v := verifier(t, ORO{Dots: true})
	dots := func(nonce string) *Request {
		return oroRequest(t, alice, stamp(0), nonce, HeaderSignature, sign(t, alice, []byte(alice.SS58()+"."+stamp(0)+"."+nonce)))
	}
	for nonce, want := range map[string]string{"a:b": "ok", "a.b": "Bad Request " + oroBody("NONCE_INVALID_CHARS", "Nonce contains invalid characters")} {
		if got := outcome(v.Verify(context.Background(), dots(nonce), Need{})); got != want {
			t.Errorf("%s: %s", nonce, got)
		}
	}
	v = verifier(t, ORO{Collapse: true})
	for _, r := range []*Request{request("POST", "/", ""), oroRequest(t, alice, stamp(time.Hour), "n"), oroRequest(t, alice, stamp(0), "n", HeaderSignature, "00")} {
		if got := outcome(v.Verify(context.Background(), r, Need{})); got != "Unauthorized "+oroBody("UNAUTHORIZED", "Authentication required") {
			t.Error(got)
		}
	}
	if got := outcome(v.Verify(context.Background(), oroRequest(t, alice, "x", "n"), Need{})); !strings.Contains(got, "INVALID_TIMESTAMP") {
		t.Error(got)
	}
}

func TestOROBinding(t *testing.T) {
	alice := key(t, "//Alice")
	nonceFor := func(method, target, body string) string { return "u." + signing.Bind(method, target, []byte(body)) }
	own := nonceFor("POST", "/v1/validator/work/claim?a=1", "{}")
	for name, c := range map[string]struct {
		nonce          string
		compat, strict bool
	}{
		"classic":     {"6f1d1c5e-1111-4222-8333-444444444444", true, false},
		"bound":       {own, true, true},
		"other path":  {nonceFor("POST", "/v1/validator/work", "{}"), false, false},
		"other query": {nonceFor("POST", "/v1/validator/work/claim?a=2", "{}"), false, false},
		"other body":  {nonceFor("POST", "/v1/validator/work/claim?a=1", "{ }"), false, false},
		"dotted":      {"a." + strings.Repeat("X", 64), true, false},
	} {
		for strict, want := range map[bool]bool{false: c.compat, true: c.strict} {
			v := verifier(t, ORO{})
			v.Strict = strict
			id, refusal := v.Verify(context.Background(), oroRequest(t, alice, stamp(0), c.nonce), Need{})
			if (refusal == nil) != want || refusal == nil && id.Bound != (name == "bound") || refusal != nil && refusal.Code != "REQUEST_NOT_BOUND" {
				t.Errorf("%s, strict %t: %+v %v", name, strict, id, refusal)
			}
		}
	}
}

// sessionRig is a server of the three session routes, and a way to use a token.
type sessionRig struct {
	t   *testing.T
	s   *Sessions
	v   *Verifier
	now time.Time
}

func newSessionRig(t *testing.T) *sessionRig {
	rig := &sessionRig{t: t, now: testNow}
	clock := func() time.Time { return rig.now }
	v := verifier(t)
	v.Now = clock
	rig.s = &Sessions{Keep: NewMemoryKeep(clock), Verifier: v}
	v.Dialects = []Dialect{ORO{Sessions: rig.s}}
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
	code, token := rig.session(k, c, "0x"+sign(rig.t, k, []byte(c)))
	if code != 200 || !strings.HasPrefix(token, "ses_") || len(token) != 68 {
		rig.t.Fatalf("session: %d %s", code, token)
	}
	return token
}

func (rig *sessionRig) use(header string, need Need) string {
	return outcome(rig.v.Verify(context.Background(), request("GET", "/x", "", "Authorization", header), need))
}

func TestSessions(t *testing.T) {
	rig := newSessionRig(t)
	alice, bob := key(t, "//Alice"), key(t, "//Bob")
	token := rig.open(alice)
	for header, want := range map[string]string{
		"Bearer " + token:             "ok",
		"  bearer \t " + token + "  ": "ok",
		"Bearer":                      `Unauthorized {"detail":"Missing or invalid Authorization header"}`,
		"Basic " + token:              `Unauthorized {"detail":"Missing or invalid Authorization header"}`,
		"Bearer ses_x":                `Unauthorized {"detail":"Invalid or expired session"}`,
		"Bearer " + token + " x":      `Unauthorized {"detail":"Invalid or expired session"}`,
	} {
		if got := rig.use(header, Need{}); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
	// A bad token is not saved by good headers; no Authorization header is none.
	r := oroRequest(t, alice, stamp(0), "n", "Authorization", "Bearer ses_x")
	if got := outcome(rig.v.Verify(context.Background(), r, Need{})); got != `Unauthorized {"detail":"Invalid or expired session"}` {
		t.Error(got)
	}
	r = oroRequest(t, alice, stamp(0), "n", "Authorization", " ")
	if got := outcome(rig.v.Verify(context.Background(), r, Need{})); got != "ok" {
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
	if got := rig.use("Bearer "+token, Need{}); got != `Unauthorized {"detail":"Invalid or expired session"}` {
		t.Error(got)
	}
	// Two hours, and revocation, which ends what is there and nothing later.
	token = rig.open(bob)
	rig.now = rig.now.Add(sessionTTL)
	if got := rig.use("Bearer "+token, Need{}); got != "ok" {
		t.Error(got)
	}
	rig.now = rig.now.Add(time.Second)
	if got := rig.use("Bearer "+token, Need{}); !strings.Contains(got, "Invalid or expired session") {
		t.Error(got)
	}
	token = rig.open(bob)
	if err := rig.s.Revoke(context.Background(), bob.SS58()); err != nil {
		t.Fatal(err)
	}
	if got := rig.use("Bearer "+token, Need{}); !strings.Contains(got, "Invalid or expired session") {
		t.Error("after revocation: " + got)
	}
	rig.now = rig.now.Add(time.Second)
	token = rig.open(bob)
	if got := rig.use("Bearer "+token, Need{}); got != "ok" {
		t.Error("opened after revocation: " + got)
	}
	// Each use asks again who is registered.
	rig.v.Members = NewMetagraph(clock, nil)
	if got := rig.use("Bearer "+token, Need{}); got != `Unauthorized {"detail":"Hotkey is no longer registered"}` {
		t.Error(got)
	}
}

func TestSessionRefuses(t *testing.T) {
	rig := newSessionRig(t)
	alice, bob, eve, nobody := key(t, "//Alice"), key(t, "//Bob"), key(t, "//Eve"), key(t, "//Nobody")
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
		return c, sign(t, k, []byte(c))
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
	try(alice, c, sign(t, bob, []byte(c)), "Invalid signature")
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
	if got := outcome(rig.v.Verify(context.Background(), request("POST", "/x", "", "Authorization", "Bearer "+token), Need{})); !strings.Contains(got, "REQUEST_NOT_BOUND") {
		t.Error(got)
	}
	if got := rig.use("Bearer "+token, Need{}); got != "ok" {
		t.Error(got)
	}
}

// Of many at once with one challenge, one gets a session.
func TestChallengeRace(t *testing.T) {
	rig := newSessionRig(t)
	alice := key(t, "//Alice")
	c := rig.challenge(alice)
	sig := sign(t, alice, []byte(c))
	won := parallel(func() bool { code, _ := rig.session(alice, c, sig); return code == http.StatusOK })
	if won != 1 {
		t.Errorf("%d sessions", won)
	}
}

func TestPythonInt(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, " 12\t": 12, "+1_0": 10, "-5": -5, "007": 7} {
		if got, err := pythonInt(in); err != nil || got != want {
			t.Errorf("%q: %d %v", in, got, err)
		}
	}
	for _, in := range []string{"", " ", "1.5", "1e3", "_1", "1_", "1__0", "+-1", "+", "0x1", strings.Repeat("1", 65)} {
		if got, err := pythonInt(in); err == nil {
			t.Errorf("%q: %d", in, got)
		}
	}
}

func TestSessionBrokenKeep(t *testing.T) {
	rig := newSessionRig(t)
	token := rig.open(key(t, "//Alice"))
	rig.s.Keep = brokenKeep{}
	if got := rig.use("Bearer "+token, Need{}); got != `Internal Server Error {"detail":"Internal Server Error"}` {
		t.Error(got)
	}
}

type brokenKeep struct{}

var errBroken = errors.New("disk is full")

func (brokenKeep) Put(context.Context, string, []byte, time.Time) error { return errBroken }
func (brokenKeep) Get(context.Context, string) ([]byte, error)          { return nil, errBroken }
func (brokenKeep) Take(context.Context, string) ([]byte, error)         { return nil, errBroken }
