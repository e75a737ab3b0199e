package bwrap

import (
	"errors"
	"testing"

	"github.com/agon-arena/agon/sandbox"
)

// Whose failure an end was follows from what was seen outside the box, in this order.
func TestClassify(t *testing.T) {
	for name, c := range map[string]struct {
		o    observed
		x    sandbox.Exit
		want sandbox.Exit
		err  error
	}{
		"ended":                            {observed{began: true}, sandbox.Exit{Code: 3}, sandbox.Exit{Code: 3}, nil},
		"a limit":                          {observed{began: true, limit: "wall", killed: true, oom: true}, sandbox.Exit{Code: 137, Signal: 9}, sandbox.Exit{Code: 137, Signal: 9, Limit: "wall"}, nil},
		"a limit at the last moment":       {observed{began: true, limit: "output"}, sandbox.Exit{}, sandbox.Exit{Code: 137, Signal: 9, Limit: "output"}, nil},
		"we ended it, without a word":      {observed{began: true, killed: true}, sandbox.Exit{}, sandbox.Exit{Code: 137, Signal: 9}, nil},
		"cancelled":                        {observed{began: true, lost: "cancelled"}, sandbox.Exit{Code: 137, Signal: 9}, sandbox.Exit{Code: 137, Signal: 9, Lost: "cancelled"}, errCancelled},
		"its own memory":                   {observed{began: true, oom: true, ownOOM: true, diskFull: true}, sandbox.Exit{Code: 137, Signal: 9}, sandbox.Exit{Code: 137, Signal: 9, Limit: "memory"}, nil},
		"the machine's memory":             {observed{began: true, oom: true, signaled: true}, sandbox.Exit{Code: 137, Signal: 9}, sandbox.Exit{Code: 137, Signal: 9, Lost: "host_oom"}, nil},
		"a child of it died, it did not":   {observed{began: true, oom: true, ownOOM: true}, sandbox.Exit{}, sandbox.Exit{}, nil},
		"the machine's disk":               {observed{began: true, diskFull: true, signaled: true}, sandbox.Exit{Code: 1}, sandbox.Exit{Code: 1, Lost: "host_disk"}, nil},
		"somebody outside":                 {observed{began: true, signaled: true}, sandbox.Exit{Code: 143, Signal: 15}, sandbox.Exit{Code: 143, Signal: 15, Lost: "killed"}, nil},
		"somebody outside, before it ran":  {observed{signaled: true, pids: true}, sandbox.Exit{Code: 137, Signal: 9}, sandbox.Exit{Code: 137, Signal: 9, Lost: "killed"}, nil},
		"no process left to start it":      {observed{pids: true, start: 127}, sandbox.Exit{Code: 1}, sandbox.Exit{Code: 126, Limit: "pids"}, nil},
		"refused processes after it began": {observed{began: true, pids: true}, sandbox.Exit{Code: 1}, sandbox.Exit{Code: 1}, nil},
		"no such program":                  {observed{start: 127}, sandbox.Exit{Code: 1}, sandbox.Exit{Code: 127}, nil},
		"no such program, in the probe":    {observed{start: 127, trial: true}, sandbox.Exit{Code: 1}, sandbox.Exit{Code: 1}, errNotStarted},
		"bubblewrap does not start":        {observed{}, sandbox.Exit{Code: 1}, sandbox.Exit{Code: 1}, errNotStarted},
	} {
		if got, err := classify(c.o, c.x); got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %+v, %v, want %+v, %v", name, got, err, c.want, c.err)
		}
	}
}
