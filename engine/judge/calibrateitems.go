package judge

import (
	"context"
	_ "embed"
	"errors"
	"io"
)

// LabelledItem is a graded answer to a benchmark's question, whose right grade a
// person gave.
type LabelledItem struct {
	ID    string `json:"id"`
	Class string `json:"class,omitempty"`
	ItemCase
	// Holds says that the answer is right, or that it meets the criterion.
	Holds bool `json:"holds"`
}

// ReadItems is ReadCases for graded answers.
func ReadItems(r io.Reader) ([]LabelledItem, error) {
	type line struct {
		LabelledItem
		OK *bool `json:"holds"`
	}
	return ReadLines(r, func(l *line) (LabelledItem, error) {
		switch {
		case l.OK == nil:
			return l.LabelledItem, errors.New("holds is missing")
		case l.Question == "" || l.Wanted == "" || l.Answer == "":
			return l.LabelledItem, errors.New("question, wanted and answer are needed")
		}
		l.LabelledItem.Holds = *l.OK
		return l.LabelledItem, nil
	}, func(l LabelledItem) string { return l.ID })
}

// CalibrateItems is Calibrate for p, which is CorrectPrompt or CriterionPrompt.
func (j *Judge) CalibrateItems(ctx context.Context, p Prompt, cases []LabelledItem, told func(done, total int)) (*Calibration, error) {
	return Measure(j, "item", p, cases, told, func(l LabelledItem) (Given, error) {
		v, err := j.Item(ctx, p, l.ItemCase)
		return Given{l.ID, l.Class, l.Holds, v.Holds, v.Why}, err
	})
}

var (
	//go:embed cases/correct.jsonl
	shippedCorrect string
	//go:embed cases/criterion.jsonl
	shippedCriterion string
)
