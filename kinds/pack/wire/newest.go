package wire

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
)

// The third generation of reads, which trajrl 3 shows: the same facts by
// miner, by validator and by scenario.

// spec is the number of the set of scenarios: an arena has one, whatever its
// tasks are. It is none of the field's, whose programs take their own set for a
// number that they do not know, and from 16 on they take means as package epochs does.
const spec = 1001

// online is how lately a validator was seen that counts as up.
const online = time.Hour

// leaderboard ranks the miners by their pack of today; after those that were
// played come those that wait, in the order of the queue.
func (b *Backend) leaderboard(w http.ResponseWriter, r *http.Request) {
	s := b.with(w, r, "leaderboard")
	if s == nil {
		return
	}
	out := map[string]any{"winner": nil, "in_progress_epoch": nil, "current_block": s.graph.Block}
	if len(s.arena.Seats) > 0 {
		seat := s.arena.Seats[0]
		out["winner"] = map[string]any{
			"hotkey": seat.Miner, "uid": s.uid(seat.Miner), "score": s.winnerScore(), "since_epoch_id": s.since(seat.Submission), "cost_usd": s.seated().costOrNil(),
		}
	}
	if e, id := s.now(); e != nil {
		start := s.block(e.CreatedAt)
		out["in_progress_epoch"] = map[string]any{"id": id, "start_block": start, "end_block": start + s.blocksOf(), "challenger_hotkey": e.Miner, "status": e.epochStatus()}
	}
	waiting := s.waiting()
	rows, done := []any{}, map[string]bool{}
	add := func(e *entry) {
		if done[e.Miner] {
			return
		}
		done[e.Miner] = true
		row := map[string]any{
			"uid": s.uid(e.Miner), "hotkey": e.Miner, "name": text(plain(e.Name, 80)), "rank": len(rows) + 1, "last_score": nil, "last_qualified": nil, "last_cost_usd": nil,
			"last_epoch_id": nil, "queue_position": nil, "is_winner": s.seated() == e, "pack_hash": text(e.pack.Hash),
		}
		if !e.open() {
			row["last_score"], row["last_qualified"], row["last_cost_usd"], row["last_epoch_id"] = value(e.Score), e.status() == "passed", e.meanCost(), e.Seq
		}
		if i := slices.IndexFunc(waiting, func(x *entry) bool { return x.Miner == e.Miner }); i >= 0 {
			row["queue_position"] = i + 1
		}
		rows = append(rows, row)
	}
	for _, e := range s.ranking() {
		add(e)
	}
	for _, e := range waiting {
		add(e)
	}
	for _, e := range s.entries {
		add(e)
	}
	out["miners"] = rows
	reply(w, http.StatusOK, out)
}

// costOrNil is the mean cost of an entry that may be absent.
func (e *entry) costOrNil() *float64 {
	if e == nil {
		return nil
	}
	return e.meanCost()
}

// waiting lists what is queued, the oldest first.
func (s *snapshot) waiting() []*entry {
	var out []*entry
	for _, e := range slices.Backward(s.entries) {
		if e.State == agon.SubmissionQueued {
			out = append(out, e)
		}
	}
	return out
}

// scoresRecent is the stream of reports, the newest first.
func (b *Backend) scoresRecent(w http.ResponseWriter, r *http.Request) {
	limit, ok := count(w, r, "limit", 100, 500)
	if !ok {
		return
	}
	var since time.Time
	if v := r.URL.Query().Get("since"); v != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, v); err != nil {
			fail(w, http.StatusBadRequest, "since must be an ISO 8601 time such as 2026-05-21T00:00:00Z")
			return
		}
	}
	s := b.with(w, r, "recent scores")
	if s == nil {
		return
	}
	rows := []any{}
	for _, rep := range s.reports {
		if len(rows) == limit || rep.at.Before(since) {
			break // they come newest first
		}
		row := map[string]any{
			"validatorHotkey": rep.validator, "minerHotkey": rep.miner, "minerUid": s.uid(rep.miner), "packHash": text(rep.hash), "score": rep.score, "costUsd": rep.cost,
			"qualified": rep.qualified, "epochNumber": nil, "blockHeight": rep.block, "rejected": rep.rejected, "rejectionStage": rep.stage, "rejectionDetail": rep.detail,
			"createdAt": stamp(rep.at),
		}
		if rep.seq > 0 {
			row["epochNumber"] = rep.seq
		}
		rows = append(rows, row)
	}
	reply(w, http.StatusOK, map[string]any{"events": rows})
}

