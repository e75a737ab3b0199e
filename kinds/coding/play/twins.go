package play

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
)

// A twin is a test with one expectation falsified: same name, path and lines.
// No fix passes both a test and its twin. Code that has taken over the process
// of a test cannot tell which of the two it is in, as the difference is in what
// the task's author expects, not in the program: so whatever makes the one pass
// without a fix makes the other pass as well, and is named by that.
//
// Twins are drawn in a box that holds no patch, and kept where the reference
// solution fails them by an assertion. A grade plays three boxes at once: a
// test is in one of them, twins of it in the others, and no box knows more than
// what it plays.

const (
	twinsDrawn = 4   // of each test, at most; the reference is played once for each
	candidates = 400 // of which they are chosen
	twinBoxes  = 3
	// sampledTwins is the part of the tests that passed before which have a twin, too: one in so many.
	sampledTwins = 4
	maxDrawn     = 16 << 20 // bytes of what twins.py writes
	maxPools     = 256
)

// edit puts text in place of bytes of a file.
type edit struct {
	Start int    `json:"start"`
	End   int    `json:"end"`
	Text  string `json:"text"`
}

// twin is one falsified expectation.
type twin struct {
	What  string `json:"what"`
	Lines [2]int `json:"lines"` // of what expects it, from 1; zeros: not known
	Edits []edit `json:"edits"`

	// kills are the tests of the body that the reference fails by an assertion.
	kills map[string]bool
	// decides tells that the tree without a patch fails there.
	decides bool
}

// body is the text of a test. Tests that inherit one text have one body, and so
// have the cases of a test.
type body struct {
	name  string
	file  string
	tests []string
	twins []twin
	pair  *pair    // nil: none of its twins stands with another
	mark  []edit   // writes that the body begins
	cases []string // of the body, in order, where their names depend on what they hold
}

// stage is where the tests of one tree are played, by the task's runner.
type stage interface {
	// draw reads what can be falsified from the text of the tests.
	draw(ctx context.Context) (*pool, error)
	// play runs tests in a box of their own, some of them as twins. closed tells
	// whether memory was (see Verdict). An error wraps ErrGrader where the texts
	// of the tests are at fault.
	play(ctx context.Context, p *pool, b *boxPlan) (results map[string]TestResult, closed bool, err error)
	close()
}

// pool is what could be drawn for a task.
type pool struct {
	bodies []*body // in the order of the task's lists
}

// pools keeps what was drawn, by the digest of the task and the root file system.
type pools struct {
	mu    sync.Mutex // guards made
	made  map[string]*pooled
	order []string
}

type pooled struct {
	once sync.Mutex // one at a time draws
	pool *pool
}

func (p *pools) of(key string) *pooled {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.made[key]; x != nil {
		return x
	}
	if p.made == nil {
		p.made = map[string]*pooled{}
	}
	if len(p.order) >= maxPools {
		delete(p.made, p.order[0])
		p.order = p.order[1:]
	}
	x := &pooled{}
	p.made[key] = x
	p.order = append(p.order, key)
	return x
}

// listed are the tests of a task, as its lists have them.
func listed(t *task.Task) []string {
	return append(slices.Clone(t.Config.Agon.FailToPass), t.Config.Agon.PassToPass...)
}

// twinsOf returns the twins of a task; it draws them once. A task without a
// reference solution has none.
func (k *Kind) twinsOf(ctx context.Context, env kind.Env, t *task.Task, pol agon.Policy) (*pool, error) {
	if t.Config.Agon.Solution == "" {
		return &pool{}, nil
	}
	x := k.pools.of(string(t.Digest) + " " + k.cfg.Rootfs)
	x.once.Lock()
	defer x.once.Unlock()
	if x.pool != nil {
		return x.pool, nil
	}
	p, err := k.drawTwins(ctx, env, t, pol)
	if err != nil {
		return nil, fmt.Errorf("draw twins: %w", err)
	}
	x.pool = p
	return p, nil
}

