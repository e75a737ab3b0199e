package oro

import (
	"cmp"
	"context"
	"encoding/json"
	"hash/crc32"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/incentive"
	"github.com/agon-arena/agon/platform"
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

// raceID names a race by its hidden problems: other problems, another race.
func raceID(a *client.Arena) string {
	var names []string
	for _, t := range a.Tasks {
		if t.Hidden {
			names = append(names, string(t.Digest))
		}
	}
	return uuidOf("race", a.ID+" "+strings.Join(names, " "))
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
	a, err := b.cfg.API.Arena(r.Context(), b.cfg.Arena)
	if err != nil {
		b.broken(w, "arena", err)
		return nil, false
	}
	return a, true
}

func (b *Backend) suite(w http.ResponseWriter, r *http.Request) {
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	public := 0
	for _, t := range a.Tasks {
		if !t.Hidden {
			public++
		}
	}
	reply(w, http.StatusOK, map[string]any{"suite_id": suiteID(a.Tasks), "suite_version": 1, "is_active": a.State == agon.ArenaOpen, "problem_count": public, "created_at": stamp(a.CreatedAt)})
}

// suiteProblems shows the public problems as agents get them. Hidden ones are
// nowhere on a public route.
func (b *Backend) suiteProblems(w http.ResponseWriter, r *http.Request) {
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	if id, err := strconv.Atoi(r.PathValue("id")); err != nil || id != suiteID(a.Tasks) {
		refuse(w, http.StatusNotFound, "NOT_FOUND", "There is no such suite")
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
		out = append(out, p)
	}
	reply(w, http.StatusOK, map[string]any{"suite_id": suiteID(a.Tasks), "problems": out})
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

// byVersion finds the submission of a request's version.
func (b *Backend) byVersion(w http.ResponseWriter, r *http.Request) (*client.Submission, bool) {
	u, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "agent_version_id")
		return nil, false
	}
	id, err := b.submissionOf(r.Context(), u.String())
	if err != nil {
		b.broken(w, "agent version", err)
		return nil, false
	}
	if id == "" {
		refuse(w, http.StatusNotFound, "NOT_FOUND", "There is no such agent version")
		return nil, false
	}
	s, err := b.cfg.API.Submission(r.Context(), anybody, id)
	if err != nil {
		b.broken(w, "agent version", err)
		return nil, false
	}
	return s, true
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

func (b *Backend) version(w http.ResponseWriter, r *http.Request) {
	s, ok := b.byVersion(w, r)
	if !ok {
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"agent_version_id": versionID(s.ID), "agent_id": uuidOf("agent", s.Miner), "agent_name": s.Name, "miner_hotkey": s.Miner, "version_number": 1,
		"state": s.State, "created_at": stamp(s.CreatedAt), "final_score": qualifyingScore(s), "race_score": raceScore(s), "eliminated_at": eliminated(s), "decision": s.Decision,
	})
}

func (b *Backend) versionStatus(w http.ResponseWriter, r *http.Request) {
	s, ok := b.byVersion(w, r)
	if !ok {
		return
	}
	reply(w, http.StatusOK, map[string]any{"agent_version_id": versionID(s.ID), "status": strings.ToUpper(string(s.State)), "final_score": qualifyingScore(s), "findings": s.Findings})
}

// versionCode gives the source once it is public (the table of rights decides).
func (b *Backend) versionCode(w http.ResponseWriter, r *http.Request) {
	s, ok := b.byVersion(w, r)
	if !ok {
		return
	}
	files, err := b.cfg.API.SubmissionFiles(r.Context(), anybody, s.ID)
	if err != nil {
		refuse(w, http.StatusNotFound, "NOT_FOUND", "The code of this agent version is not public yet")
		return
	}
	for _, f := range files {
		if f.Path == agentFile {
			w.Header().Set("Content-Type", "text/x-python; charset=utf-8")
			_, _ = w.Write(f.Content) // a client that is gone cannot be told so
			return
		}
	}
	refuse(w, http.StatusNotFound, "NOT_FOUND", "The agent has no file")
}

