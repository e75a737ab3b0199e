package platform

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
)

// stagedKind plays tasks one by one, as stages say.
type stagedKind struct{ fakeKind }

func (stagedKind) Plan(v agon.View) (agon.Plan, error) { return kind.Staged(v), nil }

const screener1, screener2 = StaffName + "screener-1-1", StaffName + "screener-2-1"

// staged is an arena of three tasks: two screeners and three validators.
func staged(t *testing.T) *fixture {
	f := newFixture(t, 3)
	f.cfg.Kinds["fake"] = &stagedKind{}
	a := f.arena
	a.MaxLeases, a.Replicas = 50, 0
	a.Stages = []agon.Stage{
		{Name: "screener_1", Tasks: []string{a.Tasks[0].Key, a.Tasks[1].Key}, Threshold: 0.5},
		{Name: "screener_2", Tasks: []string{a.Tasks[2].Key}, Threshold: 0.4, OfTop: 0.9},
		{Name: "validator", Tasks: []string{a.Tasks[0].Key, a.Tasks[1].Key, a.Tasks[2].Key}, Evaluations: 3, Consensus: true},
	}
	must(t, f.EnsureArena(bg, a))
	return f
}

// take claims all that who may have of a stage, on the terms of who is staff.
func (f *fixture) take(who, stage string) (out []*client.Lease) {
	f.t.Helper()
	terms := Terms{Stages: []string{stage}}
	if strings.HasPrefix(who, StaffName) {
		terms.Staff, terms.Peers = true, who[:len(who)-1]
	}
	for {
		l, err := f.ClaimFor(bg, Caller{Hotkey: who}, client.ClaimRequest{Arenas: []string{f.arena.ID}, Kinds: []string{"fake"}, Driver: "runc"}, terms)
		must(f.t, err)
		if l == nil {
			return out
		}
		if l.Run.Stage != stage {
			f.t.Errorf("%s got a run of stage %q", who, l.Run.Stage)
		}
		out = append(out, l)
	}
}

func (f *fixture) pass(who, stage string, values ...float64) {
	f.t.Helper()
	got := f.take(who, stage)
	if len(got) != len(values) {
		f.t.Fatalf("%s got %d runs of %s, want %d", who, len(got), stage, len(values))
	}
	for i, l := range got {
		f.result(who, l, scored(l, values[i]))
	}
}

// Each stage is played by its own, and the last by three validators whose
// consensus counts.
func TestStages(t *testing.T) {
	f := staged(t)
	s := f.submit(miner1, "x")
	if got := f.take(val1, "validator"); len(got) != 0 {
		t.Fatalf("a validator got %d runs before the screeners were done", len(got))
	}
	if got := f.take(screener2, "screener_2"); len(got) != 0 {
		t.Fatalf("the second screener got %d runs", len(got))
	}
	f.pass(screener1, "screener_1", 1, 0) // exactly at the bar
	f.pass(screener2, "screener_2", 1)
	f.pass(val1, "validator", 1, 1, 1)
	f.pass(val1, "validator") // no task twice
	f.pass(val2, "validator", 1, 0, 1)
	f.pass(val3, "validator", 1, 1, 1)
	got, err := f.Submission(bg, Caller{}, s.ID)
	must(t, err)
	if got.State != agon.SubmissionScored || *got.Solved != 2 || *got.Total != 3 || *got.Score < 0.66 || *got.Score > 0.67 {
		t.Fatalf("%+v", got)
	}
	checkInvariants(t, f.cfg.Store)
}

// Who does not reach a bar goes no further, and says at which it ended.
func TestStageRefuses(t *testing.T) {
	f := staged(t)
	s := f.submit(miner1, "x")
	f.pass(screener1, "screener_1", 0, 0)
	got, err := f.Submission(bg, Caller{}, s.ID)
	must(t, err)
	if last := got.Findings[len(got.Findings)-1]; got.State != agon.SubmissionRefused || last.Code != kind.StageRefused || last.Field != "screener_1" || got.Score != nil {
		t.Fatalf("%+v", got)
	}
	if list := f.take(val1, "validator"); len(list) != 0 {
		t.Errorf("a validator got %d runs", len(list))
	}
	checkInvariants(t, f.cfg.Store)
}

// The second bar rises with the best score.
func TestStageOfTop(t *testing.T) {
	f := staged(t)
	f.submit(miner1, "x")
	f.pass(screener1, "screener_1", 1, 1)
	f.pass(screener2, "screener_2", 1)
	for _, v := range []string{val1, val2, val3} {
		f.pass(v, "validator", 1, 1, 1)
	}
	s := f.submit(miner2, "y")
	f.pass(screener1, "screener_1", 1, 1)
	f.pass(screener2, "screener_2", 0.8)
	got, err := f.Submission(bg, Caller{}, s.ID)
	must(t, err)
	if got.State != agon.SubmissionRefused {
		t.Errorf("0.8 passed a bar of 0.9: %+v", got)
	}
}

// What a screener lost is another screener's, or its own where it is alone:
// validators that are seen in the arena cannot have it.
func TestStageLost(t *testing.T) {
	f := staged(t)
	f.submit(miner1, "x")
	f.take(val1, "validator") // it is seen
	for _, l := range f.take(screener1, "screener_1") {
		f.result(screener1, l, failedBy(l, agon.FaultValidator))
	}
	if got := f.take(screener1, "screener_1"); len(got) != 2 {
		t.Errorf("got %d of its 2 runs again", len(got))
	}
}

// Nobody takes the name of the operator's own without being let in.
func TestStaff(t *testing.T) {
	f := staged(t)
	f.submit(miner1, "x")
	for _, c := range []struct {
		who   string
		staff bool
	}{{screener1, false}, {val1, true}} {
		_, err := f.ClaimFor(bg, Caller{Hotkey: c.who}, client.ClaimRequest{Kinds: []string{"fake"}, Driver: "runc"}, Terms{Staff: c.staff})
		wantCode(t, err, 403, "not_staff")
	}
	if _, err := f.ClaimFor(bg, Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{"fake"}, Driver: "runc"}, Terms{Stages: []string{"x' OR '1"}}); err == nil {
		t.Error("a statement was taken for a name")
	}
}
