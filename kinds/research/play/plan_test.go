package play

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

func replay(id string, verdict int, x float64) agon.Run {
	m := map[string]float64{MetricVerdict: float64(verdict)}
	if verdict == quorum.VerdictAccepted {
		m[MetricObserved] = x
	}
	return agon.Run{RunSpec: agon.RunSpec{Run: id}, State: agon.RunScored, Scores: []agon.Score{{Value: 1 / (1 + x), Metrics: m}}}
}

func duelRun(id, rival string, round int, pairs ...quorum.Pair) agon.Run {
	m := map[string]float64{MetricDuelNumbers: float64(len(pairs))}
	for i, p := range pairs {
		m[fmt.Sprintf("duel.%d.challenger", i)], m[fmt.Sprintf("duel.%d.incumbent", i)] = p.Challenger, p.Incumbent
		if p.Base {
			m[fmt.Sprintf("duel.%d.base", i)] = 1
		}
	}
	return agon.Run{
		RunSpec: agon.RunSpec{Run: id, Rival: &agon.Rival{Submission: rival, Round: round}}, State: agon.RunScored,
		Scores: []agon.Score{{Metrics: m}},
	}
}

func view(c agon.Contest, runs ...agon.Run) agon.View {
	return agon.View{Arena: agon.Arena{ID: "a", Contest: &c, Tasks: []agon.TaskRef{{Key: "t"}}}, Runs: runs, Attempts: 1}
}

var exact = agon.Contest{Direction: agon.Minimize, Agree: 2, Replays: 4, Alpha: 0.01, Pairs: 12}

func TestPlan(t *testing.T) {
	for _, c := range []struct {
		name  string
		trust map[string]float64
		runs  []agon.Run
		more  int
	}{
		{"first", nil, nil, 2},
		{"one more after a lost one", nil, []agon.Run{replay("a", 0, 2), {State: agon.RunFailed}}, 1},
		{"agree", nil, []agon.Run{replay("a", 0, 2), replay("b", 0, 2)}, 0},
		{"disagree", nil, []agon.Run{replay("a", 0, 2), replay("b", 0, 1)}, 1},
		{"rejected by one", nil, []agon.Run{replay("a", 0, 2), replay("b", 1, 0)}, 1},
		{"a liar's vote is not enough", map[string]float64{"b": 0.25}, []agon.Run{replay("a", 0, 2), replay("b", 0, 2)}, 1},
		{"used up", nil, []agon.Run{replay("a", 0, 2), replay("b", 0, 1), replay("c", 0, 4), replay("d", 0, 5)}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := view(exact, c.runs...)
			v.Trust = c.trust
			p, err := Rules{}.Plan(v)
			if err != nil || len(p.Runs) != c.more || p.Done != (c.more == 0) {
				t.Fatalf("got %d runs, done %v, %v; want %d", len(p.Runs), p.Done, err, c.more)
			}
			for i, r := range p.Runs {
				if r.Replica != len(c.runs)+i {
					t.Errorf("run %d has replica %d", i, r.Replica)
				}
			}
		})
	}
}

// One liar against two that agree: the median is theirs.
func TestLiarOutvoted(t *testing.T) {
	v := view(exact, replay("a", 0, 2), replay("liar", 0, 1), replay("c", 0, 2))
	a, err := Agreement(v)
	if err != nil || !a.Decided || a.Value != 2 || fmt.Sprint(a.Runs) != "[a c]" {
		t.Fatalf("%+v %v", a, err)
	}
	if s, ok := (Rules{}).Sum(v); !ok || s.Solved != 1 || s.Score != 1./3 {
		t.Fatalf("sum %+v %v", s, ok)
	}
}

