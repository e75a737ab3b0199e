// Package likeness judges how much of a script is new against an earlier one.
package likeness

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/kinds/claim/query"
)

//go:embed prompt.md
var text string

// Prompt is what the judge is told.
func Prompt() judge.Prompt {
	return judge.Prompt{Name: "likeness", Version: 1, System: text, MaxTokens: 2048}
}

// Scorer is the judge of these models, as calibrations name it.
func Scorer(models []string) string {
	return judge.Scorer("likeness", Prompt(), strings.Join(models, ","))
}

// Case is a script as the diff that makes it out of an earlier one.
type Case struct {
	Reference string `json:"earlier_program"`
	Diff      string `json:"diff"`
}

// Verdict is what the judge said; its class follows from the three statuses.
type Verdict struct {
	Class     string
	Rationale string
	Model     string // that answered
}

// Compare asks a judge; errors are those of judge.Ask. A script that is too long for it
// gets none: nothing can be said of half a script.
func Compare(ctx context.Context, j *judge.Judge, c Case) (Verdict, error) {
	var v Verdict
	a, err := j.Ask(ctx, Prompt(), c, func(obj []byte) error {
		var err error
		v, err = Parse(obj)
		return err
	})
	v.Model = a.Model
	return v, err
}

// Parse reads a judge's reply.
func Parse(obj []byte) (Verdict, error) {
	var r struct {
		Why        string `json:"rationale"`
		Controller string `json:"primary_controller"`
		Evidence   string `json:"evidence_state_and_flow"`
		Answer     string `json:"answer_production_path"`
	}
	if err := json.Unmarshal(obj, &r); err != nil {
		return Verdict{}, fmt.Errorf("read comparison: %w", err)
	}
	class, err := query.ClassOf(r.Controller, r.Evidence, r.Answer)
	if err != nil {
		return Verdict{}, fmt.Errorf("read comparison: %w", err)
	}
	return Verdict{Class: class, Rationale: r.Why}, nil
}
