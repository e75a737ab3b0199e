package kit_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
)

func fakes() kit.List {
	return kit.List{{
		Kind: "fake", New: func(kit.Parts) kind.Kind { return kindtest.Fake{} },
		Incentives: map[string]incentive.Rule{incentive.WinnerTakesAllRule: incentive.WinnerTakesAll()},
	}}
}

const plainArena = "id = \"mine\"\nkind = \"fake\"\nsets = [\"small\"]\n"

// An arena that says nothing has two retries; one that says 0 has none.
func TestArenaFileAttempts(t *testing.T) {
	for _, c := range []struct {
		line string
		want int // -1: refused
	}{{"", 2}, {"attempts = 0", 0}, {"attempts = 1", 1}, {"attempts = 5", 5}, {"attempts = 6", -1}, {"attempts = -1", -1}} {
		f, err := kit.ParseArenaFile([]byte(plainArena+c.line), fakes())
		if c.want < 0 {
			if err == nil || !strings.Contains(err.Error(), "attempts: ") {
				t.Errorf("%q: %v", c.line, err)
			}
			continue
		}
		if err != nil || f.Arena().Attempts != c.want {
			t.Errorf("%q: %v, %v", c.line, f.Attempts, err)
		}
	}
}

// What an arena file may choose is what a box takes: no run is planned that
// cannot be played.
func TestArenaFileLimits(t *testing.T) {
	for _, c := range []struct {
		line, field string // field "": taken
	}{
		{"pids = 4", "pids"},
		{"pids = 15", "pids"},
		{"pids = 16", ""},
		{"pids = 0", ""},
		{"pids = -1", "pids"},
		{"memory_bytes = 8388608", "memory_bytes"},
		{"memory_bytes = 33554432", ""},
		{"memory_bytes = 1", "memory_bytes"},
		{"memory_bytes = 9223372036854775807", "memory_bytes"},
		{"wall_ms = 999", "wall_ms"},
		{"wall_ms = 1000", ""},
		{"wall_ms = 86400001", "wall_ms"},
		{"wall_ms = -1", "wall_ms"},
		{"disk_bytes = -1", "disk_bytes"},
		{"inodes = -5", "inodes"},
		{"output_bytes = -1", "output_bytes"},
		{"cpu_milli = -1", "cpu_milli"},
		{"cpu_ms = -1", "cpu_ms"},
		{"cpu_ms = 9223372036854775807", "cpu_ms"},
		{"disk_bytes = 1073741824", ""},
	} {
		for _, part := range []string{"policy.agent", "policy.grader"} {
			f, err := kit.ParseArenaFile(fmt.Appendf(nil, "%s[%s]\n%s\n", plainArena, part, c.line), fakes())
			if c.field == "" {
				if err != nil {
					t.Errorf("%s %s: %v", part, c.line, err)
					continue
				}
				spec := sandbox.Spec{Name: "agent", Rootfs: "/", Limits: f.Policy.Agent}
				if part == "policy.grader" {
					spec.Limits = f.Policy.Grader
				}
				if _, err := spec.Complete(); err != nil {
					t.Errorf("%s %s: passes the file and no box takes it: %v", part, c.line, err)
				}
				continue
			}
			var e *agon.Error
			if !errors.As(err, &e) {
				t.Errorf("%s %s: taken (%v)", part, c.line, err)
				continue
			}
			named := func(f agon.Finding) bool { return f.Field == part+"."+c.field }
			if len(e.Findings) != 1 || !slices.ContainsFunc(e.Findings, named) {
				t.Errorf("%s %s: findings %+v", part, c.line, e.Findings)
			}
		}
	}
}
