package play

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"maps"
	mathrand "math/rand/v2"
	"slices"

	"github.com/agon-arena/agon/engine/task"
)

// boxPlan is what one box plays: tests, some of them as twins.
type boxPlan struct {
	tests []string
	twins map[*body]int // which twin; not in it: the test itself
	also  map[*body]int // another twin whose edits that one holds, too
}

// add puts the tests of a body into the box, as a twin where n is not negative.
func (p *boxPlan) add(b *body, n int) {
	p.tests = append(p.tests, b.tests...)
	if n >= 0 {
		if p.twins == nil {
			p.twins = map[*body]int{}
		}
		p.twins[b] = n
	}
}

// join has the twin of a body in this box hold what another falsifies, too.
func (p *boxPlan) join(b *body, n int) {
	if p.also == nil {
		p.also = map[*body]int{}
	}
	p.also[b] = n
}

// twin is what the box plays of a body, if it is not the test itself.
func (p *boxPlan) twin(b *body) (w twin, ok bool) {
	n, ok := p.twins[b]
	if !ok {
		return twin{}, false
	}
	w = b.twins[n]
	if n, ok := p.also[b]; ok {
		w.Edits = sorted(slices.Concat(w.Edits, b.twins[n].Edits))
	}
	return w, true
}

// texts are those of the task's tests, with this box's twins and the marks of
// other bodies in them.
func (p *boxPlan) texts(own map[string][]byte, marks ...*body) (map[string][]byte, error) {
	edits := map[string][]edit{}
	for _, b := range marks {
		edits[b.file] = append(edits[b.file], b.mark...)
	}
	for b := range p.twins {
		w, _ := p.twin(b)
		edits[b.file] = append(edits[b.file], w.Edits...)
	}
	out := make(map[string][]byte, len(own))
	for name, text := range own {
		if all := edits[name]; len(all) > 0 {
			slices.SortStableFunc(all, func(a, b edit) int { return a.Start - b.Start })
			var err error
			if text, err = (twin{Edits: all}).apply(text); err != nil {
				return nil, err
			}
		}
		out[name] = text
	}
	return out, nil
}

// plans deals the tests to three boxes: a test that fails before the fix is in
// one of them and its twins in the others; of the rest a sample has one twin.
// Neither which, nor where, nor in what order can be known. Of a body in first that twin
// is one of them.
func (p *pool) plans(t *task.Task, tests []string, first map[*body]int, r *mathrand.Rand) []boxPlan {
	boxes := make([]boxPlan, twinBoxes)
	dealt := map[string]bool{}
	for _, b := range p.bodies {
		hard := slices.ContainsFunc(b.tests, func(id string) bool { return slices.Contains(t.Config.Agon.FailToPass, id) })
		which, at := r.Perm(len(b.twins)), r.Perm(twinBoxes)
		// An expected value that is another one is always asked for: an object that
		// equals everything fails where the contrary is expected, as a fix does.
		// What falsifies every case of a test comes before what falsifies some.
		slices.SortStableFunc(which, func(i, j int) int {
			x, y := b.twins[i], b.twins[j]
			return cmp.Or(cmp.Compare(len(y.kills), len(x.kills)), cmp.Compare(x.rank(), y.rank()), cmp.Compare(y.decided(), x.decided()))
		})
		if n := len(which); n > 2 && len(b.twins[which[n-1]].kills) == len(b.twins[which[1]].kills) && r.IntN(2) == 0 {
			which[1], which[n-1] = which[n-1], which[1]
		}
		// Where the tree without a patch fails, another thing is always asked for; and of an
		// exception that it is another one and says other words: code may know either.
		decides := func(n int) bool { return b.twins[n].decides }
		which = second(which, decides)
		if any := slices.ContainsFunc(which, decides); len(which) > 1 && b.twins[which[0]].exception() {
			which = second(which, func(n int) bool {
				return b.twins[n].What == reworded && (!any || decides(n) || decides(which[0]))
			})
		}
		n, again := first[b]
		if again {
			which = slices.Insert(slices.DeleteFunc(which, func(i int) bool { return i == n }), 0, n)
		}
		if !hard {
			which = which[:min(len(which), 1)]
			if r.IntN(sampledTwins) > 0 && !again {
				which = nil
			}
		}
		boxes[at[0]].add(b, -1)
		if n := b.centre(r); n >= 0 && hard && !again {
			boxes[at[1]].add(b, n)
			boxes[at[2]].add(b, n)
			boxes[at[2]].join(b, b.pair.a+b.pair.b-n)
		} else {
			for i := 1; i < twinBoxes && i <= len(which); i++ {
				boxes[at[i]].add(b, which[i-1])
			}
		}
		for _, id := range b.tests {
			dealt[id] = true
		}
	}
	for _, id := range tests {
		if !dealt[id] {
			box := &boxes[r.IntN(twinBoxes)]
			box.tests = append(box.tests, id)
		}
	}
	boxes = slices.DeleteFunc(boxes, func(b boxPlan) bool { return len(b.tests) == 0 })
	for i := range boxes {
		l := boxes[i].tests
		r.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] })
	}
	return boxes
}

