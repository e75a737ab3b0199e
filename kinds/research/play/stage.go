package play

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/research/surface"
	"github.com/agon-arena/agon/sandbox"
)

// Places inside a replay's boxes.
const (
	workspace   = "/workspace"
	hiddenMount = "/agon/hidden"   // of the benchmark only
	artMount    = "/agon/artifact" // the file "artifact" in it
	playDoor    = "127.0.0.1:8000" // of the benchmark only, where the task is isolated
)

//go:embed box/workspace.py
var workspaceScript string

// baseEnv is the environment of both stages. HOME is not in the workspace and
// user sites are off, so that setup cannot leave what the benchmark's shell or
// interpreter reads unasked. An image's own variables stand beside these.
var baseEnv = []string{
	"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC",
	"PYTHONHASHSEED=0", "PYTHONNOUSERSITE=1", "PYTHONDONTWRITEBYTECODE=1", "PIP_DISABLE_PIP_VERSION_CHECK=1",
}

// limits are the policy's, with the time that is left.
func (p *player) limits(wall time.Duration) agon.Limits {
	l := p.run.Policy.Agent
	l.WallMS = max(wall.Milliseconds(), 1)
	return l
}

// spec describes a box over a side's workspace.
func (p *player) spec(name string, x *side, wall time.Duration) sandbox.Spec {
	s := sandbox.Spec{
		Name: name, Rootfs: p.root.Dir, Env: p.root.Environ(baseEnv...), Limits: p.limits(wall), UID: p.root.UID, GID: p.root.GID,
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountScratch, Target: "/tmp"},
			{Kind: sandbox.MountOverlay, Source: p.base.dir, Target: workspace},
		},
	}
	if x.layer != nil {
		s.Mounts[1] = sandbox.Mount{Kind: sandbox.MountLayer, Layer: x.layer, Target: workspace}
	}
	if x.artifact != "" {
		s.Mounts = append(s.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: x.artifact, Target: artMount})
	}
	return s
}

// job is what workspace.py is told.
type job struct {
	Do     string          `json:"do"`
	Remove string          `json:"remove,omitempty"`
	Delete []string        `json:"delete"`
	Write  [][3]any        `json:"write"` // path, size, mode
	Files  map[string]mark `json:"files"`
	// Watch asks when each file last changed; Times says it again later.
	Watch []string         `json:"watch"`
	Times map[string]int64 `json:"times,omitempty"`
}

// told is what workspace.py says.
type told struct {
	Error   string      `json:"error"`
	Changed []string    `json:"changed"`
	Extra   [][2]string `json:"extra"`
	Times   []int64     `json:"times"` // nanoseconds, in the order of Watch
}

// scriptWall bounds our own part, which is not taken from the task's budget.
const scriptWall = 2 * time.Minute

// script runs workspace.py, before anything of a miner does in this box.
func (p *player) script(ctx context.Context, b sandbox.Box, j job, data io.Reader) (told, error) {
	var out told
	if j.Delete == nil {
		j.Delete = []string{}
	}
	if j.Write == nil {
		j.Write = [][3]any{}
	}
	if j.Watch == nil {
		j.Watch = []string{}
	}
	head, err := json.Marshal(j)
	if err != nil {
		return out, fmt.Errorf("encode workspace job: %w", err)
	}
	var stdout bytes.Buffer
	stderr := tail{limit: 4 << 10}
	x, err := b.Exec(ctx, sandbox.Cmd{
		Args: []string{p.root.Python, "-I", "-S", "-B", "-c", workspaceScript}, Dir: "/",
		Stdin: io.MultiReader(bytes.NewReader(append(head, '\n')), data), Stdout: &stdout, Stderr: &stderr, Wall: scriptWall,
	})
	switch {
	case err != nil:
		return out, fmt.Errorf("%s workspace: %w", j.Do, err)
	case x.Lost != "":
		return out, fmt.Errorf("%s workspace: command was lost: %s", j.Do, x.Lost)
	case x.Code != 0:
		return out, fmt.Errorf("%s workspace: exit %d %s: %s", j.Do, x.Code, x.Limit, plain.Short(string(stderr.bytes()), 400))
	}
	if stdout.Len() == 0 {
		return out, nil // a driver without programs
	}
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		return out, fmt.Errorf("%s workspace: %w", j.Do, err)
	}
	return out, nil
}

