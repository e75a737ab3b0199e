package wire

import (
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// latestSet is GET /scoring/latest-set-info.
func (b *Backend) latestSet(w http.ResponseWriter, r *http.Request) {
	s, err := b.latest(r.Context())
	if err != nil {
		b.fail(w, "set", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"latest_set_id": s.ID, "latest_set_created_at": stamp(s.Created)})
}

func (b *Backend) sets(w http.ResponseWriter, r *http.Request) {
	list, err := b.allSets(r.Context())
	if err != nil {
		b.fail(w, "sets", err)
		return
	}
	out := []any{}
	for _, s := range slices.Backward(list) {
		out = append(out, map[string]any{"id": s.ID, "created_at": stamp(s.Created), "competition_name": nil, "competition_start_date": nil, "competition_end_date": nil})
	}
	reply(w, http.StatusOK, out)
}

// setProblems is GET /evaluation-sets/all-latest-set-problems.
func (b *Backend) setProblems(w http.ResponseWriter, r *http.Request) {
	s, err := b.latest(r.Context())
	if err != nil {
		b.fail(w, "problems", err)
		return
	}
	a, err := b.arena(r.Context())
	if err != nil {
		b.fail(w, "problems", err)
		return
	}
	out := []any{}
	row := func(group, key string) {
		family, _, _ := strings.Cut(key, "/")
		out = append(out, map[string]any{
			"set_id": s.ID, "set_group": group, "problem_name": strings.ReplaceAll(key, "/", "__"), "benchmark_family": family, "problem_suite_name": family, "execution_spec": nil, "created_at": stamp(s.Created),
		})
	}
	for _, st := range a.Stages {
		for _, t := range st.Tasks {
			row(st.Name, t)
		}
	}
	if len(a.Stages) == 0 {
		for _, t := range a.Tasks {
			row("validator", t.Key)
		}
	}
	reply(w, http.StatusOK, out)
}

// setOf reads the set of a path; -1 is the latest. ok is false when it has answered.
func (b *Backend) setOf(w http.ResponseWriter, r *http.Request) (id int, ok bool) {
	list, err := b.allSets(r.Context())
	if err != nil {
		b.fail(w, "set", err)
		return 0, false
	}
	n, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		invalid(w, "int_parsing", "Input should be a valid integer, unable to parse string as an integer", "path", "set_id")
		return 0, false
	}
	if n == -1 {
		n = list[len(list)-1].ID
	}
	if !slices.ContainsFunc(list, func(s setDoc) bool { return s.ID == n }) {
		refuse(w, http.StatusNotFound, "Evaluation set %d not found", n)
		return 0, false
	}
	return n, true
}

func (b *Backend) leaderboard(w http.ResponseWriter, r *http.Request) {
	id, ok := b.setOf(w, r)
	if !ok {
		return
	}
	b.list(w, r, "leaderboard "+strconv.Itoa(id), func(rows []*agentRow, _ []setDoc) (any, error) { return publics(ranked(ofSet(rows, id))), nil })
}

func (b *Backend) approved(w http.ResponseWriter, r *http.Request) {
	id, ok := b.setOf(w, r)
	if !ok {
		return
	}
	b.list(w, r, "approved "+strconv.Itoa(id), func(rows []*agentRow, _ []setDoc) (any, error) {
		return publics(slices.DeleteFunc(ranked(ofSet(rows, id)), func(x *agentRow) bool { return x.taken == nil })), nil
	})
}

func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}

