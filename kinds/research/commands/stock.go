package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/research/data"
	"github.com/agon-arena/agon/kinds/research/miner"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// stock is the name under which the binary is the public miner's client.
const stock = "bitsota-research-agent"

// stockOut prints an answer as the public client does: JSON with two spaces, else the text.
func (a commands) stockOut(b []byte) {
	if json.Valid(b) {
		fmt.Fprintln(a.IO.Out, miner.Indent(b))
		return
	}
	fmt.Fprintln(a.IO.Out, strings.TrimRight(plain.Clean(string(b)), "\n"))
}

func (a commands) listTasks() *cobra.Command {
	var c atServer
	cmd := &cobra.Command{
		Use: "list-tasks", Short: "Print the coordinator's tasks as JSON", Args: cli.Args(0, 0, ""),
		Example: "  agon research list-tasks --coordinator-url \"$BITSOTA_COORDINATOR_URL\" | jq '.[].slug'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			mc, err := c.client(a, false)
			if err != nil {
				return err
			}
			b, err := mc.Do(cmd.Context(), "GET", "/api/v1/tasks", nil, nil, false)
			if err != nil {
				return coded(err)
			}
			a.stockOut(b)
			return nil
		},
	}
	c.add(cmd)
	return cmd
}

func (a commands) signed() *cobra.Command {
	var c atServer
	var method, path, body, file, params string
	var unsigned bool
	cmd := &cobra.Command{
		Use: "signed-request --method METHOD --path PATH", Short: "Send one signed request to the coordinator", Args: cli.Args(0, 0, ""),
		Example: "  agon research signed-request --method POST --path /api/v1/tasks/ID/claim --body-json '{\"claim_description\":\"try\"}'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if method == "" || path == "" {
				return output.Usage("method, path", "give both", "--method and --path are required")
			}
			if body != "" && file != "" {
				return output.Usage("body-json, body-file", "give one of them", "--body-json and --body-file exclude each other")
			}
			mc, err := c.client(a, !unsigned)
			if err != nil {
				return err
			}
			var raw []byte
			if file != "" {
				if raw, err = os.ReadFile(file); err != nil {
					return fmt.Errorf("read body: %w", err)
				}
			} else if body != "" {
				raw = []byte(body)
			}
			if raw != nil {
				if raw, err = miner.Respace(raw); err != nil {
					return output.Usage("body-json", "give one JSON value", "the body is not JSON: %v", err)
				}
			}
			query, err := parseParams(params)
			if err != nil {
				return err
			}
			b, err := mc.Do(cmd.Context(), method, path, query, raw, !unsigned)
			if err != nil {
				return coded(err)
			}
			a.stockOut(b)
			return nil
		},
	}
	c.add(cmd)
	f := cmd.Flags()
	f.StringVar(&method, "method", "", "HTTP method")
	f.StringVar(&path, "path", "", "path, with a slash first")
	f.StringVar(&body, "body-json", "", "body as JSON")
	f.StringVar(&file, "body-file", "", "`file` with the body")
	f.StringVar(&params, "params-json", "", "query as a JSON object")
	f.BoolVar(&unsigned, "unsigned", false, "do not sign")
	return cmd
}

// parseParams reads a JSON object in its order; null members are left out.
func parseParams(text string) ([]miner.Field, error) {
	if text == "" {
		return nil, nil
	}
	bad := output.Usage("params-json", "give a JSON object of texts and numbers", "--params-json is not a JSON object")
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, bad
	}
	var out []miner.Field
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, bad
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, bad
		}
		switch v := v.(type) {
		case nil:
		case bool: // as Python prints it
			out = append(out, miner.Field{Name: name.(string), Value: map[bool]string{true: "True", false: "False"}[v]})
		case []any:
			var list []string
			for _, x := range v {
				list = append(list, fmt.Sprint(x))
			}
			out = append(out, miner.Field{Name: name.(string), Value: list})
		default:
			out = append(out, miner.Field{Name: name.(string), Value: v})
		}
	}
	return out, nil
}

