package signin

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/dialect/dialecttest"
	"github.com/agon-arena/agon/auth/signing"
	"github.com/agon-arena/agon/calc"
)

func TestCaster(t *testing.T) {
	alice := dialecttest.Key(t, "//Alice")
	header := func(k *auth.Key, msg []byte) string {
		return `Bittensor ss58="` + k.SS58() + `",sig="` + dialecttest.Sign(t, k, msg) + `"`
	}
	good := func() []byte { return Message("POST", "/v1/miners/scripts?x=1", []byte("body")) }
	wrapped := append(append([]byte("<Bytes>"), good()...), "</Bytes>"...)
	bob := dialecttest.Key(t, "//Bob")
	for name, c := range map[string]struct {
		auth string
		body string
		need dialect.Need
		want string
	}{
		"good":         {auth: header(alice, good())},
		"browser":      {auth: header(alice, wrapped)},
		"blanks":       {auth: "  " + strings.Replace(strings.Replace(header(alice, good()), "Bittensor ", "Bittensor \t", 1), ",", ", \t", 1) + " "},
		"upper hex":    {auth: `Bittensor ss58="` + alice.SS58() + `",sig="` + strings.ToUpper(dialecttest.Sign(t, alice, good())) + `"`},
		"none":         {want: `Unauthorized {"error_code":"missing_authorization","message":"missing Authorization header"}`},
		"other scheme": {auth: "Bearer x", want: `Unauthorized {"error_code":"invalid_authorization_header","message":"invalid Authorization header"}`},
		"no hex": {
			auth: `Bittensor ss58="` + alice.SS58() + `",sig="zz"`,
			want: `Unauthorized {"error_code":"invalid_authorization_header","message":"invalid Authorization header"}`,
		},
		"odd hex":  {auth: `Bittensor ss58="` + alice.SS58() + `",sig="abc"`, want: `Unauthorized {"error_code":"invalid_signature_hex","message":"signature is not hex"}`},
		"63 bytes": {auth: `Bittensor ss58="` + alice.SS58() + `",sig="` + dialecttest.Sign(t, alice, good())[2:] + `"`, want: `Unauthorized {"error_code":"invalid_signature_length","message":"signature must be 64 bytes"}`},
		"bad ss58": {auth: `Bittensor ss58="5Grw",sig="` + dialecttest.Sign(t, alice, good()) + `"`, want: `Unauthorized {"error_code":"invalid_ss58","message":"invalid ss58 address"}`},
		"body":     {auth: header(alice, good()), body: "bodY", want: `Unauthorized {"error_code":"invalid_signature","message":"invalid signature"}`},
		"allow first": {
			auth: `Bittensor ss58="5Grw",sig="abc"`, need: dialect.Need{Allow: map[string]bool{alice.SS58(): true}},
			want: `Forbidden {"error_code":"caller_not_allowed","message":"caller is not allowed"}`,
		},
		"allowed":      {auth: header(alice, good()), need: dialect.Need{Allow: map[string]bool{alice.SS58(): true}}},
		"unregistered": {auth: header(dialecttest.Key(t, "//Nobody"), good()), need: dialect.Need{Registered: true}, want: `Forbidden {"error_code":"unknown_hotkey","message":"hotkey is not registered"}`},
		"not owner":    {auth: header(bob, good()), need: dialect.Need{Coldkey: "owner"}, want: `Forbidden {"error_code":"not_owner","message":"hotkey is not owned by the subnet owner"}`},
		"twice":        {auth: header(alice, good()) + ", " + header(alice, good()), want: `Unauthorized {"error_code":"invalid_authorization_header","message":"invalid Authorization header"}`},
	} {
		if c.body == "" {
			c.body = "body"
		}
		if c.want == "" {
			c.want = "ok"
		}
		r := dialecttest.Request("POST", "/v1/miners/scripts?x=1", c.body)
		if c.auth != "" {
			r.Header.Set("Authorization", c.auth)
		}
		if got := dialecttest.Outcome(dialecttest.Verifier(t, Caster{}).Verify(context.Background(), r, c.need)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	// A validator's answer, and a stale metagraph.
	v := dialecttest.Verifier(t, Caster{Detail: true})
	r := dialecttest.Request("POST", "/v1/miners/scripts?x=1", "body", "Authorization", header(bob, good()))
	if got := dialecttest.Outcome(v.Verify(context.Background(), r, dialect.Need{Coldkey: "owner"})); got != `Unauthorized {"detail":"hotkey is not owned by the subnet owner"}` {
		t.Error(got)
	}
	v.Members = dialect.NewMetagraph(dialecttest.Clock, nil)
	if _, refusal := v.Verify(context.Background(), r, dialect.Need{Registered: true}); refusal == nil || refusal.Code != "auth_unavailable" || refusal.Status != 503 {
		t.Errorf("stale: %v", refusal)
	}
	// Compat mode repeats, strict mode does not, but for reads.
	for _, strict := range []bool{false, true} {
		v = dialecttest.Verifier(t, Caster{})
		v.Strict = strict
		for i, want := range []string{"ok", map[bool]string{false: "ok", true: `Unauthorized {"error_code":"replayed_request","message":"signature was used before"}`}[strict]} {
			if got := dialecttest.Outcome(v.Verify(context.Background(), r, dialect.Need{})); got != want {
				t.Errorf("strict %t, use %d: %s", strict, i+1, got)
			}
		}
		get := dialecttest.Request("GET", "/v1/weights", "", "Authorization", header(alice, Message("GET", "/v1/weights", nil)))
		for range 2 {
			if got := dialecttest.Outcome(v.Verify(context.Background(), get, dialect.Need{})); got != "ok" {
				t.Errorf("strict %t, read: %s", strict, got)
			}
		}
	}
}

func FuzzParseCaster(f *testing.F) {
	f.Add(`Bittensor ss58="a",sig="00"`)
	f.Fuzz(func(t *testing.T, s string) {
		hotkey, sig, ok := parseCaster(s)
		if ok && (hotkey == "" || sig == "" || strings.Contains(hotkey, `"`)) {
			t.Fatalf("%q: %q %q", s, hotkey, sig)
		}
	})
}

func TestCasterTakesOnce(t *testing.T) {
	alice := dialecttest.Key(t, "//Alice")
	r := dialecttest.Request("POST", "/x", "{}", "Authorization",
		`Bittensor ss58="`+alice.SS58()+`",sig="`+dialecttest.Sign(t, alice, Message("POST", "/x", []byte("{}")))+`"`)
	dialecttest.TakesOnce(t, Caster{}, true, r)
}

// A request that only asks changes nothing, even by POST; anything else at a path like it does.
func TestCasterAsks(t *testing.T) {
	alice := dialecttest.Key(t, "//Alice")
	v := dialecttest.Verifier(t, Caster{Asks: []string{"/v2/work/tasks"}})
	v.Strict = true
	for path, want := range map[string]string{"/v2/work/tasks": "ok", "/v2/work/results": `Unauthorized {"error_code":"replayed_request","message":"signature was used before"}`} {
		r := dialecttest.Request("POST", path, "{}", "Authorization",
			`Bittensor ss58="`+alice.SS58()+`",sig="`+dialecttest.Sign(t, alice, Message("POST", path, []byte("{}")))+`"`)
		for i, want := range []string{"ok", want} {
			if got := dialecttest.Outcome(v.Verify(context.Background(), r, dialect.Need{})); got != want {
				t.Errorf("%s, use %d: %s", path, i+1, got)
			}
		}
	}
}

// Whoever may not ask leaves nothing to be remembered.
func TestCasterForgetsStrangers(t *testing.T) {
	bob := dialecttest.Key(t, "//Nobody")
	v := dialecttest.Verifier(t, Caster{})
	v.Strict, v.Replay = true, nil // it would be asked, and panic
	r := dialecttest.Request("POST", "/x", "{}", "Authorization",
		`Bittensor ss58="`+bob.SS58()+`",sig="`+dialecttest.Sign(t, bob, Message("POST", "/x", []byte("{}")))+`"`)
	if got := dialecttest.Outcome(v.Verify(context.Background(), r, dialect.Need{Registered: true})); !strings.Contains(got, "unknown_hotkey") {
		t.Error(got)
	}
}

func TestMessages(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{string(Message("post", "/v1/miners/scripts", nil)), "POST\n/v1/miners/scripts\n" + signing.EmptyBody},
		{string(Message("GET", "", nil)), "GET\n/\n" + signing.EmptyBody},
		{string(StatusMessage("t", "hk", "idle", false)), "validator-status-v1\npath=/validator/status\nrequest_ts=t\nhotkey=hk\nstatus=idle\nrunning=False"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestCalc(t *testing.T) {
	in := `{"method":"post","path_qs":"/v1/miners/scripts","body":""}`
	want := `{"hex":"` + hex.EncodeToString([]byte("POST\n/v1/miners/scripts\n"+signing.EmptyBody)) + `"}`
	var out bytes.Buffer
	if bad, err := calc.New(Rules()...).Run("caster.signing_bytes", strings.NewReader(in), &out); err != nil || bad != 0 || strings.TrimSpace(out.String()) != want {
		t.Errorf("bad %d, %v, %s, want %s", bad, err, out.String(), want)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("GET", "/", "", `Authorization: Bittensor ss58="a",sig="00"`, "")
	f.Add("POST", "/x", "a=1", `Authorization: Bittensor ss58="`+dialecttest.Key(f, "//Alice").SS58()+`",sig="`+strings.Repeat("00", 64)+`"`, "{}")
	v := dialecttest.Verifier(f, Caster{})
	f.Fuzz(func(t *testing.T, method, path, query, headers, body string) {
		dialecttest.Fuzzed(t, v, method, path, query, headers, body)
	})
}
