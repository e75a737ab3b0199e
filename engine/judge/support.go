package judge

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

//go:embed prompts/support.md
var supportText string

// SupportPrompt is the prompt of the claim arena: does a justification with
// the right verdict rest on the same facts as the reference?
func SupportPrompt() Prompt {
	return Prompt{Name: "support", Version: 1, System: supportText, MaxTokens: 1024}
}

// SupportCase is what the support judge sees. Verdicts are the descriptions of
// the options, never their numbers.
type SupportCase struct {
	Claim     string `json:"claim"`
	Reference Side   `json:"reference"`
	Answer    Side   `json:"answer"`
}

// Side is one justified verdict.
type Side struct {
	Verdict       string `json:"verdict"`
	Justification string `json:"justification"`
	// Citations of an answer: of each the first of note, url and receipt id
	// that is not empty. The reference has none.
	Citations []string `json:"citations,omitempty"`
}

// SupportVerdict is the judge's answer.
type SupportVerdict struct {
	Rationale string `json:"rationale"`
	SupportOK bool   `json:"support_ok"`
	// Votes are the verdicts of a panel, of one judge its only one.
	Votes []Vote `json:"votes,omitempty"`
	// Unreadable says that no model answered on this case in the form while the
	// same models did on a case of ours: what stands in the case did that.
	// SupportOK is false then.
	Unreadable bool `json:"unreadable,omitempty"`
}

// Vote is what one model of a panel said.
type Vote struct {
	Model     string `json:"model,omitempty"`
	SupportOK bool   `json:"support_ok"`
	Rationale string `json:"rationale"`
}

// For is how many of the votes are as the verdict.
func (v SupportVerdict) For() int {
	n := 0
	for _, x := range v.Votes {
		if x.SupportOK == v.SupportOK {
			n++
		}
	}
	return n
}

// Limits of a case, in bytes: longer text is cut, so that a miner cannot push
// the reference out of a model's window or make judging expensive.
const (
	maxClaim         = 8 << 10
	maxJustification = 16 << 10
	maxCitation      = 2 << 10
	maxCitations     = 20
	maxRationale     = 2000
)

// Support judges one case. It is called only for answers whose verdict is
// right; everything else is 0 without a judge. Of a panel the most votes count;
// where they are even, support is not shown.
func (j *Judge) Support(ctx context.Context, c SupportCase) (SupportVerdict, error) {
	v, err := j.support(ctx, c.bounded())
	if !errors.Is(err, ErrForm) {
		return v, err
	}
	// The models answered, but not in the form. Either they never do, or the case
	// made them: a case of ours tells which.
	if _, cerr := j.support(ctx, probe()); cerr != nil {
		return SupportVerdict{}, err
	}
	return SupportVerdict{Unreadable: true, Rationale: "the judge answers on other cases in its form and on this one does not: support is not shown"}, nil
}

// probe is a case that every judge can answer.
func probe() SupportCase {
	return SupportCase{
		Claim:     "The footbridge at Olm is open in winter.",
		Reference: Side{Verdict: "Pass", Justification: "The notice of the parish says that the footbridge is open all year."},
		Answer:    Side{Verdict: "Pass", Justification: "By the parish's notice the footbridge is open the whole year."},
	}
}

func (j *Judge) support(ctx context.Context, c SupportCase) (SupportVerdict, error) {
	seats := max(j.cfg.Panel, 1)
	models := j.models()
	var votes []Vote
	var failed []error
	for len(votes) < seats && len(models) > 0 {
		ask := models[:1]
		if seats == 1 {
			ask = models // each stands in for the one before
		}
		var v SupportVerdict
		a, err := j.askAny(ctx, ask, SupportPrompt(), c, func(obj []byte) (err error) {
			v, err = ParseSupport(obj)
			return err
		})
		models = models[len(ask):]
		switch {
		case err == nil:
			votes = append(votes, Vote{Model: a.Model, SupportOK: v.SupportOK, Rationale: v.Rationale})
		case errors.Is(err, ErrNoVerdict):
			failed = append(failed, err)
		default:
			return SupportVerdict{}, err
		}
	}
	yes := 0
	for _, v := range votes {
		if v.SupportOK {
			yes++
		}
	}
	// More than half of the panel must have spoken.
	if len(votes)*2 <= seats {
		return SupportVerdict{}, errors.Join(failed...)
	}
	out := SupportVerdict{SupportOK: yes*2 > len(votes), Votes: votes}
	for _, v := range votes {
		if v.SupportOK == out.SupportOK {
			out.Rationale = v.Rationale
			break
		}
	}
	if seats > 1 {
		out.Rationale = fmt.Sprintf("%d of %d judges: %s", out.For(), len(votes), out.Rationale)
	}
	return out, nil
}

func (c SupportCase) bounded() SupportCase {
	c.Claim = clip(c.Claim, maxClaim)
	c.Reference, c.Answer = c.Reference.bounded(), c.Answer.bounded()
	return c
}

func (s Side) bounded() Side {
	s.Verdict, s.Justification = clip(s.Verdict, maxCitation), clip(s.Justification, maxJustification)
	var list []string
	for i, c := range s.Citations {
		if i == maxCitations {
			list = append(list, fmt.Sprintf("(%d more are not shown)", len(s.Citations)-maxCitations))
			break
		}
		list = append(list, clip(c, maxCitation))
	}
	s.Citations = list
	return s
}

// clip makes foreign text UTF-8 of at most n bytes, without control characters but line breaks and tabs.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	s = strings.ToValidUTF8(s, "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r < ' ', r == 0x7f, r >= 0x80 && r < 0xa0, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r >= 0xe0000 && r <= 0xe007f:
			return -1 // controls, reordering marks and invisible tags
		}
		return r
	}, s)
}

// ParseSupport reads {rationale, support_ok}. Other keys mean nothing; the
// verdict may be a word.
func ParseSupport(obj []byte) (SupportVerdict, error) {
	if err := checkObject(obj); err != nil {
		return SupportVerdict{}, err
	}
	var in map[string]json.RawMessage
	if err := json.Unmarshal(obj, &in); err != nil {
		return SupportVerdict{}, errors.New("no JSON object")
	}
	if in["rationale"] == nil || in["support_ok"] == nil {
		return SupportVerdict{}, errors.New("want the keys rationale and support_ok")
	}
	var v SupportVerdict
	if in["rationale"][0] != '"' || json.Unmarshal(in["rationale"], &v.Rationale) != nil {
		return SupportVerdict{}, errors.New("rationale: want a string")
	}
	if strings.TrimSpace(v.Rationale) == "" {
		return SupportVerdict{}, errors.New("rationale: it is blank")
	}
	switch strings.ToLower(strings.Trim(string(in["support_ok"]), `"`)) {
	case "true":
		v.SupportOK = true
	case "false":
	default:
		return SupportVerdict{}, errors.New("support_ok: want true or false")
	}
	v.Rationale = clip(v.Rationale, maxRationale)
	return v, nil
}
