package ledger

import (
	"maps"
	"slices"
)

// OwnerRule is the call by which a subnet's owner changes a hyperparameter.
type OwnerRule struct {
	Pallet, Call, Arg string
	Bits              int // of the number; 0 = on or off; negative = signed
}

const (
	module = "SubtensorModule"
	admin  = "AdminUtils"
)

// rules are those of Hyperparameters that an owner may change, by their names in
// JSON, and some that a metagraph does not have.
var rules = map[string]OwnerRule{
	"tempo":                         {module, "set_tempo", "tempo", 16},
	"activity_cutoff_factor_milli":  {module, "set_activity_cutoff_factor", "factor_milli", 32},
	"weights_version_key":           {admin, "sudo_set_weights_version_key", "weights_version_key", 64},
	"weights_rate_limit":            {admin, "sudo_set_weights_set_rate_limit", "weights_set_rate_limit", 64},
	"immunity_period":               {admin, "sudo_set_immunity_period", "immunity_period", 16},
	"min_allowed_weights":           {admin, "sudo_set_min_allowed_weights", "min_allowed_weights", 16},
	"max_allowed_uids":              {admin, "sudo_set_max_allowed_uids", "max_allowed_uids", 16},
	"max_allowed_validators":        {admin, "sudo_set_max_allowed_validators", "max_allowed_validators", 16},
	"kappa":                         {admin, "sudo_set_kappa", "kappa", 16},
	"bonds_moving_avg":              {admin, "sudo_set_bonds_moving_average", "bonds_moving_average", 64},
	"bonds_penalty":                 {admin, "sudo_set_bonds_penalty", "bonds_penalty", 16},
	"registration_allowed":          {admin, "sudo_set_network_registration_allowed", "registration_allowed", 0},
	"min_burn":                      {admin, "sudo_set_min_burn", "min_burn", 64},
	"max_burn":                      {admin, "sudo_set_max_burn", "max_burn", 64},
	"burn_half_life":                {admin, "sudo_set_burn_half_life", "burn_half_life", 16},
	"min_non_immune_uids":           {admin, "sudo_set_min_non_immune_uids", "min", 16},
	"commit_reveal_weights_enabled": {admin, "sudo_set_commit_reveal_weights_enabled", "enabled", 0},
	"commit_reveal_period":          {admin, "sudo_set_commit_reveal_weights_interval", "interval", 64},
	"liquid_alpha_enabled":          {admin, "sudo_set_liquid_alpha_enabled", "enabled", 0},
	"alpha_sigmoid_steepness":       {admin, "sudo_set_alpha_sigmoid_steepness", "steepness", -16},
	"yuma3":                         {admin, "sudo_set_yuma3_enabled", "enabled", 0},
	"serving_rate_limit":            {admin, "sudo_set_serving_rate_limit", "serving_rate_limit", 64},
	"rho":                           {admin, "sudo_set_rho", "rho", 16},
	"mechanism_count":               {admin, "sudo_set_mechanism_count", "mechanism_count", 8},
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

// RuleOf names the hyperparameter that a call of an owner sets.
func RuleOf(pallet, call string) (name string, r OwnerRule, ok bool) {
	for name, r := range rules {
		if r.Pallet == pallet && r.Call == call {
			return name, r, true
		}
	}
	return "", r, false
}
