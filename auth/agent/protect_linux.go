package agent

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Protect keeps this process's memory to itself: no core is dumped, processes of
// the same user may not trace it or read its memory, and nothing of it goes to the
// swap. All three are tried; the error names those that the system did not grant.
// Memory is locked only where the limit allows all of it (ulimit -l unlimited, or root).
func Protect() error {
	var failed error
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		failed = errors.Join(failed, fmt.Errorf("forbid core dumps: %w", err))
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		failed = errors.Join(failed, fmt.Errorf("forbid tracing: %w", err))
	}
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		failed = errors.Join(failed, fmt.Errorf("lock memory (ulimit -l unlimited): %w", err))
	}
	return failed
}
