package wire

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/kinds/coding/ridges"
)

// public is who asks without a signature: the arena's table of rights is asked for it.
var public platform.Caller

// noteEvaluation remembers whose an evaluation is.
func (b *Backend) noteEvaluation(e *evaluation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.evals[e.Agent] = append(b.evals[e.Agent], e.ID)
}

func (b *Backend) loadEvaluations() error {
	var list []*evaluation
	if err := folder.Load(b.dir, "eval-", func(_ string, e *evaluation) { list = append(list, e) }); err != nil {
		return err
	}
	slices.SortFunc(list, func(x, y *evaluation) int { return x.Created.Compare(y.Created) })
	for _, e := range list {
		b.noteEvaluation(e)
	}
	return nil
}

// evaluationsOf are the evaluations of an agent, the oldest first.
func (b *Backend) evaluationsOf(agent string) []*evaluation {
	b.mu.Lock()
	ids := slices.Clone(b.evals[agent])
	b.mu.Unlock()
	var out []*evaluation
	for _, id := range ids {
		if e, ok := b.evaluation(id); ok {
			out = append(out, e)
		}
	}
	return out
}

// open reports whether what an agent did may be read by everybody.
func (b *Backend) open(ctx context.Context, agent string) bool {
	x, err := b.row(ctx, b.submissionOf(agent))
	if err != nil || x.status != "finished" && x.status != "cancelled" {
		return false
	}
	_, err = b.cfg.Platform.SubmissionFiles(ctx, public, x.sub.ID)
	return err == nil
}

// view is a run as readers see it. Patches and results stay closed until the agent is
// decided, and the tests of hidden tasks stay closed.
func (b *Backend) view(d *runDoc, open bool) map[string]any {
	v := map[string]any{
		"evaluation_run_id": d.ID, "evaluation_id": d.Evaluation, "problem_name": d.Name, "problem_alias": ridges.ProblemAlias(d.Family, d.Name, b.cfg.Salt), "benchmark_family": d.Family,
		"execution_spec": d.Spec, "status": d.Status, "patch": nil, "test_results": nil, "verifier_reward": d.Reward, "error_code": d.Code, "error_message": nil, "cost_usd": d.Cost,
		"created_at": stamp(d.Created), "finished_or_errored_at": stamp(d.At["ended"]),
	}
	for _, s := range running[1:] {
		v["started_"+s+"_at"] = stamp(d.At[s])
	}
	if d.Task.Hidden {
		v["execution_spec"] = nil
	}
	if open {
		v["patch"], v["error_message"] = d.Patch, d.Message
		if !d.Task.Hidden && d.Tests != nil {
			v["test_results"] = b.aliased(d)
		}
	}
	return v
}

// aliased are the results of a run's tests, each with the name under which it is shown.
func (b *Backend) aliased(d *runDoc) any {
	type shown struct {
		testResult
		Alias string `json:"test_alias"`
	}
	var list []testResult
	if err := json.Unmarshal(d.Tests, &list); err != nil {
		return d.Tests // it was kept as it came
	}
	out := make([]shown, len(list))
	for i, t := range list {
		out[i] = shown{t, ridges.TestAlias(d.Family, d.Name, t.Category, t.Name, b.cfg.Salt)}
	}
	return out
}

// evaluations is GET /retrieval/evaluations-for-agent.
func (b *Backend) evaluations(w http.ResponseWriter, r *http.Request) {
	id, ok := queryID(w, r, "agent_id")
	if !ok {
		return
	}
	open := b.open(r.Context(), id)
	out := []any{}
	for _, e := range slices.Backward(b.evaluationsOf(id)) {
		runs, err := b.runsOf(e)
		if err != nil {
			b.fail(w, "evaluations", err)
			return
		}
		list := []any{}
		for _, d := range runs {
			list = append(list, b.view(d, open))
		}
		v := e.public()
		v["runs"] = list
		out = append(out, v)
	}
	reply(w, http.StatusOK, out)
}

