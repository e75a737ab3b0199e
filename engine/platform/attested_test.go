package platform

import (
	"fmt"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/gateway"
)

// called makes n calls of an attempt at a gateway's books and closes it.
func called(t testing.TB, b *gateway.Books, run string, attempt, n int) ([]agon.Receipt, *agon.Statement) {
	t.Helper()
	var list []agon.Receipt
	if n > 0 {
		p, err := b.Purse(bg, run, attempt, fmt.Sprintf("%s/%d/run", run, attempt), agon.Budget{Micros: 1000, Calls: 100})
		must(t, err)
		for i := range n {
			id := fmt.Sprintf("%s-%d-%d", run, attempt, i)
			must(t, p.Reserve(id, gateway.Amount{Micros: 9, Calls: 1}))
			r := &agon.Receipt{ID: id, Reserved: 9}
			_, err := p.Settle(bg, id, gateway.Amount{Micros: 5, Calls: 1}, r)
			must(t, err)
			list = append(list, *r)
		}
		must(t, p.Close(bg))
	}
	s, err := b.Seal(bg, run, attempt)
	must(t, err)
	return list, s
}

// Where an arena names its gateway's key, a result needs all that was called
// under it, and the gateway's word that it is all.
func TestAttested(t *testing.T) {
	b, err := gateway.NewBooks(bg, gateway.BooksConfig{})
	must(t, err)
	other, err := gateway.NewBooks(bg, gateway.BooksConfig{})
	must(t, err)
	a := store.Attempt{Attempt: agon.Attempt{Run: "r", N: 1}}
	list, st := called(t, b, "r", 1, 3)
	none, stNone := called(t, b, "quiet", 1, 0)
	later, stLater := called(t, b, "r", 2, 3)
	_, stOther := called(t, other, "r", 1, 3)
	edit := func(f func(s *agon.Statement)) *agon.Statement { s := *st; f(&s); return &s }
	cut := list[:2]
	added := append(list[:3:3], agon.Receipt{ID: "x", Run: "r", Attempt: 1, N: 4, Prev: st.Head, Cost: 1, Reserved: 1})
	own := []string(nil)
	key := []string{b.Signer()}
	for _, c := range []struct {
		name string
		keys []string
		r    client.Result
		ok   bool
	}{
		{"whole", key, client.Result{Receipts: list, Statement: st, Cost: 15}, true},
		{"whole, at the validator's own gateway", own, client.Result{Receipts: list, Statement: st, Cost: 15}, true},
		{"own tools cost more", own, client.Result{Receipts: list, Statement: st, Cost: 20}, true},
		{"told to cost less", own, client.Result{Receipts: list, Statement: st, Cost: 14}, false},
		{"no statement is demanded", own, client.Result{Receipts: list, Cost: 15}, true},
		{"statement missing", key, client.Result{Receipts: list, Cost: 15}, false},
		{"statement missing, no call was made", key, client.Result{}, false},
		{"all receipts left out", key, client.Result{Statement: st}, false},
		{"all receipts left out, cost told", key, client.Result{Statement: st, Cost: 15}, false},
		{"the last left out", key, client.Result{Receipts: cut, Statement: st, Cost: 10}, false},
		{"the first left out", key, client.Result{Receipts: list[1:], Statement: st, Cost: 10}, false},
		{"one added", key, client.Result{Receipts: added, Statement: st, Cost: 16}, false},
		{"one twice", key, client.Result{Receipts: []agon.Receipt{list[0], list[1], list[1]}, Statement: st, Cost: 15}, false},
		{"of another attempt", key, client.Result{Receipts: later, Statement: stLater, Cost: 15}, false},
		{"receipts of another attempt", key, client.Result{Receipts: later, Statement: st, Cost: 15}, false},
		{"of another run without calls", key, client.Result{Receipts: none, Statement: stNone}, false},
		{"of another gateway", key, client.Result{Receipts: list, Statement: stOther, Cost: 15}, false},
		{"fewer calls written in", key, client.Result{Receipts: cut, Statement: edit(func(s *agon.Statement) { s.Calls = 2 }), Cost: 10}, false},
		{"another sum written in", key, client.Result{Receipts: list, Statement: edit(func(s *agon.Statement) { s.Cost = 1 }), Cost: 1}, false},
		{"another run written in", key, client.Result{Receipts: none, Statement: func() *agon.Statement { s := *stNone; s.Run = "r"; return &s }()}, false},
		{"no signature", key, client.Result{Receipts: list, Statement: edit(func(s *agon.Statement) { s.Sig = "" }), Cost: 15}, false},
		{"another signer written in", key, client.Result{Receipts: list, Statement: edit(func(s *agon.Statement) { s.Signer = other.Signer() }), Cost: 15}, false},
		{"another cost than the receipts'", key, client.Result{Receipts: list, Statement: st, Cost: 7}, false},
		{"a fault of ours", key, client.Result{Receipts: cut, Fault: agon.FaultProvider}, true},
	} {
		if err := attested(a, c.r, c.keys, new(Platform).closing(c.r)); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// After the operator has changed the gateway's key, results need the new one.
func TestGatewayKeyChanges(t *testing.T) {
	old, err := gateway.NewBooks(bg, gateway.BooksConfig{})
	must(t, err)
	next, err := gateway.NewBooks(bg, gateway.BooksConfig{})
	must(t, err)
	f := newFixture(t, 1, func(_ *Config, a *agon.Arena) { a.Policy.GatewayKey = old.Signer() })
	f.submit(miner1, "code")
	l := f.claim(val1)
	f.arena.Policy.GatewayKey = next.Signer()
	must(t, f.EnsureArena(bg, f.arena))
	r := scored(l, 1)
	r.Receipts, r.Statement = called(t, old, l.Run.Run, l.Attempt, 2)
	_, err = f.Platform.Result(bg, Caller{Hotkey: val1}, l.ID, r)
	wantCode(t, err, 422, "bad_receipts")
	r.Receipts, r.Statement = called(t, next, l.Run.Run, l.Attempt, 2)
	f.result(val1, l, r)
	got, err := f.Run(bg, Caller{}, l.Run.Run)
	must(t, err)
	if s := got.List[0].Statement; s == nil || *s != *r.Statement {
		t.Errorf("the attempt keeps the statement %+v", s)
	}
	kept, err := f.Receipts(bg, Caller{Hotkey: miner1}, l.Run.Run, l.Attempt)
	must(t, err)
	for i, x := range kept {
		was := r.Receipts[i]
		if was.Sig == "" || x.Sig != "" || gateway.ReceiptHash(x) != gateway.ReceiptHash(was) {
			t.Errorf("receipt %d is kept as %+v, it came as %+v: want it without its own signature, which nobody has checked", i, x, was)
		}
	}
	if err := gateway.CheckStatement(got.List[0].Statement, l.Run.Run, l.Attempt, kept, []string{next.Signer()}); err != nil || len(kept) != 2 {
		t.Errorf("the kept statement over the %d kept receipts: %v", len(kept), err)
	}
}
