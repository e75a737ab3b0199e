package dialect

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/signing"
)

var testNow = time.UnixMilli(1_760_000_000_500)

func clock() time.Time { return testNow }

func key(t testing.TB, uri string) *auth.Key {
	t.Helper()
	k, err := auth.KeyFromURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign(t testing.TB, k *auth.Key, msg []byte) string {
	t.Helper()
	sig, err := k.Sign(msg)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sig)
}

// members: Alice is a validator with 1000 rao, Bob a miner of another owner.
func members(t testing.TB) *Metagraph {
	g := NewMetagraph(clock, func(context.Context) ([]Member, error) {
		return []Member{
			{Hotkey: key(t, "//Alice").SS58(), Coldkey: "owner", UID: 1, Validator: true, Stake: 1000},
			{Hotkey: key(t, "//Bob").SS58(), Coldkey: "other", UID: 2, Stake: 5},
			{Hotkey: key(t, "//Eve").SS58(), Coldkey: "owner", UID: 3, Validator: true, Stake: 5000},
		}, nil
	})
	if err := g.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	return g
}

func verifier(t testing.TB, d ...Dialect) *Verifier {
	eve := key(t, "//Eve").SS58()
	return &Verifier{
		Dialects: d, Now: clock, Replay: auth.NewMemoryReplay(clock), Members: members(t),
		Banned: func(_ context.Context, hotkey string) (bool, error) { return hotkey == eve, nil },
	}
}

func request(method, target, body string, headers ...string) *Request {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return NewRequest(r, []byte(body))
}

// outcome is what a client sees: "ok", or status and body.
func outcome(id Identity, refusal *Refusal) string {
	if refusal == nil {
		if id.Hotkey == "" {
			return "no identity"
		}
		return "ok"
	}
	return http.StatusText(refusal.Status) + " " + string(refusal.JSON())
}

type brokenGuard struct{}

func (brokenGuard) Seen(context.Context, string, string, string, time.Time) (bool, error) {
	return false, errors.New("disk is full")
}

func TestVerifierChooses(t *testing.T) {
	alice := key(t, "//Alice")
	v := verifier(t, Caster{}, ORO{}, Epistula{}, BitSota{}, Native{Self: alice.SS58()}, Agon{Audience: "a"})
	for want, headers := range map[string][]string{
		"caster":      {"Authorization", "Bittensor x"},
		"oro":         {"X-Nonce", "n", "X-Hotkey", "h"},
		"epistula-v2": {"Epistula-Uuid", "n"},
		"bt-auth-v1":  {"X-Hotkey", "h"},
		"bittensor":   {"bt_header_dendrite_hotkey", "h"},
		"agon-v1":     {"Agon-Nonce", "h"},
	} {
		r := request("POST", "/x", "", headers...)
		for _, d := range v.Dialects {
			if d.Speaks(r) != (d.Name() == want) {
				t.Errorf("%s: %s speaks: %t", want, d.Name(), d.Speaks(r))
			}
		}
		if id, refusal := v.Verify(context.Background(), r, Need{}); refusal == nil {
			t.Errorf("%s: accepted as %+v", want, id)
		}
	}
	// A request that says nothing is refused in the first dialect's words.
	_, refusal := v.Verify(context.Background(), request("GET", "/x", ""), Need{})
	if refusal == nil || refusal.Code != "missing_authorization" {
		t.Errorf("unsigned: %v", refusal)
	}
	if _, refusal := (&Verifier{}).Verify(context.Background(), request("GET", "/x", ""), Need{}); refusal == nil || refusal.Status != 500 {
		t.Errorf("no dialect: %v", refusal)
	}
}

// Marks of two dialects do not give two chances: the one that is chosen decides.
func TestOneChance(t *testing.T) {
	alice := key(t, "//Alice")
	v := verifier(t, Caster{}, Agon{Audience: "a"})
	r := httptest.NewRequest("POST", "/x", nil)
	if err := auth.SignRequest(r, nil, alice, "a", testNow); err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", `Bittensor ss58="x",sig="00"`)
	if id, refusal := v.Verify(context.Background(), NewRequest(r, nil), Need{}); refusal == nil {
		t.Errorf("accepted as %+v", id)
	}
}

