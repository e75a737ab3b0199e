package subtensor_test

import (
	"testing"

	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/subtensor"
)

// TestMovedCalls: a rule is set by the call that the runtime of now obeys. The one of before is there
// on newer runtimes too, costs its fee, and does nothing.
func TestMovedCalls(t *testing.T) {
	for spec, pallet := range map[uint32]string{424: "SubtensorModule", 0: "AdminUtils"} {
		l := newLedger(t)
		n := newNode(t, l, l, spec)
		c := client(t, subtensor.Config{URLs: []string{n.http.URL}})
		ctx, owner := t.Context(), ledgertest.Key(t, "owner-cold")
		for _, x := range [][2]string{{"tempo", "77"}, {"activity_cutoff_factor_milli", "77"}, {"null_consensus", "true"}, {"collateral_lock_share", "32768"}, {"collateral_drain_ratio", "2.5"}} {
			newer := x[0] != "tempo" && x[0] != "activity_cutoff_factor_milli"
			if newer && spec != 0 {
				continue // no such calls there
			}
			call, err := subtensor.RuleCall(netuid, x[0], x[1])
			if err != nil {
				t.Fatal(err)
			}
			if p, err := c.Plan(ctx, owner, call); err != nil || !newer && p.Pallet != pallet {
				t.Errorf("runtime %d, %s: planned %+v: %v", spec, x[0], p, err)
			}
			if _, err := c.Do(ctx, owner, call); err != nil {
				t.Errorf("runtime %d, %s: %v", spec, x[0], err)
			}
		}
		m, err := c.Metagraph(ctx, netuid)
		if err != nil {
			t.Fatal(err)
		}
		if h := m.Hyper; h.Tempo != 77 || h.ActivityCutoffFactor != 77 || spec == 0 && (!h.NullConsensus || h.CollateralShare != 32768 || h.CollateralDrain != 5<<31 || h.MaxValidators != 1) {
			t.Errorf("runtime %d: %+v", spec, h)
		}
	}
	for name, bad := range map[string]string{"collateral_drain_ratio": "1/2", "collateral_lock_share": "0.5", "null_consensus": "Null"} {
		if call, err := subtensor.RuleCall(netuid, name, bad); err == nil {
			t.Errorf("%s=%s: %v", name, bad, call)
		}
	}
}
