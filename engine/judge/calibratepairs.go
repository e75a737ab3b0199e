package judge

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"strings"
)

// LabelledPair is a comparison of which a person said what is better.
type LabelledPair struct {
	ID    string `json:"id"`
	Class string `json:"class,omitempty"`
	PairCase
	// Better is BetterAnswer or BetterReference.
	Better string `json:"better"`
}

// What LabelledPair.Better may be.
const (
	BetterAnswer    = "answer"
	BetterReference = "reference"
)

// ReadPairs is ReadCases for comparisons.
func ReadPairs(r io.Reader) ([]LabelledPair, error) {
	return ReadLines(r, func(l *LabelledPair) (LabelledPair, error) {
		switch {
		case l.Better != BetterAnswer && l.Better != BetterReference:
			return *l, errors.New(`better: want "answer" or "reference"`)
		case l.Query == "" || l.Answer.Text == "" || l.Reference.Text == "":
			return *l, errors.New("query and both answer_text are needed")
		}
		return *l, nil
	}, func(l LabelledPair) string { return l.ID })
}

// Position is what the order of two answers did to a judge.
type Position struct {
	// Flipped is the share of judged cases in which the orders disagree.
	Flipped float64 `json:"flipped"`
	// First is the share of all verdicts that went to the answer that stood first;
	// half, where the order does nothing.
	First float64 `json:"first"`
}

// CalibratePairs is Calibrate for comparisons, each in both orders. A case is
// right if both agree with its label: where the orders disagree, half a point
// goes to whom none is due, and the case is a false accept or a false reject.
func (j *Judge) CalibratePairs(ctx context.Context, cases []LabelledPair, told func(done, total int)) (*Calibration, error) {
	c := &Calibration{Prompt: PairwisePrompt().ID(), Model: strings.Join(j.models(), ","), Scorer: PairwiseScorer(j.models())}
	return c, j.measure(c, func() error {
		return c.pairs(cases, told, func(p PairCase) (PairVerdict, error) { return j.Pairwise(ctx, p) })
	})
}

func (c *Calibration) pairs(cases []LabelledPair, told func(done, total int), compare func(PairCase) (PairVerdict, error)) error {
	flipped, first := 0, 0
	err := tally(c, cases, told, func(l LabelledPair) (Given, error) {
		v, err := compare(l.PairCase)
		g := Given{ID: l.ID, Class: l.Class, Label: l.Better == BetterAnswer, Why: v.Rationales[0]}
		if err != nil {
			return g, err
		}
		if g.Said = v.Wins == 2; !g.Label {
			g.Said = v.Wins > 0
		}
		if v.Wins == 1 {
			flipped++
		}
		first += v.First
		return g, nil
	})
	c.Position = &Position{Flipped: rate(flipped, c.Judged), First: rate(first, 2*c.Judged)}
	return err
}

//go:embed cases/pairwise.jsonl
var shippedPairs string
