package play

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// maxReport bounds what the grader may write: tokens and notes of all tests.
const maxReport = 4 << 20

// TestResult is what one listed test came to.
type TestResult struct {
	ID     string `json:"id"`
	Group  string `json:"group"` // fail_to_pass or pass_to_pass
	Passed bool   `json:"passed"`
	// Why is one line for people. It may hold text written by code under
	// test, and names hidden tests: show it only where those may be seen.
	Why string `json:"why,omitempty"`
}

// Verdict is what a patch came to on a task.
type Verdict struct {
	Solved bool
	// Refused says why the patch was not graded: it breaks a rule or does not
	// apply. The empty patch is not refused: it is graded as the base tree.
	Refused string
	// Detail is one line for whoever may see the task's tests.
	Detail string
	Tests  []TestResult // in the order of the task's lists; nil if refused
	// Closed says that test processes could not be read from outside of themselves.
	Closed     bool
	PatchBytes int
}

// Count returns how many tests of a group passed, and how many it has.
func (v *Verdict) Count(group string) (passed, total int) {
	for _, t := range v.Tests {
		if t.Group == group {
			total++
			if t.Passed {
				passed++
			}
		}
	}
	return passed, total
}

// The two groups of tests.
const (
	FailToPass = "fail_to_pass"
	PassToPass = "pass_to_pass"
)

// Judge scores a record in fresh boxes.
func (k *Kind) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	t, err := theTask(ctx, env, r)
	if err != nil {
		return nil, err
	}
	score := agon.Score{Run: r.Run, Task: r.Tasks[0].Key, Scorer: scorer}
	diff := rec.Files[FilePatch]
	if rec.Outcome != OutcomeOK {
		score.Detail = rec.Outcome
		score.Metrics = map[string]float64{
			FailToPass: 0, FailToPass + "_total": float64(len(t.Config.Agon.FailToPass)),
			PassToPass: 0, PassToPass + "_total": float64(len(t.Config.Agon.PassToPass)), "patch_bytes": 0,
		}
		return []agon.Score{score}, nil
	}
	v, err := k.JudgePatch(ctx, env, r, t, diff)
	if err != nil {
		return nil, err
	}
	score.Solved = v.Solved
	if v.Solved {
		score.Value = 1
	}
	score.Metrics = map[string]float64{"patch_bytes": float64(v.PatchBytes)}
	for _, g := range []string{FailToPass, PassToPass} {
		passed, total := v.Count(g)
		score.Metrics[g], score.Metrics[g+"_total"] = float64(passed), float64(total)
	}
	score.Detail = v.detail(r.Tasks[0].Hidden)
	return []agon.Score{score}, nil
}

// detail is one line for the miner; of a hidden task it holds counts only.
func (v *Verdict) detail(hidden bool) string {
	if v.Refused != "" {
		return plain.Short(v.Refused, 400)
	}
	fp, ft := v.Count(FailToPass)
	pp, pt := v.Count(PassToPass)
	s := fmt.Sprintf("%d/%d fail_to_pass, %d/%d pass_to_pass", fp, ft, pp, pt)
	if hidden || v.Solved {
		return s
	}
	for _, t := range v.Tests {
		if !t.Passed {
			return s + "; " + plain.Short(t.ID+": "+t.Why, 300)
		}
	}
	return s
}

// JudgePatch applies a patch to the task's base tree and runs its listed
// tests. An empty patch grades the base tree itself (the nop control). An
// error means that grading could not be done, and that no code under test had
// a hand in it.
func (k *Kind) JudgePatch(ctx context.Context, env kind.Env, r agon.RunSpec, t *task.Task, diff []byte) (*Verdict, error) {
	v := &Verdict{PatchBytes: len(diff)}
	a := &applied{}
	if len(bytes.TrimSpace(diff)) > 0 {
		var err error
		if a, err = k.apply(ctx, env, t, r.Policy, diff); err != nil {
			return nil, err
		}
		if a.refused != "" {
			v.Refused = a.refused
			v.Detail = v.detail(false)
			return v, nil
		}
	}
	g, err := buildGrading(t, a.changed, a.exec)
	if err != nil {
		return nil, err
	}
	if err := k.grade(ctx, env, t, r.Policy, g, v); err != nil {
		return nil, err
	}
	v.Solved = len(v.Tests) > 0
	for _, res := range v.Tests {
		v.Solved = v.Solved && res.Passed
	}
	v.Detail = v.detail(false)
	return v, nil
}

// Control implements kind.Controlled.
func (k *Kind) Control(ctx context.Context, env kind.Env, r agon.RunSpec, t *task.Task, patch []byte) (solved bool, detail string, err error) {
	v, err := k.JudgePatch(ctx, env, r, t, patch)
	if err != nil {
		return false, "", err
	}
	return v.Solved, v.Detail, nil
}

