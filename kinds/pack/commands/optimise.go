package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/kinds/pack/tune"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// OptimiseOptions is `agon pack optimise`.
type OptimiseOptions struct {
	EpisodeOptions
	Cassette string
	// Budget bounds what all plays together cost, in dollars.
	Budget float64
	Rounds int
	PerDay float64
	Moves  []string // of tune.Moves; none: all
	Models []string // that a step may run on
	Out    string
	Guards bool // rules that forbid something may go, too
}

// Outcomes of a change.
const (
	Kept     = "kept"     // it saved, and broke nothing
	Dropped  = "dropped"  // it saved nothing
	Broke    = "broke"    // a scenario no longer comes out as well
	Untested = "untested" // the tape has no reply to what it would have asked
)

// Step is one change that was tried.
type Step struct {
	Move    string `json:"move"`
	What    string `json:"what"`
	Rule    string `json:"rule,omitempty"`
	Hash    string `json:"pack_hash"`
	Outcome string `json:"outcome"`
	// PerUSD is what an episode costs with it, SavedUSD how much less than
	// without; of a change that broke, over the scenarios that were played.
	PerUSD   float64  `json:"usd_per_episode"`
	SavedUSD float64  `json:"saved_usd_per_episode"`
	Broke    []string `json:"broke"` // scenarios, each with what is worse
}

// Confirmation is what plays say that chose nothing: both packs were played afresh.
type Confirmation struct {
	// CI is the 95 per cent interval of the saving, by scenarios; null where one says nothing about noise.
	CI *[2]float64 `json:"ci"`
	// Undecided says that the two cannot be told apart by their costs.
	Undecided bool     `json:"undecided"`
	Broke     []string `json:"broke"` // then nothing is proposed
}

// Optimised is `agon pack optimise`.
type Optimised struct {
	Pack      string  `json:"pack"`
	From      string  `json:"from_hash"`
	To        string  `json:"to_hash"`
	Out       string  `json:"out,omitempty"`
	Qualified int     `json:"qualified"` // scenarios, before and after
	Scenarios int     `json:"scenarios"`
	Before    float64 `json:"usd_per_episode_before"`
	After     float64 `json:"usd_per_episode_after"`
	Saving    float64 `json:"saving"` // share of Before
	MonthUSD  float64 `json:"saved_usd_per_month"`
	PerDay    float64 `json:"episodes_per_day"`
	SpentUSD  float64 `json:"spent_usd"`
	// Stopped says why it ended before every change was tried.
	Stopped  string `json:"stopped,omitempty"`
	Scripted bool   `json:"scripted"`
	Steps    []Step `json:"steps"`
	// Left counts changes that were proposed and not tried.
	Left int `json:"left"`
	// Guards are rules that forbid something, which were not tried without.
	Guards []string `json:"guards"`
	// Confirmed says what fresh plays of both packs save; Before, After and Saving are
	// theirs then. Null where a tape or a script answered, which cannot be lucky, where
	// nothing was found, and where Unconfirmed says why.
	Confirmed   *Confirmation `json:"confirmed"`
	Unconfirmed string        `json:"unconfirmed,omitempty"`
}

