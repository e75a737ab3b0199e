package judge

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Labelled is one case whose right answer a person gave.
type Labelled struct {
	ID string `json:"id"`
	SupportCase
	SupportOK bool `json:"support_ok"`
}

// Limits of a file of cases.
const (
	maxCases = 10_000
	maxLine  = 256 << 10
)

// ReadCases reads one JSON object a line; blank lines are skipped. Unknown
// fields are refused, so that a misspelt label cannot count as false.
func ReadCases(r io.Reader) ([]Labelled, error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	var out []Labelled
	seen := map[string]bool{}
	for n := 1; s.Scan(); n++ {
		if strings.TrimSpace(s.Text()) == "" {
			continue
		}
		if len(out) == maxCases {
			return nil, fmt.Errorf("line %d: more than %d cases", n, maxCases)
		}
		var l struct {
			Labelled
			OK *bool `json:"support_ok"`
		}
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("line %d: text after the object", n)
		}
		switch {
		case l.OK == nil:
			return nil, fmt.Errorf("line %d: support_ok is missing", n)
		case l.ID == "" || seen[l.ID]:
			return nil, fmt.Errorf("line %d: id: want one that no other case has", n)
		case l.Claim == "" || l.Reference.Justification == "" || l.Answer.Justification == "":
			return nil, fmt.Errorf("line %d: claim and both justifications are needed", n)
		}
		seen[l.ID] = true
		l.Labelled.SupportOK = *l.OK
		out = append(out, l.Labelled)
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read cases: %w", err)
	}
	if len(out) == 0 {
		return nil, errors.New("read cases: there is none")
	}
	return out, nil
}

// Calibration is how a judge did on labelled cases. Rates are of those judged.
type Calibration struct {
	Prompt       string  `json:"prompt"`
	Model        string  `json:"model"`
	Cases        int     `json:"cases"`
	Judged       int     `json:"judged"`
	Failed       int     `json:"failed"` // no verdict: neither right nor wrong
	Agree        int     `json:"agree"`
	FalseAccepts int     `json:"false_accepts"` // judged supported, labelled not
	FalseRejects int     `json:"false_rejects"`
	Agreement    float64 `json:"agreement"` // Agree / Judged
	// FalseAcceptRate is of the cases labelled not supported, FalseRejectRate of those labelled supported.
	FalseAcceptRate float64 `json:"false_accept_rate"`
	FalseRejectRate float64 `json:"false_reject_rate"`
	CostMicros      int64   `json:"cost_micros"`
	Wrong           []Wrong `json:"wrong"`
}

// Wrong is a case on which judge and label differ, or that got no verdict.
type Wrong struct {
	ID        string `json:"id"`
	Label     bool   `json:"label"`
	Verdict   *bool  `json:"verdict"` // null: none came
	Rationale string `json:"rationale,omitempty"`
}

// Calibrate judges every case, in order. told is called after each; it may be
// nil. It stops early only with ctx or an empty budget.
func (j *Judge) Calibrate(ctx context.Context, cases []Labelled, told func(done, total int)) (*Calibration, error) {
	c := &Calibration{Prompt: SupportPrompt().ID(), Model: j.cfg.Model, Cases: len(cases), Wrong: []Wrong{}}
	var yes, no int
	for i, l := range cases {
		v, err := j.Support(ctx, l.SupportCase)
		switch {
		case errors.Is(err, ErrNoVerdict), errors.Is(err, ErrInput):
			c.Failed++
			c.Wrong = append(c.Wrong, Wrong{ID: l.ID, Label: l.SupportOK, Rationale: err.Error()})
		case err != nil:
			return nil, err
		default:
			c.Judged++
			if l.SupportOK {
				yes++
			} else {
				no++
			}
			switch {
			case v.SupportOK == l.SupportOK:
				c.Agree++
			case v.SupportOK:
				c.FalseAccepts++
			default:
				c.FalseRejects++
			}
			if v.SupportOK != l.SupportOK {
				ok := v.SupportOK
				c.Wrong = append(c.Wrong, Wrong{l.ID, l.SupportOK, &ok, v.Rationale})
			}
		}
		if told != nil {
			told(i+1, len(cases))
		}
	}
	c.Agreement, c.FalseAcceptRate, c.FalseRejectRate = rate(c.Agree, c.Judged), rate(c.FalseAccepts, no), rate(c.FalseRejects, yes)
	c.CostMicros = int64(j.cfg.Session.Spent())
	return c, nil
}

func rate(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

//go:embed cases/support.jsonl
var shippedCases string

// ShippedCases are the labelled cases that come with agon. Some try to talk
// the judge over.
func ShippedCases() ([]Labelled, error) { return ReadCases(strings.NewReader(shippedCases)) }
