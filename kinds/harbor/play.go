package harbor

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
)

const (
	name = "harbor"
	// scorer is part of every score: change it whenever the same record could be
	// judged differently.
	scorer = "harbor-6"

	agentFile     = "agent.py" // the only file of a submission without agon.toml
	maxAgentBytes = 256 << 10

	// Paths in the boxes.
	agentDir    = "/agon"     // the submission; in the verifier's box, its tools
	testsDir    = "/tests"    // of the verifier
	solutionDir = "/solution" // of the oracle
	logsDir     = "/logs"
	homeDir     = "/root"

	workFile   = "work.tar" // of a record: what differs from the task's files
	outputFile = "output.txt"

	maxLog = 64 << 10         // of what the agent printed, kept as evidence
	door   = "127.0.0.1:8000" // the gateway, as seen in the box
)

// runner calls agent_main in the box.
//
//go:embed box/runner.py
var runner string

// harbor implements kind.Kind. It is stateless: the engine calls it from many
// goroutines.
type harbor struct {
	rootfs string // the machine's own tree; "" on a server that does not play
	layers string // where what set-ups leave is kept
	model  string // that this machine's gateway has first
}

func (harbor) Name() string   { return name }
func (harbor) Scorer() string { return scorer }

// Prints implements kind.Printed: verifiers read what was left.
func (harbor) Prints(path string) bool { return path == outputFile || path == setupFile }

var agentMain = lazyregexp.New(`(?m)^(?:async )?def agent_main\(`)

// Check decides whether files may be entered. It never runs them.
func (harbor) Check(ctx context.Context, a *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	if fi, err := fs.Stat(files, entryFile); err == nil && fi.Mode().IsRegular() {
		return checkDir(ctx, a.Options[optionSetup] == setupRegistries, files)
	}
	return kind.CheckOneFile(ctx, files, agentFile, maxAgentBytes, func(src []byte) []agon.Finding {
		switch {
		case len(src) > maxAgentBytes:
			return []agon.Finding{{Code: "too_large", Field: agentFile, Limit: fmt.Sprintf("%d bytes", maxAgentBytes), Message: agentFile + " is too large"}}
		case !utf8.Valid(src):
			return []agon.Finding{{Code: "not_utf8", Field: agentFile, Message: agentFile + " is not UTF-8"}}
		case !agentMain().Match(src):
			return []agon.Finding{{Code: "no_agent_main", Field: agentFile, Message: agentFile + " has no top-level function agent_main (def agent_main(input): ...)"}}
		}
		return nil
	})
}

// Plan plays each task once.
func (harbor) Plan(v agon.View) (agon.Plan, error) { return kind.EachTask(v), nil }

