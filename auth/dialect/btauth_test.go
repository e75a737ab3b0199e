package dialect_test

import (
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/dialect/dialecttest"
	"github.com/agon-arena/agon/auth/signing"
)

// btRequest is signed for receiver at d from now, then changed.
func btRequest(t testing.TB, k *auth.Key, receiver string, d time.Duration, changes ...string) *dialect.Request {
	t.Helper()
	h, err := dialect.SignBTAuth(k, "POST", "/generate?n=1&x=%20", []byte("body"), receiver, dialecttest.Now.Add(d))
	if err != nil {
		t.Fatal(err)
	}
	r := dialecttest.Request("POST", "/generate?n=1&x=%20", "body")
	r.Header = h
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "-" {
			r.Header.Del(changes[i])
		} else {
			r.Header.Set(changes[i], changes[i+1])
		}
	}
	return r
}

func TestBTAuth(t *testing.T) {
	alice, self := dialecttest.Key(t, "//Alice"), dialecttest.Key(t, "//Bob").SS58()
	eve, carol := dialecttest.Key(t, "//Eve"), dialecttest.Key(t, "//Carol")
	no := func(why string) string { return `Unauthorized {"detail":"` + why + `"}` }
	moved := func(change func(*dialect.Request)) *dialect.Request {
		r := btRequest(t, alice, self, 0)
		change(r)
		return r
	}
	const bad, stale, early = "signature does not verify against the claimed hotkey", "nonce is older than the 10s freshness window", "nonce is more than 2s in the future"
	for name, c := range map[string]struct {
		r    *dialect.Request
		need dialect.Need
		want string
	}{
		"good":                {r: btRequest(t, alice, self, 0), want: "ok"},
		"10 s":                {r: btRequest(t, alice, self, -10*time.Second), want: "ok"},
		"2 s ahead":           {r: btRequest(t, alice, self, 2*time.Second), want: "ok"},
		"old":                 {r: btRequest(t, alice, self, -10*time.Second-1), want: no(stale)},
		"from the future":     {r: btRequest(t, alice, self, 2*time.Second+1), want: no(early)},
		"another receiver":    {r: btRequest(t, alice, alice.SS58(), 0), want: no("request was signed for a different receiving hotkey")},
		"receiver put in":     {r: btRequest(t, alice, alice.SS58(), 0, "X-Bittensor-Receiver", self), want: no(bad)},
		"no receiver":         {r: btRequest(t, alice, "", 0), want: no("missing X-Bittensor-Receiver: this server requires receiver-bound requests")},
		"no receiver, put in": {r: btRequest(t, alice, "", 0, "X-Bittensor-Receiver", self), want: no(bad)},
		"another path":        {r: moved(func(r *dialect.Request) { r.Path = "/other" }), want: no(bad)},
		"another query":       {r: moved(func(r *dialect.Request) { r.Query = "n=2" }), want: no(bad)},
		"another method":      {r: moved(func(r *dialect.Request) { r.Method = "PUT" }), want: no(bad)},
		"another body":        {r: moved(func(r *dialect.Request) { r.Body = []byte("Body") }), want: no(bad)},
		"another hotkey":      {r: btRequest(t, alice, self, 0, "X-Bittensor-Hotkey", carol.SS58()), want: no(bad)},
		"another nonce":       {r: btRequest(t, alice, self, 0, "X-Bittensor-Nonce", nanos(1)), want: no(bad)},
		"another scheme":      {r: btRequest(t, alice, self, 0, "X-Bittensor-Crypto", "ed25519"), want: no(bad)},
		"the scheme by name":  {r: btRequest(t, alice, self, 0, "X-Bittensor-Crypto", "sr25519"), want: "ok"},
		"unknown scheme":      {r: btRequest(t, alice, self, 0, "X-Bittensor-Crypto", "rot13"), want: no("unsupported X-Bittensor-Crypto")},
		"version 2":           {r: btRequest(t, alice, self, 0, "X-Bittensor-Version", "2"), want: no("missing or unsupported X-Bittensor-Version (expected '1')")},
		"no version":          {r: btRequest(t, alice, self, 0, "X-Bittensor-Version", "-"), want: no("missing or unsupported X-Bittensor-Version (expected '1')")},
		"no hotkey":           {r: btRequest(t, alice, self, 0, "X-Bittensor-Hotkey", "-"), want: no("missing X-Bittensor-Hotkey")},
		"no nonce":            {r: btRequest(t, alice, self, 0, "X-Bittensor-Nonce", "-"), want: no("missing X-Bittensor-Nonce")},
		"no signature":        {r: btRequest(t, alice, self, 0, "X-Bittensor-Signature", "-"), want: no("missing X-Bittensor-Signature")},
		"signature in words":  {r: btRequest(t, alice, self, 0, "X-Bittensor-Signature", "0xzz"), want: no("X-Bittensor-Signature is not hex")},
		"empty signature":     {r: btRequest(t, alice, self, 0, "X-Bittensor-Signature", "0x"), want: no(bad)},
		"bad address":         {r: btRequest(t, alice, self, 0, "X-Bittensor-Hotkey", "5Grw"), want: no("invalid hotkey address or signature encoding")},
		"nonce with a plus":   {r: btRequest(t, alice, self, 0, "X-Bittensor-Nonce", "+"+nanos(0)), want: no("X-Bittensor-Nonce is not a decimal integer")},
		"nonce with a zero":   {r: btRequest(t, alice, self, 0, "X-Bittensor-Nonce", "0"+nanos(0)), want: no("X-Bittensor-Nonce is not a decimal integer")},
		"nonce in words":      {r: btRequest(t, alice, self, 0, "X-Bittensor-Nonce", "now"), want: no("X-Bittensor-Nonce is not a decimal integer")},
		"unregistered":        {r: btRequest(t, carol, self, 0), need: dialect.Need{Registered: true}, want: `Forbidden {"detail":"Hotkey is not registered"}`},
		"banned":              {r: btRequest(t, eve, self, 0), want: `Forbidden {"detail":"Hotkey is banned"}`},
	} {
		t.Run(name, func(t *testing.T) {
			v := dialecttest.Verifier(t, dialect.BTAuth{Self: self})
			v.Strict = true
			id, refusal := v.Verify(t.Context(), c.r, c.need)
			if got := dialecttest.Outcome(id, refusal); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if refusal == nil && !id.Bound {
				t.Error("the signature covers all, and the identity does not say so")
			}
		})
	}
	dialecttest.TakesOnce(t, dialect.BTAuth{Self: self}, true, btRequest(t, alice, self, 0))
	v := dialecttest.Verifier(t, dialect.BTAuth{Self: self})
	v.Replay = dialecttest.BrokenGuard{}
	if _, refusal := v.Verify(t.Context(), btRequest(t, alice, self, 0), dialect.Need{}); refusal == nil || refusal.Status != 500 {
		t.Errorf("with a broken guard: %v", refusal)
	}
}

