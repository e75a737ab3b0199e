package platform

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway"
)

// The key of an arena's gateway changes by its own word, or is revoked by the
// operator: new statements need the new key, what was taken keeps its own, and
// an arena file that still names the old key changes nothing.
func TestGatewayKeyRotates(t *testing.T) {
	type books struct {
		*gateway.Books
		dir string
	}
	open := func(dir string) books {
		k, _, err := gateway.OpenKey(dir)
		must(t, err)
		b, err := gateway.NewBooks(bg, gateway.BooksConfig{Key: k})
		must(t, err)
		return books{b, dir}
	}
	first := open(t.TempDir())
	f := newFixture(t, 1, func(_ *Config, a *agon.Arena) { a.Policy.GatewayKey = first.Signer() })
	op := Caller{Hotkey: "operator", Operator: true}
	set := func(c Caller, r client.GatewayKey) error {
		r.Reason = "yearly"
		return f.Platform.GatewayKey(bg, c, f.arena.ID, r)
	}
	key := func() string {
		a, err := f.Arena(bg, f.arena.ID)
		must(t, err)
		return a.Policy.GatewayKey
	}
	f.submit(miner1, "one")
	before := f.claim(val1)
	r := scored(before, 1)
	r.Receipts, r.Statement = called(t, first.Books, before.Run.Run, before.Attempt, 2)
	f.result(val1, before, r)

	f.submit(miner2, "two") // planned under the old key
	s, err := gateway.RotateKey(first.dir, time.Now())
	must(t, err)
	second := open(first.dir)
	forged := s
	forged.New = "5C4hrfjw9DjXZTzV3MwzrrAr9P1MJhSrvWGWqi1eSuyUpnhM"
	other, err := gateway.RotateKey(open(t.TempDir()).dir, time.Now())
	must(t, err)
	for name, c := range map[string]struct {
		by   Caller
		r    client.GatewayKey
		code string
	}{
		"a stranger":           {Caller{Hotkey: miner1}, client.GatewayKey{Succession: &s}, "not_operator"},
		"nothing":              {op, client.GatewayKey{}, "bad_gateway_key"},
		"both":                 {op, client.GatewayKey{Succession: &s, Revoke: true, Key: s.New}, "bad_gateway_key"},
		"forged":               {op, client.GatewayKey{Succession: &forged}, "bad_gateway_key"},
		"of another gateway":   {op, client.GatewayKey{Succession: &other}, "bad_gateway_key"},
		"another than it says": {op, client.GatewayKey{Succession: &s, Key: other.New}, "bad_gateway_key"},
		"revoked for nonsense": {op, client.GatewayKey{Revoke: true, Key: "5x"}, "bad_gateway_key"},
		"revoked for itself":   {op, client.GatewayKey{Revoke: true, Key: first.Signer()}, "bad_gateway_key"},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, set(c.by, c.r), map[bool]int{true: 422, false: 403}[c.by.Operator], c.code)
		})
	}
	if key() != first.Signer() {
		t.Fatal("a refused change changed the key")
	}
	must(t, set(op, client.GatewayKey{Succession: &s}))
	if key() != second.Signer() {
		t.Fatalf("the arena's key is %s", key())
	}
	// A run that was planned under the old key is leased with the new one.
	l := f.claim(val1)
	if l.Run.Policy.GatewayKey != second.Signer() {
		t.Errorf("leased with key %s", l.Run.Policy.GatewayKey)
	}
	r = scored(l, 1)
	r.Receipts, r.Statement = called(t, first.Books, l.Run.Run, l.Attempt, 2)
	_, err = f.Platform.Result(bg, Caller{Hotkey: val1}, l.ID, r)
	wantCode(t, err, 422, "bad_receipts")
	r.Receipts, r.Statement = called(t, second.Books, l.Run.Run, l.Attempt, 2)
	f.result(val1, l, r)
	// What was taken keeps its statement, and the arena tells the key of its time.
	old, err := f.Run(bg, Caller{}, before.Run.Run)
	must(t, err)
	a, err := f.Arena(bg, f.arena.ID)
	must(t, err)
	st := old.List[0].Statement
	if st == nil || len(a.GatewayKeys) != 1 || a.GatewayKeys[0].Key != st.Signer || a.GatewayKeys[0].Next != second.Signer() || gateway.CheckSuccession(*a.GatewayKeys[0].Succession) != nil {
		t.Errorf("statement %+v, keys %+v", st, a.GatewayKeys)
	}
	// A start with the old file.
	must(t, f.EnsureArena(bg, f.arena))
	if key() != second.Signer() {
		t.Error("an old arena file brought the old key back")
	}
	// Stolen: the operator names another, and neither of the two comes back.
	third := open(t.TempDir())
	must(t, set(op, client.GatewayKey{Revoke: true, Key: third.Signer()}))
	for _, k := range []books{first, second} {
		wantCode(t, set(op, client.GatewayKey{Revoke: true, Key: k.Signer()}), 422, "bad_gateway_key")
	}
	a, err = f.Arena(bg, f.arena.ID)
	must(t, err)
	if n := len(a.GatewayKeys); n != 2 || !a.GatewayKeys[1].Revoked || key() != third.Signer() {
		t.Errorf("keys %+v", a.GatewayKeys)
	}
	acts, err := f.Actions(bg, op, 10)
	must(t, err)
	if len(acts) != 2 || acts[0].What != "revoke_gateway_key" || acts[1].What != "rotate_gateway_key" {
		t.Errorf("the operator's log: %+v", acts)
	}
}
