package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/store"
)

// pageOf reads a cursor and a limit. Cursors are opaque to callers.
func pageOf(cursor string, limit int) (before int64, n int, err error) {
	if limit <= 0 {
		limit = defPage
	}
	if cursor != "" {
		before, err = strconv.ParseInt(cursor, 36, 64)
		if err != nil || before <= 0 {
			e := refuse(422, "bad_cursor", "this cursor is not from this server")
			e.Field = "cursor"
			return 0, 0, e
		}
	}
	return before, min(limit, maxPage), nil
}

// Submissions lists submissions, newest first.
func (p *Platform) Submissions(ctx context.Context, c Caller, arena, miner, cursor string, limit int) (*client.Page[client.Submission], error) {
	before, n, err := pageOf(cursor, limit)
	if err != nil {
		return nil, err
	}
	page := &client.Page[client.Submission]{Items: []client.Submission{}}
	var list []store.Entry
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		if arena != "" {
			if _, err := tx.Arena(arena); err != nil {
				return noArena(tx, err, arena)
			}
		}
		if list, err = tx.Entries(store.EntryFilter{Arena: arena, Miner: miner, Before: before, Limit: n + 1}); err != nil {
			return err
		}
		if len(list) > n {
			list = list[:n]
			page.Next = strconv.FormatInt(list[n-1].Seq, 36)
		}
		for _, e := range list {
			s, err := p.entryView(tx, e)
			if err != nil {
				return err
			}
			page.Items = append(page.Items, s)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, e := range list {
		if err := p.nameOnly(ctx, c, e.Submission, &page.Items[i]); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// nameOnly leaves the digest out of a view for those who may not read the code.
func (p *Platform) nameOnly(ctx context.Context, c Caller, e agon.Submission, s *client.Submission) error {
	if StageOf(e.State) == StageDecided && !p.embargoes.Load() {
		return nil
	}
	v, err := p.viewOf(ctx, c, e)
	if err == nil && !v.may(WhatCode) {
		s.Digest = ""
	}
	return err
}

func (p *Platform) entryView(tx *store.Tx, e store.Entry) (client.Submission, error) {
	s := client.Submission{
		Submission: e.Submission, Score: e.Score, Solved: e.Solved, Total: e.Total, CostMicros: e.CostMicros, Findings: e.Findings,
	}
	s.Qualified, s.ExcludedReason = verdictOf(e)
	var err error
	if s.Paid, s.Credit, err = moneyOf(tx, e); err != nil {
		return s, err
	}
	if s.Appeal, err = p.appealOf(tx, e.ID); err != nil {
		return s, err
	}
	d, err := tx.Decision(e.ID)
	if err == nil {
		d.Sentence = incentive.Say(p.cfg.Incentives, d)
		s.Decision = &d
		if s.Unverifiable, err = p.unverifiable(tx, e); err != nil {
			return s, err
		}
	} else if !errors.Is(err, store.ErrNotFound) {
		return s, err
	}
	return s, nil
}

// Submission returns one submission. That it exists and how it stands is
// public, its digest is for those who may read its code.
func (p *Platform) Submission(ctx context.Context, c Caller, id string) (*client.Submission, error) {
	s, err := p.submission(ctx, id)
	if err != nil {
		return nil, err
	}
	return s, p.nameOnly(ctx, c, s.Submission, s)
}

func (p *Platform) submission(ctx context.Context, id string) (*client.Submission, error) {
	var s client.Submission
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		e, err := tx.Entry(id)
		if err != nil {
			return found(err, "submission", id)
		}
		if s, err = p.entryView(tx, e); err != nil {
			return err
		}
		s.Contest, err = p.contestNumbers(tx, e)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// SubmissionFiles returns the files of a submission to those who may read code.
func (p *Platform) SubmissionFiles(ctx context.Context, c Caller, id string) ([]client.File, error) {
	s, err := p.submission(ctx, id)
	if err != nil {
		return nil, err
	}
	v, err := p.viewOf(ctx, c, s.Submission)
	if err != nil {
		return nil, err
	}
	if !v.may(WhatCode) {
		e := refuse(403, "not_public", "the files of a %s submission are not published (%s)", s.State, id)
		e.Mend = "sign with the key that entered it, or wait until it is decided"
		return nil, e
	}
	files, err := blob.GetFiles(ctx, p.cfg.Blobs, s.Digest, blob.TreeLimits{})
	if err != nil {
		return nil, fmt.Errorf("read submission: %w", err)
	}
	out := make([]client.File, 0, len(files))
	for _, f := range files {
		out = append(out, client.File{Path: f.Path, Content: f.Content})
	}
	return out, nil
}

// Runs lists runs, newest first, without their attempts.
func (p *Platform) Runs(ctx context.Context, c Caller, arena, submission, state, cursor string, limit int) (*client.Page[client.Run], error) {
	before, n, err := pageOf(cursor, limit)
	if err != nil {
		return nil, err
	}
	if state != "" && !slices.Contains(agon.RunStates, agon.RunState(state)) {
		e := refuse(422, "bad_state", "unknown run state %q", cut(state, 40))
		e.Field = "state"
		return nil, e
	}
	page := &client.Page[client.Run]{Items: []client.Run{}}
	var list []store.Run
	entries := map[string]agon.Submission{}
	arenas := map[string]agon.Arena{}
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if list, err = tx.Runs(store.RunFilter{Arena: arena, Submission: submission, State: state, Before: before, Limit: n + 1}); err != nil {
			return err
		}
		if len(list) > n {
			list = list[:n]
			page.Next = strconv.FormatInt(list[n-1].N, 36)
		}
		for i, r := range list {
			if list[i].Scores, err = tx.Scores(r.RunSpec.Run); err != nil {
				return err
			}
			if _, ok := entries[r.Submission]; !ok {
				e, err := tx.Entry(r.Submission)
				if err != nil {
					return err
				}
				entries[r.Submission] = e.Submission
			}
			if _, ok := arenas[r.Arena]; !ok {
				if arenas[r.Arena], err = tx.Arena(r.Arena); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	views := map[string]view{}
	for _, r := range list {
		v, ok := views[r.Submission]
		if !ok {
			if v, err = p.viewOf(ctx, c, entries[r.Submission]); err != nil {
				return nil, err
			}
			views[r.Submission] = v
		}
		page.Items = append(page.Items, p.runView(arenas[r.Arena], r, entries[r.Submission].Name, nil, v))
	}
	return page, nil
}

// runView shows the progress of a run to all, and words about what happened in
// it to those who may read its logs: they may quote the agent or the task. What
// a judge said of a hidden task goes to those only who may read the task.
func (p *Platform) runView(arena agon.Arena, r store.Run, name string, list []store.Attempt, v view) client.Run {
	out := client.Run{Run: r.Run, Name: name}
	told := p.tellingOf(arena, r.Tasks, v)
	if len(told.hidden) > 0 {
		out.Tasks = openDigests(r.Tasks)
	}
	out.Reason, out.Scores = told.words(out.Reason), told.scores(out.Scores)
	for _, a := range list {
		a.Reason = told.words(a.Reason)
		if !told.logs {
			a.Evidence = ""
		}
		out.List = append(out.List, a.Attempt)
	}
	return out
}

// telling is what a caller may be told of what happened in a run.
type telling struct {
	logs   bool
	hidden map[string]bool // by key: tasks that the caller may not read
}

func (p *Platform) tellingOf(arena agon.Arena, tasks []agon.TaskRef, v view) telling {
	out := telling{logs: v.may(WhatLogs), hidden: map[string]bool{}}
	for _, t := range tasks {
		if !v.may(WhatHidden) && p.stillHidden(arena, t) {
			out.hidden[t.Key] = true
		}
	}
	return out
}

// words is a reason as far as it may be told.
func (t telling) words(reason string) string {
	switch {
	case !t.logs || reason == "":
		return ""
	case len(t.hidden) > 0: // a path that the agent chose, say, may be what it read
		return "withheld: a task of this run is hidden"
	}
	return reason
}

// scores are scores as far as they may be told: figures always, words and what a
// kind has measured not of what the caller may not read.
func (t telling) scores(list []agon.Score) []agon.Score {
	out := slices.Clone(list)
	for i, s := range out {
		if !t.logs || t.hidden[s.Task] {
			out[i].Detail, out[i].Metrics = "", nil
		}
	}
	return out
}

// withheld stands for the data of an event that the caller may not read. The
// event itself stays, so that its log has no unexplained gap.
var withheld = json.RawMessage(`{"withheld":true}`)

// Events returns events after a cursor, in order; what c may not read is withheld.
func (p *Platform) Events(ctx context.Context, c Caller, run string, afterAttempt int, afterSeq int64, limit int) ([]agon.Event, error) {
	if limit <= 0 || limit > maxBatch {
		limit = maxPage
	}
	var r store.Run
	var e store.Entry
	var a agon.Arena
	var list []agon.Event
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if r, err = tx.Run(run); err != nil {
			return found(err, "run", run)
		}
		if e, err = tx.Entry(r.Submission); err != nil {
			return err
		}
		if a, err = tx.Arena(r.Arena); err != nil {
			return err
		}
		list, err = tx.Events(run, afterAttempt, afterSeq, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	v, err := p.viewOf(ctx, c, e.Submission)
	if err != nil {
		return nil, err
	}
	for i, ev := range list {
		w := whatOf(ev.Type)
		hidden := p.anyHidden(a, r.Tasks)
		for _, t := range r.Tasks {
			if t.Key == ev.Task {
				hidden = p.stillHidden(a, t)
			}
		}
		switch shut := hidden && !v.may(WhatHidden); {
		case !v.may(w), shut && w != WhatProgress:
			list[i].Data = withheld
		case shut:
			list[i].Data = figures(ev)
		}
	}
	if list == nil {
		list = []agon.Event{}
	}
	return list, nil
}

// figureFields are what progress may say of a hidden task: no words in which a
// contestant, or what it provoked, could carry the task out.
var figureFields = map[string][]string{
	agon.EventPhase: {"phase", "driver", "policy", "seed", "outcome", "cost_micros", "box_ms", "fault"},
	agon.EventBox:   {"role", "phase", "action", "driver", "limits", "ms", "end"},
	agon.EventScore: {"run", "task", "value", "solved", "scorer"},
}

// figures is the data of an event of progress without its words.
func figures(e agon.Event) json.RawMessage {
	var all, some map[string]json.RawMessage
	if json.Unmarshal(e.Data, &all) != nil {
		return withheld
	}
	some = make(map[string]json.RawMessage, len(all))
	for _, f := range figureFields[e.Type] {
		if x, ok := all[f]; ok {
			some[f] = x
		}
	}
	b, err := json.Marshal(some)
	if err != nil {
		return withheld
	}
	return b
}

// Wait blocks until something changed in run (or any run, if empty) or ctx
// ends. It may return without a change; a caller looks, then waits again.
func (p *Platform) Wait(ctx context.Context, run string) error { return p.hub.wait(ctx, run) }

// directTime is how long a read without the server may take to begin, for who
// holds no lease; with one it ends with the lease, at most directMost from now.
const directTime, directMost = time.Minute, 15 * time.Minute

// Permitted says whether hotkey is a validator of any arena here.
func (p *Platform) Permitted(ctx context.Context, hotkey string) (bool, error) {
	return p.permitAnywhere(ctx, hotkey)
}

func (p *Platform) permitAnywhere(ctx context.Context, hotkey string) (bool, error) {
	var arenas []agon.Arena
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		arenas, err = tx.Arenas()
		return err
	})
	if err != nil {
		return false, err
	}
	asked := map[place]bool{}
	for _, a := range arenas {
		at := placeOf(a)
		if asked[at] {
			continue
		}
		asked[at] = true
		ok, err := p.ledgerOf(a).IsValidator(ctx, a.Netuid, hotkey)
		if err != nil {
			return false, ledgerError(err)
		}
		if ok {
			return true, nil
		}
	}
	return false, nil
}

// verdictOf says whether a submission solved everything, once that is known,
// and why it is not played, if it is not.
func verdictOf(e store.Entry) (qualified *bool, excluded string) {
	switch e.State {
	case agon.SubmissionScored:
		q := e.Solved != nil && e.Total != nil && *e.Total > 0 && *e.Solved == *e.Total
		return &q, ""
	case agon.SubmissionRefused, agon.SubmissionExcluded:
		for _, f := range e.Findings {
			if !f.Warning {
				excluded = f.Message
			}
		}
		return new(bool), excluded
	}
	return nil, ""
}
