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
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
)

// Labelled is one case whose right answer a person gave.
type Labelled struct {
	ID string `json:"id"`
	// Class is what the case tries: "paraphrase", "injection in a citation" …
	Class string `json:"class,omitempty"`
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
	type line struct {
		Labelled
		OK *bool `json:"support_ok"`
	}
	return ReadLines(r, func(l *line) (Labelled, error) {
		switch {
		case l.OK == nil:
			return l.Labelled, errors.New("support_ok is missing")
		case l.Claim == "" || l.Reference.Justification == "" || l.Answer.Justification == "":
			return l.Labelled, errors.New("claim and both justifications are needed")
		}
		l.Labelled.SupportOK = *l.OK
		return l.Labelled, nil
	}, func(l Labelled) string { return l.ID })
}

// ReadLines reads a case a line: L is the form of a line, take checks it, id names a
// case. Errors name the line; unknown fields and an id given twice are refused.
func ReadLines[L, C any](r io.Reader, take func(*L) (C, error), id func(C) string) ([]C, error) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	var out []C
	seen := map[string]bool{}
	for n := 1; s.Scan(); n++ {
		if strings.TrimSpace(s.Text()) == "" {
			continue
		}
		if len(out) == maxCases {
			return nil, fmt.Errorf("line %d: more than %d cases", n, maxCases)
		}
		var l L
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if _, err := d.Token(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("line %d: text after the object", n)
		}
		c, err := take(&l)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if k := id(c); k == "" || seen[k] {
			return nil, fmt.Errorf("line %d: id: want one that no other case has", n)
		} else {
			seen[k] = true
		}
		out = append(out, c)
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
	Prompt string `json:"prompt"`
	Model  string `json:"model"`
	// Scorer is the judge as scores name it, without the kind's own part ("support").
	Scorer       string  `json:"scorer"`
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
	// Kappa is Cohen's: the agreement beyond what chance alone gives, 1 at most. CI
	// is its 95 % interval (the large-sample error of Fleiss, Cohen and Everitt; with
	// neither side wrong anywhere, the rule of three).
	Kappa float64    `json:"kappa"`
	CI    [2]float64 `json:"ci"`
	// FalseAccept is the rate of false accepts of each class that has cases labelled
	// not supported.
	FalseAccept map[string]float64 `json:"false_accept"`
	// Negatives is how many of those cases each class has.
	Negatives map[string]int `json:"negatives"`
	// Position is, where answers are compared in both orders, what the order did.
	Position *Position `json:"position,omitempty"`
	// Gate is what CI[0] must reach; Passed and Why say whether it and the bound on
	// false accepts were kept.
	Gate       float64 `json:"gate"`
	Passed     bool    `json:"passed"`
	Why        string  `json:"why"`
	CostMicros int64   `json:"cost_micros"`
	// Demo says that no model was asked: words were compared, as where none is
	// configured. Such a judge passes no gate.
	Demo bool `json:"demo"`
	// Kept says that it is on record, for arenas to ask (Book).
	Kept  bool    `json:"kept"`
	Wrong []Wrong `json:"wrong"`
}

// The gate that a judge must pass before an arena opens with it.
const (
	// GateKappa is what the lower end of kappa's interval must reach.
	GateKappa = agon.DefaultGateKappa
	// GateFalseAccept bounds the rate of false accepts in each class, where the
	// class has at least gateCases of them.
	GateFalseAccept = agon.DefaultGateFalseAccepts
	gateCases       = 10
	// gateFailed bounds the share of cases without a verdict.
	gateFailed = 0.1
)

// maxDown cases that the provider spoils at the start end a calibration.
const maxDown = 3

// Judge compares a calibration with a gate, and keeps what came of it.
func (c *Calibration) Judge(kappa, falseAccepts float64) {
	c.Gate = kappa
	c.Passed, c.Why = c.Against(agon.Gate{Kappa: kappa, FalseAccepts: falseAccepts})
}

// Against says whether a judge that did so passes a gate, and why (not).
func (c *Calibration) Against(g agon.Gate) (passed bool, why string) {
	switch {
	case c.Demo:
		return false, "no model was asked, words were compared: such a judge is for demos, it opens no arena"
	case c.Judged == 0:
		return false, "no case got a verdict"
	case float64(c.Failed) > gateFailed*float64(c.Cases):
		return false, fmt.Sprintf("%d of %d cases got no verdict, at most %g %% may", c.Failed, c.Cases, 100*gateFailed)
	case !(c.CI[0] >= g.Kappa):
		return false, fmt.Sprintf("below the gate: the lower end of kappa's interval is %.3f, want %.2f", c.CI[0], g.Kappa)
	}
	for _, k := range slices.Sorted(maps.Keys(c.FalseAccept)) {
		if !(c.FalseAccept[k] <= g.FalseAccepts) && c.Negatives[k] >= gateCases {
			return false, fmt.Sprintf("below the gate: %.0f %% of the cases of class %q are accepted falsely, at most %.0f %% may", 100*c.FalseAccept[k], k, 100*g.FalseAccepts)
		}
	}
	return true, "the gate is passed"
}

