package play

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/rootfs/rootfstest"
)

// stands puts a line into the [environment] of a task's task.toml.
func (w *world) stands(tk *task.Task, line string) *task.Task {
	w.t.Helper()
	at := filepath.Join(tk.Dir, "task.toml")
	b, err := os.ReadFile(at)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(at, append(b, "[environment]\n"+line+"\n"...), 0o644); err != nil {
		w.t.Fatal(err)
	}
	out, err := task.LoadDir(tk.Dir, tk.Key)
	if err != nil {
		w.t.Fatal(err)
	}
	w.put(out)
	return out
}

// imageBench runs a program of its image beside what all benchmarks do.
const imageBench = oneBench + `
import subprocess
print("seen:", subprocess.run(["tool"], stdout=subprocess.PIPE, text=True).stdout, os.environ["FROM_IMAGE"], os.environ["TZ"], os.getuid() != 0)
`

// A task's image is what its boxes stand on: programs, variables and PATH of the
// image, which has no Python, no git and a profile that would forget its PATH.
func TestTaskInAnImage(t *testing.T) {
	w := newWorld(t)
	w.roots = rootfs.NewRoots(w.kind.cfg.Rootfs, rootfs.OpenImages(t.TempDir(), nil))
	ref := rootfstest.Layout(t, map[string]string{"opt/tools/bin/tool": "#!/bin/sh\necho of the image\n", "etc/profile": "PATH=/nowhere\nexport PATH\n"},
		&v1.Config{Env: []string{"PATH=/opt/tools/bin:/bin", "FROM_IMAGE=yes", "TZ=Mars/Olympus"}})
	base := with(oneBase, "bench.py", imageBench)
	w.stands(w.task(edit(oneTask, "benchmark_command", "setup_command = \"tool > built.txt\"\nbenchmark_command"), base), `image = "`+ref+`"`)
	rec, obs := w.play(w.submission(scorePatch("2.5"), Claim{}), w.run())
	if log := string(rec.Files[LogFile]); obs.Status != StatusAccepted || obs.Metrics["score"] != 2.5 || !strings.Contains(log, "seen: of the image\n yes UTC True") {
		t.Errorf("%s %s %v\n%s", obs.Status, obs.Notes, obs.Metrics, log)
	}
}

// What miners are told of image and data sets is what they can have; a task of
// theirs names the same.
func TestTaskSaysWhatItStandsOn(t *testing.T) {
	w := newWorld(t)
	hex := strings.Repeat("ab", 32)
	tk := w.stands(w.task(oneTask, oneBase), `image = "oci:/home/author/image@sha256:`+hex+`"
datasets = ["here=dir:/home/author/set@sha256:`+hex+`", "there=https://data.example/set@sha256:`+hex+`"]`)
	got, _, err := OpenTask(tk.Dir)
	if err != nil {
		t.Fatal(err)
	}
	sets := []string{"here=sha256:" + hex, "there=https://data.example/set@sha256:" + hex}
	if got.Image != "sha256:"+hex || !slices.Equal(got.Datasets, sets) {
		t.Errorf("%q %q", got.Image, got.Datasets)
	}
	config, err := got.ConfigFile("try/one")
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := OpenTask(files(t, map[string]string{"task.toml": string(config), "instruction.md": "x\n", TaskFile: oneTask, BaseDir + "/bench.py": oneBench}))
	if err != nil || again.Image != got.Image || !slices.Equal(again.Datasets, sets) {
		t.Errorf("%q %q %v", again.Image, again.Datasets, err)
	}
	for _, bad := range []string{`image = "debian:12"`, `datasets = ["no digest"]`, `datasets = ["a=sha256:` + hex + `", "a=sha256:` + hex + `"]`} {
		_, _, err := OpenTask(files(t, map[string]string{"task.toml": "[environment]\n" + bad + "\n", "instruction.md": "x\n", TaskFile: oneTask, BaseDir + "/bench.py": oneBench}))
		if err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

// Hidden data that lies in the task's image or in one of its data sets is found.
func TestPreflightOfImageAndDataSets(t *testing.T) {
	w := newWorld(t)
	images := rootfs.OpenImages(t.TempDir(), nil)
	w.roots = rootfs.NewRoots(w.kind.cfg.Rootfs, images)
	secret := strings.Repeat("What nobody may know before the period ends, line by line.\n", 4)
	store := datasets.Open(t.TempDir(), nil)
	set, err := store.Add(t.Context(), files(t, map[string]string{"rows.txt": "one\n" + secret}), "MIT")
	if err != nil {
		t.Fatal(err)
	}
	clean, err := store.Add(t.Context(), files(t, map[string]string{"rows.txt": "nothing of it\n"}), "MIT")
	if err != nil {
		t.Fatal(err)
	}
	leaky := rootfstest.Layout(t, map[string]string{"srv/cache": secret}, nil)
	w.kind.cfg.Datasets = store
	w.stands(w.task(oneTask, with(oneBase, "hidden/a.txt", secret)), `datasets = ["rows=sha256:`+strings.Repeat("ab", 32)+`"]`)
	if rep, checks := w.preflight(); rep.OK || checks["data set rows"].Status != "fail" {
		t.Errorf("a data set that nobody has: %+v", rep)
	}
	for where, line := range map[string]string{
		"root file system": `image = "` + leaky + `"`,
		"data set rows":    `datasets = ["rows=` + set.Digest + `"]`,
		"":                 `datasets = ["rows=` + clean.Digest + `"]`,
	} {
		w.stands(w.task(oneTask, with(oneBase, "hidden/a.txt", secret)), line)
		rep, checks := w.preflight()
		got := checks["hidden data"]
		if where == "" && (got.Status != "ok" || strings.Contains(got.Detail, "not opened")) {
			t.Errorf("%s: %+v", line, got)
		}
		if where != "" && (got.Status != "fail" || rep.OK || !strings.HasPrefix(rep.Leaks[0].Where, where)) {
			t.Errorf("%s: %+v %v", line, got, rep.Leaks)
		}
	}
}