// set is GET /evaluation-sets/{id}.
func (b *Backend) set(w http.ResponseWriter, r *http.Request) {
	id, ok := b.setOf(w, r)
	if !ok {
		return
	}
	b.list(w, r, "set "+strconv.Itoa(id), func(all []*agentRow, _ []setDoc) (any, error) {
		rows := ofSet(all, id)
		miners := map[string]bool{}
		count := map[string]int{"total": len(rows)}
		for _, x := range rows {
			miners[x.sub.Miner] = true
			order := map[string]int{"failed_pre_screening": 0, "screening_1": 1, "failed_screening_1": 1, "screening_2": 2, "failed_screening_2": 2, "evaluating": 3, "cancelled": 3, "finished": 4}[x.status]
			for i, st := range []string{"pre_screening", "screener_1", "screener_2", "validator"} {
				if order > i {
					count[st]++
				}
			}
			if x.taken != nil {
				count["approved_emission"]++
			}
		}
		rate := func(n int) float64 {
			if len(rows) == 0 {
				return 0
			}
			return round(float64(n)/float64(len(rows)), 4)
		}
		pipeline := []any{}
		for _, st := range []string{"total", "pre_screening", "screener_1", "screener_2", "validator", "approved_emission"} {
			pipeline = append(pipeline, map[string]any{"stage": st, "count": count[st], "pass_rate": rate(count[st])})
		}
		best, top := ranked(rows), map[string]any(nil)
		scores := map[string]any{"best": nil, "average": nil}
		thresholds := []any{}
		sum, cost, seconds, timed := 0.0, 0.0, 0.0, 0.0
		above := map[int]int{}
		var cheapest, fastest *agentRow
		for _, x := range best {
			sum, cost = sum+*x.score, cost+*x.cost
			for _, t := range []int{50, 75, 90} {
				if *x.score*100 >= float64(t) {
					above[t]++
				}
			}
			if s, ok := x.public["average_runtime_seconds"].(*float64); ok && s != nil {
				seconds, timed = seconds+*s, timed+1
				if fastest == nil || *s < *fastest.public["average_runtime_seconds"].(*float64) { //nolint:forcetypeassert // looked at above
					fastest = x
				}
			}
			if cheapest == nil || *x.cost < *cheapest.cost {
				cheapest = x
			}
		}
		for _, t := range []int{50, 75, 90} {
			thresholds = append(thresholds, map[string]any{"threshold": t, "agents_above": above[t]})
		}
		efficiency := map[string]any{"lowest_average_cost_usd_top_agents": nil, "lowest_average_runtime_seconds_top_agents": nil, "average_agent_cost_usd": nil, "average_agent_runtime_seconds": nil}
		if n := float64(len(best)); n > 0 {
			scores["best"], scores["average"] = *best[0].score, sum/n
			efficiency["average_agent_cost_usd"] = round(cost/n, 4)
			efficiency["lowest_average_cost_usd_top_agents"] = map[string]any{"agent_id": cheapest.public["agent_id"], "value": round(*cheapest.cost, 4)}
			top = map[string]any{"agent_id": best[0].public["agent_id"], "name": best[0].sub.Name, "version_num": best[0].version, "final_score": round(*best[0].score, 4), "emission": best[0].public["emission"]}
		}
		if timed > 0 {
			efficiency["average_agent_runtime_seconds"] = round(seconds/timed, 4)
			efficiency["lowest_average_runtime_seconds_top_agents"] = map[string]any{"agent_id": fastest.public["agent_id"], "value": round(*fastest.public["average_runtime_seconds"].(*float64), 4)} //nolint:forcetypeassert // looked at above
		}
		scores["benchmark_thresholds"] = thresholds
		var before any
		if prev := ranked(ofSet(all, id-1)); len(prev) > 0 && len(best) > 0 {
			n := 0
			for _, x := range best {
				if *x.score > *prev[0].score {
					n++
				}
			}
			before = map[string]any{"top_score_delta": withSign(*best[0].score - *prev[0].score), "agents_beating_previous_best": n}
		}
		failed := 0
		for _, x := range rows {
			if x.status == "failed_pre_screening" {
				failed++
			}
		}
		return map[string]any{
			"id": id, "competition_name": nil, "competition_start_date": nil, "competition_end_date": nil,
			"submissions": map[string]any{"total_agents": len(rows), "unique_miners": len(miners), "hardcoded_rejection_rate": rate(failed), "approved_emission_count": count["approved_emission"], "pipeline": pipeline},
			"scores":      scores, "vs_previous_set": before, "top_agent": top, "efficiency": efficiency,
		}, nil
	})
}

func withSign(v float64) string {
	s := strconv.FormatFloat(round(v, 2), 'f', 2, 64)
	if v >= 0 {
		s = "+" + s
	}
	return s
}

// setOverview is GET /evaluation-sets/{id}/overview.
func (b *Backend) setOverview(w http.ResponseWriter, r *http.Request) {
	id, ok := b.setOf(w, r)
	if !ok {
		return
	}
	b.list(w, r, "overview "+strconv.Itoa(id), func(all []*agentRow, _ []setDoc) (any, error) {
		rows := ofSet(all, id)
		buckets := func(in []float64) []any {
			var n [10]int
			for _, v := range in {
				n[min(max(int(v*10), 0), 9)]++
			}
			out := []any{}
			for i, c := range n {
				out = append(out, map[string]any{"min_score": round(float64(i)/10, 4), "max_score": round(float64(i+1)/10, 4), "agents": c})
			}
			return out
		}
		var scores []float64
		pre := map[string]int{"approved": 0, "rejected": 0, "unresolved": 0}
		for _, x := range rows {
			switch x.status {
			case "failed_pre_screening":
				pre["rejected"]++
			case "pre_screening", "pre_screening_needs_review":
				pre["unresolved"]++
			default:
				pre["approved"]++
			}
			if x.score != nil {
				scores = append(scores, *x.score)
			}
		}
		by := slices.DeleteFunc(slices.Clone(rows), func(x *agentRow) bool { return x.score == nil || x.sub.Decision == nil })
		sort.SliceStable(by, func(i, j int) bool { return by[i].sub.Decision.At.Before(by[j].sub.Decision.At) })
		gains, top := []any{}, -1.0
		for _, x := range by {
			if *x.score > top {
				top = *x.score
				gains = append(gains, map[string]any{"date": stamp(x.sub.Decision.At), "score": round(top, 4), "cost": x.cost, "agent_id": x.public["agent_id"]})
			}
		}
		return map[string]any{
			"set_id":                   id,
			"performance_distribution": map[string]any{"pre_screening": pre, "screener_1": buckets(nil), "screener_2": buckets(nil), "validator": buckets(scores)},
			"performance_improvement":  gains,
		}, nil
	})
}

// pendingWork is GET /scaling/pending-work.
func (b *Backend) pendingWork(w http.ResponseWriter, r *http.Request) {
	rows, _, err := b.read(r.Context())
	if err != nil {
		b.fail(w, "pending work", err)
		return
	}
	out := map[string]int{}
	for _, n := range []string{"1", "2"} {
		for _, f := range []string{"pending", "connected", "busy", "idle"} {
			out["screener_"+n+"_"+f] = 0
		}
	}
	for _, x := range rows {
		if n, ok := strings.CutPrefix(x.status, "screening_"); ok && !x.out {
			out["screener_"+n+"_pending"]++
		}
	}
	b.mu.Lock()
	for _, s := range b.sessions {
		if s.Screener == "" {
			continue
		}
		out["screener_"+s.Screener+"_connected"]++
		if s.Evaluation != "" {
			out["screener_"+s.Screener+"_busy"]++
		} else {
			out["screener_"+s.Screener+"_idle"]++
		}
	}
	b.mu.Unlock()
	reply(w, http.StatusOK, out)
}
