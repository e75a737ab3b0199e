package judge

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
)

//go:embed prompts/pairwise.md
var pairwiseText string

// PairwisePrompt is the prompt that chooses between two answers to a query.
func PairwisePrompt() Prompt {
	return Prompt{Name: "pairwise", Version: 1, System: pairwiseText, MaxTokens: 2048}
}

// PairCase is a query with two answers of which one is preferred.
type PairCase struct {
	Query string `json:"query"`
	// Contract is the JSON Schema of a structured answer; nil: text is wanted.
	Contract json.RawMessage `json:"output_contract,omitempty"`
	// Answer is whose share of wins is counted, against Reference.
	Answer    PairAnswer `json:"answer"`
	Reference PairAnswer `json:"reference"`
}

// PairwiseScorer is the version of the scorer that compares answers by models.
func PairwiseScorer(models []string) string {
	return Scorer("pairwise", PairwisePrompt(), strings.Join(models, ","))
}

// PairAnswer is one answer as the judge sees it.
type PairAnswer struct {
	Text      string       `json:"answer_text"` // compact JSON where it is structured
	Note      string       `json:"note,omitempty"`
	Citations []*PairCited `json:"validated_citations"` // by position; nil could not be found
}

// PairCited is what a trusted host read from a cited source.
type PairCited struct {
	URL   string `json:"url"`
	Title string `json:"title,omitempty"`
	Note  string `json:"note,omitempty"`
}

// PairVerdict is what the judge said in both orders of the answers.
type PairVerdict struct {
	// Wins counts the orders in which Answer was preferred: 0, 1 or 2. A judge that
	// prefers a position gives 1.
	Wins int `json:"wins"`
	// Rationales are the judge's, with Answer first and then second.
	Rationales [2]string `json:"rationales"`
	// First counts the orders in which the answer that stood first was preferred.
	First int `json:"first"`
	// Unreadable says that no model answered on this case in the form while the same
	// models did on a case of ours. Wins is 0 then.
	Unreadable bool `json:"unreadable,omitempty"`
}

// Limits of a comparison, in bytes.
const (
	maxAnswerText = 96 << 10
	maxPairNote   = 16 << 10
	maxEvidence   = 4 << 10
)

func (a PairAnswer) bounded() PairAnswer {
	a.Text, a.Note = clip(a.Text, maxAnswerText), clip(a.Note, maxPairNote)
	list := make([]*PairCited, 0, len(a.Citations))
	for i, c := range a.Citations {
		if c != nil {
			x := PairCited{URL: clip(c.URL, 500), Title: clip(c.Title, 300), Note: clip(c.Note, maxEvidence)}
			if i >= maxCitations {
				x.Note = "" // only the first are shown whole
			}
			c = &x
		}
		list = append(list, c)
	}
	a.Citations = list
	return a
}

// Pairwise asks for both orders at once. Where one cannot be had the other is
// given up: half a comparison is not a verdict.
func (j *Judge) Pairwise(ctx context.Context, c PairCase) (PairVerdict, error) {
	v, err := j.pairwise(ctx, c)
	if !errors.Is(err, ErrForm) {
		return v, err
	}
	ours := PairCase{Query: "When does the footbridge at Olm close?", Answer: PairAnswer{Text: "It closes at eight."}, Reference: PairAnswer{Text: "At eight in the evening."}}
	if _, perr := j.pairwise(ctx, ours); perr != nil {
		return PairVerdict{}, err
	}
	return PairVerdict{Unreadable: true}, nil
}

func (j *Judge) pairwise(ctx context.Context, c PairCase) (PairVerdict, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answer, reference := c.Answer.bounded(), c.Reference.bounded()
	var v PairVerdict
	var won, first [2]bool
	var errs [2]error
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			list, mine := []PairAnswer{answer, reference}, "first"
			if i == 1 {
				list, mine = []PairAnswer{reference, answer}, "second"
			}
			got, why, err := j.preferred(ctx, c, list)
			if errs[i] = err; err != nil {
				cancel()
			}
			won[i], first[i], v.Rationales[i] = got == mine, got == "first", why
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil && (errs[1-i] == nil || !errors.Is(err, context.Canceled)) {
			return PairVerdict{}, err
		}
	}
	if errs[0] != nil {
		return PairVerdict{}, errs[0]
	}
	for i := range won {
		if won[i] {
			v.Wins++
		}
		if first[i] {
			v.First++
		}
	}
	return v, nil
}

func (j *Judge) preferred(ctx context.Context, c PairCase, list []PairAnswer) (position, why string, err error) {
	type placed struct {
		Position string `json:"position"`
		PairAnswer
	}
	in := struct {
		Query    string          `json:"query"`
		Answers  []placed        `json:"answers"`
		Contract json.RawMessage `json:"output_contract,omitempty"`
	}{clip(c.Query, maxAnswerText), []placed{{"first", list[0]}, {"second", list[1]}}, c.Contract}
	_, err = j.Ask(ctx, PairwisePrompt(), in, func(obj []byte) error {
		position, why, err = ParsePairwise(obj)
		return err
	})
	return position, why, err
}

// ParsePairwise reads a judge's reply. Other servers call the field chosen_answer.
func ParsePairwise(obj []byte) (position, why string, err error) {
	var r struct {
		Position string `json:"preferred_position"`
		Chosen   string `json:"chosen_answer"`
		Why      string `json:"rationale"`
	}
	if err := json.Unmarshal(obj, &r); err != nil {
		return "", "", fmt.Errorf("read comparison: %w", err)
	}
	if r.Position == "" {
		r.Position = r.Chosen
	}
	if r.Position != "first" && r.Position != "second" {
		return "", "", errors.New(`read comparison: preferred_position: want "first" or "second"`)
	}
	return r.Position, clip(r.Why, maxRationale), nil
}
