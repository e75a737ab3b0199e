package wire

import (
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/cost"
)

// The second generation of reads knows one challenger per epoch. Here an epoch
// is one submission: its number is the order of admission, it is open from
// admission to decision, and its outcome is the decision about the seat.

// blocksOf is how long an epoch may take: every scenario to its wall clock.
func (s *snapshot) blocksOf() int64 {
	ms := int64(len(s.arena.Tasks)) * s.arena.Policy.Agent.WallMS
	block := s.blockTime.Milliseconds()
	if block <= 0 {
		block = 12_000
	}
	return max(1, ms/block)
}

// now is the epoch under way: of the oldest open submission. Where none is
// open it is nil, and the epoch's number is the next.
func (s *snapshot) now() (*entry, int64) {
	for i := len(s.entries) - 1; i >= 0; i-- {
		if e := s.entries[i]; e.open() {
			return e, e.Seq
		}
	}
	if len(s.entries) == 0 {
		return nil, 1
	}
	return nil, s.entries[0].Seq + 1
}

func (e *entry) epochStatus() string {
	switch e.State {
	case agon.SubmissionQueued:
		return "pending"
	case agon.SubmissionPlaying:
		return "in_progress"
	}
	return "finalized"
}

// outcome of a decided entry.
func (e *entry) outcome() *string {
	switch {
	case e.open():
		return nil
	case e.Decision == nil: // refused, a copy, or incomplete through faults of ours
		return text("aborted_quorum")
	case e.Decision.Outcome == agon.TookSeat:
		return text("winner_replaced")
	}
	return text("winner_held")
}

func (b *Backend) challengeState(w http.ResponseWriter, r *http.Request) {
	if b.book != nil {
		b.bookState(w, r)
		return
	}
	s := b.with(w, r, "challenge")
	if s == nil {
		return
	}
	e, id := s.now()
	cur := map[string]any{"id": id, "status": "idle", "start_block": nil, "end_block": nil, "challenger_hotkey": nil, "challenger_pack_hash": nil}
	rows := []any{}
	if e != nil {
		start := s.block(e.CreatedAt)
		cur["status"], cur["start_block"], cur["end_block"] = e.epochStatus(), start, start+s.blocksOf()
		cur["challenger_hotkey"], cur["challenger_pack_hash"] = e.Miner, text(e.pack.Hash)
		for _, rep := range e.reports {
			rows = append(rows, map[string]any{
				"validator_hotkey": rep.validator, "validator_name": nil, "challenger_score": rep.score, "challenger_qualified": rep.qualified,
				"winner_score": s.winnerScore(), "winner_qualified": s.seated() != nil, "created_at": stamp(rep.at),
			})
		}
	}
	reply(w, http.StatusOK, map[string]any{
		"current_epoch": cur, "current_submissions": rows, "current_block": s.graph.Block,
		"config": map[string]any{
			"quorum_fraction": 0, "winner_protection_margin": s.margin(), "miner_cooldown_hours": cooldown.Hours(), "epoch_length_blocks": s.blocksOf(),
		},
	})
}

// margin is how much better a challenger must be, as the arena's rule says.
func (s *snapshot) margin() float64 {
	number := func(name string, def float64) float64 {
		if v, ok := s.arena.IncentiveNumbers[name]; ok {
			return v
		}
		return def
	}
	if s.arena.Incentive == cost.ScoreArenaRule {
		return number("delta", cost.ScoreDelta)
	}
	return math.Round((1-number("factor", cost.Factor))*1e9) / 1e9
}

func (s *snapshot) winnerScore() *float64 {
	if len(s.arena.Seats) == 0 {
		return nil
	}
	v := finite(s.arena.Seats[0].Score)
	return &v
}

