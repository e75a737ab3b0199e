package wire

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// The monitoring reads of 4.8, as far as the seed's data fits: public, without
// signature. Claims and results show when the batch is completed.

type summary struct {
	BatchID       string    `json:"batch_id"`
	Status        string    `json:"status"`
	CreatedAt     time.Time `json:"created_at"`
	CutoffAt      time.Time `json:"cutoff_at"`
	CompletedAt   any       `json:"completed_at"`
	FailedAt      any       `json:"failed_at"`
	ArtifactCount int       `json:"artifact_count"`
	TaskCount     int       `json:"task_count"`
	Champion      any       `json:"champion_artifact_id"`
}

func summaryOf(b Batch) summary {
	s := summary{BatchID: b.BatchID, Status: b.Status, CreatedAt: b.CreatedAt, CutoffAt: b.CutoffAt, ArtifactCount: len(b.Candidates), TaskCount: len(b.Claims) + len(b.Tasks)}
	switch b.Status {
	case "completed":
		s.CompletedAt = when(b.ended)
	case "failed":
		s.FailedAt = when(b.ended)
	}
	for _, c := range b.Candidates {
		if b.ChampionUID != nil && c.UID == *b.ChampionUID {
			s.Champion = c.ArtifactID
		}
	}
	if b.crown != nil {
		s.Champion = *b.crown
	}
	return s
}

// monitorList pages with before (a time) and before_batch_id.
func (p *Platform) monitorList(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	limit := 100
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 || n > 500 {
			reply(w, http.StatusUnprocessableEntity, map[string]any{"detail": []field{{"value_error", []any{"query", "limit"}, "Input should be 1 to 500", nil}}})
			return
		}
		limit = n
	}
	var before time.Time
	if v := q.Get("before"); v != "" {
		var err error
		if before, err = time.Parse(time.RFC3339Nano, v); err != nil {
			reply(w, http.StatusUnprocessableEntity, map[string]any{"detail": []field{{"datetime_parsing", []any{"query", "before"}, "Input should be a valid datetime", nil}}})
			return
		}
	}
	list, err := p.batches(r.Context())
	if err != nil {
		p.broken(w, "list batches", err)
		return
	}
	if !before.IsZero() {
		id := q.Get("before_batch_id")
		list = slices.DeleteFunc(list, func(b Batch) bool {
			return b.CreatedAt.After(before) || (b.CreatedAt.Equal(before) && (id == "" || strings.Compare(b.BatchID, id) >= 0))
		})
	}
	out := map[string]any{"next_before": nil, "next_before_batch_id": nil}
	if len(list) > limit {
		last := list[limit-1]
		out["next_before"], out["next_before_batch_id"] = last.CreatedAt.Format(time.RFC3339Nano), last.BatchID
		list = list[:limit]
	}
	rows := make([]summary, 0, len(list))
	for _, b := range list {
		rows = append(rows, summaryOf(b))
	}
	out["batches"] = rows
	if out["next_batch_at"], err = p.nextBatch(r.Context()); err != nil {
		p.broken(w, "read the arena", err)
		return
	}
	reply(w, http.StatusOK, out)
}

// nextBatch is when the round that is played ends and the next begins; nil where the
// arena's claims stay, or where a block that nobody can date ends it.
func (p *Platform) nextBatch(ctx context.Context) (any, error) {
	a, err := p.cfg.Arenas.Arena(ctx, p.cfg.Arena)
	if err != nil || a.Supply == nil || a.Seeds == nil || a.Seeds.Period == nil || a.Seeds.Period.ClosesBlock > 0 {
		return nil, err
	}
	return a.Seeds.Period.Closes.UTC().Format(time.RFC3339Nano), nil
}

