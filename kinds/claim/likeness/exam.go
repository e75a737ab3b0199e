package likeness

import (
	"context"
	_ "embed"
	"errors"
	"io"

	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/kinds/claim/query"
)

// Labelled is a comparison of which a person said whether it pays.
type Labelled struct {
	ID    string `json:"id"`
	Class string `json:"class,omitempty"`
	Case
	// Differs says that the later program is not a duplicate of the earlier one.
	Differs bool `json:"differs"`
}

// shipped are 16 small programs, each with 12 changes that do nothing and 9 that do.
//
//go:embed cases.jsonl
var shipped string

// Exam measures judges by labelled comparisons: what they call anything but a duplicate
// where it is one is a false accept, since that is what earns.
func Exam() judge.Exam {
	return judge.Exam{
		Prompt: Prompt(), Shipped: shipped, Form: "{id, earlier_program, diff, differs}",
		Read: func(r io.Reader) (judge.Sheet, error) {
			cases, err := ReadCases(r)
			return judge.Sheet{By: func(ctx context.Context, j *judge.Judge, told func(done, total int)) (*judge.Calibration, error) {
				return Calibrate(ctx, j, cases, told)
			}}, err
		},
	}
}

// ReadCases is judge.ReadCases for comparisons of programs.
func ReadCases(r io.Reader) ([]Labelled, error) {
	type line struct {
		Labelled
		OK *bool `json:"differs"`
	}
	return judge.ReadLines(r, func(l *line) (Labelled, error) {
		switch {
		case l.OK == nil:
			return l.Labelled, errors.New("differs is missing")
		case l.Reference == "" || l.Diff == "":
			return l.Labelled, errors.New("earlier_program and diff are needed")
		}
		l.Labelled.Differs = *l.OK
		return l.Labelled, nil
	}, func(l Labelled) string { return l.ID })
}

// Calibrate is judge.Judge.Calibrate for comparisons of programs.
func Calibrate(ctx context.Context, j *judge.Judge, cases []Labelled, told func(done, total int)) (*judge.Calibration, error) {
	return judge.Measure(j, "likeness", Prompt(), cases, told, func(l Labelled) (judge.Given, error) {
		v, err := Compare(ctx, j, l.Case)
		return judge.Given{ID: l.ID, Class: l.Class, Label: l.Differs, Said: v.Class != query.Duplicate, Why: v.Rationale}, err
	})
}
