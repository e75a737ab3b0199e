package platform

import (
	"fmt"
	"testing"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// canaryFleet is a staged arena with two submissions that have been through all
// stages: good solves all tasks, weak the first of the last stage and fails the second.
type canaryFleet struct {
	*fixture
	good, weak string
	lies       map[string]func(submission, stage string, task int) float64
	plays      map[string]int
}

func newCanaryFleet(t *testing.T) *canaryFleet {
	f := &canaryFleet{fixture: staged(t), plays: map[string]int{}, lies: map[string]func(string, string, int) float64{}}
	f.good = f.submit(miner1, "good").ID
	f.turns()
	f.weak = f.submit(miner2, "weak").ID
	f.turns()
	return f
}

// truth is what a task of a stage is worth: tasks are counted by the arena.
func (f *canaryFleet) truth(submission string, task int) float64 {
	if submission != f.good && task == 1 {
		return 0
	}
	return 1
}

// turns has all of the fleet play what there is, each only runs of its own stage.
func (f *canaryFleet) turns() {
	f.t.Helper()
	task := map[string]int{}
	for i, r := range f.arena.Tasks {
		task[r.Key] = i
	}
	for range 20 { // a stage may follow a stage
		played := 0
		for _, who := range []string{screener1, screener2, val1, val2, val3} {
			stage := map[string]string{screener1: "screener_1", screener2: "screener_2"}[who]
			if stage == "" {
				stage = "validator"
			}
			if f.believed(bg, who) != nil {
				continue
			}
			for _, l := range f.take(who, stage) {
				i := task[l.Run.Tasks[0].Key]
				x := f.truth(l.Submission.ID, i)
				if lie := f.lies[who]; lie != nil {
					x = lie(l.Submission.ID, l.Run.Stage, i)
				}
				f.result(who, l, scored(l, x))
				f.plays[who]++
				played++
			}
		}
		if played == 0 {
			return
		}
	}
	f.t.Fatal("the fleet does not come to an end")
}

// runAt is a run of a submission at a stage.
func (f *canaryFleet) runAt(submission, stage string) (id string) {
	f.t.Helper()
	f.read(func(tx *store.Tx) error {
		runs, err := tx.RunsOf(submission)
		for _, r := range runs {
			if r.Stage == stage {
				id = r.RunSpec.Run
			}
		}
		return err
	})
	return id
}

var canaryOperator = Caller{Hotkey: "operator", Operator: true}

// lay makes a canary of a stage and has it played.
func (f *canaryFleet) lay(submission, stage string, r client.CanaryRequest) {
	f.t.Helper()
	r.Reason = "to see"
	must(f.t, errOf(f.MakeCanary(bg, canaryOperator, f.runAt(submission, stage), r)))
	f.turns()
	f.drop()
}

// Canaries and duels are laid in a stage too: who plays the last stage and lies for a
// weak agent, and the screener that lets nobody through, are named. The honest are not.
func TestCanariesInStages(t *testing.T) {
	f := newCanaryFleet(t)
	before, err := f.Submission(bg, Caller{}, f.weak)
	must(t, err)
	board, err := f.Board(bg, "demo")
	must(t, err)
	f.lies[val3] = func(string, string, int) float64 { return 1 }
	f.lies[screener1] = func(string, string, int) float64 { return 0 }
	f.plays = map[string]int{}
	for i := range 5 {
		f.lay(f.weak, "validator", client.CanaryRequest{Validators: 3})
		f.lay(f.good, "validator", client.CanaryRequest{Validators: 3, Rival: f.weak})
		f.lay(f.good, "screener_1", client.CanaryRequest{Validators: 1})
		if i == 0 && (f.plays[val1] != 9 || f.plays[screener1] != 2) {
			t.Errorf("plays of one canary, one duel and one of a screener: %v", f.plays)
		}
		if f.standing(val3).Excluded && f.standing(screener1).Excluded {
			break
		}
	}
	for _, who := range []string{val1, val2} {
		if s := f.standing(who); s.Missed != 0 || s.Named || s.Canaries < 4 {
			t.Errorf("%s, who is honest: %+v", who, s)
		}
	}
	for _, who := range []string{val3, screener1} {
		s := f.standing(who)
		if !s.Named || !s.Excluded || len(s.Cases) == 0 {
			t.Errorf("%s, who lies: %+v", who, s)
		}
		for _, c := range s.Cases {
			if c.Role != "canary" || c.Known == nil || c.Observed == nil {
				t.Errorf("case %+v", c)
			}
		}
	}
	after, err := f.Submission(bg, Caller{}, f.weak)
	must(t, err)
	if *after.Score != *before.Score || after.State != before.State || len(after.Findings) != len(before.Findings) {
		t.Errorf("a canary moved %+v to %+v", before, after)
	}
	now, err := f.Board(bg, "demo")
	must(t, err)
	if *now.Champion != *board.Champion || len(now.Decisions) != len(board.Decisions) {
		t.Error("a canary moved the board")
	}
	checkInvariants(t, f.cfg.Store)
}

// Who says one task better and another worse, so that their mean stays, is seen to lie.
func TestCanaryOfSwappedTasks(t *testing.T) {
	f := newCanaryFleet(t)
	f.lies[val3] = func(submission, stage string, task int) float64 { return f.truth(submission, []int{1, 0, 2}[task]) }
	f.lay(f.weak, "validator", client.CanaryRequest{Validators: 3})
	for _, who := range []string{val1, val2} {
		if s := f.standing(who); s.Canaries != 1 || s.Missed != 0 {
			t.Errorf("%s, who is honest: %+v", who, s)
		}
	}
	if s := f.standing(val3); s.Canaries != 1 || s.Missed != 1 {
		t.Errorf("who swapped the results of two tasks: %+v", s)
	}
	known, tolerance := 0.6, 0.2
	f.lay(f.weak, "validator", client.CanaryRequest{Validators: 3, Known: &known, Tolerance: &tolerance})
	if s := f.standing(val3); s.Canaries != 2 || s.Missed != 1 {
		t.Errorf("where the operator says what is known: %+v", s)
	}
}

// drop ends the runs that nobody is left to play, as their deadlines do.
func (f *canaryFleet) drop() {
	f.t.Helper()
	page, err := f.Runs(bg, canaryOperator, "demo", "", "queued", "", 200)
	must(f.t, err)
	for _, r := range page.Items {
		must(f.t, f.CancelRun(bg, canaryOperator, r.RunSpec.Run, "nobody is left"))
	}
}

// A validator sees the stage's own fields, and nothing that says what it plays.
func TestCanaryLeaseInAStage(t *testing.T) {
	f := newCanaryFleet(t)
	shape := func(l *client.Lease) string {
		return fmt.Sprintf("%s %s %d tasks, rival %v, title %v, state %s, attempt %d", l.Run.Stage, l.Arena.ID, len(l.Run.Tasks), l.Run.Rival, l.Run.Title, l.Submission.State, l.Attempt)
	}
	third := f.submit(miner2, "third")
	must(t, errOf(f.MakeCanary(bg, canaryOperator, f.runAt(f.weak, "screener_1"), client.CanaryRequest{Validators: 1, Reason: "why"})))
	seen := map[string]map[string]bool{}
	for _, l := range f.take(screener1, "screener_1") {
		if seen[l.Submission.ID] == nil {
			seen[l.Submission.ID] = map[string]bool{}
		}
		seen[l.Submission.ID][shape(l)] = true
	}
	if len(seen[f.weak]) != 1 || len(seen[third.ID]) != 1 || fmt.Sprint(seen[f.weak]) != fmt.Sprint(seen[third.ID]) {
		t.Errorf("leases differ: %v", seen)
	}
}

// A stage has one canary of a submission at a time, and a rival has been through the same stage.
func TestCanaryOfAStageIsRefused(t *testing.T) {
	f := newCanaryFleet(t)
	failed := f.submit(miner1, "none")
	f.lies[screener1] = func(string, string, int) float64 { return 0 }
	f.turns()
	run := f.runAt(f.weak, "validator")
	_, err := f.MakeCanary(bg, canaryOperator, run, client.CanaryRequest{Validators: 1, Rival: failed.ID, Reason: "why"})
	wantCode(t, err, 422, "bad_rival")
	must(t, errOf(f.MakeCanary(bg, canaryOperator, run, client.CanaryRequest{Validators: 1, Reason: "why"})))
	_, err = f.MakeCanary(bg, canaryOperator, run, client.CanaryRequest{Validators: 1, Reason: "why"})
	wantCode(t, err, 409, "canary_open")
	_, err = f.MakeCanary(bg, canaryOperator, f.runAt(f.good, "validator"), client.CanaryRequest{Validators: 1, Rival: f.weak, Reason: "why"})
	wantCode(t, err, 409, "canary_open")
}

func errOf(_ any, err error) error { return err }
