package pack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/commands"
	"github.com/agon-arena/agon/kinds/pack/mock"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/progress"
)

// scenarios opens a folder in ClawBench's form, or the shipped scenarios.
func scenarios(dir string) (*clawbench.Set, error) {
	if dir == "" {
		return OfficeScenarios()
	}
	s, err := clawbench.Load(os.DirFS(dir))
	if err != nil {
		return nil, &agon.Error{Code: "bad_scenarios", Status: 422, Field: "scenarios", Message: err.Error(), Mend: "a folder has scenarios/NAME.yaml and fixtures/NAME/"}
	}
	return s, nil
}

func Scenarios(dir string) ([]string, error) {
	s, err := scenarios(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, sc := range s.Scenarios {
		out = append(out, sc.Name)
	}
	return out, nil
}

func ScenarioOf(s *clawbench.Set, name string) (*clawbench.Scenario, error) {
	sc, ok := s.Get(name)
	if !ok {
		var names []string
		for _, x := range s.Scenarios {
			names = append(names, x.Name)
		}
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "scenario", Message: fmt.Sprintf("there is no scenario %q", name), Mend: "it is one of " + strings.Join(names, ", ")}
	}
	return sc, nil
}

// bench plays episodes on this machine by the validator's own player.
type bench struct {
	o      kit.Options
	set    *clawbench.Set
	kind   *kindpack.Kind
	player *kit.Player
	blobs  blob.Store
	work   string
	n      int

	judge *kindpack.ModelJudge // nil: no model judges
	most  agon.Micros          // that the next play may cost, judges and all; 0: what an arena allows
	spent agon.Micros          // by all plays, judges and all
}

// errSpent says that a play wanted more than it might cost.
var errSpent = errors.New("the budget is spent")

func newBench(ctx context.Context, o kit.Options, dir string, user map[string]string, seed int64) (_ *bench, err error) {
	b := &bench{o: o}
	if b.set, err = scenarios(dir); err != nil {
		return nil, err
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	if b.work, err = tempdir.Make("pack"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(b.work)
		}
	}()
	if b.blobs, err = blobfs.Open(filepath.Join(b.work, "blobs"), blobfs.Options{}); err != nil {
		return nil, err
	}
	p := o.Parts(root)
	c := packConfig(p)
	b.judge, _ = c.Judge.(*kindpack.ModelJudge)
	c.Context = func(agon.RunSpec) packfile.Context {
		e := packfile.NewContext(uint64(seed))
		for from, to := range map[string]*string{"USER_NAME": &e.Name, "USER_ROLE": &e.Role, "COMPANY": &e.Company} {
			if v := user[from]; v != "" {
				*to = v
			}
		}
		return e
	}
	b.kind = kindpack.New(c)
	ks := o.Kinds(root)
	ks[b.kind.Name()] = b.kind
	if b.player, err = kit.NewPlayer(ctx, o, d, root, ks, b.blobs, filepath.Join(b.work, "trees")); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *bench) close() {
	b.player.Close()
	_ = os.RemoveAll(b.work)
}

// variant makes a pack of a scenario's own policy.
func (b *bench) variant(sc *clawbench.Scenario, name string) (*packfile.Pack, error) {
	file, ok := sc.Variants[name]
	if !ok {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "variant", Message: fmt.Sprintf("scenario %s has no variant %q", sc.Name, name)}
	}
	text, err := b.set.Fixture(sc, file)
	if err != nil {
		return nil, err
	}
	return packfile.Build(packfile.BuildOptions{
		Policy: string(text), Name: sc.Name + "-" + name, Allow: append([]string{}, clawbench.Tools...), Deny: []string{"admin_*", "shell"},
	}), nil
}

func readPack(path string) (*packfile.Pack, error) {
	b, err := kit.ReadFile(path, packfile.MaxBytes)
	if err != nil {
		return nil, err
	}
	return packfile.Read(b)
}

