package local

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
)

// clock is a clock that tests set.
type clock struct{ ms atomic.Int64 }

func (c *clock) now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(1_760_000_000_000)
	return c
}

func open(t *testing.T, path string, cfg Config) *Ledger {
	t.Helper()
	l, err := Open(t.Context(), path, cfg)
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

func subnetOf(t *testing.T, l *Ledger, netuid uint16) {
	t.Helper()
	s := Subnet{OwnerHotkey: ledgertest.Key(t, "owner"), OwnerColdkey: ledgertest.Key(t, "owner-cold")}
	if err := l.EnsureSubnet(t.Context(), netuid, s); err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	ledgertest.Run(t, func(t *testing.T) *ledgertest.Bench {
		c := newClock()
		l := open(t, filepath.Join(t.TempDir(), "ledger.db"), Config{Now: c.now})
		const netuid = 7
		subnetOf(t, l, netuid)
		return &ledgertest.Bench{
			Ledger: l, Netuid: netuid,
			Advance: func(blocks uint64) { c.advance(time.Duration(blocks) * l.BlockTime()) },
			Validator: func(hotkey string, stake uint64) {
				if err := l.SetValidator(t.Context(), netuid, hotkey, true, stake); err != nil {
					t.Fatal(err)
				}
			},
			Hyper: func(change func(*ledger.Hyperparameters)) {
				m, err := l.Metagraph(t.Context(), netuid)
				if err != nil {
					t.Fatal(err)
				}
				change(&m.Hyper)
				if err := l.SetHyperparameters(t.Context(), netuid, m.Hyper); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func TestRestartGoesOn(t *testing.T) {
	c, path := newClock(), filepath.Join(t.TempDir(), "odd name ?#%20.db")
	hot, cold := ledgertest.Key(t, "a"), ledgertest.Key(t, "a-cold")
	first, err := Open(t.Context(), path, Config{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	subnetOf(t, first, 1)
	subnetOf(t, first, 3)
	c.advance(10 * time.Second)
	uid, err := first.Register(t.Context(), 1, hot, cold)
	if err != nil {
		t.Fatal(err)
	}
	stamp, err := first.Commit(t.Context(), 1, hot, ledger.Raw([]byte("x")))
	if err != nil || stamp != 10 {
		t.Fatalf("stamp %d, %v", stamp, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Metagraph(t.Context(), 1); err == nil {
		t.Error("a closed ledger answers")
	}

	c.advance(5 * time.Second)
	again := open(t, path, Config{Now: c.now})
	if block, err := again.Block(t.Context()); err != nil || block != 15 {
		t.Errorf("block %d, %v", block, err)
	}
	subnetOf(t, again, 1) // changes nothing
	m, err := again.Metagraph(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := m.Neuron(hot); !ok || n.UID != uid || n.Coldkey != cold {
		t.Errorf("neuron %+v %t", n, ok)
	}
	if got, err := again.Commitments(t.Context(), 1); err != nil || len(got) != 1 || got[0].Block != stamp {
		t.Errorf("commitments %+v %v", got, err)
	}
	if got, err := again.Subnets(t.Context()); err != nil || len(got) != 2 || got[0] != 1 || got[1] != 3 {
		t.Errorf("subnets %v %v", got, err)
	}
}

func TestClockSetBack(t *testing.T) {
	c, path := newClock(), filepath.Join(t.TempDir(), "l.db")
	l, err := Open(t.Context(), path, Config{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	c.advance(100 * time.Second)
	subnetOf(t, l, 1)
	c.advance(-time.Hour)
	if block, _ := l.Block(t.Context()); block != 100 {
		t.Errorf("block %d", block)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path, Config{Now: c.now})
	if block, _ := again.Block(t.Context()); block != 100 {
		t.Errorf("block %d after a restart with the clock set back", block)
	}
}

func TestColdkeyOwnsHotkeyEverywhere(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "l.db"), Config{Now: newClock().now})
	subnetOf(t, l, 1)
	subnetOf(t, l, 2)
	hot, cold, other := ledgertest.Key(t, "a"), ledgertest.Key(t, "a-cold"), ledgertest.Key(t, "b-cold")
	if _, err := l.Register(t.Context(), 1, hot, cold); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Register(t.Context(), 2, hot, other); !errors.Is(err, ledger.ErrNonAssociatedColdkey) {
		t.Errorf("another coldkey: %v", err)
	}
	if _, err := l.Register(t.Context(), 2, hot, cold); err != nil {
		t.Errorf("same coldkey: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	c, path := newClock(), filepath.Join(t.TempDir(), "l.db")
	first, err := Open(t.Context(), path, Config{Now: c.now, BlockTime: 250 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var coded *agon.Error
	if l, err := Open(t.Context(), path, Config{Now: c.now}); !errors.As(err, &coded) || coded.Code != "ledger_in_use" {
		t.Errorf("opened twice: %v %v", l, err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{
		"block time": {BlockTime: time.Second}, "short block": {BlockTime: time.Microsecond},
		"genesis": {Genesis: time.Unix(5, 0)}, "preset": {Preset: "finney"}, "stepped": {Stepped: true}, "both": {Stepped: true, BlockTime: time.Second},
	} {
		cfg.Now = c.now
		if l, err := Open(t.Context(), path, cfg); err == nil {
			t.Errorf("%s: opened", name)
			l.Close()
		}
	}
	if l, err := Open(t.Context(), filepath.Join(t.TempDir(), "no", "dir", "l.db"), Config{}); err == nil {
		t.Error("missing directory: opened")
		l.Close()
	}
}

func TestEnsureSubnetRefuses(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "l.db"), Config{Now: newClock().now})
	subnetOf(t, l, 1)
	a, b := ledgertest.Key(t, "a"), ledgertest.Key(t, "b")
	for name, c := range map[string]struct {
		netuid uint16
		s      Subnet
	}{
		"another owner": {1, Subnet{OwnerHotkey: a, OwnerColdkey: b}},
		"root":          {0, Subnet{OwnerHotkey: a, OwnerColdkey: b}},
		"no address":    {2, Subnet{OwnerHotkey: "a", OwnerColdkey: b}},
		"no uids":       {2, Subnet{OwnerHotkey: a, OwnerColdkey: b, Hyper: &ledger.Hyperparameters{Tempo: 1}}},
	} {
		if err := l.EnsureSubnet(t.Context(), c.netuid, c.s); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := l.SetValidator(t.Context(), 1, a, true, 1); !errors.Is(err, ledger.ErrNotRegistered) {
		t.Errorf("permit of a stranger: %v", err)
	}
	if err := l.SetValidator(t.Context(), 9, a, true, 1); !errors.Is(err, ledger.ErrSubnetNotExists) {
		t.Errorf("permit on no subnet: %v", err)
	}
	if err := l.SetValidator(t.Context(), 1, ledgertest.Key(t, "owner"), true, 1<<63); err == nil {
		t.Error("a stake over 2^63 is accepted")
	}
}

// A write whose caller goes away leaves nothing behind, and the next one works.
func TestCancelledWrite(t *testing.T) {
	l := open(t, filepath.Join(t.TempDir(), "l.db"), Config{Now: newClock().now})
	subnetOf(t, l, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Register(ctx, 1, ledgertest.Key(t, "a"), ledgertest.Key(t, "b")); err == nil {
		t.Error("registered with a dead context")
	}
	if uid, err := l.Register(t.Context(), 1, ledgertest.Key(t, "a"), ledgertest.Key(t, "b")); err != nil || uid != 1 {
		t.Errorf("uid %d, %v", uid, err)
	}
}
