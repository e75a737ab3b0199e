package agon

import "time"

// Canary is a play whose outcome the operator knows, to see what validators make of
// it: of a submission, or of two against each other.
type Canary struct {
	ID         string `json:"id"`
	Arena      string `json:"arena"`
	Submission string `json:"submission"`
	// Rival is set in a duel: Known is then how much better Submission is, 0 where
	// they are alike. Elsewhere Known is the score.
	Rival     string  `json:"rival,omitempty"`
	Known     float64 `json:"known"`
	Tolerance float64 `json:"tolerance"` // within which a validator's word is right
	// Plays is how many validators are asked, each once.
	Plays  int         `json:"plays"`
	At     time.Time   `json:"at"`
	Actor  string      `json:"actor"`
	Reason string      `json:"reason"`
	Hits   []CanaryHit `json:"hits"`
}

// CanaryHit is what one validator made of a canary.
type CanaryHit struct {
	Run       string    `json:"run"` // of a duel, that of the challenger
	Canary    string    `json:"canary"`
	Arena     string    `json:"arena"`
	Validator string    `json:"validator"`
	Known     float64   `json:"known"`
	Observed  float64   `json:"observed"`
	Missed    bool      `json:"missed"`
	At        time.Time `json:"at"`
}
