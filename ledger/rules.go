package ledger

import (
	"maps"
	"slices"
)

// OwnerRule is the call by which a subnet's owner changes a hyperparameter.
type OwnerRule struct {
	Pallet, Call, Arg string
	Bits              int // of the number; 0 = on or off; negative = signed
	// Fixed says that the call's number has 64 fraction bits; a rule's has 32.
	Fixed bool
	// Cases are the names of what is off and on, where the call has no bool for it.
	Cases []string
}

// Argument is the argument of the call for what is off or on.
func (r *OwnerRule) Argument(on bool) any {
	switch {
	case len(r.Cases) == 0:
		return on
	case on:
		return r.Cases[1]
	}
	return r.Cases[0]
}

const (
	module = "SubtensorModule"
	admin  = "AdminUtils"
)

// rules are those of Hyperparameters that an owner may change, by their names in
// JSON, and some that a metagraph does not have.
var rules = map[string]OwnerRule{
	"tempo":                         {module, "set_tempo", "tempo", 16, false, nil},
	"activity_cutoff_factor_milli":  {module, "set_activity_cutoff_factor", "factor_milli", 32, false, nil},
	"weights_version_key":           {admin, "sudo_set_weights_version_key", "weights_version_key", 64, false, nil},
	"weights_rate_limit":            {admin, "sudo_set_weights_set_rate_limit", "weights_set_rate_limit", 64, false, nil},
	"immunity_period":               {admin, "sudo_set_immunity_period", "immunity_period", 16, false, nil},
	"min_allowed_weights":           {admin, "sudo_set_min_allowed_weights", "min_allowed_weights", 16, false, nil},
	"max_allowed_uids":              {admin, "sudo_set_max_allowed_uids", "max_allowed_uids", 16, false, nil},
	"max_allowed_validators":        {admin, "sudo_set_max_allowed_validators", "max_allowed_validators", 16, false, nil},
	"kappa":                         {admin, "sudo_set_kappa", "kappa", 16, false, nil},
	"bonds_moving_avg":              {admin, "sudo_set_bonds_moving_average", "bonds_moving_average", 64, false, nil},
	"bonds_penalty":                 {admin, "sudo_set_bonds_penalty", "bonds_penalty", 16, false, nil},
	"registration_allowed":          {admin, "sudo_set_network_registration_allowed", "registration_allowed", 0, false, nil},
	"min_burn":                      {admin, "sudo_set_min_burn", "min_burn", 64, false, nil},
	"max_burn":                      {admin, "sudo_set_max_burn", "max_burn", 64, false, nil},
	"burn_half_life":                {admin, "sudo_set_burn_half_life", "burn_half_life", 16, false, nil},
	"min_non_immune_uids":           {admin, "sudo_set_min_non_immune_uids", "min", 16, false, nil},
	"commit_reveal_weights_enabled": {admin, "sudo_set_commit_reveal_weights_enabled", "enabled", 0, false, nil},
	"commit_reveal_period":          {admin, "sudo_set_commit_reveal_weights_interval", "interval", 64, false, nil},
	"liquid_alpha_enabled":          {admin, "sudo_set_liquid_alpha_enabled", "enabled", 0, false, nil},
	"alpha_sigmoid_steepness":       {admin, "sudo_set_alpha_sigmoid_steepness", "steepness", -16, false, nil},
	"yuma3":                         {admin, "sudo_set_yuma3_enabled", "enabled", 0, false, nil},
	"serving_rate_limit":            {admin, "sudo_set_serving_rate_limit", "serving_rate_limit", 64, false, nil},
	"rho":                           {admin, "sudo_set_rho", "rho", 16, false, nil},
	"null_consensus":                {admin, "sudo_set_epoch_consensus", "mode", 0, false, []string{"Yuma", "Null"}},
	"recycle":                       {admin, "sudo_set_recycle_or_burn", "recycle_or_burn", 0, false, []string{"Burn", "Recycle"}},
	"collateral_lock_share":         {admin, "sudo_set_collateral_lock_share", "lock_share", 16, false, nil},
	"collateral_drain_ratio":        {admin, "sudo_set_collateral_drain_ratio", "drain_ratio", 64, true, nil},
	"mechanism_count":               {admin, "sudo_set_mechanism_count", "mechanism_count", 8, false, nil},
}

// RuleAlpha is set in one call with both of its parts, LOW,HIGH.
const RuleAlpha = "alpha_values"

// OwnerRules lists the hyperparameters that a subnet's owner may set.
func OwnerRules() []string { return append(slices.Sorted(maps.Keys(rules)), RuleAlpha) }

// RuleNamed is how the owner sets a hyperparameter of one number.
func RuleNamed(name string) (OwnerRule, bool) {
	r, ok := rules[name]
	return r, ok
}

// Moved are the calls of owners in AdminUtils that newer runtimes have for some in
// SubtensorModule, which then change nothing. The second of them is only where the first is the owner's.
var Moved = map[string]string{"set_tempo": "sudo_set_tempo", "set_activity_cutoff_factor": "sudo_set_activity_cutoff_factor"}

// RuleOf names the hyperparameter that a call of an owner sets.
func RuleOf(pallet, call string) (name string, r OwnerRule, ok bool) {
	for old, now := range Moved {
		if pallet == admin && call == now {
			pallet, call = module, old
		}
	}
	for name, r := range rules {
		if r.Pallet == pallet && r.Call == call {
			return name, r, true
		}
	}
	return "", r, false
}