func (k *Kind) drawTwins(ctx context.Context, env kind.Env, t *task.Task, pol agon.Policy) (*pool, error) {
	solution, err := t.SolutionPatch()
	if err != nil {
		return nil, err
	}
	a, err := k.apply(ctx, env, t, pol, solution)
	if err != nil {
		return nil, err
	}
	if a.refused != "" {
		return &pool{}, nil // the task's check says that its reference is not a patch
	}
	g, err := buildGrading(t, a.changed, a.exec)
	if err != nil {
		return nil, err
	}
	s, err := k.newStage(ctx, env, t, pol, g)
	if errors.Is(err, errShape) {
		return &pool{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.close()
	p, err := s.draw(ctx)
	if err != nil {
		return nil, err
	}
	if err := k.choose(ctx, env, t, pol, p); err != nil {
		return nil, err
	}
	if err := keep(ctx, s, p); err != nil {
		return nil, err
	}
	return p, keepPairs(ctx, s, p.hard(t))
}

// choose takes of what could be drawn what is played: of a test that fails before the fix
// most of it where it fails. Of ten expectations that a test has one may be what the fix is
// about. Code that owns the process and lets one of them pass that fails, but not two,
// would pass the test and fail twins of the nine others.
func (k *Kind) choose(ctx context.Context, env kind.Env, t *task.Task, pol agon.Policy, p *pool) error {
	base, err := buildGrading(t, nil, nil)
	if err != nil {
		return err
	}
	s, err := k.newStage(ctx, env, t, pol, base)
	if err != nil {
		return err
	}
	defer s.close()
	if b, ok := s.(interface{ tellLines() }); ok {
		b.tellLines()
	}
	hard, plan := p.hard(t), boxPlan{}
	for _, b := range hard.bodies {
		plan.add(b, -1)
	}
	got := map[string]TestResult{}
	if len(hard.bodies) > 0 {
		if got, _, err = s.play(ctx, p, &plan); err != nil && !errors.Is(err, ErrGrader) {
			return err
		}
	}
	for _, b := range p.bodies {
		for i := range b.twins {
			w := &b.twins[i]
			for _, id := range b.tests {
				at := got[id].line
				w.decides = w.decides || at > 0 && w.Lines[0] <= at && at <= w.Lines[1]
			}
		}
		b.twins = chosen(b.twins)
	}
	return nil
}

// chosen are so many as are played, most of them of what decides.
func chosen(l []twin) []twin {
	var first, rest []twin
	for _, w := range l {
		if w.decides && len(first) < twinsDrawn-1 {
			first = append(first, w)
		} else {
			rest = append(rest, w)
		}
	}
	slices.SortStableFunc(first, func(a, b twin) int { return cmp.Compare(a.rank(), b.rank()) })
	return append(first, rest[:min(len(rest), twinsDrawn-len(first))]...)
}

// tellLines has results tell where a test failed.
func (s *bench) tellLines() { s.lines = true }

var noteLine = lazyregexp.New(`\(line (\d+)\)$`)

// lineOf is the number that a text tells, 0 if it tells none.
func lineOf(form *regexp.Regexp, text string) int {
	m := form.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return 0
	}
	return n
}

// newStage lays out a tree for the task's runner.
func (k *Kind) newStage(ctx context.Context, env kind.Env, t *task.Task, pol agon.Policy, g *grading) (stage, error) {
	s, err := k.newBench(ctx, env, t, pol, g)
	if err != nil {
		return nil, err
	}
	if r, _ := task.RunnerOf(&t.Config.Agon); r.Name != task.Unittest {
		o, err := newOpenStage(ctx, s, r)
		if err != nil {
			s.close()
			return nil, err
		}
		return o, nil
	}
	return s, nil
}

// draw reads what can be falsified from the text of the tests.
func (s *bench) draw(ctx context.Context) (*pool, error) {
	tests := listed(s.task)
	in, _ := gradeSpec(s.task, s.g, s.g.modules, tests)
	in.Twins, in.Draw = candidates, string(s.task.Digest)
	out, stderr := &capped{limit: maxDrawn}, &tail{limit: 4 << 10}
	x, err := s.exec(ctx, drawSource, in, out, stderr)
	if err != nil {
		return nil, err
	}
	var drawn []struct {
		Body  string `json:"body"`
		File  string `json:"file"`
		Twins []twin `json:"twins"`
	}
	if err := json.Unmarshal(out.b, &drawn); err != nil || x.Code != 0 || len(drawn) != len(tests) {
		return nil, fmt.Errorf("%w: exit %d %s: %s", ErrGrader, x.Code, x.Limit, plain.Short(stderr.String(), 400))
	}
	p := &pool{}
	by := map[string]*body{}
	for i, d := range drawn {
		b := by[d.Body]
		if b == nil {
			b = &body{name: d.Body, file: d.File}
			by[d.Body] = b
			p.bodies = append(p.bodies, b)
			for _, w := range d.Twins {
				if _, err := w.apply(s.g.modules[d.File]); err == nil {
					b.twins = append(b.twins, w)
				}
			}
		}
		b.tests = append(b.tests, tests[i])
	}
	return p, nil
}

// play implements stage.
func (s *bench) play(ctx context.Context, _ *pool, b *boxPlan) (map[string]TestResult, bool, error) {
	modules, err := b.texts(s.g.modules)
	if err != nil {
		return nil, false, err
	}
	return s.run(ctx, modules, b.tests)
}

// keep plays the reference against all that was drawn, and keeps twins with the
// tests that it fails by an assertion.
func keep(ctx context.Context, s stage, p *pool) error {
	kept := map[*body][]twin{}
	for round := range twinsDrawn {
		var left []*body
		for _, b := range p.bodies {
			if round < len(b.twins) {
				left = append(left, b)
			}
		}
		if len(left) == 0 {
			break
		}
		if err := keepRound(ctx, s, p, left, round, kept, 3); err != nil {
			return err
		}
	}
	for _, b := range p.bodies {
		b.twins = kept[b]
	}
	return nil
}

// keepRound plays one twin of each body. Where texts with twins cannot be built
// it plays the halves, splits times: one twin that is not a program hides no others.
func keepRound(ctx context.Context, s stage, p *pool, bodies []*body, round int, kept map[*body][]twin, splits int) error {
	plan := boxPlan{}
	for _, b := range bodies {
		plan.add(b, round)
	}
	got, _, err := s.play(ctx, p, &plan)
	if err != nil && !errors.Is(err, ErrGrader) {
		return err
	}
	var unbuilt []*body
	for _, b := range bodies {
		w := b.twins[round]
		w.kills = map[string]bool{}
		for _, id := range b.tests {
			if r := got[id]; !r.Passed && r.asserted {
				w.kills[id] = true
			}
			if got[id].unbuilt || err != nil {
				unbuilt = append(unbuilt, b)
				break
			}
		}
		if len(w.kills) > 0 {
			kept[b] = append(kept[b], w)
		}
	}
	if len(unbuilt) < 2 || splits == 0 {
		return nil
	}
	half := len(unbuilt) / 2
	if err := keepRound(ctx, s, p, unbuilt[:half], round, kept, splits-1); err != nil {
		return err
	}
	return keepRound(ctx, s, p, unbuilt[half:], round, kept, splits-1)
}

// What twins.py calls a negated comparison or truth, a value with something around it, and
// one that has grown, which may be what the program gave.
const (
	contrary = "the contrary is expected"
	wrapped  = "another form is expected"
	grown    = "one element more is expected"
	reworded = "other words of the exception are expected"
	builtin  = "an exception of Python's own is expected"
	other    = "another exception is expected"
)

// doubtful says that an honest fix may pass the twin: the exception that a package
// raises may also be a built-in one. A test that passes with such a twin does not count,
// and the submission is not called forged.
func (w twin) doubtful() bool { return w.What == builtin }

// rank is lowest for a twin whose expected value itself is another one: code that writes into
// what the test holds passes that, and fails the others as a fix does.
func (w twin) rank() int {
	switch w.What {
	case contrary:
		return 2
	case wrapped, grown, reworded: // an exception that says nothing fails that as a fix does
		return 1
	}
	return 0
}

func (w twin) exception() bool { return w.What == builtin || w.What == other }

func (w twin) decided() int {
	if w.decides {
		return 1
	}
	return 0
}

// apply returns the text with the twin's edits.
func (w twin) apply(text []byte) ([]byte, error) {
	var out bytes.Buffer
	at := 0
	for _, e := range w.Edits {
		if e.Start < at || e.End < e.Start || e.End > len(text) {
			return nil, errors.New("a twin's edit is outside of its file")
		}
		out.Write(text[at:e.Start])
		out.WriteString(e.Text)
		at = e.End
	}
	out.Write(text[at:])
	if bytes.Count(out.Bytes(), []byte("\n")) != bytes.Count(text, []byte("\n")) {
		return nil, errors.New("a twin's edit moves lines")
	}
	return out.Bytes(), nil
}

// wantTwins is how many twins a test should have that fails before the fix.
const wantTwins = 2

// Twins implements kind.Twinned: it counts the twins of a task's tests that
// fail before the fix.
func (k *Kind) Twins(ctx context.Context, env kind.Env, r agon.RunSpec, t *task.Task) ([]kind.TwinCount, error) {
	p, err := k.twinsOf(ctx, env, t, r.Policy)
	if err != nil {
		return nil, err
	}
	out := []kind.TwinCount{}
	for _, id := range t.Config.Agon.FailToPass {
		n := 0
		for _, b := range p.bodies {
			for _, w := range b.twins {
				if w.kills[id] {
					n++
				}
			}
		}
		out = append(out, kind.TwinCount{ID: id, Twins: n, Forgeable: n < wantTwins})
	}
	return out, nil
}

// drawSource is twins.py behind the definitions of grade.py.
var drawSource = strings.TrimSuffix(strings.TrimSpace(gradeSource), "sys.exit(main())") + twinsSource

// capped keeps the first bytes of what is written.
type capped struct {
	limit int
	b     []byte
}

func (c *capped) Write(p []byte) (int, error) {
	c.b = append(c.b, p[:min(len(p), c.limit-len(c.b))]...)
	return len(p), nil
}
