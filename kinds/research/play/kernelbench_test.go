package play

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
)

// The form of KernelBench in plain Python: no GPU and no torch is here.
const kernelReference = `import random


class Model:
    def __init__(self, n):
        self.n = n
        self.w = [[random.random() for _ in range(n)] for _ in range(n)]

    def forward(self, x):
        n = self.n
        return [[sum(row[k] * self.w[k][j] for k in range(n)) for j in range(n)] for row in x]


def get_inputs():
    return [[[random.random() - 0.5 for _ in range(60)] for _ in range(60)]]


def get_init_inputs():
    return [60]
`

// kernelNew is a solution whose forward is body; columns of w are in self.c.
func kernelNew(top, body string) string {
	return top + `
import random


class ModelNew:
    def __init__(self, n):
        self.n = n
        w = [[random.random() for _ in range(n)] for _ in range(n)]
        self.c = list(zip(*w))
        self.kept = {}

    def good(self, x):
        from operator import mul
        return [[sum(map(mul, row, c)) for c in self.c] for row in x]

    def forward(self, x):
` + body
}

// An honest solution gains, in real boxes; kept answers, answers by place, lost digits,
// patched clocks and forged output do not. All cheats are played when AGON_TEST_SUITE is
// set (make records), else those without which the others are not caught either.
func TestKernel(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(files(t, nil), "matmul-lists")
	if _, err := ImportKernel(dir, KernelConfig{Reference: []byte(kernelReference)}); err != nil {
		t.Fatal(err)
	}
	tk, err := task.LoadDir(dir, "test/one")
	if err != nil {
		t.Fatal(err)
	}
	w.put(tk)
	base, err := os.ReadFile(filepath.Join(dir, "environment/repo/solution.py"))
	if err != nil {
		t.Fatal(err)
	}
	const rejected = "wrong_answer"
	suite := os.Getenv("AGON_TEST_SUITE") != "" // all cases, and by how much they are faster
	for name, c := range map[string]struct {
		top, body string
		reason    string  // of the rejection; "": accepted
		least     float64 // speed-up
		most      float64
	}{
		"honest":    {"", "        return self.good(x)\n", "", 1.3, 50},
		"kept":      {"", "        if id(x) not in self.kept:\n            self.kept[id(x)] = self.good(x)\n        return self.kept[id(x)]\n", rejected, 0, 0},
		"by length": {"", "        return self.kept.setdefault(len(x), self.good(x))\n", rejected, 0, 0},
		"half":      {"import struct", "        h = lambda v: struct.unpack('e', struct.pack('e', max(-65000.0, min(65000.0, v))))[0]\n        return [[h(v) for v in row] for row in self.good(x)]\n", rejected, 0, 0},
		"alias":     {"", "        return x\n", rejected, 0, 0},
		"integers":  {"", "        return [[int(v) for v in row] for row in self.good(x)]\n", rejected, 0, 0},
		"nan":       {"", "        return [[float('nan') for v in row] for row in x]\n", rejected, 0, 0},
		"lazy":      {"", "        class L(list):\n            pass\n        return L(self.good(x))\n", "program_failed", 0, 0},
		"forged":    {"import sys, os", "        sys.stdout.write('{\"values\": [{\"kind\": \"list\", \"bytes\": 0, \"value\": []}]}\\n')\n        sys.stdout.flush()\n        os._exit(0)\n", rejected, 0, 0},
		// Clocks and results that a program forges for itself change no time that was measured outside.
		"clock": {"import time, os\ntime.perf_counter = time.process_time = time.time = lambda: 0.0\nos.times = lambda: (0, 0, 0, 0, 0)", "        for _ in range(3):\n            self.good(x)\n        return [[sum(row[k] * self.c[j][k] for k in range(self.n)) for j in range(self.n)] for row in x]\n", "", 0, 1.1},
	} {
		if quick := name == "honest" || name == "kept" || name == "half"; !quick && !suite {
			continue
		}
		patch := replacing("solution.py", string(base), kernelNew(c.top, c.body))
		rec, obs := w.play(w.submission(patch, Claim{}), w.run())
		up := obs.Metrics["speedup"]
		switch {
		case obs.Reason != c.reason, c.reason == "" && obs.Status != StatusAccepted:
			t.Errorf("%s: %s %q, want %q\n%s", name, obs.Status, obs.Reason, c.reason, rec.Files[LogFile])
		case c.reason == "" && up <= 0:
			t.Errorf("%s: accepted without a speed: %v", name, obs.Metrics)
		case suite && c.reason == "" && (up < c.least || up > c.most):
			t.Errorf("%s: %v times as fast, want %v to %v", name, up, c.least, c.most)
		}
	}
}

// replacing is a patch that puts one text in the place of another.
func replacing(name, from, to string) string {
	var b strings.Builder
	a, z := strings.Split(strings.TrimSuffix(from, "\n"), "\n"), strings.Split(strings.TrimSuffix(to, "\n"), "\n")
	fmt.Fprintf(&b, "diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n@@ -1,%d +1,%d @@\n", name, name, name, name, len(a), len(z))
	for _, l := range a {
		b.WriteString("-" + l + "\n")
	}
	for _, l := range z {
		b.WriteString("+" + l + "\n")
	}
	return b.String()
}

func TestKernelConfig(t *testing.T) {
	good := KernelConfig{Reference: []byte(kernelReference), GPU: &agon.GPUNeed{Count: 1, MemoryBytes: 40 << 30, Models: []string{"H100"}}, Image: "x@sha256:" + strings.Repeat("a", 64)}
	dir := filepath.Join(files(t, nil), "on-a-card")
	if _, err := ImportKernel(dir, good); err != nil {
		t.Fatal(err)
	}
	tk, err := task.LoadDir(dir, "test/one")
	if err != nil {
		t.Fatal(err)
	}
	if n := tk.Config.Environment.GPU(); n == nil || n.String() != "1 GPU of 40.0 GiB (H100)" || tk.Image() != good.Image {
		t.Errorf("%v %q", n, tk.Image())
	}
	for field, edit := range map[string]func(*KernelConfig){
		"reference": func(c *KernelConfig) { c.Reference = []byte("class Model: pass\n") },
		"image":     func(c *KernelConfig) { c.Image = "x:latest" },
		"tolerance": func(c *KernelConfig) { c.Tolerance = 1 },
		"calls":     func(c *KernelConfig) { c.Calls = 1000 },
		"gpu":       func(c *KernelConfig) { c.GPU = &agon.GPUNeed{} },
	} {
		c := good
		edit(&c)
		if _, err := ImportKernel(filepath.Join(files(t, nil), "bad-one"), c); err == nil || !strings.Contains(err.Error(), "kernel: "+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
