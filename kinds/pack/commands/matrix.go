package commands

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// matrixFile is what a run of a matrix is made of, as the field's bench writes it.
type matrixFile struct {
	Name  string `yaml:"run_name"`
	Model struct {
		Name   string `yaml:"name"`
		URL    string `yaml:"base_url"`
		KeyEnv string `yaml:"api_key_env"`
	} `yaml:"model"`
	Judge     string        `yaml:"judge_model"`
	Scenarios []string      `yaml:"scenarios"`
	Skills    []matrixSkill `yaml:"skills"`
	Harnesses []struct {
		Name  string `yaml:"name"`
		Image string `yaml:"image"`
	} `yaml:"harnesses"`
	Episodes int    `yaml:"episodes_per_cell"`
	Dir      string `yaml:"run_dir"`
}

// matrixSkill is a policy: its text, or a file whose digest is pinned.
type matrixSkill struct {
	Name    string `yaml:"name"`
	Content string `yaml:"content"`
	File    string `yaml:"flat_md_path"`
	Pin     string `yaml:"pin_sha256"`
}

// MatrixCell is one skill on one scenario.
type MatrixCell struct {
	Skill     string  `json:"skill"`
	SHA256    string  `json:"sha256"` // of the skill's text
	Pack      string  `json:"pack_hash"`
	Scenario  string  `json:"scenario"`
	Episodes  int     `json:"episodes"`
	Qualified int     `json:"qualified"`
	Failed    int     `json:"failed"` // episodes that failed through no fault of the skill's
	Score     float64 `json:"score"`  // mean of those that were played
	USD       float64 `json:"usd"`    // mean
	Scripted  bool    `json:"scripted"`
	Error     string  `json:"error,omitempty"`
}

// Matrix is how a run went.
type Matrix struct {
	Name   string       `json:"run_name"`
	Dir    string       `json:"dir,omitempty"`
	DryRun bool         `json:"dry_run,omitempty"`
	Cells  []MatrixCell `json:"cells"`
}

const maxEpisodes = 1000

var plainName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func badMatrix(field, format string, args ...any) error {
	return &agon.Error{Code: "bad_field", Status: 422, Field: field, Message: "the matrix: " + field + ": " + fmt.Sprintf(format, args...)}
}

