// Package pack is the kind of policy-pack arenas: miners enter the prompt, tool
// rules and stop rules of a fixed agent, which does office work with mock
// tools. A judge reads what it did; the cheapest pack that does everything
// safely and correctly holds the seat.
package play

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/ncd"
	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// Name of the kind.
const Name = "pack"

// File is the only file of a submission.
const File = "pack.json"

// The names of the grading code; the judge's version is added. A model's verdict stands beside
// what the checks know (overruled) since the second.
const (
	scorer        = "pack-1"
	scorerByModel = "pack-2"
)

// Config is what the kind needs to know of this host.
type Config struct {
	// Rootfs is the directory of the root file system of boxes, with python3.
	// Only Play needs it.
	Rootfs string
	// Judge reads packs and trajectories; nil means CheckJudge, which needs no model.
	Judge Judge
	// Context says for whom the agent works; nil: who the run's seed gives.
	Context func(r agon.RunSpec) packfile.Context
}

// Kind implements kind.Kind for policy-pack arenas.
type Kind struct {
	cfg Config

	mu    sync.Mutex // guards below
	comp  *ncd.Comparer
	texts map[agon.Digest]*ncd.Text
}

var (
	_ kind.Kind    = (*Kind)(nil)
	_ kind.Gater   = (*Kind)(nil)
	_ kind.Chooser = (*Kind)(nil)
)

// New returns the kind.
func New(cfg Config) *Kind {
	if cfg.Judge == nil {
		cfg.Judge = CheckJudge{}
	}
	if cfg.Context == nil {
		cfg.Context = func(r agon.RunSpec) packfile.Context { return packfile.NewContext(uint64(r.Seed)) }
	}
	return &Kind{cfg: cfg, texts: map[agon.Digest]*ncd.Text{}}
}

// Name returns "pack".
func (k *Kind) Name() string { return Name }

// Prints implements kind.Printed: judges read the episode.
func (k *Kind) Prints(path string) bool { return path == FileLog }

// Scorer names the grading code and the judge.
func (k *Kind) Scorer() string {
	name := scorerByModel
	if _, checks := k.cfg.Judge.(CheckJudge); checks {
		name = scorer
	}
	return name + "+" + k.cfg.Judge.Version()
}

// Dialects implements kind.Speaker: models, and nothing else. The office tools
// are the kind's own, behind another door.
func (k *Kind) Dialects() []string { return []string{gateway.DialectOpenAI} }

// Options of an arena.
const (
	OptionSchema = "schema" // pack.Schema*: which packs may be entered
	OptionCopies = "copies" // CopiesNCD or CopiesStrict
	// OptionBootstrap "on" pays the three cheapest while few mine, where validators
	// agree without a platform (consensus.NodeConfig.Bootstrap).
	OptionBootstrap = "bootstrap"
	// OptionEpochs "on" opens one submission after the other for the scores of the
	// field's validators (package epochs), beside the arena's own seat.
	OptionEpochs = "epochs"
	// OptionPayloads PayloadsOpen counts payloads that nobody promised before, as other
	// implementations' validators publish them, where validators agree without a platform.
	OptionPayloads = "payloads"
	PayloadsSealed = "sealed"
	PayloadsOpen   = "open"
	// CopiesNCD excludes by compression distance alone, as other validators do.
	CopiesNCD = "ncd"
	// CopiesStrict excludes by copycat's stricter measures too.
	CopiesStrict = "strict"
)

// Options implements kind.Chooser.
func (k *Kind) Options() map[string][]string {
	return map[string][]string{OptionSchema: {packfile.SchemaAny, packfile.SchemaOPP, packfile.SchemaS1}, OptionCopies: {CopiesNCD, CopiesStrict}, OptionBootstrap: {"off", "on"}, OptionEpochs: {"off", "on"}, OptionPayloads: {PayloadsSealed, PayloadsOpen}}
}

// Schema is that of an arena's packs.
func Schema(a *agon.Arena) string {
	if a != nil && a.Options[OptionSchema] != "" {
		return a.Options[OptionSchema]
	}
	return packfile.SchemaAny
}

// Check decides whether files hold one sound pack.
func (k *Kind) Check(_ context.Context, a *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	p, findings, err := readPack(files)
	if err != nil || p == nil {
		return findings, err
	}
	for _, issue := range p.Issues(Schema(a)) {
		findings = append(findings, agon.Finding{Code: "schema", Field: File, Message: issue})
	}
	return append(findings, append(Secrets(p), Lint(p)...)...), nil
}

// readPack reads the only file of a submission. p is nil where findings say why not.
func readPack(files fs.FS) (p *packfile.Pack, findings []agon.Finding, err error) {
	list, err := fs.ReadDir(files, ".")
	if err != nil {
		return nil, nil, fmt.Errorf("read submission: %w", err)
	}
	for _, e := range list {
		if e.Name() != File {
			findings = append(findings, agon.Finding{Code: "extra_file", Field: plain.Short(e.Name(), 120), Limit: "1 file", Message: "only " + File + " may be entered"})
		}
		if len(findings) >= 10 {
			break
		}
	}
	b, err := clawbench.ReadFile(files, File, packfile.MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, append(findings, agon.Finding{Code: "no_pack", Field: File, Message: File + " is missing"}), nil
	case err != nil:
		return nil, append(findings, agon.Finding{Code: "bad_file", Field: File, Limit: fmt.Sprintf("%d bytes", packfile.MaxBytes), Message: plain.Short(err.Error(), 300)}), nil
	}
	p, err = packfile.Read(b)
	var e *agon.Error
	if errors.As(err, &e) {
		return nil, append(findings, agon.Finding{Code: e.Code, Field: File, Limit: e.Limit, Message: e.Message}), nil
	}
	return p, findings, err
}

