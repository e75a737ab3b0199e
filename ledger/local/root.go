package local

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"

	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/pool"
)

const (
	// leastClaim is what is claimed at least, in rao of alpha, and autoClaims for how many coldkeys a block claims.
	leastClaim = 500_000
	autoClaims = 5
	// maxClaims is of how many subnets a call claims at most.
	maxClaims = 5
)

// rootBook is the root network's stake, which is TAO, and what it earns: alpha of
// every subnet, that coldkeys claim.
type rootBook struct {
	stakeBook
	Total uint64 `json:"total"` // rao
	// Rates are what a rao on a hotkey has earned on a subnet, ever, in alpha with 32 fraction bits.
	Rates map[string]map[uint16]uint64 `json:"rates,omitempty"`
	// Claimed is what coldkeys have had of that, by netuid, hotkey and coldkey.
	Claimed map[uint16]map[string]map[string]uint64 `json:"claimed,omitempty"`
	Kinds   map[string]ledger.RootClaim             `json:"kinds,omitempty"` // by coldkey
	// Coldkeys are those for whom blocks claim, by their index.
	Coldkeys []string `json:"coldkeys,omitempty"`
}

func newRoot() *rootBook {
	return &rootBook{stakeBook: stakeBook{Stakes: map[string]uint64{}}}
}

// ClaimRoot claims what a coldkey's stake on the root network has earned on subnets. The coldkey signs.
func (l *Ledger) ClaimRoot(ctx context.Context, coldkey string, netuids []uint16) error {
	if len(netuids) == 0 || len(netuids) > maxClaims {
		return ledger.ErrInvalidSubnets
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callClaimRoot, Coldkey: coldkey, Shares: netuids})
	return err
}

// SetRootClaim says what becomes of what a coldkey claims.
func (l *Ledger) SetRootClaim(ctx context.Context, coldkey string, kind ledger.RootClaim) error {
	if len(kind.Subnets) > ledger.MechanismStep {
		return ledger.ErrInvalidSubnets
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callRootKind, Coldkey: coldkey, Permit: kind.Keep, Shares: kind.Subnets})
	return err
}

func (s *state) setRootKind(x *extrinsic) error {
	if s.Root == nil {
		return errNoRoot
	}
	s.Root.index(x.Coldkey)
	s.Root.Kinds = put(s.Root.Kinds, x.Coldkey, ledger.RootClaim{Keep: x.Permit, Subnets: x.Shares})
	return nil
}

var errNoRoot = ledger.ErrSubnetNotExists.With("no subnet here has alpha, so there is no root network")

func (s *state) claimRoot(x *extrinsic) error {
	if s.Root == nil {
		return errNoRoot
	}
	s.Root.index(x.Coldkey)
	s.claimFor(x.Coldkey, x.Shares)
	return nil
}

// index counts a coldkey among those for whom blocks claim.
func (r *rootBook) index(coldkey string) {
	if !slices.Contains(r.Coldkeys, coldkey) {
		r.Coldkeys = append(r.Coldkeys, coldkey)
	}
}

// forget takes a coldkey without stake out; the last one gets its index.
func (r *rootBook) forget(s *state, coldkey string) {
	i := slices.Index(r.Coldkeys, coldkey)
	for hotkey := range r.Stakes {
		if i < 0 || r.of(s.Owners[hotkey], hotkey, coldkey) > 0 {
			return
		}
	}
	last := len(r.Coldkeys) - 1
	r.Coldkeys[i] = r.Coldkeys[last]
	r.Coldkeys = r.Coldkeys[:last]
}

// claimable gives alpha to who has staked TAO on a hotkey.
func (s *state) claimable(sub *subnet, hotkey string, rao uint64) {
	stake := s.Root.Stakes[hotkey]
	switch {
	case rao == 0:
	case rao > stake: // more than the rate can say: the owner has it
		owner := s.Owners[hotkey]
		sub.add(owner, hotkey, owner, rao)
	default:
		if s.Root.Rates == nil {
			s.Root.Rates = map[string]map[uint16]uint64{}
		}
		if s.Root.Rates[hotkey] == nil {
			s.Root.Rates[hotkey] = map[uint16]uint64{}
		}
		more, _ := pool.F32(rao).Div(pool.F32(stake), 32)
		s.Root.Rates[hotkey][s.netuidOf(sub)] += more.Lo
	}
}

// netuidOf is a subnet's number.
func (s *state) netuidOf(sub *subnet) uint16 {
	for _, netuid := range s.order {
		if s.Subnets[netuid] == sub {
			return netuid
		}
	}
	return ledger.Root
}

// owed is what a coldkey may claim of a hotkey on a subnet, in alpha with 32 fraction bits.
func (s *state) owed(netuid uint16, hotkey, coldkey string) pool.Wide {
	stake := s.Root.of(s.Owners[hotkey], hotkey, coldkey)
	earned := pool.F32(stake).Mul(pool.Wide{Lo: s.Root.Rates[hotkey][netuid]}, 32)
	return earned.Sub(pool.F32(s.Root.Claimed[netuid][hotkey][coldkey]))
}

