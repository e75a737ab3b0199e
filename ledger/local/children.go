package local

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/pool"
)

const (
	// maxChildren is how many children a hotkey has on a subnet.
	maxChildren = 5
	// childCooldown is after how many blocks an epoch puts children in force, and
	// childEvery how many are between two changes of a hotkey's children.
	childCooldown = 7200
	childEvery    = 150
	// childTakeEvery is how many blocks are before a child's take may rise again.
	childTakeEvery = 216_000
)

// families are who is whose child on a subnet: a part of the parent's stake
// counts as the child's, and the parent has a part of what that earns.
type families struct {
	Children map[string][]ledger.Child `json:"children,omitempty"` // by parent, sorted by hotkey
	Coming   map[string]coming         `json:"coming,omitempty"`   // by parent
	Takes    map[string]uint16         `json:"child_takes,omitempty"`
	// When a parent's children and a child's take were set last.
	SetAt     map[string]uint64 `json:"children_set,omitempty"`
	TakeSetAt map[string]uint64 `json:"take_set,omitempty"`

	parents map[string][]ledger.Child // by child: Children the other way, sorted by hotkey
}

// coming are children that are not in force yet.
type coming struct {
	Children []ledger.Child `json:"children"`
	From     uint64         `json:"from"`
}

// SetChildren names the hotkeys that have parts of a hotkey's stake on a subnet
// with alpha, of 2^64-1. They are in force at the first epoch after 7,200
// blocks. Its coldkey signs.
func (l *Ledger) SetChildren(ctx context.Context, netuid uint16, hotkey, coldkey string, children []ledger.Child) error {
	if len(children) > 2*maxChildren {
		return ledger.ErrTooManyChildren
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callChildren, Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey, Children: children})
	return err
}

// SetChildTake sets what a hotkey keeps of the dividends of its parents that
// others own, of 65535.
func (l *Ledger) SetChildTake(ctx context.Context, netuid uint16, hotkey, coldkey string, take uint16) error {
	_, _, err := l.call(ctx, &extrinsic{Call: callChildTake, Netuid: netuid, Hotkey: hotkey, Coldkey: coldkey, Value: int64(take)})
	return err
}

func (s *state) setChildren(x *extrinsic) error {
	if x.Netuid == ledger.Root {
		return ledger.ErrRootRegistration
	}
	sub, err := s.withAlpha(x.Netuid)
	if err != nil {
		return err
	}
	a := sub.Alpha
	if last, ok := a.SetAt[x.Hotkey]; ok && s.Block-last < childEvery {
		return ledger.ErrTooFast.With(fmt.Sprintf("block %d: children may be set again at block %d", s.Block, last+childEvery))
	}
	if s.Owners[x.Hotkey] != x.Coldkey {
		return ledger.ErrNonAssociatedColdkey
	}
	if err := a.mayAdopt(x.Hotkey, x.Children); err != nil {
		return err
	}
	if len(x.Children) > 0 && x.Hotkey != sub.OwnerHotkey && s.worthOf(x.Hotkey) < sub.Hyper.StakeThreshold {
		return ledger.ErrChildStake.With(fmt.Sprintf("the hotkey's stake is worth %d rao: the threshold is %d", s.worthOf(x.Hotkey), sub.Hyper.StakeThreshold))
	}
	a.SetAt = put(a.SetAt, x.Hotkey, s.Block)
	a.Coming = put(a.Coming, x.Hotkey, coming{Children: x.Children, From: s.Block + childCooldown})
	return nil
}

// put sets a key of a map that may not be there.
func put[V any](m map[string]V, key string, v V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = v
	return m
}

// mayAdopt has the chain's checks: each child once, not the hotkey, at most five, no
// more than the whole, and none that is a parent of the hotkey.
func (f *families) mayAdopt(hotkey string, children []ledger.Child) error {
	seen := map[string]bool{}
	var sum uint64
	over := false
	for _, c := range children {
		if seen[c.Hotkey] {
			return ledger.ErrDuplicateChild
		}
		seen[c.Hotkey] = true
		over = over || sum > math.MaxUint64-c.Proportion
		sum += c.Proportion
	}
	switch {
	case seen[hotkey]:
		return ledger.ErrInvalidChild
	case len(children) > maxChildren:
		return ledger.ErrTooManyChildren
	case over:
		return ledger.ErrProportionOverflow
	}
	for _, p := range f.parents[hotkey] {
		if seen[p.Hotkey] {
			return ledger.ErrChildParent
		}
	}
	return nil
}

