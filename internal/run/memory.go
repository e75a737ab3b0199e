package run

import "runtime/debug"

// collectAt is how far the heap of a server may grow before garbage is
// collected, in percent of what is alive. A server's heap is small (some 20 MB)
// and its calls leave much garbage: at Go's 100 collecting is a tenth of its work.
const collectAt = 300

// roomy lets the heap of a long-lived server grow, from the moment it serves:
// what its start has left is given back first. GOGC, where it is set, and
// GOMEMLIMIT have their say. The result puts back what was.
func roomy(getenv func(string) string) (back func()) {
	if getenv != nil && getenv("GOGC") != "" {
		return func() {}
	}
	debug.FreeOSMemory()
	was := debug.SetGCPercent(collectAt)
	return func() { debug.SetGCPercent(was) }
}