// Play lets the agent work through the task's steps and keeps what each left.
func (h harbor) Play(ctx context.Context, env kind.Env, sub agon.Submission, r agon.RunSpec) (agon.Record, error) {
	t, err := env.Task(ctx, r.Tasks[0])
	if err != nil {
		return agon.Record{}, err
	}
	agent, err := env.Tree(ctx, sub.Digest)
	if err != nil {
		return agon.Record{}, err
	}
	started, err := entryOf(agent)
	if err != nil {
		return agon.Record{}, err
	}
	s, err := h.stage(ctx, env, t)
	if err != nil {
		return agon.Record{}, err
	}
	defer s.close()
	rec := agon.Record{Files: map[string][]byte{}}
	var layer, script string
	if started != nil {
		if script, err = started.script(agent, s.root.Python); err != nil {
			return agon.Record{}, err
		}
	}
	if script != "" {
		layer, err = h.layer(ctx, env, t.Key, sub.Digest, agent, script, s.root)
		var bad *failedSetup
		switch {
		case errors.As(err, &bad):
			rec.Outcome, rec.Detail = bad.word, bad.detail
			rec.Files[setupFile] = bad.printed
			return rec, nil
		case err != nil:
			return agon.Record{}, err
		}
	}
	door := s.doorBeside()
	doors, err := env.Door(ctx, t.Key, door)
	if err != nil {
		return agon.Record{}, err
	}
	env.Progress("place", t.Key, s.place())
	spec := s.spec("agent", s.conf.Environment.limits(r.Policy.Agent, s.conf.Agent.TimeoutSec))
	spec.Doors = doors
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: agent, Target: agentDir, Exec: started != nil})
	spec.Env = append(spec.Env, "OPENAI_BASE_URL=http://"+door+"/v1", "OPENAI_API_KEY=unused",
		"ANTHROPIC_BASE_URL=http://"+door, "ANTHROPIC_API_KEY=unused", "GOOGLE_GEMINI_BASE_URL=http://"+door, "GEMINI_API_KEY=unused")
	if m := h.modelOf(r.Policy); m != "" {
		spec.Env = append(spec.Env, "AGON_MODEL="+m)
	}
	if layer != "" {
		mount := sandbox.MountReadOnly
		if started.Agent != "" {
			mount = sandbox.MountOverlay // its home, if it is an installed one
		}
		mountLayer(&spec, layer, mount)
	}
	work := worker{h: h, env: env, spec: r, s: s}
	work.act = func(ctx context.Context, box sandbox.Box, u turn) error {
		printed := kind.NewPrintout(maxLog / len(s.turns))
		why, detail, err := h.agent(ctx, box, s, u, started, printed)
		said := printed.Bytes()
		rec.Files[outputFile] = append(rec.Files[outputFile], said...)
		if len(said) > 0 {
			env.Progress(agon.EventOutput, t.Key, printed.Output("output"))
		}
		if err == nil && why != "" {
			err = &outcome{why, detail}
		}
		return err
	}
	work.seen = func(u turn, before listed, left []byte) {
		env.Progress(agon.EventNote, t.Key, workOf(u, before, left))
	}
	left, err := work.run(ctx, spec)
	var bad *outcome
	switch {
	case errors.As(err, &bad):
		rec.Outcome, rec.Detail = bad.word, bad.detail
		return rec, nil
	case err != nil:
		return agon.Record{}, err
	}
	rec.Outcome = agon.OutcomeOK
	for f, b := range left {
		rec.Files[f] = b
	}
	return rec, nil
}

// modelOf is a model that may be asked: the first that the arena names, else the
// first of this machine's gateway; "" where another's gateway is asked.
func (h harbor) modelOf(p agon.Policy) string {
	for _, m := range p.Models {
		if m != "*" {
			return m
		}
	}
	if p.Gateway != "" {
		return ""
	}
	return h.model
}

// outcome is an end of the agent's own making.
type outcome struct{ word, detail string }

func (o *outcome) Error() string { return o.word + ": " + o.detail }

// place says where a task is played, for the trajectory.
func (s *stage) place() map[string]any {
	m := map[string]any{"workdir": s.dir, "image": s.root.Image, "writable": s.open, "steps": len(s.conf.Steps)}
	if e := s.conf.Environment; e.NetworkMode == "public" || e.NetworkMode == "allowlist" || e.AllowInternet != nil && *e.AllowInternet {
		m["network"] = "the task asks for a network; boxes have the gateway only"
	}
	return m
}

// worker takes a box through the turns of a task.
type worker struct {
	h    harbor
	env  kind.Env
	spec agon.RunSpec
	s    *stage
	act  func(ctx context.Context, box sandbox.Box, u turn) error
	// seen is told what each turn left, as an archive, and what was there before all; may be nil.
	seen func(u turn, before listed, left []byte)
}