// The signed bytes, as the SDK writes them.
func TestBTAuthPayload(t *testing.T) {
	const want = "btauth/1\nsr25519\nPOST\n/a?b=c\n" + signing.EmptyBody + "\n17\nsender\n-"
	if got := string(signing.BTAuth("sr25519", "post", "/a?b=c", nil, "17", "sender", "-")); got != want {
		t.Errorf("%q", got)
	}
	key, err := auth.KeyFromSeed(auth.Ed25519, make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	self := dialecttest.Key(t, "//Bob").SS58()
	v := dialecttest.Verifier(t, dialect.BTAuth{Self: self})
	if _, refusal := v.Verify(t.Context(), btRequest(t, key, self, 0), dialect.Need{}); refusal != nil {
		t.Error(refusal)
	}
}

func FuzzBTAuth(f *testing.F) {
	self := dialecttest.Key(f, "//Bob").SS58()
	f.Add("POST", "/a", "b=c", "X-Bittensor-Version: 1\nX-Bittensor-Hotkey: "+self+"\nX-Bittensor-Nonce: 1760000000500000000\nX-Bittensor-Receiver: "+self+"\nX-Bittensor-Signature: 0x00", "x")
	v := dialecttest.Verifier(f, dialect.BTAuth{Self: self})
	f.Fuzz(func(t *testing.T, method, path, query, headers, body string) {
		dialecttest.Fuzzed(t, v, method, path, query, headers, body)
	})
}
