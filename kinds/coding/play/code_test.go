package play

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/coding/ridges"
)

// Each way to score 0 that is the agent's has Ridges' code.
func TestCodeOf(t *testing.T) {
	for outcome, want := range map[string]int{
		agon.OutcomeOK: 0, agon.OutcomeEmpty: 0, agon.OutcomeRaised: 1000, agon.OutcomeInvalid: 1000, agon.OutcomeExited: 1000, agon.OutcomeLoadError: 1000, agon.OutcomeKilled: 1000,
		agon.OutcomeOOM: 1000, agon.OutcomeOutputLimit: 1000, agon.OutcomeLimit: 1000, agon.OutcomeTimeout: 1020, agon.OutcomeBadPatch: 1040,
	} {
		if got := CodeOf(outcome); got != want || got != 0 && codeNames[got] == "" {
			t.Errorf("%s: %d, want %d", outcome, got, want)
		}
	}
}

// A graded patch has a code where its code, and not an assertion, ended the tests.
func TestVerdictCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, diff string
		want       string
	}{
		{"raises when it is loaded", evilCalc("raise RuntimeError('no')"), "0/3 fail_to_pass, 0/1 pass_to_pass (1010, agent raised in eval)"},
		{"never ends", replaceCalc("def add(a, b):\n    while True: pass"), "0/3 fail_to_pass, 0/1 pass_to_pass (1030, eval timeout)"},
		{"is wrong", replaceCalc("def add(a, b):\n    if a is None: raise TypeError\n    return 3"), "0/3 fail_to_pass, 1/1 pass_to_pass; "},
		{"is right", calcFix, "3/3 fail_to_pass, 1/1 pass_to_pass"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tk := calcTask(t)
			tk.Config.Agon.TestTimeoutSec = 2
			if c.name == "is right" || c.name == "is wrong" {
				tk.Config.Agon.TestTimeoutSec = 30
			}
			if v := judge(t, tk, c.diff); !strings.HasPrefix(v.Detail, c.want) {
				t.Errorf("%q, want %q", v.Detail, c.want)
			}
		})
	}
	k, d := newKind(t)
	for outcome, want := range map[string]string{agon.OutcomeTimeout: "the agent took too long (1020, agent timeout)", agon.OutcomeBadPatch: "the patch cannot be judged (1040, invalid patch)", agon.OutcomeEmpty: "no patch: the agent changed nothing"} {
		s, err := k.Judge(t.Context(), newEnv(t, d, calcTask(t), ""), runSpec(), agon.Record{Outcome: outcome})
		if err != nil || len(s) != 1 || s[0].Detail != want {
			t.Errorf("%s: %+v, %v", outcome, s, err)
		}
	}
}

// Each failure that the engine finds has Ridges' number for its fault and stage, whatever
// the agent says, and the engine plays again what Ridges' table plays again. A run that was
// lost is not tried again there; its whole evaluation is handed out anew.
func TestFailureCode(t *testing.T) {
	k := &Kind{}
	for _, c := range []struct {
		f    kind.Failure
		want int
	}{
		{kind.Failure{}, 0},
		{kind.Failure{Fault: agon.FaultAgent, Stage: kind.StagePlay, Outcome: agon.OutcomeTimeout}, 1020},
		{kind.Failure{Fault: agon.FaultAgent, Stage: kind.StagePlay, Outcome: agon.OutcomeBadPatch}, 1040},
		{kind.Failure{Fault: agon.FaultAgent, Stage: kind.StagePlay, Outcome: agon.OutcomeRaised}, 1000},
		{kind.Failure{Fault: agon.FaultAgent, Stage: kind.StagePlay}, 1000},
		{kind.Failure{Fault: agon.FaultAgent, Stage: kind.StageJudge, Outcome: agon.OutcomeOK}, 1010},
		{kind.Failure{Fault: agon.FaultValidator, Stage: kind.StageWaiting}, 2010},
		{kind.Failure{Fault: agon.FaultValidator, Stage: kind.StagePreparing}, 2020},
		{kind.Failure{Fault: agon.FaultValidator, Stage: kind.StagePlay}, 2030},
		{kind.Failure{Fault: agon.FaultValidator, Stage: kind.StageGrading, Outcome: agon.OutcomeOK}, 2040},
		{kind.Failure{Fault: agon.FaultValidator, Stage: kind.StageJudge, Outcome: agon.OutcomeOK}, 2050},
		{kind.Failure{Fault: agon.FaultProvider, Stage: kind.StagePlay, Outcome: agon.OutcomeRaised}, 2000},
		{kind.Failure{Fault: agon.FaultLedger}, 2000},
		{kind.Failure{Fault: agon.FaultTask, Stage: kind.StagePreparing}, 3050},
		{kind.Failure{Fault: agon.FaultPlatform, Stage: kind.StageWaiting, Lost: true}, 3000},
		{kind.Failure{Fault: agon.FaultPlatform, Stage: kind.StagePreparing}, 3010},
		{kind.Failure{Fault: agon.FaultValidator, Stage: kind.StagePlay, Lost: true}, 3020},
		{kind.Failure{Fault: agon.FaultPlatform, Stage: kind.StageGrading}, 3030},
		{kind.Failure{Fault: agon.FaultValidator, Stage: kind.StageJudge, Lost: true}, 3040},
		{kind.Failure{Fault: agon.FaultValidator, Stage: 99}, 2050},
	} {
		code, name := k.FailureCode(c.f)
		if code != c.want || (name == "") != (code == 0) {
			t.Errorf("%+v: %d %q, want %d", c.f, code, name, c.want)
		}
		if lost := code >= 3000 && code <= 3040; ridges.Retryable(code) != (c.f.Fault.Ours() && !lost) {
			t.Errorf("%+v: %d is tried again: %v", c.f, code, ridges.Retryable(code))
		}
	}
}
