package platform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
)

// shelf is a supply of tasks that serve as often as uses says; it gives what has
// been used least, in order.
type shelf struct {
	blobs  blob.Store
	have   int // tasks that it could make
	uses   int
	asked  []SetRequest
	opened []agon.Arena
	ended  []EndedSet
	spoil  func([]agon.TaskRef) []agon.TaskRef
}

func (s *shelf) Draw(ctx context.Context, r SetRequest) ([]agon.TaskRef, error) {
	s.asked = append(s.asked, r)
	var out []agon.TaskRef
	for i := 0; i < s.have && len(out) < r.Tasks; i++ {
		key := fmt.Sprintf("shelf/h%02d", i)
		d, err := blob.PutFiles(ctx, s.blobs, []blob.File{{Path: "task.toml", Content: []byte("hidden words of " + key)}}, blob.TreeLimits{})
		if err != nil {
			return nil, err
		}
		if !r.Shown[d] && r.Uses[d] < s.uses {
			out = append(out, agon.TaskRef{Key: key, Digest: d})
		}
	}
	if len(out) < r.Tasks {
		return nil, errors.New("the shelf is empty")
	}
	if s.spoil != nil {
		out = s.spoil(out)
	}
	return out, nil
}

func (s *shelf) Complete(context.Context, *agon.Arena) error { return nil }

func (s *shelf) Opened(_ context.Context, a agon.Arena) error {
	s.opened = append(s.opened, a)
	return nil
}

func (s *shelf) Ended(_ context.Context, e EndedSet) (used []agon.Digest, err error) {
	s.ended = append(s.ended, e)
	for _, t := range e.Tasks {
		if e.Uses[t.Digest] >= s.uses {
			used = append(used, t.Digest)
		}
	}
	return used, nil
}

// supplied is a fixture whose arena has one open task and a supply.
func suppliedFixture(t *testing.T, s *shelf, change ...func(*Config, *agon.Arena)) *fixture {
	t.Helper()
	f := newFixture(t, 1, append([]func(*Config, *agon.Arena){func(c *Config, _ *agon.Arena) { s.blobs = c.Blobs }}, change...)...)
	f.arena.ID = "turning"
	f.arena.Period = &agon.Period{Hours: 24}
	f.arena.Supply = &agon.Supply{From: agon.SupplyDirectory, Tasks: 2}
	f.SetSupply("turning", s)
	return f
}

func (f *fixture) send(miner, content string) *client.Submission {
	f.t.Helper()
	s, err := f.Submit(bg, Caller{Hotkey: miner}, "turning", request(content))
	must(f.t, err)
	return s
}

func (f *fixture) keys() (out []string) {
	f.t.Helper()
	a, err := f.FullArena(bg, "turning")
	must(f.t, err)
	for _, t := range a.Tasks {
		if t.Hidden {
			out = append(out, t.Key)
		}
	}
	return out
}

