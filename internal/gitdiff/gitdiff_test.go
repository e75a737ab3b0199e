package gitdiff

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestReadHunk(t *testing.T) {
	for l, want := range map[string]Hunk{
		"@@ -1,2 +3,4 @@": {1, 2, 3, 4}, "@@ -1 +0,0 @@ func x() {": {1, 1, 0, 0}, "@@ -999999999,1 +7 @@": {999999999, 1, 7, 1},
	} {
		if h, ok := ReadHunk(l); !ok || h != want {
			t.Errorf("%s: %+v %t", l, h, ok)
		}
	}
	for _, l := range []string{"", "@@", "@@ -1 +1", "@@ -1 +1 @", "@@ -a +1 @@", "@@ -1, +1 @@", "@@ -1 +1,x @@", "@@ -1000000000 +1 @@", "@@ +1 -1 @@", "@@ -1  +1 @@", " @@ -1 +1 @@"} {
		if h, ok := ReadHunk(l); ok {
			t.Errorf("%s: %+v", l, h)
		}
	}
}

// git's own quoting is read back, every byte of it.
func TestUnquoteWhatGitQuotes(t *testing.T) {
	dir := t.TempDir()
	var all strings.Builder
	for b := 1; b < 256; b++ {
		if b != '/' {
			all.WriteByte(byte(b))
		}
	}
	name := all.String()
	if err := os.WriteFile(dir+"/"+name[:127], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/"+name[127:], nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	out, err := exec.Command("git", "-C", dir, "-c", "core.quotePath=true", "ls-files", "--others").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for l := range strings.Lines(string(out)) {
		n, rest, err := Unquote(l)
		if err != nil || rest != "\n" {
			t.Fatalf("%q: %q %v", l, rest, err)
		}
		got[n] = true
	}
	if len(got) != 2 || !got[name[:127]] || !got[name[127:]] {
		t.Errorf("%v", got)
	}
	for _, s := range []string{``, `x`, `"`, `"a`, `"\`, `"\x"`, `"\40"`, `"\400"`, `"\08a"`, `"\1`} {
		if n, _, err := Unquote(s); err == nil {
			t.Errorf("%s is read as %q", s, n)
		}
	}
}

func FuzzGitdiff(f *testing.F) {
	f.Add(`"a\tb\303\244" rest`)
	f.Add("@@ -1,2 +3 @@ x")
	f.Fuzz(func(t *testing.T, s string) {
		if name, rest, err := Unquote(s); err == nil && len(name)+len(rest)+2 > len(s) {
			t.Fatalf("%q gives %q and %q", s, name, rest)
		}
		if h, ok := ReadHunk(s); ok && (h.Old < 0 || h.New < 0 || h.OldPos < 0 || h.NewPos < 0) {
			t.Fatalf("%q gives %+v", s, h)
		}
	})
}
