package local

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
)

// stepped opens a stepped ledger of a preset.
func stepped(t testing.TB, preset string) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), Config{Stepped: true, Preset: preset})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func step(t testing.TB, l *Ledger, n uint64) uint64 {
	t.Helper()
	block, err := l.Step(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return block
}

func graph(t testing.TB, l *Ledger, netuid uint16) *ledger.Metagraph {
	t.Helper()
	m, err := l.Metagraph(t.Context(), netuid)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func hyper(t testing.TB, l *Ledger, netuid uint16, change func(*ledger.Hyperparameters)) {
	t.Helper()
	h := graph(t, l, netuid).Hyper
	change(&h)
	if err := l.SetHyperparameters(t.Context(), netuid, h); err != nil {
		t.Fatal(err)
	}
}

func TestBurnDecays(t *testing.T) {
	for _, c := range []struct{ price, blocks, half, want uint64 }{
		{1000, 0, 360, 1000},
		{1000, 360, 360, 500},
		{1000, 720, 360, 250},
		{1000, 180, 360, 707},
		{1000, 36_000, 360, 0},
		{1 << 40, 90, 360, 924_575_386_326},
		{math.MaxUint64, 63 * 7, 7, 1},
	} {
		if got := decay(c.price, c.blocks, c.half); got != c.want {
			t.Errorf("%d after %d of %d: %d, want %d", c.price, c.blocks, c.half, got, c.want)
		}
		float := float64(c.price) * math.Exp2(-float64(c.blocks)/float64(c.half))
		if got := float64(decay(c.price, c.blocks, c.half)); math.Abs(got-float) > 1+float*1e-8 {
			t.Errorf("%d after %d of %d: %g, want about %g", c.price, c.blocks, c.half, got, float)
		}
	}
	last := uint64(math.MaxUint64)
	for b := range uint64(2000) {
		if p := decay(1<<50, b, 360); p > last {
			t.Fatalf("the price rises in block %d", b)
		} else {
			last = p
		}
	}
}

func TestRegistrationCosts(t *testing.T) {
	l := stepped(t, PresetFinneyLike)
	ctx := t.Context()
	subnetOf(t, l, 3)
	hot, cold := ledgertest.Key(t, "a"), ledgertest.Key(t, "a-cold")
	hyper(t, l, 3, func(h *ledger.Hyperparameters) { h.MinBurn = 1000 })
	step(t, l, 5000) // down from the preset's
	if _, err := l.Register(ctx, 3, hot, cold); !errors.Is(err, ledger.ErrNotEnoughBalance) {
		t.Fatalf("without money: %v", err)
	}
	if err := l.Fund(ctx, cold, 5000); err != nil {
		t.Fatal(err)
	}
	if _, err := l.RegisterSigned(ctx, 3, hot, cold, hot); !errors.Is(err, ledger.ErrBadOrigin) {
		t.Errorf("paid by a hotkey's signature: %v", err)
	}
	if _, err := l.Register(ctx, 3, hot, cold); err != nil {
		t.Fatal(err)
	}
	if got := graph(t, l, 3).Burn; got != 1260 {
		t.Errorf("the next one costs %d", got)
	}
	if _, err := l.Register(ctx, 3, ledgertest.Key(t, "b"), cold); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Balance(ctx, cold); err != nil || got != 5000-1000-1260 {
		t.Errorf("balance %d, %v", got, err)
	}
	if got := graph(t, l, 3).Burn; got != 1587 {
		t.Errorf("the third costs %d", got)
	}
	step(t, l, 60)
	if got := graph(t, l, 3).Burn; got != 1413 { // 1587·2^(-1/6)
		t.Errorf("60 blocks later it costs %d", got)
	}
	step(t, l, 1000)
	if got := graph(t, l, 3).Burn; got != 1000 {
		t.Errorf("much later it costs %d", got)
	}
}

func TestStakeAndPermits(t *testing.T) {
	l := stepped(t, PresetLocal)
	ctx := t.Context()
	subnetOf(t, l, 1)
	hyper(t, l, 1, func(h *ledger.Hyperparameters) { h.MaxValidators, h.EmissionPerBlock = 2, 0 })
	hot := map[string]string{}
	for i, name := range []string{"a", "b", "c"} {
		hot[name] = ledgertest.Key(t, name)
		cold := ledgertest.Key(t, name+"-cold")
		if _, err := l.Register(ctx, 1, hot[name], cold); err != nil {
			t.Fatal(err)
		}
		if err := l.AddStake(ctx, 1, hot[name], cold, uint64(i+1)*tao); err != nil {
			t.Fatal(err)
		}
	}
	cold := ledgertest.Key(t, "c-cold")
	for name, c := range map[string]struct {
		err  error
		want *ledger.Error
	}{
		"another's":    {l.AddStake(ctx, 1, hot["a"], cold, 1), ledger.ErrNonAssociatedColdkey},
		"too much":     {l.AddStake(ctx, 1, hot["c"], cold, 998*tao), ledger.ErrNotEnoughBalance},
		"unknown":      {l.AddStake(ctx, 1, ledgertest.Key(t, "z"), cold, 1), ledger.ErrNotRegistered},
		"too much out": {l.RemoveStake(ctx, 1, hot["c"], cold, 4*tao), ledger.ErrNotEnoughStakeLeft},
		"some out":     {l.RemoveStake(ctx, 1, hot["c"], cold, tao), nil},
	} {
		if c.want == nil && c.err != nil || c.want != nil && !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if got, _ := l.Balance(ctx, cold); got != 998*tao {
		t.Errorf("balance %d", got)
	}
	permits := func() (out []bool) {
		for _, n := range graph(t, l, 1).Neurons {
			out = append(out, n.Permit)
		}
		return out
	}
	if got := fmt.Sprint(permits()); got != "[false false false false]" {
		t.Errorf("before an epoch: %s", got)
	}
	step(t, l, 360)
	// b and c have 2 TAO each; the owner always votes.
	if got := fmt.Sprint(permits()); got != "[true false true true]" {
		t.Errorf("after an epoch: %s", got)
	}
}

// Two validators, one of them the owner's, and a miner: what an epoch pays goes
// to the miner and the validator; what the owner's uid mines is burned.
func TestEmission(t *testing.T) {
	for _, staked := range []bool{false, true} {
		l := stepped(t, PresetLocal)
		ctx := t.Context()
		subnetOf(t, l, 1)
		v, m := ledgertest.Key(t, "v"), ledgertest.Key(t, "m")
		for _, hot := range []string{v, m} {
			if _, err := l.Register(ctx, 1, hot, hot); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.SetValidator(ctx, 1, v, true, 10*tao); err != nil {
			t.Fatal(err)
		}
		hyper(t, l, 1, func(h *ledger.Hyperparameters) { h.EmissionStaked, h.OwnerCut, h.Yuma3 = staked, 6554, false })
		step(t, l, 100)
		if err := l.SetWeights(ctx, 1, v, ledger.Weights{UIDs: []uint16{0, 2}, Values: []uint16{1, 1}}); err != nil {
			t.Fatal(err)
		}
		step(t, l, 260)
		g := graph(t, l, 1)
		const total = 360 * tao
		cut := uint64(total) * 6554 / 65535
		if g.Neurons[2].Incentive != 32767 || g.Neurons[1].Dividends != 65535 || g.Epoch.LastStep != 360 || !g.Neurons[0].Permit {
			t.Fatalf("staked %t: %+v", staked, g.Neurons)
		}
		rest := uint64(total) - cut
		wantV, wantM := rest/2, rest/4
		balance := func(hot string) uint64 {
			b, err := l.Balance(ctx, hot)
			if err != nil {
				t.Fatal(err)
			}
			return b - 1000*tao
		}
		gotV, gotM := balance(v), balance(m)
		gotOwner := balance(ledgertest.Key(t, "owner-cold"))
		if staked {
			gotV, gotM, gotOwner = gotV+g.Neurons[1].Stake-10*tao, gotM+g.Neurons[2].Stake, gotOwner+g.Neurons[0].Stake
		}
		near := func(a, b uint64) bool { return max(a, b)-min(a, b) < 1000 } // 32 bits of a share
		if !near(gotV, wantV) || !near(gotM, wantM) || gotOwner != cut {
			t.Errorf("staked %t: validator %d, miner %d, owner %d; want %d, %d, %d", staked, gotV, gotM, gotOwner, wantV, wantM, cut)
		}
		l.mu.Lock()
		burned := l.state.Subnets[1].Burned
		l.mu.Unlock()
		if !near(burned, wantM) || gotV+gotM+gotOwner+burned > total {
			t.Errorf("staked %t: burned %d", staked, burned)
		}
	}
}

func TestEpochsAreDeferred(t *testing.T) {
	l := stepped(t, PresetLocal)
	for netuid := uint16(1); netuid <= 5; netuid++ {
		subnetOf(t, l, netuid)
	}
	for netuid := uint16(1); netuid <= 5; netuid++ {
		hyper(t, l, netuid, func(h *ledger.Hyperparameters) { h.Tempo = 10 }) // anchors all at this block
	}
	step(t, l, 10)
	steps := func() (out []uint64) {
		for netuid := uint16(1); netuid <= 5; netuid++ {
			out = append(out, graph(t, l, netuid).Epoch.LastStep)
		}
		return out
	}
	if got := fmt.Sprint(steps()); got != "[10 10 0 0 0]" {
		t.Errorf("block 10: %s", got)
	}
	step(t, l, 2)
	if got := fmt.Sprint(steps()); got != "[10 10 11 11 12]" {
		t.Errorf("block 12: %s", got)
	}
	step(t, l, 10)
	if got := fmt.Sprint(steps()); got != "[20 20 21 21 22]" {
		t.Errorf("block 22: %s", got)
	}
	if err := l.TriggerEpoch(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	step(t, l, 1)
	if got := fmt.Sprint(steps()); got != "[20 20 21 21 23]" {
		t.Errorf("after a trigger: %s", got)
	}
	hyper(t, l, 1, func(h *ledger.Hyperparameters) { h.CommitReveal = true })
	if err := l.TriggerEpoch(t.Context(), 1); !errors.Is(err, ledger.ErrCommitRevealEnabled) {
		t.Errorf("trigger with commit-reveal: %v", err)
	}
	hyper(t, l, 2, func(h *ledger.Hyperparameters) { h.Model = ledger.Modulo })
	step(t, l, 30)
	if m := graph(t, l, 2); (m.Epoch.LastStep+2+1)%11 != 10 || m.Epoch.LastStep+11 <= m.Block {
		t.Errorf("modulo: last epoch %d at block %d", m.Epoch.LastStep, m.Block)
	}
}

func TestMigration(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	hot, cold, owner := ledgertest.Key(t, "a"), ledgertest.Key(t, "a-cold"), ledgertest.Key(t, "owner")
	for _, q := range []string{
		`CREATE TABLE chain (id INTEGER PRIMARY KEY, genesis_ms BIGINT, block_ms BIGINT, newest BIGINT)`,
		`CREATE TABLE subnets (netuid INTEGER PRIMARY KEY, owner_hotkey TEXT, owner_coldkey TEXT, hyper TEXT, created BIGINT)`,
		`CREATE TABLE owners (hotkey TEXT PRIMARY KEY, coldkey TEXT)`,
		`CREATE TABLE neurons (netuid INTEGER, uid INTEGER, hotkey TEXT, permit BOOLEAN, stake BIGINT, registered BIGINT, last_update BIGINT)`,
		`CREATE TABLE weights (netuid INTEGER, uid INTEGER, block BIGINT, uids TEXT, vals TEXT)`,
		`CREATE TABLE commitments (id INTEGER PRIMARY KEY, netuid INTEGER, hotkey TEXT, block BIGINT, space BIGINT, fields TEXT)`,
		`INSERT INTO chain VALUES (1, 1760000000000, 1000, 50)`,
		`INSERT INTO subnets VALUES (1, '` + owner + `', '` + owner + `', '{"tempo":60,"max_allowed_uids":256,"weights_rate_limit":1,"registration_allowed":true,"commitment_space":3100}', 0)`,
		`INSERT INTO owners VALUES ('` + owner + `', '` + owner + `'), ('` + hot + `', '` + cold + `')`,
		`INSERT INTO neurons VALUES (1, 0, '` + owner + `', FALSE, 0, 0, 0), (1, 1, '` + hot + `', TRUE, 7, 10, 20)`,
		`INSERT INTO weights VALUES (1, 1, 20, '[0]', '[65535]')`,
		`INSERT INTO commitments VALUES (1, 1, '` + hot + `', 11, 100, '[{"type":"raw","data":"eA=="}]'), (2, 1, '` + hot + `', 12, 100, '[]')`,
		`PRAGMA user_version = 1`,
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(q, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	c := newClock()
	c.advance(55 * time.Second)
	for range 2 {
		l, err := Open(t.Context(), path, Config{Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		m := graph(t, l, 1)
		if n, ok := m.Neuron(hot); !ok || n.UID != 1 || n.Coldkey != cold || n.Stake != 7 || !n.Permit || n.LastUpdate != 20 || m.Block != 55 || len(m.Weights) != 1 {
			t.Errorf("%+v %+v", n, m)
		}
		if all, err := l.History(t.Context(), 1, hot, 0); err != nil || len(all) != 2 || string(all[0].Fields[0].Data) != "x" || all[1].Block != 12 {
			t.Errorf("history %+v %v", all, err)
		}
		if now, err := l.Commitments(t.Context(), 1); err != nil || len(now) != 1 || now[0].Block != 12 {
			t.Errorf("commitments %+v %v", now, err)
		}
		same(t, l, 0)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// same checks that the history, played again from a block, gives the state that stands.
func same(t testing.TB, l *Ledger, from uint64) {
	t.Helper()
	live, err := l.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again, err := l.Replay(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(live, again) {
		t.Fatalf("the replay from block %d differs:\n%s\n%s", from, live, again)
	}
}

// TestReplay does random things on several subnets, restarts now and then, and
// plays the history again from the start, from the middle and from its end.
func TestReplay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "l.db")
	r := rand.New(rand.NewPCG(6, 6))
	var l *Ledger
	reopen := func() {
		var err error
		if l != nil {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if l, err = Open(t.Context(), path, Config{Stepped: l == nil, Preset: PresetLocal}); err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	defer func() { l.Close() }()
	for netuid := uint16(1); netuid <= 3; netuid++ {
		subnetOf(t, l, netuid)
		hyper(t, l, netuid, func(h *ledger.Hyperparameters) {
			h.Tempo, h.MaxUIDs, h.MaxValidators, h.WeightsRateLimit, h.ImmunityPeriod, h.MinNonImmuneUIDs = 10+netuid, 12, 4, 3, 20, 2
			h.MinBurn, h.MaxBurn, h.CommitReveal, h.LiquidAlpha = 1000, tao, netuid == 2, netuid == 3
			if netuid == 1 {
				h.Yuma3, h.Model = false, ledger.Modulo
			}
		})
	}
	keys := make([]string, 24)
	for i := range keys {
		keys[i] = ledgertest.Key(t, fmt.Sprint("k", i))
	}
	done := map[string]int{}
	for i := range 3000 {
		netuid, hot := uint16(1+r.IntN(3)), keys[r.IntN(len(keys))]
		w := ledger.Weights{UIDs: []uint16{uint16(r.IntN(12)), uint16(r.IntN(12))}, Values: []uint16{uint16(r.Uint32()), uint16(r.Uint32())}}
		what, err := "", error(nil)
		switch what = []string{"register", "stake", "unstake", "weights", "commit", "promise", "reveal", "step", "fund", "hyper"}[r.IntN(10)]; what {
		case "register":
			_, err = l.Register(t.Context(), netuid, hot, hot)
		case "stake":
			err = l.AddStake(t.Context(), netuid, hot, hot, r.Uint64N(tao))
		case "unstake":
			err = l.RemoveStake(t.Context(), netuid, hot, hot, r.Uint64N(tao))
		case "weights":
			err = l.SetWeights(t.Context(), netuid, hot, w)
		case "commit":
			_, err = l.Commit(t.Context(), netuid, hot, []ledger.Field{ledger.Raw([]byte(hot[:r.IntN(40)])), {Type: ledger.FieldRaw, Data: nil}}[:r.IntN(3)]...)
		case "promise":
			hash, herr := ledger.CommitHash(hot, netuid, w, []uint16{1})
			if herr != nil {
				t.Fatal(herr)
			}
			if err = l.CommitWeights(t.Context(), netuid, hot, hash); err == nil {
				step(t, l, uint64(graph(t, l, netuid).Hyper.Tempo))
				if err := l.RevealWeights(t.Context(), netuid, hot, w, []uint16{1}); err == nil {
					done["revealed"]++
				}
			}
		case "reveal":
			err = l.RevealWeights(t.Context(), netuid, hot, w, nil)
		case "step":
			step(t, l, uint64(r.IntN(15)))
		case "fund":
			err = l.Fund(t.Context(), hot, r.Uint64N(tao))
		case "hyper":
			if r.IntN(20) == 0 {
				hyper(t, l, netuid, func(h *ledger.Hyperparameters) { h.Tempo = uint16(5 + r.IntN(30)); h.EmissionPerBlock = r.Uint64N(tao) })
			}
		}
		var refused *ledger.Error
		switch {
		case err == nil:
			done[what]++
		case !errors.As(err, &refused):
			t.Fatalf("%d: %s: %v", i, what, err)
		}
		if i%700 == 699 {
			same(t, l, 0)
			reopen()
			same(t, l, math.MaxUint64)
		}
	}
	for _, what := range []string{"register", "stake", "unstake", "weights", "commit", "promise", "revealed", "fund"} {
		if done[what] < 5 {
			t.Errorf("%s was done %d times: the test tests little", what, done[what])
		}
	}
	last := graph(t, l, 1).Block
	for _, from := range []uint64{0, 1, last / 2, last, math.MaxUint64} {
		same(t, l, from)
	}
	t.Logf("%v at block %d", done, last)
}

// A file that lost its last moments (a crash) opens and goes on.
func TestGroupCommit(t *testing.T) {
	l := stepped(t, PresetDemo)
	subnetOf(t, l, 1)
	hyper(t, l, 1, func(h *ledger.Hyperparameters) { h.CommitmentSpace = 1 << 40 })
	owner := ledgertest.Key(t, "owner")
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := range 8 {
				if _, err := l.Commit(t.Context(), 1, owner, ledger.Raw(fmt.Appendf(nil, "%d-%d", i, j))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	all, err := l.History(t.Context(), 1, owner, 0)
	if err != nil || len(all) != 512 {
		t.Fatalf("%d commitments, %v", len(all), err)
	}
	now, err := l.Commitments(t.Context(), 1)
	if err != nil || len(now) != 1 || string(now[0].Fields[0].Data) != string(all[511].Fields[0].Data) {
		t.Errorf("the last in the log is not the one that stands: %v %v", now, err)
	}
	same(t, l, 0)
}

// When the disk refuses a batch nothing of it happened.
func TestDiskRefuses(t *testing.T) {
	l := stepped(t, PresetDemo)
	subnetOf(t, l, 1)
	a, b := ledgertest.Key(t, "a"), ledgertest.Key(t, "b")
	if _, err := l.Register(t.Context(), 1, a, a); err != nil {
		t.Fatal(err)
	}
	exec := func(q string) {
		if _, err := l.db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	exec("CREATE TRIGGER refuse BEFORE INSERT ON log BEGIN SELECT RAISE(ABORT, 'no space'); END")
	var refused *ledger.Error
	if _, err := l.Register(t.Context(), 1, b, b); err == nil || errors.As(err, &refused) {
		t.Errorf("registered on a full disk: %v", err)
	}
	if _, ok := graph(t, l, 1).Neuron(b); ok {
		t.Error("the state is ahead of the disk")
	}
	if block := step(t, l, 5); block != 5 {
		t.Errorf("block %d", block)
	}
	exec("DROP TRIGGER refuse")
	if uid, err := l.Register(t.Context(), 1, b, b); err != nil || uid != 2 {
		t.Errorf("uid %d, %v", uid, err)
	}
	same(t, l, 0)
}

func TestNonces(t *testing.T) {
	l := stepped(t, PresetDemo)
	l.now = func() time.Time { return time.UnixMilli(1_000_000) }
	until := time.UnixMilli(2_000_000)
	for i, want := range []bool{true, false, false} {
		if fresh, err := l.Seen(t.Context(), "agon-v1", "hot", "n", until); err != nil || fresh != want {
			t.Errorf("time %d: %t, %v", i, fresh, err)
		}
	}
	if fresh, err := l.Seen(t.Context(), "agon-v1", "other", "n", until); err != nil || !fresh {
		t.Errorf("another's nonce: %t, %v", fresh, err)
	}
	l.now = func() time.Time { return time.UnixMilli(3_000_000) }
	if fresh, err := l.Seen(t.Context(), "agon-v1", "hot", "n", until.Add(time.Hour)); err != nil || !fresh {
		t.Errorf("long after: %t, %v", fresh, err)
	}
}

// A year of blocks in which nobody does anything.
func TestYear(t *testing.T) {
	l := stepped(t, PresetLocal)
	subnetOf(t, l, 1)
	const year = 365 * 24 * 3600 / 12
	if block := step(t, l, year); block != year {
		t.Errorf("block %d", block)
	}
	if m := graph(t, l, 1); m.Epoch.Index != year/360 || m.Epoch.LastStep != 360*m.Epoch.Index {
		t.Errorf("%+v", m.Epoch)
	}
}

func BenchmarkYear(b *testing.B) {
	for b.Loop() {
		l := stepped(b, PresetLocal)
		for netuid := uint16(1); netuid <= 5; netuid++ {
			s := Subnet{OwnerHotkey: ledgertest.Key(b, "owner"), OwnerColdkey: ledgertest.Key(b, "owner-cold")}
			if err := l.EnsureSubnet(b.Context(), netuid, s); err != nil {
				b.Fatal(err)
			}
		}
		step(b, l, 2_628_000)
	}
}

// BenchmarkExtrinsics is durable commitments by many at once.
func BenchmarkExtrinsics(b *testing.B) {
	l := stepped(b, PresetLocal)
	owner := ledgertest.Key(b, "owner")
	h := l.hyper
	h.CommitmentSpace = 1 << 40
	if err := l.EnsureSubnet(b.Context(), 1, Subnet{OwnerHotkey: owner, OwnerColdkey: owner, Hyper: &h}); err != nil {
		b.Fatal(err)
	}
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := l.Commit(b.Context(), 1, owner, ledger.Raw([]byte("x"))); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "extrinsics/s")
}
