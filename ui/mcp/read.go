package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

type reader struct{ src Source }

type none struct{}

type arenaIn struct {
	Arena string `json:"arena" jsonschema:"id of the arena"`
}

type boardIn struct {
	Arena     string `json:"arena" jsonschema:"id of the arena"`
	AgentText bool   `json:"include_agent_text,omitempty" jsonschema:"also give names that miners chose"`
}

type listIn struct {
	Arena     string `json:"arena,omitempty" jsonschema:"only of this arena"`
	Miner     string `json:"miner,omitempty" jsonschema:"only of this hotkey"`
	Cursor    string `json:"cursor,omitempty" jsonschema:"next of the page before"`
	Limit     int    `json:"limit,omitempty" jsonschema:"rows, 20 by default, at most 100"`
	AgentText bool   `json:"include_agent_text,omitempty" jsonschema:"also give text that miners wrote"`
}

type runsIn struct {
	Arena      string `json:"arena,omitempty" jsonschema:"only of this arena"`
	Submission string `json:"submission,omitempty" jsonschema:"only of this submission"`
	State      string `json:"state,omitempty" jsonschema:"queued, leased, playing, judging, scored, failed or cancelled"`
	Cursor     string `json:"cursor,omitempty" jsonschema:"next of the page before"`
	Limit      int    `json:"limit,omitempty" jsonschema:"rows, 20 by default, at most 100"`
}

type idIn struct {
	ID        string `json:"id" jsonschema:"the id"`
	AgentText bool   `json:"include_agent_text,omitempty" jsonschema:"also give text that agents and miners wrote"`
}

type receiptsIn struct {
	Run       string `json:"run" jsonschema:"id of the run"`
	Attempt   int    `json:"attempt,omitempty" jsonschema:"only of this attempt"`
	Limit     int    `json:"limit,omitempty" jsonschema:"rows, 20 by default, at most 100"`
	After     string `json:"after,omitempty" jsonschema:"next of the page before"`
	AgentText bool   `json:"include_agent_text,omitempty" jsonschema:"also give what was asked and answered"`
}

// said is text that an agent or miner wrote: cleaned, or withheld.
func said(s string, give bool) string {
	if s == "" {
		return ""
	}
	if !give {
		return Withheld
	}
	return clean(s)
}

// saidJSON is said for a JSON value: its strings are cleaned where they stand,
// so that no escape hides a control character.
func saidJSON(raw json.RawMessage, give bool) any {
	if len(raw) == 0 {
		return nil
	}
	if !give {
		return Withheld
	}
	var v any
	if len(raw) > 2*maxAnswer || json.Unmarshal(raw, &v) != nil {
		return "(too large)"
	}
	return cleaned(v)
}