func (a commands) submit() *cobra.Command {
	var c atServer
	var claim, dir, sidecar, base, result string
	var dirty bool
	cmd := &cobra.Command{
		Use: "submit-workspace --claim-id CLAIM --repo-dir DIR", Short: "Submit what a checkout changes", Args: cli.Args(0, 0, ""),
		Long: `Compute the patch of a checkout byte by byte (line ends, binary files, names of any bytes, files that git does not
track yet, committed work), keep to the paths that the claim's task allows, and submit it with the sidecar
submission.json. Changes elsewhere are refused with their list; --allow-dirty leaves them out.`,
		Example: "  agon research submit-workspace --claim-id 0192... --repo-dir work --submission-file submission.json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if claim == "" || dir == "" {
				return output.Usage("claim-id, repo-dir", "give both", "--claim-id and --repo-dir are required")
			}
			mc, err := c.client(a, true)
			if err != nil {
				return err
			}
			if sidecar, err = sidecarOf(cmd, dir, sidecar); err != nil {
				return err
			}
			if _, err := miner.ReadSidecar(sidecar, ""); err != nil { // before anything is asked of the server
				return err
			}
			t, err := mc.TaskOfClaim(cmd.Context(), claim)
			if err != nil {
				return coded(err)
			}
			if base != "" {
				t.BaseSHA = base
			}
			s, err := gather(cmd.Context(), t, dir, sidecar, dirty)
			if err != nil {
				return coded(err)
			}
			s.ClaimID = claim
			b, err := mc.Submit(cmd.Context(), s)
			if err != nil {
				return coded(err)
			}
			if result == "" && a.Env.Getenv("BITSOTA_AGENT_WORKSPACE") != "" {
				result = a.Env.Getenv("BITSOTA_AGENT_SUBMISSION_RESULT_PATH") // a launcher waits for it
			}
			if result != "" {
				if err := os.WriteFile(result, append([]byte(miner.Indent(b)), '\n'), 0o600); err != nil {
					return fmt.Errorf("write result: %w", err)
				}
			}
			a.stockOut(b)
			var made struct{ ID string }
			if json.Unmarshal(b, &made) == nil && made.ID != "" && a.IO.OutTTY() {
				fmt.Fprintf(a.IO.Err, "next: agon research status %s --wait\n", made.ID)
			}
			return nil
		},
	}
	c.add(cmd)
	f := cmd.Flags()
	f.StringVar(&claim, "claim-id", "", "the claim")
	f.StringVar(&dir, "repo-dir", "", "the checkout")
	f.StringVar(&sidecar, "submission-file", "submission.json", "the sidecar (default: in the checkout, else here)")
	f.StringVar(&base, "base-ref", "", "commit to make the patch against (default: the task's base)")
	f.StringVar(&result, "submission-result-file", "", "`file` for the coordinator's answer")
	f.BoolVar(&dirty, "allow-dirty", false, "leave changes outside the allowed paths out instead of refusing")
	return cmd
}

