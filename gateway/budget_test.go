package gateway

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
)

func TestAccount(t *testing.T) {
	a, err := NewAccount(agon.Budget{Micros: 100, Calls: 3, Tokens: 50})
	if err != nil {
		t.Fatal(err)
	}
	short := func(err error, what string, left Amount) {
		t.Helper()
		var e *ErrBudget
		if !errors.As(err, &e) || e.What != what || e.Left != left {
			t.Errorf("got %v, want %s with %+v left", err, what, left)
		}
	}
	if err := a.Reserve("a", Amount{60, 1, 20}); err != nil {
		t.Fatal(err)
	}
	if a.Reserve("a", Amount{1, 1, 1}) == nil {
		t.Error("reserved twice")
	}
	if a.Reserve("x", Amount{-1, 0, 0}) == nil || a.Reserve("x", Amount{0, -1, 0}) == nil || a.Reserve("x", Amount{0, 0, -1}) == nil {
		t.Error("reserved a negative amount")
	}
	short(a.Reserve("b", Amount{41, 1, 1}), "money", Amount{40, 2, 30})
	short(a.Reserve("b", Amount{1, 1, 31}), "tokens", Amount{40, 2, 30})
	short(a.Reserve("b", Amount{1, 3, 1}), "calls", Amount{40, 2, 30})
	short(a.Reserve("b", Amount{math.MaxInt64, 1, 1}), "money", Amount{40, 2, 30})
	if b, err := a.Settle("a", Amount{70, 1, 10}); err != nil || b != (Amount{60, 1, 10}) {
		t.Errorf("settled %+v %v", b, err)
	}
	if a.Over() != (Amount{10, 0, 0}) {
		t.Errorf("over %+v", a.Over())
	}
	if _, err := a.Settle("a", Amount{}); err == nil {
		t.Error("settled twice")
	}
	if err := a.Reserve("c", Amount{40, 1, 40}); err != nil {
		t.Fatal(err)
	}
	if b, err := a.Settle("c", Amount{-5, -1, -9}); err != nil || b != (Amount{}) {
		t.Errorf("settled %+v %v", b, err)
	}
	if a.Left() != (Amount{40, 2, 40}) || a.Spent() != (Amount{60, 1, 10}) || a.Open() != 0 {
		t.Errorf("left %+v spent %+v open %d", a.Left(), a.Spent(), a.Open())
	}
	if err := a.Reserve("d", Amount{1, 1, 1}); err != nil {
		t.Fatal(err)
	}
	_, _ = a.Settle("d", Amount{math.MaxInt64, 1, math.MaxInt64})
	_ = a.Reserve("e", Amount{1, 1, 1})
	_, _ = a.Settle("e", Amount{math.MaxInt64, 1, math.MaxInt64})
	if a.Over().Micros != math.MaxInt64 || a.Over().Tokens != math.MaxInt64 {
		t.Errorf("over %+v", a.Over())
	}
	for _, b := range []agon.Budget{{Micros: -1}, {Calls: -1}, {Tokens: -1}} {
		if _, err := NewAccount(b); err == nil {
			t.Errorf("opened with %+v", b)
		}
	}
	none, _ := NewAccount(agon.Budget{})
	short(none.Reserve("a", Amount{0, 1, 0}), "calls", Amount{0, 0, math.MaxInt64})
}