// apply lays a side's patch over the pristine base. watch notes when the
// protected files last changed: where that stays the same, nothing of setup has
// touched them, and verify need not read them.
func (p *player) apply(ctx context.Context, b sandbox.Box, x *side, watch bool) error {
	j := job{Do: "apply"}
	var data []io.Reader
	for _, c := range x.changes.Changes {
		if c.NewMode == 0 {
			j.Delete = append(j.Delete, c.Path)
			continue
		}
		mode := 0o644
		if c.NewMode == surface.ModeExec {
			mode = 0o755
		}
		j.Write = append(j.Write, [3]any{c.Path, len(c.Data), mode})
		data = append(data, bytes.NewReader(c.Data))
	}
	if watch {
		j.Watch = sortedKeys(p.base.protected(&p.t))
	}
	if len(j.Delete)+len(j.Write)+len(j.Watch) == 0 {
		return nil
	}
	w, err := p.script(ctx, b, j, io.MultiReader(data...))
	if err != nil {
		return err
	}
	x.times = map[string]int64{}
	for i, t := range w.Times {
		if i < len(j.Watch) {
			x.times[j.Watch[i]] = t
		}
	}
	return nil
}

// setup runs the task's setup command in a box of its own, which is dead
// before anything else starts. The workspace it leaves is the side's layer.
func (p *player) setup(ctx context.Context, x *side, obs *Observed) error {
	if p.t.SetupCommand == "" {
		if p.t.Isolate || p.run.Rival != nil {
			return p.prepare(ctx, x)
		}
		return nil // the benchmark's box takes base and patch itself
	}
	spec := p.spec("setup", x, p.budget(0))
	if p.t.Network == "setup" {
		if p.k.cfg.PackageIndex == "" {
			return errors.New("the task's setup wants a package index and this validator has none configured")
		}
		spec.Doors = []sandbox.Door{{Listen: "127.0.0.1:3141", Target: p.k.cfg.PackageIndex}}
	}
	b, err := p.env.Box(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	if err := p.apply(ctx, b, x, true); err != nil {
		return err
	}
	var env []string
	if p.t.Network == "setup" {
		env = append(env, "PIP_INDEX_URL=http://127.0.0.1:3141/simple/", "PIP_TRUSTED_HOST=127.0.0.1")
	}
	exit, _, err := p.stage(ctx, b, "setup", x, p.t.SetupCommand, env, p.budget(0))
	if err != nil {
		return err
	}
	obs.SetupMS = exit.Wall.Milliseconds()
	if e := endOf(exit); e != nil {
		return e
	}
	if exit.Code != 0 {
		return &ended{OutcomeSetup, "", fmt.Sprintf("setup ended with status %d", exit.Code)}
	}
	x.ran = true
	return x.keep(ctx, b)
}

// prepare makes the workspace of a task without setup once, for many boxes.
func (p *player) prepare(ctx context.Context, x *side) error {
	b, err := p.env.Box(ctx, p.spec("prepare", x, p.budget(0)))
	if err != nil {
		return err
	}
	defer func() { _ = b.Close() }()
	if err := p.apply(ctx, b, x, false); err != nil {
		return err
	}
	return x.keep(ctx, b)
}

// keep ends a box and keeps its workspace as the side's layer.
func (x *side) keep(ctx context.Context, b sandbox.Box) (err error) {
	if x.layer, err = b.Layer(ctx, workspace); err != nil {
		return fmt.Errorf("keep the workspace: %w", err)
	}
	return nil
}

// endOf names an end by a limit of the box.
func endOf(x sandbox.Exit) *ended {
	switch x.Limit {
	case "":
		return nil
	case "wall", "cpu":
		return &ended{agon.OutcomeTimeout, "", "the time budget is used up (" + x.Limit + ")"}
	}
	return &ended{agon.OutcomeLimit, "", "the box's limit of " + x.Limit + " was reached"}
}

// maxStageOutput is what is kept of each stream of a stage.
const maxStageOutput = 4 << 20

// stage runs one of the task's commands as the protocol does, by bash -lc, and
// logs it. In a task's image bash reads no profile: most images have one that sets
// PATH anew, and what the image says of PATH would be lost. The output comes back for parsing, before any redaction.
func (p *player) stage(ctx context.Context, b sandbox.Box, name string, x *side, command string, env []string, wall time.Duration) (sandbox.Exit, []byte, error) {
	stdout, stderr := &tail{limit: maxStageOutput}, &tail{limit: maxStageOutput}
	how := "-lc"
	if p.root.Image != "" {
		how = "-c"
	}
	exit, err := b.Exec(ctx, sandbox.Cmd{
		Args: []string{"bash", how, command}, Dir: workspace, Env: env, Stdout: stdout, Stderr: stderr, Wall: wall, Untrusted: true,
	})
	if err != nil {
		return exit, nil, fmt.Errorf("run %s: %w", name, err)
	}
	p.line(fmt.Sprintf("%s %s exit=%d wall_ms=%d %s", x.name, name, exit.Code, exit.Wall.Milliseconds(), exit.Limit))
	_, _ = p.log.Write(stdout.bytes())
	_, _ = p.log.Write(stderr.bytes())
	p.line("")
	p.env.Progress(agon.EventOutput, p.key, map[string]any{"stream": name, "text": fmt.Sprintf("%s: status %d after %d ms", x.name, exit.Code, exit.Wall.Milliseconds()), "truncated": false})
	return exit, append(append(bytes.Clone(stdout.bytes()), '\n'), stderr.bytes()...), nil
}

// benchmark runs the benchmark of a side in a fresh box and reads its metrics.
func (p *player) benchmark(ctx context.Context, x *side, seed int64, obs *Observed) (map[string]float64, error) {
	wall := p.budget(time.Duration(obs.SetupMS)*time.Millisecond + p.spent())
	if wall <= 0 {
		return nil, p.exhausted(&ended{agon.OutcomeTimeout, "", "setup has used up the time budget"})
	}
	spec := p.spec("benchmark", x, wall)
	if p.hidden != "" {
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: p.hidden, Target: hiddenMount})
	}
	p.stateful(&spec)
	var programs *programs
	if p.t.Isolate {
		var err error
		if programs, err = p.programs(ctx, x, wall); err != nil {
			return nil, err
		}
		defer func() { _ = programs.stop() }()
		spec.Doors = []sandbox.Door{programs.door()}
	}
	b, err := p.env.Box(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.Close() }()
	if x.layer == nil {
		if err := p.apply(ctx, b, x, false); err != nil {
			return nil, err
		}
	}
	if err := p.verify(ctx, b, x); err != nil {
		return nil, err
	}
	if err := p.restore(ctx, b); err != nil {
		return nil, err
	}
	from := p.k.cfg.Now()
	runs, cancel := p.resume.bound(ctx)
	defer cancel()
	exit, out, err := p.stage(runs, b, "benchmark", x, p.t.BenchmarkCommand, p.benchmarkEnv(x, seed), wall)
	if runs.Err() != nil {
		p.leave(b, p.k.cfg.Now().Sub(from))
		return nil, runs.Err()
	}
	if err == nil && programs != nil {
		err = programs.stop()
	}
	if err != nil {
		return nil, err
	}
	obs.BenchmarkMS, obs.MaxRSS = (exit.Wall + p.spent()).Milliseconds(), exit.MaxRSS
	if e := endOf(exit); e != nil {
		return nil, p.exhausted(e)
	}
	return p.metrics(b, exit, out)
}

