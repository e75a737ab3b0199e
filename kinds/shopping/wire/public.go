package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
)

var anybody platform.Caller

// suiteID numbers a suite by its public problems.
func suiteID(tasks []agon.TaskRef) int {
	h := crc32.NewIEEE()
	for _, t := range tasks {
		if !t.Hidden {
			_, _ = h.Write([]byte(t.Digest))
		}
	}
	return int(h.Sum32() & 0x7fffffff)
}

// raceID names a race by its number in its arena.
func raceID(a *client.Arena, number int64) string {
	return uuidOf("race", a.ID+" "+strconv.FormatInt(number, 10))
}

func paging(w http.ResponseWriter, r *http.Request, most, def int) (limit, offset int, ok bool) {
	limit = def
	for name, v := range map[string]*int{"limit": &limit, "offset": &offset} {
		s := r.URL.Query().Get(name)
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || name == "limit" && (n < 1 || n > most) || n > 1_000_000 {
			reply(w, http.StatusUnprocessableEntity, map[string]any{"detail": []any{map[string]any{"type": "int_parsing", "loc": []any{"query", name}, "msg": "Input is out of range"}}})
			return 0, 0, false
		}
		*v = n
	}
	return limit, offset, true
}

func window[T any](list []T, offset, limit int) []T {
	if offset >= len(list) {
		return []T{}
	}
	return list[offset:min(len(list), offset+limit)]
}

func (b *Backend) arena(w http.ResponseWriter, r *http.Request) (*client.Arena, bool) {
	a, err := b.cfg.Platform.FullArena(r.Context(), b.cfg.Arena)
	if err != nil {
		b.broken(w, "arena", err)
		return nil, false
	}
	return a, true
}

// suitePublic is a suite as it is shown everywhere.
func suitePublic(a *client.Arena) map[string]any {
	return map[string]any{"suite_id": suiteID(a.Tasks), "suite_version": 1, "is_active": a.State == agon.ArenaOpen}
}

func (b *Backend) suite(w http.ResponseWriter, r *http.Request) {
	if a, ok := b.arena(w, r); ok {
		reply(w, http.StatusOK, suitePublic(a))
	}
}

func (b *Backend) suites(w http.ResponseWriter, r *http.Request) {
	if a, ok := b.arena(w, r); ok {
		reply(w, http.StatusOK, []any{suitePublic(a)})
	}
}

// suiteProblems shows the public problems as agents get them. Hidden ones are
// nowhere on a public route.
func (b *Backend) suiteProblems(w http.ResponseWriter, r *http.Request) {
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	id := suiteID(a.Tasks)
	if n, err := strconv.Atoi(r.PathValue("id")); err != nil || n != id {
		refuse(w, http.StatusNotFound, "SUITE_NOT_FOUND", "There is no such suite")
		return
	}
	out := []any{}
	for _, t := range a.Tasks {
		if t.Hidden {
			continue
		}
		p, err := b.shown(r.Context(), t)
		if err != nil {
			b.broken(w, "suite problems", err)
			return
		}
		out = append(out, map[string]any{"problem_id": p.ID, "suite_id": id, "metadata": p})
	}
	reply(w, http.StatusOK, map[string]any{"suite": suitePublic(a), "problems": out})
}

// shownProblem is what everybody may know of a public problem.
type shownProblem struct {
	ID         string `json:"problem_id"`
	Query      string `json:"query"`
	Category   string `json:"category"`
	Difficulty string `json:"difficulty"`
	Title      string `json:"title"`
}

func (b *Backend) shown(ctx context.Context, t agon.TaskRef) (p shownProblem, err error) {
	raw, err := b.cfg.Problem(ctx, t)
	if err != nil {
		return p, err
	}
	return p, json.Unmarshal(raw, &p)
}

// byVersion finds the submission of a request's version, and its number among
// its miner's.
func (b *Backend) byVersion(w http.ResponseWriter, r *http.Request) (*client.Submission, int, bool) {
	u, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "agent_version_id")
		return nil, 0, false
	}
	id, err := b.submissionOf(r.Context(), u.String())
	if err != nil {
		b.broken(w, "agent version", err)
		return nil, 0, false
	}
	if id == "" {
		refuse(w, http.StatusNotFound, "AGENT_VERSION_NOT_FOUND", "There is no such agent version")
		return nil, 0, false
	}
	s, err := b.cfg.Platform.Submission(r.Context(), anybody, id)
	if err != nil {
		b.broken(w, "agent version", err)
		return nil, 0, false
	}
	list, err := b.submissions(r.Context(), s.Miner)
	if err != nil {
		b.broken(w, "agent version", err)
		return nil, 0, false
	}
	return s, versionNumbers(list)[s.ID], true
}

