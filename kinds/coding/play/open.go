package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/sandbox"
)

// Runners other than unittest are the ones that the test's authors use, and
// what they say is the word of a process that the code under test shares: it
// may say anything. Twins are what makes it count: whoever has the process say
// "passed" has it say so of twins as well.

// language is what the judge knows of a runner.
type language struct {
	runner string
	env    []string
	mounts []sandbox.Mount
	// units finds the bodies of listed tests and what can be falsified in them;
	// nil: by twins.py, in a box.
	units func(texts map[string][]byte, tests []string, seed string) []*body
	// unit is the body that a test is part of.
	unit func(id string) string
	// jobs are the commands that play tests.
	jobs func(l *language, t *task.Task, units []*body, tests []string) []job
	// read takes what came of them.
	read func(t *task.Task, jobs []job, done []jobDone, r *openReport)
}

// job is a command that jobs.py runs.
type job struct {
	Args    []string          `json:"args"`
	Dir     string            `json:"dir,omitempty"`
	Timeout float64           `json:"timeout"`
	Collect string            `json:"collect,omitempty"` // a file that it leaves
	Env     map[string]string `json:"env,omitempty"`
	Needs   int               `json:"needs"` // the job before that must have ended well, or -1

	tests []string // that it plays
	build bool
}

type jobDone struct {
	Job  int             `json:"job"`
	Code json.RawMessage `json:"code"` // a number, "timeout", null where it was not run
	Out  []byte          `json:"out"`
	Err  []byte          `json:"err"`
	File []byte          `json:"file"`
	Why  string          `json:"why"`
}

func (d jobDone) ok() bool { return string(d.Code) == "0" }

// openReport gathers results: of each test the first counts.
type openReport struct {
	t      *task.Task
	got    map[string]TestResult
	begins map[string]int // of bodies
	played map[string]int // tests of a body that ran
	order  []string       // tests as they came, listed or not
	all    bool           // tests count that no list names
}

func (r *openReport) add(id string, passed, asserted bool, why string) {
	if old, ok := r.got[id]; ok {
		old.again = true
		r.got[id] = old
		return
	}
	res := TestResult{ID: id, Group: PassToPass, Passed: passed, asserted: asserted && !passed}
	if slices.Contains(r.t.Config.Agon.FailToPass, id) {
		res.Group = FailToPass
	}
	if !passed {
		res.Why = plain.Short(why, 300)
	}
	r.got[id] = res
}

// at notes in which line of its file a test failed.
func (r *openReport) at(id string, line int) {
	if x, ok := r.got[id]; ok && x.line == 0 && !x.Passed {
		x.line = line
		r.got[id] = x
	}
}

// openStage plays a tree by a runner other than unittest.
type openStage struct {
	*bench
	lang  *language
	files map[string][]byte // the texts of the tests
	once  sync.Once         // for what follows: boxes are played at once
	marks []*body           // all bodies, by the number of their mark
	of    map[string]*body  // by name
}

func newOpenStage(ctx context.Context, s *bench, r task.Runner) (*openStage, error) {
	l, err := languageOf(ctx, s, r.Name)
	if err != nil {
		return nil, err
	}
	s.open = l
	o := &openStage{bench: s, lang: l, files: map[string][]byte{}, of: map[string]*body{}}
	wanted := map[string]bool{}
	for _, id := range listed(s.task) {
		if f := r.File(id); f != "" {
			wanted[f] = true
		}
	}
	for name, f := range s.g.tree {
		// A patch may say what stands in a file of Rust that holds code as well as tests: its tests have no twins.
		if f.link == "" && (wanted[name] || r.Name == "go" && strings.HasSuffix(name, "_test.go") || r.Name == "cargo" && strings.HasSuffix(name, ".rs") && s.g.decided(name)) {
			o.files[name] = f.data
		}
	}
	// A box's user may write the copy: what tests leave in the tree dies with the box.
	return o, filepath.WalkDir(s.tree, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.Type()&os.ModeSymlink != 0 {
			return err
		}
		if d.IsDir() {
			return os.Chmod(p, 0o777)
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		return os.Chmod(p, fi.Mode().Perm()|0o666)
	})
}

// box makes a box's spec that of the runner.
func (l *language) box(s *bench, spec *sandbox.Spec) {
	for i, m := range spec.Mounts {
		if m.Target == repoDir {
			spec.Mounts[i] = sandbox.Mount{Kind: sandbox.MountOverlay, Source: s.tree, Target: repoDir}
		}
	}
	spec.Mounts = append(spec.Mounts, l.mounts...)
	spec.Env = append(spec.Env, l.env...)
}

