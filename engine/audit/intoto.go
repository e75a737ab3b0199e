package audit

import (
	"fmt"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// Statement is an in-toto statement (v1) of a decision, for tools that read
// attestations. It is not signed itself: the proof in its predicate binds the
// decision to the log, whose head is.
type Statement struct {
	Type          string     `json:"_type"`
	Subject       []Subject  `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     EvalResult `json:"predicate"`
}

// Subject is what a statement is about.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// Types of the statement. in-toto has no predicate for evaluations yet
// (eval-result is proposed): this one is ours, with the proposal's words.
const (
	StatementType = "https://in-toto.io/Statement/v1"
	PredicateType = "https://github.com/agon-arena/agon/eval-result/v0.1"
)

// EvalResult is the predicate.
type EvalResult struct {
	Evaluator      string           `json:"evaluator"` // the operator's hotkey
	Metric         string           `json:"metric"`
	Value          float64          `json:"value"`
	Comparator     string           `json:"comparator,omitempty"`
	Threshold      *float64         `json:"threshold,omitempty"` // null: there was no incumbent
	Passed         bool             `json:"passed"`
	SampleSize     int              `json:"sampleSize"`     // tasks
	AssuranceLevel string           `json:"assuranceLevel"` // third_party: neither the contestant nor the reader has measured
	Arena          string           `json:"arena"`
	Decision       agon.Decision    `json:"decision"`
	Evidence       []Evidence       `json:"evidence"`
	Proof          *client.LogProof `json:"proof"`
}

// Evidence is one run that a decision rests on: its name and what it left, so
// that it cannot be used for another.
type Evidence struct {
	Run       string          `json:"run"`
	Attempt   int             `json:"attempt"`
	Validator string          `json:"validator"`
	Tree      agon.Digest     `json:"tree,omitempty"`
	Statement *agon.Statement `json:"statement,omitempty"`
}

// Statement makes the statement of the decision in a bundle.
func (b *Bundle) Statement() (*Statement, error) {
	d := b.Submission.Decision
	if d == nil {
		return nil, &agon.Error{Code: "undecided", Status: 409, Message: fmt.Sprintf("submission %s has not been decided yet", b.Submission.ID)}
	}
	if b.Submission.Digest == "" {
		return nil, &agon.Error{Code: "not_public", Status: 403, Message: fmt.Sprintf("the digest of submission %s is not public", b.Submission.ID)}
	}
	tasks := map[string]bool{}
	e := EvalResult{
		Evaluator: b.Server.Operator, Metric: "score", Value: d.Score, Threshold: d.Bar, Passed: d.Outcome == agon.TookSeat, AssuranceLevel: "third_party",
		Arena: b.Arena.ID, Decision: *d, Evidence: []Evidence{}, Proof: b.Proofs["decision/"+b.Submission.ID],
	}
	if d.Bar != nil {
		e.Comparator = ">"
	}
	for i := range b.Runs {
		r := &b.Runs[i]
		for _, s := range r.Run.Scores {
			tasks[s.Task] = true
		}
		if t := r.Of(); t != nil && t.Counted {
			e.Evidence = append(e.Evidence, Evidence{t.Run, t.N, t.Validator, t.Evidence, t.Statement})
		}
	}
	e.SampleSize = len(tasks)
	return &Statement{
		Type: StatementType, PredicateType: PredicateType, Predicate: e,
		Subject: []Subject{{Name: "submission/" + b.Submission.ID, Digest: map[string]string{"sha256": b.Submission.Digest.Hex()}}},
	}, nil
}
