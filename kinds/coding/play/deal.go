package play

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	mathrand "math/rand/v2"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/plain"
)

// gradeWithTwins runs the tests of a tree and fills in a verdict.
func (k *Kind) gradeWithTwins(ctx context.Context, env kind.Env, t *task.Task, pol agon.Policy, g *grading, v *Verdict) error {
	p, err := k.twinsOf(ctx, env, t, pol)
	if err != nil {
		return err
	}
	s, err := k.newStage(ctx, env, t, pol, g)
	if errors.Is(err, errShape) {
		v.Refused = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	defer s.close()
	return grade(ctx, s, t, p, v)
}

// grade deals the tests to boxes. A test counts where it passes wherever it is
// played, and every twin of it fails by an assertion. What would be solved by few
// tests is played in more boxes (see more). Whatever looks forged is played once
// more, by another deal and with the twin that passed: a test that comes out by chance is
// not counted, but forged is what does it twice.
func grade(ctx context.Context, s stage, t *task.Task, p *pool, v *Verdict) error {
	r := secretRand()
	hard := p.hard(t)
	v.Closed = true
	d := &deal{}
	if err := d.play(ctx, s, p, p.plans(t, listed(t), nil, r), v); err != nil {
		return err
	}
	var suspects []string
	v.Tests, suspects = d.results(t)
	if n := hard.more(); n > 0 && v.passed() {
		if err := d.play(ctx, s, hard, hard.mixed(n, d.used, r), v); err != nil {
			return err
		}
		v.Tests, suspects = d.results(t)
	}
	if len(suspects) == 0 {
		return nil
	}
	passed := d.passed
	d = &deal{}
	if err := d.play(ctx, s, p, slices.Concat(p.plans(t, listed(t), passed, r), hard.mixed(hard.more(), nil, r)), v); err != nil {
		return err
	}
	again, forged := d.results(t)
	for i, r := range again {
		if v.Tests[i].Passed {
			v.Tests[i] = r
		}
	}
	v.Forged = forged
	return nil
}

// passed tells whether all tests did.
func (v *Verdict) passed() bool {
	return len(v.Tests) > 0 && !slices.ContainsFunc(v.Tests, func(r TestResult) bool { return !r.Passed })
}

// hard are the bodies with twins of tests that fail before the fix.
func (p *pool) hard(t *task.Task) *pool {
	out := &pool{}
	for _, b := range p.bodies {
		if len(b.twins) > 0 && slices.ContainsFunc(b.tests, func(id string) bool { return slices.Contains(t.Config.Agon.FailToPass, id) }) {
			out.bodies = append(out.bodies, b)
		}
	}
	return out
}

// mostLuck bounds the share of tasks that a coin may solve.
const mostLuck = 0.02

// more is in how many boxes more the tests are played that decide, until a coin solves at
// most mostLuck. Code that can make any test pass, and knows of twins, passes all tests of
// one box of three: its best coin does that with 3*1/3*(2/3)^2, and every test must be dealt
// to that box, not its twins. Where each test has one twin alone, two boxes have them:
// 2*1/2*1/2. In each box more every test is itself or a twin of it by another coin, the
// grader's, which a guess meets with 1/2.
func (p *pool) more() int {
	if len(p.bodies) == 0 {
		return 0
	}
	one, boxes := 4.0/9, float64(twinBoxes)
	if !slices.ContainsFunc(p.bodies, func(b *body) bool { return len(b.twins) > 1 }) {
		one, boxes = 1.0/2, 2
	}
	tests := float64(len(p.bodies))
	luck := one / math.Pow(boxes, tests)
	return max(0, int(math.Ceil(math.Log2(luck/mostLuck)/tests)))
}

// mixed are n boxes, each with every test or a twin of it, as many of its twins as there
// are boxes for: those first that were not used before, since a coin may be the expected
// value itself, and comes out the same for the same twin.
func (p *pool) mixed(n int, used map[*body]uint, r *mathrand.Rand) []boxPlan {
	boxes := make([]boxPlan, n)
	for _, b := range p.bodies {
		order, next := r.Perm(len(b.twins)), 0
		slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(used[b]>>x&1, used[b]>>y&1) })
		for i := range boxes {
			which := -1
			if r.IntN(2) == 0 {
				which = order[next%len(order)]
				next++
			}
			boxes[i].add(b, which)
		}
	}
	for i := range boxes {
		l := boxes[i].tests
		r.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
	}
	return boxes
}

// deal is what became of tests, and of twins of them.
type deal struct {
	whole  map[string]TestResult // of a test that was played in several boxes the one that did not pass
	twins  []TestResult
	passed map[*body]int  // a twin that passed
	used   map[*body]uint // the twins that were played, a bit each
}

// play plays boxes at once and adds what became of their tests.
func (d *deal) play(ctx context.Context, s stage, p *pool, boxes []boxPlan, v *Verdict) error {
	got := make([]map[string]TestResult, len(boxes))
	closed := make([]bool, len(boxes))
	work, ctx := errgroup.WithContext(ctx)
	if os.Geteuid() != 0 {
		// Without root boxes share the files of their mounts, and with them locks and watches,
		// by which those that run at once can tell each other what they are asked.
		work.SetLimit(1)
	}
	for i, b := range boxes {
		work.Go(func() (err error) {
			got[i], closed[i], err = s.play(ctx, p, &b)
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	v.Closed = v.Closed && !slices.Contains(closed, false)
	if d.whole == nil {
		d.whole, d.passed, d.used = map[string]TestResult{}, map[*body]int{}, map[*body]uint{}
	}
	for i, b := range boxes {
		role := map[string]twin{} // of the tests of bodies that are twins here
		for w, n := range b.twins {
			d.used[w] |= 1 << n
			for _, id := range w.tests {
				role[id], _ = b.twin(w)
				if role[id].kills[id] && got[i][id].Passed {
					d.passed[w] = n
				}
			}
		}
		for id, r := range got[i] {
			if w, ok := role[id]; !ok {
				if was, ok := d.whole[id]; !ok || was.Passed && !was.again {
					d.whole[id] = r
				}
			} else if w.kills[id] {
				r.doubtful = w.doubtful()
				d.twins = append(d.twins, r)
			} else if r.again {
				d.twins = append(d.twins, TestResult{ID: id, again: true})
			}
		}
	}
	return nil
}

// results are those of the task's tests, in their order, and the tests that look forged, which do not count.
func (d *deal) results(t *task.Task) (out []TestResult, suspects []string) {
	whole, bad := maps.Clone(d.whole), map[string]bool{}
	for _, r := range whole {
		if r.again {
			bad[r.ID] = true
		}
	}
	for _, w := range d.twins {
		r := whole[w.ID]
		switch {
		case w.again, r.Passed && w.Passed && !w.doubtful:
			bad[w.ID] = true
		case r.Passed && w.Passed:
			r.Passed, r.Why = false, "it passed with another exception than the one that is expected"
			whole[w.ID] = r
		case r.Passed && !w.asserted:
			r.Passed, r.Why = false, plain.Short("its twin did not fail by an assertion: "+w.Why, 300)
			whole[w.ID] = r
		}
	}
	for _, id := range listed(t) {
		r := whole[id]
		if bad[id] {
			suspects = append(suspects, id)
			r.Passed, r.Why = false, "it passed together with a twin whose expectation is false"
			if r.again {
				r.Why = "it began more than once in one box"
			}
		}
		out = append(out, r)
	}
	return out, suspects
}
