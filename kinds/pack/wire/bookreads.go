package wire

import (
	"maps"
	"net/http"
	"slices"

	"github.com/agon-arena/agon/kinds/pack/epochs"
)

// The reads about epochs where the arena leads them: they tell what the book
// has, not the order of admission.

// challengeRow is what a vote says, as the observers read it.
func challengeRow(v epochs.Vote) map[string]any {
	results := map[string]any{}
	for name, sc := range v.Scenarios {
		results[name] = map[string]any{"score": sc.Score, "qualified": sc.Qualified, "weight": 1.0}
	}
	return map[string]any{"score": v.Score, "qualified": v.Qualified, "rejected": v.Rejected, "rejection_detail": text(v.Detail), "scenario_results": results}
}

func (b *Backend) bookState(w http.ResponseWriter, r *http.Request) {
	s, done, err := b.moved(r.Context())
	if err != nil {
		b.broken(w, "challenge", err)
		return
	}
	defer done()
	id, rule := int64(1), epochs.Default(len(s.arena.Tasks))
	if len(s.entries) > 0 {
		id = s.entries[0].Seq + 1
	}
	cur := map[string]any{"id": id, "status": "idle", "start_block": nil, "end_block": nil, "challenger_hotkey": nil, "challenger_pack_hash": nil}
	rows, progress := []any{}, []any{}
	if e := b.book.open; e != nil {
		cur = map[string]any{
			"id": e.ID, "status": "in_progress", "start_block": e.Start, "end_block": e.End, "challenger_hotkey": e.Miner, "challenger_uid": s.uid(e.Miner),
			"challenger_pack_hash": e.Hash,
		}
		for _, v := range e.Votes {
			row := map[string]any{
				"validator_hotkey": v.Validator, "validator_name": nil, "challenger_score": v.Score, "challenger_qualified": v.Qualified, "winner_score": nil,
				"winner_qualified": e.Before != nil, "created_at": stamp(v.At),
			}
			if e.Before != nil {
				row["winner_score"] = e.Before.Score
			}
			rows = append(rows, row)
		}
		of := b.book.doing[e.ID]
		for _, v := range slices.Sorted(maps.Keys(of)) {
			for _, name := range slices.Sorted(maps.Keys(of[v])) {
				progress = append(progress, map[string]any{"validator_hotkey": v, "scenario_name": name, "progress": *of[v][name]})
			}
		}
	}
	reply(w, http.StatusOK, map[string]any{
		"current_epoch": cur, "current_submissions": rows, "scenario_progress": progress, "current_block": s.graph.Block,
		"config": map[string]any{
			"quorum_fraction": rule.Quorum, "winner_protection_margin": 0.03, "miner_cooldown_hours": cooldown.Hours(), "epoch_length_blocks": rule.Length,
		},
	})
}

func (b *Backend) bookQueue(w http.ResponseWriter, r *http.Request) {
	limit, ok := count(w, r, "limit", 100, 500)
	if !ok {
		return
	}
	s, done, err := b.moved(r.Context())
	if err != nil {
		b.broken(w, "queue", err)
		return
	}
	defer done()
	rows, list := b.book.rows(s)
	may, out := epochs.Next(rows), []any{}
	for i, row := range rows {
		if row.Done || !row.Open || len(out) == limit {
			continue
		}
		e := list[i]
		// A miner whose pack is challenging has its turn.
		eligible := may[i] && (b.book.open == nil || b.book.open.Miner != e.Miner)
		out = append(out, map[string]any{
			"submission_id": e.ID, "miner_hotkey": e.Miner, "miner_uid": s.uid(e.Miner), "pack_hash": text(e.pack.Hash), "pack_url": nil, "submitted_at": stamp(e.CreatedAt),
			"eligible_now": eligible,
		})
	}
	reply(w, http.StatusOK, map[string]any{"success": true, "queue": out})
}

