package ledger

import (
	"errors"
	"math/big"
	"time"
)

// Economy is what a subnet pays, and what that is worth.
type Economy struct {
	BlockTime time.Duration
	// AlphaPerBlock is what the subnet emits in a block, in billionths of an alpha.
	AlphaPerBlock uint64
	// Price is what an alpha costs, in rao; 1e9 where stake is counted in TAO.
	Price uint64
	// OwnerCut is the owner's part, of 65535, before miners and validators share the rest equally.
	OwnerCut uint16
	// Parts are what the subnet's mechanisms have of miners' and validators' parts, of 65535 each; none = one has all.
	Parts []uint64
}

// EconomyOf is that of the embedded ledger: where a subnet has no pool stake is TAO,
// and all that a block makes is the subnet's.
func EconomyOf(m *Metagraph, blockTime time.Duration) Economy {
	e := Economy{
		BlockTime: blockTime, AlphaPerBlock: m.Hyper.EmissionPerBlock, Price: 1_000_000_000, OwnerCut: m.Hyper.OwnerCut,
		Parts: SplitEmission(65535, len(m.Mechanisms)+1, m.MechanismSplit),
	}
	if p := m.Pool; p != nil {
		e.AlphaPerBlock, e.Price = p.AlphaOut, p.Price
	}
	return e
}

// Divide counts a subnet's mechanisms in.
func (e *Economy) Divide(count int, shares []uint16) { e.Parts = SplitEmission(65535, count, shares) }

// Elsewhere is what the other mechanisms have, of 65535.
func (e Economy) Elsewhere(mechanism uint8) uint64 {
	switch {
	case int(mechanism) < len(e.Parts):
		return 65535 - e.Parts[mechanism]
	case mechanism == 0:
		return 0
	}
	return 65535
}

// Of is a mechanism's part of an amount.
func (e Economy) Of(mechanism uint8, alpha uint64) uint64 {
	return alpha - mulDiv(alpha, e.Elsewhere(mechanism), 65535)
}

// Forecast is what a subnet pays in a day, in billionths of an alpha.
type Forecast struct {
	Emitted    uint64 `json:"emitted"`
	Owner      uint64 `json:"owner"`
	Miners     uint64 `json:"miners"`
	Validators uint64 `json:"validators"`
}

// Day is what the subnet pays in a day, if nothing changes.
func (e Economy) Day() (Forecast, error) {
	if e.BlockTime <= 0 {
		return Forecast{}, errors.New("forecast: blocks take no time: the ledger is stepped by hand")
	}
	all := mulDiv(e.AlphaPerBlock, uint64(24*time.Hour), uint64(e.BlockTime))
	f := Forecast{Emitted: all, Owner: mulDiv(all, uint64(e.OwnerCut), 65535)}
	f.Miners = (all - f.Owner) / 2
	f.Validators = all - f.Owner - f.Miners
	return f, nil
}

// Worth is what some alpha is worth at the price, in rao, as if selling it did not move the price.
func (e Economy) Worth(alpha uint64) uint64 { return mulDiv(alpha, e.Price, 1_000_000_000) }

// Part is a share of some alpha, 0 to 1.
func Part(alpha uint64, share float64) uint64 {
	share = max(0, min(1, share))
	return mulDiv(alpha, uint64(share*(1<<53)), 1<<53)
}

// mulDiv is a·b/c, rounded down; it saturates.
func mulDiv(a, b, c uint64) uint64 {
	x := new(big.Int).Mul(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
	if x.Div(x, new(big.Int).SetUint64(c)); !x.IsUint64() {
		return ^uint64(0)
	}
	return x.Uint64()
}
