package roles

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

// Every kit is whole, and no two kits stand in each other's way.
func TestKits(t *testing.T) {
	o := testOptions(t.TempDir())
	if err := o.Kits.Check(); err != nil {
		t.Error(err)
	}
	ids, nets, routes := map[string]bool{}, map[uint16]bool{}, map[string]string{}
	later := map[string]string{"query": "claim"} // the later era of a protocol shares the routes of the earlier
	for _, k := range kinds.All() {
		kittest.Whole(t, k)
		f := k.Demo()
		if ids[f.ID] || nets[f.Netuid] {
			t.Errorf("%s: id %q or netuid %d is taken", k.Kind, f.ID, f.Netuid)
		}
		ids[f.ID], nets[f.Netuid] = true, true
		for _, r := range k.Routes {
			if was := routes[r]; was != "" && later[k.Kind] != was {
				t.Errorf("%s: route %s is taken", k.Kind, r)
			}
			routes[r] = k.Kind
			first, _, _ := strings.Cut(strings.TrimPrefix(r, "/"), "/")
			if slices.Contains([]string{"", "arenas", "corpus", "docs", "embed", "ledger", "miners", "operator", "runs", "signin", "static", "submissions"}, first) {
				t.Errorf("%s: route %s hides a page of the server", k.Kind, r)
			}
		}
	}
	if _, err := kinds.All().Script(); err != nil {
		t.Error(err)
	}
	var e *agon.Error
	if _, err := o.ShippedSet("coding", "../coding"); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("a set outside: %v", err)
	}
}
