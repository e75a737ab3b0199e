// Package commands is the command line of the pack kind: agon pack, agon tools
// mock, agon task import and agon validator --discover.
package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/ncd"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// commands makes the kind's commands of one invocation.
type commands struct {
	*cli.App
	work Work
}

// Work is what the commands start but do not know how to do: the kind fills it.
// Every function stops when its context ends.
type Work struct {
	// Scenarios lists the scenarios of a folder, or the shipped ones.
	Scenarios func(dir string) ([]string, error)
	// Episode plays one scenario, Batch all, Compare two packs on all.
	Episode func(context.Context, EpisodeOptions) (*Episode, error)
	Batch   func(context.Context, BatchOptions) (*Batch, error)
	Compare func(context.Context, CompareOptions) (*Comparison, error)
	// Optimise tries changes of a pack.
	Optimise func(context.Context, OptimiseOptions) (*Optimised, error)
	// MockTools serves the mock office tools until the context ends, Services the
	// stateful office.
	MockTools func(context.Context, MockToolsOptions) error
	Services  func(context.Context, ServicesOptions) error
	// Import makes tasks of ClawBench's files.
	Import func(context.Context, ClawbenchImportOptions) ([]cli.TaskInfo, error)
	// Generate makes tasks.
	Generate func(context.Context, GenerateOptions) (*Generated, error)
	// Discover runs a validator that asks no platform.
	Discover func(context.Context, DiscoverOptions) error
	// Audit works out a window's weights from the ledger alone.
	Audit Audited
}

// Of returns what the kind adds to the command line a.
func Of(a *cli.App, work Work) []cli.Extra {
	c := commands{a, work}
	return []cli.Extra{
		{Group: "play", Command: c.packCmd()},
		{Group: "run", Command: c.toolsCmd()},
		{Group: "run", Command: c.discoverCmd()},
		{Parent: "task", Command: c.taskImportCmd()},
		{Parent: "task", Command: c.taskGenerateCmd()},
		{Parent: "validator", Extend: c.discoverFlags},
	}
}

func (a commands) packCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pack",
		Short: "Policy packs: build, check, compare and play them",
		Long: `Policy packs are what miners of policy-pack arenas enter: the prompt, tool rules and stop
rules of a fixed agent, in one JSON file. kinds/pack/README.md tells the whole story.`,
		Example: "  agon pack build --agents-md AGENTS.md -o pack.json\n  agon pack check pack.json\n  agon pack episode --scenario inbox --pack pack.json",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.packBuildCmd(), a.packCheckCmd(), a.packLintCmd(), a.packSimilarityCmd(), a.packEpisodeCmd(), a.packBatchCmd(), a.packMatrixCmd(), a.packCompareCmd(), a.packOptimiseCmd(), a.packUploadCmd(), a.packSubmitCmd(), a.packStatusCmd(), a.packRunCmd())
	return cmd
}

// readPackFile reads a pack as it comes from outside.
func readPackFile(path string) (*packfile.Pack, error) {
	b, err := readSome(path, packfile.MaxBytes)
	var e *agon.Error
	if errors.As(err, &e) && e.Code == "too_large" {
		e.Mend = fmt.Sprintf("a pack has at most %d bytes in its canonical form", packfile.MaxPack)
	}
	if err != nil {
		return nil, err
	}
	p, err := packfile.Read(b)
	if errors.As(err, &e) {
		e.Mend = "a pack is one JSON object; agon pack build writes one"
	}
	return p, err
}

// readSome reads at most limit bytes of a file, or of stdin for "-".
func readSome(path string, limit int64) ([]byte, error) {
	f := os.Stdin
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return nil, &agon.Error{Code: "not_found", Status: 404, Field: path, Message: err.Error()}
		}
		defer func() { _ = f.Close() }()
		if st, err := f.Stat(); err == nil && st.IsDir() {
			return nil, &agon.Error{Code: "not_a_file", Status: 422, Field: path, Message: path + " is a directory"}
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if int64(len(b)) > limit {
		return nil, &agon.Error{Code: "too_large", Status: 413, Field: path, Limit: fmt.Sprintf("%d bytes", limit), Message: fmt.Sprintf("%s has more than %d bytes", path, limit)}
	}
	return b, nil
}

