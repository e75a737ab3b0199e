package starting

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestStart(t *testing.T) {
	was := debug.SetGCPercent(100)
	debug.SetGCPercent(was)
	if os.Getenv("GOGC") == "" && was != percent {
		t.Errorf("garbage is collected at %d percent, want %d", was, percent)
	}
}
