package play

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/engine/copycat"
)

// Names of this package's rules.
const (
	GradeRule   = "caster.grade"
	HydrateRule = "caster.hydrate"
	// StructureRule computes structure hashes.
	StructureRule = "caster.structure_hash"
)

type gradeIn struct {
	Verdict   int   `json:"verdict"`
	Reference int   `json:"reference_verdict"`
	SupportOK *bool `json:"support_ok"`
}

type hydrateIn struct {
	Response json.RawMessage `json:"response"`
	Session  string          `json:"session_id"`
	Receipts []Receipt       `json:"receipts"`
	Era      string          `json:"era,omitempty"`
}

type hydrateOut struct {
	Response any `json:"response"`
}

type seedOut struct {
	Verdict       int        `json:"verdict"`
	Justification string     `json:"justification"`
	Citations     []Hydrated `json:"citations"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{
		calc.Func(GradeRule, "{verdict, reference_verdict, support_ok|null} -> {verdict_score, support_score, total}: 0.5 for the verdict, 0.5 for its support",
			func(in gradeIn) (Grade, error) { return GradeOf(in.Verdict, in.Reference, in.SupportOK), nil }),
		calc.Func(HydrateRule, "{response, session_id, receipts, era? seed|head} -> {response}: citations replaced by what the session's receipts say", calcHydrate),
		copycat.Rule(StructureRule),
	}
}

func calcHydrate(in hydrateIn) (hydrateOut, error) {
	switch in.Era {
	case "", "seed":
		r, err := ParseResponse(in.Response, nil)
		if err != nil {
			return hydrateOut{}, err
		}
		return hydrateOut{seedOut{r.Verdict, r.Justification, HydrateSeed(r.Citations, in.Session, in.Receipts)}}, nil
	case "head":
		return hydrateHead(in)
	}
	return hydrateOut{}, fmt.Errorf("era %q: want seed or head", in.Era)
}

type headOut struct {
	Text      *string         `json:"text,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Note      *string         `json:"note,omitempty"`
	Citations []*Hydrated     `json:"citations"` // null where there are none
}

func hydrateHead(in hydrateIn) (hydrateOut, error) {
	var out headOut
	bad := func(format string, a ...any) (hydrateOut, error) {
		return hydrateOut{}, fmt.Errorf("%w: %s", ErrEvidence, fmt.Sprintf(format, a...))
	}
	f, err := object(in.Response)
	if err != nil {
		return bad("%v", err)
	}
	for k := range f {
		switch k {
		case "text", "output", "note", "citations":
		default:
			return bad("%.60q is unknown", k)
		}
	}
	for _, s := range []struct {
		name  string
		to    **string
		strip bool
	}{{"text", &out.Text, true}, {"note", &out.Note, false}} {
		raw, ok := f[s.name]
		if !ok || string(raw) == "null" {
			continue
		}
		var v string
		if json.Unmarshal(raw, &v) != nil || strings.TrimSpace(v) == "" || chars(v) > maxHeadChars {
			return bad("%s: want 1 to %d characters, not blank", s.name, maxHeadChars)
		}
		if s.strip {
			v = strings.TrimSpace(v)
		}
		*s.to = &v
	}
	if raw, ok := f["output"]; ok && string(raw) != "null" {
		if out.Output, err = compact(raw); err != nil || chars(string(out.Output)) > maxHeadChars {
			return bad("output: want JSON of at most %d characters", maxHeadChars)
		}
	}
	if (out.Text == nil) == (out.Output == nil) {
		return bad("want exactly one of text and output")
	}
	list, err := headCitations(f["citations"])
	if err != nil {
		return bad("citations: %v", err)
	}
	if out.Citations, err = HydrateHead(list, in.Session, in.Receipts); err != nil {
		return hydrateOut{}, err
	}
	return hydrateOut{out}, nil
}

// compact writes JSON with sorted keys, without escaping, as it is counted.
func compact(raw json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func headCitations(raw json.RawMessage) ([]HeadCitation, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("want a list")
	}
	if len(list) > MaxCitations {
		return nil, fmt.Errorf("more than %d", MaxCitations)
	}
	var out []HeadCitation
	segments := 0
	for i, raw := range list {
		f, err := object(raw)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		var c HeadCitation
		for k, v := range f {
			switch k {
			case "receipt_id":
				err = exact(v, &c.ReceiptID)
			case "result_id":
				err = exact(v, &c.ResultID)
			case "slices":
				c.Slices, err = headSlices(v)
			default:
				err = errors.New("a key is unknown")
			}
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
		}
		if c.ReceiptID == "" || c.ResultID == "" {
			return nil, fmt.Errorf("[%d]: want receipt_id and result_id", i)
		}
		if segments += max(1, len(c.Slices)); segments > maxSegments {
			return nil, fmt.Errorf("more than %d segments", maxSegments)
		}
		out = append(out, c)
	}
	return out, nil
}

func headSlices(raw json.RawMessage) ([]Slice, error) {
	if string(raw) == "null" {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) > maxSegments {
		return nil, errors.New("slices: want a list")
	}
	var out []Slice
	for _, raw := range list {
		f, err := object(raw)
		if err != nil || len(f) != 2 {
			return nil, errors.New("slices: want start and end")
		}
		var s Slice
		if s.Start, err = integer(f["start"]); err != nil {
			return nil, fmt.Errorf("slices: start: %w", err)
		}
		if s.End, err = integer(f["end"]); err != nil {
			return nil, fmt.Errorf("slices: end: %w", err)
		}
		if s.Start < 0 || s.End <= s.Start {
			return nil, errors.New("slices: want 0 <= start < end")
		}
		out = append(out, s)
	}
	return out, nil
}