// adopt puts children in force whose time has come. Those that fit no more are
// dropped in silence, as on the chain.
func (f *families) adopt(block uint64) {
	for _, parent := range slices.Sorted(maps.Keys(f.Coming)) {
		c := f.Coming[parent]
		if c.From >= block {
			continue
		}
		delete(f.Coming, parent)
		if f.mayAdopt(parent, c.Children) != nil {
			continue
		}
		if len(c.Children) == 0 {
			delete(f.Children, parent)
		} else {
			list := slices.Clone(c.Children)
			slices.SortFunc(list, func(a, b ledger.Child) int { return cmp.Compare(a.Hotkey, b.Hotkey) })
			f.Children = put(f.Children, parent, list)
		}
		f.turn()
	}
}

// turn makes parents from Children.
func (f *families) turn() {
	f.parents = map[string][]ledger.Child{}
	for _, parent := range slices.Sorted(maps.Keys(f.Children)) {
		for _, c := range f.Children[parent] {
			f.parents[c.Hotkey] = append(f.parents[c.Hotkey], ledger.Child{Proportion: c.Proportion, Hotkey: parent})
		}
	}
}

func (s *state) setChildTake(x *extrinsic) error {
	if s.Owners[x.Hotkey] != x.Coldkey {
		return ledger.ErrNonAssociatedColdkey
	}
	sub, err := s.withAlpha(x.Netuid)
	if err != nil {
		return err
	}
	a := sub.Alpha
	if x.Value < 0 || x.Value > maxTake {
		return ledger.ErrChildTake.With(fmt.Sprintf("a take of %d: at most %d of 65535", x.Value, maxTake))
	}
	if last, ok := a.TakeSetAt[x.Hotkey]; ok && uint16(x.Value) > a.Takes[x.Hotkey] && s.Block-last < childTakeEvery {
		return ledger.ErrChildTakeTooFast.With(fmt.Sprintf("block %d: the take may rise at block %d", s.Block, last+childTakeEvery))
	}
	a.TakeSetAt = put(a.TakeSetAt, x.Hotkey, s.Block)
	a.Takes = put(a.Takes, x.Hotkey, uint16(x.Value))
	return nil
}

// inherited is a stake less what its children have of it and with what its parents
// give, in whole rao. of gives the stake of a hotkey.
func (f *families) inherited(hotkey string, of func(string) uint64) uint64 {
	own := of(hotkey)
	if len(f.Children[hotkey]) == 0 && len(f.parents[hotkey]) == 0 {
		return own
	}
	var given, got pool.Wide
	for _, c := range f.Children[hotkey] {
		given = given.Add(pool.F32(own).Mul(part64(c.Proportion), 32))
	}
	for _, p := range f.parents[hotkey] {
		got = got.Add(pool.F32(of(p.Hotkey)).Mul(part64(p.Proportion), 32))
	}
	return pool.F32(own).Sub(given).Add(got).Whole32()
}

// weigh is what a hotkey's stake counts on a subnet with alpha: its alpha, and its
// TAO on the root network by the weight of that. weight has 32 fraction bits.
func (s *state) weigh(sub *subnet, hotkey string) (weight pool.Wide, alpha, root uint64) {
	alpha = sub.Alpha.inherited(hotkey, func(h string) uint64 { return sub.Stakes[h] })
	root = sub.Alpha.inherited(hotkey, func(h string) uint64 { return s.Root.Stakes[h] })
	return pool.F32(alpha).Add(pool.F32(root).Mul(rootWeight, 32)), alpha, root
}

// stakeOn is what a hotkey's stake counts on a subnet, in whole rao.
func (s *state) stakeOn(sub *subnet, hotkey string) uint64 {
	if sub.Alpha == nil {
		return sub.Stakes[hotkey]
	}
	weight, _, _ := s.weigh(sub, hotkey)
	return weight.Whole32()
}

// withAlpha is a subnet that has a pool.
func (s *state) withAlpha(netuid uint16) (*subnet, error) {
	sub, err := s.subnet(netuid)
	if err == nil && sub.Alpha == nil {
		return nil, ledger.ErrBadOrigin.With(fmt.Sprintf("subnet %d has no alpha: its stakes are TAO, without children or claims", netuid))
	}
	return sub, err
}

// worthOf is what all of a hotkey's stakes are worth at the prices of now, in rao.
func (s *state) worthOf(hotkey string) uint64 {
	var sum pool.Wide
	for _, netuid := range s.order {
		sub := s.Subnets[netuid]
		price := pool.F64(1)
		if sub.Alpha != nil {
			price = sub.Alpha.Price()
		}
		sum = sum.Add(pool.F64(sub.Stakes[hotkey]).Mul(price, 64))
	}
	if s.Root != nil {
		sum = sum.Add(pool.F64(s.Root.Stakes[hotkey]))
	}
	return sum.Whole64()
}
