package agon

// Gate is what a judge must have shown on labelled cases (agon judge calibrate).
type Gate struct {
	Kappa        float64 `json:"kappa" toml:"kappa"`                 // what the lower end of Cohen's kappa's 95 % interval must reach
	FalseAccepts float64 `json:"false_accepts" toml:"false_accepts"` // the most in any class of cases, 0 to 1
	// Demo: any judge will do, also one that was never measured, and one that only
	// stands in for a judge or for a part of it.
	Demo bool `json:"demo,omitempty" toml:"demo"`
}

// The gate of judges where an arena names none.
const (
	DefaultGateKappa        = 0.6
	DefaultGateFalseAccepts = 0.2
)