func (b *Backend) queue(w http.ResponseWriter, r *http.Request) {
	if b.book != nil {
		b.bookQueue(w, r)
		return
	}
	limit, ok := count(w, r, "limit", 100, 500)
	if !ok {
		return
	}
	s := b.with(w, r, "queue")
	if s == nil {
		return
	}
	rows, busy := []any{}, map[string]bool{}
	for i := len(s.entries) - 1; i >= 0 && len(rows) < limit; i-- {
		e := s.entries[i]
		if !e.open() {
			continue
		}
		// A miner has one turn at a time: its oldest.
		eligible := !busy[e.Miner]
		busy[e.Miner] = true
		if e.State != agon.SubmissionQueued {
			continue
		}
		rows = append(rows, map[string]any{
			"submission_id": e.ID, "miner_hotkey": e.Miner, "miner_uid": s.uid(e.Miner), "pack_hash": text(e.pack.Hash), "pack_url": nil,
			"submitted_at": stamp(e.CreatedAt), "eligible_now": eligible,
		})
	}
	reply(w, http.StatusOK, map[string]any{"success": true, "queue": rows})
}

func (b *Backend) epoch(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		fail(w, http.StatusBadRequest, "epoch id must be a positive integer")
		return
	}
	if b.book != nil {
		b.bookEpoch(w, r, id)
		return
	}
	s := b.with(w, r, "epoch")
	if s == nil {
		return
	}
	for _, e := range s.entries {
		if e.Seq == id {
			reply(w, http.StatusOK, b.epochOf(s, e))
			return
		}
	}
	fail(w, http.StatusNotFound, "Epoch not found")
}

func (b *Backend) epochOf(s *snapshot, e *entry) map[string]any {
	rows := []any{}
	for _, rep := range e.reports {
		results := map[string]any{}
		for _, sc := range rep.scenarios {
			results[sc.Name] = map[string]any{"score": sc.Score, "qualified": sc.Qualified, "weight": sc.weight, "cost": sc.Cost}
		}
		rows = append(rows, map[string]any{
			"validator_hotkey": rep.validator, "validator_stake": s.stake(rep.validator), "block_height": rep.block, "created_at": stamp(rep.at),
			"challenger": map[string]any{"score": rep.score, "qualified": rep.qualified, "rejected": rep.rejected, "rejection_detail": rep.detail, "scenario_results": results},
		})
	}
	start := s.block(e.CreatedAt)
	ep := map[string]any{
		"id": e.Seq, "status": e.epochStatus(), "outcome": e.outcome(), "challenger_hotkey": e.Miner, "challenger_uid": s.uid(e.Miner), "challenger_pack_hash": text(e.pack.Hash),
		"consensus_score": e.Score, "consensus_qualified": e.status() == "passed", "consensus_cost_usd": e.meanCost(), "start_block": start, "end_block": start + s.blocksOf(),
		"created_at": stamp(e.CreatedAt), "finalized_at": stamp(e.endedAt()), "rule": nil, "bar": nil, "numbers": nil, "submission_id": e.ID,
	}
	if at := e.endedAt(); !at.IsZero() {
		ep["end_block"] = s.block(at)
	}
	if d := e.Decision; d != nil {
		ep["rule"], ep["bar"], ep["numbers"] = d.Rule, d.Bar, d.Numbers
	}
	return map[string]any{"epoch": ep, "submissions": rows}
}

func (s *snapshot) stake(hotkey string) float64 {
	return float64(s.neurons[hotkey].Stake) / raoPerAlpha
}

// lastDecided is the newest entry by the time it was decided; nil: none is.
func (s *snapshot) lastDecided() *entry {
	var last *entry
	for _, e := range s.entries {
		if e.Decision != nil && (last == nil || e.Decision.At.After(last.Decision.At)) {
			last = e
		}
	}
	return last
}

// since is the number of the epoch that seated a submission, and of none 0.
func (s *snapshot) since(submission string) int64 {
	if e := s.byID[submission]; e != nil {
		return e.Seq
	}
	return 0
}

