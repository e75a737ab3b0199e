package platform

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/store"
)

// Standing is one line of a leaderboard, with the values behind its score.
type Standing struct {
	Rank       int // from 1, by score; of equal ones those that sit come first, then by admission
	Submission client.Submission
	// Values holds the mean value of each task played so far.
	Values map[string]float64
	Zero   string // why its score is 0
	Tier   int    // from 1; 0: not worked out
}

// ArenaFacts are the counts of an arena.
type ArenaFacts struct {
	Submissions, Miners int
	CostMicros          agon.Micros
	// Waiting is when the run that is next in the queue was made; zero: none waits.
	Waiting time.Time
}

// Standings returns a stretch of an arena's ranking.
func (p *Platform) Standings(ctx context.Context, arena string, offset, limit int) ([]Standing, error) {
	offset, limit = max(offset, 0), min(max(limit, 1), maxPage)
	var out []Standing
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		a, err := tx.Arena(arena)
		if err != nil {
			return noArena(tx, err, arena)
		}
		var scored []ranked
		list, err := p.rankedFrom(tx, a, offset, limit)
		if err != nil {
			return err
		}
		ids := make([]string, 0, len(list))
		for _, e := range list {
			ids = append(ids, e.ID)
		}
		values, err := valuesOf(tx, ids)
		if err != nil {
			return err
		}
		zeros, err := zerosOf(tx, list)
		if err != nil {
			return err
		}
		out = make([]Standing, 0, len(list))
		for i, e := range list {
			s, err := p.entryView(tx, e)
			if err != nil {
				return err
			}
			out = append(out, Standing{Rank: offset + i + 1, Submission: s, Values: values[e.ID], Zero: zeros[e.ID]})
			if e.Score != nil && offset == 0 { // tiers hang on the first: what comes later cannot know them
				r := rankedOf(a, e.Score, e.Total, values[e.ID])
				if s.Decision != nil {
					r.numbers = s.Decision.Numbers
				}
				scored = append(scored, r)
			}
		}
		for i, t := range p.tiers(a, scored) {
			out[i].Tier = t
		}
		return nil
	})
	return out, err
}

// rankedFrom is a stretch of an arena's ranking: an equal score takes no seat, so
// the ones that sit stand above others of their score.
func (p *Platform) rankedFrom(tx *store.Tx, a agon.Arena, offset, limit int) ([]store.Entry, error) {
	_, seats, err := p.seats(tx, a)
	if err != nil {
		return nil, err
	}
	sit := make([]string, len(seats))
	for i, s := range seats {
		sit[i] = s.Submission
	}
	return tx.RankedFrom(a.ID, sit, offset, limit)
}

// zerosOf says how the runs of those ended whose score is 0: in words of their kind.
func zerosOf(tx *store.Tx, list []store.Entry) (map[string]string, error) {
	var ids []string
	for _, e := range list {
		if e.Score != nil && *e.Score == 0 {
			ids = append(ids, e.ID)
		}
	}
	ends, err := tx.Outcomes(ids)
	if err != nil {
		return nil, err
	}
	words, total := map[string][]string{}, map[string]int64{}
	for _, o := range ends { // the commonest first
		words[o.Submission] = append(words[o.Submission], fmt.Sprintf("%d %s", o.N, endOf(o.Outcome, o.N)))
		total[o.Submission] += o.N
	}
	out := make(map[string]string, len(words))
	for id, w := range words {
		switch {
		case total[id] == 1:
			out[id] = "its run " + strings.TrimPrefix(w[0], "1 ")
		case len(w) == 1:
			out[id] = "all its " + strings.Replace(w[0], " ", " runs ", 1)
		default:
			out[id] = fmt.Sprintf("of its %d runs %s", total[id], strings.Join(w, ", "))
		}
	}
	for _, e := range list {
		for _, f := range e.Findings {
			if unearned[f.Code] != "" && out[e.ID] != "" { // what makes it 0, whatever its runs say
				out[e.ID] = f.Message
			}
		}
	}
	return out, nil
}

// endOf says in the past tense how a run without a point ended; outcomes are words of kinds.
func endOf(outcome string, runs int64) string {
	switch outcome {
	case "", agon.OutcomeOK:
		if runs > 1 {
			return "ended as they should and scored 0"
		}
		return "ended as it should and scored 0"
	case agon.OutcomeEmpty:
		return "returned nothing"
	case agon.OutcomeInvalid:
		return "returned something that is not an answer"
	case agon.OutcomeRaised:
		return "raised an error"
	case agon.OutcomeExited:
		return "ended without an answer"
	case agon.OutcomeLoadError:
		return "could not be loaded"
	case agon.OutcomeNoEntry:
		return "had no entry point"
	case agon.OutcomeTimeout:
		return "took too long"
	case agon.OutcomeOOM:
		return "ran out of memory"
	case agon.OutcomeLimit, agon.OutcomeOutputLimit:
		return "went over a limit of the box"
	case agon.OutcomeKilled:
		return "was killed"
	case agon.OutcomeBadPatch:
		return "returned a patch that breaks a rule"
	}
	return "ended with: " + strings.ReplaceAll(outcome, "_", " ")
}

// BandOf is the interval of a score, of the problems that the score is of: all
// that were played, or the hidden or the public ones; n is of how many it is, nil
// where that is not known. A score that is the mean
// of none of these, of one problem only, or of a measure without chance, has none.
func BandOf(a agon.Arena, total *float64, n *int, values map[string]float64) (*score.Band, *float64) {
	of, known := countedOf(a, total, n, values)
	if of == nil {
		return nil, nil
	}
	b := score.Interval(score.Values(of))
	return &b, known
}