// had counts alpha as claimed; less is true where it is counted no more.
func (r *rootBook) had(netuid uint16, hotkey, coldkey string, rao uint64, less bool) {
	if rao == 0 {
		return
	}
	if r.Claimed == nil {
		r.Claimed = map[uint16]map[string]map[string]uint64{}
	}
	if r.Claimed[netuid] == nil {
		r.Claimed[netuid] = map[string]map[string]uint64{}
	}
	if r.Claimed[netuid][hotkey] == nil {
		r.Claimed[netuid][hotkey] = map[string]uint64{}
	}
	of := r.Claimed[netuid][hotkey]
	if less {
		of[coldkey] -= min(of[coldkey], rao)
	} else {
		of[coldkey] = addRao(of[coldkey], rao)
	}
}

// stakeRoot adds TAO to the root network: it earns from here on.
func (s *state) stakeRoot(hotkey, coldkey string, rao uint64) {
	r := s.Root
	r.add(s.Owners[hotkey], hotkey, coldkey, rao)
	r.Total = addRao(r.Total, rao)
	s.adjust(hotkey, coldkey, rao, false)
	r.index(coldkey)
}

// unstakeRoot takes TAO back from the root network. What it has earned is forgone, as on the chain.
func (s *state) unstakeRoot(hotkey, coldkey string, rao uint64) {
	r := s.Root
	r.take(s.Owners[hotkey], hotkey, coldkey, rao)
	r.Total -= min(r.Total, rao)
	s.adjust(hotkey, coldkey, rao, true)
	r.forget(s, coldkey)
}

// adjust counts what so much stake would have earned before as had.
func (s *state) adjust(hotkey, coldkey string, rao uint64, less bool) {
	for _, netuid := range slices.Sorted(maps.Keys(s.Root.Rates[hotkey])) {
		s.Root.had(netuid, hotkey, coldkey, pool.F32(rao).Mul(pool.Wide{Lo: s.Root.Rates[hotkey][netuid]}, 32).Whole32(), less)
	}
}

// claimFor claims what a coldkey is owed on these subnets; nil = on all.
func (s *state) claimFor(coldkey string, netuids []uint16) {
	var with []string
	for hotkey := range s.Root.Rates {
		if s.Root.of(s.Owners[hotkey], hotkey, coldkey) > 0 {
			with = append(with, hotkey)
		}
	}
	slices.Sort(with)
	for _, hotkey := range with {
		for _, netuid := range slices.Sorted(maps.Keys(s.Root.Rates[hotkey])) {
			if netuids == nil || slices.Contains(netuids, netuid) {
				s.claimOn(netuid, hotkey, coldkey)
			}
		}
	}
}

func (s *state) claimOn(netuid uint16, hotkey, coldkey string) {
	rao := s.owed(netuid, hotkey, coldkey).Whole32()
	sub := s.Subnets[netuid]
	if rao < leastClaim || sub == nil || sub.Alpha == nil {
		return
	}
	s.ran = append(s.ran, s.Block)
	kind := s.Root.Kinds[coldkey]
	if kind.Keep || slices.Contains(kind.Subnets, netuid) {
		sub.add(s.Owners[hotkey], hotkey, coldkey, rao)
		s.Root.had(netuid, hotkey, coldkey, rao, false)
		return
	}
	// The alpha is outside of the pool since it was made: now it goes in.
	sold, err := sub.Alpha.Sell(rao, lowest, true)
	if err != nil {
		return
	}
	sub.Alpha.Out -= min(sub.Alpha.Out, sold.Alpha)
	sub.Alpha.Volume = addRao(sub.Alpha.Volume, sold.Tao)
	s.stakeRoot(hotkey, coldkey, sold.Tao)
	s.Root.had(netuid, hotkey, coldkey, rao, false)
}

// autoClaim claims for some coldkeys. Which ones comes of the block's number, where
// the chain takes the hash of the block before: a state knows no hashes.
func (s *state) autoClaim() {
	n := uint64(len(s.Root.Coldkeys))
	if n == 0 || len(s.Root.Rates) == 0 {
		return
	}
	for _, i := range indices(s.Block, n) {
		if i < uint64(len(s.Root.Coldkeys)) {
			s.claimFor(s.Root.Coldkeys[i], nil)
		}
	}
}

// indices draws autoClaims of n by a block, each once, ascending.
func indices(block, n uint64) []uint64 {
	hash := blake2b.Sum256(binary.LittleEndian.AppendUint64([]byte("agon-claims-v1 "), block))
	last := binary.BigEndian.Uint64(hash[:])
	var out []uint64
	for i := range autoClaims {
		step := binary.BigEndian.Uint64(hash[i*8%32:])
		last = addRao(last, step) % n
		out = append(out, last)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