// run returns what each turn left, by the name of its snapshot. It ends early
// where a step's reward is below what the task wants before the next.
func (w worker) run(ctx context.Context, spec sandbox.Spec) (map[string][]byte, error) {
	s := w.s
	beside, err := w.h.sidecars(ctx, w.env, w.spec, s)
	if err != nil {
		return nil, err
	}
	defer beside.close()
	spec.Doors, spec.Hostnames = append(spec.Doors, beside.doors...), beside.names
	box, err := w.env.Box(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer box.Close()
	if err := prepare(ctx, box, names(beside.names)); err != nil {
		return nil, err
	}
	before, why, err := s.look(ctx, box, nil, 0)
	if err != nil {
		return nil, err
	}
	if why != "" {
		return nil, fmt.Errorf("task %s: %s", s.task.Key, why)
	}
	out := map[string][]byte{}
	room := maxWork
	for i, u := range s.turns {
		if err := s.ready(ctx, box, u, i == 0); err != nil {
			return nil, err
		}
		if err := w.act(ctx, box, u); err != nil {
			return nil, err
		}
		if err := s.collect(ctx, box, u); err != nil {
			return nil, err
		}
		left, why, err := s.look(ctx, box, before, room)
		if err != nil {
			return nil, err
		}
		if why != "" {
			return nil, &outcome{agon.OutcomeLimit, why}
		}
		out[u.snapshot()] = left
		if w.seen != nil {
			w.seen(u, before, left)
		}
		room -= len(left)
		if len(u.min) > 0 && i < len(s.turns)-1 {
			v, err := w.h.verify(ctx, w.env, w.spec, s, u, left)
			if err != nil {
				return nil, err
			}
			if u.reached(v.rewards) != "" {
				break
			}
		}
	}
	return out, nil
}

// ready does what the task wants done before an agent works: a step's files and
// its setup script, and health checks. What fails here is the task's failure.
func (s *stage) ready(ctx context.Context, box sandbox.Box, u turn, first bool) error {
	if u.name != "" {
		from := filepath.Join(s.task.Dir, "steps", u.name, "workdir")
		if isDir(from) {
			files, err := tarOf(s.task.Dir, path.Join("steps", u.name, "workdir"))
			if err != nil {
				return fmt.Errorf("step %s: %w", u.name, err)
			}
			if err := command(ctx, box, s, sandbox.Cmd{Args: []string{"tar", "-C", s.dir, "-xf", "-"}, Stdin: bytes.NewReader(files)}, "its files"); err != nil {
				return fmt.Errorf("step %s: %w", u.name, err)
			}
			if _, err := s.task.ReadFile(stepFile(u.name, "workdir/setup.sh"), task.MaxFile); err == nil {
				if err := command(ctx, box, s, sandbox.Cmd{Args: []string{"bash", "setup.sh"}}, "setup.sh"); err != nil {
					return fmt.Errorf("step %s: %w", u.name, err)
				}
			}
		}
	}
	if first {
		if err := s.healthy(ctx, box, s.conf.Environment.Healthcheck); err != nil {
			return err
		}
	}
	return s.healthy(ctx, box, u.health)
}

// command runs one of the task's own in its work directory.
func command(ctx context.Context, box sandbox.Box, s *stage, c sandbox.Cmd, what string) error {
	out := &ending{limit: 1 << 10}
	c.Dir, c.Stdout, c.Stderr = s.dir, out, out
	x, err := box.Exec(ctx, c)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case x.Lost != "":
		return fmt.Errorf("%s: command was lost: %s", what, x.Lost)
	case x.Code != 0 || x.Limit != "":
		return fmt.Errorf("%s: exit %d %s: %s", what, x.Code, x.Limit, out.b)
	}
	return nil
}