func TestDecide(t *testing.T) {
	two := []agon.Run{replay("a", 0, 2), replay("b", 0, 2)}
	with := func(c agon.Contest, more ...agon.Run) agon.View { return view(c, append(two[:2:2], more...)...) }
	noisy := exact
	noisy.Band, noisy.Absolute = 0.1, 0.1
	win, loss := quorum.Pair{Challenger: 2, Incumbent: 3}, quorum.Pair{Challenger: 2, Incumbent: 2}
	pairs := func(p quorum.Pair, n int) []quorum.Pair {
		out := make([]quorum.Pair, n)
		for i := range out {
			out[i] = p
		}
		return out
	}
	// sits has somebody sit who was accepted with x.
	sits := func(x float64, runs ...agon.Run) agon.View {
		v := with(exact, runs...)
		v.Champion = &agon.Seat{Submission: "old", Score: 1 / (1 + x)}
		v.Rival = &agon.Rival{Submission: "old"}
		return v
	}
	lucky, stopped := duelRun("d", "old", 1, win), win
	stopped.Base = true
	// moody is a duel whose challenger gave another number when it was measured once more.
	moody := func(id string, p quorum.Pair) agon.Run {
		r := duelRun(id, "", 1, p)
		r.Scores[0].Metrics[MetricDuelAgain] = p.Challenger + 1
		return r
	}
	better := quorum.Pair{Challenger: 1, Incumbent: 3}
	// ends is a duel of n pairs in which the challenger gave no number before the first.
	ends := func(id string, n int) agon.Run {
		r := duelRun(id, "", 1)
		r.Rival.Pairs, r.Scores[0].Metrics = n, map[string]float64{MetricVerdict: quorum.VerdictError}
		return r
	}
	// by names the validators of the duels of a view.
	by := func(names string, v agon.View) agon.View {
		v.By = map[string]string{}
		for i, name := range strings.Fields(names) {
			v.By[v.Runs[len(two)+i].RunSpec.Run] = name
		}
		return v
	}
	for _, c := range []struct {
		name  string
		v     agon.View
		more  int
		takes bool
	}{
		{"better, but of two numbers: again", with(exact, duelRun("d", "", 1, win), duelRun("e", "", 1, better)), 2, false},
		{"better, by two of three that agree", with(exact, duelRun("d", "", 1, better), duelRun("e", "", 1, win), duelRun("f", "", 1, win)), 0, true},
		{"two numbers on one seed, seen by both", with(exact, moody("d", win), moody("e", win)), 0, false},
		{"two numbers on one seed, says one: again", with(exact, duelRun("d", "", 1, win), moody("e", win)), 2, false},
		{"two numbers on one seed, says one, and no gain says the other", with(exact, moody("d", win), duelRun("e", "", 1, loss)), 0, false},
		{"better than what sits", sits(3, lucky), 0, true},
		{"the one who sits drew a worse number this time", sits(2, lucky), 0, false},
		{"the one who sits works no more", sits(1, duelRun("d", "old", 1, stopped)), 0, true},
		{"a duel with the base first", with(exact), 2, false},
		{"better", with(exact, duelRun("d", "", 1, win), duelRun("e", "", 1, win)), 0, true},
		{"equal", with(exact, duelRun("d", "", 1, loss), duelRun("e", "", 1, loss)), 0, false},
		{"validators differ: again", with(exact, duelRun("d", "", 1, loss), duelRun("e", "", 1, win)), 2, false},
		{"with another incumbent: again", with(exact, duelRun("d", "old", 1, win), duelRun("e", "old", 1, win)), 2, false},
		{"noise: four pairs do not suffice", with(noisy, duelRun("d", "", 1, pairs(win, 4)...)), 2, false},
		{"noise: enough", with(noisy, duelRun("d", "", 1, pairs(win, 6)...), duelRun("e", "", 1, pairs(win, 6)...)), 0, true},
		{"it gave no number in one of its duels: again", with(exact, duelRun("d", "", 1, win), ends("e", 1)), 2, false},
		{"it gave no number in its duels, which it has lost", with(exact, ends("d", 1), ends("e", 1)), 0, false},
		{"noise: it ends itself where it would lose", with(noisy, append([]agon.Run{duelRun("d", "", 1, pairs(win, 12)...)}, ends("e", 4), ends("f", 4), ends("g", 4))...), 0, true},
		{"noise: it ends itself where it would lose, first", with(noisy, append([]agon.Run{ends("e", 4), ends("f", 4), ends("g", 4)}, duelRun("d", "", 1, pairs(win, 12)...))...), 0, false},
		{"noise: by one validator alone", by("v1 v1", with(noisy, duelRun("d", "", 1, pairs(win, 10)...), duelRun("e", "", 1, pairs(win, 10)...))), 2, false},
		{"noise: by two validators", by("v1 v2", with(noisy, duelRun("d", "", 1, pairs(win, 12)...), duelRun("e", "", 1, pairs(win, 12)...))), 0, true},
		{"noise: hopeless", with(noisy, duelRun("d", "", 1, pairs(loss, 12)...)), 0, false},
		{"rejected", view(exact, replay("a", 1, 0), replay("b", 1, 0)), 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Rules{}.Decide(c.v)
			if err != nil || len(got.More) != c.more || got.Takes != c.takes || got.Rule == "" {
				t.Fatalf("%+v, %v", got, err)
			}
		})
	}
	got, err := Rules{}.Decide(with(exact, moody("d", win), moody("e", win)))
	if said := Sentence(agon.Decision{Rule: got.Rule, Numbers: got.Numbers}); err != nil || !strings.Contains(said, "gave 3 and then 2 on one random seed") {
		t.Errorf("%q %v", said, err)
	}
}