func (a commands) mine(name string) *cobra.Command {
	var c atServer
	var ag miner.Agent
	var style, model string
	var cycles int
	var every float64
	var ignoredB bool
	var ignoredI int
	var ignoredF float64
	short := "Run one cycle: claim, run an agent's command, submit"
	switch name {
	case "peer-evaluate-once":
		short = "Evaluate one submission of another miner by an agent's command"
	case "loop":
		short = "Run cycles of claim, agent's command, submit; keep what improves"
	}
	cmd := &cobra.Command{
		Use: name + " --agent-command COMMAND", Short: short, Args: cli.Args(0, 0, ""),
		Long: `Claim the task (or, with --participation-style pool, a work item), clone its repository into a workspace, run
the command there, and submit what it left. The command sees BITSOTA_AGENT_WORKSPACE, _REPO_DIR, _INTRO_PATH,
_SUBMISSION_PATH, _SUBMISSION_RESULT_PATH, BITSOTA_RESEARCH_CLAIM_ID, _TASK_ID, _TASK_SLUG, _COORDINATOR_URL, and
{workspace_dir}, {repo_dir}, {intro_path}, {submission_path}, {submission_result_path} (and each with _quoted) in its
text; of the other variables only PATH, HOME and locale, and those named with --pass-env. A failure gives the claim
back. results.tsv in the workspace root notes every cycle; the next one starts from the best patch so far.

peer-evaluate-once takes the oldest submission of another miner that waits for an evaluation of yours, lays its change over
a clean clone and runs the command there, which measures it and writes peer_review.json ({submission_path}): an object with
status (accepted or rejected), observed_metrics and notes. A change that the task does not allow is rejected without running
anything. The change is foreign code: have the command run it in a sandbox.`,
		Example: "  agon research " + name + " --task-slug my-task --agent-command 'my-agent {repo_dir_quoted}'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ag.Command == "" {
				return output.Usage("agent-command", "give the command of an agent", "--agent-command is required: models are called by agents, not by this command")
			}
			if ag.Mode != miner.ModeManaged && ag.Mode != miner.ModeAutonomous {
				return output.Usage("agent-mode", "use gui_managed or autonomous", "no mode %q", ag.Mode)
			}
			if style != "direct" && style != "pool" {
				return output.Usage("participation-style", "use direct or pool", "no style %q", style)
			}
			mc, err := c.client(a, true)
			if err != nil {
				return err
			}
			ag.Client, ag.CoordinatorURL, ag.Pool, ag.Now, ag.Out = mc, mc.URL, style == "pool", a.Now, a.IO.Out
			for _, n := range []string{ag.Sidecar, ag.Result} {
				if filepath.Base(n) != n {
					return output.Usage("submission-file", "give a name without a directory", "%q is not a plain name", n)
				}
			}
			var out any
			switch name {
			case "loop":
				return ag.Loop(cmd.Context(), cycles, time.Duration(max(every, 1)*float64(time.Second)))
			case "peer-evaluate-once":
				out, err = ag.Evaluate(cmd.Context())
			default:
				out, err = ag.Once(cmd.Context(), 1)
			}
			if err != nil {
				return coded(err)
			}
			b, err := json.Marshal(out)
			if err != nil {
				return err
			}
			a.stockOut(b)
			return nil
		},
	}
	c.add(cmd)
	f := cmd.Flags()
	f.StringVar(&ag.Command, "agent-command", "", "the agent's command")
	f.StringVar(&ag.Mode, "agent-mode", miner.ModeManaged, "who submits: gui_managed or autonomous")
	f.StringVar(&ag.Sidecar, "submission-file", "submission.json", "name of the sidecar in the workspace")
	f.StringVar(&ag.Result, "submission-result-file", "submission_result.json", "name of the coordinator's answer in the workspace")
	f.StringVar(&ag.TaskID, "task-id", "", "id of the task")
	f.StringVar(&ag.Slug, "task-slug", "", "slug of the task")
	f.StringVar(&style, "participation-style", "direct", "direct or pool")
	f.StringVar(&ag.Root, "workspace-root", ".bitsota_agent_workspace", "where workspaces are made")
	f.BoolVar(&ag.Keep, "keep-execution-checkout", false, "keep the workspaces")
	f.IntVar(&ag.MaxLog, "max-execution-log-chars", 32000, "longest execution log")
	f.StringSliceVar(&ag.Passed, "pass-env", nil, "variables that the agent may see")
	// The stock client's flags for its own model calls are read, so that scripts
	// with them still run; they have no effect beside --agent-command.
	f.StringVar(&model, "llm-base-url", "", "not used: agents call models themselves")
	f.StringVar(&model, "llm-model", "", "not used")
	f.StringVar(&model, "llm-api-key", "", "not used")
	f.Float64Var(&ignoredF, "llm-temperature", 0.2, "not used")
	f.IntVar(&ignoredI, "llm-max-tokens", 1800, "not used")
	f.IntVar(&ignoredI, "execution-attempts", 2, "not used")
	f.BoolVar(&ignoredB, "disable-local-execution", false, "not used")
	if name == "loop" {
		f.IntVar(&cycles, "cycles", 0, "cycles to run, 0 = for ever")
		f.Float64Var(&every, "interval-seconds", 15, "pause between cycles, at least 1")
		f.BoolVar(&ag.Peers, "allow-peer-evaluation", false, "evaluate submissions of other miners first, where peers decide")
	}
	return cmd
}

func (a commands) builtins() *cobra.Command {
	return &cobra.Command{
		Use: "list-builtins", Short: "Print the tasks that ship with agon as JSON", Args: cli.Args(0, 0, ""),
		Long:    "Print the research tasks that ship with agon. JSON: [{slug, title, repository, base_ref, metric_name, metric_direction, summary}].",
		Example: "  agon research list-builtins",
		RunE: func(_ *cobra.Command, _ []string) error {
			type builtin struct {
				Slug       string `json:"slug"`
				Title      string `json:"title"`
				Repository string `json:"repository"`
				BaseRef    string `json:"base_ref"`
				Metric     string `json:"metric_name"`
				Direction  string `json:"metric_direction"`
				Summary    string `json:"summary"`
			}
			list := []builtin{}
			found, err := fs.Glob(data.FS, "tasks/*/*/"+kr.TaskFile)
			if err != nil {
				return err
			}
			for _, name := range found {
				dir, err := fs.Sub(data.FS, strings.TrimSuffix(name, "/"+kr.TaskFile))
				if err != nil {
					return err
				}
				t, _, err := kr.LoadTask(dir)
				if err != nil {
					return err
				}
				summary, _, _ := strings.Cut(t.Brief, "\n")
				list = append(list, builtin{t.Slug, t.Title, t.Repository, t.BaseRef, t.MetricName, t.MetricDirection, summary})
			}
			b, err := json.Marshal(list)
			if err != nil {
				return err
			}
			a.stockOut(b)
			return nil
		},
	}
}

// Stock is the client that the first miners of such coordinators know.
func Stock() kit.Program {
	return kit.Program{
		Name: stock,
		Args: func(args []string) []string { return append([]string{"research"}, args...) },
		Exit: func(code int) int { return min(code, 1) }, // every error of it is 1
	}
}
