package audit

import (
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/gateway"
)

// Report is what a check came to.
type Report struct {
	Submission string      `json:"submission"`
	Run        string      `json:"run,omitempty"`     // where one run was asked for
	Attempt    int         `json:"attempt,omitempty"` // of it
	OK         bool        `json:"ok"`                // nothing is wrong
	Checked    []string    `json:"checked"`
	Unchecked  []Unchecked `json:"unchecked"`
	Wrong      []Wrong     `json:"wrong"`
	Checks     []Line      `json:"checks"` // the same, a line each
	// Chain is that of the run's receipts, where one run was asked for.
	Chain gateway.Chain `json:"chain"`
	// Log is the head that the proofs were checked against, and its key.
	Log *Head `json:"log,omitempty"`
}

// Unchecked is something that could not be checked.
type Unchecked struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Wrong is something that does not hold.
type Wrong struct {
	What  string `json:"what"`
	Where string `json:"where"`
}

// Line is one check. Status is ok, warn (not checked) or fail.
type Line struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail"`
}

// Head is a checked head of the log.
type Head struct {
	Key        string                `json:"key"`
	Size       int64                 `json:"size"`
	Checkpoint translog.Checkpoint   `json:"-"`
	Witnesses  []string              `json:"witnesses,omitempty"`
	all        []translog.Checkpoint // every head that was seen
}

// Heads are the checked heads that the bundle's proofs stand under.
func (r *Report) Heads() []translog.Checkpoint {
	if r.Log == nil {
		return nil
	}
	return r.Log.all
}

// checker gathers a report.
