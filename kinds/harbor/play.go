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
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

const (
	name = "harbor"
	// scorer is part of every score: change it whenever the same record could be
	// judged differently.
	scorer = "harbor-1"

	agentFile     = "agent.py" // the only file of a submission
	maxAgentBytes = 256 << 10

	// Paths in the boxes.
	agentDir    = "/agon"     // the submission; in the verifier's box, its tools
	testsDir    = "/tests"    // of the verifier
	solutionDir = "/solution" // of the oracle
	logsDir     = "/logs"
	homeDir     = "/root"

	doneFile = logsDir + "/.returned"

	workFile   = "work.tar" // of a record: the work directory as it was left
	outputFile = "output.txt"

	maxWork    = 32 << 20
	maxEntries = 20_000
	maxLog     = 64 << 10         // of what the agent printed, kept as evidence
	door       = "127.0.0.1:8000" // the gateway, as seen in the box
)

// runner calls agent_main in the box.
//
//go:embed runner.py
var runner string

// harbor implements kind.Kind. It is stateless: the engine calls it from many
// goroutines.
type harbor struct {
	rootfs string // the machine's own tree; "" on a server that does not play
}

func (harbor) Name() string   { return name }
func (harbor) Scorer() string { return scorer }

var agentMain = regexp.MustCompile(`(?m)^(?:async )?def agent_main\(`)

// Check decides whether files may be entered. It never runs them.
func (harbor) Check(ctx context.Context, _ *agon.Arena, files fs.FS) ([]agon.Finding, error) {
	return kind.CheckOneFile(ctx, files, agentFile, maxAgentBytes, func(src []byte) []agon.Finding {
		switch {
		case len(src) > maxAgentBytes:
			return []agon.Finding{{Code: "too_large", Field: agentFile, Limit: fmt.Sprintf("%d bytes", maxAgentBytes), Message: agentFile + " is too large"}}
		case !utf8.Valid(src):
			return []agon.Finding{{Code: "not_utf8", Field: agentFile, Message: agentFile + " is not UTF-8"}}
		case !agentMain.Match(src):
			return []agon.Finding{{Code: "no_agent_main", Field: agentFile, Message: agentFile + " has no top-level function agent_main (def agent_main(input): ...)"}}
		}
		return nil
	})
}

// Plan plays each task once.
func (harbor) Plan(v agon.View) (agon.Plan, error) { return kind.EachTask(v), nil }

// stage is where a task is played: its root, its work directory and what lies
// there at the start.
type stage struct {
	task *task.Task
	root rootfs.Root
	dir  string // in the boxes
	base string // on the host; "" for an empty work directory
	env  []string
	tmp  string
}

func (s *stage) close() {
	if s.tmp != "" {
		_ = os.RemoveAll(s.tmp) // what stays is swept with the other temporary directories
	}
}

func (h harbor) stage(ctx context.Context, env kind.Env, t *task.Task) (_ *stage, err error) {
	s := &stage{task: t, dir: t.Config.Environment.Workdir}
	if ref := image(t); ref != "" {
		if s.root, err = env.Root(ctx, ref); err != nil {
			return nil, err
		}
		if s.dir == "" {
			s.dir = s.root.WorkingDir
		}
		if s.dir == "" || s.dir == "/" {
			s.dir = defaultDir
		}
		if at := filepath.Join(s.root.Dir, s.dir); isDir(at) {
			s.base = at
		}
	} else {
		s.root = rootfs.NewRoots(h.rootfs, nil).Own()
		r, err := recipeOf(t)
		if err != nil {
			return nil, err
		}
		s.env = r.env
		if s.dir == "" {
			s.dir = r.dir
		}
		if s.dir == "" {
			s.dir = defaultDir
		}
		if len(r.copies) > 0 {
			if err := s.copy(r); err != nil {
				s.close()
				return nil, err
			}
		}
	}
	if !workable(s.dir) {
		return nil, fmt.Errorf("work directory %.200q: want one like /app", s.dir)
	}
	return s, nil
}

func isDir(p string) bool {
	fi, err := os.Lstat(p)
	return err == nil && fi.IsDir()
}

