package play

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/kinds/shopping/race"
	"github.com/agon-arena/agon/kinds/shopping/score"
)

func raceArena(public, hidden int) agon.Arena {
	a := agon.Arena{ID: "a", Kind: Name, Incentive: RaceRule}
	for i := range public {
		a.Tasks = append(a.Tasks, agon.TaskRef{Key: fmt.Sprintf("p/%d", i)})
	}
	for i := range hidden {
		a.Tasks = append(a.Tasks, agon.TaskRef{Key: fmt.Sprintf("h/%02d", i), Hidden: true})
	}
	return a
}

// runThrough plays Plan against an agent that solves what solves says.
func runThrough(t *testing.T, v agon.View, solves func(agon.TaskRef) bool) (agon.View, agon.Plan) {
	t.Helper()
	k := New(Config{})
	for step := range 100 {
		p, err := k.Plan(v)
		if err != nil {
			t.Fatal(err)
		}
		if p.Done {
			return v, p
		}
		for i, r := range p.Runs {
			r.Run = fmt.Sprintf("r%d-%d", step, i)
			run := agon.Run{RunSpec: r, State: agon.RunScored}
			for _, tk := range r.Tasks {
				s := agon.Score{Run: r.Run, Task: tk.Key}
				if solves(tk) {
					s.Value, s.Solved = 1, true
				}
				run.Scores = append(run.Scores, s)
			}
			v.Runs = append(v.Runs, run)
		}
	}
	t.Fatal("no end")
	return v, agon.Plan{}
}

func playsOf(v agon.View) []incentive.Play {
	var out []incentive.Play
	for _, r := range v.Runs {
		for _, s := range r.Scores {
			out = append(out, incentive.Play{Task: s.Task, Value: s.Value, Solved: s.Solved})
		}
	}
	return out
}

func challenge(a agon.Arena, v agon.View, seats []incentive.Entry, at time.Time) incentive.Challenge {
	sum := New(Config{}).Tally(v)
	return incentive.Challenge{
		Arena: a, Numbers: Race().Of(a.IncentiveNumbers), Seats: seats, At: at,
		Challenger: incentive.Entry{Submission: "new", Miner: "m-new", Score: sum.Score, Solved: sum.Solved, Total: sum.Total, At: at, Plays: playsOf(v)},
	}
}

// An agent that knows the public answers by heart qualifies, solves nothing
// hidden, is stopped as soon as it cannot win, takes no place and rings the bell.
func TestPublicAnswersGainNothing(t *testing.T) {
	a := raceArena(12, 12)
	leader := agon.Seat{Arena: "a", Submission: "old", Miner: "m-old", Score: 0.75, Since: time.Unix(1000, 0)}
	v, p := runThrough(t, agon.View{Arena: a, Submission: agon.Submission{ID: "new"}, Champion: &leader}, func(r agon.TaskRef) bool { return !r.Hidden })
	want := "stopped: with 4 of 12 hidden problems played it can reach 0.6667 at most, the champion's 0.7500 needs 0.7700"
	if p.Why != want {
		t.Errorf("%q, want %q", p.Why, want)
	}
	d := Race().Decide(challenge(a, v, []incentive.Entry{{Submission: "old", Miner: "m-old", Score: .75, At: leader.Since}}, time.Unix(2000, 0)))
	if d.Takes || d.Rule != ruleEliminated || d.Numbers["gap"] != 1 || d.Numbers["gap_alarm"] != 1 || d.Numbers["hidden"] != 0 || d.Numbers["bound"] != 8.0/12 {
		t.Errorf("%+v", d)
	}
	// The same without a leader: the race is run to its end, and nothing is worth nothing.
	v, p = runThrough(t, agon.View{Arena: a, Submission: agon.Submission{ID: "new"}}, func(r agon.TaskRef) bool { return !r.Hidden })
	d = Race().Decide(challenge(a, v, nil, time.Unix(2000, 0)))
	if d.Takes || d.Rule != ruleZero || p.Why != "finished the race with 0.0000" || d.Numbers["gap_alarm"] != 1 {
		t.Errorf("%s %+v", p.Why, d)
	}
}

