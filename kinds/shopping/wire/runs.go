package wire

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

func (b *Backend) runsOf(ctx context.Context, submission, state string) ([]client.Run, error) {
	page, err := b.cfg.Platform.Runs(ctx, anybody, b.cfg.Arena, submission, state, "", 200)
	if err != nil {
		return nil, err
	}
	return page.Items, nil
}

func phase(r client.Run) string {
	for _, t := range r.Tasks {
		if t.Hidden {
			return "RACE"
		}
	}
	return "QUALIFYING"
}

// runStatus is the wire's word for an attempt's state.
func runStatus(r client.Run, a agon.Attempt, last bool) string {
	switch {
	case !last || a.State == "expired":
		return "STALE"
	case r.State == agon.RunScored:
		return "SUCCESS"
	case r.State == agon.RunCancelled:
		return "CANCELLED"
	case r.State == agon.RunLeased:
		return "CLAIMED"
	case r.State.Final() || a.Fault.Ours():
		return "FAILED"
	}
	return "RUNNING"
}

func shownScore(r client.Run) *float64 {
	if r.State != agon.RunScored || len(r.Scores) == 0 {
		return nil
	}
	sum := 0.0
	for _, s := range r.Scores {
		sum += s.Value
	}
	sum /= float64(len(r.Scores))
	return &sum
}

// attempts are a run's leases: the wire's evaluation runs. Lists of runs do
// not carry them.
func (b *Backend) attempts(ctx context.Context, r client.Run) (client.Run, error) {
	if len(r.List) > 0 || r.Attempts == 0 {
		return r, nil
	}
	got, err := b.cfg.Platform.Run(ctx, anybody, r.RunSpec.Run)
	if err != nil {
		return r, err
	}
	return *got, nil
}

func (b *Backend) versionRuns(w http.ResponseWriter, r *http.Request) {
	s, _, ok := b.byVersion(w, r)
	if !ok {
		return
	}
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	list, err := b.runsOf(r.Context(), s.ID, "")
	if err != nil {
		b.broken(w, "runs", err)
		return
	}
	out := []any{}
	for _, x := range list {
		if x, err = b.attempts(r.Context(), x); err != nil {
			b.broken(w, "runs", err)
			return
		}
		for i, t := range x.List {
			last := i == len(x.List)-1
			row := map[string]any{
				"eval_run_id": attemptID(x.RunSpec.Run, t.N), "agent_version_id": versionID(s.ID), "suite_id": suiteID(a.Tasks), "validator_hotkey": t.Validator,
				"status": runStatus(x, t, last), "claimed_at": stamp(t.LeasedAt), "lease_expires_at": stamp(t.LeaseUntil), "is_included": t.Counted, "completed_at": stamp(t.EndedAt),
				"failure_reason": nil, "validator_score": nil, "phase": phase(x), "race_id": nil, "race_number": nil,
			}
			if t.Counted {
				row["validator_score"] = shownScore(x)
			}
			if t.Fault.Ours() {
				row["failure_reason"] = t.Reason
			}
			if phase(x) == "RACE" {
				row["race_id"], row["race_number"] = raceID(a, entered(s)+1), entered(s)+1
			}
			out = append(out, row)
		}
	}
	reply(w, http.StatusOK, out)
}

