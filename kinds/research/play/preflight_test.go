package play

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/task"
)

// preflight runs on a task and returns its checks by name.
func (w *world) preflight() (PreflightReport, map[string]PreflightCheck) {
	w.t.Helper()
	rep, err := w.kind.Preflight(w.t.Context(), w, w.run())
	if err != nil {
		w.t.Fatal(err)
	}
	m := map[string]PreflightCheck{}
	for _, c := range rep.Checks {
		m[c.Name] = c
	}
	return rep, m
}

// What init writes passes preflight, numbers included.
func TestInitPassesPreflight(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(files(t, nil), "my-task")
	names, err := Init(dir)
	if err != nil || len(names) < 8 {
		t.Fatal(names, err)
	}
	if _, err := Init(dir); err == nil {
		t.Error("a directory that is not empty was written into")
	}
	if _, err := Init(filepath.Join(dir, "No Slug")); err == nil {
		t.Error("a bad slug was taken")
	}
	tk, err := task.LoadDir(dir, "test/one")
	if err != nil {
		t.Fatal(err)
	}
	w.put(tk)
	rep, checks := w.preflight()
	if !rep.OK || rep.Band != 0 || len(rep.Values) != 3 {
		t.Fatalf("%+v", rep)
	}
	for name, c := range checks {
		if c.Status != "ok" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// Row 62: what is wrong is said before the task goes live.
func TestPreflightFinds(t *testing.T) {
	for name, c := range map[string]struct {
		toml   string
		base   map[string]string
		check  string
		status string
		detail string
	}{
		"noise": {oneTask, with(oneBase, "bench.py", strings.Replace(oneBench, "score = float", "import random\nscore = random.random() + float", 1)), "determinism", "fail", "would not agree"},
		"noise within the tolerance": {
			oneTask + "[rules]\nrelative = 0.9\n", with(oneBase, "bench.py", strings.Replace(oneBench, "score = float", "import random\nscore = random.random() + float", 1)),
			"determinism", "fail", "would pass for a gain",
		},
		"hidden in the repository": {oneTask, with(oneBase, "hidden/a.txt", "the secret answer is 42\n", "notes.txt", "x\nthe secret answer is 42\n"), "hidden data", "fail", "notes.txt"},
		"secret in the repository": {oneTask, with(oneBase, "private", "[benchmark_env]\nK = \"a-long-secret\"\n", "notes.txt", "a-long-secret"), "hidden data", "fail", "variable K"},
		"luck with the seed":       {oneTask, with(oneBase, "bench.py", strings.Replace(oneBench, "score = float", "import os, random\nscore = random.Random(os.environ['AGON_SEED']).random() + float", 1)), "seeds", "fail", "luck with a seed"},
		"benchmark can be patched": {edit(oneTask, "\"submission/*\"", "\"**\""), oneBase, "benchmark protected", "fail", "bench.py"},
		"result can be patched":    {edit(oneTask, "\"submission/*\"", "\"submission/*\", \"out/*\""), oneBase, "benchmark protected", "fail", "the result"},
		"no number":                {oneTask, with(oneBase, "bench.py", "print('hm')"), "benchmark", "fail", "no result file"},
		"another baseline":         {edit(oneTask, "baseline = 1.0", "baseline = 7.0"), oneBase, "baseline", "warn", "the base gives 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.task(c.toml, c.base)
			rep, checks := w.preflight()
			got := checks[c.check]
			if got.Status != c.status || !strings.Contains(got.Detail, c.detail) {
				t.Errorf("%+v\nreport %+v", got, rep)
			}
			if rep.OK == (c.status == "fail") {
				t.Errorf("report is ok: %t", rep.OK)
			}
		})
	}
}

// Hidden data that lies in every box is found, with where it lies.
func TestPreflightRootfs(t *testing.T) {
	w := newWorld(t)
	b, err := os.ReadFile(filepath.Join(w.kind.cfg.Rootfs, "usr/share/common-licenses/Apache-2.0"))
	if err != nil {
		t.Fatal(err)
	}
	w.task(oneTask, with(oneBase, "hidden/a.txt", "Chapter 1\n"+string(b[3000:4000])))
	rep, checks := w.preflight()
	if got := checks["hidden data"]; got.Status != "fail" || rep.OK || len(rep.Leaks) == 0 || rep.Leaks[0].Bytes < 1000 || !strings.HasSuffix(rep.Leaks[0].Where, "common-licenses/Apache-2.0") {
		t.Errorf("%+v\nreport %+v", got, rep)
	}
}

// The verdict on time depends on the numbers alone, so that a slow machine
// changes no test. That setup counts is seen in the numbers of a real base.
func TestPreflightTime(t *testing.T) {
	for _, c := range []struct {
		setup, benchmark, budget int64
		status                   string
	}{
		{0, 0, 1000, "ok"},
		{200, 300, 1000, "ok"},
		{201, 300, 1000, "warn"},
		{500, 400, 1000, "warn"},
		{500, 401, 1000, "fail"},
		{0, 2000, 1000, "fail"},
	} {
		if status, detail := timeVerdict(c.setup, c.benchmark, c.budget); status != c.status || !strings.Contains(detail, "budget") {
			t.Errorf("%d and %d of %d: %s, %s", c.setup, c.benchmark, c.budget, status, detail)
		}
	}
	w := newWorld(t)
	w.task(edit(oneTask, "benchmark_command = ", "setup_command = \"sleep 0.3\"\nbenchmark_command = "), oneBase)
	rep, checks := w.preflight()
	if rep.SetupMS < 300 || checks["time"].Status == "" {
		t.Errorf("a setup of 300 ms: %+v", rep)
	}
}