// issuesOf are a pack's issues, and the keys in it.
func issuesOf(p *packfile.Pack, schema string) []string {
	out := p.Issues(schema)
	for _, f := range kindpack.Secrets(p) {
		if !f.Warning {
			out = append(out, f.Message)
		}
	}
	return out
}

// packBuilt is what `agon pack build` says.
type packBuilt struct {
	Path   string   `json:"path"`
	Hash   string   `json:"hash"`
	Size   int      `json:"size"`
	Limit  int      `json:"limit"`
	Files  []string `json:"files"`
	Passed bool     `json:"passed"`
	Issues []string `json:"issues"`
}

func (a commands) packBuildCmd() *cobra.Command {
	var o packfile.BuildOptions
	var agents, soul, skill, out string
	var extra []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "build (--agents-md FILE | --skill-md FILE) [-o PACK]",
		Short: "Build a pack from a policy",
		Long: `Build a pack from AGENTS.md (a file, or the text itself), or from SKILL.md for arenas of the
schema s1. The pack is written even where it would be refused; the issues are listed, and
the exit code is 7 then. Here -o names the file, as miners know it; --json prints
{path, hash, size, limit, files, passed, issues}.`,
		Example: "  agon pack build --agents-md ./AGENTS.md -o pack.json\n  agon pack build --agents-md AGENTS.md --file skills/lookup.md --stop 'max_turns: 8'",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (agents == "") == (skill == "") {
				return output.Usage("agents-md", "give --agents-md FILE, or --skill-md FILE for the schema s1", "one policy is needed")
			}
			var p *packfile.Pack
			schema := packfile.SchemaOPP
			if skill != "" {
				text, err := fileOrText(skill)
				if err != nil {
					return err
				}
				p, schema = packfile.BuildS1(text), packfile.SchemaS1
			} else {
				var err error
				if o.Policy, err = fileOrText(agents); err != nil {
					return err
				}
				if soul != "" {
					if o.Soul, err = fileOrText(soul); err != nil {
						return err
					}
				}
				o.Files = map[string]string{}
				for _, f := range extra {
					name, from, ok := strings.Cut(f, "=")
					if !ok {
						name, from = filepath.ToSlash(f), f
					}
					b, err := readSome(from, packfile.MaxBytes)
					if err != nil {
						return err
					}
					o.Files[name] = string(b)
				}
				p = packfile.Build(o)
			}
			if err := cli.WriteFile(out, append(p.Value.Plain(), '\n')); err != nil {
				return err
			}
			r := packBuilt{Path: out, Hash: p.Hash, Size: len(p.Canonical), Limit: packfile.MaxPack, Files: p.Files(), Issues: issuesOf(p, schema)}
			r.Passed = len(r.Issues) == 0
			if asJSON {
				if err := output.WriteJSON(a.IO.Out, r, a.IO.OutTTY()); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(a.IO.Out, "Pack built: %s\n  Hash:  %s\n  Size:  %d bytes (limit: %d)\n  Files: %s\n  Schema: %s\n",
					plainText(out), r.Hash, r.Size, r.Limit, packfile.Of(r.Files).PyRepr(), passed(r.Passed))
				for _, i := range r.Issues {
					fmt.Fprintf(a.IO.Out, "    - %s\n", plainText(i))
				}
			}
			if !r.Passed {
				return &cli.Exit{Code: cli.CodeRefused}
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&agents, "agents-md", "", "AGENTS.md: a `file`, or the text")
	f.StringVar(&soul, "soul-md", "", "SOUL.md: a `file`, or the text")
	f.StringVar(&skill, "skill-md", "", "SKILL.md: a `file`, or the text (schema s1)")
	f.StringArrayVar(&extra, "file", nil, "another file: `NAME=PATH`, or PATH")
	f.StringVar(&o.Name, "pack-name", "", "`name` of the pack (my-pack)")
	f.StringVar(&o.Version, "pack-version", "", "`version` of the pack (1.0.0)")
	f.StringSliceVar(&o.Allow, "allow", nil, "`tools` to allow")
	f.StringSliceVar(&o.Deny, "deny", nil, "`tools` to deny")
	f.StringArrayVar(&o.Stop, "stop", nil, "a stop `rule`; \"max_turns: 8\" and \"max_tool_calls: 20\" are kept by the agent itself")
	f.StringVarP(&out, "output", "o", "pack.json", "write the pack to this `file`")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func plainText(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return '·'
		}
		return r
	}, strings.ToValidUTF8(s, "\ufffd"))
}

