package local

import (
	"fmt"
	"math"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/yuma"
)

// Presets.
const (
	PresetDemo       = "demo"        // a block a second, hardly any limits, stakes that stand still
	PresetLocal      = "local"       // the chain's block time and the defaults of a new subnet, free registration
	PresetFinneyLike = "finney-like" // what a validator meets on finney: prices, thresholds, commit-reveal
)

// Presets lists the presets.
func Presets() []string { return []string{PresetDemo, PresetLocal, PresetFinneyLike} }

const tao = 1_000_000_000 // rao

type preset struct {
	blockTime time.Duration
	faucet    uint64 // rao: what a coldkey has that was never seen
	hyper     ledger.Hyperparameters
}

func presetOf(name string) (preset, error) {
	p := preset{blockTime: 12 * time.Second, faucet: 1000 * tao, hyper: ledger.Hyperparameters{
		Tempo: 360, MaxUIDs: 256, MinAllowedWeights: 1, WeightsRateLimit: 100, RegistrationOpen: true,
		CommitmentSpace: 3100, ImmunityPeriod: 5000, MaxValidators: 64, Kappa: 32767, BondsMovingAverage: 900_000,
		Model: ledger.Dynamic, ActivityCutoffFactor: 13889, BondsPenalty: math.MaxUint16, Yuma3: true,
		AlphaLow: 45875, AlphaHigh: 58982, AlphaSteepness: 1000, RevealPeriod: 1,
		BurnHalfLife: 360, BurnIncrease: 1_260_000, MinNonImmuneUIDs: 10, EmissionPerBlock: tao, OwnerCut: 11796, EmissionStaked: true,
	}}
	switch name {
	case PresetLocal:
	case PresetFinneyLike:
		p.faucet = 0
		p.hyper.MinBurn, p.hyper.MaxBurn = 500_000, 100*tao
		p.hyper.StakeThreshold = 1000 * tao
		p.hyper.CommitReveal = true
	case "", PresetDemo:
		p.blockTime = time.Second
		p.hyper.Tempo, p.hyper.WeightsRateLimit = 20, 1
		p.hyper.EmissionStaked = false
	default:
		return p, fmt.Errorf("ledger preset %q: want %s, %s or %s", name, PresetDemo, PresetLocal, PresetFinneyLike)
	}
	return p, nil
}

// Hyperparameters returns those that a preset gives to a new subnet.
func Hyperparameters(name string) (ledger.Hyperparameters, error) {
	p, err := presetOf(name)
	return p.hyper, err
}

func checkHyper(h *ledger.Hyperparameters) error {
	switch {
	case h.MaxUIDs == 0 || h.Tempo == 0:
		return fmt.Errorf("hyperparameters: tempo and max uids must be at least 1")
	case h.MaxUIDs > yuma.MaxNeurons:
		return fmt.Errorf("hyperparameters: max uids %d: at most %d", h.MaxUIDs, yuma.MaxNeurons)
	case h.BondsMovingAverage > 1_000_000:
		return fmt.Errorf("hyperparameters: bonds moving average %d: at most 1000000", h.BondsMovingAverage)
	case h.MinBurn > h.MaxBurn:
		return fmt.Errorf("hyperparameters: min burn %d is over max burn %d", h.MinBurn, h.MaxBurn)
	case h.Model != "" && h.Model != ledger.Dynamic && h.Model != ledger.Modulo:
		return fmt.Errorf("hyperparameters: epoch model %q: want %s or %s", h.Model, ledger.Dynamic, ledger.Modulo)
	case h.CollateralShare > maxCollateralShare || h.CollateralDrain > maxCollateralDrain:
		return fmt.Errorf("hyperparameters: collateral of %d of 65535 and %d/2^32 an alpha: at most %d and 10", h.CollateralShare, h.CollateralDrain, maxCollateralShare)
	case h.RevealPeriod > 100:
		return fmt.Errorf("hyperparameters: reveal period %d: at most 100 epochs", h.RevealPeriod)
	case h.BurnHalfLife > 1<<24:
		return fmt.Errorf("hyperparameters: burn half-life %d: at most 2^24 blocks", h.BurnHalfLife)
	case h.ActivityCutoffFactor > 1<<40 || h.ActivityCutoffBlocks > 1<<40 || h.ImmunityPeriod > 1<<40 || h.WeightsRateLimit > 1<<40 || h.BurnIncrease > 1<<40:
		return fmt.Errorf("hyperparameters: a number of blocks or a factor is over 2^40")
	}
	return nil
}