// healthy runs a health check as Docker does: failures of the start period do
// not count, and after it so many in a row as the task says are too many.
func (s *stage) healthy(ctx context.Context, box sandbox.Box, h *healthcheck) error {
	if h == nil {
		return nil
	}
	or := func(v, standard float64) time.Duration {
		if v <= 0 {
			v = standard
		}
		return time.Duration(v * float64(time.Second))
	}
	retries := h.Retries
	if retries == 0 {
		retries = 3
	}
	grace := time.Duration(h.StartPeriod * float64(time.Second))
	var passed time.Duration
	for failed := 0; ; {
		err := command(ctx, box, s, sandbox.Cmd{Args: []string{"bash", "-c", h.Command}, Wall: or(h.Timeout, 30)}, "health check")
		if err == nil {
			return nil
		}
		wait := or(h.Interval, 5)
		if passed < grace {
			wait = or(h.StartInterval, 5)
		} else if failed++; failed >= retries {
			return fmt.Errorf("task %s is not healthy: %w", s.task.Key, err)
		}
		passed += wait
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// collect runs the task's commands that write down what services know. They run
// among the agent's processes: what they find is the agent's word.
func (s *stage) collect(ctx context.Context, box sandbox.Box, u turn) error {
	for _, c := range u.verifier.Collect {
		wall := time.Duration(c.Timeout * float64(time.Second))
		if wall == 0 {
			wall = time.Minute
		}
		x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"bash", "-c", c.Command}, Dir: s.dir, Wall: wall, Untrusted: true})
		switch {
		case err != nil:
			return fmt.Errorf("collect: %w", err)
		case x.Lost != "":
			return fmt.Errorf("collect: command was lost: %s", x.Lost)
		}
	}
	return nil
}

// agent calls the submission once.
func (h harbor) agent(ctx context.Context, box sandbox.Box, s *stage, u turn, started *entry, printed *kind.Printout) (why, detail string, err error) {
	switch {
	case started != nil && started.Agent != "":
		return started.play(ctx, box, s, u, printed)
	case started != nil:
		return started.run(ctx, box, s, u, printed)
	}
	done := logsDir + "/.returned-" + u.name
	job, err := json.Marshal(map[string]any{
		"agent": agentDir + "/" + agentFile, "done": done,
		"input": map[string]any{
			"instruction": u.instruction, "problem_statement": u.instruction, "workdir": s.dir,
			"step": u.name, "mcp_servers": s.conf.Environment.Servers, "skills_dir": s.conf.Environment.Skills,
		},
	})
	if err != nil {
		return "", "", fmt.Errorf("encode input: %w", err)
	}
	x, err := box.Exec(ctx, sandbox.Cmd{
		Args: []string{s.root.Python, "-u", "-c", runner}, Dir: s.dir,
		Stdin: bytes.NewReader(job), Stdout: printed, Stderr: printed, Wall: u.wall(),
		Untrusted: true,
	})
	if err != nil {
		return "", "", fmt.Errorf("run the agent: %w", err)
	}
	switch {
	case x.Limit != "":
		return agon.OutcomeLimit, x.Limit + " limit reached", nil
	case x.Code != 0:
		return "raised", raised(string(printed.Bytes()), x.Code), nil
	}
	return returned(box, done)
}

// raised says what ended the agent: the last line of its traceback where there is one.
func raised(said string, code int) string {
	said = strings.TrimSpace(strings.ToValidUTF8(said, "\ufffd"))
	last := said[strings.LastIndexByte(said, '\n')+1:]
	if !strings.Contains(said, "Traceback (most recent call last)") || last == "" {
		return fmt.Sprintf("the agent ended with status %d", code)
	}
	return plain.Short(last, 500)
}

// run starts a submission by its own command. It has done its work when it ends with status 0.
func (e *entry) run(ctx context.Context, box sandbox.Box, s *stage, u turn, printed *kind.Printout) (why, detail string, err error) {
	env := append(environOfEntry(e.Env), "AGON_AGENT_DIR="+agentDir, "AGON_WORKDIR="+s.dir, "AGON_STEP="+u.name)
	if len(u.instruction) <= 100<<10 {
		env = append(env, "AGON_INSTRUCTION="+u.instruction)
	}
	x, err := box.Exec(ctx, sandbox.Cmd{
		Args: []string{"sh", "-c", e.Command}, Dir: s.dir, Env: env, Wall: u.wall(),
		Stdin: strings.NewReader(u.instruction), Stdout: printed, Stderr: printed, Untrusted: true,
	})
	return ended(x, err, printed)
}

