package play

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/coding/canary"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
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

	asserted bool // it failed by an assertion
	again    bool // it began more than once in one box
	unbuilt  bool // what it is part of could not be built
	doubtful bool // it is a twin that a fix may pass
	line     int  // of its file, where it failed; 0: not known
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
	// Forged lists tests that passed together with a twin of theirs, or that
	// began more than once in a box: no fix can do that.
	Forged []string
	// Known are the lines of another task's answer that the answer to a canary holds.
	Known []string
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
	known, err := canary.Known(t, diff)
	if err != nil {
		return nil, err
	}
	if rec.Outcome != agon.OutcomeOK || known != nil {
		score.Detail = unsolved(rec)
		score.Metrics = map[string]float64{
			FailToPass: 0, FailToPass + "_total": float64(len(t.Config.Agon.FailToPass)),
			PassToPass: 0, PassToPass + "_total": float64(len(t.Config.Agon.PassToPass)), "patch_bytes": float64(len(diff)),
		}
		if known != nil {
			score.Metrics[MetricByHeart] = float64(len(known))
			v := &Verdict{Known: known}
			score.Detail = v.detail(r.Tasks[0].Hidden)
			env.Progress(agon.EventNote, r.Tasks[0].Key, v.note(diff, r.Tasks[0].Hidden))
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
		if len(v.Forged) > 0 {
			passed = 0 // nothing of a forged grade counts
		}
		score.Metrics[g], score.Metrics[g+"_total"] = float64(passed), float64(total)
	}
	if n := len(v.Forged); n > 0 {
		score.Metrics[MetricForged] = float64(n)
	}
	score.Detail = v.detail(r.Tasks[0].Hidden)
	env.Progress(agon.EventNote, r.Tasks[0].Key, v.note(diff, r.Tasks[0].Hidden))
	return []agon.Score{score}, nil
}

// NoteGrade is the text of the note that says what a grade is made of.
const NoteGrade = "grade"

// Grade is the data of that note. Tests are left out where the task is hidden.
type Grade struct {
	Text   string       `json:"text"` // NoteGrade
	Patch  string       `json:"patch,omitempty"`
	Cut    bool         `json:"cut,omitempty"` // the patch is longer
	Tests  []GradedTest `json:"tests,omitempty"`
	Forged []string     `json:"forged,omitempty"`
	// Known are lines of another task's answer, with names that this task does not show.
	Known []string `json:"known,omitempty"`
}

// GradedTest is one listed test: it failed before the patch if its group is fail_to_pass.
type GradedTest struct {
	ID     string `json:"id"`
	Group  string `json:"group"`
	Passed bool   `json:"passed"`
	Why    string `json:"why,omitempty"`
}

// Bounds of a note.
const (
	maxNotePatch = 64 << 10
	maxNoteTests = 500
)

func (v *Verdict) note(diff []byte, hidden bool) Grade {
	g := Grade{Text: NoteGrade, Patch: strings.ToValidUTF8(string(diff[:min(len(diff), maxNotePatch)]), "\ufffd"), Cut: len(diff) > maxNotePatch}
	if hidden {
		return g
	}
	g.Forged, g.Known = v.Forged, v.Known[:min(len(v.Known), maxNoteTests)]
	for _, t := range v.Tests[:min(len(v.Tests), maxNoteTests)] {
		g.Tests = append(g.Tests, GradedTest{ID: plain.Short(t.ID, 200), Group: t.Group, Passed: t.Passed, Why: plain.Short(t.Why, 300)})
	}
	return g
}

