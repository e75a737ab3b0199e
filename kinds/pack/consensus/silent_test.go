package consensus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
)

// mostStep is how long a step may take, whoever is silent.
const mostStep = 35 * time.Second

// silent registers n miners, each with a pack at an address of its own.
func (w *world) silent(n int, url func(i int) string) {
	w.t.Helper()
	for i := range n {
		hotkey := ledgertest.Key(w.t, fmt.Sprint("silent-", i))
		if _, err := w.l.Register(w.t.Context(), testNet, hotkey, hotkey); err != nil {
			w.t.Fatal(err)
		}
		text, err := packfile.Commitment{Hash: fmt.Sprintf("%064x", i+1), URL: url(i)}.Write()
		if err != nil {
			w.t.Fatal(err)
		}
		if _, err := w.l.Commit(w.t.Context(), testNet, hotkey, ledger.Raw([]byte(text))); err != nil {
			w.t.Fatal(err)
		}
	}
}

// within steps a validator at a block, in time.
func (w *world) within(block uint64, val int) {
	w.t.Helper()
	w.to(block)
	start := time.Now()
	w.to(block, val)
	if took := time.Since(start); took > mostStep {
		w.t.Errorf("the step at block %d took %s, want at most %s", block, took, mostStep)
	}
}

// Two hundred servers of packs, and the stores of ten validators, never answer. No step
// takes longer than one of them may; what the others said is decided in the window.
func TestSilentStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stakes := []uint64{40_000, 35_000}
		for i := range 10 {
			stakes = append(stakes, 5_000+uint64(i)*600) // one of them has stake enough to be asked and waited for
		}
		w := newWorld(t, stakes...)
		var asked atomic.Int32
		w.conf = func(c *NodeConfig) {
			known := c.Fetch
			c.Fetch = func(ctx context.Context, url string) ([]byte, error) {
				if !strings.Contains(url, "silent") {
					return known(ctx, url)
				}
				asked.Add(1)
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		w.start(0)
		w.start(1)
		w.to(5)
		w.commit(0, policyA, 1)
		w.silent(200, func(i int) string { return fmt.Sprintf("https://silent%d.example/p.json", i) })
		w.within(10, 0)
		w.within(20, 0)
		if n := asked.Load(); n != 200 {
			t.Errorf("%d requests in two steps, want one of each server", n)
		}
		w.to(10, 1)
		w.within(82, 0)
		w.within(82, 1)
		for i := range 10 {
			w.points(2+i, 0, "https://silent.example/"+string(agon.Sum([]byte{byte(i)})))
		}
		asked.Store(0)
		w.within(92, 0)
		if s := w.nodes[0].Status(); s.Agreed >= 0 || !strings.Contains(s.Short, "1 payloads could not be read") || asked.Load() != 1 {
			t.Errorf("at first: agreed %d, short %q, %d requests", s.Agreed, s.Short, asked.Load())
		}
		w.within(95, 0)
		w.agree(w.miners[0], 0)
		if s := w.nodes[0].Status(); s.Agreed != 0 || len(s.Rejected) != 10 {
			t.Errorf("after half of the phase: %+v", s)
		}
	})
}

// A validator that comes back after many windows reads the payloads of several at once: a validator whose store is silent in
// all of them holds it up by one wait for each eight windows, and it comes to what the others came to.
func TestCatchUpPastSilentStores(t *testing.T) {
	const windows = 18
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 40_000, 35_000, 20_000)
		for i := range uint64(windows) {
			w.to(i*100 + 5)
			if i == 0 {
				w.commit(0, policyA, 1)
			}
			if i == 9 {
				w.commit(1, policyB, 0.5) // takes the seat
			}
			w.to(i*100+10, 0, 1)
			w.to(i*100+82, 0, 1)
			w.points(2, int64(i), "https://silent.example/"+string(agon.Sum([]byte{byte(i)})))
			w.to(i*100+92, 0, 1)
			w.to(i*100+97, 0, 1) // half of the phase is over: they decide without it
		}
		var asked atomic.Int32
		w.conf = func(c *NodeConfig) {
			c.FetchPayload = func(ctx context.Context, _ string) ([]byte, error) {
				asked.Add(1)
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		w.dirs[1] = t.TempDir()
		w.start(1)
		start := time.Now()
		w.to(windows*100+5, 1)
		if took := time.Since(start); took > 3*fetchTime || asked.Load() != windows {
			t.Errorf("it took %s and %d requests", took, asked.Load())
		}
		a, b := w.nodes[0].Status(), w.nodes[1].Status()
		if b.Winner != w.miners[1] || b.Winner != a.Winner || b.Cost != a.Cost || b.Agreed != windows-1 || w.nodes[1].ahead != nil {
			t.Errorf("winner %s at %v in window %d, the others' %s at %v", b.Winner, b.Cost, b.Agreed, a.Winner, a.Cost)
		}
	})
}