// play plays one episode. An error is ours.
func (b *bench) play(ctx context.Context, sc *clawbench.Scenario, p *packfile.Pack, message string, timeout time.Duration) (*commands.Episode, error) {
	files, err := kindpack.Task(b.set, sc)
	if err != nil {
		return nil, err
	}
	if message != "" {
		var doc map[string]any
		if err := yaml.Unmarshal(files[kindpack.ScenarioFile], &doc); err != nil {
			return nil, fmt.Errorf("read scenario: %w", err)
		}
		doc["prompt"] = message
		if files[kindpack.ScenarioFile], err = yaml.Marshal(doc); err != nil {
			return nil, fmt.Errorf("write scenario: %w", err)
		}
		files["instruction.md"] = []byte(message + "\n")
	}
	put := func(files map[string][]byte) (agon.Digest, error) {
		var list []blob.File
		for name, c := range files {
			list = append(list, blob.File{Path: name, Content: c})
		}
		return blob.PutFiles(ctx, b.blobs, list, blob.TreeLimits{})
	}
	ref := agon.TaskRef{Key: "bench/" + kindpack.TaskName(sc.Name)}
	if ref.Digest, err = put(files); err != nil {
		return nil, err
	}
	sub := agon.Submission{ID: "bench", Arena: "bench", Name: "bench"}
	if sub.Digest, err = put(map[string][]byte{kindpack.File: p.Value.Plain()}); err != nil {
		return nil, err
	}
	f := Kit().Demo()
	a := f.Arena()
	a.ID, a.Tasks = "bench", []agon.TaskRef{ref}
	if timeout > 0 {
		a.Policy.Agent.WallMS = timeout.Milliseconds()
	}
	bound := b.bound(&a.Policy)
	b.n++
	att := b.player.Play(ctx, validator.Job{
		Run: agon.RunSpec{Run: fmt.Sprintf("bench-%d", b.n), Arena: a.ID, Tasks: a.Tasks, Policy: a.Policy}, Attempt: 1, Arena: a, Submission: sub,
	})
	for _, r := range att.Receipts {
		b.spent += r.Cost
	}
	if bound && (att.Fault.Ours() || att.Outcome == kindpack.OutcomeModel) && ctx.Err() == nil {
		return nil, errSpent // a play with less money than an arena gives fails for want of it
	}
	if att.Fault.Ours() {
		return nil, &agon.Error{Code: "failed_here", Status: 503, Fault: att.Fault, Message: "the episode failed on our side (" + string(att.Fault) + "): " + att.Reason, Mend: "try it again; agon doctor may say more"}
	}
	return b.report(sc, p, att)
}

// bound keeps a play within what is left, and reports whether that is less than an arena gives.
func (b *bench) bound(p *agon.Policy) bool {
	if b.most <= 0 {
		return false
	}
	left := b.most
	if b.judge != nil {
		full := (&kindpack.ModelJudge{}).Policy().Budget
		b.judge.Budget = agon.Budget{Micros: min(full.Micros, left/2), Calls: full.Calls}
		left -= b.judge.Budget.Micros
		if b.judge.Budget.Micros < full.Micros {
			p.Budget.Micros = min(p.Budget.Micros, left)
			return true
		}
	}
	less := left < p.Budget.Micros
	p.Budget.Micros = min(p.Budget.Micros, left)
	return less
}

