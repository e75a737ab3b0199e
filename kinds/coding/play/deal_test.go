package play

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/agon-arena/agon/engine/task"
)

// player is a stage of code under test that decides what becomes of a test by itself.
type player func(box int, test string, twin bool) (passes bool)

func (player) draw(context.Context) (*pool, error) { return nil, nil }
func (player) close()                              {}

func (p player) play(_ context.Context, _ *pool, b *boxPlan) (map[string]TestResult, bool, error) {
	out, box := map[string]TestResult{}, rand.Int()
	twin := map[string]bool{}
	for w := range b.twins {
		for _, id := range w.tests {
			twin[id] = true
		}
	}
	for _, id := range b.tests {
		ok := p(box, id, twin[id])
		out[id] = TestResult{ID: id, Passed: ok, asserted: !ok}
	}
	return out, true, nil
}

// dealTask has so many tests that decide, each with so many twins, and two that do not.
func dealTask(tests, twins int) (*task.Task, *pool) {
	tk, p := &task.Task{Config: task.Config{Agon: task.Agon{PassToPass: []string{"easy", "plain"}}}}, &pool{}
	for i := range tests + 1 {
		id := fmt.Sprint("hard", i)
		if i == tests {
			id = "easy"
		} else {
			tk.Config.Agon.FailToPass = append(tk.Config.Agon.FailToPass, id)
		}
		b := &body{name: id, tests: []string{id}}
		for range twins {
			b.twins = append(b.twins, twin{kills: map[string]bool{id: true}})
		}
		if pairs := b.pairs(); len(pairs) > 0 {
			b.pair = &pairs[0]
		}
		p.bodies = append(p.bodies, b)
	}
	return tk, p
}

// Code that can make any test pass, and knows of twins, tosses a coin: for each box, or for each test.
func TestCoinSolvesNothing(t *testing.T) {
	const grades = 800
	for tests := 1; tests <= 4; tests++ {
		for twins := 1; twins <= 2; twins++ {
			tk, p := dealTask(tests, twins)
			for _, coin := range []float64{0.2, 0.34, 0.5} {
				for name, code := range map[string]player{
					"each box":  func(box int, _ string, _ bool) bool { return float64(box%1000) < 1000*coin },
					"each test": func(int, string, bool) bool { return rand.Float64() < coin },
				} {
					solved := 0
					for range grades {
						v := &Verdict{}
						if err := grade(t.Context(), code, tk, p, v); err != nil {
							t.Fatal(err)
						}
						if v.passed() && len(v.Forged) == 0 {
							solved++
						}
					}
					if float64(solved) > 2*mostLuck*grades { // four standard errors above the bound
						t.Errorf("%d tests of %d twins, a coin of %g for %s: solved %d of %d", tests, twins, coin, name, solved, grades)
					}
				}
			}
		}
	}
}