// A seat that has stood for longer than a quarter of a year is the same for a validator that begins today:
// a pack that was never cheap enough to take it does not sit there.
func TestOldSeat(t *testing.T) {
	const windows = 70
	w := newWorld(t, 40_000, 35_000)
	for i := range uint64(windows) {
		w.to(i*100 + 5)
		switch i {
		case 0:
			w.commit(0, policyA, 1)
		case 1:
			w.commit(1, policyB, 0.95)
		}
		w.to(i*100+10, 0, 1)
		w.to(i*100+82, 0, 1)
		w.to(i*100+92, 0, 1)
	}
	w.dirs[1] = t.TempDir()
	w.start(1)
	w.to(windows*100+5, 0, 1)
	a, b := w.nodes[0].Status(), w.nodes[1].Status()
	if a.Winner != w.miners[0] || b.Winner != a.Winner || b.Cost != a.Cost {
		t.Errorf("who was there: %s at %v; who begins: %s at %v", a.Winner, a.Cost, b.Winner, b.Cost)
	}
}

// A payload that could not be read at first counts where it can be read later: who could
// not read it comes to what the others came to.
func TestPayloadIsReadLater(t *testing.T) {
	w := newWorld(t, 40_000, 35_000, 30_000)
	w.to(5)
	w.commit(0, policyA, 1)
	w.to(10, 0, 1, 2)
	w.eval[2] = func(*packfile.Pack) (Evaluation, error) { return Evaluation{Cost: 3, Qualified: true}, nil }
	w.dirs[2] = t.TempDir()
	w.start(2)
	w.to(82, 0, 1, 2)
	down := true
	hidden := agon.Sum(nil)
	for _, c := range w.said(2) {
		hidden = agon.Digest(c.Address)
	}
	w.conf = func(c *NodeConfig) {
		c.Store = Both{flaky{w.store, func(address string) bool { return down && address == string(hidden) }}}
	}
	w.start(0)
	w.to(92, 0, 1, 2)
	if s := w.nodes[0].Status(); s.Agreed >= 0 || !strings.Contains(s.Short, "could not be read") {
		t.Errorf("it decided without a payload that others read: %+v", s)
	}
	down = false
	w.to(94, 0)
	w.agree(w.miners[0], 0, 1, 2)
	for i := range 3 {
		if s := w.nodes[i].Status(); s.Filter.Passed != 3 || s.Cost != 1 {
			t.Errorf("validator %d: %s, cost %v", i, s.Filter, s.Cost)
		}
	}
}

