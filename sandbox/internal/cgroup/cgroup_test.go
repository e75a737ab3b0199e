package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestParseMounts(t *testing.T) {
	for _, tt := range []struct {
		name, text, v2 string
		v1             map[string]string
	}{
		{"v2", "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n", "/sys/fs/cgroup", nil},
		{"hybrid", `31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 23 0:28 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory
33 23 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
34 23 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
35 23 0:31 / /proc rw - proc proc rw
`, "/sys/fs/cgroup/unified", map[string]string{
			"cpu": "/sys/fs/cgroup/cpu,cpuacct", "cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/sys/fs/cgroup/memory",
		}},
		{"none", "garbage\n1 2 - \n", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := parseMounts(tt.text)
			if h.V2 != tt.v2 || len(h.V1) != len(tt.v1) {
				t.Fatalf("%+v", h)
			}
			for c, d := range tt.v1 {
				if h.V1[c] != d {
					t.Errorf("%s: %q", c, h.V1[c])
				}
			}
		})
	}
}

// fake makes a directory that looks like a hierarchy.
func fake(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for p, text := range files {
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadV2(t *testing.T) {
	dir := fake(t, map[string]string{
		"agon/x/memory.events": "low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n",
		"agon/x/memory.peak":   "4096\n", "agon/x/cpu.stat": "usage_usec 1500000\nuser_usec 1\n",
		"agon/x/pids.events": "max 3\n", "agon/x/cgroup.procs": "12\n34\n", "agon/x/sub/cgroup.procs": "56\n0\n",
	})
	h := &Host{V2: dir, Parent: "agon", all: []string{dir}}
	g := h.Group("x")
	if m := g.Memory(); m != (Memory{Kills: 1, Own: true, Peak: 4096}) {
		t.Errorf("%+v", m)
	}
	if g.CPU() != 1500*time.Millisecond || g.PidsRefused() != 3 || !slices.Equal(g.Procs(), []int{12, 34, 56}) {
		t.Error(g.CPU(), g.PidsRefused(), g.Procs())
	}
	if !slices.Equal(h.List(), []string{"x"}) || g.Path() != "/agon/x" {
		t.Error(h.List(), g.Path())
	}
	if none := h.Group("none"); none.Memory() != (Memory{}) || none.Procs() != nil || none.Remove() != nil {
		t.Error("a group that is not there")
	}
}

func TestReadV1(t *testing.T) {
	files := map[string]string{
		"agon/x/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", "agon/x/memory.failcnt": "0\n",
		"agon/x/memory.limit_in_bytes": "100000000\n", "agon/x/memory.max_usage_in_bytes": "50000000\n",
		"agon/x/cpuacct.usage": "2000000000\n",
	}
	open := func() *Group {
		dir := fake(t, files)
		return (&Host{V1: map[string]string{"memory": dir, "cpuacct": dir, "pids": dir}, Parent: "agon"}).Group("x")
	}
	if m := open().Memory(); m.Own || m.Kills != 1 {
		t.Errorf("killed far below its limit: %+v", m)
	}
	files["agon/x/memory.max_usage_in_bytes"] = "99900000\n"
	if m := open().Memory(); !m.Own {
		t.Errorf("killed at its limit: %+v", m)
	}
	if open().CPU() != 2*time.Second {
		t.Error(open().CPU())
	}
}

func TestCreateV2(t *testing.T) {
	dir := fake(t, map[string]string{"cgroup.subtree_control": "", "agon/cgroup.subtree_control": ""})
	g := (&Host{V2: dir, Parent: "agon", all: []string{dir}}).Group("x")
	if err := g.Create(Limits{MemoryBytes: 1 << 20, Pids: 9, CPUMilli: 500}); err != nil {
		t.Fatal(err)
	}
	for f, want := range map[string]string{"memory.max": "1048576", "memory.swap.max": "0", "pids.max": "9", "cpu.max": "50000 100000"} {
		if b, err := os.ReadFile(filepath.Join(dir, "agon/x", f)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", f, b, err)
		}
	}
	if j := g.Join(); len(j) != 1 || j[0] != filepath.Join(dir, "agon/x/cgroup.procs") {
		t.Error(j)
	}
}

func TestKeepWarm(t *testing.T) {
	h, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	first, second := h.KeepWarm(), h.KeepWarm()
	h.move()
	first()
	first()
	if !h.warmed() {
		t.Error("stopped while somebody still starts a box")
	}
	second()
	for range lingers {
		h.warmed()
	}
	if h.warmed() {
		t.Fatal("goes on for nobody")
	}
	if after, err := os.ReadFile("/proc/self/cgroup"); err != nil || string(after) != string(before) {
		t.Errorf("moved from %s to %s, %v", before, after, err)
	}
}