// detail is one line for the miner; of a hidden task it holds counts only.
func (v *Verdict) detail(hidden bool) string {
	if v.Refused != "" {
		return withCode(plain.Short(v.Refused, 400), v.Code())
	}
	if n := len(v.Known); n > 0 {
		s := fmt.Sprintf("known by heart: %d lines of the answer to another task, with names that nothing of this one shows", n)
		if hidden {
			return s
		}
		return s + "; " + plain.Short(strings.Join(v.Known, " | "), 300)
	}
	if n := len(v.Forged); n > 0 {
		s := fmt.Sprintf("forged: %d of %d tests passed together with a twin whose expectation is false, or began twice", n, len(v.Tests))
		if hidden {
			return s
		}
		return s + "; " + plain.Short(strings.Join(v.Forged, ", "), 300)
	}
	fp, ft := v.Count(FailToPass)
	pp, pt := v.Count(PassToPass)
	s := withCode(fmt.Sprintf("%d/%d fail_to_pass, %d/%d pass_to_pass", fp, ft, pp, pt), v.Code())
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
	if err := k.gradeWithTwins(ctx, env, t, r.Policy, g, v); err != nil {
		return nil, err
	}
	v.Solved = len(v.Tests) > 0 && len(v.Forged) == 0
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

// MetricForged counts the tests of a score that were forged.
const MetricForged = agon.MetricForged

// MetricByHeart counts the lines of an answer that belong to another task's.
const MetricByHeart = agon.MetricByHeart

// tokens are the secret words of one test: what a child of grade.py writes at
// the beginning of the test's body, at the end of the test's body (with or without an assertion having run), after
// the runner counted a success, and after what must fail did fail.
type tokens struct {
	ID       string `json:"id"`
	Body     string `json:"body"`
	Bare     string `json:"bare"`
	Done     string `json:"done"`
	Sentinel string `json:"sentinel"`
	Begin    string `json:"begin"`
}

func (t tokens) all() [5]string { return [5]string{t.Body, t.Bare, t.Done, t.Sentinel, t.Begin} }

func word() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// bench is a tree on disk that tests run in, in any number of boxes.
type bench struct {
	k           *Kind
	env         kind.Env
	task        *task.Task
	g           *grading
	limits      agon.Limits
	root        rootfs.Root
	pyenv       []string // of the interpreter
	tmp         string
	tree, tools string
	open        *language // nil for unittest
	lines       bool      // results tell where a test failed
}

// errShape is a tree that cannot be laid out: only a patch that makes a
// directory of a file, or the reverse, against the task's own files does that.
var errShape = errors.New("patch: it turns a file into a directory where the task has its own")

// newBench writes a tree.
func (k *Kind) newBench(ctx context.Context, env kind.Env, t *task.Task, pol agon.Policy, g *grading) (_ *bench, err error) {
	root, err := k.root(ctx, env, t)
	if err != nil {
		return nil, err
	}
	tmp, err := tempdir.Make("grade")
	if err != nil {
		return nil, fmt.Errorf("make grading directory: %w", err)
	}
	s := &bench{k: k, env: env, task: t, g: g, root: root, tmp: tmp, tree: filepath.Join(tmp, "tree"), tools: filepath.Join(tmp, "tools"), limits: pol.Grader}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for _, d := range []string{s.tree, s.tools} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nil, fmt.Errorf("make grading directory: %w", err)
		}
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return nil, fmt.Errorf("open grading directory: %w", err)
	}
	if err := g.write(s.tree); err != nil {
		if len(g.tree) > 0 && (isNotDir(err) || errors.Is(err, fs.ErrExist)) {
			return nil, errShape
		}
		return nil, fmt.Errorf("write grading tree: %w", err)
	}
	python, err := s.root.Interpreter(t.Config.Agon.Python)
	if err != nil {
		return nil, err
	}
	if err := copyPython(python.Program, filepath.Join(s.tools, "python3")); err != nil {
		return nil, err
	}
	s.pyenv = python.Env
	if ms := int64(t.Config.Verifier.TimeoutSec * 1000); ms > 0 && (s.limits.WallMS == 0 || ms < s.limits.WallMS) {
		s.limits.WallMS = ms
	}
	return s, nil
}

func (s *bench) close() { _ = os.RemoveAll(s.tmp) } // what stays is swept with the other temporary directories

// startPython sets the interpreter's variables, so many as the first argument says, and
// becomes it. The shell itself is the image's, and runs by the image's libraries.
const startPython = `n=$1; shift; while [ "$n" -gt 0 ]; do export "$1"; shift; n=$((n-1)); done; exec "$@"`

// outer are the interpreter's variables as the box has them without it; nil: not at all.
func (s *bench) outer() map[string]*string {
	out := map[string]*string{}
	for _, e := range s.pyenv {
		k, _, _ := strings.Cut(e, "=")
		out[k] = nil
		for _, own := range s.root.Env {
			if v, ok := strings.CutPrefix(own, k+"="); ok {
				out[k] = &v
			}
		}
	}
	return out
}

// exec runs a program of the harness in a box without doors, and hands it in.
func (s *bench) exec(ctx context.Context, program string, in any, out, stderr io.Writer) (sandbox.Exit, error) {
	b, err := json.Marshal(in)
	if err != nil {
		return sandbox.Exit{}, fmt.Errorf("encode grading: %w", err)
	}
	spec := sandbox.Spec{
		Name:   "grade",
		Rootfs: s.root.Dir,
		UID:    s.root.UID,
		GID:    s.root.GID,
		Mounts: []sandbox.Mount{
			{Kind: sandbox.MountScratch, Target: "/tmp"},
			{Kind: sandbox.MountReadOnly, Source: s.tree, Target: repoDir},
			{Kind: sandbox.MountReadOnly, Source: s.tools, Target: toolsDir, Exec: true},
		},
		Limits: s.limits,
		Env:    s.root.Environ(append(slices.Clone(baseEnv), "HOME=/tmp", "PYTHONDONTWRITEBYTECODE=1")...),
	}
	isolated := []string{"-s", "-S", "-B"}
	if s.open != nil {
		s.open.box(s, &spec)
		isolated = []string{"-s", "-B"}
	}
	box, err := s.env.Box(ctx, spec)
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer box.Close()
	x, err := box.Exec(ctx, sandbox.Cmd{
		// By way of a shell: the kernel looks at what the process may read when it executes the copy.
		Args:      slices.Concat([]string{"/bin/sh", "-c", startPython, "sh", strconv.Itoa(len(s.pyenv))}, s.pyenv, []string{toolsDir + "/python3"}, isolated, []string{"-c", program}),
		Dir:       "/",
		Stdin:     bytes.NewReader(b),
		Stdout:    out,
		Stderr:    stderr,
		Untrusted: true,
	})
	if err != nil {
		return x, fmt.Errorf("run tests: %w", err)
	}
	if x.Lost != "" {
		return x, fmt.Errorf("run tests: command was lost: %s", x.Lost)
	}
	return x, nil
}

