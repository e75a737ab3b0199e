package yuma

import (
	"fmt"

	"github.com/agon-arena/agon/calc"
)

type calcIn struct {
	N                  int      `json:"n"`
	Stake              []uint64 `json:"stake"`
	Permits            []bool   `json:"permits"`
	Weights            [][]Pair `json:"weights"`
	Bonds              [][]Pair `json:"bonds"`
	LastUpdate         []uint64 `json:"last_update"`
	RegisteredAt       []uint64 `json:"registered_at"`
	LastTempo          uint64   `json:"last_tempo"`
	Block              uint64   `json:"block"`
	ActivityCutoff     uint64   `json:"activity_cutoff"`
	OwnerUID           *uint16  `json:"owner_uid"`
	Kappa              uint16   `json:"kappa"`
	BondsMovingAverage uint64   `json:"bonds_moving_average"`
	BondsPenalty       uint16   `json:"bonds_penalty"`
	MaxValidators      uint16   `json:"max_validators"`
	EmissionRao        uint64   `json:"emission_rao"`
	Model              Model    `json:"model"`
}

type calcOut struct {
	Consensus      []uint16 `json:"consensus"`
	Incentive      []uint16 `json:"incentive"`
	Dividends      []uint16 `json:"dividends"`
	ValidatorTrust []uint16 `json:"validator_trust"`
	Trust          []uint16 `json:"trust"`
	Rank           []uint16 `json:"rank"`
	Permits        []bool   `json:"permits"`
	Bonds          [][]Pair `json:"bonds"`
	Emission       []uint64 `json:"emission"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{calc.Func("chain.yuma",
		"{n, stake, permits, weights, bonds, last_update, registered_at, last_tempo, block, …} -> {consensus, incentive, dividends, …}: one epoch of Yuma consensus", calcYuma)}
}

func calcYuma(in calcIn) (calcOut, error) {
	if in.N != len(in.Stake) {
		return calcOut{}, fmt.Errorf("n is %d, stake of %d neurons", in.N, len(in.Stake))
	}
	owner := -1
	if in.OwnerUID != nil {
		owner = int(*in.OwnerUID)
	}
	o, err := Run(&Input{
		Stake: in.Stake, Permits: in.Permits, Weights: in.Weights, Bonds: in.Bonds, LastUpdate: in.LastUpdate, RegisteredAt: in.RegisteredAt,
		Block: in.Block, LastTempo: in.LastTempo, ActivityCutoff: in.ActivityCutoff, Owner: owner,
		Kappa: in.Kappa, BondsMovingAverage: in.BondsMovingAverage, BondsPenalty: in.BondsPenalty,
		MaxValidators: in.MaxValidators, Emission: in.EmissionRao, Model: in.Model,
	})
	if err != nil {
		return calcOut{}, err
	}
	return calcOut{
		Consensus: o.Consensus, Incentive: o.Incentive, Dividends: o.Dividends, ValidatorTrust: o.ValidatorTrust,
		Trust: o.Trust, Rank: o.Incentive, Permits: o.Permits, Bonds: o.Bonds, Emission: o.Emission,
	}, nil
}