func TestPlanStages(t *testing.T) {
	a := raceArena(4, 6)
	at := time.Unix(5000, 0)
	for name, c := range map[string]struct {
		solves  func(agon.TaskRef) bool
		leader  float64
		why     string
		takes   bool
		leads   bool
		rule    string
		runs    int
		tallied float64
	}{
		"not qualified": {func(agon.TaskRef) bool { return false }, -1, "did not qualify: 0.0000 of the 0.2500 it takes", false, false, ruleNotQualified, 1, 0},
		"first":         {func(agon.TaskRef) bool { return true }, -1, "finished the race with 1.0000", true, true, score.ThresholdRule, 3, 1},
		"beats":         {func(agon.TaskRef) bool { return true }, .5, "finished the race with 1.0000", true, true, score.ThresholdRule, 3, 1},
		"finishes behind": {
			func(r agon.TaskRef) bool { return r.Key != "h/00" && r.Key != "h/01" && r.Key != "h/05" }, .6,
			"finished the race with 0.5000", true, false, score.ThresholdRule, 3, .5,
		},
		"stopped": {
			func(r agon.TaskRef) bool { return !r.Hidden || r.Key == "h/00" }, .9,
			"stopped: with 4 of 6 hidden problems played it can reach 0.5000 at most, the champion's 0.9000 needs 0.9200", false, false, ruleEliminated, 2, 1.0 / 6,
		},
		"full marks stand": {func(agon.TaskRef) bool { return true }, 1, "finished the race with 1.0000", true, false, score.ThresholdRule, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v := agon.View{Arena: a, Submission: agon.Submission{ID: "new"}}
			var seats []incentive.Entry
			if c.leader >= 0 {
				seats = []incentive.Entry{{Submission: "old", Miner: "o", Score: c.leader, At: time.Unix(0, 0)}}
				v.Champion = &agon.Seat{Submission: "old", Score: c.leader}
			}
			v, p := runThrough(t, v, c.solves)
			if p.Why != c.why || len(v.Runs) != c.runs {
				t.Errorf("%q after %d runs, want %q after %d", p.Why, len(v.Runs), c.why, c.runs)
			}
			ch := challenge(a, v, seats, at)
			d := Race().Decide(ch)
			if d.Takes != c.takes || (d.Numbers["leads"] == 1) != c.leads || d.Rule != c.rule || math.Abs(ch.Challenger.Score-c.tallied) > 1e-12 {
				t.Errorf("%+v, score %v", d, ch.Challenger.Score)
			}
		})
	}
}

// A failed run is ours: the race waits for the engine and nothing more is planned.
func TestPlanAfterOurFailure(t *testing.T) {
	a := raceArena(2, 4)
	v := agon.View{Arena: a, Runs: []agon.Run{{RunSpec: agon.RunSpec{Tasks: a.Tasks[:2]}, State: agon.RunFailed}}}
	if p, err := New(Config{}).Plan(v); err != nil || !p.Done || len(p.Runs) != 0 {
		t.Errorf("%+v %v", p, err)
	}
	v.Runs[0].State = agon.RunPlaying
	if p, err := New(Config{}).Plan(v); err != nil || p.Done || len(p.Runs) != 0 {
		t.Errorf("under way: %+v %v", p, err)
	}
	a.IncentiveNumbers = map[string]float64{"half_life_s": 0}
	if _, err := New(Config{}).Plan(agon.View{Arena: a}); err == nil {
		t.Error("a law without a half-life was taken")
	}
}

