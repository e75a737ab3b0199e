package container

import (
	"testing"

	"github.com/agon-arena/agon/sandbox/internal/cgroup"
)

func TestKiller(t *testing.T) {
	for name, c := range map[string]struct {
		now, before cgroup.Memory
		limit, lost string
	}{
		"nothing was killed":      {now: cgroup.Memory{Own: true}},
		"killed before":           {now: cgroup.Memory{Kills: 2, Own: true}, before: cgroup.Memory{Kills: 2}},
		"killed at its own limit": {now: cgroup.Memory{Kills: 3, Own: true}, before: cgroup.Memory{Kills: 2}, limit: "memory"},
		"killed by the host":      {now: cgroup.Memory{Kills: 1}, lost: "host_oom"},
	} {
		if limit, lost := killer(c.now, c.before); limit != c.limit || lost != c.lost {
			t.Errorf("%s: limit %q, lost %q, want %q, %q", name, limit, lost, c.limit, c.lost)
		}
	}
}
