package starting

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestBegin(t *testing.T) {
	now := func() int {
		was := debug.SetGCPercent(usual)
		debug.SetGCPercent(was)
		return was
	}
	before := now()
	defer debug.SetGCPercent(before)
	for _, set := range []int{0, 300} {
		over := make(chan struct{})
		begin(func() { close(over) })
		if n := now(); n != percent {
			t.Errorf("garbage is collected at %d percent at the start, want %d", n, percent)
		}
		want := usual
		if set > 0 { // as a server does
			debug.SetGCPercent(set)
			want = set
		}
		runtime.GC()
		<-over
		if n := now(); n != want {
			t.Errorf("garbage is collected at %d percent after the start, want %d", n, want)
		}
	}
}