// Who learnt by heart what was published gets nothing on the next set, and who
// sits is played on it before anybody challenges there.
func TestSetsRotate(t *testing.T) {
	s := &shelf{have: 20, uses: 1}
	l := &blocks{newest: 10}
	f := suppliedFixture(t, s)
	l.Ledger, f.cfg.Ledger = f.cfg.Ledger, l
	must(t, f.EnsureArena(bg, f.arena))
	a, err := f.Arena(bg, "turning")
	must(t, err)
	first := f.keys()
	if len(first) != 2 || len(a.Tasks) != 3 || len(a.Seeds.Period.Tasks) != 2 || len(a.Seeds.NextTasks) != 2 || len(a.Hidden) != 4 {
		t.Fatalf("tasks %v, period %+v, next %v, %d commitments", a.Tasks, a.Seeds.Period, a.Seeds.NextTasks, len(a.Hidden))
	}
	// The next set is in the log before its period begins.
	for n := range 2 {
		f.read(func(tx *store.Tx) error {
			x, err := tx.Note(fmt.Sprintf("turning/%d/set", n))
			if err == nil && strings.Count(string(x.Body), "sha256:") != 2 {
				t.Errorf("the log says %s of set %d", x.Body, n)
			}
			return err
		})
	}
	next := func() { // the block after what was done last
		l.newest++
		must(t, f.rotate(bg))
		must(t, f.awaitBeacons(bg))
	}
	next()
	champion := f.send(miner1, "champion")
	next()
	value := map[string]float64{champion.ID: 1} // perfect: on its set nobody can be better
	play := func(val string) (order []string) {
		f.playAll(val, func(l *client.Lease) float64 {
			order = append(order, l.Submission.ID+" "+l.Run.Tasks[0].Key)
			return value[l.Submission.ID]
		})
		return order
	}
	play(val1)
	var was agon.Digest
	f.read(func(tx *store.Tx) error {
		x, err := tx.Period("turning", 0)
		was = x.Tasks[0].Digest
		return err
	})
	if _, err := f.Blob(bg, Caller{}, was); err == nil {
		t.Fatal("a hidden task is served while its period goes on")
	}
	if seat, err := f.Arena(bg, "turning"); err != nil || len(seat.Seats) != 1 || seat.Seats[0].Score != 1 {
		t.Fatalf("seats %+v, %v", seat.Seats, err)
	}
	late := f.send(miner2, "late") // accepted on the first set, played when it has ended
	f.clock.add(24 * time.Hour)
	must(t, f.rotate(bg))
	if got := f.keys(); len(got) != 2 || slices.Contains(first, got[0]) || len(s.opened) != 1 {
		t.Fatalf("the set is %v after %v; opened %d", got, first, len(s.opened))
	}
	second := f.keys()
	value[champion.ID] = 0.3 // the new set is harder
	challenger := f.send(miner2, "challenger")
	value[late.ID], value[challenger.ID] = 0.5, 0.4
	next()
	order := play(val1)
	// The late one on the first set, the champion on the second, then the challenger.
	want := map[string][]string{late.ID: first, champion.ID: second}
	n := 0
	for _, x := range order {
		id, key, _ := strings.Cut(x, " ")
		if id == challenger.ID {
			t.Errorf("the challenger is played before the champion: %v", order)
		}
		if strings.HasPrefix(key, hiddenSet) {
			n++
			if !slices.Contains(want[id], key) {
				t.Errorf("%s is played on %s", id, key)
			}
		}
	}
	if n != 4 {
		t.Fatalf("plays: %v", order)
	}
	if got, err := f.Submission(bg, Caller{}, late.ID); err != nil || got.State != agon.SubmissionScored || got.Decision.Outcome != agon.KeptSeat {
		t.Errorf("the late one has less than the champion had on its set: %+v %v", got.Decision, err)
	}
	b, err := f.Board(bg, "turning")
	must(t, err)
	if b.Seats[0].Submission != champion.ID || b.Seats[0].Score != 0.3 {
		t.Errorf("the champion stands at %+v", b.Seats[0])
	}
	next()
	if order = play(val1); len(order) != 3 {
		t.Fatalf("the challenger: %v", order)
	}
	if got, err := f.Submission(bg, Caller{}, challenger.ID); err != nil || got.Decision == nil || got.Decision.Outcome != agon.TookSeat || *got.Decision.Bar > 0.4 {
		t.Errorf("better on the same set, it sits: %+v %v", got.Decision, err)
	}
	// All of the first set is decided: it is public, with its results.
	must(t, f.rotate(bg))
	if _, err := f.Blob(bg, Caller{}, was); err != nil {
		t.Errorf("the set of before: %v", err)
	}
	if len(s.ended) != 1 || s.ended[0].Period != 0 || len(s.ended[0].Played[was]) != 2 {
		t.Errorf("ended: %+v", s.ended)
	}
	tasks, err := f.ArenaTasks(bg, Caller{}, "turning")
	must(t, err)
	opened := 0
	for _, x := range tasks {
		if x.Retired {
			opened++
			if c, err := seeds.TaskCommitment(x.Committed.Salt, x.Committed.Digest); err != nil || c != x.Committed.Commitment || x.Exposure.Plays == 0 {
				t.Errorf("%+v %+v: %v", x, x.Committed, err)
			}
		}
	}
	if opened != 2 || len(tasks) != 5 {
		t.Errorf("%d tasks, %d of them public", len(tasks), opened)
	}
	runs, err := f.Runs(bg, Caller{}, "turning", late.ID, "", "", 10)
	must(t, err)
	for _, r := range runs.Items {
		if r.Tasks[0].Hidden && r.Tasks[0].Digest == "" {
			t.Errorf("a run on a published task is withheld: %+v", r.Tasks[0])
		}
	}
	// Everybody computes the champion's seeds on the second set when it has ended.
	f.clock.add(24 * time.Hour)
	next()
	must(t, f.periods(bg))
	list, err := f.Seeds(bg, "turning")
	must(t, err)
	var secret, hash string
	for _, x := range list {
		if x.Period == 1 {
			secret, hash = x.Secret, x.Beacon
		}
	}
	f.read(func(tx *store.Tx) error {
		played, err := tx.TitleRuns(champion.ID, 1)
		for _, r := range played {
			got, err := seeds.Of(secret, seeds.SourceOf(a.Arena, r.RunSpec, champion.ID, *champion.Beacon))
			// What the log commits to is the whole run, its title included.
			id := ResultID(r.RunSpec.Run, 1)
			results, rerr := tx.Results([]string{id})
			if rerr != nil || results[id] == nil || results[id].Of.Title == nil || *results[id].Of.Title != *r.Title {
				t.Errorf("the result of %s: %+v (%v)", id, results[id], rerr)
			}
			if err != nil || got != r.Seed || r.Title.Beacon != hash || hash == "" {
				t.Errorf("seed %d, want %d of %+v (%v)", r.Seed, got, r.Title, err)
			}
		}
		if len(played) != 3 {
			t.Errorf("%d runs of the champion", len(played))
		}
		return err
	})
	// A restart keeps the sets.
	now := f.keys()
	must(t, f.EnsureArena(bg, f.arena))
	if got := f.keys(); !slices.Equal(got, now) {
		t.Errorf("after a restart %v, before %v", got, now)
	}
	for _, r := range s.asked[1:] {
		if r.Seed == s.asked[0].Seed {
			t.Error("two sets are drawn by one seed")
		}
	}
}