// A fix solves in however many boxes, what passes all is named, and what changes its mind does not count.
func TestDeals(t *testing.T) {
	for _, tt := range []struct{ tests, twins, more int }{{1, 2, 3}, {2, 2, 1}, {3, 2, 0}, {9, 2, 0}, {1, 1, 4}, {2, 1, 2}, {4, 1, 1}} {
		tk, p := dealTask(tt.tests, tt.twins)
		if n := p.hard(tk).more(); n != tt.more {
			t.Errorf("%+v: %d boxes more", tt, n)
		}
		var boxes boxCount
		v := &Verdict{}
		if err := grade(t.Context(), player(func(box int, _ string, twin bool) bool { boxes.at(box); return !twin }), tk, p, v); err != nil || !v.passed() || len(v.Forged) > 0 || len(v.Tests) != tt.tests+2 {
			t.Errorf("a fix: %+v %v", v, err)
		}
		if n := len(boxes.order); n > twinBoxes+tt.more || n < 2+tt.more {
			t.Errorf("%+v: %d boxes", tt, n)
		}
		v = &Verdict{}
		if err := grade(t.Context(), player(func(int, string, bool) bool { return true }), tk, p, v); err != nil || v.passed() || len(v.Forged) < tt.tests {
			t.Errorf("passes all: %+v %v", v, err)
		}
	}
	// It is right in the first three boxes only.
	tk, p := dealTask(1, 2)
	counted := 0
	for range 50 {
		var boxes boxCount
		v := &Verdict{}
		late := func(box int, id string, twin bool) bool {
			n := boxes.at(box)
			return !twin && (n < twinBoxes || id != "hard0")
		}
		if err := grade(t.Context(), player(late), tk, p, v); err != nil || len(v.Forged) > 0 {
			t.Fatalf("fails later: %+v %v", v, err)
		}
		if v.passed() {
			counted++
		}
	}
	if counted > 20 { // 1/8 are dealt three twins
		t.Errorf("what fails later counts %d times of 50", counted)
	}
	var boxes boxCount
	v := &Verdict{}
	later := func(box int, _ string, twin bool) bool { n := boxes.at(box); return !twin || n >= twinBoxes }
	for len(v.Forged) == 0 && len(boxes.order) < 2000 { // 1/8 are dealt no twin more
		v, boxes.order = &Verdict{}, nil
		if err := grade(t.Context(), player(later), tk, p, v); err != nil || v.passed() && len(v.Forged) > 0 {
			t.Fatalf("forges later: %+v %v", v, err)
		}
	}
}

// boxCount numbers boxes as they come.
type boxCount struct {
	mu    sync.Mutex // guards order
	order map[int]int
}

func (c *boxCount) at(box int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.order[box]
	if !ok {
		if c.order == nil {
			c.order = map[int]int{}
		}
		n = len(c.order)
		c.order[box] = n
	}
	return n
}

// Boxes that tell each other what they expect see three texts of a test, and find the one
// that the two others differ from by one place each: that is the test no more often than a toss of a coin.
func TestBoxesThatTellEachOther(t *testing.T) {
	const grades = 4000
	for _, tt := range []struct {
		name  string
		twins []twin
		most  float64 // of grades that the guess finds the test
	}{
		{"two places, both decide", []twin{{decides: true, Edits: []edit{{10, 11, "x"}}}, {decides: true, Edits: []edit{{20, 21, "x"}}}}, 0.34},
		{"two places, one decides", []twin{{decides: true, Edits: []edit{{10, 11, "x"}}}, {Edits: []edit{{20, 21, "x"}}}}, 0.5},
		{"three places, a contrary", []twin{{decides: true, Edits: []edit{{10, 11, "x"}}}, {decides: true, Edits: []edit{{20, 21, "x"}}}, {What: contrary, Edits: []edit{{30, 31, "x"}}}}, 0.6},
	} {
		tk, p := dealTask(1, 0)
		p.bodies = p.bodies[:1]
		p.bodies[0].twins = tt.twins
		for i := range tt.twins {
			tt.twins[i].kills = map[string]bool{"hard0": true}
		}
		if err := keepPairs(t.Context(), player(func(int, string, bool) bool { return false }), p); err != nil || p.bodies[0].pair == nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		found := 0
		for range grades {
			var texts []map[edit]bool
			own := -1
			for _, b := range p.plans(tk, []string{"hard0"}, nil, secretRand()) {
				w, ok := b.twin(p.bodies[0])
				if !ok {
					own = len(texts)
				}
				has := map[edit]bool{}
				for _, e := range w.Edits {
					has[e] = true
				}
				texts = append(texts, has)
			}
			best, least := -1, 100
			for i := range texts {
				n := 0
				for j := range texts {
					for e := range texts[i] {
						if !texts[j][e] {
							n++
						}
					}
					for e := range texts[j] {
						if !texts[i][e] {
							n++
						}
					}
				}
				if n < least {
					best, least = i, n
				}
			}
			if best == own {
				found++
			}
		}
		if got := float64(found) / grades; got > tt.most+0.04 {
			t.Errorf("%s: the test is found in %.2f of grades", tt.name, got)
		}
	}
}
