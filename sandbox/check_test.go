package sandbox

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

func TestComplete(t *testing.T) {
	good := func() Spec {
		return Spec{Name: "a-1", Rootfs: "/r", Mounts: []Mount{{Kind: MountScratch, Target: "/work/"}}}
	}
	s, err := good().Complete()
	if err != nil {
		t.Fatal(err)
	}
	if s.UID != DefaultUID || s.GID != DefaultUID || s.Limits != DefaultLimits || s.Mounts[0].Target != "/work" {
		t.Errorf("%+v", s)
	}
	in := good()
	if _, err := in.Complete(); err != nil || in.Mounts[0].Target != "/work/" {
		t.Errorf("changed its input: %+v, %v", in, err)
	}
	for name, edit := range map[string]func(*Spec){
		"no name":           func(s *Spec) { s.Name = "" },
		"long name":         func(s *Spec) { s.Name = strings.Repeat("a", 41) },
		"relative root":     func(s *Spec) { s.Rootfs = "r" },
		"negative limit":    func(s *Spec) { s.Limits.DiskBytes = -1 },
		"huge limit":        func(s *Spec) { s.Limits.WallMS = 1 << 62 },
		"little memory":     func(s *Spec) { s.Limits.MemoryBytes = 1 },
		"few pids":          func(s *Spec) { s.Limits.Pids = 1 },
		"root user":         func(s *Spec) { s.UID = -1 },
		"the pause user":    func(s *Spec) { s.GID = PauseUID },
		"bad host":          func(s *Spec) { s.Hostnames = []string{"a b"} },
		"host with a line":  func(s *Spec) { s.Hostnames = []string{"a\n1.2.3.4 b"} },
		"bad env":           func(s *Spec) { s.Env = []string{"A"} },
		"env without name":  func(s *Spec) { s.Env = []string{"=x"} },
		"env with a zero":   func(s *Spec) { s.Env = []string{"A=\x00"} },
		"many env":          func(s *Spec) { s.Env = slices.Repeat([]string{"A=1"}, 513) },
		"root target":       func(s *Spec) { s.Mounts[0].Target = "/" },
		"relative target":   func(s *Spec) { s.Mounts[0].Target = "x" },
		"dev":               func(s *Spec) { s.Mounts[0].Target = "/dev/../dev/x" },
		"proc":              func(s *Spec) { s.Mounts[0].Target = "/proc" },
		"no kind":           func(s *Spec) { s.Mounts[0].Kind = "" },
		"relative source":   func(s *Spec) { s.Mounts[0] = Mount{Kind: MountReadOnly, Source: "x", Target: "/x"} },
		"tmp without size":  func(s *Spec) { s.Mounts[0].Kind = MountTmp },
		"layer without one": func(s *Spec) { s.Mounts[0].Kind = MountLayer },
		"twice":             func(s *Spec) { s.Mounts = append(s.Mounts, Mount{Kind: MountScratch, Target: "//work"}) },
		"many mounts":       func(s *Spec) { s.Mounts = slices.Repeat(s.Mounts, 65) },
		"door to the world": func(s *Spec) { s.Doors = []Door{{Listen: ":80", Target: "http://a"}} },
		"door by name":      func(s *Spec) { s.Doors = []Door{{Listen: "localhost:80", Target: "http://a"}} },
		"door to a file":    func(s *Spec) { s.Doors = []Door{{Listen: "127.0.0.1:80", Target: "file:///etc"}} },
		"door and network": func(s *Spec) {
			s.Network = true
			s.Doors = []Door{{Listen: "127.0.0.1:80", Target: "http://a"}}
		},
	} {
		s := good()
		edit(&s)
		if _, err := s.Complete(); !errors.Is(err, ErrSpec) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	s = good()
	s.Limits = agon.Limits{Pids: 99}
	if s, err = s.Complete(); err != nil || s.Limits.Pids != 99 || s.Limits.MemoryBytes != DefaultLimits.MemoryBytes {
		t.Errorf("%+v, %v", s.Limits, err)
	}
}

func TestCommandEnv(t *testing.T) {
	for _, tt := range []struct{ spec, cmd, want []string }{
		{nil, nil, []string{"PWD=/d", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp"}},
		{[]string{"A=1", "HOME=/h"}, []string{"A=2", "PATH="}, []string{"A=2", "HOME=/h", "PATH=", "PWD=/d"}},
		{[]string{"PWD=/x"}, []string{"PATH=p", "HOME=h"}, []string{"PWD=/d", "PATH=p", "HOME=h"}},
	} {
		if got, err := CommandEnv(tt.spec, tt.cmd, "/d"); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q %q: %q, %v", tt.spec, tt.cmd, got, err)
		}
	}
	if _, err := CommandEnv(nil, []string{"x"}, "/"); !errors.Is(err, ErrSpec) {
		t.Error(err)
	}
}

// CheckLimits and Complete agree: a limit is listed if, and only if, no
// box takes it.
func TestCheckLimits(t *testing.T) {
	for _, c := range []struct {
		limits agon.Limits
		want   string
	}{
		{agon.Limits{}, ""},
		{DefaultLimits, ""},
		{agon.Limits{Pids: 16, MemoryBytes: 8 << 20, WallMS: 1, CPUMS: 1, CPUMilli: 1, DiskBytes: 1, Inodes: 1, OutputBytes: 1}, ""},
		{agon.Limits{Pids: 15}, "pids is 15, at least 16"},
		{agon.Limits{MemoryBytes: 8<<20 - 1}, "memory_bytes is 8388607, at least 8388608"},
		{agon.Limits{WallMS: maxLimit}, ""},
		{agon.Limits{WallMS: maxLimit + 1}, "wall_ms is 9223372036855, at most 9223372036854"},
		{agon.Limits{WallMS: -1, CPUMS: -1, CPUMilli: -1, MemoryBytes: -1, Pids: -1, DiskBytes: -1, Inodes: -1, OutputBytes: -1}, "wall_ms cpu_ms cpu_milli memory_bytes pids disk_bytes inodes output_bytes"},
	} {
		var names []string
		wrong := CheckLimits(c.limits)
		for _, b := range wrong {
			names = append(names, b.Name)
		}
		got := strings.Join(names, " ")
		if len(wrong) == 1 {
			got = wrong[0].String()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.limits, got, c.want)
		}
		if _, err := (Spec{Name: "a", Rootfs: "/", Limits: c.limits}).Complete(); (err == nil) != (len(wrong) == 0) {
			t.Errorf("%+v: %v of a spec with it", c.limits, err)
		}
	}
}