func passed(ok bool) string {
	if ok {
		return "PASSED"
	}
	return "FAILED"
}

// fileOrText reads a file where there is one of that name; a text with a line
// break or a blank is meant as itself.
func fileOrText(s string) (string, error) {
	if _, err := os.Stat(s); err != nil && (strings.ContainsAny(s, " \n#") || s == "") {
		return s, nil
	}
	b, err := readSome(s, packfile.MaxBytes)
	return string(b), err
}

// packChecked is what `agon pack check` says.
type packChecked struct {
	Passed bool     `json:"passed"`
	Issues []string `json:"issues"`
	Hash   string   `json:"hash"`
	Size   int      `json:"size"`
}

func (a commands) packCheckCmd() *cobra.Command {
	var schema string
	cmd := &cobra.Command{
		Use:     "check PACK",
		Aliases: []string{"validate"},
		Short:   "Say everything that is wrong with a pack",
		Long: `Check a pack against its schema: opp-v1 (AGENTS.md), s1 (SKILL.md), or any of the two, and for
keys that would be public with it.
JSON: {passed, issues, hash, size}. Exit code 7 if it fails.`,
		Example: "  agon pack check pack.json\n  agon pack check pack.json --schema s1 -o json",
		Args:    cli.Args(1, 1, "one pack"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSchema(schema); err != nil {
				return err
			}
			var r packChecked
			p, err := readPackFile(args[0])
			var e *agon.Error
			switch {
			case err == nil:
				r = packChecked{Issues: issuesOf(p, schema), Hash: p.Hash, Size: len(p.Canonical)}
			case errors.As(err, &e) && (e.Code == "not_json" || e.Code == "not_utf8" || e.Code == "too_large"):
				r.Issues = []string{e.Message}
			default:
				return err
			}
			r.Passed = len(r.Issues) == 0
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: r, IDs: []string{r.Hash}, Human: func(h *output.Human) {
				h.Line("Pack: %s", args[0])
				h.Line("  Hash:    %s", r.Hash)
				h.Line("  Size:    %d bytes (limit: %d)", r.Size, packfile.MaxPack)
				if p != nil {
					meta := p.Value.Get("metadata")
					h.Line("  Name:    %s", meta.Get("pack_name").Text())
					h.Line("  Version: %s", meta.Get("pack_version").Text())
					h.Line("  Files:   %s", packfile.Of(p.Files()).PyRepr())
				}
				h.Line("  Schema:  %s", passed(r.Passed))
				for _, i := range r.Issues {
					h.Line("    - %s", i)
				}
			}}); err != nil {
				return err
			}
			if !r.Passed {
				return &cli.Exit{Code: cli.CodeRefused}
			}
			return nil
		},
	}
	schemaFlag(cmd, &schema, packfile.SchemaAny)
	return cmd
}

func schemaFlag(cmd *cobra.Command, to *string, def string) {
	cmd.Flags().StringVar(to, "schema", def, "any, opp-v1 or s1")
	cli.Register(cmd, "schema", packfile.SchemaAny, packfile.SchemaOPP, packfile.SchemaS1)
}

func checkSchema(schema string) error {
	switch schema {
	case packfile.SchemaOPP, packfile.SchemaS1, packfile.SchemaAny:
		return nil
	}
	return output.Usage("schema", "use opp-v1, s1 or any", "--schema %q is not known", schema)
}