// versionNumbers counts each miner's submissions from 1.
func versionNumbers(list []client.Submission) map[string]int {
	out, n := map[string]int{}, map[string]int{}
	for _, s := range slices.Backward(list) {
		n[s.Miner]++
		out[s.ID] = n[s.Miner]
	}
	return out
}

func raceScore(s *client.Submission) *float64 {
	if s.Decision == nil || s.Decision.Numbers["hidden_problems"] == 0 || s.Decision.Numbers["hidden_played"] < s.Decision.Numbers["hidden_problems"] {
		return nil
	}
	v := s.Decision.Numbers["hidden"]
	return &v
}

func qualifyingScore(s *client.Submission) *float64 {
	if s.Decision == nil {
		return nil
	}
	v := s.Decision.Numbers["public"]
	return &v
}

func eliminated(s *client.Submission) *string {
	if s.Decision == nil || s.Decision.Rule != "race.bound" {
		return nil
	}
	return stamp(s.Decision.At)
}

// versionState is the wire's word for where a submission stands.
func versionState(s *client.Submission) string {
	switch s.State {
	case agon.SubmissionQueued:
		return "QUEUED"
	case agon.SubmissionPlaying:
		return "RUNNING"
	case agon.SubmissionScored:
		return "ELIGIBLE"
	case agon.SubmissionExcluded:
		return "DISCARDED"
	}
	return "CANCELLED"
}

func (b *Backend) version(w http.ResponseWriter, r *http.Request) {
	s, n, ok := b.byVersion(w, r)
	if !ok {
		return
	}
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"agent_version_id": versionID(s.ID), "agent_id": uuidOf("agent", s.Miner), "agent_name": s.Name, "miner_hotkey": s.Miner, "version_number": n,
		"submitted_at": stamp(s.CreatedAt), "released_at": released(s), "code_available_at": released(s), "suite_id": suiteID(a.Tasks), "latest_final_score": qualifyingScore(s),
	})
}

func (b *Backend) versionStatus(w http.ResponseWriter, r *http.Request) {
	if s, n, ok := b.byVersion(w, r); ok {
		b.status(w, r, s, n)
	}
}

func (b *Backend) status(w http.ResponseWriter, r *http.Request, s *client.Submission, n int) {
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	runs, err := b.runsOf(r.Context(), s.ID, "")
	if err != nil {
		b.broken(w, "status", err)
		return
	}
	done, active := 0, 0
	var coefficient *float64
	for _, x := range runs {
		switch {
		case x.State == agon.RunScored:
			done++
			for _, sc := range x.Scores {
				if c, ok := sc.Metrics["coefficient"]; ok {
					coefficient = &c
				}
			}
		case !x.State.Final():
			active++
		}
	}
	place := slices.IndexFunc(a.Seats, func(p client.Place) bool { return p.Submission == s.ID })
	out := map[string]any{
		"agent_version_id": versionID(s.ID), "agent_name": s.Name, "miner_hotkey": s.Miner, "version_number": n, "submitted_at": stamp(s.CreatedAt), "state": versionState(s),
		"eliminated_at": eliminated(s), "suite_id": suiteID(a.Tasks), "required_successes": len(runs), "success_count": done, "active_count": active,
		"is_closed": active == 0 && done > 0, "final_score": qualifyingScore(s), "race_score": raceScore(s), "reasoning_coefficient": coefficient,
		"release_state": "HIDDEN", "code_available_at": nil, "is_active_qualifier": place >= 0, "outranked_by_agent_version_id": outranked(a, place),
	}
	if s.Decision != nil {
		out["release_state"], out["code_available_at"] = "RELEASED", stamp(s.Decision.At)
	}
	reply(w, http.StatusOK, out)
}