func cleaned(v any) any {
	switch v := v.(type) {
	case string:
		return clean(v)
	case []any:
		for i := range v {
			v[i] = cleaned(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[clean(k)] = cleaned(x)
		}
		return out
	}
	return v
}

type m = map[string]any

func (r reader) arenas(ctx context.Context, _ none) (any, error) {
	list, err := r.src.Arenas(ctx)
	if err != nil {
		return nil, err
	}
	out := []m{}
	for _, a := range list {
		out = append(out, m{
			"id": a.ID, "kind": a.Kind, "title": clean(a.Title), "state": a.State, "netuid": a.Netuid, "tasks": len(a.Tasks), "incentive": a.Incentive,
			"licence": a.Licence, "queued": a.Queued, "playing": a.Playing, "champion": seat(a.Champion), "seats": seats(a.Seats),
		})
	}
	return m{"arenas": out}, nil
}

func seats(list []client.Place) []m {
	out := []m{}
	for _, s := range list {
		out = append(out, m{"place": s.Place, "share": s.Share, "submission": s.Submission, "miner": s.Miner, "score": s.Score, "since": stamp(s.Since)})
	}
	return out
}

func seat(s *agon.Seat) any {
	if s == nil {
		return nil
	}
	return m{"submission": s.Submission, "miner": s.Miner, "score": s.Score, "since": stamp(s.Since)}
}

func (r reader) board(ctx context.Context, in boardIn) (any, error) {
	b, err := r.src.Board(ctx, in.Arena)
	if err != nil {
		return nil, err
	}
	rows := []m{}
	for _, s := range b.Submissions {
		rows = append(rows, m{
			"id": s.ID, "miner": s.Miner, "score": s.Score, "solved": s.Solved, "total": s.Total, "cost_micros": s.CostMicros, "state": s.State,
			"scripted": s.Scripted, "agent_text": m{"name": said(s.Name, in.AgentText)},
		})
	}
	return m{"arena": b.ID, "kind": b.Kind, "champion": b.Champion, "seats": seats(b.Seats), "burned": b.Burned, "submissions": rows, "decisions": b.Decisions, "weights": b.Weights}, nil
}

func (r reader) champion(ctx context.Context, in arenaIn) (any, error) {
	list, err := r.src.Arenas(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		if a.ID != in.Arena {
			continue
		}
		b, err := r.src.Board(ctx, in.Arena)
		if err != nil {
			return nil, err
		}
		out := m{"arena": a.ID, "champion": seat(a.Champion), "seats": seats(a.Seats), "weights": b.Weights, "decision": nil}
		if a.Champion != nil {
			for _, d := range b.Decisions {
				if d.Challenger == a.Champion.Submission && d.Outcome == agon.TookSeat {
					out["decision"] = d
				}
			}
		}
		return out, nil
	}
	return nil, &agon.Error{Code: "not_found", Status: 404, Message: "no such arena"}
}

func submission(s client.Submission, give bool) m {
	findings := []m{}
	for _, f := range s.Findings {
		findings = append(findings, m{"code": f.Code, "limit": f.Limit, "warning": f.Warning, "agent_text": m{"field": said(f.Field, give), "message": said(f.Message, give)}})
	}
	return m{
		"id": s.ID, "arena": s.Arena, "miner": s.Miner, "digest": s.Digest, "licence": s.Licence, "state": s.State, "scripted": s.Scripted, "seq": s.Seq,
		"created_at": stamp(s.CreatedAt), "score": s.Score, "solved": s.Solved, "total": s.Total, "cost_micros": s.CostMicros, "decision": s.Decision,
		"findings": findings, "agent_text": m{"name": said(s.Name, give)},
	}
}

func (r reader) submissions(ctx context.Context, in listIn) (any, error) {
	p, err := r.src.Submissions(ctx, in.Arena, in.Miner, in.Cursor, rows(in.Limit))
	if err != nil {
		return nil, err
	}
	out := []m{}
	for _, s := range p.Items {
		out = append(out, submission(s, in.AgentText))
	}
	return m{"submissions": out, "next": p.Next}, nil
}

func (r reader) submission(ctx context.Context, in idIn) (any, error) {
	s, err := r.src.Submission(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	out := submission(*s, in.AgentText)
	if !in.AgentText {
		return out, nil
	}
	text := out["agent_text"].(m)
	files, err := r.src.SubmissionFiles(ctx, in.ID)
	if err != nil {
		text["files"] = "(not public yet)" // the submission itself is
		return out, nil
	}
	list := []m{}
	for _, f := range files {
		e := m{"path": clean(f.Path), "bytes": len(f.Content)}
		if utf8.Valid(f.Content) {
			e["content"] = clean(string(f.Content))
		}
		list = append(list, e)
	}
	text["files"] = list
	return out, nil
}

func runView(x client.Run, give bool) m {
	scores := []m{}
	for _, s := range x.Scores {
		scores = append(scores, m{"task": s.Task, "value": s.Value, "solved": s.Solved, "metrics": s.Metrics, "scorer": s.Scorer, "agent_text": m{"detail": said(s.Detail, give)}})
	}
	tasks := []m{}
	for _, t := range x.Tasks {
		tasks = append(tasks, m{"key": t.Key, "digest": t.Digest, "hidden": t.Hidden})
	}
	attempts := []m{}
	for _, a := range x.List {
		attempts = append(attempts, m{
			"n": a.N, "validator": a.Validator, "state": a.State, "fault": a.Fault, "driver": a.Driver.Name, "cost_micros": a.CostMicros, "evidence": a.Evidence,
			"counted": a.Counted, "late": a.Late, "leased_at": stamp(a.LeasedAt), "ended_at": stamp(a.EndedAt), "box_ms": a.BoxMS,
			"agent_text": m{"reason": said(a.Reason, give)},
		})
	}
	return m{
		"id": x.RunSpec.Run, "arena": x.Arena, "submission": x.Submission, "state": x.State, "fault": x.Fault, "replica": x.Replica, "seed": x.Seed,
		"tasks": tasks, "scores": scores, "attempts": attempts, "created_at": stamp(x.CreatedAt), "ended_at": stamp(x.EndedAt),
		"agent_text": m{"reason": said(x.Reason, give)},
	}
}

func (r reader) runs(ctx context.Context, in runsIn) (any, error) {
	p, err := r.src.Runs(ctx, in.Arena, in.Submission, in.State, in.Cursor, rows(in.Limit))
	if err != nil {
		return nil, err
	}
	out := []m{}
	for _, x := range p.Items {
		out = append(out, runView(x, false))
	}
	return m{"runs": out, "next": p.Next}, nil
}

func (r reader) run(ctx context.Context, in idIn) (any, error) {
	x, err := r.src.Run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return runView(*x, in.AgentText), nil
}

// receipts takes them from the run's log, as far as the public may read it:
// an event that is withheld by the platform counts, and shows nothing.
func (r reader) receipts(ctx context.Context, in receiptsIn) (any, error) {
	after := client.Cursor{}
	if in.After != "" {
		var err error
		if after, err = client.ParseCursor(in.After); err != nil {
			return nil, &agon.Error{Code: "bad_cursor", Status: 422, Message: "after is not from this server"}
		}
	}
	limit := rows(in.Limit)
	out := []m{}
	hidden, looked := 0, 0
	more := false
read:
	for looked < maxEvents {
		list, err := r.src.Events(ctx, in.Run, after.Attempt, after.Seq, 200)
		if err != nil {
			return nil, err
		}
		for _, e := range list {
			if len(out) == limit {
				more = true
				break read
			}
			after = client.CursorOf(e)
			looked++
			if (e.Type != agon.EventModel && e.Type != agon.EventTool) || (in.Attempt != 0 && e.Attempt != in.Attempt) {
				continue
			}
			if x := receipt(e, in.AgentText); x != nil {
				out = append(out, x)
			} else {
				hidden++
			}
		}
		if len(list) < 200 {
			break
		}
		more = looked >= maxEvents
	}
	next := ""
	if more {
		next = after.String()
	}
	return m{"run": in.Run, "receipts": out, "not_public": hidden, "next": next}, nil
}

// receipt reads the event of a model call ({receipt, request, response}) or of
// a metered tool ({tool}); nil where the platform withheld it.
func receipt(e agon.Event, give bool) m {
	var d struct {
		Receipt  *agon.Receipt   `json:"receipt"`
		Request  json.RawMessage `json:"request"`
		Response json.RawMessage `json:"response"`
		Tool     *struct {
			ReceiptID    string          `json:"receipt_id"`
			SessionID    string          `json:"session_id"`
			Tool         string          `json:"tool"`
			Outcome      string          `json:"outcome"`
			RequestHash  string          `json:"request_hash"`
			ResponseHash string          `json:"response_hash"`
			Cost         agon.Micros     `json:"cost_micros"`
			Reserved     agon.Micros     `json:"reserved_micros"`
			Model        string          `json:"model"`
			Backend      string          `json:"backend"`
			Prompt       int64           `json:"prompt_tokens"`
			Completion   int64           `json:"completion_tokens"`
			ElapsedMS    int64           `json:"elapsed_ms"`
			Request      json.RawMessage `json:"request"`
			Response     json.RawMessage `json:"response"`
		} `json:"tool"`
	}
	if json.Unmarshal(e.Data, &d) != nil {
		return nil
	}
	text := func(request, response json.RawMessage) m {
		return m{"request": saidJSON(request, give), "response": saidJSON(response, give)}
	}
	base := m{"attempt": e.Attempt, "seq": e.Seq, "task": e.Task, "at": stamp(e.At)}
	switch {
	case d.Receipt != nil:
		x := d.Receipt
		base["kind"] = "model"
		maps.Copy(base, m{
			"id": x.ID, "session": x.Session, "route": x.Route, "model": x.Model, "provider": x.Provider, "request_hash": x.RequestHash, "response_hash": x.ResponseHash,
			"prompt_tokens": x.Prompt, "completion_tokens": x.Completion, "estimated": x.Estimated, "cost_micros": x.Cost, "reserved_micros": x.Reserved,
			"outcome": x.Outcome, "status": x.Status, "payer": x.Payer, "n": x.N, "prev": x.Prev, "signer": x.Signer, "sig": x.Sig,
		})
		base["agent_text"] = text(d.Request, d.Response)
	case d.Tool != nil:
		x := d.Tool
		base["kind"] = "tool"
		maps.Copy(base, m{
			"id": x.ReceiptID, "session": x.SessionID, "tool": x.Tool, "model": x.Model, "provider": x.Backend, "request_hash": x.RequestHash,
			"response_hash": x.ResponseHash, "prompt_tokens": x.Prompt, "completion_tokens": x.Completion, "cost_micros": x.Cost, "reserved_micros": x.Reserved,
			"outcome": x.Outcome, "elapsed_ms": x.ElapsedMS,
		})
		base["agent_text"] = text(x.Request, x.Response)
	default:
		return nil
	}
	return base
}