// A supply without enough tasks opens no arena, and later pauses it; it goes on
// when the operator has added some.
func TestSupplyRunsOut(t *testing.T) {
	s := &shelf{have: 1, uses: 1}
	f := suppliedFixture(t, s)
	if err := f.EnsureArena(bg, f.arena); err == nil || !strings.Contains(err.Error(), "the shelf is empty") {
		t.Fatalf("too few for one set: %v", err)
	}
	s.have = 3 // enough for one set, not for the next, which must be committed to before
	if err := f.EnsureArena(bg, f.arena); err == nil || !strings.Contains(err.Error(), "the shelf is empty") {
		t.Fatalf("too few for two sets: %v", err)
	}
	s.have = 4
	must(t, f.EnsureArena(bg, f.arena))
	f.clock.add(24 * time.Hour)
	must(t, f.rotate(bg))
	a, err := f.Arena(bg, "turning")
	must(t, err)
	if len(a.Seeds.NextTasks) != 0 || a.State != agon.ArenaOpen {
		t.Fatalf("%+v", a.Seeds)
	}
	old := f.keys()
	f.clock.add(24 * time.Hour)
	must(t, f.rotate(bg))
	if a, err = f.Arena(bg, "turning"); err != nil || a.State != agon.ArenaPaused {
		t.Fatalf("the arena is %s: %v", a.State, err)
	}
	s.have = 8
	f.clock.add(time.Minute)
	must(t, f.rotate(bg))
	must(t, f.SetArenaState(bg, Caller{Hotkey: operator, Operator: true}, "turning", agon.ArenaOpen, ""))
	if got := f.keys(); len(got) != 2 || slices.Contains(old, got[0]) {
		t.Errorf("set %v after %v", got, old)
	}
	f.send(miner1, "x")
}

