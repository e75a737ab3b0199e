package audit

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// The block that seeds come of is the chain's, or the report says what it is.
func TestBeaconIsTheChains(t *testing.T) {
	b := &agon.Beacon{Rule: agon.BeaconBlock, Block: 7, Hash: "0xAB"}
	says := func(hash string, err error) func(context.Context, uint64) (string, error) {
		return func(_ context.Context, n uint64) (string, error) {
			if n != 7 {
				t.Errorf("asked for block %d", n)
			}
			return hash, err
		}
	}
	for name, x := range map[string]struct {
		ask         func(context.Context, uint64) (string, error)
		state, said string
	}{
		"nobody asked": {nil, "open", "compare it with the chain"},
		"the same":     {says("0xab", nil), "ok", "as the chain says"},
		"another":      {says("0xac", nil), "wrong", "the chain says 0xac"},
		"not there":    {says("", nil), "wrong", "does not have that block"},
		"no answer":    {says("", errors.New("no route")), "open", "no route"},
	} {
		k := &checker{o: Options{BlockHash: x.ask}}
		k.beacon(t.Context(), b)
		got := "ok"
		switch {
		case len(k.Unchecked) == 1:
			got = "open"
		case len(k.Wrong) == 1:
			got = "wrong"
		}
		if len(k.Checks) != 1 || got != x.state || !strings.Contains(k.Checks[0].Detail, x.said) {
			t.Errorf("%s: %s, %+v", name, got, k.Checks)
		}
	}
}