// versionCode gives the source once it is public (the table of rights decides).
func (b *Backend) versionCode(w http.ResponseWriter, r *http.Request) {
	s, _, ok := b.byVersion(w, r)
	if !ok {
		return
	}
	files, err := b.cfg.Platform.SubmissionFiles(r.Context(), anybody, s.ID)
	if err != nil {
		refuse(w, http.StatusNotFound, "ARTIFACT_NOT_RELEASED", "The code of this agent version is not public yet")
		return
	}
	for _, f := range files {
		if f.Path == agentFile {
			w.Header().Set("Content-Type", "text/x-python; charset=utf-8")
			_, _ = w.Write(f.Content) // a client that is gone reads no error
			return
		}
	}
	refuse(w, http.StatusNotFound, "ARTIFACT_NOT_FOUND", "The agent has no file")
}

// artifact is POST /v1/public/artifacts/download-url.
func (b *Backend) artifact(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Type    string `json:"artifact_type"`
		Version string `json:"agent_version_id"`
		Run     string `json:"eval_run_id"`
		Problem string `json:"problem_id"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		invalid(w, "json_invalid", "JSON decode error")
		return
	}
	if !decode(w, body, &in) {
		return
	}
	r.SetPathValue("id", in.Version)
	s, _, ok := b.byVersion(w, r)
	if !ok {
		return
	}
	if in.Type == "EVAL_PROBLEM_LOGS" {
		b.trajectoryLink(w, r, s, in.Run, in.Problem)
		return
	}
	if in.Type != "AGENT_CODE" {
		refuse(w, http.StatusNotFound, "ARTIFACT_NOT_FOUND", "want AGENT_CODE, or EVAL_PROBLEM_LOGS with eval_run_id and problem_id")
		return
	}
	if _, err := b.cfg.Platform.SubmissionFiles(r.Context(), anybody, s.ID); err != nil {
		refuse(w, http.StatusNotFound, "ARTIFACT_NOT_RELEASED", "The code of this agent version is not public yet")
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"download_url": b.cfg.Base() + "/v1/public/agent-versions/" + versionID(s.ID) + "/code", "expires_at": stamp(b.cfg.Now().Add(time.Hour)),
	})
}

// trajectoryLink answers where the trajectory stands that a validator uploaded of
// one problem, to who may read it.
func (b *Backend) trajectoryLink(w http.ResponseWriter, r *http.Request, s *client.Submission, run, problem string) {
	log, ok := b.uploaded(w, run, problem, s.ID)
	if !ok {
		return
	}
	if _, err := b.cfg.Platform.Blob(r.Context(), anybody, log.Digest); err != nil {
		refuse(w, http.StatusNotFound, "ARTIFACT_NOT_RELEASED", "This trajectory is not public yet")
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"download_url": b.cfg.Base() + "/v1/public/evaluation-runs/" + run + "/problems/" + problem + "/trajectory", "expires_at": stamp(b.cfg.Now().Add(time.Hour)),
	})
}

// uploaded finds the log of a problem of a foreign validator's run that is over.
// submission is whose run it must be; empty: anybody's.
func (b *Backend) uploaded(w http.ResponseWriter, run, problem, submission string) (logFile, bool) {
	no := func() (logFile, bool) {
		refuse(w, http.StatusNotFound, "ARTIFACT_NOT_FOUND", "There is no uploaded trajectory of this run and problem; those of agon's own validators are at /v1/runs")
		return logFile{}, false
	}
	u, err := uuid.Parse(run)
	if err != nil {
		return no()
	}
	var x evalRun
	found, err := b.dir.Get(docName(u.String()), &x)
	if err != nil {
		b.broken(w, "read evaluation run", err)
		return logFile{}, false
	}
	if log := x.Logs[problem]; found && x.Done && log.Digest != "" && (submission == "" || x.Submission == submission) {
		return log, true
	}
	return no()
}

// trajectory is the gzip of a JSON array, as it was uploaded.
func (b *Backend) trajectory(w http.ResponseWriter, r *http.Request) {
	log, ok := b.uploaded(w, r.PathValue("id"), r.PathValue("problem"), "")
	if !ok {
		return
	}
	body, err := b.cfg.Platform.Blob(r.Context(), anybody, log.Digest)
	if err != nil {
		refuse(w, http.StatusNotFound, "ARTIFACT_NOT_RELEASED", "This trajectory is not public yet")
		return
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body) // a client that is gone reads no error
}

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