// tokens are the secret words of one test: what a child of grade.py writes at
// the end of the test's body (with or without an assertion having run), after
// the runner counted a success, and after what must fail did fail.
type tokens struct {
	ID       string `json:"id"`
	Body     string `json:"body"`
	Bare     string `json:"bare"`
	Done     string `json:"done"`
	Sentinel string `json:"sentinel"`
}

func (t tokens) all() [4]string { return [4]string{t.Body, t.Bare, t.Done, t.Sentinel} }

func word() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// grade runs the tests of a tree in a box without doors.
func (k *Kind) grade(ctx context.Context, env kind.Env, t *task.Task, pol agon.Policy, g *grading, v *Verdict) error {
	tmp, err := tempdir.Make("grade")
	if err != nil {
		return fmt.Errorf("make grading directory: %w", err)
	}
	defer os.RemoveAll(tmp)
	tree, tools := filepath.Join(tmp, "tree"), filepath.Join(tmp, "tools")
	for _, d := range []string{tree, tools} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return fmt.Errorf("make grading directory: %w", err)
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("open grading directory: %w", err)
	}
	if err := g.write(tree); err != nil {
		// Only a patch that makes a directory of a file, or the reverse, against
		// the task's own files gets here: its doing, not the host's.
		if len(g.tree) > 0 && (isNotDir(err) || errors.Is(err, fs.ErrExist)) {
			v.Refused = "patch: it turns a file into a directory where the task has its own"
			return nil
		}
		return fmt.Errorf("write grading tree: %w", err)
	}
	if err := copyPython(k.cfg.Rootfs, filepath.Join(tools, "python3")); err != nil {
		return err
	}
	spec, list := gradeSpec(t, g)
	in, err := json.Marshal(spec)
	if err != nil {
		return fmt.Errorf("encode grading: %w", err)
	}
	limits := pol.Grader
	if s := int64(t.Config.Verifier.TimeoutSec * 1000); s > 0 && (limits.WallMS == 0 || s < limits.WallMS) {
		limits.WallMS = s
	}
	box, err := env.Box(ctx, sandbox.Spec{
		Name:   "grade",
		Rootfs: k.cfg.Rootfs,
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountScratch, Target: "/tmp"},
			{Kind: sandbox.MountReadOnly, Source: tree, Target: repoDir},
			{Kind: sandbox.MountReadOnly, Source: tools, Target: toolsDir, Exec: true},
		},
		Limits: limits,
		Env:    append([]string{"HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1"}, baseEnv...),
	})
	if err != nil {
		return err
	}
	defer box.Close()
	rep := newReport(spec.Ready, list)
	stderr := &tail{limit: 4 << 10}
	x, err := box.Exec(ctx, sandbox.Cmd{
		// By way of a shell: the kernel looks at what the process may read when it executes the copy.
		Args:      []string{"/bin/sh", "-c", `exec "$@"`, "sh", toolsDir + "/python3", "-s", "-S", "-B", "-c", gradeSource},
		Dir:       "/",
		Stdin:     bytes.NewReader(in),
		Stdout:    rep,
		Stderr:    stderr,
		Untrusted: true,
	})
	if err != nil {
		return fmt.Errorf("run tests: %w", err)
	}
	if x.Lost != "" {
		return fmt.Errorf("run tests: command was lost: %s", x.Lost)
	}
	// Until it is ready the grader has run no code under test: what stops it
	// there is the task or this host.
	if !rep.ready {
		return fmt.Errorf("%w: exit %d %s: %s", ErrGrader, x.Code, x.Limit, plain.Short(rep.broken+" "+stderr.String(), 400))
	}
	v.Closed = rep.closed
	v.Tests = rep.results(t, x)
	return nil
}

// ErrGrader marks a grader that could not start: a task whose tests cannot be
// loaded, or a root file system without what it needs.
var ErrGrader = errors.New("grader did not start")

// graderInput is the standard input of grade.py.
type graderInput struct {
	Root    string            `json:"root"`
	Path    []string          `json:"path"`
	Files   map[string][]byte `json:"files"`   // base64 in JSON
	Own     []string          `json:"own"`     // top-level modules of the base tree
	Asserts string            `json:"asserts"` // text of asserts.py
	Tests   []tokens          `json:"tests"`
	Timeout float64           `json:"timeout"` // seconds, each test
	Ready   string            `json:"ready"`
	Boxed   bool              `json:"boxed"`
}

func gradeSpec(t *task.Task, g *grading) (graderInput, []tokens) {
	var list []tokens
	for _, id := range append(append([]string{}, t.Config.Agon.FailToPass...), t.Config.Agon.PassToPass...) {
		list = append(list, tokens{ID: id, Body: word(), Bare: word(), Done: word(), Sentinel: word()})
	}
	in := graderInput{Root: repoDir, Files: g.modules, Own: g.own, Asserts: assertSource, Tests: list, Timeout: t.Config.Agon.TestTimeoutSec, Ready: word(), Boxed: true}
	if in.Timeout <= 0 {
		in.Timeout = task.DefaultTestTimeoutSec
	}
	for _, p := range pythonPath(t) {
		in.Path = append(in.Path, path.Join(repoDir, p))
	}
	return in, list
}

