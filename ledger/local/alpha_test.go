package local

import (
	"bytes"
	"errors"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/pool"
)

// key is the address of a name.
func key(t testing.TB, name string) string { return ledgertest.Key(t, name) }

// dynamic makes a stepped ledger with a subnet of its own alpha for each pool, owned by owner.
func dynamic(t testing.TB, pools ...uint64) *Ledger {
	t.Helper()
	l := stepped(t, PresetLocal)
	h := l.hyper
	h.WeightsRateLimit, h.Tempo, h.ActivityCutoffFactor, h.MaxValidators = 0, 100, 1<<30, 8
	for i, reserve := range pools {
		if err := l.EnsureSubnet(t.Context(), uint16(i+1), Subnet{OwnerHotkey: key(t, "owner"), OwnerColdkey: key(t, "owner-cold"), Hyper: &h, Pool: reserve, Moving: tao}); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// must ends the test at the first error.
func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// enter registers NAME of coldkey NAME-cold and stakes rao of it.
func enter(t testing.TB, l *Ledger, name string, rao uint64) uint16 {
	t.Helper()
	uid, err := l.Register(t.Context(), 1, key(t, name), key(t, name+"-cold"))
	must(t, err)
	if rao > 0 {
		must(t, l.AddStake(t.Context(), 1, key(t, name), key(t, name+"-cold"), rao))
	}
	return uid
}

func stakeOf(t testing.TB, l *Ledger, netuid uint16, hotkey, coldkey string) uint64 {
	t.Helper()
	w, err := l.World(t.Context())
	must(t, err)
	for _, p := range w.Positions {
		if p.Netuid == netuid && p.Hotkey == key(t, hotkey) && p.Coldkey == key(t, coldkey) {
			return p.Stake
		}
	}
	return 0
}

// close says that two amounts differ by a few rao of rounding.
func near(t testing.TB, what string, got uint64, want float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > 1e-8*want+8 {
		t.Errorf("%s: got %d, want %.0f", what, got, want)
	}
}

// balanced checks that all alpha outside of the pool is somewhere: staked, not yet
// paid, bought by blocks, or burned.
func balanced(t testing.TB, l *Ledger, netuid uint16, burned uint64) {
	t.Helper()
	must(t, l.view(t.Context(), func(s *state) error {
		sub := s.Subnets[netuid]
		a := sub.Alpha
		sum := a.Bought + a.Miners + a.Validators + a.Root + a.Owner + burned
		for _, stake := range sub.Stakes {
			sum += stake
		}
		for hotkey, rates := range s.Root.Rates { // what is to be claimed is not staked yet
			sum += pool.F32(s.Root.Stakes[hotkey]).Mul(pool.Wide{Lo: rates[netuid]}, 32).Whole32()
			for _, claimed := range s.Root.Claimed[netuid][hotkey] {
				sum -= min(sum, claimed)
			}
		}
		if diff := int64(a.Out) - int64(sum); diff < -1000 || diff > 3000 {
			t.Errorf("block %d: %d rao of alpha are outside of the pool, %d are accounted for: %d", s.Block, a.Out, sum, diff)
		}
		return nil
	}))
}

// Without stake on the root network a block's TAO buys alpha, and its alpha is
// the owner's, the miners' and the validators' (spec/chain.md 4).
func TestBlockEmits(t *testing.T) {
	l := dynamic(t, 1000*tao)
	step(t, l, 1)
	p := graph(t, l, 1).Pool
	if p.TaoIn != 0 || p.Excess != tao || p.AlphaOut != tao || p.Out != tao+p.Bought {
		t.Errorf("first block: %+v", p)
	}
	// 18 % of an alpha, as of 65535; half of the rest each.
	owner := math.Floor(tao * float64(11796) / 65535)
	near(t, "owner's cut", p.PendingOwner, owner)
	near(t, "miners", p.PendingMiners, (tao-owner)/2)
	near(t, "validators", p.PendingValidators, (tao-owner)/2)
	step(t, l, 9)
	p = graph(t, l, 1).Pool
	if p.Excess != tao || p.Tao != 1010*tao || p.AlphaIn != 0 {
		t.Errorf("ten blocks: %+v", p)
	}
	near(t, "bought", p.Bought, 1000*tao*(1-1000.0/1010))
	near(t, "price", p.Price, tao*1.01*1.01)
	near(t, "owner's cut", p.PendingOwner, 10*owner)
	balanced(t, l, 1, 0)
}

// Stake on the root network has a part of every subnet, and lets blocks put TAO
// in beside alpha without moving the price.
func TestRootPart(t *testing.T) {
	ctx := t.Context()
	l := dynamic(t, 1000*tao)
	enter(t, l, "val", 0)
	must(t, l.AddStake(ctx, ledger.Root, key(t, "val"), key(t, "val-cold"), 500*tao))
	step(t, l, 1)
	p := graph(t, l, 1).Pool
	weight := 0.18 * 500 * tao
	part := weight / (weight + float64(p.Alpha) + float64(p.Out))
	if got := float64(p.RootPart) / (1 << 32); math.Abs(got-part) > 1e-8 {
		t.Errorf("root part %v, want %v", got, part)
	}
	// As much alpha goes in as that part of a block's, with TAO at the price; the rest of the TAO buys.
	before := weight / (weight + 1000*tao)
	near(t, "alpha in", p.AlphaIn, before*tao)
	near(t, "TAO in", p.TaoIn, before*tao)
	near(t, "excess", p.Excess, tao-before*tao)
	if p.PendingRoot != 0 {
		t.Errorf("prices are below a TAO: the root network's part is unmade, not kept: %d", p.PendingRoot)
	}
	m := graph(t, l, 1)
	n, _ := m.Neuron(key(t, "val"))
	if n.RootStake != 500*tao || n.AlphaStake != 0 {
		t.Errorf("stake %+v", n)
	}
	near(t, "weight", n.Stake, weight)
	balanced(t, l, 1, 0)
}

// Two subnets share a block's TAO by their moving prices, less what each withholds
// from its miners.
func TestEmissionIsSplit(t *testing.T) {
	l := dynamic(t, 1000*tao, 1000*tao)
	must(t, l.view(t.Context(), func(s *state) error {
		s.Subnets[1].Alpha.Moving, s.Subnets[2].Alpha.Moving = 1<<30, 3<<30 // prices 0.25 and 0.75
		s.Subnets[2].Alpha.Withheld = 1 << 31                               // half
		return nil
	}))
	step(t, l, 1)
	// 0.25 and 0.75·½: 40 % and 60 %.
	near(t, "first", graph(t, l, 1).Pool.Excess, 0.4*tao)
	near(t, "second", graph(t, l, 2).Pool.Excess, 0.6*tao)
}

// An epoch pays the pots in its proportions: what the owner mined is burned, the
// validator keeps its take, and who has staked has the rest by shares.
func TestAlphaIsPaid(t *testing.T) {
	ctx := t.Context()
	l := dynamic(t, 1_000_000*tao)
	enter(t, l, "miner", 0)
	enter(t, l, "val", 100*tao)
	own := stakeOf(t, l, 1, "val", "val-cold")
	swaps, err := l.Stake(ctx, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 1, Hotkey: key(t, "val"), Coldkey: key(t, "fan"), Amount: 300 * tao})
	must(t, err)
	fan := stakeOf(t, l, 1, "val", "fan")
	if fan != swaps[0].Alpha || swaps[0].Tao != 300*tao || swaps[0].Fee != pool.Fee(300*tao) {
		t.Errorf("staked %d: %+v", fan, swaps)
	}
	must(t, l.SetValidator(ctx, 1, key(t, "owner"), true, 0))
	step(t, l, 99)
	must(t, l.view(ctx, func(s *state) error { s.Subnets[1].Neurons[2].Permit = true; return nil }))
	must(t, l.SetWeights(ctx, 1, key(t, "val"), ledger.Weights{UIDs: []uint16{0, 1}, Values: []uint16{1, 3}}))
	before := graph(t, l, 1)
	for graph(t, l, 1).Epoch.Index == before.Epoch.Index {
		step(t, l, 1)
	}
	p := graph(t, l, 1).Pool
	if p.PendingMiners+p.PendingValidators+p.PendingOwner != 0 {
		t.Fatalf("pots are left: %+v", p)
	}
	mined := stakeOf(t, l, 1, "miner", "miner-cold")
	pots := float64(before.Block + 1) // blocks, each of an alpha
	cut := math.Floor(tao * float64(11796) / 65535)
	miners := (tao - cut) / 2 * pots
	if got, want := float64(mined), 0.75*miners; math.Abs(got-want) > 1e-4*want {
		t.Errorf("mined %.0f, want three quarters of %.0f", got, miners)
	}
	if got := float64(p.Withheld) / (1 << 32); math.Abs(got-0.25) > 1e-4 {
		t.Errorf("withheld %v, want a quarter", got)
	}
	near(t, "owner's cut", stakeOf(t, l, 1, "owner", "owner-cold"), cut*pots)
	// The validators' pot: 18 % take, the rest by 1 to 3.
	take := float64(maxTake) / 65535
	rest := miners * (1 - take)
	whole := float64(own + fan)
	take1 := miners * take // staked first, so that it has a part of the rest
	total := whole + take1
	near(t, "the fan", stakeOf(t, l, 1, "val", "fan"), float64(fan)*(1+rest/total))
	near(t, "the validator", stakeOf(t, l, 1, "val", "val-cold"), (float64(own)+take1)*(1+rest/total))
	w, err := l.World(ctx)
	must(t, err)
	if len(w.Dividends) == 0 {
		t.Error("no dividends are reported")
	}
	var burned uint64
	must(t, l.view(ctx, func(s *state) error { burned = s.Subnets[1].Burned; return nil }))
	balanced(t, l, 1, burned)
	// Recycled instead of burned, it counts as never made.
	must(t, l.SetRule(ctx, 1, key(t, "owner-cold"), "recycle", 1))
	step(t, l, 100)
	balanced(t, l, 1, burned)
}

// Whatever strides blocks are stepped in, and however often they are read, the
// state is the same, and the log makes it again.
func TestAlphaReplays(t *testing.T) {
	ctx := t.Context()
	var states [][]byte
	for _, stride := range []uint64{1, 7, 500} {
		l := dynamic(t, 1000*tao, 500*tao)
		enter(t, l, "val", 100*tao)
		must(t, l.AddStake(ctx, ledger.Root, key(t, "val"), key(t, "val-cold"), 200*tao))
		_, err := l.Stake(ctx, ledger.StakeOrder{Kind: ledger.StakeAdd, Netuid: 1, Hotkey: key(t, "val"), Coldkey: key(t, "fan"), Amount: 3 * tao})
		must(t, err)
		must(t, l.SetChildren(ctx, 1, key(t, "val"), key(t, "val-cold"), []ledger.Child{{Proportion: 1 << 63, Hotkey: key(t, "owner")}}))
		for at := uint64(0); at < 500; at += stride {
			step(t, l, min(stride, 500-at))
		}
		b, err := l.Snapshot(ctx)
		must(t, err)
		again, err := l.Replay(ctx, 0)
		must(t, err)
		if !bytes.Equal(b, again) {
			t.Errorf("stride %d: the log makes another state", stride)
		}
		decoded, err := decodeState(b)
		must(t, err)
		must(t, decoded.advance(800))
		b2, err := decoded.encode()
		must(t, err)
		states = append(states, b, b2)
	}
	for i, b := range states {
		if !bytes.Equal(b, states[i%2]) {
			t.Errorf("state %d differs by how blocks were stepped", i)
		}
	}
}

// A block's state is there after it is over, also where nobody asked for a while.
func TestPastOfPools(t *testing.T) {
	ctx := t.Context()
	now := time.Unix(1_000_000, 0)
	l, err := Open(ctx, filepath.Join(t.TempDir(), "l.db"), Config{Preset: PresetLocal, BlockTime: time.Second, Genesis: now, Keep: 256, Now: func() time.Time { return now }})
	must(t, err)
	defer l.Close()
	now = now.Add(time.Second)
	must(t, l.EnsureSubnet(ctx, 1, Subnet{OwnerHotkey: key(t, "owner"), OwnerColdkey: key(t, "owner-cold"), Pool: 1000 * tao, Moving: tao}))
	now = now.Add(5000 * time.Second)
	for _, block := range []uint64{5001, 4990, 4760} {
		f, err := l.At(ctx, block)
		must(t, err)
		m, err := f.Metagraph(ctx, 1)
		must(t, err)
		if m.Block != block || m.Pool.Tao != (1000+block-1)*tao {
			t.Errorf("block %d: at %d the pool has %d TAO", block, m.Block, m.Pool.Tao/tao)
		}
	}
	if _, err := l.At(ctx, 3000); !errors.Is(err, ledger.ErrDiscarded) {
		t.Errorf("an old block: %v", err)
	}
}
