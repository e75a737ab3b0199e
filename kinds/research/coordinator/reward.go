package coordinator

import (
	"context"
	"fmt"
	"math"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/kinds/research/quorum"
)

// Modes of a reward policy's validator weights.
const (
	WeightsLocal   = "local"     // validators keep their own weights
	WeightsBurn    = "burn_uid0" // all to uid 0
	WeightsTargets = "targets"
)

// Target is one receiver of weight: uid or hotkey, never both.
type Target struct {
	UID    *int    `json:"uid,omitempty"`
	Hotkey *string `json:"hotkey,omitempty"`
	Weight float64 `json:"weight"`
}

// ValidatorWeights is what validators should set.
type ValidatorWeights struct {
	Mode    string   `json:"mode"`
	Targets []Target `json:"targets"`
}

// RewardPolicy is one version of the policy.
type RewardPolicy struct {
	Version          int              `json:"version"`
	ValidatorWeights ValidatorWeights `json:"validator_weights"`
	ScoreEMADays     float64          `json:"score_ema_days"` // half life of the credit of a record
	// TaskWeights maps slugs to weights; 1 where a slug is not named.
	TaskWeights map[string]float64 `json:"task_weights"`
	// EpochBudget is what one epoch of reward packages shares out, in rao.
	EpochBudget uint64 `json:"epoch_budget_rao"`
	// TransferFloor is the least transfer that a chain makes, in rao.
	TransferFloor uint64 `json:"transfer_floor_rao"`
	Note          string `json:"note,omitempty"`
	At            Time   `json:"updated_at"`
}

// DefaultPolicy is in force before any was put.
func DefaultPolicy() RewardPolicy {
	return RewardPolicy{
		ValidatorWeights: ValidatorWeights{Mode: WeightsLocal, Targets: []Target{}}, ScoreEMADays: 14, TaskWeights: map[string]float64{},
		EpochBudget: 1_000_000_000, TransferFloor: 500_000,
	}
}

// check refuses what a strict reader of the snapshot would stop at.
func (p *RewardPolicy) check() error {
	no := func(field, format string, args ...any) error {
		return refuse(422, "invalid_policy", "%s: %s", field, fmt.Sprintf(format, args...)).with("field", field)
	}
	w := &p.ValidatorWeights
	switch w.Mode {
	case WeightsLocal, WeightsBurn:
		w.Targets = []Target{}
	case WeightsTargets:
		if len(w.Targets) == 0 || len(w.Targets) > 256 {
			return no("validator_weights.targets", "want 1 to 256 targets")
		}
		for i, t := range w.Targets {
			field := fmt.Sprintf("validator_weights.targets[%d]", i)
			switch {
			case (t.UID == nil) == (t.Hotkey == nil):
				return no(field, "want either uid or hotkey")
			case t.UID != nil && (*t.UID < 0 || *t.UID > math.MaxUint16):
				return no(field, "uid %d is out of range", *t.UID)
			case !(t.Weight > 0 && t.Weight <= 1e9):
				return no(field, "want a weight above 0 and at most 1e9")
			}
			if t.Hotkey != nil {
				if _, err := auth.ParseSS58(*t.Hotkey); err != nil {
					return no(field, "hotkey: %v", err)
				}
			}
		}
	default:
		return no("validator_weights.mode", "%.20q is not local, burn_uid0 or targets", w.Mode)
	}
	if !(p.ScoreEMADays > 0 && p.ScoreEMADays <= 3650) {
		return no("score_ema_days", "want more than 0 and at most 3650")
	}
	if len(p.TaskWeights) > 1000 {
		return no("task_weights", "at most 1000")
	}
	for slug, x := range p.TaskWeights {
		if !(x >= 0) || math.IsInf(x, 0) || len(slug) > 120 {
			return no("task_weights", "%.40q: want a weight of at least 0", slug)
		}
	}
	if p.EpochBudget > 1<<53 || p.TransferFloor > 1<<53 {
		return no("epoch_budget_rao", "at most 2^53")
	}
	if len(p.Note) > 2000 {
		return no("note", "at most 2000 bytes")
	}
	return nil
}

// PolicyHistory is the policy in force and all before it, newest first.
type PolicyHistory struct {
	RewardPolicy
	History []RewardPolicy `json:"history"`
}

