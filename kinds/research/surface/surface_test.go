package surface

import (
	"strings"
	"testing"
)

func tree(files map[string]string) *Tree {
	m := map[string]File{}
	for n, d := range files {
		mode := uint32(ModeFile)
		switch {
		case strings.HasPrefix(d, "#!"):
			mode = ModeExec
		case strings.HasPrefix(d, "->"):
			mode, d = ModeLink, d[2:]
		}
		m[n] = Bytes(mode, []byte(d))
	}
	return NewTree(m)
}

var base = map[string]string{
	"submission/train.py": "lr = 1\nsteps = 10\nseed = 7\n",
	"submission/run.sh":   "#!/bin/sh\necho\n",
	"submission/crlf.txt": "one\r\ntwo\r\nthree\r\n",
	"submission/last.txt": "a\nb",
	"submission/sql.txt":  "select\n-- a comment\nfrom\n",
	"submission/link":     "->../bench.py",
	"bench.py":            "print('score=1')\n",
	"dir/x.txt":           "x\n",
	"link":                "->dir",
}

const edit = `diff --git a/submission/train.py b/submission/train.py
--- a/submission/train.py
+++ b/submission/train.py
@@ -1,3 +1,3 @@
-lr = 1
+lr = 2
 steps = 10
 seed = 7
`

func create(name, mode, text string) string {
	n := strings.Count(text, "\n")
	var b strings.Builder
	b.WriteString("diff --git a/" + name + " b/" + name + "\nnew file mode " + mode + "\n--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1")
	if n != 1 {
		b.WriteString("," + string(rune('0'+n)))
	}
	b.WriteString(" @@\n")
	for l := range strings.Lines(text) {
		b.WriteString("+" + l)
	}
	return b.String()
}