// Whatever comes in, a submission stopped early could not have won: finishing
// it with full marks for the rest would not have taken the lead, at any time.
func TestStoppingIsSound(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 9))
	stopped := 0
	for range 300 {
		a := raceArena(4, 4+r.IntN(16))
		skill := r.Float64()
		leader := float64(r.IntN(21)) / 20
		outcome := map[string]bool{}
		solves := func(k agon.TaskRef) bool {
			if _, ok := outcome[k.Key]; !ok {
				outcome[k.Key] = !k.Hidden || r.Float64() < skill
			}
			return outcome[k.Key]
		}
		v := agon.View{Arena: a, Submission: agon.Submission{ID: "new"}, Champion: &agon.Seat{Submission: "old", Score: leader}}
		v, _ = runThrough(t, v, solves)
		s := stand(v)
		if s.hidden.Played == s.hidden.Total {
			continue
		}
		stopped++
		full := challenge(a, v, []incentive.Entry{{Submission: "old", Score: leader, At: time.Unix(0, 0)}}, time.Unix(1<<40, 0))
		for _, tk := range a.Tasks {
			if tk.Hidden && !slices.ContainsFunc(full.Challenger.Plays, func(p incentive.Play) bool { return p.Task == tk.Key }) {
				full.Challenger.Plays = append(full.Challenger.Plays, incentive.Play{Task: tk.Key, Value: 1, Solved: true})
			}
		}
		full.Challenger.Score = s.hidden.Bound()
		if d := Race().Decide(full); d.Numbers["leads"] == 1 {
			t.Fatalf("stopped at bound %v against %v, but could have won: %+v", s.hidden.Bound(), leader, d)
		}
	}
	if stopped < 20 {
		t.Errorf("only %d of 300 races were stopped early", stopped)
	}
}

// The bar never rises while a leader sits, starts at the initial margin again
// with a new one, and never falls below the floor or the measured noise.
func TestBar(t *testing.T) {
	n := numbersOf(raceDefaults())
	leader := incentive.Entry{Score: .5, At: time.Unix(1_000_000, 0)}
	last := math.Inf(1)
	for i := range 2000 {
		b, _ := bar(n, leader, leader.At.Add(time.Duration(i)*10*time.Minute))
		if b > last || b < leader.Score+n.Law.Floor-1e-12 {
			t.Fatalf("step %d: bar %v after %v", i, b, last)
		}
		last = b
	}
	if b, _ := bar(n, leader, leader.At.Add(-time.Hour)); math.Abs(b-.6) > 1e-12 {
		t.Errorf("a clock that runs backwards: %v", b)
	}
	if b, _ := bar(n, incentive.Entry{Score: .5, At: time.Unix(9_000_000, 0)}, time.Unix(9_000_000, 0)); math.Abs(b-.6) > 1e-12 {
		t.Errorf("a new leader: %v", b)
	}
	for i := range 10 {
		leader.Plays = append(leader.Plays, incentive.Play{Task: fmt.Sprint(i), Value: 1}, incentive.Play{Task: fmt.Sprint(i), Value: 0})
	}
	noise, ok := race.Noise(leader.Plays)
	b, floor := bar(n, leader, leader.At.Add(1000*24*time.Hour))
	if !ok || noise < .1 || floor != noise || math.Abs(b-(.5+noise)) > 1e-6 {
		t.Errorf("noise %v %t, floor %v, bar %v", noise, ok, floor, b)
	}
}

