package judge

import (
	"bytes"
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
	Cached    bool   `json:"-"`
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
// right; everything else is 0 without a judge.
func (j *Judge) Support(ctx context.Context, c SupportCase) (SupportVerdict, error) {
	var v SupportVerdict
	a, err := j.Ask(ctx, SupportPrompt(), c.bounded(), func(obj []byte) (err error) {
		v, err = ParseSupport(obj)
		return err
	})
	if err != nil {
		return SupportVerdict{}, err
	}
	v.Cached = a.Cached
	return v, nil
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

// ParseSupport reads {rationale, support_ok} and nothing else.
func ParseSupport(obj []byte) (SupportVerdict, error) {
	if err := checkObject(obj); err != nil {
		return SupportVerdict{}, err
	}
	var in map[string]json.RawMessage
	if err := json.Unmarshal(obj, &in); err != nil {
		return SupportVerdict{}, errors.New("no JSON object")
	}
	if len(in) != 2 || in["rationale"] == nil || in["support_ok"] == nil {
		return SupportVerdict{}, errors.New("want the keys rationale and support_ok, and no other")
	}
	var v SupportVerdict
	if in["rationale"][0] != '"' || json.Unmarshal(in["rationale"], &v.Rationale) != nil {
		return SupportVerdict{}, errors.New("rationale: want a string")
	}
	if strings.TrimSpace(v.Rationale) == "" {
		return SupportVerdict{}, errors.New("rationale: it is blank")
	}
	switch {
	case bytes.Equal(in["support_ok"], []byte("true")):
		v.SupportOK = true
	case !bytes.Equal(in["support_ok"], []byte("false")):
		return SupportVerdict{}, errors.New("support_ok: want true or false")
	}
	v.Rationale = clip(v.Rationale, maxRationale)
	return v, nil
}