// pytestInput is the standard input of pytests.py, and of twins.py for pytest.
type pytestInput struct {
	Root      string            `json:"root,omitempty"`
	Path      []string          `json:"path,omitempty"`
	Files     map[string][]byte `json:"files"`
	Units     any               `json:"units"`
	Timeout   float64           `json:"timeout,omitempty"`
	Ready     string            `json:"ready,omitempty"`
	Processes bool              `json:"processes"`
	Plugins   []string          `json:"plugins"`
	Twins     int               `json:"twins,omitempty"`
	Draw      string            `json:"draw,omitempty"`
}

type pytestUnit struct {
	ID   string `json:"id"`
	Mark int    `json:"mark"`
}

// draw implements stage.
func (o *openStage) draw(ctx context.Context) (*pool, error) {
	tests := listed(o.task)
	p := &pool{}
	if o.lang.units != nil {
		p.bodies = o.lang.units(o.files, tests, string(o.task.Digest))
		o.bodies(p)
		return p, nil
	}
	var units []string
	by := map[string]*body{}
	for _, id := range tests {
		u := o.lang.unit(id)
		if by[u] == nil {
			by[u] = &body{name: u}
			units = append(units, u)
		}
		by[u].tests = append(by[u].tests, id)
	}
	out, stderr := &capped{limit: maxDrawn}, &tail{limit: 4 << 10}
	x, err := o.exec(ctx, drawSource, pytestInput{Files: o.files, Units: units, Twins: candidates, Draw: string(o.task.Digest), Plugins: []string{}}, out, stderr)
	if err != nil {
		return nil, err
	}
	var drawn []struct {
		Body  string `json:"body"`
		File  string `json:"file"`
		Twins []twin `json:"twins"`
		Mark  []edit `json:"mark"`
	}
	if err := json.Unmarshal(out.b, &drawn); err != nil || x.Code != 0 || len(drawn) != len(units) {
		return nil, fmt.Errorf("%w: exit %d %s: %s", ErrGrader, x.Code, x.Limit, plain.Short(stderr.String(), 400))
	}
	for i, d := range drawn {
		b := by[units[i]]
		b.file, b.mark = d.File, d.Mark
		for _, w := range d.Twins {
			if _, err := (twin{Edits: sorted(slices.Concat(b.mark, w.Edits))}).apply(o.files[b.file]); err == nil {
				b.twins = append(b.twins, w)
			}
		}
		p.bodies = append(p.bodies, b)
	}
	o.bodies(p)
	// Cases are named by their values, which twins change: what they are called
	// is known from the tests as they are.
	r := &openReport{t: o.task, got: map[string]TestResult{}, begins: map[string]int{}, played: map[string]int{}}
	texts, err := (&boxPlan{}).texts(o.files, p.bodies...)
	if err != nil {
		return nil, err
	}
	if err := o.pytest(ctx, texts, p.bodies, testTimeout(o.task), r); err != nil {
		return nil, err
	}
	for _, id := range r.order {
		if b := by[o.lang.unit(id)]; b != nil {
			b.cases = append(b.cases, id)
		}
	}
	return p, nil
}

// bodies learns what the pool holds, once.
func (o *openStage) bodies(p *pool) {
	o.once.Do(func() {
		o.marks = p.bodies
		for _, b := range p.bodies {
			o.of[b.name] = b
		}
	})
}

func sorted(l []edit) []edit {
	slices.SortStableFunc(l, func(a, b edit) int { return a.Start - b.Start })
	return l
}

// play implements stage.
func (o *openStage) play(ctx context.Context, p *pool, b *boxPlan) (map[string]TestResult, bool, error) {
	o.bodies(p)
	texts, err := b.texts(o.files, o.marks...)
	if err != nil {
		return nil, false, err
	}
	// All texts are written anew in each box, also those that are as they were: the
	// time of a file must not tell in which box it holds a twin.
	units := []*body{}
	seen := map[string]bool{}
	for _, id := range b.tests {
		u := o.lang.unit(id)
		if seen[u] {
			continue
		}
		seen[u] = true
		if x := o.of[u]; x != nil {
			units = append(units, x)
		} else {
			units = append(units, &body{name: u})
		}
	}
	r := &openReport{t: o.task, got: map[string]TestResult{}, begins: map[string]int{}, played: map[string]int{}}
	if o.lang.jobs == nil {
		err = o.pytest(ctx, texts, units, testTimeout(o.task), r)
	} else {
		err = o.run(ctx, texts, units, b.tests, r)
	}
	if err != nil {
		return nil, false, err
	}
	out := map[string]TestResult{}
	for _, id := range b.tests {
		res, ok := r.got[id]
		if !ok {
			r.add(id, false, false, "did not run")
			res = r.got[id]
		}
		if u := o.lang.unit(id); r.begins[u] > max(r.played[u], 1) {
			res.again = true
		}
		out[id] = res
	}
	return out, true, nil
}