// What Decide says of the lead is what the standings then show.
func TestStandingsAgreeWithDecisions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rule, a := Race(), raceArena(0, 10)
	for range 200 {
		var entered []incentive.Entry
		at := time.Unix(0, 0)
		for i := range 12 {
			at = at.Add(time.Duration(r.IntN(200)) * time.Hour)
			solved := r.IntN(11)
			e := incentive.Entry{Submission: fmt.Sprintf("s%02d", i), Miner: fmt.Sprintf("m%d", i), Score: float64(solved) / 10, At: at}
			for j, tk := range a.Tasks {
				e.Plays = append(e.Plays, incentive.Play{Task: tk.Key, Value: b2f(j < solved), Solved: j < solved})
			}
			seats := rule.Sit(nil, entered)
			d := rule.Decide(incentive.Challenge{Arena: a, Numbers: rule.Of(nil), Challenger: e, Seats: seats, At: at})
			if !d.Takes {
				continue
			}
			entered = append(entered, e)
			now := rule.Sit(nil, entered)
			if (now[0].Submission == e.Submission) != (d.Numbers["leads"] == 1) {
				t.Fatalf("decision %+v, but first is %s", d, now[0].Submission)
			}
			if len(now) != len(entered) || !slices.IsSortedFunc(now[1:], func(x, y incentive.Entry) int {
				if x.Score != y.Score {
					return int(math.Copysign(1, y.Score-x.Score))
				}
				return 0
			}) {
				t.Fatalf("standings %+v", now)
			}
			shuffled := slices.Clone(entered)
			if !reflect.DeepEqual(rule.Sit(nil, shuffled), now) {
				t.Fatal("two nodes, two standings")
			}
		}
	}
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// The rule's vector is that of the golden file wherever the leader is also the
// best, and always fits a ledger.
func TestWeightsOfStandings(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "score", "testdata", "oro.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Weights []struct {
			Finishers []score.Finisher `json:"finishers"`
			Metagraph []string         `json:"metagraph"`
			Top       float64          `json:"t_top"`
			Burn      float64          `json:"t_burn"`
			Weights   []int64          `json:"weights"`
		} `json:"weights"`
	}
	if err := json.Unmarshal(b, &golden); err != nil || len(golden.Weights) != 30 {
		t.Fatal(err, len(golden.Weights))
	}
	for i, c := range golden.Weights {
		var entered []incentive.Entry
		for _, f := range c.Finishers {
			entered = append(entered, incentive.Entry{Submission: f.Version, Miner: f.Hotkey, Score: f.Score, At: time.Unix(0, 0)})
		}
		// Entered by falling score and id: the first leads from the start.
		slices.SortFunc(entered, func(x, y incentive.Entry) int {
			if x.Score != y.Score {
				return int(math.Copysign(1, y.Score-x.Score))
			}
			if x.Submission < y.Submission {
				return -1
			}
			return 1
		})
		n := map[string]float64{"t_top": c.Top, "t_burn": c.Burn}
		r := Race()
		got, err := r.Weights(r.Of(n), r.Sit(n, entered), c.Metagraph)
		if err != nil || !slices.Equal(got, score.Clamp(c.Weights)) {
			t.Errorf("case %d: %v %v, want %v", i, got, err, c.Weights)
		}
		shares, burned, err := r.Split(n, r.Sit(n, entered), time.Unix(0, 0))
		if err != nil || burned < 0 || len(shares) != len(entered) {
			t.Errorf("case %d: shares %v %v %v", i, shares, burned, err)
		}
	}
	// A leader that the bar protected is paid as the first, whatever the others scored.
	seats := standings(numbersOf(raceDefaults()), []incentive.Entry{
		{Submission: "a", Miner: "a", Score: .50, At: time.Unix(0, 0)}, {Submission: "b", Miner: "b", Score: .55, At: time.Unix(10, 0)},
	})
	w, err := weights(raceDefaults(), seats, []string{"burn", "b", "a"})
	if err != nil || !slices.Equal(w, []uint16{65535, 0, 21845}) {
		t.Errorf("%v %v", w, err)
	}
}

// Who is placed but does not lead is not said to lead, nor to be paid.
func TestRaceSentence(t *testing.T) {
	bar := 0.404945
	placed := agon.Decision{Rule: score.ThresholdRule, Score: 0.129167, Bar: &bar, Outcome: agon.TookSeat, Numbers: map[string]float64{"leader": 0.3552}}
	rules := map[string]incentive.Rule{RaceRule: Race()}
	if got := incentive.Say(rules, placed); got != "Placed in the race, without reward: 0.1292. To lead it needs 0.4049 (leader 0.3552 plus a margin that falls with time)." {
		t.Error(got)
	}
	placed.Numbers["leads"] = 1
	if got := incentive.Say(rules, placed); !strings.HasPrefix(got, "Leads the race: 0.1292 reached the bar of 0.4049") {
		t.Error(got)
	}
	low := agon.Decision{Rule: ruleNotQualified, Outcome: agon.KeptSeat, Numbers: map[string]float64{"public": 0.1, "qualify": 0.25}}
	if got := incentive.Say(rules, low); got != "Kept out: 0.1 on the public problems; 0.25 qualifies for the race." {
		t.Error(got)
	}
}
