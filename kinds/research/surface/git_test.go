package surface

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// git runs the real one on trees that this test made, without any configuration or hook.
func git(t *testing.T, dir string, stdin []byte, args ...string) ([]byte, error) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false", "-c", "core.quotePath=true"}, args...)...)
	cmd.Dir = dir
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.invalid", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.invalid",
	}
	var out, errb bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errb
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("git %v: %w: %s", args, err, errb.String())
	}
	return out.Bytes(), nil
}

func writeAll(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for n, d := range files {
		p := filepath.Join(dir, n)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, d, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readAll(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == ".git" {
				return fs.SkipDir
			}
			return nil
		}
		rel, _ := filepath.Rel(dir, p)
		out[rel], err = os.ReadFile(p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// randomFile makes text with repeated lines (so that places are ambiguous),
// CRLF, no last newline now and then, or bytes that git takes for binary.
func randomFile(r *rand.Rand) []byte {
	if r.IntN(5) == 0 {
		b := make([]byte, r.IntN(5000))
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		return b
	}
	end := []string{"\n", "\r\n"}[r.IntN(2)]
	var b bytes.Buffer
	for range r.IntN(60) {
		fmt.Fprintf(&b, "%s%s", []string{"", "-- x", "++ y", "@@ -1 +1 @@", "line", "é", " "}[r.IntN(7)], strings.Repeat("z", r.IntN(3)))
		b.WriteString(end)
	}
	out := b.Bytes()
	if len(out) > 0 && r.IntN(3) == 0 {
		out = bytes.TrimRight(out, "\r\n")
	}
	return out
}

func change(r *rand.Rand, old []byte) []byte {
	lines := splitLines(old)
	var out [][]byte
	for _, l := range lines {
		switch r.IntN(12) {
		case 0:
		case 1:
			out = append(out, []byte("new\n"), l)
		case 2:
			out = append(out, []byte("other\r\n"))
		default:
			out = append(out, l)
		}
	}
	return bytes.Join(out, nil)
}

// What git makes of its own diffs is what Check makes of them; and where a
// damaged diff is accepted by Check, git accepts it and comes to the same tree.
func TestAgainstGit(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 94))
	names := []string{"submission/a.py", "submission/ä ö.txt", "submission/sub/b", "submission/\"q\"", "submission/t\tx", "submission/c.bin", "submission/d"}
	refused, accepted := 0, 0
	for round := range 12 {
		before, after := map[string][]byte{"bench.py": []byte("x\n")}, map[string][]byte{"bench.py": []byte("x\n")}
		for _, n := range names {
			if strings.ContainsAny(n, "\t") {
				continue // tabs are refused by name, see TestRefused
			}
			if r.IntN(4) > 0 {
				before[n] = randomFile(r)
			}
			switch r.IntN(5) {
			case 0:
			case 1:
				after[n] = randomFile(r)
			default:
				if b, ok := before[n]; ok {
					after[n] = change(r, b)
				}
			}
		}
		repo := t.TempDir()
		writeAll(t, repo, before)
		must := func(args ...string) []byte {
			out, err := git(t, repo, nil, args...)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		must("init", "-q", "--template=")
		must("add", "-A")
		must("commit", "-q", "-m", "x")
		for n := range before {
			if err := os.Remove(filepath.Join(repo, n)); err != nil {
				t.Fatal(err)
			}
		}
		writeAll(t, repo, after)
		must("add", "-A", "-N")
		patch := must("diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "HEAD")
		if len(patch) == 0 {
			continue
		}
		files := map[string]File{}
		for n, d := range before {
			files[n] = Bytes(ModeFile, d)
		}
		base := NewTree(files)
		rule := Rule{Allowed: []string{"submission/**"}, MaxBytes: MaxBytes}
		res, err := Check(base, patch, rule)
		if err != nil || !res.OK {
			t.Fatalf("round %d: %v %s\n%s", round, err, res.Error(), patch)
		}
		same(t, "git's own diff", before, res, after)
		accepted++
		for range 8 {
			bad := damage(r, patch)
			res, err := Check(base, bad, rule)
			if err != nil {
				t.Fatal(err)
			}
			if !res.OK {
				refused++
				continue
			}
			dir := t.TempDir()
			writeAll(t, dir, before)
			_, err = git(t, dir, bad, "apply", "--whitespace=nowarn", "-")
			if err != nil && strings.Contains(err.Error(), "dev/null: No such file") {
				continue // git wants a mode line beside /dev/null, Check does not
			}
			if err != nil {
				t.Fatalf("Check accepts what git refuses: %v\n%s", err, bad)
			}
			same(t, "a damaged diff", before, res, readAll(t, dir))
			accepted++
		}
	}
	if refused < 10 || accepted < 20 {
		t.Errorf("%d refused and %d accepted: the test compares too little", refused, accepted)
	}
}

func damage(r *rand.Rand, patch []byte) []byte {
	lines := splitLines(patch)
	i := r.IntN(len(lines))
	switch r.IntN(4) {
	case 0: // a line less
		return bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil)
	case 1: // text before everything
		return append([]byte("words\n"), patch...)
	case 2: // a place further on: the hunk is looked for
		return bytes.Replace(patch, []byte("@@ -2"), []byte("@@ -3"), 1)
	}
	out := bytes.Clone(patch)
	out[r.IntN(len(out))] ^= byte(1 + r.IntN(4))
	return out
}

func same(t *testing.T, what string, before map[string][]byte, res *Result, want map[string][]byte) {
	t.Helper()
	got := map[string][]byte{}
	for n, d := range before {
		got[n] = d
	}
	for _, c := range res.Changes {
		delete(got, c.Path)
		if c.NewMode != 0 {
			got[c.Path] = c.Data
		}
	}
	for n := range want {
		if _, ok := got[n]; !ok {
			t.Fatalf("%s: %q is missing", what, n)
		}
	}
	for n := range got {
		if w, ok := want[n]; !ok || !bytes.Equal(w, got[n]) {
			t.Fatalf("%s: %q differs: %q, want %q", what, n, got[n], w)
		}
	}
}

// Deltas are what git writes for large binaries that change a little.
func TestDeltaAgainstGit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	old := make([]byte, 70_000)
	for i := range old {
		old[i] = byte(r.IntN(256))
	}
	now := append(append(bytes.Clone(old[:30_000]), "a few new bytes"...), old[29_000:]...)
	repo := t.TempDir()
	writeAll(t, repo, map[string][]byte{"s/b": old})
	for _, args := range [][]string{{"init", "-q", "--template="}, {"add", "-A"}, {"commit", "-q", "-m", "x"}} {
		if _, err := git(t, repo, nil, args...); err != nil {
			t.Fatal(err)
		}
	}
	writeAll(t, repo, map[string][]byte{"s/b": now})
	patch, err := git(t, repo, nil, "diff", "--binary")
	if err != nil || !bytes.Contains(patch, []byte("\ndelta ")) {
		t.Fatalf("%v, no delta in %d bytes", err, len(patch))
	}
	res, err := Check(NewTree(map[string]File{"s/b": Bytes(ModeFile, old)}), patch, Rule{Allowed: []string{"s/*"}})
	if err != nil || !res.OK || !bytes.Equal(res.Changes[0].Data, now) {
		t.Fatal(err, res.Error())
	}
	// Of another base it is refused.
	res, err = Check(NewTree(map[string]File{"s/b": Bytes(ModeFile, now)}), patch, Rule{Allowed: []string{"s/*"}})
	if err != nil || res.OK || res.Reasons[0].Code != CodeNotApply {
		t.Fatal(err, res.Error())
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(edit))
	f.Add([]byte("diff --git a/submission/train.py b/submission/x\nrename from a\nrename to b\n"))
	f.Add([]byte("diff --git a/submission/b b/submission/b\nnew file mode 100644\nindex 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\nGIT binary patch\nliteral 0\nHcmV?d00001\n\nliteral 0\nHcmV?d00001\n\n"))
	f.Add([]byte("--- a/submission/last.txt\n+++ b/submission/last.txt\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n"))
	tr := tree(base)
	f.Fuzz(func(t *testing.T, patch []byte) {
		res, err := Check(tr, patch, Rule{Allowed: []string{"submission/*.py", "submission/*.txt"}})
		if err != nil {
			t.Fatal(err)
		}
		if res.OK != (len(res.Reasons) == 0) || res.OK == (len(res.Changes) == 0) {
			t.Fatalf("ok %t, reasons %d, changes %d", res.OK, len(res.Reasons), len(res.Changes))
		}
		for _, c := range res.Changes {
			if !Match(StylePath, []string{"submission/*.py", "submission/*.txt"}, c.Path) || strings.Contains(c.Path, "..") {
				t.Fatalf("changes %q", c.Path)
			}
			if c.NewMode != 0 && c.NewMode != ModeFile && c.NewMode != c.OldMode {
				t.Fatalf("mode %o of %q", c.NewMode, c.Path)
			}
		}
	})
}

func FuzzDelta(f *testing.F) {
	f.Add([]byte("abcdef"), []byte{6, 3, 0x91, 1, 3})
	f.Fuzz(func(t *testing.T, src, delta []byte) {
		if out, err := applyDelta(src, delta); err == nil && len(out) > MaxFile {
			t.Fatalf("%d bytes", len(out))
		}
	})
}

// bigPatch has 256 KB: a hunk every few lines of a large file.
func bigPatch() (*Tree, []byte) {
	var old, patch bytes.Buffer
	patch.WriteString("--- a/s/big.txt\n+++ b/s/big.txt\n")
	at := 1
	for patch.Len() < 261_000 {
		fmt.Fprintf(&patch, "@@ -%d,3 +%d,3 @@\n line %d\n-line %d\n+changed\n line %d\n", at, at, at, at+1, at+2)
		for i := range 10 {
			fmt.Fprintf(&old, "line %d\n", at+i)
		}
		at += 10
	}
	files := map[string]File{"s/big.txt": Bytes(ModeFile, old.Bytes())}
	for i := range 2000 {
		files[fmt.Sprintf("other/%d/f%d.txt", i%50, i)] = Bytes(ModeFile, nil)
	}
	return NewTree(files), patch.Bytes()
}

func TestBigPatch(t *testing.T) {
	tr, patch := bigPatch()
	res, err := Check(tr, patch, Rule{Allowed: []string{"s/*"}})
	if err != nil || !res.OK {
		t.Fatal(err, res.Error()[:200])
	}
}

// A patch whose hunks are nowhere near costs bounded work.
func TestSearchIsBounded(t *testing.T) {
	var old, patch bytes.Buffer
	for range 200_000 {
		old.WriteString("x\n")
	}
	old.WriteString("end\n")
	patch.WriteString("--- a/s/f\n+++ b/s/f\n@@ -3,3000 +3,3000 @@\n")
	for range 2998 {
		patch.WriteString(" x\n")
	}
	patch.WriteString("-y\n+z\n x\n")
	a := &applier{}
	sections, err := parse(patch.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.hunks(old.Bytes(), &sections[0]); err == nil {
		t.Fatal("applied")
	}
	if a.compares > maxCompares+200_000 {
		t.Errorf("%d comparisons", a.compares)
	}
}

func BenchmarkCheck256K(b *testing.B) {
	tr, patch := bigPatch()
	b.SetBytes(int64(len(patch)))
	for b.Loop() {
		if res, err := Check(tr, patch, Rule{Allowed: []string{"s/*"}}); err != nil || !res.OK {
			b.Fatal(err)
		}
	}
}