// kappa is Cohen's for two raters and two answers, with its 95 % interval. yes
// and no are the cases by label, fa and fr the judge's errors.
func kappa(yes, no, fa, fr int) (k float64, ci [2]float64) {
	n := float64(yes + no)
	if n == 0 {
		return 0, [2]float64{-1, 1}
	}
	a, b, c, d := float64(yes-fr)/n, float64(fr)/n, float64(fa)/n, float64(no-fa)/n // label yes: said yes, said no; label no: said yes, said no
	po := a + d
	r1, r2, c1, c2 := a+b, c+d, a+c, b+d
	pe := r1*c1 + r2*c2
	if pe == 1 {
		return 0, [2]float64{-1, 1} // one answer only on both sides: nothing can be said
	}
	k = (po - pe) / (1 - pe)
	if po == 1 {
		return 1, [2]float64{max(-1, 1-3/n/(1-pe)), 1}
	}
	u := a*math.Pow((1-pe)-(r1+c1)*(1-po), 2) + d*math.Pow((1-pe)-(r2+c2)*(1-po), 2)
	v := math.Pow(1-po, 2) * (b*math.Pow(c1+r2, 2) + c*math.Pow(c2+r1, 2))
	w := math.Pow(po*pe-2*pe+po, 2)
	se := math.Sqrt(max(u+v-w, 0)/n) / math.Pow(1-pe, 2)
	return k, [2]float64{max(-1, k-1.96*se), min(1, k+1.96*se)}
}

// Wrong is a case on which judge and label differ, or that got no verdict.
type Wrong struct {
	ID        string `json:"id"`
	Class     string `json:"class,omitempty"`
	Label     bool   `json:"label"`
	Verdict   *bool  `json:"verdict"` // null: none came
	Rationale string `json:"rationale,omitempty"`
}

// Calibrate judges every case, in order. told is called after each; it may be
// nil. It stops early only with ctx or an empty budget.
func (j *Judge) Calibrate(ctx context.Context, cases []Labelled, told func(done, total int)) (*Calibration, error) {
	c := &Calibration{Prompt: SupportPrompt().ID(), Model: strings.Join(j.models(), ","), Scorer: SupportScorer(j.models(), j.cfg.Panel)}
	return c, j.measure(c, func() error {
		return tally(c, cases, told, func(l Labelled) (Given, error) {
			v, err := j.Support(ctx, l.SupportCase)
			return Given{l.ID, l.Class, l.SupportOK, v.SupportOK, v.Rationale}, err
		})
	})
}

// Measure is Calibrate for a prompt of the caller's: ask judges a case by j, in order.
func Measure[C any](j *Judge, kind string, p Prompt, cases []C, told func(done, total int), ask func(C) (Given, error)) (*Calibration, error) {
	models := strings.Join(j.models(), ",")
	c := &Calibration{Prompt: p.ID(), Model: models, Scorer: Scorer(kind, p, models)}
	return c, j.measure(c, func() error { return tally(c, cases, told, ask) })
}

// measure is sum, and what it cost.
func (j *Judge) measure(c *Calibration, sum func() error) error {
	err := sum()
	c.CostMicros = int64(j.cfg.Session.Spent())
	return err
}

// Given is a case with its label and what the judge made of it.
type Given struct {
	ID, Class   string
	Label, Said bool
	Why         string // the judge's rationale
}

// tally asks for every case and sums into c. told is as Calibrate's.
func tally[C any](c *Calibration, cases []C, told func(done, total int), ask func(C) (Given, error)) error {
	c.Cases, c.Wrong, c.FalseAccept, c.Negatives = len(cases), []Wrong{}, map[string]float64{}, map[string]int{}
	var yes, no int
	accepted := map[string]int{}
	down := 0 // cases in a row that the provider spoilt
	for i, l := range cases {
		g, err := ask(l)
		w := Wrong{ID: g.ID, Class: g.Class, Label: g.Label, Rationale: g.Why}
		switch {
		case errors.Is(err, ErrNoVerdict), errors.Is(err, ErrInput):
			// A provider that is down is not asked for each of hundreds of cases.
			if down++; errors.Is(err, ErrForm) || errors.Is(err, ErrInput) {
				down = 0
			}
			c.Failed++
			w.Rationale = err.Error()
			c.Wrong = append(c.Wrong, w)
		case err != nil:
			return err
		default:
			down = 0
			c.Judged++
			if g.Label {
				yes++
			} else {
				no++
				c.Negatives[g.Class]++
				if g.Said {
					accepted[g.Class]++
				}
			}
			switch {
			case g.Said == g.Label:
				c.Agree++
			case g.Said:
				c.FalseAccepts++
			default:
				c.FalseRejects++
			}
			if g.Said != g.Label {
				w.Verdict = &g.Said
				c.Wrong = append(c.Wrong, w)
			}
		}
		if told != nil {
			told(i+1, len(cases))
		}
		if down == maxDown && c.Judged == 0 {
			c.Failed += len(cases) - i - 1
			break
		}
	}
	c.Agreement, c.FalseAcceptRate, c.FalseRejectRate = rate(c.Agree, c.Judged), rate(c.FalseAccepts, no), rate(c.FalseRejects, yes)
	c.Kappa, c.CI = kappa(yes, no, c.FalseAccepts, c.FalseRejects)
	for k, n := range c.Negatives {
		c.FalseAccept[k] = rate(accepted[k], n)
	}
	c.Judge(GateKappa, GateFalseAccept)
	return nil
}

func rate(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// shippedCases are the labelled cases that come with agon. Some try to talk the judge
// over.
//
//go:embed cases/support.jsonl
var shippedCases string