// copyPython puts a copy of the root file system's interpreter at dst that may
// be executed but not read (see closed in grade.py).
func copyPython(rootfs, dst string) error {
	root, err := os.OpenRoot(rootfs)
	if err != nil {
		return fmt.Errorf("open root file system: %w", err)
	}
	defer root.Close()
	b, err := root.ReadFile("usr/bin/python3")
	if err != nil {
		return fmt.Errorf("read the interpreter: %w", err)
	}
	// No one may read it, not even an owner, whom drivers map to the box's
	// user; and on a read-only mount an owner cannot change that.
	if err := os.WriteFile(dst, b, 0o500); err != nil {
		return fmt.Errorf("copy the interpreter: %w", err)
	}
	if err := os.Chmod(dst, 0o111); err != nil {
		return fmt.Errorf("close the interpreter: %w", err)
	}
	return nil
}

// report collects what grade.py and its children write. Everything but the
// tokens is foreign text.
type report struct {
	want   map[string]int // token to 4*test+part; part as in tokens.all
	readyW string
	tests  []tokens

	line    []byte
	size    int
	ready   bool
	closed  bool
	broken  string
	seen    [][4]bool
	note    []string
	status  []string
	tooLong bool
}

func newReport(ready string, tests []tokens) *report {
	r := &report{want: map[string]int{}, readyW: ready, tests: tests, seen: make([][4]bool, len(tests)), note: make([]string, len(tests)), status: make([]string, len(tests))}
	for i, t := range tests {
		for j, w := range t.all() {
			r.want[w] = 4*i + j
		}
	}
	return r
}

// maxLine is more than grade.py ever writes in one line.
const maxLine = 8 << 10

// Write never fails: a child that floods the report ends by the box's output limit.
func (r *report) Write(p []byte) (int, error) {
	if r.size += len(p); r.size > maxReport {
		return len(p), nil
	}
	for _, c := range p {
		switch {
		case c == '\n':
			if !r.tooLong {
				r.take(string(r.line))
			}
			r.line, r.tooLong = r.line[:0], false
		case len(r.line) == maxLine:
			r.tooLong = true
		default:
			r.line = append(r.line, c)
		}
	}
	return len(p), nil
}

func (r *report) take(l string) {
	if l == r.readyW {
		r.ready = true
		return
	}
	if n, ok := r.want[l]; ok {
		r.seen[n/4][n%4] = true
		return
	}
	kind, rest, _ := strings.Cut(l, " ")
	switch kind {
	case "broken":
		if !r.ready {
			_ = json.Unmarshal([]byte(rest), &r.broken)
		}
	case "closed":
		_ = json.Unmarshal([]byte(rest), &r.closed)
	case "note", "end":
		var pair [2]json.RawMessage
		var i int
		var text string
		if json.Unmarshal([]byte(rest), &pair) != nil || json.Unmarshal(pair[0], &i) != nil || json.Unmarshal(pair[1], &text) != nil || i < 0 || i >= len(r.tests) {
			return
		}
		if kind == "end" {
			r.status[i] = text
		} else if r.note[i] == "" {
			r.note[i] = text
		}
	}
}

func (r *report) results(t *task.Task, x sandbox.Exit) []TestResult {
	out := make([]TestResult, len(r.tests))
	for i, w := range r.tests {
		s := r.seen[i]
		res := TestResult{ID: w.ID, Group: FailToPass, Passed: (s[0] || s[1]) && s[2] && s[3]}
		if i >= len(t.Config.Agon.FailToPass) {
			res.Group = PassToPass
		}
		if !res.Passed {
			res.Why = plain.Short(r.why(i, x), 300)
		}
		out[i] = res
	}
	return out
}

// why explains a test that did not pass, as far as the text can be believed.
func (r *report) why(i int, x sandbox.Exit) string {
	switch s := r.seen[i]; {
	case r.note[i] != "":
		return r.note[i]
	case r.status[i] == "timeout":
		return "timed out"
	case r.status[i] == "exit 86":
		return "reached for the test machinery"
	case r.status[i] == "" && x.Limit != "":
		return "did not run: " + x.Limit + " limit of the box"
	case r.status[i] == "":
		return "did not run"
	case s[2] && !s[3]:
		return "what must fail did not fail"
	case !s[0] && !s[1]:
		return "the test's body did not come to its end (" + r.status[i] + ")"
	}
	return "no completion mark (" + r.status[i] + ")"
}
