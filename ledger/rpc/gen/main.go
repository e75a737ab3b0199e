// Command gen makes the metadata of the embedded ledger: the parts of the
// chain's metadata that it has, with their names, indexes and types.
package main

import (
	"fmt"
	"os"

	"github.com/agon-arena/agon/ledger/scale"
)

var parts = []scale.Part{
	{
		Pallet: "System", Storage: []string{"Account", "BlockHash", "Number", "ParentHash", "Events", "EventCount"}, Calls: []string{"remark"},
		Events: []string{"ExtrinsicSuccess", "ExtrinsicFailed"}, Constants: []string{"BlockHashCount", "SS58Prefix"},
	},
	{Pallet: "Timestamp", Storage: []string{"Now"}},
	{
		Pallet: "SubtensorModule",
		Storage: []string{
			"NetworksAdded", "SubnetworkN", "Keys", "Uids", "Owner", "SubnetOwner", "SubnetOwnerHotkey", "Tempo", "LastEpochBlock", "PendingEpochAt", "SubnetEpochIndex",
			"BlocksSinceLastStep", "LastMechansimStepBlock", "Kappa", "ImmunityPeriod", "MinAllowedWeights", "WeightsVersionKey", "WeightsSetRateLimit", "ActivityCutoffFactorMilli",
			"MaxAllowedValidators", "MaxAllowedUids", "BondsMovingAverage", "BondsPenalty", "CommitRevealWeightsEnabled", "RevealPeriodEpochs", "WeightCommits", "StakeThreshold",
			"SubnetOwnerCut", "LiquidAlphaOn", "Yuma3On", "AlphaValues", "AlphaSigmoidSteepness", "NetworkRegistrationAllowed", "MinNonImmuneUids", "Burn", "MinBurn", "MaxBurn",
			"BurnHalfLife", "BlockEmission", "Weights", "Active", "Consensus", "Incentive", "Dividends", "Emission", "LastUpdate", "ValidatorTrust", "ValidatorPermit", "BlockAtRegistration",
			"TotalHotkeyAlpha",
		},
		Calls:  []string{"set_weights", "commit_weights", "reveal_weights", "burned_register", "add_stake", "remove_stake"},
		Events: []string{"NeuronRegistered", "WeightsSet"},
	},
	{Pallet: "Commitments", Storage: []string{"CommitmentOf", "LastCommitment", "MaxSpace"}, Calls: []string{"set_commitment"}, Events: []string{"Commitment"}, Constants: []string{"MaxFields"}},
}

var methods = []string{
	"Core.version", "Metadata.metadata", "Metadata.metadata_at_version", "Metadata.metadata_versions", "AccountNonceApi.account_nonce",
	"TransactionPaymentApi.query_info", "SubnetInfoRuntimeApi.get_metagraph", "SubnetInfoRuntimeApi.get_selective_metagraph", "SubnetInfoRuntimeApi.get_next_epoch_start_block",
	"NeuronInfoRuntimeApi.get_neurons_lite", "NeuronInfoRuntimeApi.get_neuron_lite", "SubnetInfoRuntimeApi.get_subnet_state", "SubnetInfoRuntimeApi.get_selective_mechagraph",
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
	if m, err = m.Subset(parts, methods); err != nil {
		return err
	}
	if b, err = m.Encode(15); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