// runOf finds the run of a query, and its evaluation. ok is false when it has answered.
func (b *Backend) runOf(w http.ResponseWriter, r *http.Request) (*runDoc, *evaluation, bool) {
	id, ok := queryID(w, r, "evaluation_run_id")
	if !ok {
		return nil, nil, false
	}
	d, found, err := b.run(id)
	if err != nil {
		b.fail(w, "run", err)
		return nil, nil, false
	}
	e, known := b.evaluation(d.Evaluation)
	if !found || !known {
		refuse(w, http.StatusNotFound, "Evaluation run with ID %s does not exist.", id)
		return nil, nil, false
	}
	return d, e, true
}

func (b *Backend) agentOfRun(w http.ResponseWriter, r *http.Request) {
	_, e, ok := b.runOf(w, r)
	if !ok {
		return
	}
	p, err := b.public(r.Context(), b.submissionOf(e.Agent))
	if err != nil {
		b.fail(w, "agent", err)
		return
	}
	reply(w, http.StatusOK, p)
}

// standing is what an evaluation is worth: success, running or failure, and its score.
func standing(runs []*runDoc) (status string, score float64) {
	status = "success"
	for _, d := range runs {
		switch {
		case !d.over():
			return "running", 0
		case d.Status == errored && (*d.Code < 1000 || *d.Code >= 2000):
			status = "failure"
		case d.Status == finished && *d.Reward >= 1:
			score++
		}
	}
	return status, score / float64(max(len(runs), 1))
}

func (b *Backend) evaluationOfRun(w http.ResponseWriter, r *http.Request) {
	_, e, ok := b.runOf(w, r)
	if !ok {
		return
	}
	runs, err := b.runsOf(e)
	if err != nil {
		b.fail(w, "evaluation", err)
		return
	}
	v := e.public()
	v["status"], v["score"] = standing(runs)
	reply(w, http.StatusOK, v)
}

func (b *Backend) runByID(w http.ResponseWriter, r *http.Request) {
	d, e, ok := b.runOf(w, r)
	if !ok {
		return
	}
	stats, err := b.problems(r.Context())
	if err != nil {
		b.fail(w, "run", err)
		return
	}
	v := b.view(d, b.open(r.Context(), e.Agent))
	v["run_time_seconds"], v["problem_total_runs"], v["problem_average_time_seconds"], v["problem_average_cost_usd"], v["attempt_count"] = nil, nil, nil, nil, d.Attempt
	if s, ok := seconds(d); ok {
		v["run_time_seconds"] = s
	}
	if p := stats[d.Name]; p != nil {
		v["problem_total_runs"], v["problem_average_time_seconds"], v["problem_average_cost_usd"] = p.runs, mean(p.seconds, p.timed), mean(p.cost, p.priced)
	}
	reply(w, http.StatusOK, v)
}

func mean(sum float64, n int) any {
	if n == 0 {
		return nil
	}
	return sum / float64(n)
}

func seconds(d *runDoc) (float64, bool) {
	from, to := d.At[initAgent], d.At["ended"]
	return to.Sub(from).Seconds(), !from.IsZero() && !to.IsZero()
}

// runLogs is GET /evaluation-run/get-logs-by-id.
func (b *Backend) runLogs(w http.ResponseWriter, r *http.Request) {
	typ, ok := query(w, r, "type")
	if !ok {
		return
	}
	if typ != "agent" && typ != "eval" {
		invalid(w, "enum", "Input should be 'agent' or 'eval'", "query", "type")
		return
	}
	d, e, ok := b.runOf(w, r)
	if !ok {
		return
	}
	log := d.AgentLog
	if typ == "eval" {
		if log = d.EvalLog; d.Task.Hidden {
			log = nil // it shows hidden tests
		}
	}
	if log == nil || !b.open(r.Context(), e.Agent) {
		refuse(w, http.StatusNotFound, "Evaluation run with ID %s has no %s logs that may be read", d.ID, typ)
		return
	}
	reply(w, http.StatusOK, *log)
}

// problem is what became of one problem.
type problem struct {
	name, family   string
	runs, solved   int
	errors         int
	seconds, cost  float64
	timed, priced  int
	codes          map[int]int
	agentErr, ours int
}

