package commands

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/agon-arena/agon/ui/cli"
	"github.com/spf13/cobra"

	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/ui/cli/output"
)

// EpisodeOptions is `agon pack episode`.
type EpisodeOptions struct {
	cli.Common
	Scenarios string // directory in ClawBench's form; "" = the shipped ones
	Scenario  string
	Variant   string // baseline, optimized; used where Pack is empty
	Pack      string // a pack's file
	Message   string // instead of the scenario's prompt
	Workspace string // directory whose files are laid over the pack's
	User      map[string]string
	Seed      int64
	Timeout   time.Duration
	Driver    string
	// OpenClaw is the address of another harness, MockListen where it reaches
	// the mock tools, Workspace what it works in.
	OpenClaw, MockListen string
}

// Episode is one play of a scenario.
type Episode struct {
	Success     bool            `json:"success"`
	Passed      int             `json:"checks_passed"`
	Total       int             `json:"checks_total"`
	ToolCalls   int             `json:"tool_calls"`
	CallsRaw    json.RawMessage `json:"tool_calls_raw"`
	Response    string          `json:"response"`
	Rubric      json.RawMessage `json:"rubric"`
	SessionKey  string          `json:"session_key"`
	SessionFile string          `json:"session_file"`
	Cost        *EpisodeCost    `json:"cost,omitempty"`
	Error       string          `json:"error"`
	Message     string          `json:"input_message"`
	Raw         json.RawMessage `json:"openclaw_raw_response"`
	Requests    json.RawMessage `json:"all_requests"`

	Scenario  string  `json:"scenario"`
	Variant   string  `json:"variant,omitempty"`
	Hash      string  `json:"pack_hash"`
	Qualified bool    `json:"qualified"` // by the arena's judge
	Score     float64 `json:"score"`
	Detail    string  `json:"detail"`
	Scripted  bool    `json:"scripted"` // no model answered, a script did
	MS        int64   `json:"ms"`

	// Turns is how often the model answered, Skills are those that it asked.
	Turns  int      `json:"-"`
	Skills []string `json:"-"`
}

// EpisodeCost is what an episode's model calls cost.
type EpisodeCost struct {
	Input      int64                `json:"input_tokens"`
	Output     int64                `json:"output_tokens"`
	CacheRead  int64                `json:"cache_read_tokens"`
	CacheWrite int64                `json:"cache_write_tokens"`
	USD        float64              `json:"total_usd"`
	Model      string               `json:"model"`
	Models     []kindpack.ModelCost `json:"models"`
}