// 64 callers reserve and settle at random, often for more than is there and
// more than they reserved. At no moment is more spent or held than allowed.
func TestAccountNeverOverspends(t *testing.T) {
	for seed := range uint64(20) {
		limit := agon.Budget{Micros: 10_007, Calls: 900, Tokens: 50_021}
		if seed%2 == 0 {
			limit.Tokens = 0
		}
		books, err := NewBooks(t.Context(), BooksConfig{})
		if err != nil {
			t.Fatal(err)
		}
		a, err := books.open(t.Context(), "s", 1, "s", limit)
		if err != nil {
			t.Fatal(err)
		}
		acc := a.acct
		check := func() {
			l, s, h := acc.Account.limit, acc.spent, acc.held
			if s.Micros+h.Micros > l.Micros || s.Calls+h.Calls > l.Calls || (limit.Tokens > 0 && s.Tokens+h.Tokens > l.Tokens) ||
				s.Micros < 0 || h.Micros < 0 || h.Calls < 0 || h.Tokens < 0 {
				t.Errorf("limit %+v spent %+v held %+v", l, s, h)
			}
		}
		var sum sync.Map
		var wg sync.WaitGroup
		for w := range 64 {
			wg.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(w)))
				var mine Amount
				for i := range 40 {
					id := fmt.Sprintf("%d-%d", w, i)
					want := Amount{agon.Micros(r.Int64N(400)), 1, r.Int64N(2000)}
					if r.IntN(50) == 0 {
						want.Micros = math.MaxInt64 - agon.Micros(r.Int64N(5))
					}
					if _, err := a.reserve(id, want); err != nil {
						continue
					}
					used := Amount{agon.Micros(r.Int64N(800) - 50), int64(r.IntN(3)), r.Int64N(4000) - 100}
					b, err := a.settle(t.Context(), id, used, &agon.Receipt{ID: id})
					if err != nil || b.Micros > want.Micros || b.Tokens > want.Tokens || b.Calls > 1 {
						t.Errorf("settled %+v of %+v: %v", b, want, err)
					}
					mine.Micros += b.Micros
					mine.Calls += b.Calls
					mine.Tokens += b.Tokens
					books.mu.Lock()
					check()
					books.mu.Unlock()
				}
				sum.Store(w, mine)
			})
		}
		wg.Wait()
		var all Amount
		sum.Range(func(_, v any) bool {
			m := v.(Amount)
			all = Amount{all.Micros + m.Micros, all.Calls + m.Calls, all.Tokens + m.Tokens}
			return true
		})
		spent, left := a.balance()
		if all != spent || left.Micros != limit.Micros-spent.Micros || acc.Open() != 0 || acc.held != (Amount{}) {
			t.Errorf("seed %d: callers booked %+v, account %+v, left %+v, held %+v", seed, all, spent, left, acc.held)
		}
		if err := a.close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestCost(t *testing.T) {
	p := Price{In: 1_000_000, Out: 3}
	for _, c := range []struct {
		p            Price
		prompt, comp int64
		want         agon.Micros
	}{
		{p, 0, 0, 0},
		{p, 7, 0, 7},
		{p, 0, 1, 1}, // rounded up
		{p, 7, 333_333, 8},
		{p, 7, 333_334, 9},
		{p, -7, -1, 0},
		{Price{In: 272_200}, 1_000_000, 0, 272_200},
		{Price{In: maxPrice, Out: maxPrice}, math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{Price{In: maxPrice}, maxUsage, 0, 1_000_000_000_000_000_000},
		{Price{In: 1}, math.MaxInt64, 0, math.MaxInt64/1_000_000 + 1},
	} {
		if got := c.p.cost(c.prompt, c.comp); got != c.want {
			t.Errorf("%+v cost(%d, %d) = %d, want %d", c.p, c.prompt, c.comp, got, c.want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		p := Price{In: r.Int64N(30_000_000), Out: r.Int64N(100_000_000)}
		money, prompt, most := agon.Micros(r.Int64N(5_000_000)), r.Int64N(200_000), r.Int64N(100_000)
		n := p.affordable(money, prompt, most)
		switch {
		case n < 0:
			if p.cost(prompt, 0) <= money {
				t.Fatalf("%+v: nothing affordable of %d", p, money)
			}
		case p.cost(prompt, n) > money, n > most, n < most && p.cost(prompt, n+1) <= money:
			t.Fatalf("%+v affordable(%d, %d, %d) = %d", p, money, prompt, most, n)
		}
	}
}

func TestUpperBound(t *testing.T) {
	for _, c := range []struct {
		micros agon.Micros
		runs   int
		want   agon.Micros
	}{{2_000_000, 54, 108_000_000}, {0, 5, 0}, {5, 0, 0}, {5, -1, 0}, {-5, 2, 0}, {math.MaxInt64, 2, math.MaxInt64}} {
		if got := UpperBound(agon.Budget{Micros: c.micros}, c.runs); got != c.want {
			t.Errorf("UpperBound(%d, %d) = %d, want %d", c.micros, c.runs, got, c.want)
		}
	}
}

func TestPrices(t *testing.T) {
	p, err := LoadPrices()
	if err != nil {
		t.Fatal(err)
	}
	if s := p["scripted"]; s.In != 0 || s.Out != 0 || s.Version != "2026-11" {
		t.Errorf("scripted %+v", s)
	}
	env := func(kv map[string]string) func(string) string { return func(k string) string { return kv[k] } }
	for _, c := range []struct {
		model string
		env   map[string]string
		want  string
		in    int64
	}{
		{"gpt-4o-mini", nil, "2026-11", 150_000},
		{"my/model", nil, "assumed", assumedIn},
		{"my/model-2", map[string]string{"AGON_LLM_PRICE_IN": "7", "AGON_LLM_PRICE_OUT": "8"}, "operator", 7},
		{"gpt-4o", map[string]string{"AGON_LLM_PRICE_IN": "7", "AGON_LLM_PRICE_OUT": "8"}, "operator", 7},
	} {
		note, err := p.Operator(c.model, env(c.env))
		if err != nil || (note == "") != (c.want == "2026-11") || p[c.model].In != c.in || p[c.model].Version != c.want {
			t.Errorf("%s: %s %v %+v", c.model, note, err, p[c.model])
		}
	}
	if p["gpt-4o"].LimitField != "max_completion_tokens" {
		t.Error("an operator's price loses the field of the limit")
	}
	for _, kv := range []map[string]string{
		{"AGON_LLM_PRICE_IN": "7"},
		{"AGON_LLM_PRICE_OUT": "7"},
		{"AGON_LLM_PRICE_IN": "0.5", "AGON_LLM_PRICE_OUT": "1"},
		{"AGON_LLM_PRICE_IN": "-1", "AGON_LLM_PRICE_OUT": "1"},
	} {
		if _, err := p.Operator("x", env(kv)); err == nil {
			t.Errorf("took %v", kv)
		}
	}
}