func (p *Platform) monitorBatch(w http.ResponseWriter, r *http.Request) {
	b, ok := p.batch(w, r, r.PathValue("id"))
	if !ok {
		return
	}
	full := map[string]any{"batch_id": b.BatchID, "entrypoint": b.Entrypoint, "artifacts": b.Candidates, "tasks": []any{}}
	if b.Status == "completed" {
		open, withheld, err := p.open(r.Context(), b)
		if err != nil {
			p.broken(w, "read claims", err)
			return
		}
		full["tasks"], full["withheld_tasks"] = open, withheld
	}
	next, err := p.nextBatch(r.Context())
	if err != nil {
		p.broken(w, "read the arena", err)
		return
	}
	if d, ok, err := p.driven(b.BatchID); err != nil {
		p.broken(w, "read batch", err)
		return
	} else if ok {
		reply(w, http.StatusOK, drivenBatch(b, d, full, next))
		return
	}
	aggregates := []any{}
	total := agon.Micros(0)
	for _, c := range b.Candidates {
		s, err := p.cfg.Arenas.Submission(r.Context(), anybody, c.ArtifactID)
		if err != nil {
			continue // it shows as soon as it is there
		}
		total += s.CostMicros
		row := map[string]any{"artifact_id": c.ArtifactID, "uid": c.UID, "state": s.State, "score": nil, "cost_usd": float64(s.CostMicros) / 1e6}
		if b.Status == "completed" {
			row["score"] = s.Score
		}
		aggregates = append(aggregates, row)
	}
	reply(w, http.StatusOK, map[string]any{
		"summary": summaryOf(b), "batch": full, "artifact_aggregates": aggregates, "observed_artifact_aggregates": aggregates, "deliveries": []any{},
		"cost_totals": map[string]any{"total_cost_usd": float64(total) / 1e6}, "next_batch_at": next,
	})
}

// open are the claims or tasks of a batch that everybody may read: those that no
// validator plays as hidden ones any more. withheld counts the others.
func (p *Platform) open(ctx context.Context, b Batch) (list []any, withheld int, err error) {
	hidden := map[string]bool{}
	if p.cfg.Hidden != nil {
		if hidden, err = p.cfg.Hidden(ctx); err != nil {
			return nil, 0, err
		}
	}
	list = []any{}
	for _, c := range b.Claims {
		if !hidden[c.ClaimID] {
			list = append(list, c)
		}
	}
	for _, t := range b.Tasks {
		if !hidden[t.TaskID] {
			list = append(list, t)
		}
	}
	return list, len(b.Claims) + len(b.Tasks) - len(list), nil
}

// rows are the results of one artifact, by task key.
func (p *Platform) rows(ctx context.Context, artifact string) (map[string]row, error) {
	out := map[string]row{}
	cursor := ""
	for {
		page, err := p.cfg.Arenas.Runs(ctx, anybody, p.cfg.Arena, artifact, "", cursor, 200)
		if err != nil {
			return nil, err
		}
		for _, x := range page.Items {
			for _, t := range x.Tasks {
				out[t.Key] = row{run: x, task: t}
			}
		}
		if cursor = page.Next; cursor == "" {
			return out, nil
		}
	}
}

type row struct {
	run  client.Run
	task agon.TaskRef
}

// shown is a row as 4.8 has it; unfinished ones carry a lifecycle_status.
func (x row) shown() map[string]any {
	out := map[string]any{"task_id": x.task.Key, "run_id": x.run.RunSpec.Run}
	if !x.run.State.Final() {
		out["lifecycle_status"] = x.run.State
		return out
	}
	out["status"], out["fault"] = x.run.State, x.run.Fault
	for _, s := range x.run.Scores {
		if s.Task == x.task.Key {
			out["score"], out["metrics"], out["scoring_version"] = s.Value, s.Metrics, s.Scorer
		}
	}
	return out
}

// artifactRows are what monitoring shows of a script, by claim id: what each of the
// batch's validators says, or what agon's own did.
func (p *Platform) artifactRows(w http.ResponseWriter, r *http.Request) (map[string][]map[string]any, bool) {
	b, ok := p.batch(w, r, r.PathValue("id"))
	if !ok {
		return nil, false
	}
	aid := r.PathValue("aid")
	if !slices.ContainsFunc(b.Candidates, func(c Candidate) bool { return c.ArtifactID == aid }) {
		refuse(w, http.StatusNotFound, "artifact_not_found", "the batch has no such artifact")
		return nil, false
	}
	out, driven, err := p.drivenRows(r.Context(), b, aid)
	if err == nil && !driven {
		out, err = p.ownRows(r.Context(), aid)
	}
	if err != nil {
		p.broken(w, "list results", err)
		return nil, false
	}
	return out, true
}