func (a commands) packEpisodeCmd() *cobra.Command {
	var o EpisodeOptions
	var list, asJSON bool
	var wait int
	var out, user string
	cmd := &cobra.Command{
		Use:   "episode [--scenario S] [--pack PACK | --variant V]",
		Short: "Play one scenario on this machine",
		Long: `Play one office scenario by the validator's own code: in a box, the model behind the metered
gateway, the mock tools' log as evidence. JSON: {success, checks_passed, checks_total,
tool_calls, tool_calls_raw, response, rubric, session_key, session_file, cost, error,
input_message, openclaw_raw_response, all_requests} and {scenario, variant, pack_hash,
qualified, score, detail, scripted, ms}. Here -o names a file; -j prints the JSON.
Without a configured model a script answers the shipped samples only.`,
		Example: "  agon pack episode --scenario inbox --variant optimized -j\n  agon pack episode -s standup --pack pack.json",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if user != "" {
				if err := json.Unmarshal([]byte(user), &o.User); err != nil {
					return output.Usage("user-context", `like {"USER_NAME": "Kim Po"}`, "--user-context is not a JSON object of texts")
				}
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			if list {
				names, err := a.work.Scenarios(o.Scenarios)
				if err != nil {
					return err
				}
				return a.Printer.Print(cmd.Context(), output.List(names, func(s string) string { return s }, func(h *output.Human) {
					for _, n := range names {
						h.Line("%s", n)
					}
				}))
			}
			e, err := a.work.Episode(cmd.Context(), o)
			if err != nil {
				return err
			}
			if out != "" {
				b, err := json.MarshalIndent(e, "", "  ")
				if err != nil {
					return fmt.Errorf("encode episode: %w", err)
				}
				if err := cli.WriteFile(out, append(b, '\n')); err != nil {
					return err
				}
			}
			done()
			if asJSON || a.Printer.Machine() {
				err = output.WriteJSON(a.IO.Out, e, a.IO.OutTTY())
			} else {
				err = a.Printer.Print(cmd.Context(), output.Result{Value: e, Human: func(h *output.Human) { episodeFor(h, e) }})
			}
			if err == nil && !e.Success {
				return &cli.Exit{Code: cli.CodeFailed}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.Scenario, "scenario", "s", "inbox", "the `scenario`")
	f.StringVar(&o.Variant, "variant", "optimized", "the scenario's own policy: baseline or optimized")
	f.StringVar(&o.Pack, "pack", "", "play this pack's `file`")
	f.StringVarP(&o.Message, "message", "m", "", "ask this instead of the scenario's `prompt`")
	f.IntVarP(&wait, "wait", "w", 0, "accepted and not needed: tools and gateway start with the episode")
	f.StringVarP(&out, "output", "o", "", "write the JSON to this `file`")
	f.BoolVarP(&asJSON, "json", "j", false, "print only JSON")
	f.StringVar(&o.Workspace, "workspace", "", "`directory` whose files are the pack's")
	f.StringVar(&user, "user-context", "", "for whom the agent works (`JSON`)")
	f.Int64Var(&o.Seed, "seed", 0, "draw the epoch's context from this `number`")
	f.StringVar(&o.Scenarios, "scenarios", "", "`directory` with scenarios/ and fixtures/")
	f.DurationVar(&o.Timeout, "timeout", 0, "end the agent after this `time`")
	f.StringVar(&o.OpenClaw, "openclaw", "", "play on an OpenClaw gateway at this `address`, in --workspace (OPENCLAW_GATEWAY_TOKEN)")
	f.StringVar(&o.MockListen, "mock-listen", "127.0.0.1:3001", "with --openclaw: `address` at which it reaches the mock tools")
	f.BoolVarP(&list, "list", "l", false, "list the scenarios")
	cli.DriverFlag(cmd, &o.Driver)
	return cmd
}

func episodeFor(h *output.Human, e *Episode) {
	cost := "unknown"
	if e.Cost != nil {
		cost = fmt.Sprintf("$%.6f (%d in, %d out)", e.Cost.USD, e.Cost.Input, e.Cost.Output)
	}
	h.Fields([2]string{"scenario", e.Scenario}, [2]string{"qualified", cli.Yes(e.Qualified)}, [2]string{"checks", fmt.Sprintf("%d/%d", e.Passed, e.Total)},
		[2]string{"tool calls", fmt.Sprint(e.ToolCalls)}, [2]string{"cost", cost}, [2]string{"detail", e.Detail})
	h.Line("")
	h.Text(e.Response)
}

// BatchOptions is `agon pack batch`.
type BatchOptions struct {
	EpisodeOptions
	Only   string
	Dir    string // results go to Dir/<run id>
	DryRun bool
	All    bool // both variants
}

// Batch is how a batch went.
type Batch struct {
	RunID   string       `json:"run_id"`
	Dir     string       `json:"dir,omitempty"`
	DryRun  bool         `json:"dry_run,omitempty"`
	Missing []string     `json:"missing_fixtures,omitempty"`
	Results []BatchEntry `json:"results"`
	Passed  int          `json:"passed"`
	Total   int          `json:"total"`
	USD     float64      `json:"total_usd"`
}

// BatchEntry is one episode of a batch.
type BatchEntry struct {
	Scenario  string  `json:"scenario"`
	Variant   string  `json:"variant"`
	Success   bool    `json:"success"`
	Qualified bool    `json:"qualified"`
	Score     float64 `json:"score"`
	Checks    string  `json:"checks"`
	ToolCalls int     `json:"tool_calls"`
	USD       float64 `json:"total_usd"`
	MS        int64   `json:"ms"`
	Error     string  `json:"error,omitempty"`
}

func (a commands) packBatchCmd() *cobra.Command {
	var o BatchOptions
	var start, stop bool
	var wait int
	cmd := &cobra.Command{
		Use:   "batch [--only S] [--variant V | --pack PACK]",
		Short: "Play every scenario and write a summary",
		Long: `Play scenarios one after the other and write results/RUN/{SCENARIO}_{VARIANT}.json,
…_response.md, summary.md and summary.json. --dry-run plays nothing and names missing
fixtures. JSON: {run_id, dir, results[], passed, total, total_usd}. Exit code 3 if some fail.`,
		Example: "  agon pack batch --dry-run\n  agon pack batch --variant optimized\n  agon pack batch --pack pack.json",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			o.All = o.Pack == "" && !cmd.Flags().Changed("variant")
			r, err := a.work.Batch(cmd.Context(), o)
			if err != nil {
				return err
			}
			done()
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: func(h *output.Human) {
				rows := make([][]output.Cell, len(r.Results))
				for i, e := range r.Results {
					rows[i] = []output.Cell{output.Text(e.Scenario), output.Text(e.Variant), output.Text(cli.Yes(e.Qualified)), output.Text(e.Checks), output.Text(fmt.Sprint(e.ToolCalls)), output.Text(fmt.Sprintf("$%.6f", e.USD)), output.Text(e.Error)}
				}
				h.Table([]output.Column{{Title: "scenario", Min: 10}, {Title: "variant"}, {Title: "qualified"}, {Title: "checks"}, {Title: "calls", Right: true}, {Title: "cost", Right: true}, {Title: "error"}}, rows)
				for _, m := range r.Missing {
					h.Line("missing: %s", m)
				}
			}}); err != nil {
				return err
			}
			switch {
			case len(r.Missing) > 0:
				return &cli.Exit{Code: cli.CodeFailed}
			case !r.DryRun && r.Passed < r.Total:
				return &cli.Exit{Code: cli.CodePartly}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Only, "only", "", "only this `scenario`")
	f.StringVar(&o.Variant, "variant", "optimized", "baseline or optimized (default: both)")
	f.StringVar(&o.Pack, "pack", "", "play this pack's `file`")
	f.StringVar(&o.Scenarios, "scenarios", "", "`directory` with scenarios/ and fixtures/")
	f.StringVar(&o.Dir, "results", "results", "write below this `directory`")
	f.BoolVar(&o.DryRun, "dry-run", false, "only say what would be played")
	f.DurationVar(&o.Timeout, "timeout", 0, "end each agent after this `time`")
	f.BoolVar(&start, "start", false, "accepted and not needed: services start with each episode")
	f.BoolVar(&stop, "stop", false, "accepted and not needed: services end with each episode")
	f.IntVar(&wait, "wait", 0, "accepted and not needed")
	cli.DriverFlag(cmd, &o.Driver)
	return cmd
}
