package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/ui/cli/output"
)

// EnvServeOptions is `agon env serve`.
type EnvServeOptions struct {
	Common
	// Arena is an arena file, or the id of an arena that a kind ships; Tasks are
	// directories of tasks. One of the two.
	Arena string
	Tasks []string
	// Sessions and Calls bound what is open at once and how long an episode is;
	// Whole and Idle when a session ends by itself. 0: the default.
	Sessions, Calls int
	Whole, Idle     time.Duration
	// Agent is a file or directory to play at POST /run, Runs how many at once (0: one a
	// core), Endpoints the HOST:PORT of models that trainers may name there besides those of this machine.
	Agent     string
	Runs      int
	Endpoints []string
	// Ready is called with what is served where; never nil.
	Ready func(EnvReady) error
}

// EnvReady is what an environment server prints when it can be asked.
type EnvReady struct {
	URL         string `json:"url"`
	Environment string `json:"environment"`
	Tasks       int    `json:"tasks"`
	Withheld    int    `json:"withheld"` // hidden tasks of the arena, never served
}

func (a *App) envCmd(r Roles) *cobra.Command {
	var o EnvServeOptions
	serve := &cobra.Command{
		Use:   "serve",
		Short: "Serve an arena's public tasks to trainers, call by call",
		Long: `Serve tasks as an environment for reinforcement learning: a trainer opens a session of a
task, its policy calls the kind's own tools, and the kind's own scorer says the reward.
One server speaks the forms of ORS, OpenEnv (/ws and /mcp) and NeMo Gym (docs/environments.md).
With --agent it plays that agent whole, in its box, with the trainer's own model behind the gateway
(POST /run), and tells the tokens of each call: so that agents of every kind can be trained.

Hidden tasks of an arena, and tasks that are held back, are never served. Sessions that are
left end by their deadline. Whoever reaches the address may play: serve it to your own network only.
JSON, when it can be asked: {url, environment, tasks, withheld}.`,
		Example: "  agon env serve --arena {arena} --listen 127.0.0.1:8010\n  agon env serve --tasks ./my-problems\n  agon env serve --arena {arena} --agent agent.py",
		Args:    Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if r.EnvServe == nil {
				return Missing("env")
			}
			if (o.Arena == "") == (len(o.Tasks) == 0) {
				return output.Usage("arena", "give one of --arena and --tasks", "name what to serve")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			o.Ready = func(v EnvReady) error {
				return a.Printer.Print(cmd.Context(), output.Result{Value: v, Human: func(h *output.Human) {
					h.Line("environment %s at %s: %d tasks, %d withheld", v.Environment, v.URL, v.Tasks, v.Withheld)
				}})
			}
			return EndOfService(cmd.Context(), r.EnvServe(cmd.Context(), o))
		},
	}
	f := serve.Flags()
	f.StringVar(&o.Arena, "arena", "", "arena `file`, or the id of an arena that agon ships")
	f.StringSliceVar(&o.Tasks, "tasks", nil, "`directory` of tasks of one kind")
	f.IntVar(&o.Sessions, "sessions", 0, "`number` of sessions open at once (4096)")
	f.IntVar(&o.Calls, "calls", 0, "`number` of calls in an episode (256)")
	f.DurationVar(&o.Whole, "deadline", 0, "a session ends so long after it began (1h)")
	f.DurationVar(&o.Idle, "idle", 0, "a session ends so long after its last request (10m)")
	f.StringVar(&o.Agent, "agent", "", "agent that POST /run plays: a `file`, or a directory")
	f.IntVar(&o.Runs, "runs", 0, "`number` of runs of the agent at once (one a core)")
	f.StringSliceVar(&o.Endpoints, "endpoint", nil, "`host:port` of a model that trainers may name, besides those of this machine")
	f.String("listen", "", "`address` to serve on (AGON_LISTEN)")
	return a.noun(&cobra.Command{
		Use:     "env",
		Short:   "Arenas as environments that trainers play",
		Example: "  agon env serve --arena {arena}",
	}, serve)
}