// pair is two twins of a body that may stand in one text.
type pair struct {
	a, b  int   // which
	bases []int // those of the two that may be played without the other
}

// pairs are twins that falsify different places: code that makes the test pass without a fix passes
// a base of theirs, too, as it passes any other of the body's twins.
func (b *body) pairs() (out []pair) {
	decides, rank, kills := false, 2, map[string]bool{}
	for _, w := range b.twins {
		if w.exception() || w.What == reworded {
			return nil
		}
		decides, rank = decides || w.decides, min(rank, w.rank())
		maps.Copy(kills, w.kills)
	}
	base := func(n int) bool {
		w := b.twins[n]
		return (w.decides || !decides) && w.rank() == rank && len(w.kills) == len(kills)
	}
	for x := range b.twins {
		for y := range x {
			p := pair{a: y, b: x}
			for _, n := range []int{y, x} {
				if base(n) {
					p.bases = append(p.bases, n)
				}
			}
			if len(p.bases) > 0 && apart(b.twins[x].Edits, b.twins[y].Edits) {
				out = append(out, p)
			}
		}
	}
	slices.SortStableFunc(out, func(x, y pair) int { return len(y.bases) - len(x.bases) })
	return out
}

// keepPairs plays the reference against pairs of twins of the tests that decide, at most two of each body. Two
// falsified places may make a true expectation: what the reference passes is not kept.
func keepPairs(ctx context.Context, s stage, p *pool) error {
	for try := range 2 {
		plan, tried := boxPlan{}, map[*body]pair{}
		for _, b := range p.bodies {
			if all := b.pairs(); b.pair == nil && try < len(all) {
				tried[b] = all[try]
				plan.add(b, all[try].a)
				plan.join(b, all[try].b)
			}
		}
		if len(tried) == 0 {
			return nil
		}
		got, _, err := s.play(ctx, p, &plan)
		if errors.Is(err, ErrGrader) {
			return nil // some text cannot be built with two: all tests are played with one
		}
		if err != nil {
			return err
		}
		for b, x := range tried {
			if !slices.ContainsFunc(b.tests, func(id string) bool { return b.twins[x.bases[0]].kills[id] && (got[id].Passed || !got[id].asserted) }) {
				b.pair = &x
			}
		}
	}
	return nil
}

// centre is which twin is played with another and without it, or -1: two twins are played each by itself.
// Boxes that could tell each other what they expect see three texts, one of which
// differs from each of the others in one place. That is the test no more often than a twin of it.
func (b *body) centre(r *mathrand.Rand) int {
	if b.pair == nil {
		return -1
	}
	if n := r.IntN(1 + len(b.pair.bases)); n > 0 {
		return b.pair.bases[n-1]
	}
	return -1
}

// apart tells whether no edit touches another.
func apart(a, b []edit) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Start <= y.End && y.Start <= x.End {
				return false
			}
		}
	}
	return true
}

// second puts the first of which something holds in the second place, where it is not before that.
func second(which []int, holds func(int) bool) []int {
	if i := slices.IndexFunc(which, holds); i > 1 {
		n := which[i]
		return slices.Insert(slices.Delete(which, i, i+1), 1, n)
	}
	return which
}

func secretRand() *mathrand.Rand {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return mathrand.New(mathrand.NewPCG(binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])))
}
