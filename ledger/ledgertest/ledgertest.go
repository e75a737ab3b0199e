// Package ledgertest is the conformance suite of ledgers: what a caller of the
// ledger package may rely on, whichever ledger it talks to.
package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
)

// Bench is a fresh ledger with one open subnet whose owner, Key("owner"), holds
// uid 0, and the levers a test needs on it.
type Bench struct {
	Ledger ledger.Ledger
	Netuid uint16
	// Advance lets blocks pass.
	Advance func(blocks uint64)
	// Validator gives a registered hotkey a permit and a stake in rao.
	Validator func(hotkey string, stake uint64)
	// Hyper changes the subnet's rules.
	Hyper func(change func(*ledger.Hyperparameters))
}

// Key returns the address of a test account.
func Key(t testing.TB, name string) string {
	t.Helper()
	k, err := auth.KeyFromURI("//" + name)
	if err != nil {
		t.Fatal(err)
	}
	return k.SS58()
}

// Run runs the suite; each test gets its own bench.
func Run(t *testing.T, bench func(t *testing.T) *Bench) {
	for name, test := range map[string]func(*testing.T, *Bench){
		"blocks": testBlocks, "unknown subnet": testUnknownSubnet, "registration": testRegistration, "full": testFull,
		"commitments": testCommitments, "commitment limits": testCommitmentLimits, "weights": testWeights,
		"weight checks": testWeightChecks, "rate limit": testRateLimit, "concurrent": testConcurrent,
		"commit-reveal": testCommitReveal, "epochs": testEpochs, "plan": testPlan,
	} {
		t.Run(name, func(t *testing.T) { test(t, bench(t)) })
	}
}

func want(t *testing.T, what string, err error, target *ledger.Error) {
	t.Helper()
	switch {
	case target == nil && err != nil:
		t.Errorf("%s: %v", what, err)
	case target != nil && !errors.Is(err, target):
		t.Errorf("%s: got %v, want %s", what, err, target.Name)
	}
}

func register(t *testing.T, b *Bench, name string) (hotkey string, uid uint16) {
	t.Helper()
	hotkey = Key(t, name)
	uid, err := b.Ledger.Register(t.Context(), b.Netuid, hotkey, Key(t, name+"-cold"))
	if err != nil {
		t.Fatalf("register %s: %v", name, err)
	}
	return hotkey, uid
}

