package wire

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The keys of what the read routes answer, as the specification of version C names them: a dot goes into an object, [] into a list.
const (
	stateKeys = `approval_review_status approved approved_at average_cost_usd average_runtime_seconds baseline_agent_id baseline_agent_name baseline_agent_version_num cost_delta
		disqualified final_score initial_reward_score performance_delta rank relative_improvement_units set_id time_multiplier validator_count validator_hotkeys[]`
	agentKeys = `agent_id id miner_hotkey name version_num status created_at emission reward_weight competition_state.status`
	runKeys   = `evaluation_run_id evaluation_id problem_name problem_alias benchmark_family execution_spec status patch test_results[].name test_results[].test_alias test_results[].category test_results[].status verifier_reward error_code error_message cost_usd created_at
		started_initializing_agent_at started_running_agent_at started_initializing_eval_at started_running_eval_at finished_or_errored_at`
	evaluationKeys = `evaluation_id agent_id validator_hotkey set_id evaluation_set_group created_at finished_at`
)

// below puts a path before each key.
func below(at, keys string) (out []string) {
	for _, k := range strings.Fields(keys) {
		out = append(out, at+k)
	}
	return out
}

func publicAgent(at string) []string {
	return slices.Concat(below(at, agentKeys), below(at, stateKeys), below(at+"competition_state.", stateKeys))
}

// shape is the paths of the leaves of JSON; what a problem's own specification holds is not looked into.
func shape(v any, at string, out map[string]bool) {
	if strings.HasSuffix(at, "execution_spec") || strings.HasSuffix(at, "by_family") {
		out[at] = true
		return
	}
	switch x := v.(type) {
	case map[string]any:
		for k, v := range x {
			shape(v, strings.TrimPrefix(at+"."+k, "."), out)
		}
	case []any:
		if len(x) == 0 {
			out[at+"[]"] = true
		}
		for _, v := range x {
			shape(v, at+"[]", out)
		}
	default:
		out[at] = true
	}
}

// grown is a world whose agent went all the way, and a run of its first evaluation.
func grown(t *testing.T) (w *world, agent, run string) {
	t.Helper()
	w = newWorld(t)
	agent = w.enter('a', "good")
	one, two := w.join('1'), w.join('2')
	j := w.ask(one)
	for _, r := range j.Runs {
		w.walk(one, r.ID, 1)
	}
	code, out, text := w.post("/validator/finish-evaluation", one, "{}")
	w.want(200, code, out, text)
	w.play(two, 1, 1)
	for _, k := range []byte("vwx") {
		w.play(w.join(k), 1, 1, 1, 0)
	}
	return w, agent, j.Runs[0].ID
}