// run plays tests, in the order given, over the test modules given.
func (s *bench) run(ctx context.Context, modules map[string][]byte, tests []string) (results map[string]TestResult, closed bool, err error) {
	spec, list := gradeSpec(s.task, s.g, modules, tests)
	spec.Lines = s.lines
	rep := newReport(spec.Ready, list)
	stderr := &tail{limit: 4 << 10}
	x, err := s.exec(ctx, gradeSource, spec, rep, stderr)
	if err != nil {
		return nil, false, err
	}
	// Until it is ready the grader has run no code under test: what stops it
	// there is the task or this host.
	if !rep.ready {
		return nil, false, fmt.Errorf("%w: exit %d %s: %s", ErrGrader, x.Code, x.Limit, plain.Short(rep.broken+" "+stderr.String(), 400))
	}
	return rep.results(s.task, x), rep.closed, nil
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
	// Processes lets the tests start processes.
	Processes bool `json:"processes"`
	Lines     bool `json:"lines,omitempty"` // notes tell where a test failed
	// Twins and Draw are of twins.py: how many to draw of each test, and by what.
	Twins int    `json:"twins,omitempty"`
	Draw  string `json:"draw,omitempty"`
}

func gradeSpec(t *task.Task, g *grading, modules map[string][]byte, tests []string) (graderInput, []tokens) {
	var list []tokens
	for _, id := range tests {
		list = append(list, tokens{ID: id, Body: word(), Bare: word(), Done: word(), Sentinel: word(), Begin: word()})
	}
	in := graderInput{Root: repoDir, Files: modules, Own: g.own, Processes: t.Config.Agon.Processes, Asserts: assertSource, Tests: list, Timeout: t.Config.Agon.TestTimeoutSec, Ready: word(), Boxed: true}
	if in.Timeout <= 0 {
		in.Timeout = task.DefaultTestTimeoutSec
	}
	for _, p := range pythonPath(t) {
		in.Path = append(in.Path, path.Join(repoDir, p))
	}
	return in, list
}

// parts is how many tokens a test has.
const parts = 5

// report collects what grade.py and its children write. Everything but the
// tokens is foreign text.
type report struct {
	want   map[string]int // token to parts*test+part; part as in tokens.all
	readyW string
	tests  []tokens

	line    []byte
	size    int
	ready   bool
	closed  bool
	broken  string
	seen    [][parts]int // how often
	note    []string
	status  []string
	tooLong bool
}

func newReport(ready string, tests []tokens) *report {
	r := &report{want: map[string]int{}, readyW: ready, tests: tests, seen: make([][parts]int, len(tests)), note: make([]string, len(tests)), status: make([]string, len(tests))}
	for i, t := range tests {
		for j, w := range t.all() {
			r.want[w] = parts*i + j
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
		r.seen[n/parts][n%parts]++
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

func (r *report) results(t *task.Task, x sandbox.Exit) map[string]TestResult {
	out := make(map[string]TestResult, len(r.tests))
	for i, w := range r.tests {
		s := r.seen[i]
		res := TestResult{ID: w.ID, Group: PassToPass, Passed: s[0]+s[1] > 0 && s[2] > 0 && s[3] > 0, again: s[4] > 1 || s[0]+s[1] > 1}
		if slices.Contains(t.Config.Agon.FailToPass, w.ID) {
			res.Group = FailToPass
		}
		if !res.Passed {
			res.Why = plain.Short(r.why(i, x), 300)
			res.asserted = strings.HasPrefix(r.note[i], "failure")
			res.line = lineOf(noteLine(), r.note[i])
		}
		out[w.ID] = res
	}
	return out
}

// why explains a test that did not pass, as far as the text can be believed.
func (r *report) why(i int, x sandbox.Exit) string {
	switch s := r.seen[i]; {
	case r.note[i] != "":
		return r.note[i]
	case r.status[i] == "timeout":
		return whyTimeout
	case r.status[i] == "exit 86":
		return "reached for the test machinery"
	case r.status[i] == "" && x.Limit != "":
		return whyLimit + x.Limit + " limit of the box"
	case r.status[i] == "":
		return "did not run"
	case s[2] > 0 && s[3] == 0:
		return "what must fail did not fail"
	case s[0]+s[1] == 0:
		return "the test's body did not come to its end (" + r.status[i] + ")"
	}
	return "no completion mark (" + r.status[i] + ")"
}