// copy lays out what COPY names.
func (s *stage) copy(r *recipe) (err error) {
	if s.tmp, err = tempdir.Make("harbor"); err != nil {
		return fmt.Errorf("make work directory: %w", err)
	}
	if err := os.Chmod(s.tmp, 0o755); err != nil {
		return err
	}
	s.base = filepath.Join(s.tmp, "work")
	if err := os.Mkdir(s.base, 0o755); err != nil {
		return err
	}
	dst, err := os.OpenRoot(s.base)
	if err != nil {
		return err
	}
	defer dst.Close()
	top, err := os.OpenRoot(s.task.Dir)
	if err != nil {
		return fmt.Errorf("open task: %w", err)
	}
	defer top.Close()
	for _, c := range r.copies {
		from := path.Join(copiedDir, c.from)
		fi, err := top.Stat(from)
		if err != nil {
			return fmt.Errorf("COPY %s: %w", c.from, err)
		}
		if !fi.IsDir() {
			at := c.at
			if c.into {
				at = path.Join(at, path.Base(c.from))
			}
			if err := copyFile(top, from, dst, at); err != nil {
				return err
			}
			continue
		}
		err = fs.WalkDir(top.FS(), from, func(p string, d fs.DirEntry, err error) error {
			if err != nil || p == dockerfile {
				return err
			}
			at := path.Join(c.at, strings.TrimPrefix(strings.TrimPrefix(p, from), "/"))
			switch {
			case d.IsDir():
				return dst.MkdirAll(cmpDot(at), 0o755)
			case d.Type().IsRegular():
				return copyFile(top, p, dst, at)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("COPY %s: %w", c.from, err)
		}
	}
	return nil
}

func cmpDot(p string) string {
	if p == "" {
		return "."
	}
	return p
}

func copyFile(src *os.Root, from string, dst *os.Root, to string) error {
	b, err := src.ReadFile(from)
	if err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	mode := fs.FileMode(0o644)
	if bytes.HasPrefix(b, []byte("#!")) {
		mode = 0o755
	}
	if err := dst.MkdirAll(path.Dir(to), 0o755); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	if err := dst.WriteFile(to, b, mode); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return nil
}

// spec describes a box with the work directory over base ("" for an empty one).
func (s *stage) spec(boxName, base string, l agon.Limits) sandbox.Spec {
	work := sandbox.Mount{Kind: sandbox.MountScratch, Target: s.dir}
	if base != "" {
		work = sandbox.Mount{Kind: sandbox.MountOverlay, Source: base, Target: s.dir}
	}
	// What is read of the work goes through the command's output.
	l.OutputBytes = max(l.OutputBytes, maxWork+1<<20)
	return sandbox.Spec{
		Name: boxName, Rootfs: s.root.Dir, UID: s.root.UID, GID: s.root.GID, Limits: l,
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountScratch, Target: "/tmp"},
			{Kind: sandbox.MountScratch, Target: homeDir},
			{Kind: sandbox.MountScratch, Target: logsDir},
			work,
		},
		Env: s.root.Environ(append([]string{"LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=" + homeDir, "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"}, s.env...)...),
	}
}

// limits are the policy's, within what the task says.
func limits(l agon.Limits, seconds float64) agon.Limits {
	if ms := int64(seconds * 1000); ms > 0 && (l.WallMS == 0 || ms < l.WallMS) {
		l.WallMS = ms
	}
	return l
}