func (b *Backend) winnerCurrent(w http.ResponseWriter, r *http.Request) {
	if b.book != nil {
		b.bookWinner(w, r)
		return
	}
	s := b.with(w, r, "winner")
	if s == nil {
		return
	}
	base := b.base(r)
	out := map[string]any{"success": true, "winner": nil, "finalized_epoch": nil, "submissions": []any{}}
	if len(s.arena.Seats) > 0 {
		seat := s.arena.Seats[0]
		win := map[string]any{
			"hotkey": seat.Miner, "uid": s.uid(seat.Miner), "pack_hash": nil, "pack_url": nil, "score": s.winnerScore(), "since_epoch_id": s.since(seat.Submission),
			"cost_usd": nil, "share": seat.Share, "since": stamp(seat.Since),
		}
		if e := s.seated(); e != nil {
			win["pack_hash"], win["pack_url"], win["cost_usd"] = text(e.pack.Hash), e.packURL(base), e.meanCost()
		}
		out["winner"] = win
	}
	if e := s.lastDecided(); e != nil {
		out["finalized_epoch"] = map[string]any{
			"challenge_epoch_id": e.Seq, "spec_number": nil, "challenger_hotkey": e.Miner, "challenger_pack_hash": text(e.pack.Hash), "challenger_pack_url": e.packURL(base),
			"outcome": e.outcome(), "winner_replaced": e.Decision.Outcome == agon.TookSeat, "finalized_at": stamp(e.Decision.At),
		}
		rows := []any{}
		for _, rep := range byStake(s, e.reports) {
			rows = append(rows, map[string]any{
				"validator_hotkey": rep.validator, "validator_stake": s.stake(rep.validator), "challenger_pack_hash": rep.hash, "challenger_score": rep.score,
				"challenger_qualified": rep.qualified, "challenger_rejected": rep.rejected,
			})
		}
		out["submissions"] = rows
	}
	reply(w, http.StatusOK, out)
}

// winnerHistory tells who sat after each decision, the newest first.
func (b *Backend) winnerHistory(w http.ResponseWriter, r *http.Request) {
	if b.book != nil {
		b.bookHistory(w, r)
		return
	}
	limit, ok := count(w, r, "limit", 20, 200)
	if !ok {
		return
	}
	s := b.with(w, r, "winner history")
	if s == nil {
		return
	}
	rows := []any{}
	for i := len(s.decisions) - 1; i >= 0 && len(rows) < limit; i-- {
		d := s.decisions[i]
		id, score := d.Incumbent, 0.0
		if d.Outcome == agon.TookSeat {
			id, score = d.Challenger, d.Score
		}
		e := s.byID[id]
		if e == nil {
			continue // nobody sat, or it is older than what is shown
		}
		if d.Outcome != agon.TookSeat {
			score = value(e.Score)
		}
		rows = append(rows, map[string]any{
			"epoch_id": s.since(d.Challenger), "winner_uid": s.uid(e.Miner), "winner_hotkey": e.Miner, "winner_pack_hash": text(e.pack.Hash),
			"winner_score": finite(score), "changed_from_prev": d.Outcome == agon.TookSeat, "recorded_at": stamp(d.At),
		})
	}
	reply(w, http.StatusOK, map[string]any{"history": rows})
}

// activity lists the epochs that a validator took part in, or others did, the newest first.
func (b *Backend) activity(w http.ResponseWriter, r *http.Request) {
	limit, ok := count(w, r, "limit", 50, 200)
	if !ok {
		return
	}
	s := b.with(w, r, "activity")
	if s == nil {
		return
	}
	hotkey := r.PathValue("hotkey")
	rows := []any{}
	for _, e := range s.entries { // newest first
		if len(rows) == limit {
			break
		}
		i := slices.IndexFunc(e.reports, func(rep *report) bool { return rep.validator == hotkey })
		if i < 0 {
			if !e.open() && len(e.reports) > 0 { // others did
				rows = append(rows, map[string]any{"epoch_id": e.Seq, "participated": false, "created_at": stamp(e.endedAt())})
			}
			continue
		}
		rep := e.reports[i]
		rows = append(rows, map[string]any{
			"epoch_id": rep.seq, "participated": true, "miner_hotkey": rep.miner, "miner_uid": s.uid(rep.miner), "pack_hash": rep.hash, "score": rep.score, "qualified": rep.qualified,
			"cost_usd": rep.cost, "scenarios": len(rep.scenarios), "rejected": rep.rejected, "block_height": rep.block, "created_at": stamp(rep.at),
		})
	}
	reply(w, http.StatusOK, map[string]any{"validator_hotkey": hotkey, "activity": rows})
}