func (b *Backend) runsOf(ctx context.Context, submission, state string) ([]client.Run, error) {
	page, err := b.cfg.API.Runs(ctx, anybody, b.cfg.Arena, submission, state, "", 200)
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

func shownRun(r client.Run) map[string]any {
	status := map[agon.RunState]string{agon.RunQueued: "PENDING", agon.RunLeased: "RUNNING", agon.RunPlaying: "RUNNING", agon.RunJudging: "RUNNING", agon.RunScored: "SUCCESS", agon.RunFailed: "FAILED", agon.RunCancelled: "FAILED"}[r.State]
	out := map[string]any{
		"eval_run_id": attemptID(r.RunSpec.Run, max(1, r.Attempts)), "run": r.RunSpec.Run, "agent_version_id": versionID(r.Submission), "status": status, "phase": phase(r),
		"problem_count": len(r.Tasks), "created_at": stamp(r.CreatedAt), "completed_at": stamp(r.EndedAt), "validator_hotkey": nil, "validator_score": nil,
	}
	if n := len(r.List); n > 0 {
		out["validator_hotkey"] = r.List[n-1].Validator
	}
	if r.State == agon.RunScored && len(r.Scores) > 0 {
		sum := 0.0
		for _, s := range r.Scores {
			sum += s.Value
		}
		out["validator_score"] = sum / float64(len(r.Scores))
	}
	return out
}

func (b *Backend) versionRuns(w http.ResponseWriter, r *http.Request) {
	s, ok := b.byVersion(w, r)
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
		out = append(out, shownRun(x))
	}
	reply(w, http.StatusOK, map[string]any{"agent_version_id": versionID(s.ID), "runs": out})
}

// versionProblems shows results by problem. Of a race nothing but the result
// is shown while its problems are hidden: no query, no key.
func (b *Backend) versionProblems(w http.ResponseWriter, r *http.Request) {
	s, ok := b.byVersion(w, r)
	if !ok {
		return
	}
	want := r.URL.Query().Get("phase")
	list, err := b.runsOf(r.Context(), s.ID, "")
	if err != nil {
		b.broken(w, "problems", err)
		return
	}
	out := []any{}
	for _, x := range list {
		if x.State != agon.RunScored || want != "" && want != phase(x) {
			continue
		}
		hidden := map[string]agon.TaskRef{}
		for _, t := range x.Tasks {
			hidden[t.Key] = t
		}
		for _, sc := range x.Scores {
			status := "FAILED"
			if sc.Solved {
				status = "SUCCESS"
			}
			row := map[string]any{"status": status, "score": sc.Value, "phase": phase(x), "reasoning_score": nil, "components": sc.Metrics}
			if q, ok := sc.Metrics["quality"]; ok {
				row["reasoning_score"] = q
			}
			if t := hidden[sc.Task]; !t.Hidden {
				p, err := b.shown(r.Context(), t)
				if err != nil {
					b.broken(w, "problems", err)
					return
				}
				row["problem_id"], row["query"], row["category"], row["detail"] = p.ID, p.Query, p.Category, sc.Detail
			} else {
				row["problem_id"] = uuidOf("hidden", sc.Task)
			}
			out = append(out, row)
		}
	}
	reply(w, http.StatusOK, map[string]any{"agent_version_id": versionID(s.ID), "problems": out})
}

func (b *Backend) evaluationRun(w http.ResponseWriter, r *http.Request) {
	u, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "eval_run_id")
		return
	}
	var run evalRun
	found, err := b.dir.Get(docName(u.String()), &run)
	if err != nil {
		b.broken(w, "evaluation run", err)
		return
	}
	id := run.Run
	if !found { // a run of this arena's own validators
		if id, err = b.runByAttempt(r.Context(), u.String()); err != nil {
			b.broken(w, "evaluation run", err)
			return
		}
	}
	if id == "" {
		refuse(w, http.StatusNotFound, "EVAL_RUN_NOT_FOUND", "Evaluation run not found")
		return
	}
	got, err := b.cfg.API.Run(r.Context(), anybody, id)
	if err != nil {
		b.broken(w, "evaluation run", err)
		return
	}
	out := shownRun(*got)
	out["eval_run_id"] = u.String()
	reply(w, http.StatusOK, out)
}

func (b *Backend) runByAttempt(ctx context.Context, id string) (string, error) {
	list, err := b.runsOf(ctx, "", "")
	if err != nil {
		return "", err
	}
	for _, x := range list {
		for n := 1; n <= x.Attempts && n <= 20; n++ {
			if attemptID(x.RunSpec.Run, n) == id {
				return x.RunSpec.Run, nil
			}
		}
	}
	return "", nil
}

func (b *Backend) validators(w http.ResponseWriter, r *http.Request) {
	list, err := b.runsOf(r.Context(), "", "")
	if err != nil {
		b.broken(w, "validators", err)
		return
	}
	type row struct {
		Hotkey string  `json:"hotkey"`
		Runs   int     `json:"runs"`
		Failed int     `json:"failed"`
		Last   *string `json:"last_seen_at"`
	}
	by := map[string]*row{}
	for _, x := range list {
		for _, a := range x.List {
			v := by[a.Validator]
			if v == nil {
				v = &row{Hotkey: a.Validator}
				by[a.Validator] = v
			}
			v.Runs++
			if a.Fault.Ours() {
				v.Failed++
			}
			if s := stamp(a.LeasedAt); s != nil && (v.Last == nil || *s > *v.Last) {
				v.Last = s
			}
		}
	}
	out := []row{}
	for _, v := range by {
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b row) int { return cmp.Compare(a.Hotkey, b.Hotkey) })
	reply(w, http.StatusOK, map[string]any{"validators": out})
}

