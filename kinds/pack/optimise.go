package pack

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
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
	c   commands.OptimiseOptions
	out *commands.Optimised
}

// played is what came of a scenario, over all rounds.
type played struct {
	usd       float64 // an episode
	score     float64 // the worst
	qualified bool    // each time
	detail    string
}

// budgetSpent says that the next play might cost more than is left.
const budgetSpent = "the budget is spent"

// episodes plays one scenario. used learns what the pack used; nil: nobody asks.
func (s *search) episodes(ctx context.Context, sc *clawbench.Scenario, p *packfile.Pack, used *tune.Used) (played, error) {
	got := played{score: 1, qualified: true}
	for range s.c.Rounds {
		e, err := s.play(ctx, sc, p, "", s.c.Timeout)
		if err != nil {
			return got, err
		}
		if e.Cost != nil {
			got.usd += e.Cost.USD / float64(s.c.Rounds)
			s.out.SpentUSD += e.Cost.USD
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
	used := tune.Used{}
	base := map[string]played{}
	sum := 0.0
	for i, sc := range s.set.Scenarios {
		s.o.Show(progress.State{Label: "playing it as it is", Total: len(s.set.Scenarios), Done: i})
		got, err := s.episodes(ctx, sc, p, &used)
		if err != nil {
			return nil, err
		}
		base[sc.Name] = got
		sum += got.usd
		if got.qualified {
			s.out.Qualified++
		}
	}
	n := float64(len(s.set.Scenarios))
	s.out.Before = sum / n
	if s.out.Qualified == 0 {
		return nil, &agon.Error{Code: "nothing_to_keep", Status: 422, Field: "pack", Message: "the pack qualifies on no scenario, so there is nothing that a change could keep", Mend: "see why with agon pack batch --pack " + s.c.Pack}
	}
	tried := map[string]bool{} // changes by what they say: each is tried once, on the best pack so far
	for again := true; again && s.out.Stopped == ""; {
		again = false
		list := slices.DeleteFunc(tune.Changes(p, used, clawbench.Tools, s.c.Models), func(c tune.Change) bool {
			return tried[c.Move+c.What] || len(s.c.Moves) > 0 && !slices.Contains(s.c.Moves, c.Move)
		})
		for i, change := range list {
			s.o.Show(progress.State{Label: "trying changes", Total: len(s.out.Steps) + len(list) - i, Done: len(s.out.Steps)})
			if s.out.SpentUSD+sum*float64(s.c.Rounds) > s.c.Budget {
				s.out.Stopped, s.out.Left = budgetSpent, len(list)-i
				break
			}
			tried[change.Move+change.What] = true
			now := tune.Used{}
			step, got, err := s.try(ctx, change, base, &now)
			switch {
			case ctx.Err() != nil:
				s.out.Stopped, s.out.Left = "interrupted", len(list)-i
			case err != nil && s.c.Cassette == "":
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
	s.out.After, s.out.To = sum/n, p.Hash
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

// try plays a change, the hardest scenario first, until something is worse.
func (s *search) try(ctx context.Context, change tune.Change, base map[string]played, used *tune.Used) (commands.Step, map[string]played, error) {
	step := commands.Step{Move: change.Move, What: change.What, Rule: change.Rule, Hash: change.Pack.Hash, Outcome: commands.Kept, Broke: []string{}}
	got := map[string]played{}
	before, after, n := 0.0, 0.0, 0.0
	for _, sc := range s.set.Scenarios {
		x, err := s.episodes(ctx, sc, change.Pack, used)
		if err != nil {
			return step, nil, err
		}
		was := base[sc.Name]
		got[sc.Name] = x
		before, after, n = before+was.usd, after+x.usd, n+1
		step.PerUSD, step.SavedUSD = after/n, (before-after)/n
		switch {
		case was.qualified && !x.qualified:
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