// A program that draws one of three numbers each time it runs, one of them better than the base's,
// must be lucky with each validator twice: it takes an exact task's seat in less than 2 % of its tries.
func TestProgramThatDrawsItsOwnNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func() float64 { return float64(1 + rng.IntN(3)) } // the base gives 2: it wins a pair by 1
	const tries = 5000
	seats := 0
	for range tries {
		v := view(exact)
		for round := 0; ; {
			p, err := Rules{}.Plan(v)
			if err != nil {
				t.Fatal(err)
			}
			for range p.Runs {
				v.Runs = append(v.Runs, replay(fmt.Sprint("r", len(v.Runs)), quorum.VerdictAccepted, draw()))
			}
			if !p.Done {
				continue
			}
			d, err := Rules{}.Decide(v)
			if err != nil {
				t.Fatal(err)
			}
			if d.Takes {
				seats++
			}
			if len(d.More) == 0 {
				break
			}
			round++
			for range d.More {
				r := duelRun(fmt.Sprint("d", len(v.Runs)), "", round, quorum.Pair{Challenger: draw(), Incumbent: 2})
				r.Scores[0].Metrics[MetricDuelAgain] = draw()
				v.Runs = append(v.Runs, r)
			}
		}
	}
	t.Logf("%d seats in %d tries", seats, tries)
	if seats > tries/50 {
		t.Errorf("%d seats in %d tries", seats, tries)
	}
}

func TestParseTask(t *testing.T) {
	const good = `slug = "x-task"
title = "A task"
benchmark_command = "python3 bench.py"
allowed_patch_paths = ["src/*.py"]
metric_name = "bpb"
metric_direction = "minimize"
baseline = 2.5
`
	task, err := ParseTask([]byte(good))
	if err != nil || task.MaxPatchBytes != 262144 || task.CompetitionMode != ModeCenterless || task.Rules.Agree != 2 {
		t.Fatalf("%+v %v", task, err)
	}
	for line, field := range map[string]string{
		`slug = "X"`: "slug", `title = "x"`: "title", `allowed_patch_paths = ["../x"]`: "allowed_patch_paths", `allowed_patch_paths = []`: "allowed_patch_paths",
		`metric_name = "a b"`: "metric_name", `baseline = nan`: "baseline", `metric_direction = "up"`: "metric_direction",
	} {
		key, _, _ := strings.Cut(line, " ")
		var b strings.Builder
		for l := range strings.Lines(good) {
			if strings.HasPrefix(l, key+" ") {
				l = line + "\n"
			}
			b.WriteString(l)
		}
		_, err := ParseTask([]byte(b.String()))
		var fe *FieldError
		if !errors.As(err, &fe) || fe.Field != field {
			t.Errorf("%s: %v", line, err)
		}
	}
	const gate = "result_path = \"r.json\"\n[gate]\nmetric = \"loss\"\ndirection = \"minimize\"\nbound = 3.28\nseeds = 4\n"
	if task, err := ParseTask([]byte(good + gate)); err != nil || task.Gate == nil || task.Gate.Seeds != 4 {
		t.Errorf("a gate: %+v %v", task.Gate, err)
	}
	for from, to := range map[string]string{
		"seeds = 4": "seeds = 1", "bound = 3.28": "bound = nan", "\"minimize\"": "\"down\"", "\"loss\"": "\"bpb\"", "seeds": "alpha = 0.9\nseeds", "result_path = \"r.json\"\n": "",
	} {
		_, err := ParseTask([]byte(good + strings.Replace(gate, from, to, 1)))
		var fe *FieldError
		if !errors.As(err, &fe) || !strings.HasPrefix(fe.Field, "gate") {
			t.Errorf("a gate with %q for %q: %v", to, from, err)
		}
	}
	for prefix, ok := range map[string]bool{"up_": true, "b": false, "up ": false, strings.Repeat("x", maxName+1): false} {
		_, err := ParseTask(fmt.Appendf(nil, "%smembers = %q\n", good, prefix))
		var fe *FieldError
		if ok != (err == nil) || !ok && (!errors.As(err, &fe) || fe.Field != "members") {
			t.Errorf("members that begin with %.10q: %v", prefix, err)
		}
	}
	if _, err := ParseTask([]byte(good + "extra = 1\n")); err == nil {
		t.Error("an unknown field is let in")
	}
}

func TestScoreValueKeepsOrder(t *testing.T) {
	for _, c := range []struct {
		dir  string
		base float64
		xs   []float64 // from worse to better
	}{
		{agon.Minimize, 2, []float64{9, 2, 1, 0}},
		{agon.Maximize, 2, []float64{0, 1, 2, 9}},
		{agon.Minimize, -2, []float64{0, -1, -2, -9}},
		{agon.Maximize, -2, []float64{-9, -2, -1, 0}},
	} {
		task := Task{MetricDirection: c.dir, Baseline: c.base}
		last := -1.0
		for _, x := range c.xs {
			v := task.ScoreValue(x)
			if v <= last || v < 0 || v > 1 || (x == c.base && v != 0.5) {
				t.Errorf("%s %v: %v gives %v after %v", c.dir, c.base, x, v, last)
			}
			last = v
		}
	}
}

func FuzzParseTask(f *testing.F) {
	f.Add([]byte("slug = \"abc\"\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if task, err := ParseTask(b); err == nil {
			if err := task.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
