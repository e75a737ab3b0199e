package play

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/kinds/pack/clawbench"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/kinds/pack/season"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

func TestMain(m *testing.M) { kittest.Main(m) }

// boxesOnly is an Env that starts boxes.
type boxesOnly struct {
	kind.Env
	driver sandbox.Driver
}

func (e boxesOnly) Box(ctx context.Context, s sandbox.Spec) (sandbox.Box, error) {
	return e.driver.Start(ctx, s)
}

// Whatever names a pack's files have, a workspace can be made of them: a pack that could
// not be laid out would be our fault, and its miner's never.
func TestWorkspaceOfAnyNames(t *testing.T) {
	names := []string{
		"SKILL.md", "SKILL.md/below", "a", "a/b", "a/b/c", "a.b", "c/d", "c", "learned", "learned/notes.md", "INSTRUCTION.md", "INSTRUCTION.md/x", "/etc/x", "../x", "a/../x", "", ".", "x\x00y", "x\\y",
		strings.Repeat("n", 300), strings.Repeat("d/", 90) + "deep", "ENVIRONMENT.md/x", "skills/a.md", "\u202e.md", "\n",
	}
	files := map[string]string{}
	for _, name := range names {
		files[name] = "pack"
	}
	body, err := json.Marshal(map[string]any{"schema_version": 1, "files": files})
	if err != nil {
		t.Fatal(err)
	}
	p, err := packfile.Read(body)
	if err != nil {
		t.Fatal(err)
	}
	s := shellPlay{job: job{Files: map[string]string{"ENVIRONMENT.md": "task"}}}
	addPack(s.job.Files, p)
	dir, err := lay(append(s.files(), blob.File{Path: instructionFile, Content: []byte("task")}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tempdir.Remove(dir) }()
	got := map[string]string{}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var b []byte
			b, err = os.ReadFile(filepath.Join(dir, name))
			got[name] = string(b)
		}
		return err
	})
	want := map[string]string{"ENVIRONMENT.md": "task", "INSTRUCTION.md": "task"}
	for _, name := range []string{"SKILL.md", "a", "a.b", "c", strings.Repeat("d/", 90) + "deep", "skills/a.md", "\u202e.md", "\n"} {
		want[name] = "pack"
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: the workspace holds %q, want %q", err, got, want)
	}
	if to, err := os.Readlink(filepath.Join(dir, "learned")); err != nil || to != learnedDir {
		t.Errorf("learned is %q, %v", to, err)
	}
}

// BenchmarkWorld is how long an episode's world takes to start: the services of a
// generated office with their doors, the box, and its files. Each world is asked from
// inside before it ends, which is not measured.
func BenchmarkWorld(b *testing.B) {
	driver, root := kittest.Driver(b)
	made, err := season.Make(7, 3)
	if err != nil {
		b.Fatal(err)
	}
	sc, err := clawbench.Parse(made.Files["scenarios/"+made.Name+".yaml"])
	if err != nil {
		b.Fatal(err)
	}
	first := "fixtures/" + made.Name + "/"
	instruction, fixtures := made.Files[first+sc.Session[0].Instruction], made.Files[first+sc.Session[0].Services]
	s := shellPlay{env: boxesOnly{driver: driver}, root: rootfs.NewRoots(root, nil).Own(), job: job{Files: map[string]string{"SKILL.md": "Keep notes."}}}
	s.run.Policy.Agent = agon.Limits{WallMS: 60_000, CPUMilli: 1000, MemoryBytes: 512 << 20, Pids: 64, DiskBytes: 256 << 20, Inodes: 20_000, OutputBytes: 1 << 20}
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		w, err := s.world(b.Context(), 0, instruction, fixtures, nil)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		b.StopTimer()
		var out strings.Builder
		x, err := w.box.Exec(b.Context(), sandbox.Cmd{Args: []string{s.root.Python, "-I", "-c", `import urllib.request as r; print(r.urlopen("http://127.0.0.1:8090/health").status)`}, Stdout: &out})
		if err != nil || out.String() != "200\n" {
			b.Fatal(x, err, out.String())
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}
