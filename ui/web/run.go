package web

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// stepsPage is how many steps a page shows. The server pages long
// trajectories: a browser never holds a whole one.
const stepsPage = 100

// maxSearch bounds how many events one search reads, and maxHits what it shows.
const (
	maxSearch = 50_000
	maxHits   = 100
)

type attemptTab struct {
	agon.Attempt
	Open bool
}

type runData struct {
	base
	Run      *client.Run
	Sub      *client.Submission
	Row      runRow
	Attempts []attemptTab
	Attempt  int
	Counts   []CorpusCount // events by type
	Total    int64
	Steps    []Step
	Page     int
	Pages    int
	Query    string
	Type     string
	Hits     int // of a search; -1: none was asked for
	Stopped  bool
	Siblings []runRow      // other runs on the same tasks, to set side by side
	Story    string        // what happened, in words
	Timeline *timeline     // when; nil: there is nothing to draw
	Part     template.HTML // the kind's
	Terminal *terminal     // what was printed, with its times; nil: nobody knows them
	LastSeen string        // cursor of the last step, where live steps go on
}

// Hidden says that some steps are shown without what they were.
func (d *runData) Hidden() bool {
	return slices.ContainsFunc(d.Steps, func(s Step) bool { return s.Withheld })
}

func (s *server) run(q *request) error {
	ctx := q.Context()
	r, err := s.cfg.Platform.Run(ctx, q.caller, q.PathValue("id"))
	if err != nil {
		return err
	}
	sub, err := s.cfg.Platform.Submission(ctx, q.caller, r.Submission)
	if err != nil {
		return err
	}
	d := &runData{base: q.base("Run of "+sub.Name, r.Arena), Run: r, Sub: sub, Row: rowOf(*r), Hits: -1}
	d.Attempt = len(r.List)
	for i, a := range r.List {
		if a.Counted {
			d.Attempt = i + 1
		}
	}
	if n, err := strconv.Atoi(q.URL.Query().Get("attempt")); err == nil && n >= 1 && n <= len(r.List) {
		d.Attempt = n
	}
	for i, a := range r.List {
		d.Attempts = append(d.Attempts, attemptTab{a, i+1 == d.Attempt})
	}
	if err := s.steps(ctx, q, d); err != nil {
		return err
	}
	if err := s.story(ctx, q, d); err != nil {
		return err
	}
	if d.Siblings, err = s.siblings(ctx, q, r); err != nil {
		return err
	}
	if !r.State.Final() && d.Attempt == len(r.List) && d.Page == d.Pages && d.Hits < 0 {
		d.Live = "/runs/" + r.Run.Run + "/live?after=" + d.LastSeen
	}
	return s.render(q, http.StatusOK, "run", d)
}

// steps fills in the page of steps that the request asks for: a page, the one
// that holds a step, or the hits of a search.
func (s *server) steps(ctx context.Context, q *request, d *runData) error {
	id := d.Run.Run.Run
	d.Page, d.Pages, d.LastSeen = 1, 1, "0.0"
	if d.Attempt == 0 {
		return nil
	}
	d.LastSeen = fmt.Sprintf("%d.0", d.Attempt)
	counts, err := s.cfg.Platform.EventCounts(ctx, id, d.Attempt)
	if err != nil {
		return err
	}
	for _, t := range []string{agon.EventModel, agon.EventTool, agon.EventRefused, agon.EventOutput, agon.EventBox, agon.EventPhase, agon.EventScore, agon.EventNote} {
		if counts[t] > 0 {
			d.Counts = append(d.Counts, CorpusCount{t, int(counts[t])})
		}
	}
	for _, n := range counts {
		d.Total += n
	}
	d.Pages = max(1, int((d.Total+stepsPage-1)/stepsPage))
	v := q.URL.Query()
	d.Query, d.Type = strings.TrimSpace(v.Get("q")), v.Get("type")
	if len(d.Query) > 200 {
		return &agon.Error{Code: "bad_query", Status: 422, Field: "q", Limit: "200 bytes", Message: "The search text is longer than 200 bytes."}
	}
	if d.Query != "" || d.Type != "" {
		return s.search(ctx, q, d)
	}
	d.Page = min(pageNumber(q, 1), d.Pages)
	if n, err := strconv.ParseInt(v.Get("step"), 10, 64); err == nil && n >= 1 && n <= d.Total {
		d.Page = int((n-1)/stepsPage) + 1
	} else if v.Get("page") == "" && !d.Run.State.Final() {
		d.Page = d.Pages // someone who watches wants the end
	}
	// The page before is read as well: the first call of this one goes on from its last.
	from := int64(d.Page-1) * stepsPage
	evs, err := s.cfg.Platform.Events(ctx, q.caller, id, d.Attempt, max(0, from-stepsPage), int(from-max(0, from-stepsPage))+stepsPage)
	if err != nil {
		return err
	}
	var t talk
	for _, e := range evs {
		if e.Attempt != d.Attempt {
			continue
		}
		if st := t.step(e, maxBlock); e.Seq > from {
			d.Steps = append(d.Steps, st)
			d.LastSeen = fmt.Sprintf("%d.%d", e.Attempt, e.Seq)
		}
	}
	return nil
}

