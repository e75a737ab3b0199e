package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/kinds/claim/query"
)

// QueryAnswer is a script's checked answer to a query with hydrated citations,
// nil where a position's result was not found.
type QueryAnswer struct {
	Text      *string         `json:"text,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`
	Note      *string         `json:"note,omitempty"`
	Citations []*Hydrated     `json:"citations"`
}

// shown is the answer as text, compact JSON where it is structured.
func (a QueryAnswer) shown() string {
	if a.Text != nil {
		return *a.Text
	}
	return string(a.Output)
}

const (
	queryTimeout = 300 * time.Second
	// queryParallel calls of one session may be under way; more wait their turn.
	queryParallel = 20
)

// Play calls the script once for every query of the run.
func (k *QueryKind) Play(ctx context.Context, env kind.Env, s agon.Submission, r agon.RunSpec) (agon.Record, error) {
	if len(r.Tasks) == 0 {
		return agon.Record{}, errors.New("query: a run has at least one task")
	}
	var jobs []job
	for _, t := range r.Tasks {
		tk, err := env.Task(ctx, t)
		if err != nil {
			return agon.Record{}, err
		}
		q, _, err := LoadQuery(tk)
		if err != nil {
			return agon.Record{}, err
		}
		jobs = append(jobs, job{
			key: t.Key, id: q.TaskID, entry: QueryEntry, payload: q.Query, context: map[string]string{},
			tools: tools.SessionConfig{Budget: q.Budget, Query: &tools.QueryTools{}, Parallel: queryParallel, Queue: true},
			check: func(out *Pair, raw json.RawMessage, s *tools.Session) { checkQuery(out, raw, q, s) },
		})
	}
	dir, err := env.Tree(ctx, s.Digest)
	if err != nil {
		return agon.Record{}, err
	}
	timeout := queryTimeout
	if ms := r.Policy.Agent.WallMS; ms > 0 {
		timeout = time.Duration(ms) * time.Millisecond
	}
	p := &player{rootfs: k.cfg.Rootfs, env: env, run: r, dir: dir, uid: k.cfg.UID(s), timeout: timeout}
	return p.play(ctx, jobs)
}

// checkQuery reads the return value against the contract, the query's schema and
// the session's receipts.
func checkQuery(out *Pair, raw json.RawMessage, q QueryTask, s *tools.Session) {
	bad := func(format string, a ...any) {
		out.fail(agon.OutcomeInvalid, PairError{Status: http.StatusOK, Message: fmt.Sprintf(format, a...)})
	}
	if s.Status() == tools.StatusExhausted {
		out.fail(OutcomeBudget, PairError{Status: http.StatusOK, Message: "a tool call used up the session's budget"})
		return
	}
	r, err := query.ParseResponse(raw)
	if err != nil {
		bad("%v", err)
		return
	}
	if (q.checked.Schema != nil) != (r.Output != nil) {
		bad("the query wants %s", map[bool]string{true: "output that agrees with its schema", false: "text"}[q.checked.Schema != nil])
		return
	}
	if r.Output != nil {
		schema, err := resolveSchema(q.checked.Schema)
		var v any
		if err == nil {
			err = json.Unmarshal(r.Output, &v)
		}
		if err == nil {
			err = schema.Validate(v)
		}
		if err != nil {
			bad("output does not agree with the query's schema: %v", err)
			return
		}
	}
	var given struct {
		Citations []struct {
			Citation
			Slices []struct {
				Start int `json:"start"`
				End   int `json:"end"`
			} `json:"slices"`
		} `json:"citations"`
	}
	if err := json.Unmarshal(raw, &given); err != nil {
		bad("citations: want a list")
		return
	}
	list := make([]HeadCitation, 0, len(given.Citations))
	for _, c := range given.Citations {
		h := HeadCitation{Citation: c.Citation}
		for _, x := range c.Slices {
			h.Slices = append(h.Slices, Slice{x.Start, x.End})
		}
		list = append(list, h)
	}
	cited, err := HydrateHead(list, s.ID(), receiptsOf(s.Receipts()))
	if err != nil {
		bad("%v", err)
		return
	}
	out.Outcome = agon.OutcomeOK
	out.Answer = &QueryAnswer{Text: r.Text, Output: r.Output, Note: r.Note, Citations: cited}
}