// versionProblems shows results by problem. Of a race nothing but the result
// is shown while its problems are hidden: no query, no key.
func (b *Backend) versionProblems(w http.ResponseWriter, r *http.Request) {
	s, _, ok := b.byVersion(w, r)
	if !ok {
		return
	}
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	want := r.URL.Query().Get("phase")
	list, err := b.runsOf(r.Context(), s.ID, string(agon.RunScored))
	if err != nil {
		b.broken(w, "problems", err)
		return
	}
	out := []any{}
	for _, x := range list {
		if want != "" && want != phase(x) {
			continue
		}
		if x, err = b.attempts(r.Context(), x); err != nil {
			b.broken(w, "problems", err)
			return
		}
		i := slices.IndexFunc(x.List, func(t agon.Attempt) bool { return t.Counted })
		if i < 0 {
			continue
		}
		tasks := map[string]agon.TaskRef{}
		for _, t := range x.Tasks {
			tasks[t.Key] = t
		}
		for _, sc := range x.Scores {
			result := map[string]any{
				"eval_run_id": attemptID(x.RunSpec.Run, x.List[i].N), "validator_hotkey": x.List[i].Validator, "status": "FAILED", "score": 0.0, "score_components": sc.Metrics,
				"reasoning_score": nil, "updated_at": stamp(x.EndedAt), "inference_total": int(sc.Metrics["model_calls"]), "execution_time": sc.Metrics["seconds"],
			}
			if sc.Solved {
				result["status"], result["score"] = "SUCCESS", 1.0
			}
			if q, ok := sc.Metrics["quality"]; ok {
				result["reasoning_score"] = q
			}
			row := map[string]any{"problem_id": uuidOf("hidden", sc.Task), "category": nil, "phase": phase(x), "race_id": nil, "validator_results": []any{result}}
			if t := tasks[sc.Task]; !t.Hidden {
				p, err := b.shown(r.Context(), t)
				if err != nil {
					b.broken(w, "problems", err)
					return
				}
				row["problem_id"], row["category"] = p.ID, p.Category
			} else {
				row["race_id"] = raceID(a, entered(s)+1)
			}
			out = append(out, row)
		}
	}
	reply(w, http.StatusOK, map[string]any{"agent_version_id": versionID(s.ID), "suite_id": suiteID(a.Tasks), "problems": out})
}

func (b *Backend) evaluationRun(w http.ResponseWriter, r *http.Request) {
	u, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "eval_run_id")
		return
	}
	got, i, err := b.byAttempt(r.Context(), u.String())
	if err != nil {
		b.broken(w, "evaluation run", err)
		return
	}
	if got == nil {
		refuse(w, http.StatusNotFound, "EVAL_RUN_NOT_FOUND", "Evaluation run not found")
		return
	}
	s, err := b.cfg.Platform.Submission(r.Context(), anybody, got.Submission)
	if err != nil {
		b.broken(w, "evaluation run", err)
		return
	}
	t := got.List[i]
	out := map[string]any{
		"eval_run_id": u.String(), "agent_version_id": versionID(s.ID), "agent_name": s.Name, "validator_hotkey": t.Validator, "version_number": 1,
		"status": runStatus(*got, t, i == len(got.List)-1), "claimed_at": stamp(t.LeasedAt), "completed_at": stamp(t.EndedAt), "is_included": t.Counted, "score": nil, "failure_reason": nil,
	}
	if t.Counted {
		out["score"] = shownScore(*got)
	}
	if t.Fault.Ours() {
		out["failure_reason"] = t.Reason
	}
	reply(w, http.StatusOK, out)
}

// byAttempt finds the run and the place in it of an evaluation run.
func (b *Backend) byAttempt(ctx context.Context, id string) (*client.Run, int, error) {
	var doc evalRun
	found, err := b.dir.Get(docName(id), &doc)
	if err != nil {
		return nil, 0, err
	}
	run := doc.Run
	if !found { // a run of this arena's own validators
		list, err := b.runsOf(ctx, "", "")
		if err != nil {
			return nil, 0, err
		}
		for _, x := range list {
			for n := 1; n <= x.Attempts && n <= 20; n++ {
				if attemptID(x.RunSpec.Run, n) == id {
					run = x.RunSpec.Run
				}
			}
		}
	}
	if run == "" {
		return nil, 0, nil
	}
	got, err := b.cfg.Platform.Run(ctx, anybody, run)
	if err != nil {
		return nil, 0, err
	}
	for i, t := range got.List {
		if attemptID(run, t.N) == id {
			return got, i, nil
		}
	}
	return nil, 0, nil
}

