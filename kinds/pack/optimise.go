package pack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/kinds/pack/tune"
	"github.com/agon-arena/agon/ui/cli/progress"
)

// Optimise is `agon pack optimise`.
func Optimise(ctx context.Context, kits kit.List, c commands.OptimiseOptions) (*commands.Optimised, error) {
	return RunOptimise(ctx, kits.Options(c.Common, c.Driver), c)
}

func RunOptimise(ctx context.Context, o kit.Options, c commands.OptimiseOptions) (*commands.Optimised, error) {
	o = priced(o, c.Cassette)
	p, err := readPack(c.Pack)
	if err != nil {
		return nil, err
	}
	b, err := newBench(ctx, o, c.Scenarios, c.User, c.Seed)
	if err != nil {
		return nil, err
	}
	defer b.close()
	if len(c.Models) == 0 {
		c.Models = kit.ModelNames(o.Getenv("AGON_LLM_MODEL"))
	}
	s := &search{bench: b, c: c, out: &commands.Optimised{
		Pack: c.Pack, From: p.Hash, Scenarios: len(b.set.Scenarios), PerDay: c.PerDay,
		Scripted: c.Cassette == "" && o.Getenv("AGON_LLM_BASE_URL") == "", Steps: []commands.Step{},
	}}
	return s.run(ctx, p)
}

// search is one run of the optimiser.
type search struct {
	*bench
	c       commands.OptimiseOptions
	out     *commands.Optimised
	counted []*clawbench.Scenario // those on which the pack qualifies; what another costs pays for no work
}

// played is what came of a scenario, over all rounds.
type played struct {
	usd       float64 // an episode
	score     float64 // the worst
	qualified bool    // each time
	detail    string
}

// episodes plays one scenario. used, if not nil, learns what the pack used. It fails
// with errSpent before a play that the budget does not cover.
func (s *search) episodes(ctx context.Context, sc *clawbench.Scenario, p *packfile.Pack, used *tune.Used) (played, error) {
	got := played{score: 1, qualified: true}
	for range s.c.Rounds {
		if s.most = agon.Micros(s.c.Budget*1e6) - s.spent; s.most <= 0 {
			return got, errSpent
		}
		e, err := s.play(ctx, sc, p, "", s.c.Timeout)
		s.out.SpentUSD = float64(s.spent) / 1e6
		if err != nil {
			return got, err
		}
		switch {
		case e.Cost != nil:
			got.usd += e.Cost.USD / float64(s.c.Rounds)
		case e.Qualified:
			return got, &agon.Error{Code: "not_measured", Status: 502, Field: "pack", Message: sc.Name + " was played and no call of a model was booked, so its cost is not known"}
		}
		if got.score = min(got.score, e.Score); !e.Qualified && got.qualified {
			got.qualified, got.detail = false, e.Detail
		}
		if used != nil {
			learn(used, e)
		}
	}
	return got, nil
}

// learn adds what an episode used.
func learn(used *tune.Used, e *commands.Episode) {
	var calls []struct {
		Tool string `json:"tool"`
	}
	if json.Unmarshal(e.CallsRaw, &calls) == nil {
		for _, c := range calls {
			if !slices.Contains(used.Tools, c.Tool) {
				used.Tools = append(used.Tools, c.Tool)
			}
		}
	}
	used.Turns = max(used.Turns, e.Turns)
	for _, name := range e.Skills {
		if !slices.Contains(used.Skills, name) {
			used.Skills = append(used.Skills, name)
		}
	}
}

// run plays the pack as it is, then one change after the other on the best so far.
func (s *search) run(ctx context.Context, p *packfile.Pack) (*commands.Optimised, error) {
	first := p
	used := tune.Used{}
	base := map[string]played{}
	sum := 0.0
	for i, sc := range s.set.Scenarios {
		s.o.Show(progress.State{Label: "playing it as it is", Total: len(s.set.Scenarios), Done: i})
		got, err := s.episodes(ctx, sc, p, &used)
		if errors.Is(err, errSpent) {
			return nil, &agon.Error{
				Code: "budget_spent", Status: 422, Field: "budget", Limit: fmt.Sprintf("$%g", s.c.Budget),
				Message: fmt.Sprintf("the budget does not pay for playing the pack once as it is: $%.6f were spent on %d of %d scenarios", s.out.SpentUSD, i, len(s.set.Scenarios)),
				Mend:    "give more by --budget, or fewer --scenarios",
			}
		}
		if err != nil {
			return nil, err
		}
		if base[sc.Name] = got; got.qualified {
			s.out.Qualified++
			s.counted = append(s.counted, sc)
			sum += got.usd
		}
	}
	if s.out.Qualified == 0 {
		return nil, &agon.Error{Code: "nothing_to_keep", Status: 422, Field: "pack", Message: "the pack qualifies on no scenario, so there is nothing that a change could keep", Mend: "see why with agon pack batch --pack " + s.c.Pack}
	}
	n, rounds := float64(len(s.counted)), float64(s.c.Rounds)
	s.out.Before = sum / n
	confirm := 2 * sum * rounds // what it may cost to play both packs afresh
	if !s.live() {
		confirm = 0
	}
	tried := map[string]bool{} // changes by what they say: each is tried once, on the best pack so far
	for again := true; again && s.out.Stopped == ""; {
		again = false
		list := s.changes(p, used, tried)
		for i, change := range list {
			s.o.Show(progress.State{Label: "trying changes", Total: len(s.out.Steps) + len(list) - i, Done: len(s.out.Steps)})
			if s.out.SpentUSD+sum*rounds+confirm > s.c.Budget {
				s.out.Stopped, s.out.Left = errSpent.Error(), len(list)-i
				break
			}
			tried[change.Move+change.What] = true
			now := tune.Used{}
			step, got, err := s.try(ctx, change, base, &now)
			switch {
			case ctx.Err() != nil:
				s.out.Stopped, s.out.Left = "interrupted", len(list)-i
			case err != nil && (s.c.Cassette == "" || errors.Is(err, errSpent)):
				s.out.Stopped, s.out.Left = err.Error(), len(list)-i
			case err != nil:
				step.Outcome = commands.Untested
			}
			if s.out.Stopped != "" {
				break // what was found so far is told
			}
			s.out.Steps = append(s.out.Steps, step)
			if step.Outcome == commands.Kept {
				p, base, used, again = change.Pack, got, now, true
				sum = step.PerUSD * n
				break // what else there is to change is asked of the new pack
			}
		}
	}
	s.out.After = sum / n
	p = s.confirmed(ctx, first, p)
	s.out.To = p.Hash
	if s.out.Before > 0 {
		s.out.Saving = 1 - s.out.After/s.out.Before
	}
	s.out.MonthUSD = (s.out.Before - s.out.After) * s.c.PerDay * 30
	if s.c.Out != "" && p.Hash != s.out.From {
		if err := os.WriteFile(s.c.Out, []byte(p.Value.Indented()+"\n"), 0o644); err != nil {
			return nil, fmt.Errorf("write the pack: %w", err)
		}
		s.out.Out = s.c.Out
	}
	return s.out, nil
}