// verify demands that whatever a patch may not change is as the base has it,
// and that setup left nothing where it must not. An old result goes.
func (p *player) verify(ctx context.Context, b sandbox.Box, x *side) error {
	j := job{Do: "verify", Remove: p.t.ResultPath, Files: p.base.protected(&p.t), Times: x.times}
	delete(j.Files, p.t.ResultPath)
	if !x.ran {
		// Only an old result must go.
		if p.t.ResultPath == "" {
			return nil
		}
		j.Files = nil
		_, err := p.script(ctx, b, j, bytes.NewReader(nil))
		return err
	}
	w, err := p.script(ctx, b, j, bytes.NewReader(nil))
	if err != nil {
		return err
	}
	if w.Error != "" {
		return &ended{agon.OutcomeOK, "workspace_too_large", w.Error}
	}
	if len(w.Changed) > 0 {
		return &ended{agon.OutcomeOK, "protected_paths_changed", "setup has changed protected files: " + list(w.Changed)}
	}
	var bad []string
	rule, code := p.t.Rule(), codeDirs(j.Files)
	for _, e := range w.Extra {
		name, kind := e[0], e[1]
		switch {
		case surface.Match(rule.Style, rule.Allowed, name) && kind == "file":
		case p.base.modes[name] != 0: // an allowed file of the base
		case kind == "other":
			bad = append(bad, name)
		case len(p.t.SetupWrites) > 0:
			if !surface.Match(rule.Style, p.t.SetupWrites, name) {
				bad = append(bad, name)
			}
		case unasked(name), shadows(name, code):
			bad = append(bad, name)
		}
	}
	if len(bad) > 0 {
		return &ended{agon.OutcomeOK, "unexpected_files", "setup has left files that the task does not expect: " + list(bad)}
	}
	return nil
}

