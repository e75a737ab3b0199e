// Package shopping is the kind of arena in which agents shop: one Python file
// is given a wish in words and finds the products in a catalogue, alone, within
// one shop, or within a voucher's budget. The answer is the last
// recommend_product call of the episode that it returns; what it did on the way
// is what the gateway saw, never what it says.
package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/shopping/race"
	"github.com/agon-arena/agon/kinds/shopping/score"
)

// Name is the kind's name.
const Name = "shopping"

// scorer names the judging code; grader and judge are added.
const scorer = "shopping-2"

// Grade is what an episode's answer is worth.
type Grade struct {
	Success bool
	// Fields are ORO's score fields by name (gt, rule, format …).
	Fields map[string]float64
	// Account is what they are the sum of, for people; nil: there is none.
	Account *score.Account
}

// Grader measures answers. Safe for concurrent use.
type Grader interface {
	// Version changes whenever the same episode could be graded differently:
	// rules, catalogue, encoder.
	Version() string
	// Grade reads a problem as it stands in its task (with reward and voucher)
	// and the episode's steps, a JSON list or null. Whatever the steps are, they
	// get a grade; an error is ours: no encoder, another catalogue.
	Grade(ctx context.Context, problem, dialogue []byte) (Grade, error)
}

// Config is what the kind needs to know of this host.
type Config struct {
	// Rootfs is the directory of the root file system of boxes, with python3.
	// Only Play needs it.
	Rootfs string
	// Grader measures answers. Only Judge needs it.
	Grader Grader
	// Judge tells how much reasoning stands behind an episode; nil means
	// RuleJudge, which needs no model.
	Judge Reasoner
	// Model is what SANDBOX_MODEL says, where the policy names none.
	Model string
	// Workers is how many problems of a run are played at once; 15.
	Workers int
	// Now is the clock that bounds a whole run; time.Now.
	Now func() time.Time
}

// Kind implements kind.Kind for shopping arenas.
type Kind struct{ cfg Config }

var _ kind.Kind = (*Kind)(nil)