func (a commands) packOptimiseCmd() *cobra.Command {
	var o OptimiseOptions
	var moves, models string
	cmd := &cobra.Command{
		Use:     "optimise PACK",
		Aliases: []string{"optimize"},
		Short:   "Try shorter and cheaper forms of a pack, and show what each saves and breaks",
		Long: `Play a pack on every scenario, then try one change after the other and keep those that cost
less and break nothing: offer only the tools that were called, remove skills that were never
asked, bound the turns, run a step on another model (--models), drop a rule, merge it into the
one before, move it. A change is played hardest scenario first and ends at the first one that
no longer qualifies or scores less. Scenarios on which the pack does not qualify are left out. All
plays and their judges together cost at most --budget dollars. Rules that forbid something are kept,
unless --guards: the scenario that one is for may be none of these. Where a model answers, both packs are
played afresh at the end, since the plays that choose a change are lucky ones: what these save is told.
With --cassette the model calls are those of a tape; a change that asks what is not on it is
untested. Record one with AGON_LLM_CASSETTE and AGON_LLM_BASE_URL.
JSON: {pack, from_hash, to_hash, out, qualified, scenarios, usd_per_episode_before,
usd_per_episode_after, saving, saved_usd_per_month, episodes_per_day, spent_usd, stopped, scripted,
steps[{move, what, rule, pack_hash, outcome, usd_per_episode, saved_usd_per_episode, broke[]}], left, guards[], confirmed{ci, undecided, broke[]}, unconfirmed}.
Exit code 3 if nothing was saved.`,
		Example: "  agon pack optimise pack.json --budget 2 --out better.json\n  agon pack optimise pack.json --moves drop,merge --cassette tape.jsonl -o json",
		Args:    cli.Args(1, 1, "a pack"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Rounds < 1 || o.Rounds > 100 {
				return output.Usage("rounds", "1 to 100", "--rounds %d is out of range", o.Rounds)
			}
			if !(o.Budget > 0) || o.Budget > 10_000 {
				return output.Usage("budget", "above 0, to 10000", "--budget %g is out of range", o.Budget)
			}
			split := func(s string) []string {
				return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
			}
			o.Moves, o.Models = split(moves), split(models)
			for _, m := range o.Moves {
				if !slices.Contains(tune.Moves, m) {
					return output.Usage("moves", strings.Join(tune.Moves, ", "), "--moves: there is no move %q", m)
				}
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common, o.Pack = common, args[0]
			r, err := a.work.Optimise(cmd.Context(), o)
			if err != nil {
				return err
			}
			done()
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: r.human}); err != nil {
				return err
			}
			if r.To == r.From {
				return &cli.Exit{Code: cli.CodePartly}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Out, "out", "", "write the best pack to this `file`")
	f.Float64Var(&o.Budget, "budget", 1, "spend at most so many `dollars` on plays")
	f.BoolVar(&o.Guards, "guards", false, "try to drop rules that forbid something, too")
	f.IntVar(&o.Rounds, "rounds", 1, "play each scenario this `often`")
	f.StringVar(&o.Cassette, "cassette", "", "play the model calls of this `tape` instead of asking a model")
	f.StringVar(&moves, "moves", "", "try only these `kinds` of change: "+strings.Join(tune.Moves, ", "))
	f.StringVar(&models, "models", "", "`models` that a step may run on, cheapest first (default: those of AGON_LLM_MODEL)")
	f.Float64Var(&o.PerDay, "per-day", 400, "`episodes` a day, for the saving of a month")
	f.StringVar(&o.Scenarios, "scenarios", "", "`directory` with scenarios/ and fixtures/")
	f.DurationVar(&o.Timeout, "timeout", 0, "end each agent after this `time`")
	cli.DriverFlag(cmd, &o.Driver)
	return cmd
}

// human prints it for people.
func (r *Optimised) human(h *output.Human) {
	rows := make([][]output.Cell, len(r.Steps))
	for i, s := range r.Steps {
		saved := fmt.Sprintf("$%.6f", s.SavedUSD)
		if s.Outcome == Untested {
			saved = "–"
		}
		rows[i] = []output.Cell{output.Text(s.Outcome), output.Text(s.What), output.Text(saved), output.Text(strings.Join(s.Broke, "; "))}
	}
	h.Table([]output.Column{{Title: "outcome"}, {Title: "change", Min: 20}, {Title: "saved an episode", Right: true}, {Title: "broke"}}, rows)
	h.Line("$%.6f an episode became $%.6f: %.1f %% less, $%.2f a month at %.0f episodes a day", r.Before, r.After, 100*r.Saving, r.MonthUSD, r.PerDay)
	switch c := r.Confirmed; {
	case r.Unconfirmed != "":
		h.Line("not confirmed by fresh plays: %s; a figure of the plays that chose is too good", r.Unconfirmed)
	case c != nil && len(c.Broke) > 0:
		h.Line("played afresh it broke: %s. Nothing is proposed.", strings.Join(c.Broke, "; "))
	case c != nil && c.CI != nil:
		h.Line("by fresh plays of both, 95 %% interval %.1f to %.1f %%%s", 100*c.CI[0], 100*c.CI[1], map[bool]string{true: ": the two cannot be told apart"}[c.Undecided])
	case c != nil:
		h.Line("by fresh plays of both, on one scenario: the two cannot be told apart")
	}
	if len(r.Guards) > 0 {
		h.Line("rules that forbid something were kept (--guards tries without): %s", strings.Join(r.Guards, "; "))
	}
	h.Line("%d of %d scenarios qualify, as before; the plays cost $%.6f", r.Qualified, r.Scenarios, r.SpentUSD)
	if r.Stopped != "" {
		h.Line("ended early: %s; %d changes were not tried", r.Stopped, r.Left)
	}
	if r.Out != "" {
		h.Line("written to %s", r.Out)
	}
	if r.Scripted {
		h.Line("scripted: a script answered, at a made-up price. It does not read the policy as a model does.")
	}
}