// The attacks of the issue, each refused with its own reason.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		code  string
		kind  string
	}{
		"nothing":          {"", CodeEmpty, ""},
		"blank":            {" \n\n", CodeEmpty, ""},
		"no diff":          {"hello\n", CodeUnparseable, ""},
		"outside":          {strings.ReplaceAll(edit, "submission/train.py", "bench.py"), CodeDisallowed, ""},
		"outside, deeper":  {create("submission/sub/x.py", "100644", "x\n"), CodeDisallowed, ""},
		"too large":        {edit + strings.Repeat("#\n", 1<<18), CodeTooLarge, ""},
		"does not apply":   {strings.Replace(edit, "-lr = 1", "-lr = 3", 1), CodeNotApply, ""},
		"creates existing": {create("submission/train.py", "100644", "x\n"), CodeNotApply, ""},
		"absent":           {strings.ReplaceAll(edit, "train.py", "other.py"), CodeNotApply, ""},
		"no context at end": {`--- a/submission/train.py
+++ b/submission/train.py
@@ -1 +1 @@
-lr = 1
+lr = 2
`, CodeNotApply, ""},
		// The verified attack: every header says train.py, the rename lines
		// move the benchmark away and the miner's file onto its path.
		"rename headers, two sections": {`diff --git a/submission/train.py b/submission/train.py
similarity index 100%
rename from bench.py
rename to submission/old.py
diff --git a/submission/train.py b/submission/train.py
similarity index 100%
rename from submission/train.py
rename to bench.py
`, CodeForbidden, KindRename},
		"copy to sitecustomize": {`diff --git a/submission/train.py b/submission/train.py
similarity index 100%
copy from submission/train.py
copy to sitecustomize.py
`, CodeForbidden, KindRename},
		"honest rename": {`diff --git a/submission/train.py b/submission/new.py
similarity index 100%
rename from submission/train.py
rename to submission/new.py
`, CodeForbidden, KindRename},
		"other names in the header": {strings.Replace(edit, "diff --git a/submission/train.py b/submission/train.py", "diff --git a/bench.py b/bench.py", 1), CodeUnparseable, ""},
		"other names below":         {strings.Replace(edit, "+++ b/submission/train.py", "+++ b/bench.py", 1), CodeUnparseable, ""},
		"no prefixes":               {strings.NewReplacer("a/submission", "submission", "b/submission", "submission").Replace(edit), CodeUnparseable, ""},
		"symlink":                   {create("submission/l", "120000", "../bench.py\n"), CodeForbidden, KindLink},
		"edits a symlink":           {"diff --git a/submission/link b/submission/link\nindex 1..2 120000\n--- a/submission/link\n+++ b/submission/link\n@@ -1 +1 @@\n-../bench.py\n\\ No newline at end of file\n+../x\n\\ No newline at end of file\n", CodeForbidden, KindLink},
		"symlink in disguise":       {"--- a/submission/link\n+++ b/submission/link\n@@ -1 +1 @@\n-../bench.py\n\\ No newline at end of file\n+../x\n\\ No newline at end of file\n", CodeNotApply, ""},
		"submodule":                 {create("submission/m", "160000", "Subproject commit 0\n"), CodeForbidden, KindSubmodule},
		"mode change":               {"diff --git a/submission/train.py b/submission/train.py\nold mode 100644\nnew mode 100755\n", CodeForbidden, KindMode},
		"executable":                {create("submission/x.sh", "100755", "#!/bin/sh\n"), CodeForbidden, KindMode},
		"directory mode":            {create("submission/d", "040000", "x\n"), CodeForbidden, KindMode},
		"setuid":                    {create("submission/s", "104755", "x\n"), CodeForbidden, KindMode},
		"case clash":                {create("submission/TRAIN.py", "100644", "x\n"), CodeForbidden, KindClash},
		"case clash of a directory": {create("Submission/new.py", "100644", "x\n"), CodeForbidden, KindClash},
		"clash within the patch":    {create("submission/a.py", "100644", "x\n") + create("submission/A.py", "100644", "x\n"), CodeForbidden, KindClash},
		"full-width":                {create("submission/ｔrain.py", "100644", "x\n"), CodeForbidden, KindClash},
		"decomposed":                {create("submission/e\u0301.py", "100644", "x\n"), CodeForbidden, KindUnicode},
		"zero width":                {create("submission/tr\u200bain.py", "100644", "x\n"), CodeForbidden, KindUnicode},
		"right to left":             {create("submission/\u202etrain.py", "100644", "x\n"), CodeForbidden, KindUnicode},
		"look-alike":                {create("submission/tr\u0430in.py", "100644", "x\n"), CodeForbidden, KindUnicode},
		"not utf-8":                 {create("submission/\xff.py", "100644", "x\n"), CodeForbidden, KindUnicode},
		"quoted, not utf-8":         {"diff --git \"a/submission/\\377\" \"b/submission/\\377\"\nnew file mode 100644\n", CodeForbidden, KindUnicode},
		"control character":         {"diff --git \"a/submission/a\\nb\" \"b/submission/a\\nb\"\nnew file mode 100644\n", CodeForbidden, KindUnicode},
		"leaves":                    {create("submission/../bench2.py", "100644", "x\n"), CodeForbidden, KindPath},
		"absolute":                  {create("/etc/x", "100644", "x\n"), CodeForbidden, KindPath},
		"backslash":                 {create(`submission/..\bench.py`, "100644", "x\n"), CodeForbidden, KindPath},
		"trailing dot":              {create("submission/train.py.", "100644", "x\n"), CodeForbidden, KindPath},
		"gitattributes":             {create("submission/.gitattributes", "100644", "* eol=crlf\n"), CodeForbidden, KindGit},
		"gitmodules":                {create("submission/.gitmodules", "100644", "x\n"), CodeForbidden, KindGit},
		"hook":                      {create("submission/.git/hooks/post-checkout", "100644", "x\n"), CodeForbidden, KindGit},
		"hook in other case":        {create("submission/.GIT/hooks/post-checkout", "100644", "x\n"), CodeForbidden, KindGit},
		"short name of .git":        {create("submission/GIT~1/config", "100644", "x\n"), CodeForbidden, KindGit},
		"bytecode":                  {create("submission/train.PYC", "100644", "x\n"), CodeCache, KindCache},
		"cache directory":           {create("submission/__pycache__", "100644", "x\n"), CodeDisallowed, ""},
		"twice":                     {edit + edit, CodeForbidden, KindTwice},
		"through a link":            {"diff --git a/link/x.txt b/link/x.txt\nnew file mode 100644\n", CodeForbidden, KindLink},
		"file for a directory":      {create("dir", "100644", "x\n"), CodeNotApply, ""},
		"directory for a file":      {create("bench.py/x", "100644", "x\n"), CodeNotApply, ""},
		"changes nothing":           {strings.Replace(edit, "+lr = 2", "+lr = 1", 1), CodeEmpty, ""},
		"binary without data":       {"diff --git a/submission/b b/submission/b\nnew file mode 100644\nindex 0000000..1111111\nBinary files /dev/null and b/submission/b differ\n", CodeUnparseable, ""},
		"deletes half":              {"diff --git a/submission/train.py b/submission/train.py\ndeleted file mode 100644\n--- a/submission/train.py\n+++ /dev/null\n@@ -2,2 +1,0 @@\n-steps = 10\n-seed = 7\n", CodeNotApply, ""},
	} {
		t.Run(name, func(t *testing.T) {
			allowed := []string{"submission/*", "Submission/*", "submission/.git/**", "submission/.GIT/**", "submission/GIT~1/*", "submission/../*", "/etc/*"}
			switch name {
			case "through a link":
				allowed = []string{"link/*"}
			case "file for a directory", "directory for a file":
				allowed = []string{"**"}
			case "outside", "outside, deeper", "cache directory":
				allowed = []string{"submission/t*"}
			}
			r, err := Check(tree(base), []byte(c.patch), Rule{Allowed: allowed})
			if err != nil {
				t.Fatal(err)
			}
			if r.OK || len(r.Reasons) == 0 || r.Reasons[0].Code != c.code || r.Reasons[0].Kind != c.kind {
				t.Fatalf("ok %t, %s", r.OK, r.Error())
			}
			if r.Changes != nil || r.Digest != "" {
				t.Error("a refused patch has changes")
			}
			for _, x := range r.Reasons {
				if x.Message == "" || strings.ContainsAny(x.String(), "\x00\n\x1b") {
					t.Errorf("reason %+q", x.String())
				}
			}
		})
	}
}

