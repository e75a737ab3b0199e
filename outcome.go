package agon

// Outcomes of a Record: what the agent did. Records of all kinds have these words; a kind adds
// others for what only its agents can do. OutcomeOK and OutcomeEmpty are ordinary
// ends (Ordinary); every other word says that the agent failed, unless evidence that
// was made outside of the box shows another fault.
const (
	OutcomeOK          = "ok"                 // it returned what may be judged
	OutcomeEmpty       = "empty"              // it returned nothing: worth 0, no failure
	OutcomeInvalid     = "invalid"            // what it returned breaks the contract
	OutcomeRaised      = "raised"             // it raised an error
	OutcomeExited      = "exited"             // its process ended before it returned anything
	OutcomeLoadError   = "load_error"         // it could not be loaded
	OutcomeNoEntry     = "missing_entrypoint" // it has no entry point
	OutcomeTimeout     = "timeout"            // its wall or processor time was over
	OutcomeOOM         = "oom"                // the box's memory was
	OutcomeLimit       = "limit"              // another limit of the box
	OutcomeOutputLimit = "output_limit"       // it wrote more than Limits.OutputBytes
	OutcomeKilled      = "killed"             // by a signal
	OutcomeBadPatch    = "bad_patch"          // its patch breaks a rule or does not apply
)

// Ordinary reports whether outcome means that the agent did its part, so that the record is judged.
func Ordinary(outcome string) bool { return outcome == OutcomeOK || outcome == OutcomeEmpty }
