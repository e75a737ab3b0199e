package rpc

import (
	"math/big"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// ofSubnet answers the items of SubtensorModule whose first key is a netuid.
func ofSubnet(m *ledger.Metagraph, item string, keys []any) (any, error) {
	h := &m.Hyper
	if len(keys) == 2 {
		return ofNeuron(m, item, keys[1])
	}
	if m.Pool != nil {
		if v, ok := ofPool(m, item); ok {
			return v, nil
		}
	}
	switch item {
	case "NetworksAdded", "SubtokenEnabled":
		return true, nil
	case "FirstEmissionBlockNumber":
		return 1, nil
	case "MaxRegistrationsPerBlock":
		return 65535, nil
	case "ServingRateLimit":
		return 0, nil
	case "SubnetTAO", "SubnetAlphaIn":
		return reserve(m), nil
	case "SubnetAlphaOut":
		return staked(m), nil
	case "SubnetAlphaOutEmission":
		return h.EmissionPerBlock, nil
	case "BurnIncreaseMult":
		return scale.Map{"bits": new(big.Int).Div(new(big.Int).Lsh(new(big.Int).SetUint64(h.BurnIncrease), 64), big.NewInt(1_000_000))}, nil
	case "ActivityCutoff":
		return min(h.ActivityCutoff(), 65535), nil
	case "SubnetworkN":
		return len(m.Neurons), nil
	case "SubnetOwner":
		return m.OwnerColdkey, nil
	case "SubnetOwnerHotkey":
		return m.OwnerHotkey, nil
	case "Tempo":
		return h.Tempo, nil
	case "LastEpochBlock":
		return m.Epoch.LastBlock, nil
	case "PendingEpochAt":
		return m.Epoch.PendingAt, nil
	case "SubnetEpochIndex":
		return m.Epoch.Index, nil
	case "BlocksSinceLastStep":
		return m.Block - min(m.Block, m.Epoch.Since), nil
	case "LastMechansimStepBlock":
		return m.Epoch.LastStep, nil
	case "Kappa":
		return h.Kappa, nil
	case "ImmunityPeriod":
		return min(h.ImmunityPeriod, 65535), nil
	case "MinAllowedWeights":
		return h.MinAllowedWeights, nil
	case "WeightsVersionKey":
		return h.WeightsVersionKey, nil
	case "WeightsSetRateLimit":
		return h.WeightsRateLimit, nil
	case "ActivityCutoffFactorMilli":
		if h.ActivityCutoffFactor == 0 {
			return nil, nil
		}
		return h.ActivityCutoffFactor, nil
	case "MaxAllowedValidators":
		return h.MaxValidators, nil
	case "MaxAllowedUids":
		return h.MaxUIDs, nil
	case "BondsMovingAverage":
		return h.BondsMovingAverage, nil
	case "BondsPenalty":
		return h.BondsPenalty, nil
	case "CommitRevealWeightsEnabled":
		return h.CommitReveal, nil
	case "RevealPeriodEpochs":
		return h.RevealEpochs(), nil
	case "LiquidAlphaOn":
		return h.LiquidAlpha, nil
	case "SubnetEpochConsensus":
		if h.NullConsensus {
			return scale.Value{Name: "Null"}, nil
		}
		return nil, nil
	case "CollateralLockShare":
		return h.CollateralShare, nil
	case "CollateralDrainRatio":
		if h.CollateralDrain == 0 {
			return nil, nil
		}
		return drain(h.CollateralDrain), nil
	case "Yuma3On":
		return h.Yuma3, nil
	case "AlphaValues":
		return []any{h.AlphaLow, h.AlphaHigh}, nil
	case "AlphaSigmoidSteepness":
		return int64(h.AlphaSteepness), nil
	case "NetworkRegistrationAllowed":
		return h.RegistrationOpen, nil
	case "MinNonImmuneUids":
		return h.MinNonImmuneUIDs, nil
	case "Burn":
		return m.Burn, nil
	case "MinBurn":
		return h.MinBurn, nil
	case "MaxBurn":
		return h.MaxBurn, nil
	case "BurnHalfLife":
		return min(h.BurnHalfLife, 65535), nil
	case "MechanismCountCurrent":
		if len(m.Mechanisms) == 0 {
			return nil, nil
		}
		return len(m.Mechanisms) + 1, nil
	case "MechanismEmissionSplit":
		if len(m.MechanismSplit) == 0 {
			return nil, nil
		}
		out := make([]any, len(m.MechanismSplit))
		for i, share := range m.MechanismSplit {
			out[i] = share
		}
		return out, nil
	case "Active":
		return column(m, func(n *ledger.Neuron) bool { return n.Active }), nil
	case "Consensus":
		return column(m, func(n *ledger.Neuron) uint16 { return n.Consensus }), nil
	case "Incentive":
		return column(m, func(n *ledger.Neuron) uint16 { return n.Incentive }), nil
	case "Dividends":
		return column(m, func(n *ledger.Neuron) uint16 { return n.Dividends }), nil
	case "Emission":
		return column(m, func(n *ledger.Neuron) uint64 { return n.Emission }), nil
	case "LastUpdate":
		return column(m, func(n *ledger.Neuron) uint64 { return n.LastUpdate }), nil
	case "ValidatorTrust":
		return column(m, func(n *ledger.Neuron) uint16 { return n.ValidatorTrust }), nil
	case "ValidatorPermit":
		return column(m, func(n *ledger.Neuron) bool { return n.Permit }), nil
	}
	return nil, nil
}

// drain is a number of 32 fraction bits with 64.
func drain(of uint64) scale.Map {
	return scale.Map{"bits": new(big.Int).Lsh(new(big.Int).SetUint64(of), 32)}
}

func ofNeuron(m *ledger.Metagraph, item string, key any) (any, error) {
	if hotkey, ok := key.(string); ok {
		n, ok := m.Neuron(hotkey)
		switch {
		case !ok:
		case item == "Uids":
			return n.UID, nil
		case item == "Axons" && n.Axon != nil:
			return axonOf(&n), nil
		case item == "WeightCommits" && len(n.Commits) > 0:
			out := make([]any, len(n.Commits))
			for i, c := range n.Commits {
				out[i] = []any{[32]byte(c.Hash), c.Epoch, c.Block, 0}
			}
			return out, nil
		}
		return nil, nil
	}
	uid, _ := key.(uint64)
	if uid >= uint64(len(m.Neurons)) {
		return nil, nil
	}
	switch item {
	case "Keys":
		return m.Neurons[uid].Hotkey, nil
	case "BlockAtRegistration":
		return m.Neurons[uid].RegisteredAt, nil
	case "Weights":
		for _, row := range m.Weights {
			if uint64(row.UID) == uid {
				out := make([]any, len(row.UIDs))
				for i := range row.UIDs {
					out[i] = []any{row.UIDs[i], row.Values[i]}
				}
				return out, nil
			}
		}
	}
	return nil, nil
}