func TestAccepted(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		path  string
		want  string
	}{
		"edit":       {edit, "submission/train.py", "lr = 2\nsteps = 10\nseed = 7\n"},
		"plain diff": {strings.SplitAfterN(edit, "\n", 2)[1], "submission/train.py", "lr = 2\nsteps = 10\nseed = 7\n"},
		"with an offset": {strings.Replace(`--- a/submission/train.py
+++ b/submission/train.py
@@ -5,2 +5,3 @@
 steps = 10
+x
 seed = 7
`, "x", "mid = 1", 1), "submission/train.py", "lr = 1\nsteps = 10\nmid = 1\nseed = 7\n"},
		"crlf":                {"--- a/submission/crlf.txt\n+++ b/submission/crlf.txt\n@@ -1,3 +1,3 @@\n one\r\n-two\r\n+2\r\n three\r\n", "submission/crlf.txt", "one\r\n2\r\nthree\r\n"},
		"adds a last newline": {"--- a/submission/last.txt\n+++ b/submission/last.txt\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n", "submission/last.txt", "a\nb\n"},
		// A removed line that begins with "-- " looks like a file header.
		"looks like a header":   {"--- a/submission/sql.txt\n+++ b/submission/sql.txt\n@@ -1,3 +1,3 @@\n select\n--- a comment\n+++ b/bench.py\n from\n", "submission/sql.txt", "select\n++ b/bench.py\nfrom\n"},
		"non-ascii name":        {"diff --git \"a/submission/\\303\\251.txt\" \"b/submission/\\303\\251.txt\"\nnew file mode 100644\n--- /dev/null\n+++ \"b/submission/\\303\\251.txt\"\n@@ -0,0 +1 @@\n+x\n", "submission/é.txt", "x\n"},
		"name with spaces":      {"diff --git a/submission/a b.txt b/submission/a b.txt\nnew file mode 100644\n--- /dev/null\n+++ b/submission/a b.txt\t\n@@ -0,0 +1 @@\n+x\n", "submission/a b.txt", "x\n"},
		"empty file":            {"diff --git a/submission/e b/submission/e\nnew file mode 100644\nindex 0000000..e69de29\n", "submission/e", ""},
		"mail around it":        {"From: x\nSubject: y\n\n---\n 1 file changed\n\n" + edit + "-- \n2.39\n", "submission/train.py", "lr = 2\nsteps = 10\nseed = 7\n"},
		"to an empty file":      {"--- a/submission/last.txt\n+++ b/submission/last.txt\n@@ -1,2 +0,0 @@\n-a\n-b\n\\ No newline at end of file\n", "submission/last.txt", ""},
		"executable edited":     {"diff --git a/submission/run.sh b/submission/run.sh\nindex 1..2 100755\n--- a/submission/run.sh\n+++ b/submission/run.sh\n@@ -1,2 +1,2 @@\n #!/bin/sh\n-echo\n+echo x\n", "submission/run.sh", "#!/bin/sh\necho x\n"},
		"no headers, /dev/null": {"diff --git a/submission/n b/submission/n\n--- /dev/null\n+++ b/submission/n\n@@ -0,0 +1 @@\n+x\n", "submission/n", "x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Check(tree(base), []byte(c.patch), Rule{Allowed: []string{"submission/*"}})
			if err != nil || !r.OK {
				t.Fatalf("%v %s", err, r.Error())
			}
			if len(r.Changes) != 1 || r.Changes[0].Path != c.path || string(r.Changes[0].Data) != c.want || r.Changes[0].Data == nil {
				t.Fatalf("%+v", r.Changes)
			}
		})
	}
}

// Two spellings of one change have one digest; another change has another.
func TestDigest(t *testing.T) {
	check := func(p string) string {
		r, err := Check(tree(base), []byte(p), Rule{Allowed: []string{"submission/*"}})
		if err != nil || !r.OK {
			t.Fatal(err, r.Error())
		}
		return string(r.Digest)
	}
	one := check(edit)
	if check("some mail\n\n"+strings.SplitAfterN(edit, "\n", 2)[1]) != one {
		t.Error("the same change written differently has another digest")
	}
	if check(strings.Replace(edit, "+lr = 2", "+lr = 3", 1)) == one {
		t.Error("another change has the same digest")
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		glob, name    string
		path, fnmatch bool
	}{
		{"a/*", "a/b", true, true},
		{"a/*", "a/b/c", false, true},
		{"a/**", "a/b/c", true, true},
		{"a/**", "a", false, false},
		{"**/x.py", "x.py", true, false},
		{"**/x.py", "a/b/x.py", true, true},
		{"a/**/b", "a/b", true, false},
		{"a/**/b", "a/x/y/b", true, true},
		{"a/", "a/b/c", true, false},
		{"./a", "a", true, false},
		{"*.py", "x.py", true, true},
		{"*.py", "a/x.py", false, true},
		{"?.py", "é.py", true, true},
		{"[a-c].py", "b.py", true, true},
		{"[!a-c].py", "b.py", false, false},
		{"[]x].py", "].py", true, true},
		{"[a.py", "[a.py", true, true},
		{"train.py", "train.pyc", false, false},
		{"a*b*c", "axxbxxbc", true, true},
		{"", "a", false, false},
	} {
		if got := Match(StylePath, []string{c.glob}, c.name); got != c.path {
			t.Errorf("path %q %q: %t", c.glob, c.name, got)
		}
		if got := Match(StyleFnmatch, []string{c.glob}, c.name); got != c.fnmatch {
			t.Errorf("fnmatch %q %q: %t", c.glob, c.name, got)
		}
	}
	// Stars do not explode.
	if Match(StyleFnmatch, []string{strings.Repeat("*a", 200) + "b"}, strings.Repeat("a", 1000)) {
		t.Error("matched")
	}
}

func TestCheckGlobs(t *testing.T) {
	if err := CheckGlobs([]string{"a/*", "**"}); err != nil {
		t.Error(err)
	}
	for _, bad := range [][]string{nil, {""}, {"/a"}, {"a/../b"}, {"\xff"}, make([]string, MaxGlobs+1)} {
		if CheckGlobs(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestFold(t *testing.T) {
	for _, pair := range [][2]string{{"STRASSE", "straße"}, {"ﬁle", "file"}, {"\u212a", "k"}, {"Ａ", "a"}, {"\u00e9", "e\u0301"}} {
		if Fold(pair[0]) != Fold(pair[1]) {
			t.Errorf("%q and %q do not fold together", pair[0], pair[1])
		}
	}
	if Fold("a") == Fold("b") {
		t.Error("everything folds together")
	}
}