// progress is what each validator did in its day (UTC): a cycle, as its log is cut.
func (b *Backend) progress(w http.ResponseWriter, r *http.Request) {
	s := b.with(w, r, "progress")
	if s == nil {
		return
	}
	day := s.at.UTC().Truncate(24 * time.Hour)
	rows := []any{}
	for _, v := range b.validatorRows(s) {
		row := map[string]any{
			"hotkey": v.Hotkey, "uid": v.UID, "name": nil, "version": v.Version, "cycleStartedAt": nil, "evaluatedInCycle": 0, "totalActiveMiners": len(s.byMiner),
			"latestMinerUid": nil, "latestMinerEvaluatedAt": nil,
		}
		seen, first := map[string]bool{}, time.Time{}
		for _, rep := range s.reports { // newest first
			if rep.validator != v.Hotkey || rep.at.Before(day) {
				continue
			}
			if len(seen) == 0 {
				row["latestMinerUid"], row["latestMinerEvaluatedAt"] = s.uid(rep.miner), stamp(rep.at)
			}
			seen[rep.miner], first = true, rep.at
		}
		row["cycleStartedAt"], row["evaluatedInCycle"] = stamp(first), len(seen)
		rows = append(rows, row)
	}
	reply(w, http.StatusOK, map[string]any{"blockHeight": s.graph.Block, "validators": rows})
}

// winners lists the decisions in which the seat moved, the newest first.
func (b *Backend) winners(w http.ResponseWriter, r *http.Request) {
	s := b.with(w, r, "winners")
	if s == nil {
		return
	}
	rows := []any{}
	for _, d := range slices.Backward(s.decisions) {
		e := s.byID[d.Challenger]
		if d.Outcome != agon.TookSeat || e == nil {
			continue
		}
		row := map[string]any{
			"epoch_id": e.Seq, "winner_hotkey": e.Miner, "winner_uid": s.uid(e.Miner), "winner_pack_hash": text(e.pack.Hash), "winner_score": finite(d.Score),
			"winner_cost_usd": e.meanCost(), "defeated_hotkey": nil, "defeated_score": nil, "defeated_cost_usd": nil, "spec_number": spec, "cumulative_emission": nil,
			"finalized_at": stamp(d.At),
		}
		if old := s.byID[d.Incumbent]; old != nil {
			row["defeated_hotkey"], row["defeated_score"], row["defeated_cost_usd"] = old.Miner, value(old.Score), old.meanCost()
		}
		rows = append(rows, row)
	}
	_, id := s.now()
	reply(w, http.StatusOK, map[string]any{"takeovers": rows, "takeover_count": len(rows), "spec_number": spec, "current_epoch_id": id})
}

// nodes lists who is on the subnet. Miners run no server: one is up while it
// has a pack that waits, plays or was played.
func (b *Backend) nodes(w http.ResponseWriter, r *http.Request) {
	only := r.URL.Query().Get("type")
	if only != "" && only != "miner" && only != "validator" {
		fail(w, http.StatusBadRequest, `type must be "miner" or "validator"`)
		return
	}
	s := b.with(w, r, "nodes")
	if s == nil {
		return
	}
	rows := []any{}
	var up, total [2]int // validators, miners
	for _, v := range b.validatorRows(s) {
		total[0]++
		at, err := time.Parse(time.RFC3339, or(v.LastSeen))
		alive := err == nil && s.at.Sub(at) < online
		up[0] += bit(alive)
		if only != "miner" {
			rows = append(rows, map[string]any{"nodeType": "validator", "uid": v.UID, "hotkey": v.Hotkey, "name": nil, "version": v.Version, "lastSeen": v.LastSeen, "online": alive})
		}
	}
	for _, hotkey := range s.minersOf() {
		total[1]++
		row := map[string]any{"nodeType": "miner", "uid": s.uid(hotkey), "hotkey": hotkey, "name": nil, "version": nil, "lastSeen": nil, "online": false}
		if list := s.byMiner[hotkey]; len(list) > 0 {
			e := s.current(hotkey)
			alive := e.open() || e.State == agon.SubmissionScored
			up[1] += bit(alive)
			row["name"], row["lastSeen"], row["online"] = text(plain(e.Name, 80)), stamp(list[0].CreatedAt), alive
		}
		if only != "validator" {
			rows = append(rows, row)
		}
	}
	reply(w, http.StatusOK, map[string]any{
		"nodes": rows, "onlineMiners": up[1], "totalMiners": total[1], "onlineValidators": up[0], "totalValidators": total[0], "updatedAt": stamp(s.at),
	})
}