func TestAgon(t *testing.T) {
	alice, bob := key(t, "//Alice"), key(t, "//Bob")
	v := verifier(t, Agon{Audience: "a"})
	signed := func(k *auth.Key) *Request {
		r := httptest.NewRequest("POST", "/v1/x?q=1", nil)
		if err := auth.SignRequest(r, []byte("body"), k, "a", testNow); err != nil {
			t.Fatal(err)
		}
		return NewRequest(r, []byte("body"))
	}
	r := signed(alice)
	id, refusal := v.Verify(context.Background(), r, Need{Validator: true})
	if refusal != nil || !id.Bound || id.Member.UID != 1 || !id.At.Equal(testNow) {
		t.Errorf("%+v %v", id, refusal)
	}
	for name, c := range map[string]struct {
		r    *Request
		need Need
		code string
	}{
		"replayed":      {r, Need{}, "replayed"},
		"no validator":  {signed(bob), Need{Validator: true}, "not_a_validator"},
		"no stake":      {signed(alice), Need{Validator: true, MinStake: 1001}, "not_a_validator"},
		"not owner":     {signed(bob), Need{Coldkey: "owner"}, "not_owner"},
		"not there":     {signed(key(t, "//Nobody")), Need{Registered: true}, "not_registered"},
		"banned":        {signed(key(t, "//Eve")), Need{Registered: true}, "banned"},
		"banned anyway": {signed(key(t, "//Eve")), Need{}, "banned"},
		"unsigned":      {request("POST", "/v1/x", ""), Need{}, "missing_signature"},
	} {
		if _, refusal := v.Verify(context.Background(), c.r, c.need); refusal == nil || refusal.Code != c.code {
			t.Errorf("%s: %v", name, refusal)
		}
	}
	v.Replay = brokenGuard{}
	if _, refusal := v.Verify(context.Background(), signed(alice), Need{}); refusal == nil || refusal.Status != 500 || strings.Contains(string(refusal.JSON()), "disk") {
		t.Errorf("broken guard: %v", refusal)
	}
}