// Play lets the agent work in the task's directory and keeps what it left there.
func (h harbor) Play(ctx context.Context, env kind.Env, sub agon.Submission, r agon.RunSpec) (agon.Record, error) {
	t, err := env.Task(ctx, r.Tasks[0])
	if err != nil {
		return agon.Record{}, err
	}
	agent, err := env.Tree(ctx, sub.Digest)
	if err != nil {
		return agon.Record{}, err
	}
	s, err := h.stage(ctx, env, t)
	if err != nil {
		return agon.Record{}, err
	}
	defer s.close()
	doors, err := env.Door(ctx, t.Key, door)
	if err != nil {
		return agon.Record{}, err
	}
	spec := s.spec("agent", s.base, limits(r.Policy.Agent, t.Config.Agent.TimeoutSec))
	spec.Doors = doors
	spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: agent, Target: agentDir})
	spec.Env = append(spec.Env, "OPENAI_BASE_URL=http://"+door+"/v1", "OPENAI_API_KEY=unused")
	for _, m := range r.Policy.Models {
		if m != "*" {
			spec.Env = append(spec.Env, "AGON_MODEL="+m)
			break
		}
	}
	box, err := env.Box(ctx, spec)
	if err != nil {
		return agon.Record{}, err
	}
	defer box.Close()
	job, err := json.Marshal(map[string]any{
		"agent": agentDir + "/" + agentFile, "done": doneFile,
		"input": map[string]any{"instruction": t.Instruction, "problem_statement": t.Instruction, "workdir": s.dir},
	})
	if err != nil {
		return agon.Record{}, fmt.Errorf("encode input: %w", err)
	}
	printed := &ending{limit: maxLog}
	x, err := box.Exec(ctx, sandbox.Cmd{
		Args: []string{s.root.Python, "-u", "-c", runner}, Dir: s.dir,
		Stdin: bytes.NewReader(job), Stdout: printed, Stderr: printed,
		Untrusted: true,
	})
	if err != nil {
		return agon.Record{}, fmt.Errorf("run the agent: %w", err)
	}
	rec := agon.Record{Files: map[string][]byte{outputFile: printed.b}}
	switch {
	case x.Limit != "":
		rec.Outcome, rec.Detail = "limit", x.Limit+" limit reached"
		return rec, nil
	case x.Code != 0:
		rec.Outcome, rec.Detail = "raised", fmt.Sprintf("the agent ended with status %d", x.Code)
		return rec, nil
	}
	switch _, err := box.ReadFile(doneFile, 1<<10); {
	case errors.Is(err, sandbox.ErrNotExist), errors.Is(err, sandbox.ErrUnsafe):
		rec.Outcome, rec.Detail = "exited", "the process ended before agent_main had returned"
		return rec, nil
	case err != nil:
		return agon.Record{}, fmt.Errorf("read the agent's end: %w", err)
	}
	work, why, err := left(ctx, box, s.dir)
	if err != nil {
		return agon.Record{}, err
	}
	if why != "" {
		rec.Outcome, rec.Detail = "limit", why
		return rec, nil
	}
	rec.Outcome, rec.Files[workFile] = "ok", work
	return rec, nil
}

// left reads the work directory, as an archive that the box's own tar makes. why
// says that it cannot be had, which is its maker's doing.
func left(ctx context.Context, box sandbox.Box, dir string) (work []byte, why string, err error) {
	out, errs := &bounded{limit: maxWork}, &ending{limit: 1 << 10}
	x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"tar", "-C", dir, "-cf", "-", "."}, Dir: "/", Stdout: out, Stderr: errs})
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("read the work: %w", err)
	case out.over || x.Limit != "":
		return nil, fmt.Sprintf("the work directory holds more than %d bytes", maxWork), nil
	case x.Lost != "":
		return nil, "", fmt.Errorf("read the work: command was lost: %s", x.Lost)
	case x.Code > 2: // 1 and 2: a file changed or could not be read
		return nil, "", fmt.Errorf("read the work: exit %d: %s", x.Code, errs.b)
	}
	return out.b, "", nil
}

// ending keeps the end of what is written.
type ending struct {
	limit int
	b     []byte
}

func (e *ending) Write(p []byte) (int, error) {
	e.b = append(e.b, p...)
	if n := len(e.b) - e.limit; n > 0 {
		e.b = append([]byte(nil), e.b[n:]...)
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
	work, err := h.control(ctx, env, r, t, len(solution) > 0)
	if err != nil {
		return false, "", err
	}
	value, detail, err := h.verify(ctx, env, r, t, work)
	return value >= 1, detail, err
}

// control is the work directory as the oracle or nobody leaves it.
func (h harbor) control(ctx context.Context, env kind.Env, r agon.RunSpec, t *task.Task, solve bool) ([]byte, error) {
	s, err := h.stage(ctx, env, t)
	if err != nil {
		return nil, err
	}
	defer s.close()
	spec := s.spec("oracle", s.base, limits(r.Policy.Agent, t.Config.Agent.TimeoutSec))
	if solve {
		at := filepath.Join(t.Dir, "solution")
		if !isDir(at) {
			return nil, errors.New("the task has no solution/")
		}
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: at, Target: solutionDir})
	}
	box, err := env.Box(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer box.Close()
	if solve {
		out := &ending{limit: 2 << 10}
		x, err := box.Exec(ctx, sandbox.Cmd{Args: []string{"bash", solutionDir + "/solve.sh"}, Dir: s.dir, Stdout: out, Stderr: out})
		if err != nil {
			return nil, fmt.Errorf("run the oracle: %w", err)
		}
		if x.Code != 0 || x.Limit != "" {
			return nil, fmt.Errorf("solution/solve.sh: exit %d %s: %s", x.Code, x.Limit, out.b)
		}
	}
	work, why, err := left(ctx, box, s.dir)
	if err == nil && why != "" {
		err = errors.New(why)
	}
	return work, err
}
