package coordinator

import (
	"context"
	"errors"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// PeerFilter selects peer evaluations; empty fields select all.
type PeerFilter struct{ Submission, Evaluator, Status string }

// Peers lists peer evaluations, oldest first.
func (c *Coordinator) Peers(ctx context.Context, f PeerFilter) ([]Peer, error) {
	out := []Peer{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		out, err = peersOf(tx, f)
		return err
	})
	return out, err
}

func peersOf(tx *store.Tx, f PeerFilter) ([]Peer, error) {
	rows, err := tx.Docs(tablePeers, store.DocFilter{Ref: f.Submission, Owner: f.Evaluator, Status: f.Status, Oldest: true, Limit: MaxLimit})
	if err != nil {
		return nil, err
	}
	out := []Peer{}
	for _, r := range rows {
		p, err := decode[Peer](r)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// PeerEvaluate stores one miner's evaluation of another's submission and ends
// the submission when enough of them say the same.
func (c *Coordinator) PeerEvaluate(ctx context.Context, hotkey, id string, r JobResult) (*Peer, error) {
	s, err := c.stored(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := c.taskOf(s.TaskID)
	if err != nil {
		return nil, err
	}
	if m := t.pub.CompetitionMode; m != kr.ModePeer && m != kr.ModeSelfValidation {
		return nil, refuse(409, "not_peer_evaluated", "task %s is %s: validators replay it", t.pub.Slug, m)
	}
	m, err := c.member(ctx, t, hotkey)
	if err != nil {
		return nil, err
	}
	if hotkey == s.Miner || m.Coldkey == s.Coldkey {
		return nil, refuse(403, "self_evaluation", "a miner does not evaluate its own submission")
	}
	if r.Status != kr.StatusAccepted && r.Status != kr.StatusRejected {
		return nil, refuse(422, "bad_status", "status: want accepted or rejected").with("field", "status")
	}
	if err := checkText("notes", r.Notes, maxReplayLog); err != nil {
		return nil, err
	}
	observed, err := finite(r.Observed)
	if err != nil {
		return nil, err
	}
	if _, ok := observed[t.pub.MetricName]; !ok && r.Status == kr.StatusAccepted {
		return nil, refuse(422, "missing_metric", "observed_metrics has no %s: measure it, do not copy the claim", t.pub.MetricName).with("field", "observed_metrics")
	}
	p := Peer{ID: id + "/" + hotkey, Submission: id, TaskID: t.id, Evaluator: hotkey, Status: r.Status, Observed: observed, Notes: r.Notes, CreatedAt: Time{c.now()}}
	err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		row, err := tx.Doc(tableSubmissions, id)
		if err != nil {
			return err
		}
		now, err := decode[storedSubmission](row)
		if err != nil {
			return err
		}
		if now.Status != kr.StatusPending {
			return refuse(409, "already_final", "submission %s is %s", id, now.Status).with("status", now.Status)
		}
		committee, err := c.committee(t, &now)
		if err != nil {
			return err
		}
		if len(committee) > 0 && !slices.Contains(committee, hotkey) {
			return refuse(403, "not_in_committee", "hotkey %s was not drawn into the committee of this submission", hotkey).with("committee", committee)
		}
		body, err := encode(p)
		if err != nil {
			return err
		}
		err = tx.InsertDoc(tablePeers, store.Doc{ID: p.ID, Task: t.id, Owner: hotkey, Ref: id, Status: p.Status, At: p.CreatedAt.Time, Body: body})
		if errors.Is(err, store.ErrConflict) {
			return refuse(409, "already_evaluated", "hotkey %s has evaluated submission %s", hotkey, id)
		}
		if err != nil {
			return err
		}
		return c.tryPeers(tx, t, &now)
	})
	if err != nil {
		return nil, err
	}
	return &p, nil
}

// mayEvaluate reports whether a hotkey is one of those who evaluate a submission.
func (c *Coordinator) mayEvaluate(ctx context.Context, t *task, hotkey string, s *storedSubmission) (bool, error) {
	m, err := c.member(ctx, t, hotkey)
	var no *Refusal
	if errors.As(err, &no) {
		return false, nil
	}
	if err != nil || m.Coldkey == s.Coldkey {
		return false, err
	}
	committee, err := c.committee(t, s)
	return len(committee) == 0 || slices.Contains(committee, hotkey), err
}

// committee draws who may evaluate a submission where the policy names
// hotkeys: as many as it wants, by a seed that the submission is part of.
func (c *Coordinator) committee(t *task, s *storedSubmission) ([]string, error) {
	p := t.pub.SelfValidation
	if t.pub.CompetitionMode != kr.ModeSelfValidation || p == nil || len(p.CommitteeHotkeys) == 0 {
		return nil, nil
	}
	return quorum.Sortition(p.SortitionSeed+"/"+s.ID, p.CommitteeHotkeys, s.Miner, p.CommitteeSize), nil
}

// ballot counts the evaluations of a submission by the rule of its mode.
func (c *Coordinator) ballot(tx *store.Tx, t *task, s *storedSubmission) (quorum.Ballot, []string, error) {
	peers, err := peersOf(tx, PeerFilter{Submission: s.ID})
	if err != nil {
		return quorum.Ballot{}, nil, err
	}
	rule := quorum.PeerRule{Need: t.pub.MinPeerEvaluations, Size: t.pub.MinPeerEvaluations}
	committee, err := c.committee(t, s)
	if err != nil {
		return quorum.Ballot{}, nil, err
	}
	weights := map[string]float64{}
	if p := t.pub.SelfValidation; t.pub.CompetitionMode == kr.ModeSelfValidation && p != nil {
		rule = quorum.PeerRule{
			Size: p.CommitteeSize, Threshold: p.ApprovalThreshold, MinEffective: p.MinEffectiveCommittee, MaxConcentration: p.MaxApprovalConcentration,
			SlashTolerance: p.SlashTolerance, Self: true,
		}
		for _, x := range peers {
			if weights[x.Evaluator], err = c.reputation(tx, t, x.Evaluator); err != nil {
				return quorum.Ballot{}, nil, err
			}
		}
	}
	var votes []quorum.Vote
	for _, x := range peers {
		v := quorum.Vote{Voter: x.Evaluator, Accepted: x.Status == kr.StatusAccepted, Value: x.Observed[t.pub.MetricName], Weight: 1}
		if w, ok := weights[x.Evaluator]; ok {
			v.Weight = w
		}
		votes = append(votes, v)
	}
	return quorum.CountBallot(rule, votes), committee, nil
}

// reputation is a voter's weight on a task: it starts at the new identity's,
// grows with votes that stood, and falls with those that were slashed.
func (c *Coordinator) reputation(tx *store.Tx, t *task, hotkey string) (float64, error) {
	p := t.pub.SelfValidation
	rows, err := tx.Docs(tableHits, store.DocFilter{Task: t.id, Owner: "peer/" + hotkey, Limit: maxHits})
	if err != nil {
		return 0, err
	}
	good, slashed := 0, 0
	for _, r := range rows {
		if r.Status == "stood" {
			good++
		} else {
			slashed++
		}
	}
	return quorum.Reputation(p.NewIdentityWeight, p.ReputationGain, p.MaxReputationWeight, good, slashed), nil
}

// tryPeers ends a submission if its ballot is final, and lets it challenge the best.
func (c *Coordinator) tryPeers(tx *store.Tx, t *task, s *storedSubmission) error {
	b, _, err := c.ballot(tx, t, s)
	if err != nil || !b.Final {
		return err
	}
	from := s.Status
	s.Status, s.Reason, s.UpdatedAt = kr.StatusRejected, "peers rejected it", Time{c.now()}
	for _, voter := range slices.Concat(b.Stood, b.Slashed) {
		status := "stood"
		if slices.Contains(b.Slashed, voter) {
			status = "slashed"
		}
		err := tx.InsertDoc(tableHits, store.Doc{ID: "peer/" + s.ID + "/" + voter, Task: t.id, Owner: "peer/" + voter, Ref: s.ID, Status: status, At: c.now(), Body: []byte("{}")})
		if err != nil {
			return err
		}
	}
	if b.Accepted {
		s.Status, s.Reason = kr.StatusAccepted, "peers accepted it"
		if s.Observed, err = observedByPeers(tx, s.ID); err != nil {
			return err
		}
		s.Observed[t.pub.MetricName] = b.Value
		s.OverClaim = overClaim(t.pub, s.ClaimedMetrics, b.Value)
		if err := c.peerBest(tx, t, s, b); err != nil {
			return err
		}
	}
	if err := c.settleIdea(tx, s); err != nil {
		return err
	}
	return setSubmission(tx, s, from)
}

// observedByPeers is the median of each metric that every peer who accepted gave.
func observedByPeers(tx *store.Tx, id string) (map[string]float64, error) {
	peers, err := peersOf(tx, PeerFilter{Submission: id, Status: kr.StatusAccepted})
	if err != nil {
		return nil, err
	}
	values := map[string][]float64{}
	for _, p := range peers {
		for k, x := range p.Observed {
			values[k] = append(values[k], x)
		}
	}
	out := map[string]float64{}
	for k, list := range values {
		if len(list) == len(peers) {
			slices.Sort(list)
			out[k] = list[(len(list)-1)/2]/2 + list[len(list)/2]/2
		}
	}
	return out, nil
}

// peerBest is the takeover rule without validators: the median must pass the
// best by the noise band and the policy's least improvement.
func (c *Coordinator) peerBest(tx *store.Tx, t *task, s *storedSubmission, b quorum.Ballot) error {
	_, err := tx.Doc(tableCanaries, s.ID)
	if err == nil {
		return nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	best, err := lastRecord(tx, t.id)
	if err != nil {
		return err
	}
	bar, parent := t.pub.Baseline, ""
	if best != nil {
		bar, parent = best.Value, best.Submission
	}
	gain := bar - b.Value
	if t.pub.MetricDirection == agon.Maximize {
		gain = -gain
	}
	band := quorum.BandAt(t.pub.Rules, bar)
	need := band
	if p := t.pub.SelfValidation; p != nil {
		need += p.MinImprovement * max(bar, -bar)
	}
	took := gain > need
	spent, err := spentOf(tx, t.id)
	if err != nil {
		return err
	}
	if second := t.pub.SecondaryMetricName; !took && best != nil && t.pub.Rules.Secondary != "" && gain >= -max(0, band-spent) {
		mine, ok := s.Observed[second]
		theirs, had := best.Observed[second]
		took = ok && had && quorum.Better(t.pub.Rules.Secondary, mine, theirs)
	}
	s.Best = &Best{Took: took, Incumbent: parent, Rule: "research.peer", At: Time{c.now()}, Numbers: map[string]float64{
		"observed": b.Value, "bar": bar, "gain": gain, "need": need, "accepted": float64(b.AcceptedCount), "rejected": float64(b.RejectedCount),
	}}
	if !s.Best.Took {
		return nil
	}
	r := &Record{
		Submission: s.ID, TaskID: t.id, Slug: t.pub.Slug, Miner: s.Miner, Parent: opt(parent), Implemented: s.Implemented, Metric: t.pub.MetricName,
		Direction: t.pub.MetricDirection, Value: b.Value, Delta: &gain, Band: band, Observed: s.Observed, Rule: s.Best.Rule, Numbers: s.Best.Numbers,
		PatchDigest: s.PatchDigest, Files: s.Files, TaskDigest: string(t.digest), BaseSHA: s.BaseSHA, At: s.Best.At,
	}
	peers, err := peersOf(tx, PeerFilter{Submission: s.ID})
	if err != nil {
		return err
	}
	for _, p := range peers {
		r.Replays = append(r.Replays, RecordReplay{
			ID: p.ID, Validator: p.Evaluator, Verdict: p.Status, Value: p.Observed[t.pub.MetricName], Trust: 1, Agrees: !slices.Contains(b.Slashed, p.Evaluator), Driver: "peer",
		})
	}
	return c.appendRecord(tx, r)
}

// Consensus tells how the peers of a submission stand.
func (c *Coordinator) Consensus(ctx context.Context, id string) (*Consensus, error) {
	s, err := c.stored(ctx, id)
	if err != nil {
		return nil, err
	}
	t, err := c.taskOf(s.TaskID)
	if err != nil {
		return nil, err
	}
	var b quorum.Ballot
	var committee []string
	err = c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		b, committee, err = c.ballot(tx, t, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &Consensus{
		Submission: id, Status: s.Status, AcceptedCount: b.AcceptedCount, RejectedCount: b.RejectedCount, CommitteeCount: b.AcceptedCount + b.RejectedCount,
		CommitteeSize: t.pub.MinPeerEvaluations, Needed: t.pub.MinPeerEvaluations, Approval: b.Approval, Committee: committee,
	}
	if p := t.pub.SelfValidation; p != nil && t.pub.CompetitionMode == kr.ModeSelfValidation {
		out.CommitteeSize = p.CommitteeSize
	}
	if b.AcceptedCount > 0 {
		out.Value = &b.Value
	}
	return out, nil
}