// search reads the events of the attempt in order and keeps what matches.
func (s *server) search(ctx context.Context, q *request, d *runData) error {
	d.Hits, d.Pages = 0, 1
	needle := strings.ToLower(d.Query)
	at := int64(0)
	for read := 0; read < maxSearch; {
		evs, err := s.cfg.Platform.Events(ctx, q.caller, d.Run.Run.Run, d.Attempt, at, 500)
		if err != nil {
			return err
		}
		for _, e := range evs {
			if e.Attempt != d.Attempt {
				return nil
			}
			at = e.Seq
			if d.Type != "" && e.Type != d.Type {
				continue
			}
			if needle != "" && !strings.Contains(strings.ToLower(string(e.Data)), needle) {
				continue
			}
			if d.Hits++; d.Hits <= maxHits {
				d.Steps = append(d.Steps, stepOf(e, maxBlock))
			}
		}
		if len(evs) < 500 {
			return nil
		}
		read += len(evs)
	}
	d.Stopped = true
	return nil
}

// siblings are the latest runs of other submissions on the same first task, one of each.
func (s *server) siblings(ctx context.Context, q *request, r *client.Run) ([]runRow, error) {
	if len(r.Tasks) == 0 {
		return nil, nil
	}
	page, err := s.cfg.Platform.Runs(ctx, q.caller, r.Arena, "", string(agon.RunScored), "", 200)
	if err != nil {
		return nil, err
	}
	return siblingsOf(page.Items, r), nil
}

func siblingsOf(list []client.Run, r *client.Run) (out []runRow) {
	seen := map[string]bool{r.Submission: true}
	for _, x := range list {
		if !seen[x.Submission] && len(x.Tasks) > 0 && x.Tasks[0].Key == r.Tasks[0].Key && len(out) < 8 {
			seen[x.Submission], out = true, append(out, rowOf(x))
		}
	}
	return out
}

// event shows one event whole.
func (s *server) event(q *request) error {
	at, seq, ok := cursor(q.PathValue("cursor"))
	if !ok || seq < 1 {
		return &agon.Error{Code: "not_found", Status: 404, Message: "There is no such event."}
	}
	id := q.PathValue("id")
	r, err := s.cfg.Platform.Run(q.Context(), q.caller, id)
	if err != nil {
		return err
	}
	evs, err := s.cfg.Platform.Events(q.Context(), q.caller, id, at, seq-1, 1)
	if err != nil {
		return err
	}
	if len(evs) == 0 || evs[0].Attempt != at || evs[0].Seq != seq {
		return &agon.Error{Code: "not_found", Status: 404, Message: "There is no such event."}
	}
	st := stepOf(evs[0], maxWhole)
	raw, _ := text(indent(evs[0].Data), maxWhole)
	data := struct {
		base
		Run  *client.Run
		Step Step
		Raw  string
		Page int64
	}{q.base("Event "+st.Cursor, r.Arena), r, st, raw, (seq-1)/stepsPage + 1}
	for i := range data.Step.Blocks {
		data.Step.Blocks[i].Folded = false
	}
	return s.render(q, http.StatusOK, "event", data)
}

// cursor reads ATTEMPT.SEQ.
func cursor(v string) (attempt int, seq int64, ok bool) {
	a, b, found := strings.Cut(v, ".")
	attempt, err1 := strconv.Atoi(a)
	seq, err2 := strconv.ParseInt(b, 10, 64)
	return attempt, seq, found && err1 == nil && err2 == nil && attempt >= 0 && seq >= 0
}