// statsFor is how long numbers of problems are good.
const statsFor = time.Minute

// problems sums the reported runs by problem.
func (b *Backend) problems(context.Context) (map[string]*problem, error) {
	b.books.mu.Lock()
	stats, at := b.books.stats, b.books.statsAt
	b.books.mu.Unlock()
	if stats != nil && b.cfg.Now().Sub(at) < statsFor {
		return stats, nil
	}
	b.mu.Lock()
	var ids []string
	for _, l := range b.evals {
		ids = append(ids, l...)
	}
	b.mu.Unlock()
	stats = map[string]*problem{}
	for _, id := range ids {
		e, ok := b.evaluation(id)
		if !ok {
			continue
		}
		runs, err := b.runsOf(e)
		if err != nil {
			return nil, err
		}
		for _, d := range runs {
			if !d.over() {
				continue
			}
			p := stats[d.Name]
			if p == nil {
				p = &problem{name: d.Name, family: d.Family, codes: map[int]int{}}
				stats[d.Name] = p
			}
			p.runs++
			if d.Status == finished && *d.Reward >= 1 {
				p.solved++
			}
			if d.Status == errored {
				p.errors++
				p.codes[*d.Code]++
				if *d.Code < 2000 {
					p.agentErr++
				} else {
					p.ours++
				}
			}
			if s, ok := seconds(d); ok {
				p.seconds, p.timed = p.seconds+s, p.timed+1
			}
			if d.Cost != nil {
				p.cost, p.priced = p.cost+*d.Cost, p.priced+1
			}
		}
	}
	b.books.mu.Lock()
	b.books.stats, b.books.statsAt = stats, b.cfg.Now()
	b.books.mu.Unlock()
	return stats, nil
}

// problemStatistics is GET /statistics/problem-statistics.
func (b *Backend) problemStatistics(w http.ResponseWriter, r *http.Request) {
	sets, err := b.allSets(r.Context())
	if err != nil {
		b.fail(w, "statistics", err)
		return
	}
	set := sets[len(sets)-1]
	if s := r.URL.Query().Get("set_id"); s != "" {
		var n int
		if json.Unmarshal([]byte(s), &n) != nil {
			invalid(w, "int_parsing", "Input should be a valid integer, unable to parse string as an integer", "query", "set_id")
			return
		}
		i := slices.IndexFunc(sets, func(x setDoc) bool { return x.ID == n })
		if i < 0 {
			refuse(w, http.StatusBadRequest, "set_id is out of range")
			return
		}
		set = sets[i]
	}
	stats, err := b.problems(r.Context())
	if err != nil {
		b.fail(w, "statistics", err)
		return
	}
	var names []string
	for n := range stats {
		names = append(names, n)
	}
	slices.SortFunc(names, strings.Compare)
	out := []any{}
	for _, n := range names {
		p := stats[n]
		codes := []any{}
		var keys []int
		for c := range p.codes {
			keys = append(keys, c)
		}
		slices.Sort(keys)
		for _, c := range keys {
			codes = append(codes, map[string]any{"error_code": c, "num_errors": p.codes[c]})
		}
		out = append(out, map[string]any{
			"problem_name": p.name, "problem_alias": ridges.ProblemAlias(p.family, p.name, b.cfg.Salt), "benchmark_family": p.family, "total_num_evaluation_runs": p.runs, "num_finished_evaluation_runs": p.runs - p.errors,
			"num_finished_passed_evaluation_runs": p.solved, "num_finished_failed_evaluation_runs": p.runs - p.errors - p.solved, "num_errored_evaluation_runs": p.errors,
			"pass_rate": mean(float64(p.solved), p.runs-p.errors), "average_time": mean(p.seconds, p.timed), "average_cost_usd": mean(p.cost, p.priced), "error_code_distribution": codes,
		})
	}
	reply(w, http.StatusOK, map[string]any{"problem_stats": out, "problem_set_id": set.ID, "problem_set_created_at": stamp(set.Created)})
}
