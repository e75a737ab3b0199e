package wire

import (
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

// closed reports whether a version is played no more. Where all its runs are scored and it is
// not decided, more may come: the next stage, a judging by others, a period's opening.
func closed(state agon.SubmissionState, active int) bool {
	return active == 0 && state != agon.SubmissionQueued && state != agon.SubmissionPlaying
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
		"is_closed": closed(s.State, active), "final_score": qualifyingScore(s), "race_score": raceScore(s), "reasoning_coefficient": coefficient,
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
	if _, err := b.cfg.Platform.Blob(r.Context(), anybody, log.digest()); err != nil {
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
	if log := x.Logs[problem]; found && x.Done && log.digest() != "" && (submission == "" || x.Submission == submission) {
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
	body, err := b.cfg.Platform.Blob(r.Context(), anybody, log.digest())
	if err != nil {
		refuse(w, http.StatusNotFound, "ARTIFACT_NOT_RELEASED", "This trajectory is not public yet")
		return
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body) // a client that is gone reads no error
}