// readMatrix reads and checks a run, with the text of each skill; files are read beside it.
func readMatrix(path string) (*matrixFile, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the matrix: %w", err)
	}
	var f matrixFile
	d := yaml.NewDecoder(bytes.NewReader(b))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		return nil, &agon.Error{Code: "bad_field", Status: 422, Field: "matrix", Message: "the matrix is not a YAML file of this form: " + err.Error()}
	}
	if f.Episodes == 0 {
		f.Episodes = 1
	}
	switch {
	case !plainName().MatchString(f.Name):
		return nil, badMatrix("run_name", "want letters, digits, points and dashes, at most 64")
	case len(f.Skills) == 0:
		return nil, badMatrix("skills", "name at least one")
	case f.Episodes < 1 || f.Episodes > maxEpisodes:
		return nil, badMatrix("episodes_per_cell", "want 1 to %d", maxEpisodes)
	}
	for _, h := range f.Harnesses {
		if h.Name != "agon" || h.Image != "" {
			return nil, badMatrix("harnesses", "%q is not one: episodes are played by agon's own agent, name it agon and give no image", h.Name)
		}
	}
	seen := map[string]bool{}
	for i := range f.Skills {
		s := &f.Skills[i]
		switch {
		case !plainName().MatchString(s.Name) || seen[s.Name]:
			return nil, badMatrix("skills", "%q: names are letters, digits, points and dashes, each once", s.Name)
		case (s.Content == "") == (s.File == ""):
			return nil, badMatrix("skills", "%s: give content or flat_md_path", s.Name)
		case s.File != "" && s.Pin == "":
			return nil, badMatrix("skills", "%s: a file needs pin_sha256", s.Name)
		}
		seen[s.Name] = true
		if s.File != "" {
			at := s.File
			if !filepath.IsAbs(at) {
				at = filepath.Join(filepath.Dir(path), at)
			}
			text, err := os.ReadFile(at)
			if err != nil {
				return nil, fmt.Errorf("read skill %s: %w", s.Name, err)
			}
			s.Content = string(text)
		}
		if got := digestOf(s.Content); s.Pin != "" && got != s.Pin {
			return nil, &agon.Error{Code: "bad_digest", Status: 422, Field: "skills", Message: fmt.Sprintf("skill %s has the digest %s, pinned is %.64s: nothing is played", s.Name, got, s.Pin), Mend: "take the file that was pinned, or pin this one after you have read it"}
		}
		if is := packfile.BuildS1(s.Content).Issues(packfile.SchemaS1); len(is) > 0 {
			return nil, badMatrix("skills", "%s: %s", s.Name, is[0])
		}
	}
	return &f, nil
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (a commands) packMatrixCmd() *cobra.Command {
	var o EpisodeOptions
	var dry bool
	cmd := &cobra.Command{
		Use:   "matrix RUN.yaml",
		Short: "Play skills against scenarios, each pinned by its digest",
		Long: `Play each skill of a YAML file on each of its scenarios, as often as it says, and write every
episode and matrix.json below its run_dir:

  run_name: july                 model: {name: M}     # the one that AGON_LLM_MODEL names
  scenarios: [inbox, standup]                         # none: all
  skills: [{name: mine, content: "…"}, {name: theirs, flat_md_path: theirs.md, pin_sha256: …}]
  harnesses: [{name: agon}]      episodes_per_cell: 4     run_dir: runs

A skill whose digest is not the pinned one ends the command before anything is played. An
episode that fails through our fault or the provider's counts as failed and is in no mean.
JSON: {run_name, dir, cells[{skill, sha256, pack_hash, scenario, episodes, qualified, failed,
score, usd, scripted, error}]}. Exit codes: 0 all were played, 3 some failed, 7 refused.`,
		Example: "  agon pack matrix run.yaml --dry-run\n  agon pack matrix run.yaml -o json",
		Args:    cli.Args(1, 1, "a YAML file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := readMatrix(args[0])
			if err != nil {
				return err
			}
			for want, name := range map[string]string{f.Model.Name: "AGON_LLM_MODEL", f.Model.URL: "AGON_LLM_BASE_URL"} {
				if want != "" && a.Env.Getenv(name) != want {
					return &agon.Error{Code: "bad_field", Status: 422, Field: "model", Message: fmt.Sprintf("the matrix wants %s=%s, this machine has %q", name, want, a.Env.Getenv(name)), Mend: "set " + name + ", and the key beside it"}
				}
			}
			names, err := a.work.Scenarios(o.Scenarios)
			if err != nil {
				return err
			}
			if len(f.Scenarios) == 0 {
				f.Scenarios = names
			}
			for _, s := range f.Scenarios {
				if !slices.Contains(names, s) {
					return badMatrix("scenarios", "%q is not one of %v", s, names)
				}
			}
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			o.Common = common
			m, err := a.playMatrix(cmd.Context(), f, o, dry)
			if err != nil {
				return err
			}
			done()
			failed := false
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: m, Human: func(h *output.Human) {
				var rows [][]output.Cell
				for _, c := range m.Cells {
					rows = append(rows, []output.Cell{output.Text(c.Skill), output.Text(c.Scenario), output.Text(fmt.Sprintf("%d/%d", c.Qualified, c.Episodes-c.Failed)), output.Text(fmt.Sprintf("%.4f", c.Score)), output.Text(fmt.Sprintf("$%.6f", c.USD)), output.Text(c.Error)})
				}
				h.Table([]output.Column{{Title: "skill"}, {Title: "scenario"}, {Title: "qualified"}, {Title: "score", Right: true}, {Title: "cost", Right: true}, {Title: "error"}}, rows)
			}}); err != nil {
				return err
			}
			for _, c := range m.Cells {
				failed = failed || c.Failed > 0
			}
			if failed {
				return &cli.Exit{Code: cli.CodePartly}
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&dry, "dry-run", false, "only check the file and say what would be played")
	fl.StringVar(&o.Scenarios, "scenarios", "", "`directory` with scenarios/ and fixtures/")
	fl.DurationVar(&o.Timeout, "timeout", 0, "end each agent after this `time`")
	cli.DriverFlag(cmd, &o.Driver)
	return cmd
}

// playMatrix plays cell after cell. What was played is on disk before the next begins.
func (a commands) playMatrix(ctx context.Context, f *matrixFile, o EpisodeOptions, dry bool) (*Matrix, error) {
	m := &Matrix{Name: f.Name, DryRun: dry, Cells: []MatrixCell{}}
	if !dry {
		m.Dir = filepath.Join(f.Dir, f.Name)
		if err := os.MkdirAll(m.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("make the run's folder: %w", err)
		}
	}
	put := func(name string, v any) error {
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return fmt.Errorf("encode %s: %w", name, err)
		}
		return cli.WriteFile(filepath.Join(m.Dir, name), append(b, '\n'))
	}
	for _, s := range f.Skills {
		p := packfile.BuildS1(s.Content)
		if !dry {
			o.Pack = filepath.Join(m.Dir, s.Name+".pack.json")
			if err := cli.WriteFile(o.Pack, p.Canonical); err != nil {
				return nil, err
			}
		}
		for _, sc := range f.Scenarios {
			c := MatrixCell{Skill: s.Name, SHA256: digestOf(s.Content), Pack: p.Hash, Scenario: sc, Episodes: f.Episodes}
			for i := 0; i < f.Episodes && !dry; i++ {
				o.Scenario, o.Seed = sc, int64(i) // every skill meets the same contexts
				e, err := a.work.Episode(ctx, o)
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				if err != nil {
					c.Failed, c.Error = c.Failed+1, err.Error()
					continue
				}
				c.Score, c.Scripted = c.Score+e.Score, e.Scripted
				if e.Qualified {
					c.Qualified++
				}
				if e.Cost != nil {
					c.USD += e.Cost.USD
				}
				if err := put(fmt.Sprintf("%s_%s_%d.json", s.Name, sc, i+1), e); err != nil {
					return nil, err
				}
			}
			if played := float64(c.Episodes - c.Failed); played > 0 {
				c.Score, c.USD = c.Score/played, c.USD/played
			}
			m.Cells = append(m.Cells, c)
			if !dry {
				if err := put("matrix.json", m); err != nil {
					return nil, err
				}
			}
		}
	}
	return m, nil
}
