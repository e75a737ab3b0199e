package local

import (
	"math"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/pool"
)

// taoWeight is what a TAO on the root network weighs against an alpha, of
// 2^64-1: 18 %, as on finney.
const taoWeight = 3_320_413_933_267_719_290

// rootWeight is taoWeight with 32 fraction bits, as the chain uses it.
var rootWeight = part64(taoWeight)

// part64 is n/(2^64-1) with 32 fraction bits.
func part64(n uint64) pool.Wide {
	q, _ := pool.F32(n).Div(pool.F32(math.MaxUint64), 32)
	return q
}

// alpha is what a subnet with a pool has: the reserves, and what its blocks have
// made that no epoch has paid yet. All are rao, of TAO or of alpha.
type alpha struct {
	pool.Reserves
	Out    uint64 `json:"out"`              // alpha outside of the pool
	Moving uint64 `json:"moving"`           // price, 32 fraction bits
	Volume uint64 `json:"volume,omitempty"` // TAO that was swapped
	Began  uint64 `json:"began"`            // block
	Bought uint64 `json:"bought,omitempty"` // alpha that blocks have bought

	Miners     uint64 `json:"miners,omitempty"`
	Validators uint64 `json:"validators,omitempty"`
	Root       uint64 `json:"root,omitempty"`
	Owner      uint64 `json:"owner,omitempty"`

	// Of the last block.
	TaoIn    uint64 `json:"tao_in,omitempty"`
	AlphaIn  uint64 `json:"alpha_in,omitempty"`
	AlphaOut uint64 `json:"alpha_out,omitempty"`
	Excess   uint64 `json:"excess,omitempty"`

	// Of the last epoch. Withheld is a part, 32 fraction bits.
	Withheld      uint64            `json:"withheld,omitempty"`
	Dividends     map[string]uint64 `json:"dividends,omitempty"`
	RootDividends map[string]uint64 `json:"root_dividends,omitempty"`

	Recycles bool  `json:"recycles,omitempty"`
	Bonds    bonds `json:"bonds,omitempty"`
	families
}

func newAlpha(reserve, moving, block uint64) *alpha {
	return &alpha{Reserves: pool.New(reserve, reserve), Began: block, Moving: pool.OfRao(moving).To32().Lo}
}

// pooled lists the subnets that have a pool, by netuid.
func (s *state) pooled() (out []*subnet) {
	if s.Root == nil {
		return nil
	}
	for _, netuid := range s.order {
		if sub := s.Subnets[netuid]; sub.Alpha != nil {
			out = append(out, sub)
		}
	}
	return out
}

// emit is the block's emission: TAO to the pools by their moving prices, alpha to
// those who work. It comes before the epochs of the block.
func (s *state) emit(subs []*subnet) {
	var to []*subnet
	var prices uint64
	for _, sub := range subs {
		if sub.Hyper.RegistrationOpen && s.Block > sub.Alpha.Began {
			to = append(to, sub)
			prices = addRao(prices, sub.Alpha.Moving)
		}
	}
	shares := emissionShares(to, prices)
	sells := prices > 1<<32 // the moving prices are together more than a TAO
	for i, sub := range to {
		// Rao with 32 fraction bits.
		s.emitTo(sub, pool.F64(tao).Mul(shares[i], 64).To32(), sells)
	}
}

// emissionShares divides a block's TAO: by moving prices, less where miners'
// emission is withheld. They have 64 fraction bits.
func emissionShares(to []*subnet, prices uint64) []pool.Wide {
	plain, weighed := make([]pool.Wide, len(to)), make([]pool.Wide, len(to))
	var sum pool.Wide
	for i, sub := range to {
		plain[i] = pool.Ratio(sub.Alpha.Moving, prices)
		withheld := pool.Wide{Lo: sub.Alpha.Withheld}.To64()
		weighed[i] = plain[i].Mul(pool.F64(1).Sub(withheld), 64)
		sum = sum.Add(weighed[i])
	}
	if sum.IsZero() {
		return plain
	}
	for i, w := range weighed {
		weighed[i], _ = w.Div(sum, 64)
	}
	return weighed
}

