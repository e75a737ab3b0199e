package play

import (
	"runtime"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
)

// When the next program's box is made while a program runs.
const (
	aheadFrom  = 3                     // programs before it show that there will be more: most benchmarks ask for two
	aheadAfter = 50 * time.Millisecond // a shorter program has the machine for itself
)

// ahead keeps the box of an isolated benchmark's next program, so that a suite of many
// does not wait for each. The box is made while a program runs that takes long
// enough not to be disturbed. The two share no more than boxes of two runs that a
// machine plays at once. A box that has ended is gone before the next program
// begins. The owner calls its methods one at a time.
type ahead struct {
	made   chan madeBox // of the box that is being made, or is ready; nil: none
	ending sync.WaitGroup
}

type madeBox struct {
	box sandbox.Box
	err error
}

// take returns a box that no program has run in, once the boxes before are gone.
func (a *ahead) take(start func() (sandbox.Box, error)) (sandbox.Box, error) {
	a.ending.Wait()
	if a.made != nil {
		m := <-a.made
		a.made = nil
		if m.err != nil {
			return nil, m.err
		}
		if !m.box.End().Ended {
			return m.box, nil
		}
		_ = m.box.Close()
	}
	return start()
}

// next makes the next box once a program has run so long. Call the result when it has ended.
func (a *ahead) next(after time.Duration, start func() (sandbox.Box, error)) (ended func()) {
	if a.made != nil {
		return func() {}
	}
	made := make(chan madeBox, 1)
	t := time.AfterFunc(after, func() {
		b, err := start()
		made <- madeBox{b, err}
	})
	a.made = made
	return func() {
		if t.Stop() {
			a.made = nil
		}
	}
}

// end closes a box while the benchmark works.
func (a *ahead) end(b sandbox.Box) {
	a.ending.Go(func() { _ = b.Close() })
}

// drop ends what is left.
func (a *ahead) drop() {
	if a.made != nil {
		if m := <-a.made; m.err == nil {
			a.end(m.box)
		}
		a.made = nil
	}
	a.ending.Wait()
}

// spare tells that this machine has a processor that a program cannot use, so that what is
// done meanwhile takes none of its time, and that no card is to itself while it runs.
func (p *player) spare() bool {
	milli := p.run.Policy.Agent.CPUMilli
	if milli <= 0 {
		milli = sandbox.DefaultLimits.CPUMilli
	}
	need, err := agon.NeedOf(p.run.Tasks)
	return err == nil && need == nil && int64(runtime.NumCPU())*1000 >= milli+1000
}
