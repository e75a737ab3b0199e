package platform

import (
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// A plan counts what was under the numbers of today, and changes nothing.
func TestRetunePlan(t *testing.T) {
	f := newFixture(t, 1, func(_ *Config, a *agon.Arena) {
		a.Attempts, a.MaxLeases, a.SubmissionsPerColdkey, a.Policy.Budget.Micros = 2, 1, 3, 100
	})
	op := Caller{Hotkey: operator, Operator: true}
	plan := func(r client.Retune) map[string]client.RetuneChange {
		t.Helper()
		before, err := f.Arena(bg, "demo")
		must(t, err)
		p, err := f.RetunePlan(bg, op, "demo", r)
		must(t, err)
		after, err := f.Arena(bg, "demo")
		must(t, err)
		if before.Attempts != after.Attempts || before.MaxLeases != after.MaxLeases || before.Policy.Budget.Micros != after.Policy.Budget.Micros || before.SubmissionsPerColdkey != after.SubmissionsPerColdkey {
			t.Error("a plan changed the arena")
		}
		out := map[string]client.RetuneChange{}
		for _, c := range p.Changes {
			out[c.Field] = c
		}
		return out
	}
	// One run is scored at its second retry, and costs 95 of 100; one fails for good.
	f.submit(miner1, "one")
	for range 2 {
		l := f.claim(val1)
		f.result(val1, l, client.Result{Token: l.Token, Outcome: "lost", Fault: agon.FaultProvider, Reason: "down", Driver: agon.Driver{Name: "runc"}})
	}
	l := f.claim(val1)
	r := scored(l, 0.5)
	r.Cost = 95
	f.result(val1, l, r)
	f.submit(miner1, "two")
	for range 3 {
		l := f.claim(val1)
		f.result(val1, l, client.Result{Token: l.Token, Outcome: "lost", Fault: agon.FaultProvider, Reason: "down", Driver: agon.Driver{Name: "runc"}})
	}
	for _, c := range []struct {
		name        string
		r           client.Retune
		field       string
		touched, of int64
		says        string
	}{
		{"fewer retries", client.Retune{Attempts: new(1)}, "attempts", 1, 2, "would have failed"},
		{"more retries", client.Retune{Attempts: new(4)}, "attempts", 1, 2, "tried again"},
		{"less money", client.Retune{BudgetMicros: new(agon.Micros(50))}, "budget_micros", 1, 1, "$0.000095"},
		{"more money", client.Retune{BudgetMicros: new(agon.Micros(500))}, "budget_micros", 1, 1, "nine tenths"},
		{"a little less", client.Retune{BudgetMicros: new(agon.Micros(96))}, "budget_micros", 0, 1, "0 spent more"},
		{"a smaller cap", client.Retune{SubmissionsPerColdkey: new(1)}, "submissions_per_coldkey", 1, 2, "1 of 1 coldkeys"},
		{"a larger cap", client.Retune{SubmissionsPerColdkey: new(9)}, "submissions_per_coldkey", 0, 2, "0 coldkeys"},
		{"no cap", client.Retune{SubmissionsPerColdkey: new(0)}, "submissions_per_coldkey", 0, 2, "0 coldkeys"},
		{"more leases", client.Retune{MaxLeases: new(5)}, "max_leases", 0, 1, "up to 4 more"},
	} {
		got := plan(c.r)[c.field]
		if got.Touched != c.touched || got.Of != c.of || !strings.Contains(got.Effect, c.says) {
			t.Errorf("%s: %+v, want %d of %d and %q", c.name, got, c.touched, c.of, c.says)
		}
	}
	f.submit(miner1, "three")
	f.claim(val1)
	if got := plan(client.Retune{MaxLeases: new(5)})["max_leases"]; got.Touched != 1 {
		t.Errorf("a validator at its number of leases: %+v", got)
	}
	if got := plan(client.Retune{SubmissionsPerColdkey: new(9)})["submissions_per_coldkey"]; got.Touched != 1 || got.Of != 3 {
		t.Errorf("a coldkey at its cap: %+v", got)
	}
	if got := plan(client.Retune{MaxLeases: new(1), Attempts: new(2)}); len(got) != 0 {
		t.Errorf("numbers that it has: %+v", got)
	}
	f.clock.add(8 * 24 * time.Hour)
	if got := plan(client.Retune{SubmissionsPerColdkey: new(1)})["submissions_per_coldkey"]; got.Of != 0 {
		t.Errorf("submissions of last week: %+v", got)
	}
	_, err := f.RetunePlan(bg, Caller{Hotkey: miner1}, "demo", client.Retune{})
	wantCode(t, err, 403, "not_operator")
	_, err = f.RetunePlan(bg, op, "demo", client.Retune{Attempts: new(9)})
	wantCode(t, err, 422, "bad_attempts")
	_, err = f.RetunePlan(bg, op, "nix", client.Retune{Attempts: new(1)})
	wantCode(t, err, 404, "not_found")
}
