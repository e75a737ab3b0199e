package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/timelock"
)

// round1000 is the signature of quicknet's round 1000.
const round1000 = "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39"

// sealed is weights that round opens, of a hotkey.
func sealed(t *testing.T, hotkey string, round uint64, uids, values []uint16) []byte {
	t.Helper()
	pub, err := auth.ParseSS58(hotkey)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := (&timelock.Payload{Hotkey: pub, UIDs: uids, Values: values}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	b, err := timelock.Encrypt(rand.Reader, round, plain)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Timelocked weights are set in the epoch of their reveal, when their round is
// out; what is late, of another hotkey, or not to be opened, is dropped.
func TestTimelockedWeights(t *testing.T) {
	ctx := t.Context()
	l, err := Open(ctx, filepath.Join(t.TempDir(), "l.db"), Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h, err := Hyperparameters(PresetDemo)
	if err != nil {
		t.Fatal(err)
	}
	h.CommitReveal = true
	owner, other := ledgertest.Key(t, "owner"), ledgertest.Key(t, "other")
	if err := l.EnsureSubnet(ctx, 1, Subnet{OwnerHotkey: owner, OwnerColdkey: ledgertest.Key(t, "cold"), Hyper: &h}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Register(ctx, 1, other, ledgertest.Key(t, "cold")); err != nil {
		t.Fatal(err)
	}
	if err := l.AddStake(ctx, 1, owner, ledgertest.Key(t, "cold"), 500*tao); err != nil {
		t.Fatal(err)
	}
	signature, err := hex.DecodeString(round1000)
	if err != nil {
		t.Fatal(err)
	}
	step := func(n uint64) {
		t.Helper()
		if _, err := l.Step(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(hotkey string, data []byte, round uint64, version uint16, want error) {
		t.Helper()
		if err := l.CommitTimelocked(ctx, 1, hotkey, data, round, version); !errors.Is(err, want) {
			t.Errorf("commit: %v, want %v", err, want)
		}
	}
	look := func(rows, waiting int) *ledger.Metagraph {
		t.Helper()
		m, err := l.Metagraph(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		left, err := l.Timelocked(ctx, 1)
		if err != nil || len(m.Weights) != rows || len(left) != waiting {
			t.Errorf("block %d: weights %v, waiting %d, want %d and %d: %v", m.Block, m.Weights, len(left), rows, waiting, err)
		}
		return m
	}
	step(2)
	good := sealed(t, owner, 1000, []uint16{0, 1}, []uint16{1, 3})
	commit(owner, good, 1000, 3, ledger.ErrCommitRevealVersion)
	commit(ledgertest.Key(t, "stranger"), good, 1000, 4, ledger.ErrNotRegistered)
	commit(owner, good, 1000, 4, nil)
	commit(owner, good, 1000, 4, ledger.ErrCommittingTooFast)
	commit(other, good, 1000, 4, nil) // the owner's, copied: it is dropped
	m := look(0, 2)
	if n, _ := m.Neuron(owner); len(n.Commits) != 1 || n.Commits[0].Round != 1000 {
		t.Errorf("commits %+v", n.Commits)
	}
	if wanted, err := l.Wanted(ctx); err != nil || !slices.Equal(wanted, []uint64{1000}) {
		t.Errorf("wanted %v %v", wanted, err)
	}
	if err := l.AddRound(ctx, 1001, signature); err == nil {
		t.Error("a round took the signature of another")
	}
	step(20) // its epoch
	look(0, 2)
	if err := l.AddRound(ctx, 1000, signature); err != nil {
		t.Fatal(err)
	}
	m = look(1, 0)
	if len(m.Weights) == 1 && (m.Weights[0].UID != 0 || !slices.Equal(m.Weights[0].Values, []uint16{21845, 65535})) {
		t.Errorf("weights %+v", m.Weights)
	}
	commit(owner, good, 999, 4, ledger.ErrInvalidRevealRound)
	// The round is out before the epoch: the weights wait for the epoch.
	commit(owner, sealed(t, owner, 1000, []uint16{0}, []uint16{1}), 1000, 4, nil)
	commit(other, []byte("no ciphertext"), 1000, 4, nil)
	look(1, 2)
	step(20)
	if m = look(1, 0); len(m.Weights) == 1 && !slices.Equal(m.Weights[0].UIDs, []uint16{0}) {
		t.Errorf("weights %+v", m.Weights)
	}
	// That epoch counted them, and no longer those before.
	if m.Neurons[0].Incentive != 65535 || m.Neurons[1].Incentive != 0 {
		t.Errorf("incentives %d and %d", m.Neurons[0].Incentive, m.Neurons[1].Incentive)
	}
	// No signature comes in the epoch of the reveal.
	commit(owner, sealed(t, owner, 5000, []uint16{1}, []uint16{1}), 5000, 4, nil)
	step(20)
	look(1, 1)
	step(20)
	look(1, 0)
	// Rounds that are over are refused; one that no beacon will ever sign is not asked for, and its weights are dropped.
	commit(owner, good, 0, 4, ledger.ErrInvalidRevealRound)
	commit(owner, good, math.MaxUint64, 4, nil)
	if err := l.fetchRounds(ctx, func(_ context.Context, round uint64) ([]byte, error) {
		t.Errorf("round %d was asked for", round)
		return nil, nil
	}); err != nil {
		t.Error(err)
	}
	step(40)
	look(1, 0)
	// The log gives the same state.
	now, err := l.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.Replay(ctx, 0); err != nil || !bytes.Equal(now, again) {
		t.Errorf("the log gives another state: %v", err)
	}
}

// FollowRounds asks for what is due, and for nothing else.
func TestFollowRounds(t *testing.T) {
	ctx := t.Context()
	now := timelock.TimeOf(1000).Add(time.Second)
	l, err := Open(ctx, filepath.Join(t.TempDir(), "l.db"), Config{Stepped: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h, err := Hyperparameters(PresetDemo)
	if err != nil {
		t.Fatal(err)
	}
	h.CommitReveal, h.WeightsRateLimit = true, 0
	owner := ledgertest.Key(t, "owner")
	if err := l.EnsureSubnet(ctx, 1, Subnet{OwnerHotkey: owner, OwnerColdkey: ledgertest.Key(t, "cold"), Hyper: &h}); err != nil {
		t.Fatal(err)
	}
	for _, round := range []uint64{1000, 5000} {
		if err := l.CommitTimelocked(ctx, 1, owner, sealed(t, owner, round, []uint16{0}, []uint16{1}), round, 4); err != nil {
			t.Fatal(err)
		}
	}
	var asked []uint64
	source := func(_ context.Context, round uint64) ([]byte, error) {
		asked = append(asked, round)
		return hex.DecodeString(round1000)
	}
	for range 2 {
		if err := l.fetchRounds(ctx, source); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(asked, []uint64{1000}) {
		t.Errorf("asked for %v", asked)
	}
	if got, err := l.Pulse(ctx, 1000); err != nil || hex.EncodeToString(got) != round1000 {
		t.Errorf("round 1000: %x %v", got, err)
	}
}