// ended says how an agent's program ended; nothing where it ended with status 0.
func ended(x sandbox.Exit, err error, printed *kind.Printout) (why, detail string, _ error) {
	switch {
	case err != nil:
		return "", "", fmt.Errorf("run the agent: %w", err)
	case x.Limit != "":
		return agon.OutcomeLimit, x.Limit + " limit reached", nil
	case x.Code != 0:
		return "raised", raised(string(printed.Bytes()), x.Code), nil
	}
	return "", "", nil
}

func environOfEntry(m map[string]string) (out []string) {
	for _, k := range sortedKeys(m) {
		out = append(out, k+"="+m[k])
	}
	return out
}

// wall is the time that a step gives its agent; 0: the box's.
func (u turn) wall() time.Duration {
	if u.name == "" {
		return 0
	}
	return time.Duration(u.agent.TimeoutSec * float64(time.Second))
}

// ending keeps the end of what is written.
type ending struct {
	limit   int
	b       []byte
	dropped int
}

func (e *ending) text() string { return strings.ToValidUTF8(string(e.b), "\ufffd") }

func (e *ending) Write(p []byte) (int, error) {
	e.b = append(e.b, p...)
	if n := len(e.b) - e.limit; n > 0 {
		e.b = append([]byte(nil), e.b[n:]...)
		e.dropped += n
	}
	return len(p), nil
}

// bounded keeps what is written, up to a limit.
type bounded struct {
	limit int
	b     []byte
	over  bool
}

func (w *bounded) Write(p []byte) (int, error) {
	if len(w.b)+len(p) > w.limit {
		w.over = true
		return len(p), nil
	}
	w.b = append(w.b, p...)
	return len(p), nil
}

// Control implements kind.Controlled: doing nothing, or the task's solution.
func (h harbor) Control(ctx context.Context, env kind.Env, r agon.RunSpec, t *task.Task, solution []byte) (bool, string, error) {
	s, err := h.stage(ctx, env, t)
	if err != nil {
		return false, "", err
	}
	defer s.close()
	left, err := h.control(ctx, env, r, s, len(solution) > 0)
	if err != nil {
		return false, "", err
	}
	value, detail, err := h.judge(ctx, env, r, s, left)
	return value >= 1, detail, err
}

// control is what the oracle or nobody leaves, by snapshot.
func (h harbor) control(ctx context.Context, env kind.Env, r agon.RunSpec, s *stage, solve bool) (map[string][]byte, error) {
	spec := s.spec("oracle", s.conf.Environment.limits(r.Policy.Agent, s.conf.Agent.TimeoutSec))
	w := worker{h: h, env: env, spec: r, s: s, act: func(context.Context, sandbox.Box, turn) error { return nil }}
	if solve {
		found := false
		for _, at := range []struct{ from, to string }{{"solution", solutionDir}, {"steps", "/steps"}} {
			if from := filepath.Join(s.task.Dir, at.from); isDir(from) {
				found = true
				spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: from, Target: at.to})
			}
		}
		if !found {
			return nil, errors.New("the task has no solution/")
		}
		spec.Env = append(spec.Env, environOf(s.conf.Solution.Env)...)
		w.act = func(ctx context.Context, box sandbox.Box, u turn) error {
			script := solutionDir + "/solve.sh"
			if u.name != "" {
				if _, err := s.task.ReadFile(stepFile(u.name, solution), task.MaxFile); err == nil {
					script = "/" + stepFile(u.name, solution)
				}
			}
			return command(ctx, box, s, sandbox.Cmd{Args: []string{"bash", script}, Wall: u.wall()}, "solution/solve.sh")
		}
	}
	left, err := w.run(ctx, spec)
	var bad *outcome
	if errors.As(err, &bad) {
		err = errors.New(bad.detail)
	}
	return left, err
}

// tarOf is an archive of the regular files below a directory of a task.
func tarOf(top, from string) ([]byte, error) {
	root, err := os.OpenRoot(top)
	if err != nil {
		return nil, fmt.Errorf("open task: %w", err)
	}
	defer root.Close()
	sub, err := fs.Sub(root.FS(), from)
	if err != nil {
		return nil, err
	}
	return tarFS(sub)
}
