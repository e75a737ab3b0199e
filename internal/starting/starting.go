// Package starting keeps the garbage collector out of the start of a program, and of
// short commands. The variables of agon's packages and its libraries come to some 4 MB,
// at which Go would collect for the first time: a tenth of what such a command takes. A
// main package imports it for that effect; what serves for long sets what suits it.
package starting

import (
	"os"
	"runtime/debug"
)

// percent makes the first collection wait for a heap of 16 MB (4 MB at Go's 100).
const percent = 400

func init() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
