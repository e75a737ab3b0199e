package wire

import (
	"context"
	"slices"
	"strconv"

	"github.com/agon-arena/agon"
)

// What the routes show of batches that are driven.

// shown is a batch with its state now: one that is driven ends by its validators'
// grades, another when agon's own have decided every candidate.
func (p *Platform) shown(ctx context.Context, b Batch) Batch {
	if b.Status != "running" {
		return b
	}
	if d, ok, err := p.driven(b.BatchID); err != nil || ok {
		switch {
		case err != nil || d.Ended == nil:
		case d.Failed != "":
			b.Status, b.StatusMessage, b.ended = "failed", &d.Failed, *d.Ended
		default:
			b.Status, b.ended = "completed", *d.Ended
			if d.Outcome != nil {
				b.crown = d.Outcome.Champion
			}
		}
		return b
	}
	for _, c := range b.Candidates {
		s, err := p.cfg.Arenas.Submission(ctx, operator, c.ArtifactID)
		if err != nil || s.State == agon.SubmissionQueued || s.State == agon.SubmissionPlaying {
			return b
		}
	}
	b.Status = "completed"
	return b
}

// sitting are the scripts that a batch must hold: those on the roster of batches, and
// the arena's champion.
func (p *Platform) sitting(ctx context.Context) ([]place, error) {
	if p.pulls() {
		c, err := p.champion()
		if err != nil || c == nil {
			return nil, err
		}
		return []place{{ArtifactID: c.ArtifactID, Hotkey: c.Hotkey}}, nil
	}
	out, err := p.places()
	if err != nil {
		return nil, err
	}
	arena, err := p.cfg.Arenas.Arena(ctx, p.cfg.Arena)
	if err != nil {
		return nil, err
	}
	if ch := arena.Champion; ch != nil {
		out = append(out, place{ArtifactID: ch.Submission, Hotkey: ch.Miner})
	}
	return out, nil
}

// drivenWeights are what the places of the batches' roster earn; nil before a batch
// has seated anybody. What an empty place would earn, and what the places leave, is
// the owner's, who burns it.
func (p *Platform) drivenWeights(ctx context.Context) (map[string]float64, [3]*int, error) {
	list, err := p.places()
	if err != nil || len(list) == 0 {
		return nil, [3]*int{}, err
	}
	top, err := p.roster(ctx)
	if err != nil {
		return nil, top, err
	}
	out, rest := map[string]float64{}, 1.0
	for i, uid := range top {
		if uid != nil {
			out[strconv.Itoa(*uid)] += p.cfg.Driver.Split[i]
			rest -= p.cfg.Driver.Split[i]
		}
	}
	if rest > 1e-9 {
		out["0"] += rest
	}
	return out, top, nil
}

// drivenRows are what the validators of a driven batch say of a script, by claim.
// Grades show when the batch is over; false: it is not driven.
func (p *Platform) drivenRows(ctx context.Context, b Batch, artifact string) (map[string][]map[string]any, bool, error) {
	d, ok, err := p.driven(b.BatchID)
	if err != nil || !ok {
		return nil, ok, err
	}
	out := map[string][]map[string]any{}
	if d.Ended == nil {
		for _, id := range b.ids() {
			out[id] = []map[string]any{{"task_id": id, "batch_id": b.BatchID, "artifact_id": artifact, "lifecycle_status": "running"}}
		}
		return out, true, nil
	}
	hidden := map[string]bool{}
	if p.cfg.Hidden != nil {
		if hidden, err = p.cfg.Hidden(ctx); err != nil {
			return nil, true, err
		}
	}
	for _, v := range d.Deliveries {
		var list []grade
		if v.State != deliveryGraded {
			continue
		}
		if _, err := p.dir.Get(gradesName(b.BatchID, v.Hotkey), &list); err != nil {
			return nil, true, err
		}
		for _, g := range list {
			if g.ArtifactID != artifact {
				continue
			}
			row := map[string]any{
				"task_id": g.ClaimID, "batch_id": b.BatchID, "artifact_id": artifact, "validator": map[string]any{"uid": v.UID, "hotkey": v.Hotkey},
				"score": g.score(), "verdict": g.Verdict, "justification": g.Justification, "citations": g.Citations,
				"verdict_score": g.VerdictScore, "support_score": g.SupportScore, "cost_usd": g.CostUSD,
			}
			if hidden[g.ClaimID] { // what was answered, and why it was wrong, says what is wanted
				g.Verdict, g.Justification, g.Citations, g.Rationale, g.Answer = 0, "", nil, "", nil
				row["verdict"], row["justification"], row["citations"] = nil, nil, nil
			}
			if b.Entrypoint == QueryEntrypoint {
				row = map[string]any{
					"task_id": g.ClaimID, "batch_id": b.BatchID, "artifact_id": artifact, "validator": row["validator"], "score": g.score(), "cost_usd": g.CostUSD,
					"elapsed_ms": g.ElapsedMS, "response": g.Answer,
				}
			}
			for k, s := range map[string]string{"grader_rationale": g.Rationale, "error_code": g.ErrorCode, "error_message": g.ErrorMessage} {
				if s != "" {
					row[k] = s
				}
			}
			if d.Grid != nil {
				row["median_score"] = d.Grid.Scores[artifact][g.ClaimID]
			}
			out[g.ClaimID] = append(out[g.ClaimID], row)
		}
	}
	return out, true, nil
}

// drivenBatch is monitoring's page of a driven batch.
func drivenBatch(b Batch, d drive, full map[string]any, next any) map[string]any {
	aggregates, cost := []any{}, 0.0
	for _, c := range b.Candidates {
		row := map[string]any{"artifact_id": c.ArtifactID, "uid": c.UID, "state": b.Status, "score": nil, "cost_usd": nil, "entered": d.Entered == c.ArtifactID && d.Entered != "", "late": slices.Contains(d.Late, c.ArtifactID)}
		if d.Grid != nil {
			row["score"], row["cost_usd"] = d.Grid.Totals[c.ArtifactID], d.Grid.Costs[c.ArtifactID]
			cost += d.Grid.Costs[c.ArtifactID]
		}
		aggregates = append(aggregates, row)
	}
	list := []any{}
	for _, v := range d.Deliveries {
		row := map[string]any{
			"validator_hotkey": v.Hotkey, "validator_uid": v.UID, "status": v.State, "completed": v.Completed, "total": total(b), "error": text(v.Error), "last_answer_at": when(v.At),
		}
		if v.State == deliveryGraded && d.Ended != nil {
			row["differs_from_median"], row["own_left_out"] = v.Differs, v.Kin
		}
		list = append(list, row)
	}
	full["trial"], full["claims_handed_out_at"] = text(d.Trial), nil
	if d.Handed != nil {
		full["claims_handed_out_at"] = when(*d.Handed)
	}
	if b.Entrypoint == QueryEntrypoint && d.Ended != nil {
		full["similarity"], full["decision"] = d.Votes, d.Outcome
	}
	return map[string]any{
		"summary": summaryOf(b), "batch": full, "artifact_aggregates": aggregates, "observed_artifact_aggregates": aggregates, "deliveries": list,
		"cost_totals": map[string]any{"total_cost_usd": cost}, "next_batch_at": next,
	}
}
