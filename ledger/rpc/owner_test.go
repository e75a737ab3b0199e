package rpc

import (
	"errors"
	"math/big"
	"testing"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/scale"
)

// TestOwnerCalls: every call of an owner that the metadata has changes its rule,
// for the owner alone, and what does not fit is refused by a name of the chain's.
func TestOwnerCalls(t *testing.T) {
	l, s := newServer(t)
	owner, other, hot := ledgertest.Key(t, "owner-cold"), ledgertest.Key(t, "other"), ledgertest.Key(t, "owner")
	do := func(who, pallet, call string, args scale.Map) error {
		t.Helper()
		_, err := applied(t, s, who, pallet, call, args)
		if failure, ferr := s.dispatchError(err); ferr != nil || err != nil && failure.(scale.Value).Name == "Other" {
			t.Errorf("%s.%s: refused as %v: %v %v", pallet, call, failure, err, ferr)
		}
		return err
	}
	changed := 0
	for _, name := range ledger.OwnerRules() {
		r, ok := ledger.RuleNamed(name)
		if !ok || !s.meta.HasCall(r.Pallet, r.Call) || name == "recycle" {
			continue // it stands for two, is not modelled, or is for subnets with a pool
		}
		var value any = 77
		switch {
		case r.Bits == 0:
			value = r.Argument(true)
		case r.Fixed:
			value = scale.Map{"bits": new(big.Int).Lsh(big.NewInt(77), 58)}
		case name == "mechanism_count":
			value = 2
		}
		args := scale.Map{"netuid": 1, r.Arg: value}
		if err := do(other, r.Pallet, r.Call, args); !errors.Is(err, ledger.ErrBadOrigin) {
			t.Errorf("%s by another: %v", name, err)
		}
		if err := do(owner, r.Pallet, r.Call, args); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		changed++
	}
	m, err := l.Metagraph(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	h := m.Hyper
	if h.Tempo != 77 || h.WeightsVersionKey != 77 || h.MinBurn != 77 || h.AlphaSteepness != 77 || !h.CommitReveal || !h.LiquidAlpha || h.ActivityCutoffFactor != 77 || h.RevealPeriod != 77 ||
		!h.NullConsensus || h.CollateralShare != 77 || h.CollateralDrain != 77<<26 {
		t.Errorf("rules %+v", h)
	}
	if changed < 20 {
		t.Errorf("%d rules changed", changed)
	}
	admin := func(call, arg string, v any) error {
		return do(owner, "AdminUtils", call, scale.Map{"netuid": 1, arg: v})
	}
	if err := do(owner, "AdminUtils", "sudo_set_alpha_values", scale.Map{"netuid": 1, "alpha_low": 5, "alpha_high": 9}); err != nil {
		t.Error(err)
	}
	for _, x := range []struct {
		err, want error
	}{
		{admin("sudo_set_tempo", "tempo", 78), nil},
		{admin("sudo_set_activity_cutoff_factor", "factor_milli", 78), nil},
		{admin("sudo_set_epoch_consensus", "mode", "Yuma"), nil},
		{admin("sudo_set_collateral_lock_share", "lock_share", 65535), ledger.ErrCollateralShare},
		{admin("sudo_set_collateral_drain_ratio", "drain_ratio", scale.Map{"bits": 0}), ledger.ErrCollateralDrain},
		{admin("sudo_set_collateral_drain_ratio", "drain_ratio", scale.Map{"bits": new(big.Int).Lsh(big.NewInt(11), 64)}), ledger.ErrCollateralDrain},
		{admin("sudo_set_bonds_moving_average", "bonds_moving_average", 1_000_001), ledger.ErrInvalidValue},
		{admin("sudo_set_mechanism_count", "mechanism_count", 3), ledger.ErrInvalidValue},
		{admin("sudo_set_mechanism_count", "mechanism_count", 0), ledger.ErrInvalidValue},
		{admin("sudo_set_mechanism_emission_split", "maybe_split", scale.Value{Name: "Some", Of: []any{1, 2}}), ledger.ErrInvalidValue},
		{admin("sudo_set_mechanism_emission_split", "maybe_split", scale.Value{Name: "Some", Of: []any{1, 2, 65532}}), ledger.ErrInvalidValue},
		{admin("sudo_set_mechanism_emission_split", "maybe_split", scale.Value{Name: "Some", Of: []any{52428, 13107}}), nil},
		{do(other, "AdminUtils", "sudo_set_mechanism_emission_split", scale.Map{"netuid": 1, "maybe_split": nil}), ledger.ErrBadOrigin},
		{admin("sudo_set_min_burn", "min_burn", uint64(1)<<62), ledger.ErrInvalidValue},
		{admin("sudo_set_max_allowed_uids", "max_allowed_uids", 0), ledger.ErrInvalidValue},
		{do(owner, "AdminUtils", "sudo_set_alpha_values", scale.Map{"netuid": 1, "alpha_low": 9, "alpha_high": 5}), ledger.ErrInvalidValue},
		{do(owner, "SubtensorModule", "set_tempo", scale.Map{"netuid": 9, "tempo": 5}), ledger.ErrSubnetNotExists},
		{do(owner, "SubtensorModule", "increase_take", scale.Map{"hotkey": hot, "take": 65535}), ledger.ErrTakeTooHigh},
		{do(owner, "SubtensorModule", "increase_take", scale.Map{"hotkey": hot, "take": 5}), ledger.ErrTakeTooLow},
		{do(owner, "SubtensorModule", "decrease_take", scale.Map{"hotkey": hot, "take": 5}), nil},
		{do(owner, "SubtensorModule", "decrease_take", scale.Map{"hotkey": hot, "take": 5}), ledger.ErrTakeTooLow},
		{do(other, "SubtensorModule", "increase_take", scale.Map{"hotkey": hot, "take": 9}), ledger.ErrNonAssociatedColdkey},
		{do(owner, "SubtensorModule", "increase_take", scale.Map{"hotkey": other, "take": 9}), ledger.ErrNoHotkey},
		{do(owner, "SubtensorModule", "trigger_epoch", scale.Map{"netuid": 1}), ledger.ErrCommitRevealEnabled},
	} {
		if !errors.Is(x.err, x.want) {
			t.Errorf("%v, want %v", x.err, x.want)
		}
	}
	if m, err = l.Metagraph(t.Context(), 1); err != nil || m.Hyper.Tempo != 78 || m.Hyper.ActivityCutoffFactor != 78 || m.Hyper.NullConsensus {
		t.Errorf("rules %+v: %v", m.Hyper, err)
	}
	if take, err := l.Take(t.Context(), hot); err != nil || take != 5 {
		t.Errorf("take %d: %v", take, err)
	}
}