// What observers read has the keys of the original, no more and no less.
func TestReadShapes(t *testing.T) {
	w, agent, id := grown(t)
	run, list := "?evaluation_run_id="+id, publicAgent("[].")
	for path, want := range map[string][]string{
		"/retrieval/agent-by-id?agent_id=" + agent:                           publicAgent(""),
		"/retrieval/agent-by-hotkey?miner_hotkey=" + w.keys['a'].SS58():      publicAgent(""),
		"/retrieval/all-agents-by-hotkey?miner_hotkey=" + w.keys['a'].SS58(): list,
		"/retrieval/agents-by-coldkey?miner_coldkey=" + w.cold['a']:          publicAgent(w.keys['a'].SS58() + "[]."),
		"/retrieval/top-agents":                                              list,
		"/retrieval/queue?stage=validator":                                   {"[]"},
		"/evaluation-sets/7/leaderboard":                                     list,
		"/evaluation-sets/7/approved-agents":                                 list,
		"/agent/get-by-evaluation-run-id" + run:                              publicAgent(""),
		"/evaluation/get-by-evaluation-run-id" + run:                         below("", evaluationKeys+" status score"),
		"/retrieval/evaluations-for-agent?agent_id=" + agent:                 slices.Concat(below("[].", evaluationKeys), below("[].runs[].", runKeys)),
		"/evaluation-run/get-by-id" + run:                                    below("", runKeys+" run_time_seconds problem_total_runs problem_average_time_seconds problem_average_cost_usd attempt_count"),
		"/retrieval/network-statistics":                                      below("", "top_score top_cost perf_threshold cost_threshold last_approval time_multiplier"),
		"/retrieval/top-scores-over-time":                                    {"[].hour", "[].top_score"},
		"/retrieval/perfectly-solved-over-time":                              below("", "perfectly_solved_over_times[].hour perfectly_solved_over_times[].total_solved perfectly_solved_over_times[].by_family problem_set_creation_times[].set_id problem_set_creation_times[].created_at"),
		"/scoring/weights":                                                   {w.keys['a'].SS58()},
		"/scoring/latest-set-info":                                           {"latest_set_id", "latest_set_created_at"},
		"/scoring/screener-info":                                             below("", "screener_1_threshold screener_2_threshold prune_threshold incentive_performance_threshold incentive_cost_threshold screener_1_average_score screener_2_average_score validator_average_score screener_1_average_wait_time screener_2_average_wait_time validator_average_wait_time"),
		"/evaluation-sets/":                                                  below("[].", "id created_at competition_name competition_start_date competition_end_date"),
		"/evaluation-sets/all-latest-set-problems":                           below("[].", "set_id set_group problem_name benchmark_family problem_suite_name execution_spec created_at"),
		"/evaluation-sets/7/overview":                                        below("", "set_id performance_distribution.pre_screening.approved performance_distribution.pre_screening.rejected performance_distribution.pre_screening.unresolved performance_distribution.screener_1[].min_score performance_distribution.screener_1[].max_score performance_distribution.screener_1[].agents performance_distribution.screener_2[].min_score performance_distribution.screener_2[].max_score performance_distribution.screener_2[].agents performance_distribution.validator[].min_score performance_distribution.validator[].max_score performance_distribution.validator[].agents performance_improvement[].date performance_improvement[].score performance_improvement[].cost performance_improvement[].agent_id"),
		"/scaling/pending-work":                                              below("", "screener_1_pending screener_2_pending screener_1_connected screener_1_busy screener_1_idle screener_2_connected screener_2_busy screener_2_idle"),
		"/validator/connected-validators-info":                               below("[].", "name hotkey time_connected status time_last_heartbeat system_metrics evaluation agent"),
		"/upload/eval-pricing":                                               {"amount_alpha_rao", "payment_netuid"},
	} {
		code, _, text := w.get(path)
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil || code != 200 {
			t.Errorf("%s: %d %v", path, code, err)
			continue
		}
		got := map[string]bool{}
		shape(v, "", got)
		slices.Sort(want)
		if have := slices.Sorted(maps.Keys(got)); !slices.Equal(have, want) {
			less := slices.DeleteFunc(slices.Clone(want), func(k string) bool { return got[k] })
			more := slices.DeleteFunc(have, func(k string) bool { return slices.Contains(want, k) })
			t.Errorf("%s lacks %q and has %q", path, less, more)
		}
	}
}

// Boards, queues and work are those of the newest set: who led the older one keeps that board and its weight
// until somebody is better in the new one, and is not played again by itself.
func TestSetTurns(t *testing.T) {
	w, agent, _ := grown(t)
	a, err := w.api.FullArena(bg, "ridges")
	must(t, err)
	next := a.Arena
	next.Tasks = next.Tasks[:7]
	next.Stages[2].Tasks = next.Stages[2].Tasks[:3]
	must(t, w.api.EnsureArena(bg, next))
	for path, want := range map[string]bool{"/evaluation-sets/7/leaderboard": true, "/evaluation-sets/8/leaderboard": false, "/evaluation-sets/-1/leaderboard": false} {
		if code, _, text := w.get(path); code != 200 || strings.Contains(text, agent) != want {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
	code, out, text := w.get("/scoring/weights")
	if w.want(200, code, out, text)[w.keys['a'].SS58()] != 1.0 {
		t.Error(text)
	}
	second := w.enter('a', "better")
	j := w.ask(w.join('1'))
	if j == nil || j.Agent != second {
		t.Fatalf("%+v", j)
	}
	for id, want := range map[string][2]any{second: {8.0, "screening_1"}, agent: {7.0, "finished"}} {
		if _, out, text := w.get("/retrieval/agent-by-id?agent_id=" + id); out["set_id"] != want[0] || out["status"] != want[1] {
			t.Error(text)
		}
	}
}
