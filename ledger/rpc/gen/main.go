// Command gen makes the metadata of the embedded ledger: the parts of the
// chain's metadata that it has, with their names, indexes and types.
package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/agon-arena/agon/ledger/scale"
)

var parts = []scale.Part{
	{
		Pallet: "System", Storage: []string{"Account", "BlockHash", "Number", "ParentHash", "Events", "EventCount"}, Calls: []string{"remark"},
		Events: []string{"ExtrinsicSuccess", "ExtrinsicFailed"}, Constants: []string{"BlockHashCount", "SS58Prefix"},
	},
	{Pallet: "Timestamp", Storage: []string{"Now"}},
	{
		// All that is stored: what the ledger does not model reads as the chain's default.
		Pallet: "SubtensorModule", Storage: []string{every}, Constants: []string{every},
		Calls: []string{
			"set_weights", "commit_weights", "reveal_weights", "set_mechanism_weights", "commit_mechanism_weights", "reveal_mechanism_weights",
			"commit_timelocked_mechanism_weights", "burned_register", "register_limit", "add_stake", "remove_stake", "add_stake_limit", "remove_stake_limit", "remove_stake_full_limit",
			"serve_axon", "serve_axon_tls", "increase_take", "decrease_take", "set_tempo", "set_activity_cutoff_factor", "trigger_epoch", "burn_alpha", "recycle_alpha", "add_stake_burn",
			"batch_set_weights", "add_collateral", "set_min_collateral", "set_children", "set_childkey_take", "claim_root", "set_root_claim_type", "move_stake", "transfer_stake", "swap_stake", "swap_stake_limit", "unstake_all", "unstake_all_alpha",
		},
		Events: []string{
			"NeuronRegistered", "WeightsSet", "WeightsCommitted", "WeightsRevealed", "TimelockedWeightsCommitted", "StakeAdded", "StakeRemoved", "AxonServed", "TakeDecreased", "TakeIncreased",
			"AlphaBurned", "AlphaRecycled", "AddStakeBurn", "SetChildrenScheduled", "SetChildren", "ChildKeyTakeSet", "RootClaimed", "RootClaimTypeSet", "StakeMoved", "StakeTransferred", "StakeSwapped",
			"BatchWeightsCompleted", "BatchCompletedWithErrors", "BatchWeightItemFailed", "CollateralLocked", "MinCollateralSet",
		},
	},
	{
		Pallet: "Commitments", Storage: []string{"CommitmentOf", "LastCommitment", "LastBondsReset", "RevealedCommitments", "MaxSpace"}, Calls: []string{"set_commitment"},
		Events: []string{"Commitment", "TimelockCommitment", "CommitmentRevealed"}, Constants: []string{"MaxFields"},
	},
	{Pallet: "Aura", Constants: []string{"SlotDuration"}},
	{
		Pallet: "Balances", Storage: []string{"TotalIssuance", "InactiveIssuance", "Account", "Locks"}, Calls: []string{"transfer_allow_death", "transfer_keep_alive", "transfer_all"},
		Events: []string{"Transfer"}, Constants: []string{"ExistentialDeposit"},
	},
	{Pallet: "TransactionPayment", Storage: []string{"NextFeeMultiplier"}},
	{
		Pallet: "Utility", Calls: []string{"batch", "batch_all", "force_batch"},
		Events: []string{"BatchInterrupted", "BatchCompleted", "BatchCompletedWithErrors", "ItemCompleted", "ItemFailed"},
	},
	{Pallet: "AdminUtils", Calls: []string{
		"sudo_set_weights_version_key", "sudo_set_weights_set_rate_limit", "sudo_set_immunity_period", "sudo_set_min_allowed_weights", "sudo_set_max_allowed_uids", "sudo_set_kappa",
		"sudo_set_network_registration_allowed", "sudo_set_min_burn", "sudo_set_max_burn", "sudo_set_max_allowed_validators", "sudo_set_bonds_moving_average", "sudo_set_bonds_penalty",
		"sudo_set_commit_reveal_weights_enabled", "sudo_set_liquid_alpha_enabled", "sudo_set_alpha_values", "sudo_set_commit_reveal_weights_interval", "sudo_set_alpha_sigmoid_steepness",
		"sudo_set_yuma3_enabled", "sudo_set_min_non_immune_uids", "sudo_set_burn_half_life", "sudo_set_mechanism_count", "sudo_set_mechanism_emission_split", "sudo_set_recycle_or_burn",
		"sudo_set_tempo", "sudo_set_activity_cutoff_factor", "sudo_set_epoch_consensus", "sudo_set_collateral_lock_share", "sudo_set_collateral_drain_ratio",
	}},
	{
		Pallet: "Proxy", Storage: []string{"Proxies", "Announcements"}, Constants: []string{every},
		Calls: []string{"proxy", "add_proxy", "remove_proxy", "remove_proxies", "create_pure", "kill_pure", "announce", "remove_announcement", "reject_announcement", "proxy_announced"}, Events: []string{"ProxyExecuted", "Announced", "ProxyAdded", "ProxyRemoved", "PureCreated", "PureKilled"},
	},
	{Pallet: "Drand", Storage: []string{"BeaconConfig", "Pulses", "LastStoredRound", "OldestStoredRound"}},
	{Pallet: "MevShield", Storage: []string{"CurrentKey", "NextKey", "PendingKeyExpiresAt", "NextKeyExpiresAt"}}, // no key: nothing is shielded
	{Pallet: "Swap", Storage: []string{"FeeRate", "SwapBalancer", "PalSwapInitialized"}},
}

