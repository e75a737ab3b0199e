package starting

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestPercentAt(t *testing.T) {
	for mb, want := range map[uint64]int{0: most, 1: most, 32: most, 48: 200, 96: usual, 10_000: usual} {
		if got := percentAt(mb << 20); got != want {
			t.Errorf("%d MB alive: %d, want %d", mb, got, want)
		}
	}
}

// A heap that grew is collected sooner, and what was is put back.
func TestRoomy(t *testing.T) {
	now := func() int {
		was := debug.SetGCPercent(usual)
		debug.SetGCPercent(was)
		return was
	}
	const before = 120
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	back := Roomy()
	if got := now(); got != most {
		t.Errorf("at first %d, want %d", got, most)
	}
	alive := make([]byte, 2*garbage)
	for i := 0; now() != usual; i++ {
		if i == 1000 {
			t.Fatalf("with %d MB alive it stays at %d", len(alive)>>20, now())
		}
		runtime.GC()
		runtime.Gosched()
	}
	runtime.KeepAlive(alive)
	back()
	if got := now(); got != before {
		t.Errorf("at the end %d, want %d", got, before)
	}
}
