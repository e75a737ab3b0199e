package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A repository's hooks do not run when what strangers wrote is committed.
func TestCommitAll(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("a/files/recipe.json", "{}", 0o644)
	put("a/files/.gitattributes", "* filter=evil\n", 0o644)
	put("a/files/.gitignore", "*\n", 0o644)
	one, err := commitAll(t.Context(), dir, "one")
	if err != nil || len(one) != 40 {
		t.Fatal(one, err)
	}
	for _, hook := range []string{"pre-commit", "post-commit"} {
		put(".git/hooks/"+hook, "#!/bin/sh\ntouch "+filepath.Join(dir, "owned")+"\nexit 1\n", 0o755)
	}
	put("b/files/recipe.json", "{}", 0o644)
	two, err := commitAll(t.Context(), dir, "two")
	if err != nil || two == one {
		t.Fatal(two, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "owned")); err == nil {
		t.Error("a hook ran")
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", dir, "ls-files").Output()
	if err != nil || strings.Count(string(out), "recipe.json") != 2 || !strings.Contains(string(out), ".gitignore") {
		t.Errorf("%v %s", err, out)
	}
}
