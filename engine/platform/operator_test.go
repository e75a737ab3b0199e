package platform

import (
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

func TestOperatorOnly(t *testing.T) {
	f := newFixture(t, 1)
	s := f.submit(miner1, "x")
	n := 3
	for _, c := range []Caller{{}, {Hotkey: miner1}, {Hotkey: val1}} {
		status, code := 403, "not_operator"
		if c.Hotkey == "" {
			status, code = 401, "unsigned"
		}
		wantCode(t, f.Ban(bg, c, s.ID, "why"), status, code)
		wantCode(t, f.Retune(bg, c, "demo", client.Retune{MaxLeases: &n}, "why"), status, code)
		_, err := f.Retry(bg, c, s.ID, "why")
		wantCode(t, err, status, code)
		_, err = f.Actions(bg, c, 10)
		wantCode(t, err, status, code)
	}
	wantCode(t, f.Ban(bg, Caller{Hotkey: operator, Operator: true}, s.ID, " "), 422, "no_reason")
}

// A banned champion loses the seat to who held it before, its open runs end,
// and those behind it are decided.
func TestBan(t *testing.T) {
	f := newFixture(t, 1)
	op := Caller{Hotkey: operator, Operator: true}
	first := f.submit(miner1, "first")
	f.playAll(val1, func(*client.Lease) float64 { return 0.5 })
	second := f.submit(miner2, "second")
	f.playAll(val1, func(*client.Lease) float64 { return 0.9 })
	seat := func() string {
		a, err := f.Arena(bg, "demo")
		must(t, err)
		if a.Champion == nil {
			return ""
		}
		return a.Champion.Submission
	}
	if seat() != second.ID {
		t.Fatal("the better one does not sit")
	}
	must(t, f.Ban(bg, op, second.ID, "it copied the tests"))
	if seat() != first.ID {
		t.Errorf("seat %s, want the one before", seat())
	}
	got, err := f.Submission(bg, Caller{}, second.ID)
	must(t, err)
	if got.State != agon.SubmissionExcluded || got.Findings[len(got.Findings)-1].Code != FindingBanned {
		t.Errorf("%+v", got)
	}
	target, err := f.Target(bg, "demo")
	must(t, err)
	if len(target.UIDs) != 1 || target.UIDs[0] != 3 {
		t.Errorf("weights %+v, want all to the first miner", target)
	}
	wantCode(t, f.Ban(bg, op, second.ID, "again"), 409, "banned")
	must(t, f.Ban(bg, op, first.ID, "this too"))
	if seat() != "" {
		t.Errorf("seat %s, want nobody", seat())
	}
	third := f.submit(miner1, "third")
	must(t, f.Ban(bg, op, third.ID, "before it was played"))
	if l := f.claim(val1); l != nil {
		t.Errorf("a banned submission is played: %+v", l.Run)
	}
	log, err := f.Actions(bg, op, 10)
	must(t, err)
	if len(log) != 3 || log[0].What != "ban" || log[0].Target != third.ID || log[0].Actor != operator {
		t.Errorf("log %+v", log)
	}
}

// An arena without retries has none, whether it was made so or is retuned.
func TestNoRetries(t *testing.T) {
	for _, c := range []struct {
		name   string
		made   int
		retune *int
		want   int // attempts of a run that fails through us
	}{
		{"made without", 0, nil, 1},
		{"made with one", 1, nil, 2},
		{"retuned to none", 2, new(0), 1},
		{"retuned from none to one", 0, new(1), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, 1, func(_ *Config, a *agon.Arena) { a.Attempts = c.made })
			allowed := c.made
			if c.retune != nil {
				allowed = *c.retune
				must(t, f.Retune(bg, Caller{Operator: true, Hotkey: "op"}, "demo", client.Retune{Attempts: c.retune}, "a test"))
			}
			a, err := f.Arena(bg, "demo")
			must(t, err)
			if a.Attempts != allowed {
				t.Errorf("the arena allows %d retries, want %d", a.Attempts, allowed)
			}
			s := f.submit(miner1, "x")
			attempts := 0
			for l := f.claim(val1); l != nil; l = f.claim(val1) {
				attempts++
				f.result(val1, l, failedBy(l, agon.FaultValidator))
			}
			got, err := f.Submission(bg, Caller{}, s.ID)
			must(t, err)
			if attempts != c.want || got.State != agon.SubmissionExcluded {
				t.Errorf("%d attempts, want %d; submission %s", attempts, c.want, got.State)
			}
			checkInvariants(t, f.cfg.Store)
		})
	}
}

func TestRetune(t *testing.T) {
	f := newFixture(t, 1)
	op := Caller{Hotkey: operator, Operator: true}
	leases, cap, zero := 2, 1, 0
	must(t, f.Retune(bg, op, "demo", client.Retune{MaxLeases: &leases, SubmissionsPerColdkey: &cap}, "too many at once"))
	a, err := f.Arena(bg, "demo")
	must(t, err)
	if a.MaxLeases != 2 || a.SubmissionsPerColdkey != 1 {
		t.Errorf("%+v", a.Arena)
	}
	wantCode(t, f.Retune(bg, op, "demo", client.Retune{MaxLeases: &zero}, "none"), 422, "bad_max_leases")
	wantCode(t, f.Retune(bg, op, "nix", client.Retune{MaxLeases: &leases}, "none"), 404, "not_found")
	f.submit(miner1, "x")
	_, err = f.Submit(bg, Caller{Hotkey: miner1}, "demo", request("y"))
	wantCode(t, err, 429, "coldkey_cap")
	log, err := f.Actions(bg, op, 10)
	must(t, err)
	if len(log) != 1 || log[0].Reason != "too many at once" || log[0].Change == "" {
		t.Errorf("log %+v", log)
	}
}
