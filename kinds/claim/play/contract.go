// Package claim is the kind of arena in which one Python script judges claims
// against rubrics, with metered tools and a tight budget. A grade compares its
// verdict, and where that matches its support, with a reference answer.
// README.md tells the contract and what may be forged.
package play

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
)

// Name is the kind's name.
const Name = "claim"

// Entrypoint is the function that a script registers and validators call.
const Entrypoint = "evaluate_criterion"

// Files of a task of the kind.
const (
	ClaimFile     = "environment/claim.json"
	ReferenceFile = "tests/reference.json"
)

// CheckTask says what is wrong with a task of the kind.
func CheckTask(t *task.Task) error {
	return task.Form{Files: []string{ClaimFile, ReferenceFile}, Limit: MaxClaimFile}.Check(t)
}

// Limits of foreign bytes.
const (
	MaxClaimFile    = 1 << 20   // bytes of a task's claim.json and reference.json, each
	MaxReply        = 1 << 20   // bytes of a script's return value as JSON
	MaxJustify      = 128 << 10 // bytes of a justification
	MaxCitations    = 200
	maxID           = 200 // bytes of a receipt's or result's id in a citation
	maxOptions      = 16
	maxText         = 256 << 10 // bytes of one text of a task
	defaultBudget   = agon.Micros(50_000)
	maxBudgetMicros = agon.Micros(100_000_000)
)

// Option is one verdict that a rubric allows.
type Option struct {
	Value       int    `json:"value"`
	Description string `json:"description"`
}

// FeedContext places a claim in a feed: a script may search only what stood
// there before it.
type FeedContext struct {
	FeedID     string `json:"feed_id"`
	EnqueueSeq int64  `json:"enqueue_seq"`
}

// Payload is what a script is called with.
type Payload struct {
	ClaimText         string       `json:"claim_text"`
	RubricTitle       string       `json:"rubric_title"`
	RubricDescription string       `json:"rubric_description"`
	VerdictOptions    []Option     `json:"verdict_options"`
	Context           *FeedContext `json:"context,omitempty"`
}

// scales are the sets of values that verdict options may have.
var scales = [][]int{{-1, 1}, {-1, 0, 1}, {1, 2, 3, 4, 5}}

// Validate strips the texts and checks the contract.
func (p *Payload) Validate() error {
	for _, f := range []struct {
		name string
		v    *string
	}{{"claim_text", &p.ClaimText}, {"rubric_title", &p.RubricTitle}, {"rubric_description", &p.RubricDescription}} {
		if err := text(f.name, f.v); err != nil {
			return err
		}
	}
	if len(p.VerdictOptions) < 2 || len(p.VerdictOptions) > maxOptions {
		return fmt.Errorf("verdict_options: %d entries, want 2 to %d", len(p.VerdictOptions), maxOptions)
	}
	var values []int
	for i := range p.VerdictOptions {
		o := &p.VerdictOptions[i]
		if err := text(fmt.Sprintf("verdict_options[%d].description", i), &o.Description); err != nil {
			return err
		}
		if slices.Contains(values, o.Value) {
			return fmt.Errorf("verdict_options: value %d is given twice", o.Value)
		}
		values = append(values, o.Value)
	}
	slices.Sort(values)
	if !slices.ContainsFunc(scales, func(s []int) bool { return slices.Equal(s, values) }) {
		return fmt.Errorf("verdict_options: values %v, want those of {-1,1}, {-1,0,1} or {1,2,3,4,5}", values)
	}
	if c := p.Context; c != nil {
		if _, err := uuid.Parse(c.FeedID); err != nil {
			return errors.New("context.feed_id: not a uuid")
		}
		if c.EnqueueSeq < 0 {
			return errors.New("context.enqueue_seq: negative")
		}
	}
	return nil
}

// Option returns the description of a verdict, and whether it is allowed.
func (p Payload) Option(verdict int) (string, bool) {
	for _, o := range p.VerdictOptions {
		if o.Value == verdict {
			return o.Description, true
		}
	}
	return "", false
}

// Normalise maps a verdict of this rubric to 0..1.
func (p Payload) Normalise(verdict int) float64 {
	lo, hi := p.VerdictOptions[0].Value, p.VerdictOptions[0].Value
	for _, o := range p.VerdictOptions {
		lo, hi = min(lo, o.Value), max(hi, o.Value)
	}
	return float64(verdict-lo) / float64(hi-lo)
}

func text(name string, s *string) error {
	*s = strings.TrimSpace(*s)
	if *s == "" {
		return fmt.Errorf("%s: empty", name)
	}
	if len(*s) > maxText {
		return fmt.Errorf("%s: longer than %d bytes", name, maxText)
	}
	return nil
}

// Claim is a task's environment/claim.json: what may be shown to a script,
// and what it may spend.
type Claim struct {
	ClaimID string      `json:"claim_id"`
	Payload Payload     `json:"payload"`
	Budget  agon.Micros `json:"budget_micros,omitempty"` // default 50,000: 0.05 USD
}

// RefCitation is a source of the reference answer.
type RefCitation struct {
	URL  string `json:"url"`
	Note string `json:"note"`
}

// Span is a passage of a source, in Unicode code points.
type Span struct {
	Excerpt string `json:"excerpt"`
	Start   int    `json:"start"`
	End     int    `json:"end"`
}

// Reference is a task's tests/reference.json: the answer to compare with.
type Reference struct {
	Verdict       int           `json:"verdict"`
	Justification string        `json:"justification"`
	Citations     []RefCitation `json:"citations"`
	Spans         []Span        `json:"spans"`
}