// RewardPolicy returns the policy in force and its history.
func (c *Coordinator) RewardPolicy(ctx context.Context) (*PolicyHistory, error) {
	out := &PolicyHistory{RewardPolicy: DefaultPolicy(), History: []RewardPolicy{}}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tablePolicies, store.DocFilter{Limit: MaxLimit})
		if err != nil {
			return err
		}
		for i, r := range rows {
			p, err := decode[RewardPolicy](r)
			if err != nil {
				return err
			}
			if i == 0 {
				out.RewardPolicy = p
			}
			out.History = append(out.History, p)
		}
		return nil
	})
	return out, err
}

// SetRewardPolicy stores a new version.
func (c *Coordinator) SetRewardPolicy(ctx context.Context, p RewardPolicy) (*RewardPolicy, error) {
	d := DefaultPolicy()
	if p.ScoreEMADays == 0 {
		p.ScoreEMADays = d.ScoreEMADays
	}
	if p.TaskWeights == nil {
		p.TaskWeights = d.TaskWeights
	}
	if p.EpochBudget == 0 {
		p.EpochBudget = d.EpochBudget
	}
	if p.TransferFloor == 0 {
		p.TransferFloor = d.TransferFloor
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	err := c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		n, err := tx.CountDocs(tablePolicies, store.DocFilter{})
		if err != nil {
			return err
		}
		p.Version, p.At = int(n)+1, Time{c.now()}
		body, err := encode(p)
		if err != nil {
			return err
		}
		return tx.InsertDoc(tablePolicies, store.Doc{ID: fmt.Sprint(p.Version), Status: "policy", At: p.At.Time, Body: body})
	})
	return &p, err
}

// Entrance implements platform.Entrance.
func (*Coordinator) Entrance() string {
	return "agon research claim, then agon research submit-workspace"
}

// FixedWeights implements platform.Coordinator: what the policy in force wants instead
// of a research arena's own rule.
func (c *Coordinator) FixedWeights(ctx context.Context, a agon.Arena) ([]platform.FixedWeight, error) {
	if c.taskOfArena(a.ID) == nil {
		return nil, nil
	}
	p, err := c.RewardPolicy(ctx)
	if err != nil {
		return nil, err
	}
	switch p.ValidatorWeights.Mode {
	case WeightsBurn:
		return []platform.FixedWeight{{UID: 0, Weight: 1}}, nil
	case WeightsTargets:
		var out []platform.FixedWeight
		for _, t := range p.ValidatorWeights.Targets {
			x := platform.FixedWeight{Hotkey: val(t.Hotkey), Weight: t.Weight}
			if t.UID != nil {
				x.UID = uint16(*t.UID) // check has seen that it fits
			}
			out = append(out, x)
		}
		return out, nil
	}
	return nil, nil
}

// Competition is one task of the snapshot.
type Competition struct {
	Slug    string  `json:"slug"`
	TaskID  string  `json:"task_id"`
	Mode    string  `json:"competition_mode"`
	Scoring string  `json:"scoring_mode"`
	Scope   string  `json:"reward_scope"`
	Weight  float64 `json:"weight"` // share; all sum to 1
	State   string  `json:"task_state"`
	Best    *string `json:"best_submission_id"`
	// Credits are the shares of miners in this task, by hotkey; they sum to 1 where there are any.
	Credits map[string]float64 `json:"credits"`
}

// Snapshot is what is rewarded now.
type Snapshot struct {
	GeneratedAt  Time          `json:"generated_at"`
	Count        int           `json:"competition_count"`
	ScoreEMADays float64       `json:"score_ema_days"`
	Competitions []Competition `json:"competitions"`
	Policy       RewardPolicy  `json:"reward_policy"`
	Pool         PoolConfig    `json:"pool"`
}

// PoolConfig is what the reward packages are made by.
type PoolConfig struct {
	EpochBudget   uint64 `json:"epoch_budget_rao"`
	TransferFloor uint64 `json:"transfer_floor_rao"`
	LatestEpoch   *int   `json:"latest_epoch"`
}