func metagraph(t *testing.T, b *Bench) *ledger.Metagraph {
	t.Helper()
	m, err := b.Ledger.Metagraph(t.Context(), b.Netuid)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func testBlocks(t *testing.T, b *Bench) {
	before, err := b.Ledger.Block(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.Advance(3)
	if after, err := b.Ledger.Block(t.Context()); err != nil || after < before+3 {
		t.Errorf("block %d after %d: %v", after, before, err)
	}
}

func testUnknownSubnet(t *testing.T, b *Bench) {
	const none = 999
	ctx, hotkey := t.Context(), Key(t, "a")
	_, err := b.Ledger.Metagraph(ctx, none)
	want(t, "metagraph", err, ledger.ErrSubnetNotExists)
	_, err = b.Ledger.Commitments(ctx, none)
	want(t, "commitments", err, ledger.ErrSubnetNotExists)
	_, err = b.Ledger.History(ctx, none, hotkey, 0)
	want(t, "history", err, ledger.ErrSubnetNotExists)
	_, err = b.Ledger.Register(ctx, none, hotkey, hotkey)
	want(t, "register", err, ledger.ErrSubnetNotExists)
	_, err = b.Ledger.Commit(ctx, none, hotkey)
	want(t, "commit", err, ledger.ErrSubnetNotExists)
	err = b.Ledger.SetWeights(ctx, none, hotkey, ledger.Weights{})
	want(t, "set weights", err, ledger.ErrSubnetNotExists)
	err = b.Ledger.SetWeights(ctx, 0, hotkey, ledger.Weights{})
	want(t, "set root weights", err, ledger.ErrRootWeights)
	_, err = b.Ledger.Register(ctx, 0, hotkey, hotkey)
	want(t, "register on root", err, ledger.ErrRootRegistration)
}

func testRegistration(t *testing.T, b *Bench) {
	b.Advance(5)
	at, err := b.Ledger.Block(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hot, uid := register(t, b, "a")
	m := metagraph(t, b)
	if uid != 1 || len(m.Neurons) != 2 || m.OwnerHotkey != Key(t, "owner") {
		t.Fatalf("uid %d, %d neurons, owner %s", uid, len(m.Neurons), m.OwnerHotkey)
	}
	for i, n := range m.Neurons {
		if int(n.UID) != i {
			t.Errorf("neuron %d has uid %d", i, n.UID)
		}
	}
	n, ok := m.Neuron(hot)
	if !ok || n.Coldkey != Key(t, "a-cold") || n.Permit || n.RegisteredAt < at || n.LastUpdate != n.RegisteredAt {
		t.Errorf("neuron %+v", n)
	}
	if burn, ok := m.BurnUID(); !ok || burn != 0 {
		t.Errorf("burn uid %d %t", burn, ok)
	}
	_, err = b.Ledger.Register(t.Context(), b.Netuid, hot, Key(t, "a-cold"))
	want(t, "twice", err, ledger.ErrAlreadyRegistered)
	var coded *agon.Error
	if _, err := b.Ledger.Register(t.Context(), b.Netuid, "not an address", Key(t, "c")); !errors.As(err, &coded) || coded.Field != "hotkey" {
		t.Errorf("a hotkey that is not an address: %v", err)
	}
	if _, err := b.Ledger.Register(t.Context(), b.Netuid, Key(t, "b"), ""); !errors.As(err, &coded) || coded.Field != "coldkey" {
		t.Errorf("an empty coldkey: %v", err)
	}
	b.Hyper(func(h *ledger.Hyperparameters) { h.RegistrationOpen = false })
	_, err = b.Ledger.Register(t.Context(), b.Netuid, Key(t, "late"), Key(t, "c"))
	want(t, "closed", err, ledger.ErrRegistrationDisabled)
}

// testFull fills a subnet: the newcomer takes the place of the weakest, never the owner's.
func testFull(t *testing.T, b *Bench) {
	b.Hyper(func(h *ledger.Hyperparameters) { h.MaxUIDs, h.ImmunityPeriod, h.MinNonImmuneUIDs = 3, 50, 0 })
	old, olduid := register(t, b, "a")
	b.Advance(1)
	young, _ := register(t, b, "b")
	b.Advance(1)
	if _, uid := register(t, b, "c"); uid != olduid {
		t.Errorf("all are immune: the newcomer has uid %d, want that of the oldest, %d", uid, olduid)
	}
	m := metagraph(t, b)
	if _, ok := m.Neuron(old); ok || len(m.Neurons) != 3 {
		t.Errorf("%d neurons, the evicted one among them: %t", len(m.Neurons), ok)
	}
	if n, ok := m.Neuron(Key(t, "c")); !ok || n.UID != olduid || n.RegisteredAt != m.Block || n.Incentive != 0 || n.Permit {
		t.Errorf("the newcomer: %+v", n)
	}
	b.Advance(49) // b is out of immunity, c is not
	if n, _ := m.Neuron(young); n.RegisteredAt+50 > metagraph(t, b).Block {
		t.Fatal("the test's blocks are wrong")
	}
	_, uid := register(t, b, "d")
	if _, ok := metagraph(t, b).Neuron(young); ok || uid == olduid {
		t.Errorf("the one without immunity stays: uid %d", uid)
	}
	b.Hyper(func(h *ledger.Hyperparameters) { h.MaxUIDs = 3 })
	if _, err := b.Ledger.Register(t.Context(), b.Netuid, old, Key(t, "a-cold")); err != nil {
		t.Errorf("the evicted one may come back: %v", err)
	}
	if _, ok := metagraph(t, b).Neuron(Key(t, "owner")); !ok {
		t.Error("the owner is evicted")
	}
}

func testCommitments(t *testing.T, b *Bench) {
	ctx := t.Context()
	a, _ := register(t, b, "a")
	c, _ := register(t, b, "c")
	if got, err := b.Ledger.Commitments(ctx, b.Netuid); err != nil || len(got) != 0 {
		t.Errorf("at first: %v %v", got, err)
	}
	first, err := b.Ledger.Commit(ctx, b.Netuid, c, ledger.Raw([]byte("c1")))
	want(t, "commit", err, nil)
	b.Advance(2)
	second, err := b.Ledger.Commit(ctx, b.Netuid, c, ledger.Raw([]byte("c2")), ledger.Field{Type: ledger.FieldSha256, Data: make([]byte, 32)})
	want(t, "commit again", err, nil)
	_, err = b.Ledger.Commit(ctx, b.Netuid, a, ledger.Raw(make([]byte, 200)))
	want(t, "commit by another", err, nil)
	if second < first+2 {
		t.Errorf("stamps %d, %d", first, second)
	}
	got, err := b.Ledger.Commitments(ctx, b.Netuid)
	if err != nil || len(got) != 2 {
		t.Fatalf("got %v %v", got, err)
	}
	if got[0].Hotkey != a || len(got[0].Fields[0].Data) != 200 || got[0].Fields[0].Type != ledger.FieldBigRaw {
		t.Errorf("first by uid: %+v", got[0])
	}
	if got[1].Hotkey != c || got[1].Block != second || got[1].Netuid != b.Netuid || len(got[1].Fields) != 2 || string(got[1].Fields[0].Data) != "c2" {
		t.Errorf("the last commitment does not stand: %+v", got[1])
	}
	all, err := b.Ledger.History(ctx, b.Netuid, c, 0)
	if err != nil || len(all) != 2 || all[0].Block != first || string(all[0].Fields[0].Data) != "c1" || all[1].Block != second {
		t.Errorf("history %+v %v", all, err)
	}
	if late, err := b.Ledger.History(ctx, b.Netuid, c, second); err != nil || len(late) != 1 {
		t.Errorf("history from %d: %+v %v", second, late, err)
	}
}

func testCommitmentLimits(t *testing.T, b *Bench) {
	ctx := t.Context()
	a, _ := register(t, b, "a")
	commit := func(fields ...ledger.Field) error {
		_, err := b.Ledger.Commit(ctx, b.Netuid, a, fields...)
		return err
	}
	_, err := b.Ledger.Commit(ctx, b.Netuid, Key(t, "stranger"), ledger.Raw(nil))
	want(t, "stranger", err, ledger.ErrAccountMayNotCommit)
	want(t, "four fields", commit(ledger.Raw(nil), ledger.Raw(nil), ledger.Raw(nil), ledger.Raw(nil)), ledger.ErrTooManyFields)
	want(t, "long raw", commit(ledger.Field{Type: ledger.FieldRaw, Data: make([]byte, 129)}), ledger.ErrCommitmentFieldInvalid)
	want(t, "long big raw", commit(ledger.Raw(make([]byte, 513))), ledger.ErrCommitmentFieldInvalid)
	want(t, "short hash", commit(ledger.Field{Type: ledger.FieldSha256, Data: make([]byte, 31)}), ledger.ErrCommitmentFieldInvalid)
	b.Hyper(func(h *ledger.Hyperparameters) { h.CommitmentSpace, h.Tempo = 650, 1000 })
	want(t, "512 bytes", commit(ledger.Raw(make([]byte, 512))), nil)
	want(t, "a byte costs 100", commit(ledger.Raw([]byte{1})), nil)
	want(t, "over the space", commit(ledger.Raw([]byte{1})), ledger.ErrCommitmentSpace)
	b.Advance(1001)
	want(t, "next epoch", commit(ledger.Raw([]byte{1})), nil)
}

func testWeights(t *testing.T, b *Bench) {
	ctx := t.Context()
	v, vuid := register(t, b, "v")
	w, wuid := register(t, b, "w")
	m1, muid := register(t, b, "m")
	b.Validator(v, 100)
	b.Validator(w, 200)
	b.Advance(1000)
	if got := metagraph(t, b).TopWeights(); len(got) != 0 {
		t.Errorf("at first: %v", got)
	}
	want(t, "set", b.Ledger.SetWeights(ctx, b.Netuid, v, ledger.Weights{UIDs: []uint16{muid, 0}, Values: []uint16{1, 2}}), nil)
	at, err := b.Ledger.Block(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m := metagraph(t, b)
	if len(m.Weights) != 1 || m.Weights[0].UID != vuid || !slices.Equal(m.Weights[0].UIDs, []uint16{muid, 0}) || !slices.Equal(m.Weights[0].Values, []uint16{32768, 65535}) {
		t.Errorf("weights are not stored scaled up: %+v", m.Weights)
	}
	if n, _ := m.Neuron(v); n.LastUpdate == 0 || n.LastUpdate > at || !n.Permit || n.Stake != 100 {
		t.Errorf("validator %+v at block %d", n, at)
	}
	want(t, "set by another", b.Ledger.SetWeights(ctx, b.Netuid, w, ledger.Weights{UIDs: []uint16{muid, vuid}, Values: []uint16{7, 0}}), nil)
	top := metagraph(t, b).TopWeights()
	if len(top) != 1 || top[0].UID != muid || top[0].Hotkey != m1 || top[0].Weight != 65535 {
		t.Errorf("top weights %v", top)
	}
	b.Advance(1000)
	want(t, "set again", b.Ledger.SetWeights(ctx, b.Netuid, w, ledger.Weights{UIDs: []uint16{wuid}, Values: []uint16{9}}), nil)
	if rows := metagraph(t, b).Weights; len(rows) != 2 || !slices.Equal(rows[1].UIDs, []uint16{wuid}) {
		t.Errorf("weights are not replaced: %+v", rows)
	}
}

// testWeightChecks breaks one rule after the other, so that each case also
// breaks all that come after it: the order of checks is part of the contract.
func testWeightChecks(t *testing.T, b *Bench) {
	ctx := t.Context()
	v, vuid := register(t, b, "v")
	register(t, b, "m")
	owner := Key(t, "owner")
	b.Hyper(func(h *ledger.Hyperparameters) {
		h.StakeThreshold, h.WeightsVersionKey, h.WeightsRateLimit, h.MinAllowedWeights, h.CommitReveal = 50, 7, 100_000, 2, true
	})
	b.Advance(1) // a last update of 0 would pass the rate limit
	r, ruid := register(t, b, "r")
	set := func(hotkey string, key uint64, uids, values []uint16) error {
		return b.Ledger.SetWeights(ctx, b.Netuid, hotkey, ledger.Weights{UIDs: uids, Values: values, VersionKey: key})
	}
	dup, one := []uint16{9, 9, 8}, []uint16{1, 1, 1}
	want(t, "commit-reveal", set(r, 0, dup, one[:1]), ledger.ErrCommitRevealEnabled)
	b.Hyper(func(h *ledger.Hyperparameters) { h.CommitReveal = false })
	want(t, "lengths", set(Key(t, "x"), 0, dup, one[:1]), ledger.ErrUnequalLengths)
	want(t, "too many uids", set(Key(t, "x"), 0, []uint16{9, 9, 9, 9, 9}, []uint16{1, 1, 1, 1, 1}), ledger.ErrTooManyUIDs)
	want(t, "not registered", set(Key(t, "x"), 0, dup, one), ledger.ErrNotRegistered)
	want(t, "stake", set(r, 0, dup, one), ledger.ErrNotEnoughStake)
	b.Validator(r, 50)
	want(t, "version key", set(r, 6, dup, one), ledger.ErrVersionKey)
	want(t, "owner needs no stake, but the version key", set(owner, 6, dup, one), ledger.ErrVersionKey)
	want(t, "rate limit after registration", set(r, 7, dup, one), ledger.ErrSettingWeightsTooFast)
	b.Hyper(func(h *ledger.Hyperparameters) { h.WeightsRateLimit, h.StakeThreshold = 1, 0 })
	b.Advance(1)
	want(t, "no permit", set(v, 7, dup, one), ledger.ErrNoPermit)
	want(t, "self weight needs no permit", set(v, 8, []uint16{vuid}, []uint16{1}), nil)
	want(t, "owner needs no permit", set(owner, 7, dup, one), ledger.ErrDuplicateUIDs)
	want(t, "duplicates", set(r, 7, dup, one), ledger.ErrDuplicateUIDs)
	want(t, "unknown uid", set(r, 7, []uint16{9}, one[:1]), ledger.ErrInvalidUID)
	want(t, "too few", set(r, 7, []uint16{0}, one[:1]), ledger.ErrTooFewWeights)
	want(t, "none", set(r, 7, nil, nil), ledger.ErrTooFewWeights)
	want(t, "good", set(r, 7, []uint16{0, ruid}, one[:2]), nil)
}

func testRateLimit(t *testing.T, b *Bench) {
	ctx := t.Context()
	b.Hyper(func(h *ledger.Hyperparameters) { h.WeightsRateLimit = 10 })
	b.Advance(1)
	v, uid := register(t, b, "v")
	set := func() error {
		return b.Ledger.SetWeights(ctx, b.Netuid, v, ledger.Weights{UIDs: []uint16{uid}, Values: []uint16{1}})
	}
	want(t, "just registered", set(), ledger.ErrSettingWeightsTooFast)
	b.Advance(10)
	want(t, "first", set(), nil)
	b.Advance(9)
	want(t, "one block too early", set(), ledger.ErrSettingWeightsTooFast)
	b.Advance(1)
	want(t, "in time", set(), nil)
}

func testConcurrent(t *testing.T, b *Bench) {
	ctx := t.Context()
	const n = 24
	var wg sync.WaitGroup
	uids := make([]uint16, n)
	for i := range n {
		name := fmt.Sprintf("miner%d", i/2) // each hotkey twice: one of two must win
		hot, cold := Key(t, name), Key(t, name+"-cold")
		wg.Go(func() {
			uid, err := b.Ledger.Register(ctx, b.Netuid, hot, cold)
			switch {
			case err == nil:
				uids[i] = uid
			case !errors.Is(err, ledger.ErrAlreadyRegistered):
				t.Errorf("register %s: %v", name, err)
			}
			if _, err := b.Ledger.Metagraph(ctx, b.Netuid); err != nil {
				t.Errorf("metagraph: %v", err)
			}
		})
	}
	wg.Wait()
	slices.Sort(uids)
	if got := slices.Compact(uids); len(got) != n/2+1 || got[len(got)-1] != n/2 {
		t.Errorf("uids %v", got)
	}
	if got := len(metagraph(t, b).Neurons); got != n/2+1 {
		t.Errorf("%d neurons", got)
	}
}