func (b *bench) report(sc *clawbench.Scenario, p *packfile.Pack, att *validator.Attempt) (*commands.Episode, error) {
	out := &commands.Episode{
		Scenario: sc.Name, Hash: p.Hash, SessionKey: fmt.Sprintf("clawbench-%s-%d", sc.Name, time.Now().UnixMilli()), Raw: json.RawMessage("null"), //nolint:forbidigo // an id of a rehearsal
		CallsRaw: json.RawMessage("[]"), Requests: json.RawMessage("[]"), MS: att.Wall.Milliseconds(), Detail: att.Outcome,
		Scripted: b.o.Getenv("AGON_LLM_BASE_URL") == "",
	}
	if att.Detail != "" {
		out.Detail += ": " + att.Detail
	}
	var e kindpack.Episode
	if raw := att.Files[kindpack.FileEpisode]; raw != nil {
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("read episode: %w", err)
		}
	}
	rubric := clawbench.Grade(sc.Scoring.Checks, e.Clawbench())
	for _, c := range rubric.Checks {
		if c.Category == "safety" || c.Category == "correctness" {
			out.Total++
			if c.Passed {
				out.Passed++
			}
		}
	}
	out.Success, out.Response, out.Message, out.ToolCalls = rubric.Gate && att.Fault == agon.FaultNone, e.Response, e.Prompt, len(e.Calls)
	for to, v := range map[*json.RawMessage]any{&out.Rubric: rubric, &out.CallsRaw: e.Calls, &out.Requests: e.Requests} {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("encode episode: %w", err)
		}
		if string(raw) != "null" {
			*to = raw
		}
	}
	if e.Cost.Calls > 0 {
		out.Cost = &commands.EpisodeCost{Input: e.Cost.Input, CacheRead: e.Cost.Cached, Output: e.Cost.Output, USD: e.Cost.USD, Models: e.Cost.Models, Model: e.Cost.Models[0].Model}
	}
	out.Turns, out.Skills = e.Turns, asked(att.Files[kindpack.FileConversation])
	lower := strings.ToLower(e.Response)
	for _, w := range []string{"technical issue", "encountered an error", "unable to", "couldn't", "failed to", "try again"} {
		if strings.Contains(lower, w) {
			out.Error = "Response contains error language"
		}
	}
	for _, s := range att.Scores {
		out.Qualified, out.Score = s.Solved, s.Value
		if s.Detail != "" {
			out.Detail = s.Detail
		}
	}
	return out, nil
}

// asked are the skills that a conversation's model handed work to.
func asked(conversation []byte) (out []string) {
	for line := range bytes.Lines(conversation) {
		var turn struct {
			Message struct {
				Calls []struct {
					Function struct{ Name, Arguments string } `json:"function"`
				} `json:"tool_calls"`
			} `json:"message"`
		}
		if json.Unmarshal(line, &turn) != nil {
			continue
		}
		for _, c := range turn.Message.Calls {
			var args struct {
				Skill string `json:"skill"`
			}
			if c.Function.Name == "delegate" && json.Unmarshal([]byte(c.Function.Arguments), &args) == nil && !slices.Contains(out, args.Skill) {
				out = append(out, args.Skill)
			}
		}
	}
	return out
}

func PlayEpisode(ctx context.Context, kits kit.List, c commands.EpisodeOptions) (*commands.Episode, error) {
	if c.OpenClaw != "" {
		return openClawEpisode(ctx, kits, c)
	}
	return RunEpisode(ctx, kits.Options(c.Common, c.Driver), c)
}

// RunEpisode plays an episode of our own agent.
func RunEpisode(ctx context.Context, o kit.Options, c commands.EpisodeOptions) (*commands.Episode, error) {
	b, err := newBench(ctx, o, c.Scenarios, c.User, c.Seed)
	if err != nil {
		return nil, err
	}
	defer b.close()
	sc, err := ScenarioOf(b.set, c.Scenario)
	if err != nil {
		return nil, err
	}
	var p *packfile.Pack
	switch {
	case c.Pack != "":
		p, err = readPack(c.Pack)
	case c.Workspace != "":
		p, err = packOf(c.Workspace)
	default:
		p, err = b.variant(sc, c.Variant)
	}
	if err != nil {
		return nil, err
	}
	e, err := b.play(ctx, sc, p, c.Message, c.Timeout)
	if e != nil && c.Pack == "" && c.Workspace == "" {
		e.Variant = c.Variant
	}
	return e, err
}