// said are the pointers of a validator, oldest first.
func (w *world) said(val int) (out []packfile.Pointer) {
	w.t.Helper()
	list, err := w.l.History(w.t.Context(), testNet, w.vals[val], 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range list {
		if p, ok := packfile.ParsePointer(text(c)); ok {
			out = append(out, p)
		}
	}
	return out
}

// flaky is a store that does not answer about some addresses.
type flaky struct {
	Store
	down func(address string) bool
}

func (f flaky) Get(ctx context.Context, address string) ([]byte, string, error) {
	if f.down(address) {
		return nil, "", errors.New("status 502")
	}
	return f.Store.Get(ctx, address)
}

// The next place is asked when one fails or is silent; the first bytes win.
func TestFirstOf(t *testing.T) {
	gives := func(s string) place {
		return func(context.Context) ([]byte, string, error) { return []byte(s), s, nil }
	}
	fails := func(err error) place {
		return func(context.Context) ([]byte, string, error) { return nil, "", err }
	}
	silent := func(ctx context.Context) ([]byte, string, error) { <-ctx.Done(); return nil, "", ctx.Err() }
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		places []place
		want   string
		err    error
		within time.Duration
	}{
		"first":          {[]place{gives("a"), gives("b")}, "a", nil, 0},
		"after failures": {[]place{fails(broken), fails(ErrNotHere), gives("c")}, "c", nil, 0},
		"after silence":  {[]place{silent, silent, gives("c")}, "c", nil, 2 * patience},
		"nowhere":        {[]place{fails(ErrNotHere), fails(ErrNotHere)}, "", ErrNotHere, 0},
		"broken":         {[]place{fails(ErrNotHere), fails(broken)}, "", broken, 0},
		"all silent":     {[]place{silent, silent}, "", context.DeadlineExceeded, fetchTime},
		"no places":      {nil, "", ErrNotHere, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), fetchTime)
				defer cancel()
				start := time.Now()
				b, from, err := firstOf(ctx, c.places)
				if string(b) != c.want || from != c.want || !errors.Is(err, c.err) || time.Since(start) != c.within {
					t.Errorf("%q from %q, %v after %s", b, from, err, time.Since(start))
				}
			})
		})
	}
}

// BenchmarkSilentStores is a step of a validator over 200 real servers that take a
// request and never answer it.
func BenchmarkSilentStores(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var held sync.WaitGroup
	held.Go(func() {
		var open []net.Conn
		for {
			c, err := ln.Accept()
			if err != nil {
				break
			}
			open = append(open, c)
		}
		for _, c := range open {
			_ = c.Close()
		}
	})
	defer held.Wait()
	defer func() { _ = ln.Close() }()
	w := newWorld(b, 40_000)
	w.conf = func(c *NodeConfig) { c.Fetch = fetch.New(fetch.Config{AllowPrivate: true}).Get }
	w.to(5)
	w.silent(200, func(i int) string { return fmt.Sprintf("http://%s/%d", ln.Addr(), i) })
	for b.Loop() {
		w.start(0)
		w.to(10, 0)
		if s := w.nodes[0].Status(); len(s.Excluded) != 200 {
			b.Fatalf("%d of 200 packs are excluded", len(s.Excluded))
		}
	}
}

// Servers that never answer are asked at the same time, and not again at once.
func TestSilentServers(t *testing.T) {
	w := newWorld(t, 40_000)
	w.to(5)
	const silent = 3
	for i := range silent {
		url := fmt.Sprintf("https://silent%d.example/p.json", i)
		s, err := packfile.Commitment{Hash: strings.Repeat(fmt.Sprint(i), 64), URL: url}.Write()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.l.Commit(t.Context(), testNet, w.miners[i], ledger.Raw([]byte(s))); err != nil {
			t.Fatal(err)
		}
	}
	w.commit(3, policyA, 1)
	var calls atomic.Int32
	var all sync.WaitGroup
	all.Add(silent)
	w.conf = func(c *NodeConfig) {
		fetch := c.Fetch
		c.Fetch = func(ctx context.Context, url string) ([]byte, error) {
			if !strings.Contains(url, "silent") {
				return fetch(ctx, url)
			}
			if calls.Add(1) <= silent {
				all.Done()
				all.Wait() // each answers only when all have been asked
			}
			return nil, context.DeadlineExceeded
		}
	}
	w.start(0)
	w.to(10, 0)
	w.to(20, 0)
	if n := calls.Load(); n != silent {
		t.Errorf("%d requests in two steps, want %d", n, silent)
	}
	if s := w.nodes[0].Status(); s.Packs != 1 || len(s.Excluded) != silent {
		t.Errorf("%+v", s)
	}
	w.to(40, 0)
	if n := calls.Load(); n != 2*silent {
		t.Errorf("%d requests after a while, want %d", n, 2*silent)
	}
}
