package starting

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// A server's heap is small (some 20 MB) and its calls leave much garbage: at Go's 100 percent
// collecting is a tenth of its work. So it may grow by most percent of what is alive before it
// is collected, but not by more than garbage bytes where usual percent are less.
const most, garbage = 300, 96 << 20

// Roomy lets the heap of a long-lived server grow, from the moment it serves: what its start
// has left is given back first. GOMEMLIMIT has its say. The result puts back what was.
func Roomy() (back func()) {
	debug.FreeOSMemory()
	r := &roomy{now: most}
	r.was = debug.SetGCPercent(most)
	r.wait()
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.over = true
		debug.SetGCPercent(r.was)
	}
}

type roomy struct {
	mu   sync.Mutex // guards over and now
	over bool
	now  int
	was  int
}

// wait has adapt called after the next collection.
func (r *roomy) wait() {
	runtime.SetFinalizer(&sign{r.adapt}, func(s *sign) { s.over() })
}

// adapt sets the percentage by what the last collection found alive. A change stops the
// program for a moment, so small ones are left.
func (r *roomy) adapt() {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	percent := percentAt(sample[0].Value.Uint64())
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	if d := percent - r.now; d > 20 || d < -20 {
		debug.SetGCPercent(percent)
		r.now = percent
	}
	r.wait()
}

// percentAt is the percentage for a heap with so many bytes alive.
func percentAt(live uint64) int {
	if live == 0 {
		return most
	}
	return int(max(usual, min(most, garbage*100/live)))
}
