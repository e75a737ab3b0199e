package client

import "time"

// OutcomeGivenBack, as Outcome of a result with fault validator, says that the
// validator stops and gives the run back: that uses up no retry.
const OutcomeGivenBack = "given_back"

// OutcomeKept is OutcomeGivenBack of a validator that keeps what the run had come to, and
// can go on from there: for KeptFor the run is offered to no other.
const (
	OutcomeKept = "kept"
	KeptFor     = 30 * time.Minute
)

// GivenBack reports whether an outcome says that a run was given back.
func GivenBack(outcome string) bool { return outcome == OutcomeGivenBack || outcome == OutcomeKept }
