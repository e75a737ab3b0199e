package bwrap

import (
	"errors"

	"github.com/agon-arena/agon/sandbox"
)

// observed is what was seen of a command that has ended, besides its exit.
type observed struct {
	limit    string // the limit that it ran into, as its watcher saw it
	lost     string // what of ours ended it
	killed   bool   // we ended it
	oom      bool   // the out-of-memory killer was at work in the box
	ownOOM   bool   // for the box's own limit, not for the machine's
	diskFull bool   // it failed within its quota while the machine's disk was full
	signaled bool   // a signal ended bubblewrap itself
	pids     bool   // the box was refused a process
	began    bool   // the command's program was started
	start    int    // what shells would say of a program that cannot be started, else 0
	trial    bool   // the probe's: it wants to know why nothing starts
}

var (
	errCancelled  = errors.New("cancelled")
	errNotStarted = errors.New("not started")
)

// classify names what a command ended by: the first that holds of its watcher, memory,
// the machine's disk, a signal from outside, and a start that failed.
func classify(o observed, x sandbox.Exit) (sandbox.Exit, error) {
	switch {
	case o.limit != "" || o.lost != "" || o.killed:
		x.Limit, x.Lost = o.limit, o.lost
		if x.Code == 0 { // it ended by itself at the last moment
			x.Code, x.Signal = 137, 9
		}
		if o.lost == "cancelled" {
			return x, errCancelled
		}
	case o.oom && x.Code != 0 && o.ownOOM:
		x.Limit = "memory"
	case o.oom && x.Code != 0:
		x.Lost = "host_oom"
	case o.diskFull:
		x.Lost = "host_disk"
	case o.signaled:
		x.Lost = "killed" // nothing inside can signal bubblewrap: it is not in its pid namespace
	case !o.began && o.pids:
		return sandbox.Exit{Code: 126, Limit: "pids"}, nil
	case !o.began && !o.trial && o.start != 0:
		x.Code, x.Signal = o.start, 0
	case !o.began:
		return x, errNotStarted
	}
	return x, nil
}
