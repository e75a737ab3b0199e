package dataset

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repositoryOf makes a repository of files and returns its commit.
func repositoryOf(t *testing.T, dir string, files map[string]string) string {
	t.Helper()
	put(t, dir, files)
	git := func(args ...string) string {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "--quiet")
	git("config", "uploadpack.allowAnySHA1InWant", "true")
	git("add", "-A")
	git("commit", "--quiet", "-m", "x")
	return git("rev-parse", "HEAD")
}

// A link in a repository does not make a task of a directory of this machine.
func TestRepositoryWithLinks(t *testing.T) {
	src, secret := t.TempDir(), t.TempDir()
	put(t, secret, under("hidden"))
	repo := filepath.Join(src, "repo")
	put(t, repo, under("sets/one"))
	for name, to := range map[string]string{"whole": filepath.Join(secret, "hidden"), "above": secret, "sets/beside": "one"} {
		if err := os.Symlink(to, filepath.Join(repo, name)); err != nil {
			t.Fatal(err)
		}
	}
	commit := repositoryOf(t, repo, nil)
	var tasks []listed
	for name, at := range map[string]string{"one": "sets/one", "whole": "whole", "above": "above/hidden", "beside": "sets/beside", "turned": "sets/../whole"} {
		tasks = append(tasks, listed{Name: name, URL: "file://" + repo, Commit: commit, Path: at})
	}
	b, err := json.Marshal([]set{{Name: "a", Tasks: tasks}})
	if err != nil {
		t.Fatal(err)
	}
	registry := filepath.Join(src, "registry.json")
	if err := os.WriteFile(registry, b, 0o600); err != nil {
		t.Fatal(err)
	}
	w := &Writer{Dir: t.TempDir()}
	if err := w.Registry(t.Context(), registry, "a"); err != nil {
		t.Fatal(err)
	}
	if n := len(w.Imported()); n != len(tasks) {
		t.Fatalf("%d rows", n)
	}
	for _, i := range w.Imported() {
		if ok := i.Reason == ""; ok != strings.HasSuffix(i.Source, ":sets/one") {
			t.Errorf("%+v", i)
		}
	}
}

// A data set of a registry comes from its repositories at the pinned commits.
func TestRegistry(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	commit := repositoryOf(t, filepath.Join(src, "repo"), under("sets/a/one"))
	put(t, filepath.Join(src, "repo"), map[string]string{"sets/a/one/instruction.md": "changed behind the commit"})
	put(t, src, under("here/two"))
	if err := os.Symlink("/etc/passwd", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	url := "file://" + filepath.Join(src, "repo")
	tasks := func(list ...listed) []listed { return list }
	all := []set{
		{Name: "a", Version: "1.0", Tasks: tasks(listed{Name: "old", URL: url, Commit: commit, Path: "none"})},
		{Name: "a", Version: "2.0", Tasks: tasks(
			listed{Name: "one", URL: url, Commit: commit, Path: "sets/a/one"},
			listed{Name: "gone", URL: url, Commit: commit, Path: "sets/a/gone"},
			listed{Name: "two", Path: "here/two"},
			listed{Name: "lost", URL: "file://" + filepath.Join(src, "nowhere"), Commit: commit, Path: "x"},
			listed{Name: "loose", URL: url, Commit: "main", Path: "sets/a/one"},
			listed{Name: "option", URL: "--upload-pack=touch " + filepath.Join(dst, "ran"), Commit: commit, Path: "x"},
			listed{Name: "program", URL: "ext::sh -c touch% " + filepath.Join(dst, "ran"), Commit: commit, Path: "x"},
		)},
		{Name: "out", Version: "1", Tasks: tasks(listed{Name: "x", URL: url, Commit: commit, Path: "../x"})},
	}
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	registry := filepath.Join(src, "registry.json")
	if err := os.WriteFile(registry, b, 0o600); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		w := &Writer{Dir: dst}
		if err := w.Registry(t.Context(), registry, "a"); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, x := range w.Imported() {
			got[x.Task] = x.Reason
			if x.OK {
				got[x.Task] = "ok"
				if x.Cached != (round == 1) {
					t.Errorf("%+v in round %d", x, round)
				}
			}
		}
		for name, want := range map[string]string{"one": "ok", "two": "ok", "gone": "no task.toml", "lost": "git fetch", "loose": "pins no commit", "option": "not a repository", "program": "git fetch"} {
			if !strings.Contains(got[name], want) {
				t.Errorf("%s: %q, want %q", name, got[name], want)
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(dst, "one", "instruction.md")); err != nil || string(b) != "do it" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dst, "ran")); err == nil {
		t.Error("a repository's address was run")
	}
	for name, want := range map[string]string{"a@3.0": "it has a@1.0, a@2.0, out@1", "out": "has the path"} {
		if err := (&Writer{Dir: dst}).Registry(t.Context(), registry, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// By its address, a registry names no files of this machine.
	srv := httptest.NewServer(http.FileServer(http.Dir(src)))
	defer srv.Close()
	w := &Writer{Dir: t.TempDir()}
	if err := w.Registry(t.Context(), srv.URL+"/registry.json", "a@1.0"); err != nil || !strings.Contains(w.Imported()[0].Reason, "file") {
		t.Errorf("%v %+v", err, w.Imported())
	}
	if err := w.Registry(t.Context(), srv.URL+"/registry.json", "a"); err == nil || !strings.Contains(err.Error(), "not a file") {
		t.Errorf("%v", err)
	}
	if err := w.Registry(t.Context(), srv.URL+"/none.json", "a"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("%v", err)
	}
}