// ownRows are those of agon's own runs.
func (p *Platform) ownRows(ctx context.Context, artifact string) (map[string][]map[string]any, error) {
	rows, err := p.rows(ctx, artifact)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	if p.cfg.Keys != nil {
		if ids, err = p.cfg.Keys(ctx); err != nil {
			return nil, err
		}
	}
	out := map[string][]map[string]any{}
	for key, x := range rows {
		id := cmp.Or(ids[key], key)
		row := x.shown()
		row["task_id"], row["task_key"] = id, key
		out[id] = append(out[id], row)
	}
	return out, nil
}

func (p *Platform) monitorTasks(w http.ResponseWriter, r *http.Request) {
	rows, ok := p.artifactRows(w, r)
	if !ok {
		return
	}
	out := []any{}
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		for _, x := range rows[k] {
			out = append(out, x)
		}
	}
	reply(w, http.StatusOK, out)
}

func (p *Platform) monitorResults(w http.ResponseWriter, r *http.Request) {
	rows, ok := p.artifactRows(w, r)
	if !ok {
		return
	}
	out := []any{}
	for _, x := range rows[r.PathValue("tid")] {
		if x["lifecycle_status"] == nil {
			out = append(out, x)
		}
	}
	reply(w, http.StatusOK, out)
}

// monitorScript shows a script as far as the public may read it.
func (p *Platform) monitorScript(w http.ResponseWriter, r *http.Request) {
	s, err := p.cfg.Arenas.Submission(r.Context(), anybody, r.PathValue("id"))
	if err != nil || s.Arena != p.cfg.Arena {
		refuse(w, http.StatusNotFound, "artifact_not_found", "no such script")
		return
	}
	c, err := p.candidate(r.Context(), s.ID)
	if err != nil {
		p.broken(w, "read script", err)
		return
	}
	out := map[string]any{"artifact_id": s.ID, "content_hash": c.ContentHash, "size_bytes": c.SizeBytes, "uid": nil}
	if uid, ok, err := p.uid(r.Context(), s.Miner); err == nil && ok {
		out["uid"] = uid
	}
	if r.URL.Query().Get("include_content") == "true" {
		b, err := p.script(r.Context(), anybody, s.ID)
		var e *agon.Error
		if errors.As(err, &e) && e.Code == "not_public" {
			ended, werr := p.wasPlayed(r.Context(), s)
			switch {
			case werr != nil:
				err = werr
			case ended:
				b, err = p.script(r.Context(), operator, s.ID)
			}
		}
		if errors.As(err, &e) && e.Status < 500 {
			refuse(w, e.Status, e.Code, "%s", e.Message)
			return
		}
		if err != nil {
			p.broken(w, "read script", err)
			return
		}
		out["content_b64"] = base64.StdEncoding.EncodeToString(b)
	}
	reply(w, http.StatusOK, out)
}

// wasPlayed reports whether a batch that was driven to its end had a script: everybody
// may read it then, as after the arena's own decision, once its embargo is over.
func (p *Platform) wasPlayed(ctx context.Context, s *client.Submission) (bool, error) {
	list, err := p.batches(ctx)
	if err != nil {
		return false, err
	}
	played := slices.ContainsFunc(list, func(b Batch) bool {
		return b.Status == "completed" && !b.ended.IsZero() && slices.ContainsFunc(b.Candidates, func(c Candidate) bool { return c.ArtifactID == s.ID })
	})
	if !played {
		return false, nil
	}
	a, err := p.cfg.Arenas.Arena(ctx, s.Arena)
	if err != nil {
		return false, err
	}
	return !p.cfg.Now().Before(s.CreatedAt.Add(time.Duration(a.Embargo) * time.Hour)), nil
}