func (a commands) packLintCmd() *cobra.Command {
	var schema string
	cmd := &cobra.Command{
		Use:   "lint PACK",
		Short: "Warn of what an arena may hold against a sound pack",
		Long: `Warn of plain signs of gaming, which exclude a pack, and of waste. JSON: an array of
{code, field, message, warning}. Exit code 7 if an arena would refuse or exclude the pack.`,
		Example: "  agon pack lint pack.json",
		Args:    cli.Args(1, 1, "one pack"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSchema(schema); err != nil {
				return err
			}
			p, err := readPackFile(args[0])
			if err != nil {
				return err
			}
			var list []agon.Finding
			for _, i := range p.Issues(schema) {
				list = append(list, agon.Finding{Code: "schema", Field: kindpack.File, Message: i})
			}
			list = append(list, kindpack.Secrets(p)...)
			refused := kindpack.Refuses(kindpack.Signs(p)) || slices.ContainsFunc(list, func(f agon.Finding) bool { return !f.Warning })
			list = append(list, kindpack.Lint(p)...)
			if err := a.Printer.Print(cmd.Context(), output.List(list, func(f agon.Finding) string { return f.Code }, func(h *output.Human) {
				if len(list) == 0 {
					h.Line("nothing to say")
				}
				for _, f := range list {
					h.Line("%s: %s", f.Code, f.Message)
				}
			})); err != nil {
				return err
			}
			if refused {
				return &cli.Exit{Code: cli.CodeRefused}
			}
			return nil
		},
	}
	schemaFlag(cmd, &schema, packfile.SchemaAny)
	return cmd
}

// packSimilarity is what `agon pack similarity` says.
type packSimilarity struct {
	Similarity float64      `json:"similarity"`
	AB         float64      `json:"ncd_ab"`
	BA         float64      `json:"ncd_ba"`
	Excluded   bool         `json:"excluded"`
	Measures   ncd.Measures `json:"measures"`
	Sizes      [3]int       `json:"sizes"`
}

func (a commands) packSimilarityCmd() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "similarity EARLIER LATER",
		Short: "Say how much a later pack copies an earlier one",
		Long: `Compare the policies of two packs as validators do: normalised, by compression distance
with zlib at level 9. From a similarity of 0.80 on the later one is excluded. The further
measures see what the distance does not: replaced words, swapped halves, long texts, other files.
JSON: {similarity, ncd_ab, ncd_ba, excluded, measures{ncd, reverse, shingles, words, files}, sizes}.`,
		Example: "  agon pack similarity theirs.json mine.json\n  agon pack similarity a.json b.json --strict",
		Args:    cli.Args(2, 2, "two packs"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var packs [2]*packfile.Pack
			var text [2]string
			for i, path := range args {
				p, err := readPackFile(path)
				if err != nil {
					return err
				}
				var ok bool
				if text[i], ok = p.Policy(); !ok {
					return &agon.Error{Code: "no_policy", Status: 422, Field: path, Message: path + " has no AGENTS.md or SKILL.md"}
				}
				packs[i] = p
			}
			c := ncd.NewComparer()
			defer c.Close()
			s := c.Sizes(c.Prepare(text[0]), c.Prepare(text[1]))
			m := c.Measure(text[0], text[1], kindpack.Texts(packs[0]), kindpack.Texts(packs[1]))
			r := packSimilarity{Similarity: m.NCD, AB: 1 - m.NCD, BA: 1 - m.Reverse, Measures: m, Sizes: [3]int{s.A, s.B, s.AB}}
			r.Excluded = r.Similarity >= ncd.NCDThreshold || packs[0].Hash == packs[1].Hash
			if why, _ := kindpack.StrictCopy(c, packs[0], packs[1]); strict && why != "" {
				r.Excluded = true
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: func(h *output.Human) {
				h.Fields([2]string{"similarity", fmt.Sprintf("%.4f (excluded from %.2f)", r.Similarity, ncd.NCDThreshold)},
					[2]string{"excluded", cli.Yes(r.Excluded)},
					[2]string{"other way", fmt.Sprintf("%.4f", m.Reverse)},
					[2]string{"shingles", fmt.Sprintf("%.4f (strict: %.2f)", m.Shingles, ncd.ShinglesThreshold)},
					[2]string{"words", fmt.Sprintf("%.4f (strict: %.2f)", m.Words, ncd.WordsThreshold)},
					[2]string{"files", fmt.Sprintf("%.4f (strict: %.2f)", m.Files, ncd.FilesThreshold)})
			}})
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "exclude by the further measures too")
	return cmd
}