// countedOf are the problems that a score is the mean of, as BandOf says; nil:
// of none. known is the mean of the public ones where it is of the hidden ones.
func countedOf(a agon.Arena, total *float64, n *int, values map[string]float64) (of map[string]float64, known *float64) {
	if total == nil || a.Contest != nil {
		return nil, nil
	}
	hidden, public := map[string]float64{}, map[string]float64{}
	for _, t := range a.Tasks {
		v, ok := values[t.Key]
		switch {
		case ok && t.Hidden:
			hidden[t.Key] = v
		case ok:
			public[t.Key] = v
		}
	}
	sets := []map[string]float64{values, hidden, public}
	if n != nil { // where means agree by chance, the number of problems tells
		far := func(of map[string]float64) int { return max(len(of)-*n, *n-len(of)) }
		slices.SortStableFunc(sets, func(x, y map[string]float64) int { return cmp.Compare(far(x), far(y)) })
	}
	for _, of := range sets {
		mean, _ := score.MeanSE(score.Values(of))
		if len(of) < 2 || math.Abs(mean-*total) > 1e-6 {
			continue
		}
		if len(public) > 0 && len(of) == len(hidden) {
			m, _ := score.MeanSE(score.Values(public))
			known = &m
		}
		return of, known
	}
	return nil, nil
}

// Counted are the problems that a score is the mean of, as BandOf says; nil: of none.
func Counted(a agon.Arena, total *float64, n *int, values map[string]float64) map[string]float64 {
	of, _ := countedOf(a, total, n, values)
	return of
}

func valuesOf(tx *store.Tx, ids []string) (map[string]map[string]float64, error) {
	list, err := tx.TaskValues(ids)
	if err != nil {
		return nil, err
	}
	out := make(map[string]map[string]float64, len(ids))
	for _, v := range list {
		m := out[v.Submission]
		if m == nil {
			m = map[string]float64{}
			out[v.Submission] = m
		}
		m[v.Task] = v.Value
	}
	return out, nil
}

// Values returns the values of submissions by task; at most 500 of them.
func (p *Platform) Values(ctx context.Context, submissions []string) (out map[string]map[string]float64, err error) {
	if len(submissions) > maxPage {
		return nil, refuse(422, "too_many", "%d submissions at once", len(submissions))
	}
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		out, err = valuesOf(tx, submissions)
		return err
	})
	return out, err
}

// Facts counts an arena.
func (p *Platform) Facts(ctx context.Context, arena string) (ArenaFacts, error) {
	var t store.ArenaTotals
	var waiting time.Time
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if t, err = tx.Totals(arena); err == nil {
			waiting, err = tx.NextMade(arena)
		}
		return err
	})
	return ArenaFacts{Submissions: int(t.Submissions), Miners: int(t.Miners), CostMicros: t.CostMicros, Waiting: waiting}, err
}

// Names are the names of submissions, which everybody may read, without those that
// are not there.
func (p *Platform) Names(ctx context.Context, ids []string) (out map[string]string, err error) {
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		out, err = tx.Names(ids)
		return err
	})
	return out, err
}

// Tasks tells how the tasks of an arena were played.
func (p *Platform) Tasks(ctx context.Context, arena string) (out []store.TaskStat, err error) {
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		mid, err := tx.MiddleSeq(arena)
		if err != nil {
			return err
		}
		out, err = tx.TaskStats(arena, mid)
		return err
	})
	return out, err
}

// Validators tells who plays for an arena.
func (p *Platform) Validators(ctx context.Context, arena string) (out []store.ValidatorStat, err error) {
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		out, err = tx.ValidatorStats(arena)
		return err
	})
	return out, err
}

// maxOpinions bounds what Agreement looks at: the latest.
const maxOpinions = 20_000

// Agreement compares validators by score.Concord over the latest submissions.
func (p *Platform) Agreement(ctx context.Context, arena string) ([]score.Standing, error) {
	var list []store.Opinion
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		list, err = tx.Opinions(arena, maxOpinions)
		return err
	})
	if err != nil {
		return nil, err
	}
	opinions := make([]score.Opinion, 0, len(list))
	for _, o := range list {
		opinions = append(opinions, score.Opinion{Validator: o.Validator, Item: o.Submission + " " + o.Task, Value: o.Value})
	}
	return score.Concord(opinions), nil
}

// Decisions returns the last decisions of an arena, oldest first.
func (p *Platform) Decisions(ctx context.Context, arena string, limit int) (out []agon.Decision, err error) {
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		out, err = tx.Decisions(arena, min(max(limit, 1), maxBoard))
		for i, d := range out {
			out[i].Sentence = incentive.Say(p.cfg.Incentives, d)
		}
		return err
	})
	return out, err
}

// RoleOf says what c is to a submission.
func (p *Platform) RoleOf(ctx context.Context, c Caller, submission string) (Role, error) {
	s, err := p.Submission(ctx, c, submission)
	if err != nil {
		return "", err
	}
	v, err := p.viewOf(ctx, c, s.Submission)
	return v.role, err
}

// EventCounts counts the events of an attempt by type: how much there is, not what.
func (p *Platform) EventCounts(ctx context.Context, run string, attempt int) (out map[string]int64, err error) {
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		out, err = tx.EventTypes(run, attempt)
		return err
	})
	return out, err
}