func list(names []string) string {
	more := ""
	if n := len(names) - 8; n > 0 {
		names, more = names[:8], fmt.Sprintf(" and %d more", n)
	}
	return plain.Short(strings.Join(names, ", "), 400) + more
}

// benchmarkEnv is the private environment and what this replay gives to the
// benchmark. The names with AUTORESEARCH are those of older benchmarks.
func (p *player) benchmarkEnv(x *side, seed int64) []string {
	var env []string
	for _, k := range sortedKeys(p.priv.BenchmarkEnv) {
		if !heldoutSource(k) {
			env = append(env, k+"="+p.priv.BenchmarkEnv[k])
		}
	}
	env = append(env, fmt.Sprintf("%s=%d", SeedVar, seed))
	env = append(env, p.stateEnv()...)
	if p.hidden != "" {
		env = append(env, "AGON_HIDDEN="+hiddenMount, "AUTORESEARCH_PRIVATE_HELDOUT_ROOT="+hiddenMount, "AUTORESEARCH_PRIVATE_HELDOUT_MANIFEST="+path.Join(hiddenMount, manifestFile))
		if p.priv.BenchmarkEnv[heldoutSources] != "" {
			env = append(env, "AUTORESEARCH_HELDOUT_DATASET=validator-private-shard")
		}
	}
	if x.artifact != "" {
		env = append(env, "AUTORESEARCH_SUBMISSION_ARTIFACT_PATH="+path.Join(artMount, "artifact"), "AUTORESEARCH_SUBMISSION_ARTIFACT_URI="+x.claim.ArtifactURI,
			fmt.Sprintf("AUTORESEARCH_SUBMISSION_ARTIFACT_BYTES=%d", x.claim.ArtifactBytes))
	}
	if p.t.Isolate {
		env = append(env, "AGON_PLAY=http://"+playDoor+"/run")
	}
	return env
}

// metrics reads what the benchmark came to (spec/bitsota.md 5.2).
func (p *player) metrics(b sandbox.Box, exit sandbox.Exit, out []byte) (map[string]float64, error) {
	rejected := ""
	if m := rejectionMark().FindAllSubmatch(out, -1); len(m) > 0 {
		rejected = string(m[len(m)-1][1])
	}
	var m map[string]float64
	var raw []byte
	var err error
	if p.t.ResultPath != "" {
		var rerr error
		raw, rerr = b.ReadFile(path.Join(workspace, p.t.ResultPath), MaxResultBytes)
		switch {
		case errors.Is(rerr, sandbox.ErrNotExist):
			return nil, &ended{OutcomeNoMetric, "", "the benchmark left no result file " + p.t.ResultPath}
		case errors.Is(rerr, sandbox.ErrUnsafe):
			return nil, &ended{OutcomeNoMetric, "", fmt.Sprintf("the result file is not a regular file of at most %d bytes", MaxResultBytes)}
		case rerr != nil:
			return nil, fmt.Errorf("read result file: %w", rerr)
		}
		if m, err = parseResultFile(raw, p.t.MetricName); err != nil {
			return nil, &ended{OutcomeNoMetric, "", err.Error()}
		}
	}
	if exit.Code != 0 {
		notes := fmt.Sprintf("the benchmark ended with status %d", exit.Code)
		if rejected != "" {
			return nil, &ended{agon.OutcomeOK, rejected, "the task's benchmark rejects it: " + rejected}
		}
		return nil, &ended{OutcomeBenchmark, "", notes}
	}
	if p.t.ResultPath == "" {
		if m, err = parseResultText(out, p.t.MetricName); err != nil {
			if rejected != "" {
				return nil, &ended{agon.OutcomeOK, rejected, "the task's benchmark rejects it: " + rejected}
			}
			return nil, &ended{OutcomeNoMetric, "", err.Error()}
		}
	}
	if s := p.t.SecondaryMetricName; s != "" && p.t.RankingMode == RankPareto {
		if _, ok := m[s]; !ok {
			return nil, &ended{OutcomeNoMetric, "", "the benchmark gave no finite secondary metric " + s}
		}
	}
	if p.t.Gate != nil {
		return m, p.t.Gate.pass(raw, m)
	}
	return m, nil
}