func (b *Backend) validators(w http.ResponseWriter, r *http.Request) {
	list, err := b.runsOf(r.Context(), "", "")
	if err != nil {
		b.broken(w, "validators", err)
		return
	}
	type row struct {
		Hotkey     string  `json:"hotkey"`
		Status     string  `json:"status"`
		Registered *string `json:"registered_at"` // when it was first seen here
		Last       *string `json:"last_claim_at"`
	}
	by := map[string]*row{}
	for _, x := range list {
		if x, err = b.attempts(r.Context(), x); err != nil {
			b.broken(w, "validators", err)
			return
		}
		for _, t := range x.List {
			at := stamp(t.LeasedAt)
			v := by[t.Validator]
			if v == nil {
				v = &row{Hotkey: t.Validator, Status: "available", Registered: at, Last: at}
				by[t.Validator] = v
			}
			if at != nil && *at > *v.Last {
				v.Last = at
			}
			if at != nil && *at < *v.Registered {
				v.Registered = at
			}
			if agon.RunState(t.State).Held() {
				v.Status = "evaluating"
			}
		}
	}
	out := []row{}
	for _, v := range by {
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b row) int { return cmp.Compare(a.Hotkey, b.Hotkey) })
	reply(w, http.StatusOK, out)
}

// names are the submissions of the arena by id, with their version numbers.
func (b *Backend) names(ctx context.Context) (map[string]client.Submission, map[string]int, error) {
	list, err := b.submissions(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	by := map[string]client.Submission{}
	for _, s := range list {
		by[s.ID] = s
	}
	return by, versionNumbers(list), nil
}

func (b *Backend) running(w http.ResponseWriter, r *http.Request) {
	by, numbers, err := b.names(r.Context())
	if err != nil {
		b.broken(w, "evaluations", err)
		return
	}
	out := []any{}
	for _, state := range []agon.RunState{agon.RunLeased, agon.RunPlaying, agon.RunJudging} {
		list, err := b.runsOf(r.Context(), "", string(state))
		if err != nil {
			b.broken(w, "evaluations", err)
			return
		}
		for _, x := range list {
			if x, err = b.attempts(r.Context(), x); err != nil {
				b.broken(w, "evaluations", err)
				return
			}
			if len(x.List) == 0 {
				continue
			}
			t, s := x.List[len(x.List)-1], by[x.Submission]
			row := map[string]any{
				"eval_run_id": attemptID(x.RunSpec.Run, t.N), "agent_version_id": versionID(x.Submission), "agent_name": s.Name, "version_number": numbers[x.Submission],
				"miner_hotkey": s.Miner, "validator_hotkey": t.Validator, "status": runStatus(x, t, true), "started_at": stamp(t.LeasedAt), "progress_percent": 0.0, "phase": phase(x),
			}
			if run := (evalRun{}); true {
				if ok, err := b.dir.Get(docName(attemptID(x.RunSpec.Run, t.N)), &run); err == nil && ok && len(run.Problems) > 0 {
					row["progress_percent"] = 100 * float64(len(run.Reports)) / float64(len(run.Problems))
				}
			}
			out = append(out, row)
		}
	}
	reply(w, http.StatusOK, out)
}

func (b *Backend) pending(w http.ResponseWriter, r *http.Request) {
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	by, numbers, err := b.names(r.Context())
	if err != nil {
		b.broken(w, "evaluations", err)
		return
	}
	list, err := b.runsOf(r.Context(), "", string(agon.RunQueued))
	if err != nil {
		b.broken(w, "evaluations", err)
		return
	}
	items := []any{}
	for _, x := range list {
		s := by[x.Submission]
		items = append(items, map[string]any{
			"work_item_id": uuidOf("run", x.RunSpec.Run), "agent_version_id": versionID(x.Submission), "agent_name": s.Name, "version_number": numbers[x.Submission], "miner_hotkey": s.Miner,
			"suite_id": suiteID(a.Tasks), "required_successes": 1, "completed_successes": 0, "active_runs": 0, "remaining": 1, "queued_at": stamp(x.CreatedAt), "phase": phase(x),
		})
	}
	reply(w, http.StatusOK, map[string]any{
		"summary": map[string]any{"total_pending": len(items), "total_runs_needed": len(items), "total_runs_active": a.Playing, "projected_completion_at": nil}, "items": items,
	})
}