// prices has the fields that readers look for. No market stands behind a
// ledger of agon's, so each is null rather than a made-up number.
func (b *Backend) prices(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{
		"tao":   map[string]any{"usd": nil, "change_24h_pct": nil},
		"alpha": map[string]any{"usd_per_alpha": nil, "change_24h_pct": nil, "market_cap_usd": nil, "market_cap_change_24h_pct": nil},
		"stake": map[string]any{"apy_pct": nil}, "fetched_at": nil,
	})
}

// best is the best play of one scenario.
type best struct {
	scenario
	holder string
	epoch  int64
}

// bestOf is the best play of each scenario, in the arena's order: the higher
// score, then the lower cost, then the earlier entry. An empty hotkey takes all miners.
func (s *snapshot) bestOf(hotkey string) []best {
	by := map[string]best{}
	for _, e := range slices.Backward(s.entries) { // the oldest first: it stands among equals
		if hotkey != "" && e.Miner != hotkey || e.State != agon.SubmissionScored || e.Scripted && !s.arena.Rehearsal {
			continue
		}
		for _, rep := range e.reports {
			for _, sc := range rep.scenarios {
				old, ok := by[sc.Name]
				if !ok || sc.Score > old.Score || sc.Score == old.Score && sc.Cost != nil && old.Cost != nil && *sc.Cost < *old.Cost {
					by[sc.Name] = best{sc, e.Miner, e.Seq}
				}
			}
		}
	}
	order := map[string]int{}
	for i, t := range s.arena.Tasks {
		order[s.scenarioName(t)] = i
	}
	out := make([]best, 0, len(by))
	for _, x := range by {
		out = append(out, x)
	}
	slices.SortFunc(out, func(x, y best) int {
		return cmp.Or(cmp.Compare(order[x.Name], order[y.Name]), cmp.Compare(x.Name, y.Name))
	})
	return out
}

// specOf reads the spec number of the query: absent, the one there is.
func specOf(w http.ResponseWriter, r *http.Request) (int, bool) {
	v := r.URL.Query().Get("spec")
	if v == "" {
		return spec, true
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		fail(w, http.StatusBadRequest, "spec must be a positive integer")
		return 0, false
	}
	return n, true
}

// bench says who did each scenario best.
func (b *Backend) bench(w http.ResponseWriter, r *http.Request) {
	n, ok := specOf(w, r)
	if !ok {
		return
	}
	s := b.with(w, r, "bench")
	if s == nil {
		return
	}
	rows := []any{}
	if n == spec {
		for _, x := range s.bestOf("") {
			rows = append(rows, map[string]any{
				"scenario": x.Name, "best_holder_hotkey": x.holder, "best_holder_uid": s.uid(x.holder), "best_epoch_id": x.epoch, "best_score": x.Score, "best_cost_usd": x.Cost,
				"qualified": x.Qualified, "common_first_error_tool": nil, "avg_first_error_turn": nil,
			})
		}
	}
	reply(w, http.StatusOK, map[string]any{"spec_number": n, "available_specs": []int{spec}, "scenarios": rows})
}

// benchMiner is one miner's best of each scenario.
func (b *Backend) benchMiner(w http.ResponseWriter, r *http.Request) {
	hotkey := r.URL.Query().Get("hotkey")
	if hotkey == "" {
		fail(w, http.StatusBadRequest, "hotkey query parameter is required")
		return
	}
	n, ok := specOf(w, r)
	if !ok {
		return
	}
	s := b.with(w, r, "bench of a miner")
	if s == nil {
		return
	}
	rows := []any{}
	if n == spec {
		for _, x := range s.bestOf(hotkey) {
			rows = append(rows, map[string]any{"scenario": x.Name, "score": x.Score, "best_epoch_id": x.epoch, "cost_usd": x.Cost, "qualified": x.Qualified})
		}
	}
	reply(w, http.StatusOK, map[string]any{"hotkey": hotkey, "spec_number": n, "scenarios": rows})
}
