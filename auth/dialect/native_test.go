package dialect_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/dialect/dialecttest"
	"github.com/agon-arena/agon/auth/signing"
)

// Headers of the form, and a uuid of a request.
const (
	nativeNonce     = "bt_header_dendrite_nonce"
	nativeHotkey    = "bt_header_dendrite_hotkey"
	nativeUUID      = "bt_header_dendrite_uuid"
	nativeSignature = "bt_header_dendrite_signature"
	nativeID        = "6f1d1c5e-1111-4222-8333-444444444444"
)

func nanos(d time.Duration) string { return strconv.FormatInt(dialecttest.Now.Add(d).UnixNano(), 10) }

func nativeRequest(t testing.TB, k *auth.Key, nonce, receiver, hash string, changes ...string) *dialect.Request {
	r := dialecttest.Request("POST", "/Dummy", `{"name":"it's","n":[1,true],"other":0}`, nativeHotkey, k.SS58(), nativeNonce, nonce, nativeUUID, nativeID,
		nativeSignature, "0x"+dialecttest.Sign(t, k, signing.Native(nonce, k.SS58(), receiver, nativeID, hash)))
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "-" {
			r.Header.Del(changes[i])
		} else {
			r.Header.Set(changes[i], changes[i+1])
		}
	}
	return r
}

func TestNative(t *testing.T) {
	alice, self := dialecttest.Key(t, "//Alice"), dialecttest.Key(t, "//Bob").SS58()
	none := signing.NativeBodyHash()
	fields := func(synapse string) []string {
		return map[string][]string{"Dummy": {"name", "n"}}[synapse]
	}
	missing := func(string) []string { return []string{"absent"} }
	covered := signing.NativeBodyHash("it's", "[1, True]")
	no := func(why string) string { return `Unauthorized {"message":"Not Verified with error: ` + why + `"}` }
	for name, c := range map[string]struct {
		r      *dialect.Request
		fields func(string) []string
		strict bool
		want   string
	}{
		"good":             {r: nativeRequest(t, alice, nanos(0), self, none), want: "ok"},
		"good fields":      {r: nativeRequest(t, alice, nanos(0), self, covered), fields: fields, strict: true, want: "ok"},
		"fields left out":  {r: nativeRequest(t, alice, nanos(0), self, none), fields: fields, want: no("Signature mismatch")},
		"fields not there": {r: nativeRequest(t, alice, nanos(0), self, none), fields: missing, want: `Bad Request {"message":"Not Verified with error: Hash fields are missing from the body"}`},
		"strict":           {r: nativeRequest(t, alice, nanos(0), self, none), strict: true, want: no("Body is not covered by the signature")},
		"4 s":              {r: nativeRequest(t, alice, nanos(-4*time.Second), self, none), want: no("Nonce is too old, a newer one was last processed")},
		"15.9 s, 12 s":     {r: nativeRequest(t, alice, nanos(-15900*time.Millisecond), self, none, "timeout", "12.0"), want: "ok"},
		"65 s, endless":    {r: nativeRequest(t, alice, nanos(-65*time.Second), self, none, "timeout", "1e9"), want: no("Nonce is too old, a newer one was last processed")},
		"old, no version":  {r: nativeRequest(t, alice, nanos(-time.Hour), self, none, "bt_header_dendrite_version", "-"), want: no("Nonce is too old, a newer one was last processed")},
		"old, old version": {r: nativeRequest(t, alice, nanos(-time.Hour), self, none, "bt_header_dendrite_version", "6000000"), want: no("Nonce is too old, a newer one was last processed")},
		"future":           {r: nativeRequest(t, alice, nanos(5*time.Second), self, none), want: no("Nonce is from the future")},
		"NaN timeout":      {r: nativeRequest(t, alice, nanos(0), self, none, "timeout", "NaN"), want: "ok"},
		"no signature":     {r: nativeRequest(t, alice, nanos(0), self, none, nativeSignature, "-"), want: no("Signature mismatch")},
		"empty signature":  {r: nativeRequest(t, alice, nanos(0), self, none, nativeSignature, ""), want: no("Signature mismatch")},
		"other receiver":   {r: nativeRequest(t, alice, nanos(0), alice.SS58(), none, "bt_header_axon_hotkey", alice.SS58()), want: no("Signature mismatch")},
		"named body hash":  {r: nativeRequest(t, alice, nanos(0), self, "abc", "computed_body_hash", "abc"), want: no("Signature mismatch")},
		"no nonce":         {r: nativeRequest(t, alice, nanos(0), self, none, nativeNonce, "-"), want: no("Missing Nonce")},
		"signed nonce":     {r: nativeRequest(t, alice, "+"+nanos(0), self, none), want: no("Missing Nonce")},
		"no hotkey":        {r: nativeRequest(t, alice, nanos(0), self, none, nativeHotkey, "-"), want: no("Invalid dendrite hotkey")},
		"dotted uuid":      {r: nativeRequest(t, alice, nanos(0), self, none, nativeUUID, "a.b"), want: no("Invalid uuid")},
	} {
		v := dialecttest.Verifier(t, dialect.Native{Self: self, Fields: c.fields})
		v.Strict = c.strict
		if got := dialecttest.Outcome(v.Verify(context.Background(), c.r, dialect.Need{})); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	v := dialecttest.Verifier(t, dialect.Native{Self: self})
	for i, want := range []string{"ok", no("Nonce was used before")} {
		if got := dialecttest.Outcome(v.Verify(context.Background(), nativeRequest(t, alice, nanos(0), self, none), dialect.Need{})); got != want {
			t.Errorf("use %d: %s", i+1, got)
		}
	}
	if _, refusal := v.Verify(context.Background(), nativeRequest(t, alice, nanos(1), self, none), dialect.Need{Coldkey: "other"}); refusal == nil || refusal.Status != 403 {
		t.Errorf("not owner: %v", refusal)
	}
	v.Members = dialect.NewMetagraph(dialecttest.Clock, nil)
	if _, refusal := v.Verify(context.Background(), nativeRequest(t, alice, nanos(2), self, none), dialect.Need{Registered: true}); refusal == nil || refusal.Status != 503 {
		t.Errorf("stale metagraph: %v", refusal)
	}
}

func TestNativeTakesOnce(t *testing.T) {
	self := dialecttest.Key(t, "//Bob").SS58()
	dialecttest.TakesOnce(t, dialect.Native{Self: self}, false, nativeRequest(t, dialecttest.Key(t, "//Alice"), nanos(0), self, signing.NativeBodyHash()))
}

func FuzzNative(f *testing.F) {
	alice := dialecttest.Key(f, "//Alice").SS58()
	f.Add("POST", "/D", "", "bt_header_dendrite_hotkey: "+alice+"\nbt_header_dendrite_nonce: 1\ntimeout: 1e308", "[")
	v := dialecttest.Verifier(f, dialect.Native{Self: alice, Fields: func(string) []string { return []string{"a"} }})
	f.Fuzz(func(t *testing.T, method, path, query, headers, body string) {
		dialecttest.Fuzzed(t, v, method, path, query, headers, body)
	})
}
