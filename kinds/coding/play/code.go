package play

import (
	"fmt"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
)

// Codes of Ridges (spec/ridges.md 5.4). Those below 2000 are the agent's fault and never
// played again.
const (
	CodeRaised      = 1000 // the agent raised, exited or returned no patch
	CodeEvalRaised  = 1010 // its code raised or was not built in every test
	CodeTimeout     = 1020 // its time was up
	CodeEvalTimeout = 1030 // the time of a test was up with its code
	CodeBadPatch    = 1040 // what it returned is not a patch that applies
	// The fault of a validator.
	codeValidator = 2000 // with nothing said of a stage: here, the provider or the ledger behind it
	codeFailed    = 2010 // it failed at the first stage; 10 more for each later one
	// The fault of the platform.
	codeLost        = 3000 // the run was lost at the first stage; 10 more for each later one
	codeProvisioned = 3050 // what the task needs could not be had
)

var codeNames = map[int]string{
	CodeRaised: "agent raised", CodeEvalRaised: "agent raised in eval", CodeTimeout: "agent timeout", CodeEvalTimeout: "eval timeout", CodeBadPatch: "invalid patch",
	codeValidator: "validator internal", codeProvisioned: "provisioning failed",
}

// stageNames are Ridges' five stages, in order of kind.Stage.
var stageNames = []string{"pending", "initializing agent", "running agent", "initializing eval", "running eval"}

// FailureCode implements kind.Coder. A number follows the fault, which the engine
// assigned from what it saw outside of the box: an agent that claims a failed transport
// has 1000. Of the numbers from 2000 on ridges.Retryable says which are tried again. A lost
// run (3000 to 3040) is not: it is handed out anew, and loses none of its tries by it unless
// its validator went silent. No native run has 1050 (it uses no miner's key), 2060 (tasks come
// by their digest) or 3060 (only stages prune).
func (k *Kind) FailureCode(f kind.Failure) (code int, name string) {
	at := min(max(int(f.Stage), 0), len(stageNames)-1)
	switch {
	case f.Fault == agon.FaultAgent && f.Stage >= kind.StageGrading:
		return CodeEvalRaised, codeNames[CodeEvalRaised]
	case f.Fault == agon.FaultAgent:
		code = CodeOf(f.Outcome)
		if code == 0 {
			code = CodeRaised
		}
		return code, codeNames[code]
	case f.Lost || f.Fault == agon.FaultPlatform:
		return codeLost + 10*at, "lost " + stageNames[at]
	case f.Fault == agon.FaultValidator:
		return codeFailed + 10*at, "validator failed " + stageNames[at]
	case f.Fault == agon.FaultTask:
		return codeProvisioned, codeNames[codeProvisioned]
	case f.Fault == agon.FaultNone:
		return 0, ""
	}
	return codeValidator, codeNames[codeValidator]
}

// Why a test that did not end did not pass.
const (
	whyTimeout = "timed out"
	whyLimit   = "did not run: " // and the limit
)

// CodeOf is the code of an outcome; 0: none, it has been graded.
func CodeOf(outcome string) int {
	switch outcome {
	case agon.OutcomeOK, agon.OutcomeEmpty:
		return 0
	case agon.OutcomeTimeout:
		return CodeTimeout
	case agon.OutcomeBadPatch:
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
		agon.OutcomeEmpty:     "no patch: the agent changed nothing",
		agon.OutcomeLoadError: "the agent's file could not be loaded",
		agon.OutcomeRaised:    "agent_main raised an error",
		agon.OutcomeTimeout:   "the agent took too long",
		agon.OutcomeExited:    "the agent ended without an answer",
		agon.OutcomeInvalid:   "the answer is not a patch",
		agon.OutcomeBadPatch:  "the patch cannot be judged",
		agon.OutcomeOOM:       "the agent ran out of memory",
		agon.OutcomeKilled:    "the agent was killed",
	}[rec.Outcome]
	if why == "" {
		why = strings.ReplaceAll(rec.Outcome, "_", " ")
	}
	if rec.Detail != "" && rec.Outcome != agon.OutcomeEmpty {
		why += ": " + rec.Detail
	}
	return withCode(why, CodeOf(rec.Outcome))
}
