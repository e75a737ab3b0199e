package play

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon/engine/tools"
)

// Result and Receipt are what hydration needs to know of a tool call.
type (
	// Result is one result of a call.
	Result struct {
		ResultID string  `json:"result_id"`
		URL      *string `json:"url"`
		Note     *string `json:"note"`
		Title    *string `json:"title,omitempty"`

		repository bool // found by a tool that reads repositories
	}
	// Receipt is one call of a session.
	Receipt struct {
		ReceiptID string   `json:"receipt_id"`
		SessionID string   `json:"session_id"`
		Outcome   string   `json:"outcome"`
		Tool      string   `json:"tool"`
		Results   []Result `json:"results"`
	}
)

// Hydrated is a citation as judges and readers see it.
type Hydrated struct {
	URL       *string `json:"url"`
	Note      *string `json:"note"`
	ReceiptID string  `json:"receipt_id,omitempty"`
	ResultID  string  `json:"result_id,omitempty"`
	Title     *string `json:"title,omitempty"`
	// Repository says that it was found by a tool that reads repositories: the
	// miner who cites it may have written it.
	Repository bool `json:"repository,omitempty"`
}

// citable are the tools whose results may be cited.
var citable = map[string]bool{
	tools.SearchWeb: true, tools.SearchX: true, tools.SearchAI: true, tools.SearchRepo: true, tools.GetRepoFile: true,
	"fetch_page": true, // of the later era
}

// citations holds a session's citable results. The first of two equal ids stands.
type citations map[[2]string]Result

func indexOf(session string, list []Receipt) citations {
	ix := citations{}
	for _, r := range list {
		if r.SessionID != session || r.Outcome != tools.OutcomeOK || !citable[r.Tool] {
			continue
		}
		for _, x := range r.Results {
			k := [2]string{r.ReceiptID, x.ResultID}
			if _, ok := ix[k]; !ok {
				x.repository = r.Tool == tools.SearchRepo || r.Tool == tools.GetRepoFile
				ix[k] = x
			}
		}
	}
	return ix
}

// HydrateSeed keeps the citations of results that this session's own
// successful, citable calls gave, and drops the others without a word.
func HydrateSeed(list []Citation, session string, receipts []Receipt) []Hydrated {
	ix := indexOf(session, receipts)
	out := []Hydrated{}
	for _, c := range list {
		if x, ok := ix[[2]string{c.ReceiptID, c.ResultID}]; ok {
			out = append(out, Hydrated{URL: x.URL, Note: x.Note, ReceiptID: c.ReceiptID, ResultID: c.ResultID, Repository: x.repository})
		}
	}
	return out
}

// Slice is a part of a source in Unicode code points.
type Slice struct{ Start, End int }

// HeadCitation is a citation of the later era.
type HeadCitation struct {
	Citation
	Slices []Slice
}

// Limits of the later era, in entries and in code points.
const (
	maxSegments  = 400
	minSlice     = 100
	maxEvidence  = 120_000
	maxHeadChars = 80_000
)

// ErrEvidence marks a response whose citations break the rules as a whole.
var ErrEvidence = errors.New("miner_response_invalid")

// HydrateHead keeps positions: what cannot be found becomes nil. A found
// result with a blank note, and slices that break their limits, make the whole
// response invalid. No citations at all give nil.
func HydrateHead(list []HeadCitation, session string, receipts []Receipt) ([]*Hydrated, error) {
	ix := indexOf(session, receipts)
	var out []*Hydrated
	sum := 0
	for i, c := range list {
		x, ok := ix[[2]string{c.ReceiptID, c.ResultID}]
		if !ok {
			out = append(out, nil)
			continue
		}
		bad := func(format string, a ...any) ([]*Hydrated, error) {
			return nil, fmt.Errorf("%w: citations[%d]: %s", ErrEvidence, i, fmt.Sprintf(format, a...))
		}
		if x.Note == nil || strings.TrimSpace(*x.Note) == "" {
			return bad("the note of the result is blank")
		}
		note := []rune(*x.Note)
		slices := c.Slices
		if len(slices) == 0 {
			slices = []Slice{{0, len(note)}}
		}
		var parts []string
		for _, s := range slices {
			if s.End > len(note) || s.Start < 0 || s.Start >= s.End {
				return bad("slice %d:%d leaves the source of %d characters", s.Start, s.End, len(note))
			}
			if n := s.End - s.Start; n < minSlice && n != len(note) {
				return bad("slice %d:%d is shorter than %d characters and not the whole source", s.Start, s.End, minSlice)
			}
			if sum += s.End - s.Start; sum > maxEvidence {
				return bad("the evidence is longer than %d characters", maxEvidence)
			}
			parts = append(parts, fmt.Sprintf("[slice %d:%d]\n%s", s.Start, s.End, string(note[s.Start:s.End])))
		}
		text := strings.Join(parts, "\n\n")
		out = append(out, &Hydrated{URL: x.URL, Note: &text, Title: x.Title, Repository: x.repository})
	}
	return out, nil
}

// receiptsOf is what hydration sees of a session's tool calls.
func receiptsOf(list []tools.Receipt) []Receipt {
	out := make([]Receipt, 0, len(list))
	for _, r := range list {
		x := Receipt{ReceiptID: r.ReceiptID, SessionID: r.SessionID, Outcome: r.Outcome, Tool: r.Tool}
		if r.Policy == tools.Referenceable {
			for _, y := range r.Results {
				x.Results = append(x.Results, Result{ResultID: y.ResultID, URL: y.URL, Note: y.Note, Title: y.Title})
			}
		}
		out = append(out, x)
	}
	return out
}

func chars(s string) int { return utf8.RuneCountInString(s) }
