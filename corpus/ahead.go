package corpus

import (
	"iter"
	"runtime"
)

// ahead does work for the values of in, as many at once as there are processors, and
// gives what comes of each in the order of in. in is read by a goroutine, which has
// ended when the loop over the result has; work must be safe for concurrent use.
func ahead[T, R any](in iter.Seq[T], work func(T) R) iter.Seq[R] {
	return func(yield func(R) bool) {
		slots, stop := make(chan chan R, runtime.GOMAXPROCS(0)), make(chan struct{})
		go func() {
			defer close(slots)
			for x := range in {
				slot := make(chan R, 1)
				select {
				case slots <- slot:
					go func() { slot <- work(x) }()
				case <-stop:
					return
				}
			}
		}()
		defer func() {
			close(stop)
			for slot := range slots { // until the reader has ended
				<-slot
			}
		}()
		for slot := range slots {
			if !yield(<-slot) {
				return
			}
		}
	}
}