// New returns the kind.
func New(c Config) *Kind {
	if c.Judge == nil {
		c.Judge = RuleJudge{}
	}
	if c.Workers <= 0 {
		c.Workers = 15
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Kind{cfg: c}
}

// Name returns "shopping".
func (k *Kind) Name() string { return Name }

// Scorer names the grading code, the grader and the judge.
func (k *Kind) Scorer() string {
	v := scorer
	if k.cfg.Grader != nil {
		v += "+" + k.cfg.Grader.Version()
	}
	return v + "+" + k.cfg.Judge.Version()
}

// Batches of Plan.
const (
	perRun  = 30 // problems of the qualifying suite in one run
	perRace = 4  // hidden problems between two looks at the bound
)

// Plan first asks for the public suite. Who reaches the qualifying score goes
// on to the hidden problems, a batch at a time: as soon as even full marks for
// the rest could not reach the champion's score and the lowest bar above it,
// the race is over for them.
func (k *Kind) Plan(v agon.View) (agon.Plan, error) {
	r, err := raceOf(v.Arena)
	if err != nil {
		return agon.Plan{}, err
	}
	s := stand(v)
	pack := func(list []agon.TaskRef, n int) []agon.RunSpec {
		var out []agon.RunSpec
		for len(list) > 0 {
			m := min(n, len(list))
			out = append(out, agon.RunSpec{Arena: v.Arena.ID, Tasks: list[:m:m], Policy: v.Arena.Policy})
			list = list[m:]
		}
		return out
	}
	if len(s.open.public) > 0 {
		return agon.Plan{Runs: pack(s.open.public, perRun), Why: fmt.Sprintf("qualifying on %d public problems", s.public.Total)}, nil
	}
	if s.live || s.lost {
		// What is under way, or could not be scored through a fault of ours, is
		// waited for, or told by the engine.
		return agon.Plan{Done: !s.live, Why: "every run that was planned has been made"}, nil
	}
	if s.hidden.Total == 0 {
		return agon.Plan{Done: true, Why: "there are no hidden problems: the public suite decides"}, nil
	}
	if s.public.Total > 0 && s.public.Score() < r.Qualify {
		return agon.Plan{Done: true, Why: fmt.Sprintf("did not qualify: %.4f of the %.4f it takes", s.public.Score(), r.Qualify)}, nil
	}
	if len(s.open.hidden) == 0 {
		return agon.Plan{Done: true, Why: fmt.Sprintf("finished the race with %.4f", s.hidden.Score())}, nil
	}
	if v.Champion != nil && v.Champion.Submission != v.Submission.ID {
		if bound, least := s.hidden.Bound(), r.least(v.Champion.Score); bound < least-incentive.Tolerance {
			return agon.Plan{Done: true, Why: fmt.Sprintf(
				"stopped: with %d of %d hidden problems played it can reach %.4f at most, the champion's %.4f needs %.4f", s.hidden.Played, s.hidden.Total, bound, v.Champion.Score, least)}, nil
		}
	}
	n := min(perRace, len(s.open.hidden))
	return agon.Plan{Runs: pack(s.open.hidden[:n], n), Why: fmt.Sprintf("racing: %d of %d hidden problems played", s.hidden.Played, s.hidden.Total)}, nil
}

// standing is how a submission's runs stand.
type standing struct {
	public, hidden race.Progress
	open           struct{ public, hidden []agon.TaskRef } // that no run covers
	live           bool                                    // a run is under way
	lost           bool                                    // a task's runs have all ended without a score
}

func stand(v agon.View) standing {
	type one struct {
		sum              float64
		n                int
		covered, waiting bool
	}
	byTask := map[string]*one{}
	for _, t := range v.Arena.Tasks {
		byTask[t.Key] = &one{}
	}
	var s standing
	for _, r := range v.Runs {
		s.live = s.live || !r.State.Final()
		for _, t := range r.Tasks {
			if o := byTask[t.Key]; o != nil {
				o.covered, o.waiting = true, o.waiting || !r.State.Final()
			}
		}
		for _, x := range r.Scores {
			if o := byTask[x.Task]; o != nil && r.State == agon.RunScored {
				o.sum += x.Value
				o.n++
			}
		}
	}
	for _, t := range v.Arena.Tasks {
		o, p, open := byTask[t.Key], &s.public, &s.open.public
		if t.Hidden {
			p, open = &s.hidden, &s.open.hidden
		}
		p.Total++
		switch {
		case !o.covered:
			*open = append(*open, t)
		case o.n > 0:
			p.Played++
			p.Sum += o.sum / float64(o.n)
		case !o.waiting:
			s.lost = true
		}
	}
	return s
}

// Tally implements kind.Tallier: the score of a submission that raced is that
// of the race, whatever it did on problems that everybody can read. Problems
// that were not played because the race was lost count as missed.
func (k *Kind) Tally(v agon.View) kind.Sum {
	s := stand(v)
	p, hidden := s.public, s.hidden.Played > 0
	if hidden {
		p = s.hidden
	}
	wanted := map[string]bool{}
	for _, t := range v.Arena.Tasks {
		if t.Hidden == hidden {
			wanted[t.Key] = true
		}
	}
	failed, solved := map[string]bool{}, 0
	for _, r := range v.Runs {
		for _, x := range r.Scores {
			if wanted[x.Task] {
				failed[x.Task] = failed[x.Task] || !x.Solved
			}
		}
	}
	for _, f := range failed {
		if !f {
			solved++
		}
	}
	return kind.Sum{Score: p.Score(), Solved: solved, Total: p.Total}
}

// Public is what an agent is told of a problem, nothing else.
type Public struct {
	ProblemID  string `json:"problem_id"`
	Query      string `json:"query"`
	Category   string `json:"category"`
	Difficulty string `json:"difficulty"`
	Title      string `json:"title"`
}

// Files of a task of the kind.
const (
	ProblemFile = "environment/problem.json" // what agents see
	RewardFile  = "tests/reward.json"        // the whole problem, with what was asked for
)

// maxProblem bounds each of them, in bytes.
const maxProblem = 4 << 20

// CheckTask says what is wrong with a task of the kind.
func CheckTask(t *task.Task) error {
	return task.Form{Files: []string{ProblemFile, RewardFile}, Limit: maxProblem}.Check(t)
}

// loadPublic reads what the agent may see of a problem.
func loadPublic(t *task.Task) (Public, error) {
	var p Public
	b, err := t.ReadFile(ProblemFile, maxProblem)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("task %s: %s: %w", t.Key, ProblemFile, err)
	}
	if p.Query == "" || p.ProblemID == "" {
		return p, fmt.Errorf("task %s: %s: %w", t.Key, ProblemFile, errors.New("problem_id and query are needed"))
	}
	return p, nil
}