// A closed arena plays and publishes what was drawn, and draws nothing more until it opens again.
func TestClosedArenaDrawsNothing(t *testing.T) {
	s := &shelf{have: 20, uses: 1}
	f := suppliedFixture(t, s)
	must(t, f.EnsureArena(bg, f.arena))
	op := Caller{Hotkey: operator, Operator: true}
	must(t, f.SetArenaState(bg, op, "turning", agon.ArenaClosed, ""))
	drawn, first := len(s.asked), f.keys()
	for range 3 {
		f.clock.add(24 * time.Hour)
		must(t, f.rotate(bg))
	}
	if len(s.asked) != drawn || len(s.ended) == 0 {
		t.Errorf("%d sets were drawn after the end, %d published", len(s.asked)-drawn, len(s.ended))
	}
	must(t, f.SetArenaState(bg, op, "turning", agon.ArenaOpen, ""))
	f.clock.add(time.Minute)
	must(t, f.rotate(bg))
	if got := f.keys(); len(s.asked) == drawn || len(got) != 2 || slices.Contains(first, got[0]) {
		t.Errorf("opened again it plays %v, after %v, with %d sets drawn", got, first, len(s.asked)-drawn)
	}
}

// Sets of one task twice, of too few, and of what is public are refused.
func TestBadSets(t *testing.T) {
	for name, spoil := range map[string]func([]agon.TaskRef) []agon.TaskRef{
		"the same content": func(l []agon.TaskRef) []agon.TaskRef { l[1].Digest = l[0].Digest; return l },
		"gave 1 tasks":     func(l []agon.TaskRef) []agon.TaskRef { return l[:1] },
		`task ""`:          func(l []agon.TaskRef) []agon.TaskRef { l[0].Key = ""; return l },
	} {
		s := &shelf{have: 9, uses: 1, spoil: spoil}
		f := suppliedFixture(t, s)
		if err := f.EnsureArena(bg, f.arena); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f := suppliedFixture(t, &shelf{have: 9, uses: 1})
	for want, change := range map[string]func(*agon.Arena){
		"hours or blocks": func(a *agon.Arena) { a.Period = &agon.Period{Hours: 1, Blocks: 1} },
		"period.hours":    func(a *agon.Arena) { a.Period = &agon.Period{Hours: 0.001} },
		"supply.from":     func(a *agon.Arena) { a.Supply = &agon.Supply{From: "shop", Tasks: 1} },
		"supply.tasks":    func(a *agon.Arena) { a.Supply = &agon.Supply{From: agon.SupplyBank} },
		"supply.uses":     func(a *agon.Arena) { a.Supply = &agon.Supply{From: agon.SupplyDirectory, Tasks: 1, Uses: 2} },
	} {
		a := f.arena
		change(&a)
		if err := f.EnsureArena(bg, a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A task of a bank comes again, hidden, and becomes public when it is used up.
func TestBankSets(t *testing.T) {
	s := &shelf{have: 6, uses: 2}
	f := suppliedFixture(t, s)
	f.arena.Supply = &agon.Supply{From: agon.SupplyBank, Tasks: 2, Uses: 2}
	must(t, f.EnsureArena(bg, f.arena))
	seen := map[string]int{}
	count := func() {
		for _, k := range f.keys() {
			seen[k]++
		}
	}
	count()
	for range 5 {
		f.clock.add(24 * time.Hour)
		must(t, f.rotate(bg))
		must(t, f.rotate(bg))
		count()
	}
	twice := 0
	for k, n := range seen {
		if n > 2 {
			t.Errorf("%s was in %d sets", k, n)
		}
		if n == 2 {
			twice++
		}
	}
	if twice == 0 {
		t.Errorf("no task came again: %v", seen)
	}
	f.read(func(tx *store.Tx) error {
		uses, err := tx.PeriodUses("turning")
		for d, n := range uses {
			_, open := f.Blob(bg, Caller{}, d)
			if n < 2 && open == nil {
				t.Errorf("a task that may come again is public after %d uses", n)
			}
		}
		return err
	})
}

// Periods that blocks count end with their block, whatever the clock says.
func TestBlockPeriods(t *testing.T) {
	s := &shelf{have: 20, uses: 1}
	l := &blocks{newest: 100}
	f := suppliedFixture(t, s)
	l.Ledger, f.cfg.Ledger = f.cfg.Ledger, l
	f.arena.Period = &agon.Period{Blocks: 50}
	must(t, f.EnsureArena(bg, f.arena))
	first := f.keys()
	f.clock.add(90 * 24 * time.Hour)
	must(t, f.rotate(bg))
	must(t, f.periods(bg))
	if got := f.keys(); !slices.Equal(got, first) {
		t.Fatal("the set turned without a block")
	}
	l.newest = 149
	must(t, f.rotate(bg))
	if got := f.keys(); !slices.Equal(got, first) {
		t.Fatal("the set turned a block early")
	}
	if list, err := f.Seeds(bg, "turning"); err != nil || list[1].Secret != "" || list[1].ClosesBlock != 150 || list[0].OpensBlock != 150 {
		t.Fatalf("%+v %v", list, err)
	}
	l.newest = 150
	must(t, f.rotate(bg))
	if got := f.keys(); slices.Equal(got, first) || len(got) != 2 {
		t.Fatalf("the set did not turn: %v", got)
	}
	must(t, f.periods(bg))
	list, err := f.Seeds(bg, "turning")
	must(t, err)
	if old := list[len(list)-1]; old.Secret == "" || old.Unverifiable || len(list) != 3 {
		t.Errorf("%+v", old)
	}
}

// Faults of ours that take the champion's plays on a new set leave it the score
// of before, after a few tries.
func TestTitleLost(t *testing.T) {
	s := &shelf{have: 20, uses: 1}
	f := suppliedFixture(t, s)
	f.arena.Attempts = 0
	must(t, f.EnsureArena(bg, f.arena))
	champion := f.send(miner1, "champion")
	f.playAll(val1, func(*client.Lease) float64 { return 0.5 })
	f.clock.add(24 * time.Hour)
	must(t, f.rotate(bg))
	n := 0
	for {
		l := f.claim(val1)
		if l == nil {
			break
		}
		if l.Submission.ID != champion.ID {
			t.Fatal("somebody else")
		}
		r := scored(l, 0)
		r.Fault, r.Reason, r.Scores = agon.FaultProvider, "down", nil
		f.result(val1, l, r)
		n++
	}
	if n != 3*(1+mostTitleTries) {
		t.Errorf("%d plays", n)
	}
	b, err := f.Board(bg, "turning")
	must(t, err)
	if b.Seats[0].Score != 0.5 {
		t.Errorf("%+v", b.Seats[0])
	}
	x := f.send(miner2, "better")
	f.playAll(val1, func(*client.Lease) float64 { return 0.9 })
	if got, err := f.Submission(bg, Caller{}, x.ID); err != nil || got.Decision.Outcome != agon.TookSeat {
		t.Errorf("%+v %v", got.Decision, err)
	}
}

// A rule with several seats orders who sits by the present set.
func TestTitlesOfSeveralSeats(t *testing.T) {
	s := &shelf{have: 20, uses: 1}
	f := suppliedFixture(t, s, func(c *Config, _ *agon.Arena) {
		x := podium()
		x.Seats = func(_ map[string]float64, entered []incentive.Entry) []incentive.Entry {
			out := slices.Clone(entered)
			slices.SortStableFunc(out, func(a, b incentive.Entry) int {
				switch {
				case a.Score > b.Score:
					return -1
				case a.Score < b.Score:
					return 1
				}
				return 0
			})
			return out[:min(len(out), 3)]
		}
		c.Incentives[podiumRule] = x
	})
	f.arena.Incentive = podiumRule
	must(t, f.EnsureArena(bg, f.arena))
	one := f.send(miner1, "one")
	f.playAll(val1, func(*client.Lease) float64 { return 0.2 })
	two := f.send(miner2, "two")
	f.playAll(val1, func(*client.Lease) float64 { return 0.6 })
	f.clock.add(24 * time.Hour)
	must(t, f.rotate(bg))
	value := map[string]float64{one.ID: 0.8, two.ID: 0.1}
	f.playAll(val1, func(l *client.Lease) float64 { return value[l.Submission.ID] })
	b, err := f.Board(bg, "turning")
	must(t, err)
	if len(b.Seats) != 2 || b.Seats[0].Submission != one.ID || math.Abs(b.Seats[0].Score-0.8) > 1e-9 || math.Abs(b.Seats[1].Score-0.1) > 1e-9 {
		t.Errorf("%+v", b.Seats)
	}
}
