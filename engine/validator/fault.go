package validator

import (
	"fmt"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
)

// Phase is where in an attempt something was seen.
type Phase string

// Phases of an attempt.
const (
	PhasePlay  Phase = "play"
	PhaseJudge Phase = "judge"
)

// Observed is everything the engine itself saw of an attempt. Nothing in it
// comes from the agent's word, nor from the kind's: boxes, exits and ends are
// the driver's, Gateway is the gateway's, Notes are failures of Env's own
// services. It is the only input of AssignFault besides the record's outcome.
type Observed struct {
	// AgentStarted is set when the first untrusted command was handed to a
	// running box.
	AgentStarted bool
	// JudgeStarted is set when code under test was handed to a judging box.
	JudgeStarted bool
	// Exits are those of untrusted commands, in order.
	Exits []PhasedExit
	// Ends are those of all boxes, in order.
	Ends []PhasedEnd
	// Notes are failures of what the engine gives to kinds.
	Notes   []Note
	Gateway gateway.Evidence
	// Interrupted says that this validator stopped the attempt itself
	// (shutdown, lost lease).
	Interrupted bool
}

// PhasedExit is an exit of untrusted code.
type PhasedExit struct {
	Phase Phase
	sandbox.Exit
}

// PhasedEnd is the end of a box.
type PhasedEnd struct {
	Phase Phase
	sandbox.End
}

// Note is a failure of one of Env's services.
type Note struct {
	Phase  Phase
	Fault  agon.Fault
	Reason string
}

// AssignFault decides whose failure an attempt was, FaultNone if nothing failed.
// playErr and judgeErr are what the kind returned; solved says that the judge
// gave full marks.
//
// The order is the rule (ARCHITECTURE.md, Faults): evidence made outside the box first,
// then whether the agent's first instruction had run, then the agent. An error
// that a kind returns has no say in whose fault it is.
func AssignFault(o Observed, rec agon.Record, playErr, judgeErr error, solved bool) (agon.Fault, string) {
	if o.Interrupted {
		return agon.FaultValidator, "the validator stopped the attempt"
	}
	for _, e := range o.Ends {
		if e.Killed != "" {
			return agon.FaultValidator, fmt.Sprintf("%s box was ended from outside: %s", e.Phase, e.Killed)
		}
	}
	for _, e := range o.Exits {
		if e.Lost != "" {
			return agon.FaultValidator, fmt.Sprintf("%s command was lost: %s", e.Phase, e.Lost)
		}
	}
	if len(o.Notes) > 0 {
		n := o.Notes[0]
		return n.Fault, n.Reason
	}
	// A provider's failure counts only when the gateway's own canary failed
	// too: an agent can provoke errors, not the canary's. A run that was
	// solved all the same stands, and so does one whose calls were answered
	// again afterwards: it had its model, and what it made of it is its own.
	if o.Gateway.ProviderErrors > 0 && o.Gateway.CanaryFailed && !o.Gateway.Recovered && !solved {
		return agon.FaultProvider, "the provider failed and so did the gateway's canary: " + o.Gateway.LastError
	}
	if playErr != nil {
		if !o.AgentStarted {
			return agon.FaultValidator, "before the agent started: " + playErr.Error()
		}
		return agon.FaultAgent, "after the agent started: " + playErr.Error()
	}
	if !agon.Ordinary(rec.Outcome) {
		if !o.AgentStarted {
			return agon.FaultValidator, "no agent was started, outcome " + rec.Outcome
		}
		return agon.FaultAgent, rec.Outcome
	}
	if judgeErr != nil {
		if o.JudgeStarted {
			return agon.FaultAgent, "code under test broke its grading: " + judgeErr.Error()
		}
		return agon.FaultValidator, "judging: " + judgeErr.Error()
	}
	return agon.FaultNone, ""
}