func (b *Backend) stats(w http.ResponseWriter, r *http.Request) {
	if s := b.with(w, r, "stats"); s != nil {
		reply(w, http.StatusOK, map[string]any{
			"totalReports": s.usage.Reports, "totalCostUsd": float64(s.usage.Micros) / 1e6, "totalLlmCalls": s.usage.Calls, "totalTokens": s.usage.Tokens, "updatedAt": stamp(s.at),
		})
	}
}

func (b *Backend) previousEpoch(w http.ResponseWriter, r *http.Request) {
	s := b.with(w, r, "previous epoch")
	if s == nil {
		return
	}
	e := s.lastDecided()
	if e == nil {
		fail(w, http.StatusNotFound, "No epoch is decided yet")
		return
	}
	out := map[string]any{
		"blockHeight": s.block(e.Decision.At), "epochNumber": e.Seq, "status": "burn", "winner": nil, "finalMinerResults": s.results(),
		"diagnostics": map[string]any{"rule": e.Decision.Rule, "bar": e.Decision.Bar, "numbers": e.Decision.Numbers, "outcome": e.outcome()},
		"stats":       map[string]any{"miners": len(s.byMiner), "reports": len(e.reports), "validators": len(s.players)},
	}
	if len(s.arena.Seats) > 0 {
		seat := s.arena.Seats[0]
		out["status"], out["winner"] = "winner", map[string]any{"hotkey": seat.Miner, "uid": s.uid(seat.Miner), "score": finite(seat.Score)}
	}
	reply(w, http.StatusOK, out)
}

func (s *snapshot) results() []any {
	rows := []any{}
	for i, e := range s.ranking() {
		rows = append(rows, map[string]any{"hotkey": e.Miner, "uid": s.uid(e.Miner), "score": value(e.Score), "rank": i + 1, "disqualified": e.status() != "passed", "costUsd": e.meanCost()})
	}
	return rows
}

func (b *Backend) minerBreakdown(w http.ResponseWriter, r *http.Request) {
	s := b.with(w, r, "breakdown")
	if s == nil {
		return
	}
	rows := []any{}
	for _, e := range s.ranking() {
		list := []any{}
		for _, rep := range e.reports {
			list = append(list, rep.shown())
		}
		rows = append(rows, map[string]any{"hotkey": e.Miner, "uid": s.uid(e.Miner), "packHash": text(e.pack.Hash), "qualified": e.status() == "passed", "validators": list})
	}
	reply(w, http.StatusOK, map[string]any{"miners": rows})
}

// miners is the roster: every neuron that is not a validator, and every miner that entered.
func (b *Backend) miners(w http.ResponseWriter, r *http.Request) {
	s := b.with(w, r, "miners")
	if s == nil {
		return
	}
	rows := []any{}
	for _, hotkey := range s.minersOf() {
		e := s.current(hotkey)
		row := map[string]any{"uid": s.uid(hotkey), "hotkey": hotkey, "isActive": e != nil && (e.open() || e.State == agon.SubmissionScored), "packHash": nil}
		if e != nil {
			row["packHash"] = text(e.pack.Hash)
		}
		rows = append(rows, row)
	}
	reply(w, http.StatusOK, map[string]any{"miners": rows})
}

// minersOf lists the hotkeys of every neuron that is not a validator, and of
// every miner that entered, each once.
func (s *snapshot) minersOf() []string {
	var out []string
	done := map[string]bool{}
	add := func(hotkey string) {
		if !done[hotkey] {
			done[hotkey], out = true, append(out, hotkey)
		}
	}
	for _, n := range s.graph.Neurons {
		if !n.Permit || len(s.byMiner[n.Hotkey]) > 0 {
			add(n.Hotkey)
		}
	}
	for _, e := range s.entries {
		add(e.Miner)
	}
	return out
}

// cooldown is how long a miner waits after an entry over this wire.
const cooldown = 1200 * time.Second
