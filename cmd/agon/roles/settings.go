package roles

import (
	"runtime/debug"
	"strconv"

	"github.com/agon-arena/agon"
)

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

// uploadPerDay reads AGON_UPLOAD_PER_DAY, in bytes; 0 is the default of the platform.
func uploadPerDay(getenv func(string) string) (int64, error) {
	if getenv == nil || getenv("AGON_UPLOAD_PER_DAY") == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(getenv("AGON_UPLOAD_PER_DAY"), 10, 64)
	if err != nil || n < 1 {
		return 0, &agon.Error{Code: "bad_setting", Status: 422, Field: "AGON_UPLOAD_PER_DAY", Message: "want a number of bytes above 0", Mend: "for example 34359738368 (32 GiB), or unset it"}
	}
	return n, nil
}