// ParseClaim reads claim.json.
func ParseClaim(b []byte) (Claim, error) {
	var c Claim
	if err := strict(b, MaxClaimFile, &c); err != nil {
		return c, fmt.Errorf("claim.json: %w", err)
	}
	if u, err := uuid.Parse(c.ClaimID); err != nil || u.String() != c.ClaimID {
		return c, errors.New("claim.json: claim_id: not a uuid")
	}
	if c.Budget == 0 {
		c.Budget = defaultBudget
	}
	if c.Budget < 0 || c.Budget > maxBudgetMicros {
		return c, fmt.Errorf("claim.json: budget_micros: %d, want at most %d", c.Budget, maxBudgetMicros)
	}
	if err := c.Payload.Validate(); err != nil {
		return c, fmt.Errorf("claim.json: payload.%w", err)
	}
	return c, nil
}

// ParseReference reads reference.json of a claim.
func ParseReference(b []byte, p Payload) (Reference, error) {
	var r Reference
	if err := strict(b, MaxClaimFile, &r); err != nil {
		return r, fmt.Errorf("reference.json: %w", err)
	}
	if _, ok := p.Option(r.Verdict); !ok {
		return r, fmt.Errorf("reference.json: verdict: %d is none of the claim's options", r.Verdict)
	}
	if err := text("justification", &r.Justification); err != nil {
		return r, fmt.Errorf("reference.json: %w", err)
	}
	for i, s := range r.Spans {
		if s.Start < 0 || s.End <= s.Start {
			return r, fmt.Errorf("reference.json: spans[%d]: want 0 <= start < end", i)
		}
	}
	return r, nil
}

// Citation is a reference to a result of a script's own tool call.
type Citation struct {
	ReceiptID string `json:"receipt_id"`
	ResultID  string `json:"result_id"`
}

// Response is what a script returned, checked.
type Response struct {
	Verdict       int        `json:"verdict"`
	Justification string     `json:"justification"`
	Citations     []Citation `json:"citations"`
}

// ErrReply marks a return value that breaks the contract. Its text is one line
// for the miner, and quotes nothing of the value.
var ErrReply = errors.New("malformed reply")

// ParseResponse reads a script's return value. Unknown keys at the top are
// ignored; in a citation they are an error. p decides which verdicts are
// allowed; nil allows any.
func ParseResponse(b []byte, p *Payload) (Response, error) {
	var r Response
	bad := func(format string, a ...any) (Response, error) {
		return Response{}, fmt.Errorf("%w: %s", ErrReply, fmt.Sprintf(format, a...))
	}
	if len(b) > MaxReply {
		return bad("longer than %d bytes", MaxReply)
	}
	fields, err := object(b)
	if err != nil {
		return bad("%v", err)
	}
	if r.Verdict, err = integer(fields["verdict"]); err != nil {
		return bad("verdict: %v", err)
	}
	if p != nil {
		if _, ok := p.Option(r.Verdict); !ok {
			return bad("verdict: %d is none of verdict_options", r.Verdict)
		}
	}
	if err := exact(fields["justification"], &r.Justification); err != nil {
		return bad("justification: want a string")
	}
	if strings.TrimSpace(r.Justification) == "" {
		return bad("justification: empty")
	}
	if len(r.Justification) > MaxJustify {
		return bad("justification: longer than %d bytes", MaxJustify)
	}
	r.Citations = []Citation{}
	raw, ok := fields["citations"]
	if !ok {
		return r, nil
	}
	var list []json.RawMessage
	if err := exact(raw, &list); err != nil || list == nil {
		return bad("citations: want a list")
	}
	if len(list) > MaxCitations {
		return bad("citations: more than %d", MaxCitations)
	}
	for i, c := range list {
		f, err := object(c)
		if err != nil {
			return bad("citations[%d]: %v", i, err)
		}
		var out Citation
		for k, v := range f {
			if k != "receipt_id" && k != "result_id" && k != "result_hash" {
				return bad("citations[%d]: a key is unknown: want receipt_id and result_id", i)
			}
			var s string
			if err := exact(v, &s); err != nil || strings.TrimSpace(s) == "" || len(s) > maxID {
				return bad("citations[%d]: want short strings", i)
			}
			switch k {
			case "receipt_id":
				out.ReceiptID = s
			case "result_id", "result_hash":
				if out.ResultID != "" {
					return bad("citations[%d]: result_id and result_hash are both given", i)
				}
				out.ResultID = s
			}
		}
		if out.ReceiptID == "" || out.ResultID == "" {
			return bad("citations[%d]: want receipt_id and result_id", i)
		}
		r.Citations = append(r.Citations, out)
	}
	return r, nil
}

// object reads one JSON object whose names are given once each.
func object(b []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("want an object")
	}
	out := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return nil, errors.New("not JSON")
		}
		if _, twice := out[key]; twice {
			return nil, errors.New("a key is given twice")
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, errors.New("not JSON")
		}
		out[key] = v
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("not JSON")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the object")
	}
	return out, nil
}

// exact decodes into a string or a list; null and absence are errors.
func exact(raw json.RawMessage, v any) error {
	if len(raw) == 0 || string(raw) == "null" {
		return errors.New("missing")
	}
	return json.Unmarshal(raw, v)
}

// integer reads a JSON integer: no fraction, no exponent, no string, no bool.
func integer(raw json.RawMessage) (int, error) {
	var n int
	if err := exact(raw, &n); err != nil || bytes.ContainsAny(raw, ".eE") {
		return 0, errors.New("want an integer")
	}
	return n, nil
}

// strict decodes one JSON value without unknown fields.
func strict(b []byte, limit int, v any) error {
	if len(b) > limit {
		return fmt.Errorf("longer than %d bytes", limit)
	}
	if !utf8.Valid(b) {
		return errors.New("not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text follows the value")
	}
	return nil
}
