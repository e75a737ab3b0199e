package play

import (
	"fmt"
	"strings"

	"github.com/agon-arena/agon"
)

// Codes of Ridges for what an agent did: the agent's fault, and
// never tried again. Those of validators and platform are the engine's faults, which
// play a run again while attempts are left.
const (
	CodeRaised      = 1000 // the agent raised, exited or returned no patch
	CodeEvalRaised  = 1010 // its code raised or was not built in every test
	CodeTimeout     = 1020 // its time was up
	CodeEvalTimeout = 1030 // the time of a test was up with its code
	CodeBadPatch    = 1040 // what it returned is not a patch that applies
)

var codeNames = map[int]string{
	CodeRaised: "agent raised", CodeEvalRaised: "agent raised in eval", CodeTimeout: "agent timeout", CodeEvalTimeout: "eval timeout", CodeBadPatch: "invalid patch",
}

// Why a test that did not end did not pass.
const (
	whyTimeout = "timed out"
	whyLimit   = "did not run: " // and the limit
)

// CodeOf is the code of an outcome; 0: none, it has been graded.
func CodeOf(outcome string) int {
	switch outcome {
	case OutcomeOK, OutcomeEmpty:
		return 0
	case OutcomeTimeout:
		return CodeTimeout
	case OutcomeBadPatch:
		return CodeBadPatch
	}
	return CodeRaised
}

// Code is the code of a graded patch; 0: none, it was judged by its assertions.
func (v *Verdict) Code() int {
	if v.Refused != "" {
		return CodeBadPatch
	}
	raised := len(v.Tests) > 0 && !v.Solved
	for _, t := range v.Tests {
		if !t.Passed && (t.Why == whyTimeout || strings.HasPrefix(t.Why, whyLimit+"wall")) {
			return CodeEvalTimeout
		}
		raised = raised && !t.Passed && !t.asserted && !strings.HasPrefix(t.Why, whyLimit)
	}
	if raised && len(v.Forged) == 0 {
		return CodeEvalRaised
	}
	return 0
}

// withCode says a reason for a score of 0 with its code.
func withCode(why string, code int) string {
	if code == 0 {
		return why
	}
	return fmt.Sprintf("%s (%d, %s)", why, code, codeNames[code])
}

// unsolved says why there is no patch to judge, and its code.
func unsolved(rec agon.Record) string {
	why := map[string]string{
		OutcomeEmpty:     "no patch: the agent changed nothing",
		OutcomeLoadError: "the agent's file could not be loaded",
		OutcomeRaised:    "agent_main raised an error",
		OutcomeTimeout:   "the agent took too long",
		OutcomeExited:    "the agent ended without an answer",
		OutcomeInvalid:   "the answer is not a patch",
		OutcomeBadPatch:  "the patch cannot be judged",
		OutcomeOOM:       "the agent ran out of memory",
		OutcomeKilled:    "the agent was killed",
	}[rec.Outcome]
	if why == "" {
		why = strings.ReplaceAll(rec.Outcome, "_", " ")
	}
	if rec.Detail != "" && rec.Outcome != OutcomeEmpty {
		why += ": " + rec.Detail
	}
	return withCode(why, CodeOf(rec.Outcome))
}