// packOf makes a pack of the text files of a workspace that somebody prepared.
func packOf(dir string) (*packfile.Pack, error) {
	files := map[string]string{}
	total := 0
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := kit.ReadFile(filepath.Join(dir, filepath.FromSlash(name)), packfile.MaxBytes)
		if err != nil {
			return err
		}
		if total += len(b); total > packfile.MaxBytes {
			return &agon.Error{Code: "too_large", Status: 413, Field: "workspace", Limit: fmt.Sprintf("%d bytes", packfile.MaxBytes), Message: "the workspace is larger than a pack may be"}
		}
		files[name] = string(b)
		return nil
	})
	if err != nil {
		return nil, err
	}
	policy, ok := files[packfile.PolicyFile]
	if !ok {
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "workspace", Message: dir + " has no " + packfile.PolicyFile}
	}
	delete(files, packfile.PolicyFile)
	return packfile.Build(packfile.BuildOptions{Policy: policy, Files: files, Allow: append([]string{}, clawbench.Tools...)}), nil
}

func PlayBatch(ctx context.Context, kits kit.List, c commands.BatchOptions) (*commands.Batch, error) {
	set, err := scenarios(c.Scenarios)
	if err != nil {
		return nil, err
	}
	out := &commands.Batch{RunID: time.Now().UTC().Format("20060102_150405"), DryRun: c.DryRun, Results: []commands.BatchEntry{}} //nolint:forbidigo // an id of a rehearsal
	list := set.Scenarios
	if c.Only != "" {
		sc, err := ScenarioOf(set, c.Only)
		if err != nil {
			return nil, err
		}
		list = []*clawbench.Scenario{sc}
	}
	variants := []string{c.Variant}
	switch {
	case c.Pack != "":
		variants = []string{"pack"}
	case c.All:
		variants = []string{"baseline", "optimized"}
	}
	for _, sc := range list {
		out.Missing = append(out.Missing, set.Missing(sc)...)
	}
	if c.DryRun {
		for _, sc := range list {
			for _, v := range variants {
				out.Results = append(out.Results, commands.BatchEntry{Scenario: sc.Name, Variant: v})
			}
		}
		out.Total = len(out.Results)
		return out, nil
	}
	b, err := newBench(ctx, kits.Options(c.Common, c.Driver), c.Scenarios, c.User, c.Seed)
	if err != nil {
		return nil, err
	}
	defer b.close()
	out.Dir = filepath.Join(c.Dir, out.RunID)
	if err := os.MkdirAll(out.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("make results: %w", err)
	}
	for _, sc := range list {
		for _, v := range variants {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			var p *packfile.Pack
			if c.Pack != "" {
				p, err = readPack(c.Pack)
			} else {
				p, err = b.variant(sc, v)
			}
			if err != nil {
				return nil, err
			}
			e, err := b.play(ctx, sc, p, "", c.Timeout)
			row := commands.BatchEntry{Scenario: sc.Name, Variant: v}
			var ours *agon.Error
			switch {
			case errors.As(err, &ours):
				row.Error = ours.Message
			case err != nil:
				return nil, err
			default:
				e.Variant = v
				row = commands.BatchEntry{Scenario: sc.Name, Variant: v, Success: e.Success, Qualified: e.Qualified, Score: e.Score, Checks: fmt.Sprintf("%d/%d", e.Passed, e.Total), ToolCalls: e.ToolCalls, MS: e.MS, Error: e.Error}
				if e.Cost != nil {
					row.USD = e.Cost.USD
				}
				if e.Success {
					out.Passed++
				}
				if err := writeEpisode(out.Dir, sc.Name+"_"+v, e); err != nil {
					return nil, err
				}
			}
			out.USD += row.USD
			out.Results = append(out.Results, row)
			b.o.Show(progress.State{Label: "playing", Total: len(list) * len(variants), Done: len(out.Results)})
		}
	}
	out.Total = len(out.Results)
	return out, writeSummary(out)
}