// emitTo puts a subnet's part of the block's TAO into its pool: as much with alpha
// as the root network's part of the subnet allows, the rest buys alpha.
func (s *state) emitTo(sub *subnet, rao pool.Wide, sells bool) {
	a := sub.Alpha
	made := pool.BlockEmission(addRao(a.Alpha, a.Out))
	price := a.Price().To32()
	in, _ := rao.Div(price, 32)
	most := s.rootPart(a).Mul(pool.F32(made), 32)
	taoIn := rao
	if most.Less(in) {
		in = most
		taoIn = in.Mul(price, 32)
	}
	excess := rao.Sub(taoIn).Whole32()
	a.TaoIn, a.AlphaIn, a.AlphaOut, a.Excess = 0, 0, made, 0
	// The weights move for what comes in; the swap sees the reserves of before, as on the chain.
	before := a.Reserves
	a.TaoIn, a.AlphaIn = a.Inject(taoIn.Whole32(), in.Whole32())
	if excess > 0 {
		swapped := pool.Reserves{Tao: before.Tao, Alpha: before.Alpha, Quote: a.Quote}
		if bought, err := swapped.Buy(excess, highest, true); err == nil {
			a.Tao, a.Alpha = swapped.Tao+a.TaoIn, swapped.Alpha+a.AlphaIn
			a.Excess, a.Out, a.Bought = bought.Tao, addRao(a.Out, bought.Alpha), addRao(a.Bought, bought.Alpha)
			a.Volume = addRao(a.Volume, bought.Tao)
		}
	}
	a.Out = addRao(a.Out, made)
	rest := pool.F32(made)
	cut := rest.Mul(proportion32(sub.Hyper.OwnerCut), 32)
	rest = rest.Sub(cut)
	a.Owner = addRao(a.Owner, cut.Whole32())
	half := pool.Wide{Lo: 1 << 31}
	root := s.rootPart(a).Mul(rest, 32).Mul(half, 32)
	miners := rest.Mul(half, 32)
	a.Miners = addRao(a.Miners, miners.Whole32())
	a.Validators = addRao(a.Validators, rest.Sub(miners).Sub(root).Whole32())
	if sells {
		a.Root = addRao(a.Root, root.Whole32())
	} else {
		a.recycle(root.Whole32())
	}
}

// highest and lowest are the prices that no swap goes beyond, a million TAO and a thousand rao.
var highest, lowest = pool.OfRao(1_000_000 * tao), pool.OfRao(1000)

// proportion32 is v/65535 with 32 fraction bits.
func proportion32(v uint16) pool.Wide { return pool.Ratio(uint64(v), math.MaxUint16).To32() }

// rootPart is the root network's part of a subnet: its stake's weight against all
// alpha, with 32 fraction bits.
func (s *state) rootPart(a *alpha) pool.Wide {
	if s.Root.Total == 0 {
		return pool.Wide{}
	}
	weight := pool.F32(s.Root.Total).Mul(rootWeight, 32)
	q, _ := weight.Div(weight.Add(pool.F32(addRao(a.Alpha, a.Out))), 32)
	return q
}

// recycle unmakes alpha; burned alpha stays counted.
func (a *alpha) recycle(rao uint64) { a.Out -= min(a.Out, rao) }

// settle ends a block: moving prices, children whose time has come, claims for coldkeys.
func (s *state) settle(subs []*subnet) {
	for _, sub := range subs {
		if sub.Hyper.RegistrationOpen {
			sub.Alpha.Moving = pool.Moved(sub.Alpha.Moving, sub.Alpha.Price(), s.Block-sub.Alpha.Began)
		}
		if sub.Epoch.LastBlock == s.Block {
			sub.Alpha.adopt(s.Block)
		}
	}
	s.autoClaim()
}

// poolOf copies a subnet's pool out; nil: it has none.
func (s *state) poolOf(sub *subnet) *ledger.Pool {
	a := sub.Alpha
	if a == nil {
		return nil
	}
	return &ledger.Pool{
		Tao: a.Tao, Alpha: a.Alpha, Out: a.Out, Quote: a.Quote, Price: pool.InRao(a.Price()), Moving: a.Moving, Volume: a.Volume,
		TaoIn: a.TaoIn, AlphaIn: a.AlphaIn, AlphaOut: a.AlphaOut, Excess: a.Excess,
		PendingMiners: a.Miners, PendingValidators: a.Validators, PendingRoot: a.Root, PendingOwner: a.Owner,
		Bought: a.Bought, Withheld: a.Withheld, RootPart: s.rootPart(a).Lo, Recycles: a.Recycles, RegisteredAt: a.Began,
	}
}
