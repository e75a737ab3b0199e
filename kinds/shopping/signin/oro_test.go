package signin

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/dialect/dialecttest"
	"github.com/agon-arena/agon/kinds/shopping/signin/signintest"
)

// oroRequest signs the colon form; changes replace headers after signing ("" removes).
func oroRequest(t testing.TB, k *auth.Key, timestamp, nonce string, changes ...string) *dialect.Request {
	t.Helper()
	r := dialecttest.Request("POST", "/v1/validator/work/claim?a=1", "{}", dialect.HeaderHotkey, k.SS58(), dialect.HeaderTimestamp, timestamp, dialect.HeaderNonce, nonce,
		dialect.HeaderSignature, "0x"+dialecttest.Sign(t, k, Colon(k.SS58(), timestamp, nonce)))
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "-" {
			r.Header.Del(changes[i])
		} else {
			r.Header.Set(changes[i], changes[i+1])
		}
	}
	return r
}

func oroBody(code, message string) string {
	return `{"detail":{"code":"` + code + `","message":"` + message + `"}}`
}

func TestOROVector(t *testing.T) {
	if got := string(Colon("HOTKEY", "1234567890", "abc")); got != "HOTKEY:1234567890:abc" {
		t.Error(got)
	}
}

// The order and the answers of spec/oro.md 2.7: each row is wrong in its own
// place and in every later one that it can be.
func TestOROOrder(t *testing.T) {
	alice, bob, eve, nobody := dialecttest.Key(t, "//Alice"), dialecttest.Key(t, "//Bob"), dialecttest.Key(t, "//Eve"), dialecttest.Key(t, "//Nobody")
	long := strings.Repeat("n", 257)
	colon := "a:b" + strings.Repeat("x", 250)
	wrapped := dialecttest.Sign(t, alice, []byte("<Bytes>"+string(Colon(alice.SS58(), dialecttest.Stamp(0), "w"))+"</Bytes>"))
	for name, c := range map[string]struct {
		r    *dialect.Request
		need dialect.Need
		want string
	}{
		"good":            {oroRequest(t, alice, dialecttest.Stamp(0), "n"), dialect.Need{Validator: true}, "ok"},
		"browser":         {oroRequest(t, alice, dialecttest.Stamp(0), "w", dialect.HeaderSignature, wrapped), dialect.Need{}, "ok"},
		"0X, upper hex":   {oroRequest(t, alice, dialecttest.Stamp(0), "n", dialect.HeaderSignature, "0X"+strings.ToUpper(dialecttest.Sign(t, alice, Colon(alice.SS58(), dialecttest.Stamp(0), "n")))), dialect.Need{}, "ok"},
		"30 s":            {oroRequest(t, alice, dialecttest.Stamp(-30*time.Second), "n"), dialect.Need{}, "ok"},
		"60 s":            {oroRequest(t, alice, dialecttest.Stamp(-60*time.Second), "n"), dialect.Need{}, "ok"},
		"60 s ahead":      {oroRequest(t, alice, dialecttest.Stamp(60*time.Second), "n"), dialect.Need{}, "ok"},
		"python int":      {oroRequest(t, alice, " +1_760_000_000 ", "n"), dialect.Need{}, "ok"},
		"empty nonce":     {oroRequest(t, alice, dialecttest.Stamp(0), ""), dialect.Need{}, "ok"}, // present, so it counts
		"256 characters":  {oroRequest(t, alice, dialecttest.Stamp(0), long[1:]), dialect.Need{}, "ok"},
		"miner":           {oroRequest(t, bob, dialecttest.Stamp(0), "n"), dialect.Need{Registered: true}, "ok"},
		"nothing":         {dialecttest.Request("POST", "/", ""), dialect.Need{}, "Unauthorized " + oroBody("MISSING_HEADERS", "Missing required authentication headers: X-Hotkey, X-Timestamp, X-Nonce, X-Signature")},
		"two missing":     {oroRequest(t, alice, "x", "n", dialect.HeaderHotkey, "-", dialect.HeaderNonce, "-"), dialect.Need{}, "Unauthorized " + oroBody("MISSING_HEADERS", "Missing required authentication headers: X-Hotkey, X-Nonce")},
		"hotkey":          {oroRequest(t, alice, "x", long, dialect.HeaderHotkey, "5Grw"), dialect.Need{}, "Bad Request " + oroBody("INVALID_HOTKEY_FORMAT", "Invalid hotkey format")},
		"other prefix":    {oroRequest(t, alice, "x", long, dialect.HeaderHotkey, "16ADqpMa4yzfmWs3nuTSMhfZ2ckeGtvqhPWCNqECEGDcGgU2"), dialect.Need{}, "Bad Request " + oroBody("INVALID_HOTKEY_FORMAT", "Invalid hotkey format")},
		"float time":      {oroRequest(t, alice, "1.5", long), dialect.Need{}, "Bad Request " + oroBody("INVALID_TIMESTAMP", "Invalid timestamp format")},
		"61 s":            {oroRequest(t, alice, dialecttest.Stamp(-61*time.Second), long), dialect.Need{}, "Unauthorized " + oroBody("TIMESTAMP_SKEW", "Timestamp outside acceptable window")},
		"300 s":           {oroRequest(t, alice, dialecttest.Stamp(-300*time.Second), "n"), dialect.Need{}, "Unauthorized " + oroBody("TIMESTAMP_SKEW", "Timestamp outside acceptable window")},
		"61 s ahead":      {oroRequest(t, alice, dialecttest.Stamp(61*time.Second), "n"), dialect.Need{}, "Unauthorized " + oroBody("TIMESTAMP_SKEW", "Timestamp outside acceptable window")},
		"far future":      {oroRequest(t, alice, strings.Repeat("9", 40), "n"), dialect.Need{}, "Unauthorized " + oroBody("TIMESTAMP_SKEW", "Timestamp outside acceptable window")},
		"long nonce":      {oroRequest(t, alice, dialecttest.Stamp(0), long, dialect.HeaderSignature, "zz"), dialect.Need{}, "Bad Request " + oroBody("NONCE_TOO_LONG", "Nonce exceeds maximum allowed length")},
		"signature":       {oroRequest(t, alice, dialecttest.Stamp(0), colon, dialect.HeaderSignature, dialecttest.Sign(t, bob, nil)), dialect.Need{}, "Unauthorized " + oroBody("INVALID_SIGNATURE", "Invalid signature")},
		"no hex":          {oroRequest(t, alice, dialecttest.Stamp(0), colon, dialect.HeaderSignature, "0xzz"), dialect.Need{}, "Unauthorized " + oroBody("INVALID_SIGNATURE", "Invalid signature")},
		"other timestamp": {oroRequest(t, alice, dialecttest.Stamp(0), "n", dialect.HeaderTimestamp, dialecttest.Stamp(time.Second)), dialect.Need{}, "Unauthorized " + oroBody("INVALID_SIGNATURE", "Invalid signature")},
		"colon in nonce":  {oroRequest(t, alice, dialecttest.Stamp(0), colon), dialect.Need{}, "Bad Request " + oroBody("NONCE_INVALID_CHARS", "Nonce contains invalid characters")},
		"unregistered":    {oroRequest(t, nobody, dialecttest.Stamp(0), "n"), dialect.Need{Registered: true}, "Forbidden " + oroBody("NOT_REGISTERED", "Hotkey not registered on subnet")},
		"no validator":    {oroRequest(t, bob, dialecttest.Stamp(0), "n"), dialect.Need{Validator: true}, "Forbidden " + oroBody("NOT_REGISTERED_AS_VALIDATOR", "Not registered as validator")},
		"little stake":    {oroRequest(t, alice, dialecttest.Stamp(0), "n"), dialect.Need{Validator: true, MinStake: 1001}, "Forbidden " + oroBody("NOT_REGISTERED_AS_VALIDATOR", "Not registered as validator")},
		"stranger":        {oroRequest(t, nobody, dialecttest.Stamp(0), "n"), dialect.Need{Validator: true}, "Forbidden " + oroBody("NOT_REGISTERED_AS_VALIDATOR", "Not registered as validator")},
		"banned":          {oroRequest(t, eve, dialecttest.Stamp(0), "n"), dialect.Need{Validator: true}, "Forbidden " + oroBody("BANNED", "Hotkey is banned")},
	} {
		if got := dialecttest.Outcome(dialecttest.Verifier(t, ORO{}).Verify(context.Background(), c.r, c.need)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestOROReplay(t *testing.T) {
	alice, bob := dialecttest.Key(t, "//Alice"), dialecttest.Key(t, "//Bob")
	v := dialecttest.Verifier(t, ORO{})
	// A nonce is not burnt by who cannot sign, nor by another key; membership is asked after.
	for i, c := range []struct {
		r    *dialect.Request
		need dialect.Need
		want string
	}{
		{oroRequest(t, alice, dialecttest.Stamp(0), "n", dialect.HeaderSignature, dialecttest.Sign(t, bob, nil)), dialect.Need{}, "Unauthorized " + oroBody("INVALID_SIGNATURE", "Invalid signature")},
		{oroRequest(t, bob, dialecttest.Stamp(0), "n"), dialect.Need{Validator: true}, "Forbidden " + oroBody("NOT_REGISTERED_AS_VALIDATOR", "Not registered as validator")},
		{oroRequest(t, bob, dialecttest.Stamp(0), "n"), dialect.Need{}, "Unauthorized " + oroBody("NONCE_REUSED", "Nonce has already been used")},
		{oroRequest(t, alice, dialecttest.Stamp(0), "n"), dialect.Need{}, "ok"},
		{oroRequest(t, alice, dialecttest.Stamp(0), "n"), dialect.Need{}, "Unauthorized " + oroBody("NONCE_REUSED", "Nonce has already been used")},
		{oroRequest(t, alice, dialecttest.Stamp(10*time.Second), "n"), dialect.Need{}, "Unauthorized " + oroBody("NONCE_REUSED", "Nonce has already been used")},
	} {
		if got := dialecttest.Outcome(v.Verify(context.Background(), c.r, c.need)); got != c.want {
			t.Errorf("step %d: %s, want %s", i, got, c.want)
		}
	}
	v.Replay = dialecttest.BrokenGuard{}
	if got := dialecttest.Outcome(v.Verify(context.Background(), oroRequest(t, alice, dialecttest.Stamp(0), "n"), dialect.Need{})); got != `Internal Server Error {"detail":"Internal Server Error"}` {
		t.Error(got)
	}
}

func TestORODotsAndCollapse(t *testing.T) {
	alice := dialecttest.Key(t, "//Alice")
	v := dialecttest.Verifier(t, ORO{Dots: true})
	dots := func(nonce string) *dialect.Request {
		return oroRequest(t, alice, dialecttest.Stamp(0), nonce, dialect.HeaderSignature, dialecttest.Sign(t, alice, []byte(alice.SS58()+"."+dialecttest.Stamp(0)+"."+nonce)))
	}
	for nonce, want := range map[string]string{"a:b": "ok", "a.b": "Bad Request " + oroBody("NONCE_INVALID_CHARS", "Nonce contains invalid characters")} {
		if got := dialecttest.Outcome(v.Verify(context.Background(), dots(nonce), dialect.Need{})); got != want {
			t.Errorf("%s: %s", nonce, got)
		}
	}
	v = dialecttest.Verifier(t, ORO{Collapse: true})
	for _, r := range []*dialect.Request{dialecttest.Request("POST", "/", ""), oroRequest(t, alice, dialecttest.Stamp(time.Hour), "n"), oroRequest(t, alice, dialecttest.Stamp(0), "n", dialect.HeaderSignature, "00")} {
		if got := dialecttest.Outcome(v.Verify(context.Background(), r, dialect.Need{})); got != "Unauthorized "+oroBody("UNAUTHORIZED", "Authentication required") {
			t.Error(got)
		}
	}
	if got := dialecttest.Outcome(v.Verify(context.Background(), oroRequest(t, alice, "x", "n"), dialect.Need{})); !strings.Contains(got, "INVALID_TIMESTAMP") {
		t.Error(got)
	}
}

func TestOROBinding(t *testing.T) {
	alice := dialecttest.Key(t, "//Alice")
	nonceFor := func(method, target, body string) string { return "u." + Bind(method, target, []byte(body)) }
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
			v := dialecttest.Verifier(t, ORO{})
			v.Strict = strict
			id, refusal := v.Verify(context.Background(), oroRequest(t, alice, dialecttest.Stamp(0), c.nonce), dialect.Need{})
			if (refusal == nil) != want || refusal == nil && id.Bound != (name == "bound") || refusal != nil && refusal.Code != "REQUEST_NOT_BOUND" {
				t.Errorf("%s, strict %t: %+v %v", name, strict, id, refusal)
			}
		}
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

func FuzzPythonInt(f *testing.F) {
	f.Add(" +1_000 ")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := pythonInt(s); err == nil && (n > 1<<52 || n < -1<<52) {
			t.Fatalf("%q: %d", s, n)
		}
	})
}

func TestOROTakesOnce(t *testing.T) {
	dialecttest.TakesOnce(t, ORO{}, false, oroRequest(t, dialecttest.Key(t, "//Alice"), dialecttest.Stamp(0), "n"))
}

func TestBind(t *testing.T) {
	if Bind("POST", "/a", nil) == Bind("POST", "/b", nil) || Bind("post", "/a", nil) != Bind("POST", "/a", nil) || Bind("POST", "/a", nil) == Bind("POST", "/a", []byte("x")) {
		t.Error("binding does not tell requests apart")
	}
}

func FuzzVerify(f *testing.F) {
	alice := dialecttest.Key(f, "//Alice").SS58()
	f.Add("POST", "/x", "a=1", "X-Hotkey: "+alice+"\nX-Timestamp: 1760000000\nX-Nonce: n\nX-Signature: 00", "{}")
	f.Add("POST", "/", "", "Authorization: Bearer x", `{"a":1}`)
	v := dialecttest.Verifier(f)
	v.Dialects = []dialect.Dialect{ORO{Sessions: &Sessions{Keep: signintest.New(dialecttest.Clock), Verifier: v}}}
	f.Fuzz(func(t *testing.T, method, path, query, headers, body string) {
		dialecttest.Fuzzed(t, v, method, path, query, headers, body)
	})
}
