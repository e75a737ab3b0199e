package wire

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/coding/ridges"
)

var queueStages = map[string]string{"pre_screening": "pre_screening", "screener_1": "screening_1", "screener_2": "screening_2", "validator": "evaluating"}

// queue is GET /retrieval/queue.
func (b *Backend) queue(w http.ResponseWriter, r *http.Request) {
	stage, ok := query(w, r, "stage")
	if !ok {
		return
	}
	status, ok := queueStages[stage]
	if !ok {
		invalid(w, "enum", "Input should be 'pre_screening', 'screener_1', 'screener_2' or 'validator'", "query", "stage")
		return
	}
	b.list(w, r, "queue "+stage, func(rows []*agentRow, _ []setDoc) (any, error) {
		var out []*agentRow
		for _, x := range rows {
			if x.status == status && !x.out {
				out = append(out, x)
			}
		}
		return publics(out), nil
	})
}

// ofSet are the rows of a set.
func ofSet(rows []*agentRow, id int) []*agentRow {
	var out []*agentRow
	for _, r := range rows {
		if r.set == id {
			out = append(out, r)
		}
	}
	return out
}

// topAgents is GET /retrieval/top-agents.
func (b *Backend) topAgents(w http.ResponseWriter, r *http.Request) {
	b.list(w, r, "top", func(rows []*agentRow, sets []setDoc) (any, error) {
		top := ranked(ofSet(rows, sets[len(sets)-1].ID))
		return publics(top[:min(len(top), topCount)]), nil
	})
}

// agentByID is GET /retrieval/agent-by-id.
func (b *Backend) agentByID(w http.ResponseWriter, r *http.Request) {
	id, ok := queryID(w, r, "agent_id")
	if !ok {
		return
	}
	p, err := b.public(r.Context(), b.submissionOf(id))
	if err != nil {
		b.missing(w, "agent", err, "Agent with ID %s not found", id)
		return
	}
	reply(w, http.StatusOK, p)
}

// missing answers 404 with a text where the platform knows no such thing.
func (b *Backend) missing(w http.ResponseWriter, what string, err error, format string, args ...any) {
	var e *agon.Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound {
		err = no(http.StatusNotFound, format, args...)
	}
	b.fail(w, what, err)
}

// agentByHotkey is GET /retrieval/agent-by-hotkey.
func (b *Backend) agentByHotkey(w http.ResponseWriter, r *http.Request) {
	hotkey, ok := query(w, r, "miner_hotkey")
	if !ok {
		return
	}
	rows, err := b.rowsOfMiner(r.Context(), hotkey)
	switch {
	case err != nil:
		b.fail(w, "agent", err)
	case len(rows) == 0:
		refuse(w, http.StatusNotFound, "Agent with miner hotkey %s not found", clip(hotkey, 80))
	default:
		reply(w, http.StatusOK, rows[len(rows)-1].public)
	}
}

// agentsByHotkey is GET /retrieval/all-agents-by-hotkey.
func (b *Backend) agentsByHotkey(w http.ResponseWriter, r *http.Request) {
	hotkey, ok := query(w, r, "miner_hotkey")
	if !ok {
		return
	}
	rows, err := b.rowsOfMiner(r.Context(), hotkey)
	if err != nil {
		b.fail(w, "agents", err)
		return
	}
	slices.Reverse(rows)
	reply(w, http.StatusOK, publics(rows))
}

// agentsByColdkey is GET /retrieval/agents-by-coldkey.
func (b *Backend) agentsByColdkey(w http.ResponseWriter, r *http.Request) {
	coldkey, ok := query(w, r, "miner_coldkey")
	if !ok {
		return
	}
	b.list(w, r, "coldkey "+clip(coldkey, 80), func(rows []*agentRow, _ []setDoc) (any, error) {
		out := map[string][]any{}
		for _, x := range slices.Backward(rows) {
			if x.sub.Coldkey == coldkey {
				out[x.sub.Miner] = append(out[x.sub.Miner], x.public)
			}
		}
		return out, nil
	})
}

// agentCode is GET /retrieval/agent-code.
func (b *Backend) agentCode(w http.ResponseWriter, r *http.Request) {
	id, ok := queryID(w, r, "agent_id")
	if !ok {
		return
	}
	sub := b.submissionOf(id)
	x, err := b.row(r.Context(), sub)
	if err != nil {
		b.missing(w, "code", err, "Agent with ID %s not found", id)
		return
	}
	if x.status != "finished" && x.status != "cancelled" {
		refuse(w, http.StatusForbidden, "Agent %s is still being screened or evaluated, or was refused", id)
		return
	}
	if x.score != nil {
		rows, _, err := b.read(r.Context())
		if err != nil {
			b.fail(w, "code", err)
			return
		}
		list := []ridges.Coded{{Score: x.score, Out: x.out}}
		for _, y := range ofSet(rows, x.set) {
			if y.sub.ID != sub && y.score != nil {
				list = append(list, ridges.Coded{Score: y.score, Out: y.out})
			}
		}
		if _, hidden := ridges.HiddenCode(list); hidden[0] {
			refuse(w, http.StatusForbidden, "Agent code is hidden for top agents")
			return
		}
	}
	// The table of rights has the last word: an arena may keep work private for longer.
	files, err := b.cfg.Platform.SubmissionFiles(r.Context(), public, sub)
	if err != nil {
		var e *agon.Error
		if errors.As(err, &e) && e.Status == http.StatusForbidden {
			refuse(w, http.StatusForbidden, "Agent code is not public yet")
			return
		}
		b.missing(w, "code", err, "Agent with ID %s not found", id)
		return
	}
	for _, f := range files {
		if f.Path == agentFile {
			reply(w, http.StatusOK, string(f.Content))
			return
		}
	}
	refuse(w, http.StatusNotFound, "Agent with ID %s has no %s", id, agentFile)
}

