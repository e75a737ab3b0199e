package audit

import (
	"slices"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// After the gateway's key has changed, what the old one signed is checked with
// it; a revoked key counts until then; a server adds no key by its word.
func TestRetiredGatewayKeys(t *testing.T) {
	b, o := sample(t)
	r := &b.Runs[0]
	signer, ended := r.Run.List[0].Statement.Signer, r.Run.List[0].EndedAt
	dir := t.TempDir()
	first, _, err := gateway.OpenKey(dir)
	must(t, err)
	one, err := gateway.RotateKey(dir, ended)
	must(t, err)
	two, err := gateway.RotateKey(dir, ended)
	must(t, err)
	k := &checker{b: b, o: o}
	retired := func(s agon.Succession) agon.RetiredKey {
		return agon.RetiredKey{Key: s.Old, Next: s.New, Until: s.At, Succession: &s}
	}
	has := func(key string, want bool) {
		t.Helper()
		if got := k.gateways(r, ended); slices.Contains(got, key) != want {
			t.Errorf("%s is among the keys: %v, want %v", key, !want, want)
		}
	}
	// Planned under the first, signed by the second, today the third.
	r.Run.Policy.GatewayKey, b.Arena.Policy.GatewayKey = first.SS58(), two.New
	b.Arena.GatewayKeys = []agon.RetiredKey{retired(one), retired(two)}
	has(one.New, true)
	has(signer, false)
	b.Arena.GatewayKeys[0].Succession = nil
	b.Arena.GatewayKeys = append(b.Arena.GatewayKeys, agon.RetiredKey{Key: signer, Next: two.New, Until: ended.Add(time.Hour)})
	has(one.New, true) // it has named today's
	has(signer, false) // only the server says so
	// Asked for by the reader: whom that key has named, nobody else.
	k.o.Gateways = []string{first.SS58()}
	has(two.New, false)
	b.Arena.GatewayKeys = []agon.RetiredKey{retired(one), retired(two)}
	has(two.New, true)
	// Revoked.
	k.o.Gateways = nil
	r.Run.Policy.GatewayKey = signer
	b.Arena.GatewayKeys = []agon.RetiredKey{{Key: signer, Next: two.New, Until: ended.Add(time.Second), Revoked: true}}
	has(signer, true)
	b.Arena.GatewayKeys[0].Until = ended.Add(-time.Second)
	has(signer, false)
	if got := Check(t.Context(), b, o); got.OK {
		t.Error("a statement of a revoked key was taken")
	}
}
