package patch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const good = "diff --git a/f.txt b/f.txt\nindex 1..2 100644\n--- a/f.txt\n+++ b/f.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"

func TestParse(t *testing.T) {
	hunk := "@@ -1 +1 @@\n-a\n+b\n"
	tests := []struct {
		name, in string
		reason   string   // "" = accepted
		paths    []string // Paths()
	}{
		{"git form", good, "", []string{"a/f.txt", "b/f.txt", "f.txt"}},
		{"no prefixes", "--- f.txt\n+++ f.txt\n@@ -1 +1 @@\n-a\n+b\n", "", []string{"f.txt"}},
		{"difflib with time stamps", "--- a/x.py\t2020-01-01\n+++ b/x.py\t2020-01-02\n" + hunk, "", []string{"a/x.py", "b/x.py", "x.py"}},
		{"prose around", "I fixed it\n\n" + good + "\nthanks\n", "", []string{"a/f.txt", "b/f.txt", "f.txt"}},
		{"new file", "diff --git a/n b/n\nnew file mode 100755\nindex 0..1\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n", "", []string{"a/n", "b/n", "n"}},
		{"empty new file", "diff --git a/n b/n\nnew file mode 100644\nindex 0..1\n", "", []string{"a/n", "b/n", "n"}},
		{"deletion", "diff --git a/n b/n\ndeleted file mode 100644\n--- a/n\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", "", []string{"a/n", "b/n", "n"}},
		{"rename", "diff --git a/o b/n\nsimilarity index 100%\nrename from o\nrename to n\n", "", []string{"a/o", "b/n", "n", "o"}},
		{"name with spaces", "diff --git a/x y b/x y\nold mode 100644\nnew mode 100755\n", "", []string{"a/x y", "b/x y", "x y"}},
		{"quoted umlaut", "diff --git \"a/\\303\\274\" \"b/\\303\\274\"\n--- \"a/\\303\\274\"\n+++ \"b/\\303\\274\"\n" + hunk, "", []string{"a/ü", "b/ü", "ü"}},
		{"header look-alike in a hunk", "--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n--- /etc/passwd\n-+++ /etc/passwd\n+x\n", "", []string{"a/f", "b/f", "f"}},
		{"no final newline", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n", "", nil},
		{"crlf content", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\r\n+b\r\n", "", nil},
		{"crlf headers", "--- a/f\r\n+++ b/f\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n", "", []string{"a/f", "b/f", "f"}},
		{"blank context line without its space", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n\n-a\n+b\n", "", nil},

		{"empty", "", ReasonNoDiff, nil},
		{"prose only", "no change needed\n", ReasonNoDiff, nil},
		{"nul", good + "\x00", ReasonNotText, nil},
		{"too large", strings.Repeat("x", MaxBytes+1), ReasonTooLarge, nil},
		{"cut hunk", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n", ReasonCorrupt, nil},
		{"overlong hunk", "--- a/f\n+++ b/f\n@@ -1,2 +1,1 @@\n-a\n+b\n b\n", ReasonCorrupt, nil},
		{"hunk without header", "@@ -1 +1 @@\n-a\n+b\n", ReasonCorrupt, nil},
		{"parent", "--- a/../f\n+++ b/../f\n" + hunk, ReasonPath, nil},
		{"bare parent", "--- ../f\n+++ ../f\n" + hunk, ReasonPath, nil},
		{"absolute", "--- /etc/passwd\n+++ /etc/passwd\n" + hunk, ReasonPath, nil},
		{"absolute after prefix", "--- a//etc/passwd\n+++ b//etc/passwd\n" + hunk, ReasonPath, nil},
		{"backslash", "--- a/x\\y\n+++ b/x\\y\n" + hunk, ReasonPath, nil},
		{"quoted newline", "--- \"a/x\\ny\"\n+++ \"b/x\\ny\"\n" + hunk, ReasonPath, nil},
		{"quoted nul", "--- \"a/x\\000y\"\n+++ \"b/x\\000y\"\n" + hunk, ReasonPath, nil},
		{"quoted parent", "--- \"a/\\056\\056/f\"\n+++ \"b/\\056\\056/f\"\n" + hunk, ReasonPath, nil},
		{"not utf-8", "--- a/\xff\n+++ b/\xff\n" + hunk, ReasonPath, nil},
		{"git dir", "--- a/.git/config\n+++ b/.git/config\n" + hunk, ReasonGitDir, nil},
		{"git dir upper", "--- a/.GIT/config\n+++ b/.GIT/config\n" + hunk, ReasonGitDir, nil},
		{"git dir hfs", "--- a/.g\u200cit/config\n+++ b/.g\u200cit/config\n" + hunk, ReasonGitDir, nil},
		{"git dir ntfs", "--- a/GIT~1/config\n+++ b/GIT~1/config\n" + hunk, ReasonGitDir, nil},
		{"git dir dots", "--- a/.git. ./config\n+++ b/.git. ./config\n" + hunk, ReasonGitDir, nil},
		{"git dir stream", "--- a/.git::$INDEX_ALLOCATION/config\n+++ b/.git::$INDEX_ALLOCATION/config\n" + hunk, ReasonGitDir, nil},
		{"git dir full width", "--- a/.ｇｉｔ/config\n+++ b/.ｇｉｔ/config\n" + hunk, ReasonGitDir, nil},
		{"rename into git dir", "diff --git a/o b/n\nrename from o\nrename to .git/hooks/post-commit\n", ReasonGitDir, nil},
		{"gitmodules", "--- /dev/null\n+++ b/.gitmodules\n@@ -0,0 +1 @@\n+x\n", ReasonSubmodule, nil},
		{"symlink", "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n", ReasonSymlink, nil},
		{"symlink by index line", "diff --git a/l b/l\nindex 1..2 120000\n--- a/l\n+++ b/l\n" + hunk, ReasonSymlink, nil},
		{"mode change to symlink", "diff --git a/l b/l\nold mode 100644\nnew mode 120000\n", ReasonSymlink, nil},
		{"submodule", "diff --git a/l b/l\nnew file mode 160000\n", ReasonSubmodule, nil},
		{"setuid", "diff --git a/l b/l\nnew file mode 104755\n", ReasonMode, nil},
		{"binary", "diff --git a/l b/l\nindex 1..2\nGIT binary patch\nliteral 1\n", ReasonBinary, nil},
		{"binary note", "diff --git a/l b/l\nindex 1..2\nBinary files a/l and b/l differ\n", ReasonBinary, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Parse([]byte(tt.in))
			if tt.reason != "" {
				var pe *Error
				if !errors.As(err, &pe) || pe.Reason != tt.reason {
					t.Fatalf("got %v, want reason %s", err, tt.reason)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.paths != nil && !slices.Equal(p.Paths(), tt.paths) {
				t.Errorf("paths %q, want %q", p.Paths(), tt.paths)
			}
		})
	}
}

func TestTooManyFiles(t *testing.T) {
	var b strings.Builder
	for i := range MaxFiles + 1 {
		fmt.Fprintf(&b, "diff --git a/%d b/%d\nnew file mode 100644\n", i, i)
	}
	var pe *Error
	if _, err := Parse([]byte(b.String())); !errors.As(err, &pe) || pe.Reason != ReasonTooLarge {
		t.Fatalf("got %v", err)
	}
}

// What git would write, it must never write outside of the paths that Parse
// named: the property that the judge rests on. Everything here runs on our own bytes.
func TestPathsCoverGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("git is needed for this test: %v", err)
	}
	patches := []string{
		good,
		"--- f.txt\n+++ f.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n",
		"diff --git a/f.txt b/g.txt\nsimilarity index 100%\nrename from f.txt\nrename to g.txt\n",
		"diff --git a/f.txt b/d/g.txt\nsimilarity index 100%\ncopy from f.txt\ncopy to d/g.txt\n",
		"diff --git a/n w b/n w\nnew file mode 100644\nindex 0000000..e69de29\n",
		"diff --git \"a/\\303\\274\" \"b/\\303\\274\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/\\303\\274\"\n@@ -0,0 +1 @@\n+x\n",
		"--- /dev/null\n+++ b/new/deep/file\n@@ -0,0 +1 @@\n+x\n",
	}
	for i, in := range patches {
		p, err := Parse([]byte(in))
		if err != nil {
			t.Fatalf("patch %d: %v", i, err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "f.txt"), []byte("a\nb\nc\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(git, "apply", "-")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(in)
		cmd.Env = []string{"GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir), "GIT_CONFIG_NOSYSTEM=1", "HOME=" + dir}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("patch %d: git apply: %v %s", i, err, out)
		}
		changed := 0
		_ = filepath.Walk(dir, func(full string, fi os.FileInfo, _ error) error {
			if fi.IsDir() {
				return nil
			}
			rel, _ := filepath.Rel(dir, full)
			b, _ := os.ReadFile(full)
			if rel == "f.txt" && string(b) == "a\nb\nc\n" {
				return nil
			}
			changed++
			if !slices.Contains(p.Paths(), rel) {
				t.Errorf("patch %d: git wrote %q, which Paths does not name: %q", i, rel, p.Paths())
			}
			return nil
		})
		if changed == 0 {
			t.Errorf("patch %d changed nothing", i)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("diff --git \"a/\\303\\274\" b/x\nrename from \"\\n\"\n"))
	f.Add([]byte("--- a/f\r\n+++ b/f\r\n@@ -1 +1 @@\r\n-a\r\n+b\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			var pe *Error
			if !errors.As(err, &pe) || pe.Reason == "" {
				t.Fatalf("error without a reason: %v", err)
			}
			return
		}
		for _, n := range p.Paths() {
			if !filepath.IsLocal(n) || isGitDir(n) {
				t.Fatalf("accepted %q", n)
			}
			if r, _ := CheckPath(n); r != "" {
				t.Fatalf("path %q would be refused: %s", n, r)
			}
		}
	})
}

// Five hundred diffs with something broken in each: read, or refused by a reason
// and one line that a miner can act on, and what is read leaves no tree.
func TestMalformed(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	whole := good + "diff --git a/n.py b/n.py\nnew file mode 100644\n--- /dev/null\n+++ b/n.py\n@@ -0,0 +1,2 @@\n+x = 1\n+y = 2\n"
	words := []string{"../", "/etc/passwd", "\x00", "\r\n", "@@ -1 +1 @@\n", "--- a/../../x\n", "99999999999999999999", "-1", "\\", "\"", "rename to .git/config\n", "GIT binary patch\n", "\xff\xfe", "\u202e", "120000", strings.Repeat("+", 5000)}
	reasons := map[string]int{}
	for i := range 500 {
		b := []byte(whole)
		for range 1 + rnd.IntN(4) {
			at := rnd.IntN(len(b))
			switch rnd.IntN(5) {
			case 0: // cut
				b = b[:at+1]
			case 1: // a byte
				b[at] = byte(rnd.IntN(256))
			case 2: // a word in between
				b = slices.Concat(b[:at], []byte(words[rnd.IntN(len(words))]), b[at:])
			case 3: // a piece twice
				b = slices.Concat(b, b[at:])
			case 4: // a piece less
				b = slices.Concat(b[:at], b[min(len(b), at+rnd.IntN(40)):])
			}
			if len(b) == 0 {
				b = []byte("x")
			}
		}
		p, err := Parse(b)
		if err != nil {
			var bad *Error
			if !errors.As(err, &bad) || bad.Reason == "" || strings.ContainsAny(err.Error(), "\n\r\x00\x1b") {
				t.Errorf("%d: %q is refused with %q", i, b, err)
			} else {
				reasons[bad.Reason]++
			}
			continue
		}
		reasons[""]++
		for _, f := range p.Paths() {
			if strings.HasPrefix(f, "/") || slices.Contains(strings.Split(f, "/"), "..") {
				t.Errorf("%d: %q leaves the tree by %q", i, b, f)
			}
		}
	}
	if len(reasons) < 5 {
		t.Errorf("only %v", reasons)
	}
}
