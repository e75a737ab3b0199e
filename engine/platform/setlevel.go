package platform

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
)

// taskSeeds are the seeds that a generator makes the tasks of a set from: "set/0" and so on
// of the secret by which the set is drawn.
func taskSeeds(secret string, a agon.Arena, period int64) ([]int64, error) {
	if a.Supply.From != agon.SupplyGenerator {
		return nil, nil
	}
	out := make([]int64, a.Supply.Tasks)
	for i := range out {
		var err error
		if out[i], err = seeds.Of(secret, seeds.Source{Arena: a.ID, Round: period, Task: seedSet + "/" + strconv.Itoa(i)}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// levelOf is the level of a period's set, which follows what the champion reached on the set
// before it; nil: the arena names no difficulty.
func (p *Platform) levelOf(ctx context.Context, a agon.Arena, n int64) (level *agon.SetDifficulty, err error) {
	if a.Supply.Difficulty == nil {
		return nil, nil
	}
	rule := *a.Supply.Difficulty
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		level = &agon.SetDifficulty{Level: rule.Start(), Rule: rule}
		before, err := tx.LastLevel(a.ID, n) // a period that passed while nothing ran has no set
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		level.Before = before.Difficulty.Level
		if level.Reached, err = p.reached(tx, a, before); err != nil {
			return err
		}
		var solved, tasks int
		if x := level.Reached; x != nil {
			solved, tasks = x.Solved, x.Tasks
		}
		level.Level = rule.Next(level.Before, solved, tasks)
		return nil
	})
	return level, err
}

// reached is what the best of those who sit solved of a period's set: by all plays on it that
// count, of which a champion cannot lose some on purpose (its halves of pairs decide its seat).
// A submission has solved a task if more than half of its plays on it did; without a play it
// has not. nil: no submission with a seat was played on the set.
func (p *Platform) reached(tx *store.Tx, a agon.Arena, x store.SeedPeriod) (*agon.Reached, error) {
	_, seats, err := p.seats(tx, a)
	if err != nil {
		return nil, err
	}
	var who []string
	for _, s := range seats {
		who = append(who, s.Submission)
	}
	titles, err := tx.Titles(a.ID)
	if err != nil {
		return nil, err
	}
	for _, t := range titles { // who lost the seat since then was played on it too
		if t.Period == x.N && !slices.Contains(who, t.Submission) {
			who = append(who, t.Submission)
		}
	}
	slices.Sort(who)
	var best *agon.Reached
	for _, id := range who {
		runs, err := tx.PlaysSince(id, x.Opens)
		if err != nil {
			return nil, err
		}
		if runs, _, err = agreed(tx, a, runs); err != nil {
			return nil, err
		}
		solved, plays := map[string]int{}, map[string]int{}
		for _, r := range runs {
			if r.State != agon.RunScored {
				continue
			}
			for _, s := range r.Scores {
				if !slices.ContainsFunc(x.Tasks, func(t agon.TaskRef) bool { return t.Key == s.Task }) {
					continue
				}
				plays[s.Task]++
				if s.Solved {
					solved[s.Task]++
				}
			}
		}
		if len(plays) == 0 {
			continue
		}
		got := &agon.Reached{Period: x.N, Level: x.Difficulty.Level, Submission: id, Tasks: len(x.Tasks)}
		for task, n := range solved {
			if 2*n > plays[task] {
				got.Solved++
			}
		}
		if best == nil || got.Solved > best.Solved {
			best = got
		}
	}
	return best, nil
}