func TestCaster(t *testing.T) {
	alice := key(t, "//Alice")
	header := func(k *auth.Key, msg []byte) string {
		return `Bittensor ss58="` + k.SS58() + `",sig="` + sign(t, k, msg) + `"`
	}
	good := func() []byte { return signing.Caster("POST", "/v1/miners/scripts?x=1", []byte("body")) }
	wrapped := append(append([]byte("<Bytes>"), good()...), "</Bytes>"...)
	bob := key(t, "//Bob")
	for name, c := range map[string]struct {
		auth string
		body string
		need Need
		want string
	}{
		"good":         {auth: header(alice, good())},
		"browser":      {auth: header(alice, wrapped)},
		"blanks":       {auth: "  " + strings.Replace(strings.Replace(header(alice, good()), "Bittensor ", "Bittensor \t", 1), ",", ", \t", 1) + " "},
		"upper hex":    {auth: `Bittensor ss58="` + alice.SS58() + `",sig="` + strings.ToUpper(sign(t, alice, good())) + `"`},
		"none":         {want: `Unauthorized {"error_code":"missing_authorization","message":"missing Authorization header"}`},
		"other scheme": {auth: "Bearer x", want: `Unauthorized {"error_code":"invalid_authorization_header","message":"invalid Authorization header"}`},
		"no hex": {
			auth: `Bittensor ss58="` + alice.SS58() + `",sig="zz"`,
			want: `Unauthorized {"error_code":"invalid_authorization_header","message":"invalid Authorization header"}`,
		},
		"odd hex":  {auth: `Bittensor ss58="` + alice.SS58() + `",sig="abc"`, want: `Unauthorized {"error_code":"invalid_signature_hex","message":"signature is not hex"}`},
		"63 bytes": {auth: `Bittensor ss58="` + alice.SS58() + `",sig="` + sign(t, alice, good())[2:] + `"`, want: `Unauthorized {"error_code":"invalid_signature_length","message":"signature must be 64 bytes"}`},
		"bad ss58": {auth: `Bittensor ss58="5Grw",sig="` + sign(t, alice, good()) + `"`, want: `Unauthorized {"error_code":"invalid_ss58","message":"invalid ss58 address"}`},
		"body":     {auth: header(alice, good()), body: "bodY", want: `Unauthorized {"error_code":"invalid_signature","message":"invalid signature"}`},
		"allow first": {
			auth: `Bittensor ss58="5Grw",sig="abc"`, need: Need{Allow: map[string]bool{alice.SS58(): true}},
			want: `Forbidden {"error_code":"caller_not_allowed","message":"caller is not allowed"}`,
		},
		"allowed":      {auth: header(alice, good()), need: Need{Allow: map[string]bool{alice.SS58(): true}}},
		"unregistered": {auth: header(key(t, "//Nobody"), good()), need: Need{Registered: true}, want: `Forbidden {"error_code":"unknown_hotkey","message":"hotkey is not registered"}`},
		"not owner":    {auth: header(bob, good()), need: Need{Coldkey: "owner"}, want: `Forbidden {"error_code":"not_owner","message":"hotkey is not owned by the subnet owner"}`},
		"twice":        {auth: header(alice, good()) + ", " + header(alice, good()), want: `Unauthorized {"error_code":"invalid_authorization_header","message":"invalid Authorization header"}`},
	} {
		if c.body == "" {
			c.body = "body"
		}
		if c.want == "" {
			c.want = "ok"
		}
		r := request("POST", "/v1/miners/scripts?x=1", c.body)
		if c.auth != "" {
			r.Header.Set("Authorization", c.auth)
		}
		if got := outcome(verifier(t, Caster{}).Verify(context.Background(), r, c.need)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	// A validator's answer, and a stale metagraph.
	v := verifier(t, Caster{Detail: true})
	r := request("POST", "/v1/miners/scripts?x=1", "body", "Authorization", header(bob, good()))
	if got := outcome(v.Verify(context.Background(), r, Need{Coldkey: "owner"})); got != `Unauthorized {"detail":"hotkey is not owned by the subnet owner"}` {
		t.Error(got)
	}
	v.Members = NewMetagraph(clock, nil)
	if _, refusal := v.Verify(context.Background(), r, Need{Registered: true}); refusal == nil || refusal.Code != "auth_unavailable" || refusal.Status != 503 {
		t.Errorf("stale: %v", refusal)
	}
	// Compat mode repeats, strict mode does not, but for reads.
	for _, strict := range []bool{false, true} {
		v = verifier(t, Caster{})
		v.Strict = strict
		for i, want := range []string{"ok", map[bool]string{false: "ok", true: `Unauthorized {"error_code":"replayed_request","message":"signature was used before"}`}[strict]} {
			if got := outcome(v.Verify(context.Background(), r, Need{})); got != want {
				t.Errorf("strict %t, use %d: %s", strict, i+1, got)
			}
		}
		get := request("GET", "/v1/weights", "", "Authorization", header(alice, signing.Caster("GET", "/v1/weights", nil)))
		for range 2 {
			if got := outcome(v.Verify(context.Background(), get, Need{})); got != "ok" {
				t.Errorf("strict %t, read: %s", strict, got)
			}
		}
	}
}

func TestMetagraph(t *testing.T) {
	now, fail := testNow, false
	g := NewMetagraph(func() time.Time { return now }, func(context.Context) ([]Member, error) {
		if fail {
			return nil, errors.New("chain is gone")
		}
		return []Member{{Hotkey: "a", UID: 7}}, nil
	})
	if _, _, err := g.Member(context.Background(), "a"); !errors.Is(err, ErrStale) {
		t.Errorf("before the first refresh: %v", err)
	}
	if err := g.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	fail = true
	if err := g.Refresh(context.Background()); err == nil {
		t.Error("refresh hides its failure")
	}
	now = now.Add(MetagraphMaxAge)
	if m, ok, err := g.Member(context.Background(), "a"); err != nil || !ok || m.UID != 7 {
		t.Errorf("at 1200 s: %v %t %v", m, ok, err)
	}
	now = now.Add(time.Second)
	if _, _, err := g.Member(context.Background(), "a"); !errors.Is(err, ErrStale) {
		t.Errorf("at 1201 s: %v", err)
	}
}

func TestMetagraphRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, failures atomic.Int32
		g := NewMetagraph(time.Now, func(context.Context) ([]Member, error) {
			if calls.Add(1) == 2 {
				return nil, errors.New("chain is gone")
			}
			return nil, nil
		})
		ctx, cancel := context.WithCancel(context.Background())
		go g.Run(ctx, func(error) { failures.Add(1) })
		for _, step := range []struct {
			wait  time.Duration
			calls int32
		}{{0, 1}, {299 * time.Second, 1}, {time.Second, 2}, {5 * time.Second, 3}, {300 * time.Second, 4}} {
			time.Sleep(step.wait)
			synctest.Wait()
			if got := calls.Load(); got != step.calls {
				t.Errorf("%d fetches, want %d", got, step.calls)
			}
		}
		if got := failures.Load(); got != 1 {
			t.Errorf("%d failures", got)
		}
		cancel()
		synctest.Wait()
	})
}

func TestRefusalWrites(t *testing.T) {
	w := httptest.NewRecorder()
	if err := plain(401, "a <b> & c").Write(w); err != nil {
		t.Fatal(err)
	}
	var body map[string]string
	if w.Code != 401 || w.Header().Get("Content-Type") != "application/json" || json.Unmarshal(w.Body.Bytes(), &body) != nil || body["detail"] != "a <b> & c" ||
		strings.Contains(w.Body.String(), `\u003c`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