// MockToolsOptions is `agon tools mock`.
type MockToolsOptions struct {
	cli.Common
	Fixtures, Workspace, Logs, Scenario, Listen string
}

func (a commands) toolsCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "tools", Short: "Tools of arenas on their own", Example: "  agon tools mock --fixtures ./fixtures",
		Args: a.NoSubcommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var o MockToolsOptions
	mock := &cobra.Command{
		Use:   "mock --fixtures DIR",
		Short: "Serve the mock office tools of policy-pack scenarios",
		Long: `Serve seven office tools over fixtures (a folder per scenario): POST /tools/{name}, and for
whoever runs an evaluation /health, /tools, /tool_calls, /all_requests, /set_scenario/{name} and
/set_user_context. Nothing is executed. Reads FIXTURES_PATH, WORKSPACE_PATH, LOG_PATH and SCENARIO too.`,
		Example: "  agon tools mock --fixtures ./fixtures --listen 127.0.0.1:3001",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			for name, to := range map[string]*string{"FIXTURES_PATH": &o.Fixtures, "WORKSPACE_PATH": &o.Workspace, "LOG_PATH": &o.Logs, "SCENARIO": &o.Scenario} {
				if *to == "" {
					*to = os.Getenv(name)
				}
			}
			if o.Fixtures == "" {
				return output.Usage("fixtures", "name the folder of fixtures", "--fixtures is missing")
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			return a.work.MockTools(cmd.Context(), o)
		},
	}
	f := mock.Flags()
	f.StringVar(&o.Fixtures, "fixtures", "", "`directory` with a folder per scenario")
	f.StringVar(&o.Workspace, "workspace", "", "`directory` that the tool read sees first")
	f.StringVar(&o.Logs, "logs", "", "append the logs of calls below this `directory`")
	f.StringVar(&o.Scenario, "scenario", "", "the first `scenario` (inbox_triage)")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:3001", "`address` to listen on")
	cmd.AddCommand(mock, a.servicesCmd())
	return cmd
}

// ClawbenchImportOptions is `agon task import clawbench`.
type ClawbenchImportOptions struct {
	cli.Common
	Dir, Out string
}

func (a commands) taskImportCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use: "import", Short: "Make tasks of other benchmarks' files", Example: "  agon task import clawbench ./clawbench --out ./tasks",
		Args: a.NoSubcommand, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var o ClawbenchImportOptions
	claw := &cobra.Command{
		Use:   "clawbench DIR",
		Short: "Make tasks of ClawBench's scenarios and fixtures",
		Long: `Make a task of each scenario in DIR/scenarios/*.yaml with DIR/fixtures/. The files are taken as
they are. JSON: an array of {task, kind, difficulty, title}.`,
		Example: "  agon task import clawbench ./clawbench --out ./office",
		Args:    cli.Args(1, 1, "a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common, o.Dir = common, args[0]
			list, err := a.work.Import(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.Printer.Print(cmd.Context(), output.List(list, func(t cli.TaskInfo) string { return t.Task }, func(h *output.Human) {
				for _, t := range list {
					h.Line("%s (%s)", t.Task, t.Difficulty)
				}
			}))
		},
	}
	claw.Flags().StringVar(&o.Out, "out", "", "write the tasks below this `directory` (default: only check)")
	cmd.AddCommand(claw)
	return cmd
}