// bookEpoch is one epoch: in the observers' form, and as it is kept.
func (b *Backend) bookEpoch(w http.ResponseWriter, r *http.Request, id int64) {
	s, done, err := b.moved(r.Context())
	if err != nil {
		b.broken(w, "epoch", err)
		return
	}
	defer done()
	e := b.book.of(id)
	if e == nil {
		fail(w, http.StatusNotFound, "Epoch not found")
		return
	}
	rows := []any{}
	for _, v := range e.Votes {
		ch := challengeRow(v)
		ch["hotkey"] = e.Miner
		rows = append(rows, map[string]any{
			"validator_hotkey": v.Validator, "validator_stake": float64(v.Stake) / raoPerAlpha, "block_height": v.Block, "created_at": stamp(v.At), "challenger": ch, "played": v.Played,
		})
	}
	ep := map[string]any{
		"id": e.ID, "status": "in_progress", "outcome": nil, "challenger_hotkey": e.Miner, "challenger_uid": s.uid(e.Miner), "challenger_pack_hash": e.Hash, "consensus_score": nil,
		"consensus_qualified": nil, "winner_score": nil, "start_block": e.Start, "end_block": e.End, "created_at": stamp(e.Opened), "finalized_at": nil, "submission_id": e.Submission,
		"bar": nil, "reported_stake": nil, "spec_number": spec,
	}
	if e.Before != nil {
		ep["winner_score"] = e.Before.Score
	}
	if e.Outcome != "" {
		ep["status"], ep["outcome"], ep["consensus_score"], ep["consensus_qualified"] = "finalized", e.Outcome, e.Score, e.Qualified
		ep["end_block"], ep["finalized_at"], ep["bar"], ep["reported_stake"] = e.Ended, stamp(e.Finalized), e.Bar, e.Reported
	}
	reply(w, http.StatusOK, map[string]any{"epoch": ep, "submissions": rows, "record": e})
}

// bookWinner is who sits, the epoch that ended last, and what was said in it:
// all that a validator needs to work the seat out for itself.
func (b *Backend) bookWinner(w http.ResponseWriter, r *http.Request) {
	s, done, err := b.moved(r.Context())
	if err != nil {
		b.broken(w, "winner", err)
		return
	}
	defer done()
	base := b.base(r)
	out := map[string]any{"success": true, "winner": b.winnerOf(s, b.book.seat(), base, false), "finalized_epoch": nil, "submissions": []any{}}
	if n := len(b.book.past); n > 0 {
		e := b.book.past[n-1]
		var url *string
		if x := s.byID[e.Submission]; x != nil {
			url = x.packURL(base)
		}
		out["finalized_epoch"] = map[string]any{
			"challenge_epoch_id": e.ID, "spec_number": spec, "challenger_hotkey": e.Miner, "challenger_pack_hash": e.Hash, "challenger_pack_url": url, "outcome": e.Outcome,
			"winner_replaced": e.Outcome == epochs.Replaced, "finalized_at": stamp(e.Finalized),
		}
		votes := slices.Clone(e.Votes)
		slices.SortStableFunc(votes, func(x, y epochs.Vote) int { return int(bit(y.Stake > x.Stake)) - int(bit(x.Stake > y.Stake)) })
		rows := []any{}
		for _, v := range votes {
			if !v.Rejected && slices.ContainsFunc(e.Left, func(l epochs.Left) bool { return l.Validator == v.Validator }) {
				continue // readers average what they find here
			}
			row := map[string]any{
				"validator_hotkey": v.Validator, "validator_stake": float64(v.Stake) / raoPerAlpha, "challenger_pack_hash": e.Hash, "challenger_score": v.Score,
				"challenger_qualified": v.Qualified, "challenger_rejected": v.Rejected, "winner_pack_hash": nil, "winner_score": nil, "winner_qualified": nil, "winner_rejected": nil,
			}
			if e.Before != nil {
				row["winner_pack_hash"], row["winner_score"] = e.Before.Hash, e.Before.Score
			}
			rows = append(rows, row)
		}
		out["submissions"] = rows
	}
	reply(w, http.StatusOK, out)
}

func (b *Backend) bookHistory(w http.ResponseWriter, r *http.Request) {
	limit, ok := count(w, r, "limit", 20, 200)
	if !ok {
		return
	}
	s, done, err := b.moved(r.Context())
	if err != nil {
		b.broken(w, "winner history", err)
		return
	}
	defer done()
	rows := []any{}
	for _, e := range slices.Backward(b.book.past) {
		if e.After == nil || len(rows) == limit {
			continue
		}
		rows = append(rows, map[string]any{
			"epoch_id": e.ID, "winner_uid": s.uid(e.After.Miner), "winner_hotkey": e.After.Miner, "winner_pack_hash": e.After.Hash, "winner_score": e.After.Score,
			"changed_from_prev": e.Outcome == epochs.Replaced, "recorded_at": stamp(e.Finalized),
		})
	}
	reply(w, http.StatusOK, map[string]any{"history": rows})
}
