package play

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// Each way to score 0 that is the agent's has Ridges' code.
func TestCodeOf(t *testing.T) {
	for outcome, want := range map[string]int{
		OutcomeOK: 0, OutcomeEmpty: 0, OutcomeRaised: 1000, OutcomeInvalid: 1000, OutcomeExited: 1000, OutcomeLoadError: 1000, OutcomeKilled: 1000,
		OutcomeOOM: 1000, OutcomeOutputLimit: 1000, OutcomeLimit: 1000, OutcomeTimeout: 1020, OutcomeBadPatch: 1040,
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
	for outcome, want := range map[string]string{OutcomeTimeout: "the agent took too long (1020, agent timeout)", OutcomeBadPatch: "the patch cannot be judged (1040, invalid patch)", OutcomeEmpty: "no patch: the agent changed nothing"} {
		s, err := k.Judge(t.Context(), newEnv(t, d, calcTask(t), ""), runSpec(), agon.Record{Outcome: outcome})
		if err != nil || len(s) != 1 || s[0].Detail != want {
			t.Errorf("%s: %+v, %v", outcome, s, err)
		}
	}
}
