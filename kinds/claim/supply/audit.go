package supply

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"strings"

	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/claim/play"
)

//go:embed prompts/audit.md
var auditText string

//go:embed prompts/repair.md
var repairText string

func auditPrompt() judge.Prompt {
	return judge.Prompt{Name: "audit", Version: 1, System: auditText, MaxTokens: 2048}
}

func repairPrompt() judge.Prompt {
	return judge.Prompt{Name: "repair", Version: 1, System: repairText, MaxTokens: 4096}
}

// Provenance says which models a claim and its reference come from.
type Provenance struct {
	Proposer  string `json:"proposer,omitempty"`
	Reference string `json:"reference,omitempty"`
	Auditor   string `json:"auditor,omitempty"`
	// Repaired: the first answer did not stand the audit, the second did.
	Repaired bool `json:"repaired,omitempty"`
}

// audited has a reference audited; one that does not stand is repaired by its
// author and audited once more. why is the reason to drop the claim.
func (g *generator) audited(ctx context.Context, item Item, c play.Claim, ref play.Reference, from *Provenance) (_ play.Reference, why string, err error) {
	if !g.audits() {
		return ref, "", nil
	}
	for second := range 2 {
		fault, model, err := g.audit(ctx, item, c, ref)
		if errors.Is(err, judge.ErrNoVerdict) || errors.Is(err, judge.ErrInput) {
			return ref, "no_audit", nil
		}
		if err != nil {
			return ref, "", err
		}
		from.Auditor = model
		if fault == "" {
			return ref, "", nil
		}
		if second == 1 {
			break
		}
		if ref, why, err = g.reference(ctx, item, c, &objection{Answer: ref, Fault: fault}, from); err != nil || why != "" {
			return ref, why, err
		}
		from.Repaired = true
	}
	return ref, "unsound", nil
}

// objection is what an auditor says against a reference.
type objection struct {
	Answer play.Reference
	Fault  string
}

func (g *generator) audits() bool { return g.Auditor != nil || g.Replay && g.Log.audits() }

// audit returns what is wrong with a reference, "" for a sound one, and who said so.
func (g *generator) audit(ctx context.Context, item Item, c play.Claim, ref play.Reference) (fault, model string, err error) {
	in := caseOf(item, c)
	in["answer"] = answerOf(ref)
	model, err = g.ask(ctx, "audit", g.Auditor, auditPrompt(), in, func(obj []byte) error {
		var said struct {
			Sound *bool   `json:"sound"`
			Fault *string `json:"fault"`
		}
		d := json.NewDecoder(bytes.NewReader(obj))
		d.DisallowUnknownFields()
		if err := d.Decode(&said); err != nil || said.Sound == nil || said.Fault == nil || len(*said.Fault) > maxAnswer {
			return errors.New("want {sound, fault}")
		}
		if fault = ""; !*said.Sound {
			if fault = plain.Squeeze(*said.Fault); fault == "" {
				fault = "no reason is given"
			}
		}
		return nil
	})
	return fault, model, err
}

// caseOf is a claim with its source, as models are given it.
func caseOf(item Item, c play.Claim) map[string]any {
	return map[string]any{
		"claim": c.Payload.ClaimText, "rubric": map[string]any{"title": c.Payload.RubricTitle, "description": c.Payload.RubricDescription},
		"verdicts": c.Payload.VerdictOptions, "source": map[string]any{"url": item.URL, "title": item.Title, "text": item.Text},
	}
}

// answerOf is a reference as its author gave it.
func answerOf(ref play.Reference) map[string]any {
	quotes := []string{}
	for _, s := range ref.Spans {
		quotes = append(quotes, s.Excerpt)
	}
	return map[string]any{"verdict": ref.Verdict, "justification": ref.Justification, "quotes": quotes}
}

// leastCopied is how many words of a claim must stand in a row in its source for it to be a copy.
const leastCopied = 6

var saysVerdict = lazyregexp.New(`(?i)\b(this|the) (claim|statement) is\b|\bit is (true|false|correct|incorrect|untrue|not true) that\b|\b(true|false) or false\b`)

// leaks says how a claim gives its own answer away: it names its verdict, or is a
// sentence of its source word for word, which a search for the words decides.
func leaks(claim string, item Item) string {
	if saysVerdict().MatchString(claim) {
		return "says_verdict"
	}
	words := wordsOf(claim)
	if n := strings.Count(words, " ") - 1; n >= leastCopied && strings.Contains(wordsOf(item.Text), words) {
		return "copied"
	}
	return ""
}

// wordsOf is a text as its words with one space around each.
func wordsOf(s string) string {
	var b strings.Builder
	b.WriteByte(' ')
	for t := range index.Terms(s) {
		b.WriteString(t)
		b.WriteByte(' ')
	}
	return b.String()
}
