package kind

import (
	"fmt"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// Stage is how far an attempt had come when it failed.
type Stage int

// Stages of an attempt, in order. The platform alone does not see when untrusted code
// starts: of an attempt that it lost it knows only StageWaiting, StagePlay and StageJudge.
const (
	StageWaiting   Stage = iota // leased; nothing of it has been started
	StagePreparing              // its box is made
	StagePlay                   // the agent's first command has been started
	StageGrading                // the judge prepares
	StageJudge                  // code under test has been started
)

// Failure is an attempt that did not end well, as the engine saw it.
type Failure struct {
	Fault   agon.Fault
	Stage   Stage
	Outcome string // the kind's word for what the agent did; empty where it left no record
	// Lost says that the platform ended the attempt without a result: its holder went
	// silent, left or was sent away, or the platform was restarted.
	Lost bool
}

// Coder is a Kind whose community has numbers for failures. The engine assigns the fault
// first; a number only names it.
type Coder interface {
	// FailureCode returns the number of a failure and its name. 0: it has none. Pure.
	FailureCode(f Failure) (code int, name string)
}

// maxCoded bounds a reason that a number is added to, in characters: with the number it
// stays below the 2,000 bytes that the platform stores of a reason.
const maxCoded = 450

// Coded adds the number of a failure to the reason, where the kind has one.
func Coded(k Kind, f Failure, reason string) string {
	c, ok := k.(Coder)
	if !ok || f.Fault == agon.FaultNone {
		return reason
	}
	code, name := c.FailureCode(f)
	if code == 0 {
		return reason
	}
	return fmt.Sprintf("%s (%d, %s)", plain.Short(reason, maxCoded), code, name)
}
