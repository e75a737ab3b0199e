// Package starting keeps the garbage collector out of the start of a program, and of
// short commands. The variables of agon's packages and its libraries come to some 4 MB,
// at which Go would collect for the first time: a tenth of what such a command takes. A
// main package imports it for that effect.
package starting

import (
	"os"
	"runtime"
	"runtime/debug"
)

// percent makes the first collection wait for a heap of 16 MB (4 MB at Go's usual 100).
const percent, usual = 400, 100

func init() {
	if os.Getenv("GOGC") == "" {
		begin(func() {})
	}
}

// begin holds collections up until the first, and calls over when it was. What a server
// has set by then stays.
func begin(over func()) {
	debug.SetGCPercent(percent)
	runtime.SetFinalizer(&sign{over}, func(s *sign) {
		if was := debug.SetGCPercent(usual); was != percent {
			debug.SetGCPercent(was)
		}
		s.over()
	})
}

// sign is what nothing holds: it goes with the first collection.
type sign struct{ over func() }