func (b *Backend) byState(w http.ResponseWriter, r *http.Request, states ...agon.RunState) {
	out := []any{}
	for _, s := range states {
		list, err := b.runsOf(r.Context(), "", string(s))
		if err != nil {
			b.broken(w, "evaluations", err)
			return
		}
		for _, x := range list {
			out = append(out, shownRun(x))
		}
	}
	reply(w, http.StatusOK, map[string]any{"evaluations": out})
}

func (b *Backend) running(w http.ResponseWriter, r *http.Request) {
	b.byState(w, r, agon.RunLeased, agon.RunPlaying, agon.RunJudging)
}

func (b *Backend) pending(w http.ResponseWriter, r *http.Request) { b.byState(w, r, agon.RunQueued) }

func (b *Backend) models(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"models": append([]string{}, b.cfg.Models()...)})
}

// leaderboard ranks by score, then by who came first: what comes in later never
// moves what stands above it to another page.
func (b *Backend) leaderboard(w http.ResponseWriter, r *http.Request) {
	limit, offset, ok := paging(w, r, 500, 100)
	if !ok {
		return
	}
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	list, err := b.submissions(r.Context(), "")
	if err != nil {
		b.broken(w, "leaderboard", err)
		return
	}
	race := r.URL.Query().Get("score_type") == "race"
	q := strings.ToLower(r.URL.Query().Get("q"))
	miners, day := map[string]bool{}, 0
	shown := list[:0:0]
	by := func(s *client.Submission) *float64 {
		if race {
			return raceScore(s)
		}
		return qualifyingScore(s)
	}
	for _, s := range list {
		miners[s.Miner] = true
		if b.cfg.Now().Sub(s.CreatedAt).Hours() < 24 {
			day++
		}
		if by(&s) != nil && (q == "" || strings.Contains(strings.ToLower(s.Name+" "+s.Miner), q)) {
			shown = append(shown, s)
		}
	}
	slices.SortFunc(shown, func(x, y client.Submission) int {
		return cmp.Or(cmp.Compare(*by(&y), *by(&x)), cmp.Compare(x.Seq, y.Seq))
	})
	entries := []any{}
	for i, s := range window(shown, offset, limit) {
		place := slices.IndexFunc(a.Seats, func(p client.Place) bool { return p.Submission == s.ID })
		var topAt *string
		if place == 0 {
			topAt = stamp(a.Seats[0].Since)
		}
		entries = append(entries, map[string]any{
			"rank": offset + i + 1, "agent_version_id": versionID(s.ID), "agent_name": s.Name, "miner_hotkey": s.Miner, "version_number": 1,
			"final_score": qualifyingScore(&s), "race_score": raceScore(&s), "eligible_at": eligibleAt(&s), "is_discarded": s.State == agon.SubmissionExcluded, "is_miner_banned": false,
			"is_current_top": place == 0, "was_top": s.Decision != nil && s.Decision.Numbers["leads"] == 1, "top_at": topAt, "is_active_qualifier": place >= 0,
			"outranked_by_agent_version_id": outranked(a, place), "eliminated_at": eliminated(&s),
		})
	}
	reply(w, http.StatusOK, map[string]any{
		"total": len(shown), "limit": limit, "offset": offset, "suite": map[string]any{"suite_id": suiteID(a.Tasks), "suite_version": 1, "is_active": a.State == agon.ArenaOpen},
		"entries": entries, "unique_miners": len(miners), "agents_submitted_24h": day, "challenge_threshold": b.threshold(list, a),
	})
}

func eligibleAt(s *client.Submission) *string {
	if s.Decision == nil || s.Decision.Rule == "race.qualify" {
		return nil
	}
	return stamp(s.Decision.At)
}

func outranked(a *client.Arena, place int) *string {
	if place <= 0 {
		return nil
	}
	id := versionID(a.Seats[0].Submission)
	return &id
}

// threshold is the newest bar that a challenger met; it only falls until somebody leads anew.
func (b *Backend) threshold(list []client.Submission, a *client.Arena) *float64 {
	for _, s := range list {
		if s.Decision != nil && s.Decision.Bar != nil && len(a.Seats) > 0 && s.Decision.Incumbent == a.Seats[0].Submission {
			return s.Decision.Bar
		}
	}
	return nil
}

