package local

import (
	"maps"
	"slices"

	"github.com/agon-arena/agon/ledger/pool"
)

// runAlphaEpoch decides and pays an epoch of a subnet with a pool: what an epoch
// decides is in which proportions the pots are paid (spec/chain.md 4.6).
func (s *state) runAlphaEpoch(sub *subnet) error {
	a := sub.Alpha
	miners, validators, root, owner := a.Miners, a.Validators, a.Root, a.Owner
	out, err := s.epochsOf(sub, miners+validators+root)
	if err != nil {
		return err
	}
	a.Miners, a.Validators, a.Root, a.Owner = 0, 0, 0, 0
	var mined uint64
	dividends := map[string]pool.Wide{}
	for uid, n := range sub.Neurons {
		x := out[uid]
		n.decided(&x)
		mined = addRao(mined, x.server)
		for hotkey, rao := range s.toParents(sub, n.Hotkey, x.validator) {
			dividends[hotkey] = dividends[hotkey].Add(pool.F32(rao))
		}
	}
	if mined == 0 { // nobody mined: the validators have that too
		validators = addRao(validators, miners)
	}
	toAlpha, toRoot := s.divide(sub, validators, root, dividends)
	sub.add(sub.OwnerColdkey, sub.OwnerHotkey, sub.OwnerColdkey, owner)
	s.payMiners(sub, out)
	s.payValidators(sub, toAlpha, toRoot)
	return nil
}

// decided keeps what an epoch decided of a neuron.
func (n *neuron) decided(x *merged) {
	n.Permit, n.Active, n.Consensus, n.Trust = x.permit, x.active, x.consensus, x.trust
	n.ValidatorTrust, n.Dividends, n.Emission = x.validatorTrust, x.dividends, x.emission
}

// payMiners stakes what was mined. What the owner's hotkeys mined is withheld: burned, or unmade.
func (s *state) payMiners(sub *subnet, out []merged) {
	var all, withheld uint64
	for uid, n := range sub.Neurons {
		rao := out[uid].server
		all = addRao(all, rao)
		owner := s.Owners[n.Hotkey]
		if owner != sub.OwnerColdkey && n.Hotkey != sub.OwnerHotkey {
			sub.add(owner, n.Hotkey, owner, rao)
			sub.earn(n.Hotkey, rao, rao)
			continue
		}
		withheld = addRao(withheld, rao)
		sub.Burned = addRao(sub.Burned, rao)
		if sub.Alpha.Recycles {
			sub.Alpha.recycle(rao)
		}
	}
	part, _ := pool.F32(withheld).Div(pool.F32(all), 32)
	sub.Alpha.Withheld = part.Lo
}

// toParents divides a child's dividends: each parent has what its stake brought in,
// less the child's take where another owns it; the rest is the child's.
func (s *state) toParents(sub *subnet, hotkey string, rao uint64) map[string]uint64 {
	parents := sub.Alpha.parents[hotkey]
	if len(parents) == 0 {
		return map[string]uint64{hotkey: rao}
	}
	all := pool.F32(s.ownPart(sub, hotkey))
	parts := make([]pool.Wide, len(parents))
	for i, p := range parents {
		of := part64(p.Proportion)
		parts[i] = pool.F32(sub.Stakes[p.Hotkey]).Mul(of, 32).Add(pool.F32(s.Root.Stakes[p.Hotkey]).Mul(of, 32).Mul(rootWeight, 32))
		all = all.Add(parts[i])
	}
	earned, rest := pool.F32(rao), pool.F32(rao)
	take := proportion32(sub.Alpha.Takes[hotkey])
	var taken pool.Wide
	out := map[string]uint64{}
	for i, p := range parents {
		factor, _ := parts[i].Div(all, 32)
		got := earned.Mul(factor, 32)
		rest = rest.Sub(got)
		if s.Owners[p.Hotkey] != s.Owners[hotkey] {
			kept := take.Mul(got, 32)
			got, taken = got.Sub(kept), taken.Add(kept)
		}
		out[p.Hotkey] = addRao(out[p.Hotkey], got.Whole32())
	}
	out[hotkey] = addRao(out[hotkey], rest.Add(taken).Whole32())
	return out
}

// ownPart is what of a hotkey's stake it has not given to children, in whole rao.
func (s *state) ownPart(sub *subnet, hotkey string) uint64 {
	left := pool.F32(1)
	for _, c := range sub.Alpha.Children[hotkey] {
		left = left.Sub(part64(c.Proportion))
	}
	own := pool.F32(sub.Stakes[hotkey]).Mul(left, 32)
	return own.Add(pool.F32(s.Root.Stakes[hotkey]).Mul(left, 32).Mul(rootWeight, 32)).Whole32()
}

// divide shares the validators' pots: alpha and root network each by the part of
// the dividends that such stake brought in. All have 32 fraction bits.
func (s *state) divide(sub *subnet, validators, root uint64, dividends map[string]pool.Wide) (toAlpha, toRoot map[string]pool.Wide) {
	toAlpha, toRoot = map[string]pool.Wide{}, map[string]pool.Wide{}
	var allAlpha, allRoot pool.Wide
	for hotkey, d := range dividends {
		weight := pool.F32(s.Root.Stakes[hotkey]).Mul(rootWeight, 32)
		part, _ := weight.Div(pool.F32(sub.Stakes[hotkey]).Add(weight), 32)
		toRoot[hotkey] = d.Mul(part, 32)
		toAlpha[hotkey] = d.Sub(toRoot[hotkey])
		allAlpha, allRoot = allAlpha.Add(toAlpha[hotkey]), allRoot.Add(toRoot[hotkey])
	}
	for hotkey := range dividends {
		a, _ := toAlpha[hotkey].Div(allAlpha, 32)
		r, _ := toRoot[hotkey].Div(allRoot, 32)
		toAlpha[hotkey], toRoot[hotkey] = pool.F32(validators).Mul(a, 32), pool.F32(root).Mul(r, 32)
	}
	return toAlpha, toRoot
}

// payValidators pays takes to the hotkeys' owners, and the rest to who has staked:
// alpha at once, the root network's part as something to claim.
func (s *state) payValidators(sub *subnet, toAlpha, toRoot map[string]pool.Wide) {
	a := sub.Alpha
	a.Dividends, a.RootDividends = map[string]uint64{}, map[string]uint64{}
	for _, hotkey := range slices.Sorted(maps.Keys(toAlpha)) {
		owner, take := s.Owners[hotkey], proportion32(s.take(hotkey))
		kept := take.Mul(toAlpha[hotkey], 32)
		rest := toAlpha[hotkey].Sub(kept).Whole32()
		sub.add(owner, hotkey, owner, kept.Whole32())
		if sub.Stakes[hotkey] == 0 { // nobody has a share: it is the owner's
			sub.add(owner, hotkey, owner, rest)
		} else {
			sub.grow(hotkey, rest)
		}
		sub.earn(hotkey, addRao(kept.Whole32(), rest), kept.Whole32())
		if rest > 0 {
			a.Dividends[hotkey] = rest
		}
	}
	for _, hotkey := range slices.Sorted(maps.Keys(toRoot)) {
		owner, take := s.Owners[hotkey], proportion32(s.take(hotkey))
		kept := take.Mul(toRoot[hotkey], 32)
		rest := toRoot[hotkey].Sub(kept).Whole32()
		sub.add(owner, hotkey, owner, kept.Whole32())
		s.claimable(sub, hotkey, rest)
		if rest > 0 {
			a.RootDividends[hotkey] = rest
		}
	}
}
