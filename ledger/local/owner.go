package local

import (
	"context"
	"fmt"
	"math"

	"github.com/agon-arena/agon/ledger"
)

// SetRule changes one rule of a subnet for its owner, who signs. name is that of
// the hyperparameter in the metagraph (ledger.Hyperparameters); a rule that is on
// or off is 1 or 0.
func (l *Ledger) SetRule(ctx context.Context, netuid uint16, coldkey, name string, value int64) error {
	_, _, err := l.call(ctx, &extrinsic{Call: callRule, Netuid: netuid, Coldkey: coldkey, Name: name, Value: value})
	return err
}

// SetTake sets what a hotkey keeps of its stakers' dividends, in 65535ths. Its
// coldkey signs. up says in which direction the signer means to go, as on the chain.
func (l *Ledger) SetTake(ctx context.Context, hotkey, coldkey string, take uint16, up bool) error {
	_, _, err := l.call(ctx, &extrinsic{Call: callTake, Hotkey: hotkey, Coldkey: coldkey, Value: int64(take), Keep: up})
	return err
}

// Take is what a hotkey keeps of its stakers' dividends, in 65535ths.
func (l *Ledger) Take(ctx context.Context, hotkey string) (take uint16, err error) {
	err = l.view(ctx, func(s *state) error {
		take = s.take(hotkey)
		return nil
	})
	return take, err
}

// OwnerTrigger is TriggerEpoch by the subnet's owner.
func (l *Ledger) OwnerTrigger(ctx context.Context, netuid uint16, coldkey string) error {
	_, _, err := l.call(ctx, &extrinsic{Call: callTriggerEpoch, Netuid: netuid, Coldkey: coldkey})
	return err
}

// maxTake is the most that a hotkey keeps of its stakers' dividends, and what it
// keeps where it has said nothing: 18 %.
const maxTake = 11796

func (s *state) take(hotkey string) uint16 {
	if t, ok := s.Takes[hotkey]; ok {
		return t
	}
	return maxTake
}

func (s *state) setTake(x *extrinsic) error {
	switch owner, ok := s.Owners[x.Hotkey]; {
	case !ok:
		return ledger.ErrNoHotkey
	case owner != x.Coldkey:
		return ledger.ErrNonAssociatedColdkey
	}
	have := s.take(x.Hotkey)
	switch {
	case x.Value < 0 || x.Value > maxTake:
		return ledger.ErrTakeTooHigh.With(fmt.Sprintf("a take of %d: at most %d of 65535", x.Value, maxTake))
	case x.Keep && uint16(x.Value) <= have || !x.Keep && uint16(x.Value) >= have:
		return ledger.ErrTakeTooLow.With(fmt.Sprintf("the take is %d of 65535 already", have))
	}
	if s.Takes == nil {
		s.Takes = map[string]uint16{}
	}
	s.Takes[x.Hotkey] = uint16(x.Value)
	return nil
}

func (s *state) setRule(x *extrinsic) error {
	sub, err := s.subnet(x.Netuid)
	if err != nil {
		return err
	}
	if x.Coldkey != sub.OwnerColdkey {
		return ledger.ErrBadOrigin.With(fmt.Sprintf("subnet %d belongs to %s", x.Netuid, sub.OwnerColdkey))
	}
	if x.Name == "mechanism_count" {
		return sub.setMechanisms(x.Value)
	}
	if x.Name == "recycle" && sub.Alpha != nil {
		sub.Alpha.Recycles = x.Value == 1
		return nil
	}
	h := sub.Hyper
	if err := changeRule(&h, x.Name, x.Value); err != nil {
		return err
	}
	switch {
	case x.Name == "collateral_lock_share" && h.CollateralShare > maxCollateralShare:
		return ledger.ErrCollateralShare.With(fmt.Sprintf("a share of %d: at most %d of 65535", h.CollateralShare, maxCollateralShare))
	case x.Name == "collateral_drain_ratio" && (h.CollateralDrain == 0 || h.CollateralDrain > maxCollateralDrain):
		return ledger.ErrCollateralDrain.With(fmt.Sprintf("a ratio of %d/2^32: more than 0, at most 10", h.CollateralDrain))
	}
	if h.NullConsensus && sub.Hyper.NullConsensus && h.MaxValidators != 1 {
		return ledger.ErrInvalidValue.With(fmt.Sprintf("max_allowed_validators of %d: Null has one", h.MaxValidators))
	}
	if err := checkHyper(&h); err != nil {
		return ledger.ErrInvalidValue.With(err.Error())
	}
	if int(h.MaxUIDs) < len(sub.Neurons) {
		return ledger.ErrMaxUIDsTooLow.With(fmt.Sprintf("at most %d uids: %d are taken", h.MaxUIDs, len(sub.Neurons)))
	}
	y := *x
	y.Hyper = &h
	return s.setHyper(&y)
}

// changeRule changes one rule. A value that does not fit the rule is ErrInvalidValue.
func changeRule(h *ledger.Hyperparameters, name string, v int64) error {
	small := map[string]*uint16{
		"tempo": &h.Tempo, "max_allowed_uids": &h.MaxUIDs, "min_allowed_weights": &h.MinAllowedWeights, "max_allowed_validators": &h.MaxValidators, "kappa": &h.Kappa,
		"bonds_penalty": &h.BondsPenalty, "alpha_low": &h.AlphaLow, "alpha_high": &h.AlphaHigh, "min_non_immune_uids": &h.MinNonImmuneUIDs,
		"collateral_lock_share": &h.CollateralShare,
	}
	large := map[string]*uint64{
		"weights_version_key": &h.WeightsVersionKey, "weights_rate_limit": &h.WeightsRateLimit, "immunity_period": &h.ImmunityPeriod, "bonds_moving_avg": &h.BondsMovingAverage,
		"activity_cutoff_factor_milli": &h.ActivityCutoffFactor, "commit_reveal_period": &h.RevealPeriod, "min_burn": &h.MinBurn, "max_burn": &h.MaxBurn, "burn_half_life": &h.BurnHalfLife,
		"collateral_drain_ratio": &h.CollateralDrain,
	}
	flags := map[string]*bool{
		"commit_reveal_weights_enabled": &h.CommitReveal, "registration_allowed": &h.RegistrationOpen, "yuma3": &h.Yuma3, "liquid_alpha_enabled": &h.LiquidAlpha,
		"null_consensus": &h.NullConsensus,
	}
	bad := ledger.ErrInvalidValue.With(fmt.Sprintf("%s of %d", name, v))
	switch {
	case name == "alpha_sigmoid_steepness":
		if v < math.MinInt16 || v > math.MaxInt16 {
			return bad
		}
		h.AlphaSteepness = int16(v)
	case small[name] != nil:
		if v < 0 || v > math.MaxUint16 {
			return bad
		}
		*small[name] = uint16(v)
	case large[name] != nil:
		if v < 0 {
			return bad
		}
		*large[name] = uint64(v)
	case flags[name] != nil:
		if v != 0 && v != 1 {
			return bad
		}
		*flags[name] = v == 1
	default:
		return ledger.ErrInvalidValue.With(fmt.Sprintf("no rule is named %q", name))
	}
	return nil
}
