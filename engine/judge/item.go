package judge

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

var (
	//go:embed prompts/correct.md
	correctText string
	//go:embed prompts/criterion.md
	criterionText string
)

// CorrectPrompt asks whether an answer says what the right one does, CriterionPrompt
// whether it meets one criterion of a rubric. Both grade items of benchmarks.
func CorrectPrompt() Prompt {
	return Prompt{Name: "correct", Version: 1, System: correctText, MaxTokens: 1024}
}

// CriterionPrompt is CorrectPrompt for one criterion of a rubric.
func CriterionPrompt() Prompt {
	return Prompt{Name: "criterion", Version: 1, System: criterionText, MaxTokens: 1024}
}

// ItemScorer is SupportScorer for p, which is CorrectPrompt or CriterionPrompt.
func ItemScorer(p Prompt, models []string) string {
	return Scorer("item", p, strings.Join(models, ","))
}

// ItemCase is an answer to a benchmark's question, and what is wanted of it.
type ItemCase struct {
	Question string `json:"question"`
	Wanted   string `json:"wanted"` // the right answer, or a criterion
	Answer   string `json:"answer"`
}

func (c ItemCase) bounded() ItemCase {
	return ItemCase{Question: clip(c.Question, maxAnswerText), Wanted: clip(c.Wanted, maxAnswerText), Answer: clip(c.Answer, maxAnswerText)}
}

// ItemVerdict is what the judge says of an ItemCase.
type ItemVerdict struct {
	Holds bool   `json:"holds"`
	Why   string `json:"why"`
	// Unreadable says that no model answered on this case in the form while the same
	// models did on a case of ours. Holds is false then.
	Unreadable bool `json:"unreadable,omitempty"`
}

// Item grades an answer by p, which is CorrectPrompt or CriterionPrompt.
func (j *Judge) Item(ctx context.Context, p Prompt, c ItemCase) (ItemVerdict, error) {
	v, err := j.item(ctx, p, c.bounded())
	if !errors.Is(err, ErrForm) {
		return v, err
	}
	ours := ItemCase{Question: "When does the footbridge at Olm close?", Wanted: "At eight in the evening.", Answer: "It closes at 8 pm."}
	if _, perr := j.item(ctx, p, ours); perr != nil {
		return ItemVerdict{}, err
	}
	return ItemVerdict{Unreadable: true, Why: "the judge answers on other cases in its form and on this one does not"}, nil
}

func (j *Judge) item(ctx context.Context, p Prompt, c ItemCase) (v ItemVerdict, err error) {
	_, err = j.Ask(ctx, p, c, func(obj []byte) (err error) {
		v, err = ParseItem(p, obj)
		return err
	})
	return v, err
}

// ParseItem reads a judge's reply to p.
func ParseItem(p Prompt, obj []byte) (ItemVerdict, error) {
	var r struct {
		Correct *bool  `json:"is_correct"`
		Reason  string `json:"reason"`
		Verdict string `json:"verdict"`
		Why     string `json:"justification"`
	}
	if err := json.Unmarshal(obj, &r); err != nil {
		return ItemVerdict{}, fmt.Errorf("read grade: %w", err)
	}
	switch {
	case p.Name == CorrectPrompt().Name && r.Correct != nil:
		return ItemVerdict{Holds: *r.Correct, Why: clip(r.Reason, maxRationale)}, nil
	case p.Name == CorrectPrompt().Name:
		return ItemVerdict{}, errors.New("read grade: is_correct: want true or false")
	case r.Verdict != "MET" && r.Verdict != "UNMET":
		return ItemVerdict{}, errors.New(`read grade: verdict: want "MET" or "UNMET"`)
	}
	return ItemVerdict{Holds: r.Verdict == "MET", Why: clip(r.Why, maxRationale)}, nil
}

// ItemLexically says whether an answer has all telling words of what is wanted.
func ItemLexically(c ItemCase) ItemVerdict {
	said, known := terms(c.Answer), terms(c.Question)
	var missing []string
	need := 0
	for w := range terms(c.Wanted) {
		if known[w] {
			continue // repeating the question answers nothing
		}
		if need++; !said[w] {
			missing = append(missing, w)
		}
	}
	if need == 0 { // "yes" has no word that tells something
		return ItemVerdict{Holds: strings.EqualFold(strings.TrimSpace(c.Answer), strings.TrimSpace(c.Wanted)), Why: "compared as a whole"}
	}
	return ItemVerdict{Holds: len(missing) == 0, Why: fmt.Sprintf("%d of %d telling words", need-len(missing), need)}
}