// every stands for all names of a pallet.
const every = "*"

var methods = []string{
	"Core.version", "Metadata.metadata", "Metadata.metadata_at_version", "Metadata.metadata_versions", "AccountNonceApi.account_nonce", "AuraApi.slot_duration",
	"TransactionPaymentApi.query_info", "SubnetRegistrationRuntimeApi.get_network_registration_cost",
	"NeuronInfoRuntimeApi.get_neurons", "NeuronInfoRuntimeApi.get_neuron", "NeuronInfoRuntimeApi.get_neurons_lite", "NeuronInfoRuntimeApi.get_neuron_lite",
	"SubnetInfoRuntimeApi.get_subnet_info", "SubnetInfoRuntimeApi.get_subnet_info_v2", "SubnetInfoRuntimeApi.get_subnets_info", "SubnetInfoRuntimeApi.get_subnets_info_v2",
	"SubnetInfoRuntimeApi.get_subnet_hyperparams", "SubnetInfoRuntimeApi.get_subnet_hyperparams_v2", "SubnetInfoRuntimeApi.get_subnet_hyperparams_v3",
	"SubnetInfoRuntimeApi.get_all_dynamic_info", "SubnetInfoRuntimeApi.get_dynamic_info", "SubnetInfoRuntimeApi.get_all_metagraphs", "SubnetInfoRuntimeApi.get_metagraph",
	"SubnetInfoRuntimeApi.get_all_mechagraphs", "SubnetInfoRuntimeApi.get_mechagraph", "SubnetInfoRuntimeApi.get_selective_metagraph", "SubnetInfoRuntimeApi.get_selective_mechagraph",
	"SubnetInfoRuntimeApi.get_subnet_state", "SubnetInfoRuntimeApi.get_next_epoch_start_block", "SubnetInfoRuntimeApi.get_coldkey_auto_stake_hotkey",
	"SubnetInfoRuntimeApi.get_subnet_to_prune", "SubnetInfoRuntimeApi.get_subnet_account_id",
	"StakeInfoRuntimeApi.get_stake_info_for_coldkey", "StakeInfoRuntimeApi.get_stake_info_for_coldkeys", "StakeInfoRuntimeApi.get_stake_info_for_hotkey_coldkey_netuid",
	"StakeInfoRuntimeApi.get_stake_fee", "StakeInfoRuntimeApi.get_coldkey_lock", "StakeInfoRuntimeApi.get_hotkey_conviction", "StakeInfoRuntimeApi.get_most_convicted_hotkey_on_subnet",
	"DelegateInfoRuntimeApi.get_delegates", "DelegateInfoRuntimeApi.get_delegate", "DelegateInfoRuntimeApi.get_delegated",
	"SwapRuntimeApi.current_alpha_price", "SwapRuntimeApi.current_alpha_price_all", "SwapRuntimeApi.sim_swap_tao_for_alpha", "SwapRuntimeApi.sim_swap_alpha_for_tao",
}

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	m, err := scale.Decode(b)
	if err != nil {
		return err
	}
	if err := addNewer(m); err != nil {
		return err
	}
	if err := expand(m); err != nil {
		return err
	}
	if m, err = m.Subset(parts, methods); err != nil {
		return err
	}
	if b, err = m.Encode(15); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// expand puts names for every.
func expand(m *scale.Metadata) error {
	for i := range parts {
		p, err := m.Pallet(parts[i].Pallet)
		if err != nil {
			return err
		}
		if slices.Contains(parts[i].Storage, every) {
			parts[i].Storage = nil
			for _, s := range p.Storage {
				parts[i].Storage = append(parts[i].Storage, s.Name)
			}
		}
		if slices.Contains(parts[i].Constants, every) {
			parts[i].Constants = nil
			for _, c := range p.Constants {
				parts[i].Constants = append(parts[i].Constants, c.Name)
			}
		}
	}
	return nil
}