func (b *Backend) top(w http.ResponseWriter, r *http.Request) {
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	out := map[string]any{"suite_id": suiteID(a.Tasks), "computed_at": stamp(b.cfg.Now()), "top_agent_version_id": nil, "top_miner_hotkey": nil, "top_score": nil, "emission_weight": nil}
	if len(a.Seats) > 0 {
		s := a.Seats[0]
		out["top_agent_version_id"], out["top_miner_hotkey"], out["top_score"], out["emission_weight"] = versionID(s.Submission), s.Miner, s.Score, s.Share
	}
	reply(w, http.StatusOK, out)
}

// raceView is the race over the hidden problems of today: it runs from the
// first decision on, and is complete when nobody of it is undecided.
func (b *Backend) raceView(ctx context.Context, a *client.Arena, detail bool) (map[string]any, error) {
	list, err := b.submissions(ctx, "")
	if err != nil {
		return nil, err
	}
	state, open, winner := incentive.RaceQualifying, 0, any(nil)
	var finished []client.Submission
	var ended, started *string
	for _, s := range list {
		switch {
		case s.State == agon.SubmissionQueued || s.State == agon.SubmissionPlaying:
			open++
		case raceScore(&s) != nil && !s.Scripted:
			finished = append(finished, s)
			if t := stamp(s.Decision.At); ended == nil || *t > *ended {
				ended = t
			}
			if t := stamp(s.CreatedAt); started == nil || *t < *started {
				started = t
			}
		}
	}
	if len(finished) > 0 {
		state = incentive.RaceRunning
		if open == 0 || a.State == agon.ArenaClosed {
			state = incentive.RaceComplete
		}
	}
	slices.SortFunc(finished, func(x, y client.Submission) int {
		return cmp.Or(cmp.Compare(*raceScore(&y), *raceScore(&x)), cmp.Compare(versionID(x.ID), versionID(y.ID)))
	})
	if state != incentive.RaceComplete {
		ended = nil
	}
	var qualify any
	if n, ok := a.IncentiveNumbers["qualify"]; ok {
		qualify = n
	}
	out := map[string]any{
		"race_id": raceID(a), "suite_id": suiteID(a.Tasks), "race_number": 1, "status": state, "qualifying_closes_at": nil, "race_started_at": started, "race_completed_at": ended,
		"winner_agent_version_id": winner, "winner_score": nil, "qualifying_threshold": qualify, "winner_agent_name": nil, "qualifier_count": len(finished),
		"created_at": stamp(a.CreatedAt), "projected_completion_at": nil,
	}
	if state == incentive.RaceComplete && len(a.Seats) > 0 {
		out["winner_agent_version_id"], out["winner_score"] = versionID(a.Seats[0].Submission), a.Seats[0].Score
		if i := slices.IndexFunc(list, func(s client.Submission) bool { return s.ID == a.Seats[0].Submission }); i >= 0 {
			out["winner_agent_name"] = list[i].Name
		}
	}
	if detail {
		rows := []any{}
		for i, s := range finished {
			rows = append(rows, map[string]any{
				"agent_version_id": versionID(s.ID), "agent_name": s.Name, "miner_hotkey": s.Miner, "version_number": 1, "qualification_type": "SCORE",
				"qualifying_score": qualifyingScore(&s), "race_score": raceScore(&s), "eliminated_at": eliminated(&s), "race_rank": i + 1,
			})
		}
		for _, s := range list {
			if at := eliminated(&s); at != nil {
				rows = append(rows, map[string]any{
					"agent_version_id": versionID(s.ID), "agent_name": s.Name, "miner_hotkey": s.Miner, "version_number": 1, "qualification_type": "SCORE",
					"qualifying_score": qualifyingScore(&s), "race_score": nil, "eliminated_at": at, "race_rank": nil,
				})
			}
		}
		out["qualifiers"] = rows
	}
	return out, nil
}

func (b *Backend) race(w http.ResponseWriter, r *http.Request) { b.oneRace(w, r, "") }

func (b *Backend) raceDetail(w http.ResponseWriter, r *http.Request) {
	u, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "race_id")
		return
	}
	b.oneRace(w, r, u.String())
}

func (b *Backend) oneRace(w http.ResponseWriter, r *http.Request, id string) {
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	if id != "" && id != raceID(a) {
		refuse(w, http.StatusNotFound, "NOT_FOUND", "There is no such race")
		return
	}
	v, err := b.raceView(r.Context(), a, true)
	if err != nil {
		b.broken(w, "race", err)
		return
	}
	reply(w, http.StatusOK, v)
}

func (b *Backend) raceHistory(w http.ResponseWriter, r *http.Request) {
	limit, offset, ok := paging(w, r, 100, 20)
	if !ok {
		return
	}
	a, ok := b.arena(w, r)
	if !ok {
		return
	}
	v, err := b.raceView(r.Context(), a, false)
	if err != nil {
		b.broken(w, "races", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"total": 1, "limit": limit, "offset": offset, "races": window([]any{v}, offset, limit)})
}