// topScores is GET /retrieval/top-scores-over-time: the best score by hour.
func (b *Backend) topScores(w http.ResponseWriter, r *http.Request) {
	b.list(w, r, "scores over time", func(rows []*agentRow, sets []setDoc) (any, error) {
		type point struct {
			Hour string  `json:"hour"`
			Top  float64 `json:"top_score"`
		}
		best := map[time.Time]float64{}
		for _, x := range ofSet(rows, sets[len(sets)-1].ID) {
			if x.score != nil && x.sub.Decision != nil {
				h := x.sub.Decision.At.UTC().Truncate(time.Hour)
				best[h] = max(best[h], *x.score)
			}
		}
		var hours []time.Time
		for h := range best {
			hours = append(hours, h)
		}
		slices.SortFunc(hours, time.Time.Compare)
		out, top := []point{}, 0.0
		for _, h := range hours {
			top = max(top, best[h])
			out = append(out, point{*stamp(h), top})
		}
		return out, nil
	})
}

// perfectlySolved is GET /retrieval/perfectly-solved-over-time.
func (b *Backend) perfectlySolved(w http.ResponseWriter, r *http.Request) {
	stats, err := b.problems(r.Context())
	if err != nil {
		b.fail(w, "problems", err)
		return
	}
	b.list(w, r, "solved over time", func(_ []*agentRow, sets []setDoc) (any, error) {
		total, family := 0, map[string]int{}
		for _, p := range stats {
			if p.runs > 0 && float64(p.solved) >= 0.9*float64(p.runs) {
				total++
				family[p.family]++
			}
		}
		times := []any{}
		for _, s := range sets {
			times = append(times, map[string]any{"set_id": s.ID, "created_at": stamp(s.Created)})
		}
		return map[string]any{
			"perfectly_solved_over_times": []any{map[string]any{"hour": stamp(b.cfg.Now().Truncate(time.Hour)), "total_solved": total, "by_family": family}},
			"problem_set_creation_times":  times,
		}, nil
	})
}

// leader is the approved agent that stands best.
func leader(rows []*agentRow) *agentRow {
	for _, r := range ranked(rows) {
		if r.taken != nil {
			return r
		}
	}
	return nil
}

// network is GET /retrieval/network-statistics.
func (b *Backend) network(w http.ResponseWriter, r *http.Request) {
	rows, sets, err := b.read(r.Context())
	if err != nil {
		b.fail(w, "network", err)
		return
	}
	out := map[string]any{"top_score": nil, "top_cost": nil, "perf_threshold": ridges.ScoreThreshold, "cost_threshold": ridges.CostThreshold, "last_approval": nil, "time_multiplier": 1.0}
	if l := leader(ofSet(rows, sets[len(sets)-1].ID)); l != nil {
		out["top_score"], out["top_cost"], out["last_approval"] = l.score, l.cost, stamp(l.taken.At)
		out["time_multiplier"] = ridges.TimeMultiplier(b.cfg.Now().Sub(l.taken.At).Hours())
	}
	reply(w, http.StatusOK, out)
}

// weights is GET /scoring/weights.
func (b *Backend) weights(w http.ResponseWriter, r *http.Request) {
	a, err := b.arena(r.Context())
	if err != nil {
		b.fail(w, "weights", err)
		return
	}
	out, sum := map[string]float64{}, 0.0
	for _, p := range a.Seats {
		m, ok, err := b.cfg.Verifier.Members.Member(r.Context(), p.Miner)
		if err != nil { // never a burn because a ledger was away
			b.fail(w, "weights", no(http.StatusServiceUnavailable, "The ledger does not answer"))
			return
		}
		if err := b.notBanned(m.Coldkey); !ok || err != nil || p.Share <= 0 {
			continue
		}
		out[p.Miner] += p.Share
		sum += p.Share
	}
	for k := range out {
		out[k] /= sum
	}
	if sum == 0 && b.cfg.Owner != "" {
		out[b.cfg.Owner] = 1
	}
	reply(w, http.StatusOK, out)
}

// screenerInfo is GET /scoring/screener-info.
func (b *Backend) screenerInfo(w http.ResponseWriter, r *http.Request) {
	rows, sets, err := b.read(r.Context())
	if err != nil {
		b.fail(w, "screeners", err)
		return
	}
	a, err := b.arena(r.Context())
	if err != nil {
		b.fail(w, "screeners", err)
		return
	}
	top, sum, n := 0.0, 0.0, 0.0
	for _, x := range ofSet(rows, sets[len(sets)-1].ID) {
		if x.score != nil {
			top, sum, n = max(top, *x.score), sum+*x.score, n+1
		}
	}
	out := map[string]any{
		"screener_1_threshold": 0.0, "screener_2_threshold": 0.0, "prune_threshold": 0.0, "incentive_performance_threshold": ridges.ScoreThreshold, "incentive_cost_threshold": ridges.CostThreshold,
		"screener_1_average_score": nil, "screener_2_average_score": nil, "validator_average_score": nil,
		"screener_1_average_wait_time": nil, "screener_2_average_wait_time": nil, "validator_average_wait_time": nil,
	}
	for _, s := range a.Stages {
		if _, ok := out[s.Name+"_threshold"]; ok {
			out[s.Name+"_threshold"] = s.Bar(top)
		}
	}
	if n > 0 {
		out["validator_average_score"] = sum / n
	}
	reply(w, http.StatusOK, out)
}