// live says that a model answers, which samples: of many changes the luckiest is kept,
// and its saving is too good.
func (s *search) live() bool { return s.c.Cassette == "" && !s.out.Scripted }

// changes are what is still to be tried. A rule that forbids something is not dropped
// unless that is wanted: no scenario in hand may be the one that it is for.
func (s *search) changes(p *packfile.Pack, used tune.Used, tried map[string]bool) []tune.Change {
	s.out.Guards = []string{}
	return slices.DeleteFunc(tune.Changes(p, used, clawbench.Tools, s.c.Models), func(c tune.Change) bool {
		if tried[c.Move+c.What] || len(s.c.Moves) > 0 && !slices.Contains(s.c.Moves, c.Move) {
			return true
		}
		if c.Move == tune.MoveDrop && !s.c.Guards && tune.Guard(c.Rule) {
			s.out.Guards = append(s.out.Guards, tune.Short(c.Rule))
			return true
		}
		return false
	})
}

// confirmed plays the first and the best pack afresh where a model answers, and says what
// these plays save: the plays by which changes were chosen say too much. It returns the
// pack that is proposed: the first where the best one broke something. Where the plays
// fail, the best pack is proposed as unconfirmed.
func (s *search) confirmed(ctx context.Context, first, best *packfile.Pack) *packfile.Pack {
	if !s.live() || best.Hash == first.Hash || ctx.Err() != nil {
		return best
	}
	c := &commands.Confirmation{Broke: []string{}}
	var before, saved []float64
	for i, sc := range s.counted {
		s.o.Show(progress.State{Label: "playing both afresh", Total: len(s.counted), Done: i})
		var sides [2]played
		for j, p := range []*packfile.Pack{first, best} {
			var err error
			if sides[j], err = s.episodes(ctx, sc, p, nil); err != nil {
				s.out.Unconfirmed = err.Error()
				return best
			}
		}
		before, saved = append(before, sides[0].usd), append(saved, sides[0].usd-sides[1].usd)
		if sides[0].qualified && !sides[1].qualified {
			c.Broke = append(c.Broke, strings.TrimSuffix(sc.Name+": no longer qualifies: "+sides[1].detail, ": "))
		}
	}
	band := score.Mean(saved)
	s.out.Before = score.Mean(before).Mean
	s.out.After = s.out.Before - band.Mean
	if s.out.Before > 0 && !math.IsInf(band.Low, 0) {
		c.CI = &[2]float64{band.Low / s.out.Before, band.High / s.out.Before}
		c.Undecided = !(band.Low > 0)
	} else {
		c.Undecided = true // one scenario says nothing about noise
	}
	s.out.Confirmed = c
	if len(c.Broke) > 0 {
		s.out.After = s.out.Before
		return first
	}
	return best
}

// try plays a change on the scenarios that qualified, the hardest first, until something is worse.
func (s *search) try(ctx context.Context, change tune.Change, base map[string]played, used *tune.Used) (commands.Step, map[string]played, error) {
	step := commands.Step{Move: change.Move, What: change.What, Rule: change.Rule, Hash: change.Pack.Hash, Outcome: commands.Kept, Broke: []string{}}
	got := map[string]played{}
	before, after, n := 0.0, 0.0, 0.0
	for _, sc := range s.counted {
		x, err := s.episodes(ctx, sc, change.Pack, used)
		if err != nil {
			return step, nil, err
		}
		was := base[sc.Name]
		got[sc.Name] = x
		before, after, n = before+was.usd, after+x.usd, n+1
		step.PerUSD, step.SavedUSD = after/n, (before-after)/n
		switch {
		case !x.qualified:
			step.Broke = append(step.Broke, strings.TrimSuffix(sc.Name+": no longer qualifies: "+x.detail, ": "))
		case x.score < was.score:
			step.Broke = append(step.Broke, fmt.Sprintf("%s: scores %.2f, was %.2f", sc.Name, x.score, was.score))
		}
		if len(step.Broke) > 0 {
			step.Outcome = commands.Broke
			return step, nil, nil
		}
	}
	if !(step.SavedUSD > 0) {
		step.Outcome = commands.Dropped
	}
	return step, got, nil
}