// Snapshot computes what is rewarded now: each live task by its weight, and in
// it each miner by the credit of its records.
func (c *Coordinator) Snapshot(ctx context.Context) (*Snapshot, error) {
	pol, err := c.RewardPolicy(ctx)
	if err != nil {
		return nil, err
	}
	tasks, err := c.Tasks(ctx)
	if err != nil {
		return nil, err
	}
	out := &Snapshot{
		GeneratedAt: Time{c.now()}, ScoreEMADays: pol.ScoreEMADays, Policy: pol.RewardPolicy, Competitions: []Competition{},
		Pool: PoolConfig{EpochBudget: pol.EpochBudget, TransferFloor: pol.TransferFloor},
	}
	if last, err := c.lastEpoch(ctx); err != nil {
		return nil, err
	} else if last >= 0 {
		out.Pool.LatestEpoch = &last
	}
	sum := 0.0
	for _, t := range tasks {
		if t.State == StateClosed {
			continue
		}
		w, ok := pol.TaskWeights[t.Slug]
		if !ok {
			w = 1
		}
		x := Competition{
			Slug: t.Slug, TaskID: t.ID, Mode: t.CompetitionMode, Scoring: t.RankingMode, Scope: "task", Weight: w, State: t.State,
		}
		if x.Best, x.Credits, err = c.credits(ctx, t.ID, pol.ScoreEMADays); err != nil {
			return nil, err
		}
		sum += w
		out.Competitions = append(out.Competitions, x)
	}
	for i := range out.Competitions {
		if sum > 0 {
			out.Competitions[i].Weight /= sum
		}
	}
	out.Count = len(out.Competitions)
	return out, nil
}

// credits are the shares of miners in a task: the sum over records of what the
// gain is worth times 2^(-age/half life), part of it to the proposer of the idea
// that was implemented.
func (c *Coordinator) credits(ctx context.Context, taskID string, halfLife float64) (*string, map[string]float64, error) {
	out := map[string]float64{}
	var best *string
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableRecords, store.DocFilter{Task: taskID})
		if err != nil {
			return err
		}
		total := 0.0
		for i, d := range rows {
			r, err := decode[Record](d)
			if err != nil {
				return err
			}
			if i == 0 {
				best = &r.Submission
			}
			credit := c.gainOf(r) * math.Exp2(-c.age(r.At).Hours()/24/halfLife)
			mine := credit
			if idea, err := tx.Doc(tableIdeas, r.Submission); err == nil {
				x, err := decode[Idea](idea)
				if err != nil {
					return err
				}
				out[x.Proposer] += credit * x.ProposerShare
				mine = credit * x.ImplementShare
			} else if err != store.ErrNotFound { //nolint:errorlint // Doc returns the sentinel itself
				return err
			}
			out[r.Miner] += mine
			total += credit
		}
		for k, v := range out {
			if total <= 0 || v <= 0 {
				delete(out, k)
				continue
			}
			out[k] = v / total
		}
		return nil
	})
	return best, out, err
}

// gainOf is what the gain of a record is worth (research.credit); of one that
// took the best by its second metric, what its gain in that is worth. What such
// takeovers have cost of the first metric is not paid for when it is won back.
func (c *Coordinator) gainOf(r Record) float64 {
	if r.Delta == nil {
		return 0
	}
	t := c.taskOfID(r.TaskID)
	in := quorum.CreditIn{Direction: r.Direction, Baseline: r.Value, Band: r.Band, From: before(r.Direction, r.Value, *r.Delta-r.Numbers["spent"]), To: r.Value}
	if t != nil && t.pub.Baseline != 0 {
		in.Baseline = t.pub.Baseline
	}
	if second := r.Numbers["gain2"]; t != nil && second > 0 && *r.Delta <= r.Band {
		v, d := r.Observed[t.pub.SecondaryMetricName], t.pub.Rules.Secondary
		in = quorum.CreditIn{Direction: d, Baseline: before(d, v, second), From: before(d, v, second), To: v}
	}
	v, err := quorum.Credit(in)
	if err != nil {
		return 0 // a number that is none is worth nothing
	}
	return v
}

// before is the value that a gain was made over.
func before(direction string, value, gain float64) float64 {
	if direction == agon.Maximize {
		return value - gain
	}
	return value + gain
}

// lastEpoch is the newest published epoch, -1 if there is none.
func (c *Coordinator) lastEpoch(ctx context.Context) (int, error) {
	n := int64(0)
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		n, err = tx.CountDocs(tableEpochs, store.DocFilter{})
		return err
	})
	return int(n) - 1, err
}