// pytest plays units by pytests.py.
func (o *openStage) pytest(ctx context.Context, texts map[string][]byte, units []*body, limit float64, r *openReport) error {
	in := pytestInput{
		Root: repoDir, Files: texts, Timeout: limit, Ready: word(), Processes: o.task.Config.Agon.Processes, Plugins: o.task.Config.Agon.Plugins,
	}
	if in.Plugins == nil {
		in.Plugins = []string{}
	}
	for _, p := range pythonPath(o.task) {
		in.Path = append(in.Path, path.Join(repoDir, p))
	}
	list := []pytestUnit{}
	for _, u := range units {
		n := slices.Index(o.marks, u)
		if n < 0 {
			n = len(o.marks) + len(list)
		}
		list = append(list, pytestUnit{u.name, n})
	}
	in.Units = list
	out, stderr := &capped{limit: maxReport}, &tail{limit: 4 << 10}
	x, err := o.exec(ctx, pytestSource, in, out, stderr)
	if err != nil {
		return err
	}
	ready, why := false, ""
	for line := range bytes.Lines(out.b) {
		if line = bytes.TrimSpace(line); string(line) == in.Ready {
			ready = true
			continue
		}
		var row struct {
			Test     *string `json:"test"`
			Case     []int   `json:"case"`
			Outcome  string  `json:"outcome"`
			Asserted bool    `json:"asserted"`
			Line     int     `json:"line"`
			Why      string  `json:"why"`
			Broken   string  `json:"broken"`
			Begin    *int    `json:"begin"`
		}
		if json.Unmarshal(line, &row) != nil {
			continue
		}
		switch {
		case row.Begin != nil:
			if n := *row.Begin; n >= 0 && n < len(o.marks) {
				r.begins[o.marks[n].name]++
			}
		case row.Test != nil:
			u, id := o.lang.unit(*row.Test), *row.Test
			if b := o.of[u]; b != nil && len(row.Case) == 2 && len(b.cases) == row.Case[1] && row.Case[0] >= 0 && row.Case[0] < len(b.cases) {
				id = b.cases[row.Case[0]] // its name in the test itself, which a process of a twin must not know
			}
			r.played[u]++
			r.order = append(r.order, id)
			r.add(id, row.Outcome == "passed", row.Asserted, row.Why)
			r.at(id, row.Line)
		case row.Broken != "":
			why = row.Broken + ": " + row.Why
		}
	}
	if !ready {
		return fmt.Errorf("%w: exit %d %s: %s", ErrGrader, x.Code, x.Limit, plain.Short(why+" "+stderr.String(), 400))
	}
	if why != "" {
		for _, u := range units {
			for _, id := range u.tests {
				if _, ok := r.got[id]; !ok {
					r.add(id, false, false, "could not be collected: "+why)
					x := r.got[id]
					x.unbuilt = true
					r.got[id] = x
				}
			}
		}
	}
	return nil
}

