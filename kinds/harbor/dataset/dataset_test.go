package dataset

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon/engine/task"
)

func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for p, s := range files {
		at := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

var one = map[string]string{"task.toml": "[metadata]\nlicence = \"MIT\"\n[agon]\nkind = \"harbor\"\n", "instruction.md": "do it", "tests/test.sh": "#!/bin/sh\n"}

func under(dir string) map[string]string {
	out := map[string]string{}
	for p, s := range one {
		out[dir+"/"+p] = s
	}
	return out
}

// A directory comes over task by task, again without a change, and what is wrong is named.
func TestHarbor(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	for _, d := range []string{"set/Fix_Git", "set/fix.git", "other/hello"} {
		put(t, src, under(d))
	}
	put(t, src, map[string]string{"bad/task.toml": "[agent\n", "bad/instruction.md": "x", "links/task.toml": "", "links/instruction.md": "x"})
	if err := os.Symlink("/etc/passwd", filepath.Join(src, "links/environment")); err != nil {
		t.Fatal(err)
	}
	put(t, src, under("pipe"))
	if err := unix.Mkfifo(filepath.Join(src, "pipe/tests/fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		w := Writer{Dir: dst}
		if err := w.Harbor(t.Context(), src); err != nil {
			t.Fatal(err)
		}
		got := map[string]Imported{}
		for _, x := range w.Imported() {
			got[x.Source] = x
		}
		if len(got) != 6 {
			t.Fatalf("%+v", got)
		}
		for source, want := range map[string]string{"bad": "task.toml:1", "links": "neither a file", "pipe": "neither a file", "set/fix.git": "clashes with set/Fix_Git"} {
			if x := got[source]; x.OK || !strings.Contains(x.Reason, want) {
				t.Errorf("%s: %+v", source, x)
			}
		}
		for source, name := range map[string]string{"set/Fix_Git": "fix-git", "other/hello": "hello"} {
			if x := got[source]; !x.OK || x.Cached != (i == 1) || x.Task != name || x.Licence != "MIT" || x.Digest == "" {
				t.Errorf("%s: %+v", source, x)
			}
		}
	}
	put(t, dst, map[string]string{"hello/instruction.md": "something else"})
	w := Writer{Dir: dst, Plain: true}
	if err := w.Harbor(t.Context(), filepath.Join(src, "other")); err != nil || w.Imported()[0].OK || !strings.Contains(w.Imported()[0].Reason, "other bytes") {
		t.Errorf("%v %+v", err, w.Imported())
	}
	w = Writer{Dir: t.TempDir(), Plain: true}
	if err := w.Harbor(t.Context(), filepath.Join(src, "other/hello")); err != nil || !w.Imported()[0].OK {
		t.Fatalf("%v %+v", err, w.Imported())
	}
	if b, err := os.ReadFile(filepath.Join(w.Dir, "hello/task.toml")); err != nil || strings.Contains(string(b), "agon") || !strings.Contains(string(b), "MIT") {
		t.Errorf("%v %s", err, b)
	}
}

func TestArchives(t *testing.T) {
	var tarred, zipped, evil bytes.Buffer
	w, z, e := tar.NewWriter(&tarred), zip.NewWriter(&zipped), tar.NewWriter(&evil)
	for p, s := range under("x/a-task") {
		if err := w.WriteHeader(&tar.Header{Name: p, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(s))}); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(s))
		f, err := z.Create(p)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.Write([]byte(s))
	}
	if err := e.WriteHeader(&tar.Header{Name: "../../out", Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	_, _, _ = w.Close(), z.Close(), e.Close()
	for name, c := range map[string]struct {
		b  []byte
		ok bool
	}{"a.tar": {tarred.Bytes(), true}, "a.zip": {zipped.Bytes(), true}, "evil.tar": {evil.Bytes(), false}, "none": {[]byte("no"), false}} {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, c.b, 0o644); err != nil {
			t.Fatal(err)
		}
		w := Writer{Dir: t.TempDir()}
		err := w.Harbor(t.Context(), file)
		if (err == nil) != c.ok || c.ok && (len(w.Imported()) != 1 || !w.Imported()[0].OK) {
			t.Errorf("%s: %v %+v", name, err, w.Imported())
		}
	}
}

const line = `{"instance_id":"o__r-1","repo":"o/r","base_commit":"abc","problem_statement":"It breaks.","patch":"--- a/x\n+++ b/x\n","test_patch":"--- a/t\n+++ b/t\n","version":"1.0","FAIL_TO_PASS":"[\"t.py::test_a\"]","PASS_TO_PASS":["t.py::test_b"]}`

func TestSWEBench(t *testing.T) {
	dir := t.TempDir()
	lines := []string{
		line, "",
		strings.Replace(line, "o__r-1", "../x", 1),
		strings.Replace(strings.Replace(line, "o__r-1", "o__r-2", 1), `"[\"t.py::test_a\"]"`, `"nothing"`, 1),
		strings.Replace(strings.Replace(line, "o__r-1", "o__r-3", 1), `t.py::test_a`, `test a of mocha`, 1),
		`{"instance_id":"org__repo-5","org":"org","repo":"repo","base":{"sha":"d"},"title":"T","body":"B","fix_patch":"p","test_patch":"q","f2p_tests":{"t.py::x":{"run":"FAIL"}}}`,
	}
	file := filepath.Join(dir, "x.jsonl")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	w := Writer{Dir: filepath.Join(dir, "out")}
	if err := os.Mkdir(w.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := w.SWEBench(t.Context(), file, OfficialImage); err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, x := range w.Imported() {
		if x.OK {
			said = append(said, x.Task)
		} else {
			said = append(said, x.Reason)
		}
	}
	for i, want := range []string{"o-r-1", "instance_id", "FAIL_TO_PASS", "only tests of pytest", "org-repo-5"} {
		if i >= len(said) || !strings.Contains(said[i], want) {
			t.Errorf("%d: %q, want %s", i, said, want)
		}
	}
	tk, err := task.LoadDir(filepath.Join(w.Dir, "o-r-1"), "a/b")
	if err != nil || tk.Config.Environment.DockerImage != "docker.io/swebench/sweb.eval.x86_64.o_1776_r-1" || strings.TrimSpace(tk.Instruction) != "It breaks." {
		t.Errorf("%v %+v", err, tk)
	}
	out := filepath.Join(dir, "again.jsonl")
	if n, err := Lines(t.Context(), filepath.Join(w.Dir, "o-r-1"), out); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	var was, is map[string]any
	b, _ := os.ReadFile(out)
	if json.Unmarshal([]byte(line), &was) != nil || json.Unmarshal(b, &is) != nil || len(was) != len(is) || was["patch"] != is["patch"] {
		t.Errorf("%s", b)
	}
}

func TestParquet(t *testing.T) {
	type row struct {
		ID       string `parquet:"instance_id"`
		Repo     string `parquet:"repo"`
		Base     string `parquet:"base_commit"`
		Problem  string `parquet:"problem_statement"`
		Patch    string `parquet:"patch"`
		Test     string `parquet:"test_patch"`
		FailPass string `parquet:"FAIL_TO_PASS"`
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "x.parquet")
	if err := parquet.WriteFile(file, []row{{"o__r-1", "o/r", "abc", "It breaks.", "p", "q", `["t.py::test_a"]`}}); err != nil {
		t.Fatal(err)
	}
	w := Writer{Dir: dir}
	if err := w.SWEBench(t.Context(), file, OfficialImage); err != nil || len(w.Imported()) != 1 || !w.Imported()[0].OK {
		t.Fatalf("%v %+v", err, w.Imported())
	}
	// A file that is cut or altered is an error, and no panic.
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4; i < len(good); i += 7 {
		bad := bytes.Clone(good)
		bad[i] ^= 0xff
		if err := os.WriteFile(file, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		w := Writer{Dir: t.TempDir()}
		_ = w.SWEBench(t.Context(), file, OfficialImage)
	}
}

func TestPolyglot(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	at := "python/exercises/practice/two-fer/"
	put(t, src, map[string]string{
		at + ".meta/config.json": `{"files":{"solution":["two_fer.py"],"test":["two_fer_test.py"],"example":[".meta/example.py"]}}`, at + ".meta/example.py": "done = 1\n",
		at + ".docs/instructions.md": "Do it.", at + "two_fer.py": "pass\n", at + "two_fer_test.py": "assert True\n",
		"go/exercises/practice/none/.meta/config.json": `{}`,
	})
	w := Writer{Dir: dst}
	if err := w.Polyglot(t.Context(), src, ""); err != nil {
		t.Fatal(err)
	}
	list := w.Imported()
	if len(list) != 2 || list[0].OK || !list[1].OK || list[1].Task != "python-two-fer" {
		t.Fatalf("%+v", list)
	}
	for p, there := range map[string]bool{"environment/work/two_fer.py": true, "environment/work/two_fer_test.py": false, "tests/files/two_fer_test.py": true, "solution/example-0": true} {
		if _, err := os.Stat(filepath.Join(dst, "python-two-fer", p)); (err == nil) != there {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func FuzzInstance(f *testing.F) {
	f.Add([]byte(line))
	f.Fuzz(func(t *testing.T, b []byte) {
		var row map[string]any
		if json.Unmarshal(b, &row) != nil {
			return
		}
		if x, err := instanceOf(row); err == nil {
			_, _ = x.task(OfficialImage)
		}
	})
}