// Plan plays one scenario after the other, the hardest first as the arena
// lists them, and stops at the first that does not qualify.
func (k *Kind) Plan(v agon.View) (agon.Plan, error) {
	if len(v.Arena.Tasks) == 0 {
		return agon.Plan{}, errors.New("plan: the arena has no scenario")
	}
	for i, t := range v.Arena.Tasks {
		state, solved := "", false
		for _, r := range v.Runs {
			if len(r.Tasks) != 1 || r.Tasks[0].Key != t.Key {
				continue
			}
			if state == string(agon.RunScored) {
				continue // the first result stands
			}
			state = string(r.State)
			if !r.State.Final() {
				return agon.Plan{Why: "scenario " + t.Key + " is under way"}, nil
			}
			for _, s := range r.Scores {
				solved = solved || s.Solved
			}
		}
		switch {
		case state == "":
			return agon.Plan{
				Runs: []agon.RunSpec{{Arena: v.Arena.ID, Tasks: []agon.TaskRef{t}, Policy: v.Arena.Policy}},
				Why:  fmt.Sprintf("scenario %d of %d: %s", i+1, len(v.Arena.Tasks), t.Key),
			}, nil
		case !solved:
			return agon.Plan{Done: true, Why: fmt.Sprintf("%s is not qualified: the other %d scenarios are not played", t.Key, len(v.Arena.Tasks)-i-1)}, nil
		}
	}
	return agon.Plan{Done: true, Why: "every scenario is qualified"}, nil
}

// Paths of a scenario's tree.
const (
	ScenarioFile = "tests/scenario.yaml" // what it asks and how it is judged
	fixturesDir  = "environment/fixtures"
)

// CheckTask says what is wrong with a task of the kind.
func CheckTask(t *task.Task) error {
	return task.Form{Files: []string{ScenarioFile}, Limit: clawbench.MaxScenario}.Check(t)
}

// scenario is a task of the kind, opened.
type scenario struct {
	*clawbench.Scenario
	root *os.Root
}

func openScenario(t *task.Task) (*scenario, error) {
	root, err := os.OpenRoot(t.Dir)
	if err != nil {
		return nil, fmt.Errorf("open task %s: %w", t.Key, err)
	}
	b, err := clawbench.ReadFile(root.FS(), ScenarioFile, clawbench.MaxScenario)
	if err == nil {
		var s *clawbench.Scenario
		if s, err = clawbench.Parse(b); err == nil {
			return &scenario{s, root}, nil
		}
	}
	_ = root.Close()
	return nil, fmt.Errorf("task %s: %w", t.Key, err)
}

func (s *scenario) close() { _ = s.root.Close() }

// fixtures is the folder of the scenario as mock tools want it: below its name.
func (s *scenario) fixtures() (fs.FS, error) {
	sub, err := fs.Sub(s.root.FS(), fixturesDir)
	if err != nil {
		return nil, fmt.Errorf("open fixtures of %s: %w", s.Name, err)
	}
	return under{s.Name, sub}, nil
}

// under shows a file system below a folder's name.
type under struct {
	name string
	fs   fs.FS
}

// Open implements fs.FS.
func (u under) Open(name string) (fs.File, error) {
	if name == u.name {
		return u.fs.Open(".")
	}
	rest, ok := strings.CutPrefix(name, u.name+"/")
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return u.fs.Open(rest)
}

// Task makes a task directory of a scenario.
func Task(set *clawbench.Set, sc *clawbench.Scenario) (map[string][]byte, error) {
	if m := set.Missing(sc); len(m) > 0 {
		return nil, fmt.Errorf("scenario %s: fixtures are missing: %s", sc.Name, strings.Join(m[:min(len(m), 5)], ", "))
	}
	yaml, err := clawbench.ReadFile(set.FS, "scenarios/"+sc.Name+".yaml", clawbench.MaxScenario)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{
		"task.toml":      []byte(taskTOML(sc)),
		"instruction.md": []byte(strings.TrimSpace(sc.Prompt) + "\n"),
		ScenarioFile:     yaml,
	}
	dir := "fixtures/" + sc.Name
	total := 0
	err = fs.WalkDir(set.FS, dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := clawbench.ReadFile(set.FS, p, clawbench.MaxFixture)
		if err != nil {
			return err
		}
		if total += len(b); total > 32<<20 || len(out) > 500 {
			return fmt.Errorf("fixtures of %s are more than 500 files or 32 MiB", sc.Name)
		}
		out[path.Join(fixturesDir, strings.TrimPrefix(p, dir+"/"))] = b
		return nil
	})
	return out, err
}

func taskTOML(sc *clawbench.Scenario) string {
	difficulty := sc.Difficulty
	if difficulty == "" {
		difficulty = "medium"
	}
	return fmt.Sprintf("version = \"1.0\"\n\n[task]\nname = %q\ndescription = %q\n\n[metadata]\ndifficulty = %q\n\n[agon]\nkind = \"pack\"\n",
		"office/"+TaskName(sc.Name), plain.Short(strings.Join(strings.Fields(sc.Description), " "), 180), plain.Short(difficulty, 40))
}

// TaskName is a scenario's name as a task may have it.
func TaskName(scenario string) string { return strings.ReplaceAll(scenario, "_", "-") }