// run plays units by the commands of a language.
func (o *openStage) run(ctx context.Context, texts map[string][]byte, units []*body, tests []string, r *openReport) error {
	in := struct {
		Root  string            `json:"root"`
		Files map[string][]byte `json:"files"`
		Jobs  []job             `json:"jobs"`
		Ready string            `json:"ready"`
		// Outer are variables of the programs where they differ from the interpreter's.
		Outer map[string]*string `json:"outer"`
	}{repoDir, texts, o.lang.jobs(o.lang, o.task, units, tests), word(), o.outer()}
	out, stderr := &capped{limit: 8 * maxReport}, &tail{limit: 4 << 10}
	x, err := o.exec(ctx, jobsSource, in, out, stderr)
	if err != nil {
		return err
	}
	first, rest, _ := bytes.Cut(out.b, []byte("\n"))
	if string(first) != in.Ready {
		return fmt.Errorf("%w: exit %d %s: %s", ErrGrader, x.Code, x.Limit, plain.Short(stderr.String(), 400))
	}
	done := make([]jobDone, len(in.Jobs))
	for line := range bytes.Lines(rest) {
		var d jobDone
		if json.Unmarshal(line, &d) == nil && d.Job >= 0 && d.Job < len(done) && done[d.Job].Code == nil {
			done[d.Job] = d
		}
	}
	for i, j := range in.Jobs {
		if j.build && !done[i].ok() {
			for _, id := range j.tests {
				r.add(id, false, false, "cannot be built: "+string(done[i].Err)+" "+done[i].Why)
				x := r.got[id]
				x.unbuilt = true
				r.got[id] = x
			}
		}
		if why := done[i].Why; why != "" && !j.build {
			for _, id := range j.tests {
				r.add(id, false, false, why)
			}
		}
		// A begin mark is a line of the error output.
		for line := range bytes.Lines(done[i].Err) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(string(line)), beginMark); ok {
				var n int
				if _, err := fmt.Sscanf(name, "%d", &n); err == nil && n >= 0 && n < len(o.marks) {
					r.begins[o.marks[n].name]++
				}
			}
		}
	}
	o.lang.read(o.task, in.Jobs, done, r)
	return nil
}

// beginMark begins the lines that marked bodies write, before their number.
const beginMark = "agon begins "

// errNoToolchain is a runner whose programs are not here.
var errNoToolchain = errors.New("the runner's programs are not here")

func languageOf(ctx context.Context, s *bench, runner string) (*language, error) {
	l := &language{runner: runner}
	switch runner {
	case "pytest":
		l.unit = func(id string) string { u, _, _ := strings.Cut(id, "["); return u }
		l.env = []string{"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1"}
		return l, nil
	case "script":
		l.unit = func(id string) string { return id }
		l.units, l.jobs, l.read = noUnits, scriptJobs, readScripts
		return l, nil
	case "go":
		l.unit, l.units, l.jobs, l.read = goUnit, goUnits, goJobs, readGo
	case "node":
		l.unit, l.units, l.jobs, l.read = sameUnit, scriptUnits, nodeJobs, readNode
		if err := os.WriteFile(filepath.Join(s.tools, "report.mjs"), nodeReport, 0o644); err != nil {
			return nil, fmt.Errorf("write the reporter: %w", err)
		}
	case "jest":
		l.unit, l.units, l.jobs, l.read = sameUnit, scriptUnits, jestJobs, readJest
	case "cargo":
		l.unit, l.units, l.jobs, l.read = sameUnit, rustUnits, cargoJobs, readCargo
	default:
		return nil, fmt.Errorf("no runner %q", runner)
	}
	return l, s.k.toolchain(ctx, s.task, l)
}

func sameUnit(id string) string { return id }

func noUnits(map[string][]byte, []string, string) []*body { return nil }

// testTimeout is how long one test may take.
func testTimeout(t *task.Task) float64 {
	if s := t.Config.Agon.TestTimeoutSec; s > 0 {
		return s
	}
	return task.DefaultTestTimeoutSec
}

// scriptJobs run each script, which leaves a reward.
func scriptJobs(_ *language, t *task.Task, units []*body, _ []string) []job {
	var out []job
	for _, u := range units {
		out = append(out, job{
			Args: []string{"/bin/sh", u.name}, Timeout: testTimeout(t), Collect: "/tmp/reward", Needs: -1,
			Env: map[string]string{"AGON_REWARD": "/tmp/reward"}, tests: []string{u.name},
		})
	}
	return out
}

func readScripts(_ *task.Task, jobs []job, done []jobDone, r *openReport) {
	for i, d := range done {
		if d.Why != "" {
			continue // it left none, which is said already
		}
		if string(d.Code) == `"timeout"` || strings.HasPrefix(string(d.Code), "-") {
			// Code under test may write the reward itself and end the shell before the script does.
			r.add(jobs[i].tests[0], false, false, "the script did not come to its end: "+plain.Short(string(d.Code), 60))
			continue
		}
		reward := strings.TrimSpace(string(d.File))
		r.add(jobs[i].tests[0], reward == "1" || reward == "1.0", reward == "0" || reward == "0.0", "the reward is "+plain.Short(reward, 60)+"; "+string(d.Err))
	}
}