func writeEpisode(dir, name string, e *commands.Episode) error {
	raw, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("encode episode: %w", err)
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, name+".json"), append(raw, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, name+"_response.md"), []byte(e.Response+"\n"), 0o644))
}

func writeSummary(b *commands.Batch) error {
	var md strings.Builder
	fmt.Fprintf(&md, "# Batch %s\n\n%d of %d episodes passed, $%.6f\n\n| scenario | variant | qualified | checks | calls | cost |\n|---|---|---|---|---|---|\n", b.RunID, b.Passed, b.Total, b.USD)
	for _, r := range b.Results {
		fmt.Fprintf(&md, "| %s | %s | %t | %s | %d | $%.6f |\n", r.Scenario, r.Variant, r.Qualified, r.Checks, r.ToolCalls, r.USD)
	}
	raw, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("encode summary: %w", err)
	}
	return errors.Join(os.WriteFile(filepath.Join(b.Dir, "summary.json"), append(raw, '\n'), 0o644), os.WriteFile(filepath.Join(b.Dir, "summary.md"), []byte(md.String()), 0o644))
}

// MockTools is `agon tools mock`.
func MockTools(ctx context.Context, kits kit.List, c commands.MockToolsOptions) error {
	o := kits.Options(c.Common, "")
	conf := mock.Config{Fixtures: os.DirFS(c.Fixtures), Scenario: c.Scenario, Slog: o.Log}
	if c.Workspace != "" {
		root, err := os.OpenRoot(c.Workspace)
		if err != nil {
			return &agon.Error{Code: "not_found", Status: 404, Field: "workspace", Message: err.Error()}
		}
		defer func() { _ = root.Close() }()
		conf.Workspace = root.FS()
	}
	if c.Logs != "" {
		if err := os.MkdirAll(c.Logs, 0o755); err != nil {
			return fmt.Errorf("make logs: %w", err)
		}
		var mu sync.Mutex
		conf.Log = func(name string, line []byte) error {
			mu.Lock()
			defer mu.Unlock()
			f, err := os.OpenFile(filepath.Join(c.Logs, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			if err != nil {
				return err
			}
			_, err = f.Write(line)
			return errors.Join(err, f.Close())
		}
	}
	if _, err := os.Stat(c.Fixtures); err != nil {
		return &agon.Error{Code: "not_found", Status: 404, Field: "fixtures", Message: err.Error()}
	}
	s, err := mock.New(conf)
	if err != nil {
		return &agon.Error{Code: "bad_fixtures", Status: 422, Field: "fixtures", Message: err.Error()}
	}
	ln, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return &agon.Error{Code: "listen", Status: 422, Field: "listen", Message: err.Error(), Mend: "choose another --listen"}
	}
	o.Sayf("mock tools serve on http://%s", ln.Addr())
	srv := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve mock tools: %w", err)
	}
	return nil
}

// ImportClawbench is `agon task import clawbench`.
func ImportClawbench(_ context.Context, c commands.ClawbenchImportOptions) ([]cli.TaskInfo, error) {
	s, err := scenarios(c.Dir)
	if err != nil {
		return nil, err
	}
	list, err := ScenarioTasks(s, "clawbench")
	if err != nil {
		return nil, &agon.Error{Code: "bad_scenarios", Status: 422, Field: "dir", Message: err.Error()}
	}
	if c.Out != "" {
		if err := MaterialiseTasks(list, c.Out); err != nil {
			return nil, err
		}
	}
	var out []cli.TaskInfo
	for _, t := range list {
		out = append(out, cli.TaskInfo{Task: t.Key, Kind: kindpack.Name, Difficulty: t.Config.Metadata.Difficulty, Available: true, Title: t.Config.Task.Description})
	}
	return out, nil
}

// MaterialiseTasks writes tasks as a set of directories.
func MaterialiseTasks(list []*task.Task, dir string) error {
	for _, t := range list {
		_, name, _ := strings.Cut(t.Key, "/")
		if err := task.Materialise(t, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
