package gitrepo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

const address = "https://git.example/brenn/harbour"

// hostile makes a repository whose hooks and configuration would write a
// marker if anything of it ran, with a link, a binary and a deep path.
func hostile(t *testing.T) (dir, sha, marker string) {
	t.Helper()
	dir, marker = t.TempDir(), filepath.Join(t.TempDir(), "ran")
	write := func(p, text string) {
		t.Helper()
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=t", "-c", "user.email=t@example.invalid", "-c", "core.hooksPath=/dev/null"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
		b, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v %s", args, err, b)
		}
		return strings.TrimSpace(string(b))
	}
	git("init", "-q")
	write("README.md", "# Harbour\n\nThe pier of Brenn is 310 m long.\nIt was surveyed in 1962.\n")
	write("src/pier.py", "def length():\n    return 310\n")
	write("src/ferry.py", "def last():\n    return '21:40'\n")
	write("data/blob.bin", "a\x00b")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	git("commit", "-q", "-m", "x")
	sha = git("rev-parse", "HEAD")
	// From here on everything that git would run on its own is a trap.
	trap := "#!/bin/sh\ntouch " + marker + "\n"
	for _, h := range []string{"post-checkout", "post-index-change", "reference-transaction", "fsmonitor"} {
		write(".git/hooks/"+h, trap)
		if err := os.Chmod(filepath.Join(dir, ".git/hooks", h), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(".git/config", "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "+dir+"/.git/hooks/fsmonitor\n\tpager = touch "+marker+"\n[alias]\n\tls-tree = !touch "+marker+"\n")
	return dir, sha, marker
}

// In a real box: BM25 order, line ranges, hostile content.
func TestRealBox(t *testing.T) {
	root, err := rootfs.Ensure(context.Background(), rootfs.Config{})
	if err != nil {
		t.Fatalf("no root file system, nothing can be tested: %v", err)
	}
	d, reports, err := probe.Probe(context.Background(), probe.Config{Rootfs: root, StateDir: t.TempDir(), Want: os.Getenv("AGON_DRIVER")})
	if err != nil {
		t.Fatalf("no box, nothing can be tested: %v %+v", err, reports)
	}
	dir, sha, marker := hostile(t)
	r := New(Config{Driver: d, Rootfs: root, Local: map[string]string{address: dir}})
	ctx := context.Background()
	hits, err := r.SearchRepo(ctx, tools.RepoQuery{URL: address, Commit: sha, Query: "how long is the pier", Limit: 5})
	if err != nil {
		t.Fatal(err)
	}
	if len(hits) < 2 || hits[0].Path != "README.md" && hits[0].Path != "src/pier.py" || *hits[0].BM25 > *hits[1].BM25 {
		t.Errorf("hits %+v", hits)
	}
	if want := address + "/blob/" + sha + "/" + hits[0].Path; hits[0].URL != want {
		t.Errorf("url %s, want %s", hits[0].URL, want)
	}
	if hits, _ = r.SearchRepo(ctx, tools.RepoQuery{URL: address, Commit: sha, Query: "return", Glob: "src/*", Limit: 5}); len(hits) != 2 {
		t.Errorf("with a pattern: %+v", hits)
	}
	f, err := r.GetFile(ctx, tools.FileQuery{URL: address, Commit: sha, Path: "README.md", Start: 3, End: 3})
	if err != nil || f.Text != "The pier of Brenn is 310 m long.\n" || !strings.HasSuffix(f.URL, "#L3-L3") {
		t.Errorf("file: %v %+v", err, f)
	}
	for _, p := range []string{"link", "data/blob.bin", "../README.md", ".git/config", "nope"} {
		var fail *tools.Failure
		if _, err := r.GetFile(ctx, tools.FileQuery{URL: address, Commit: sha, Path: p}); !errors.As(err, &fail) || !fail.Own {
			t.Errorf("%s: %v", p, err)
		}
	}
	var fail *tools.Failure
	if _, err := r.GetFile(ctx, tools.FileQuery{URL: address, Commit: strings.Repeat("0", 40), Path: "x"}); !errors.As(err, &fail) || !fail.Own {
		t.Errorf("unknown commit: %v", err)
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Error("something of the repository ran on the host")
	}
}

// What may be fetched, and who is to blame.
func TestFetch(t *testing.T) {
	sha := strings.Repeat("a", 40)
	blob := strings.Repeat("b", 40)
	var mu sync.Mutex
	starts := 0
	answer := func(code int, stderr string) *fake.Driver {
		return fake.New(fake.Config{
			Start: func(context.Context, *fake.Box) error { mu.Lock(); starts++; mu.Unlock(); return nil },
			Exec: func(_ context.Context, _ *fake.Box, c sandbox.Cmd) sandbox.Exit {
				switch {
				case strings.Contains(strings.Join(c.Args, " "), "ls-tree"):
					fmt.Fprintf(c.Stdout, "100644 blob %s 5\tx.txt\x00", blob)
				case strings.Contains(strings.Join(c.Args, " "), "cat-file"):
					fmt.Fprintf(c.Stdout, "%s blob 5\nhello\n", blob)
				case strings.Contains(strings.Join(c.Args, " "), "fetch"):
					fmt.Fprint(c.Stderr, stderr)
					return sandbox.Exit{Code: code}
				}
				return sandbox.Exit{}
			},
		})
	}
	ctx := context.Background()
	good := answer(0, "")
	r := New(Config{Driver: good})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if f, err := r.GetFile(ctx, tools.FileQuery{URL: "https://github.com/a/b", Commit: sha, Path: "x.txt"}); err != nil || f.Text != "hello" {
				t.Errorf("%v %+v", err, f)
			}
		})
	}
	wg.Wait()
	if starts != 1 || good.Open() != 0 {
		t.Errorf("%d boxes for one commit, %d left open", starts, good.Open())
	}
	spec := good.Boxes()[0].Spec
	if !spec.Network || len(spec.Mounts) != 1 {
		t.Errorf("the box of a fetch: %+v", spec)
	}
	for _, u := range []string{
		"http://github.com/a/b", "https://127.0.0.1/a", "https://169.254.169.254/x", "https://evil.example/a/b", "https://user@github.com/a", "https://github.com:22/a",
		"ext::sh -c x", "-oProxyCommand=x", "file:///etc", "https://github.com/../a", "https://github.com/a?x",
	} {
		var f *tools.Failure
		if _, err := r.GetFile(ctx, tools.FileQuery{URL: u, Commit: sha, Path: "x"}); !errors.As(err, &f) || !f.Own {
			t.Errorf("%s: %v", u, err)
		}
	}
	for _, c := range []struct {
		stderr string
		own    bool
	}{{"fatal: unable to access: Could not resolve host: github.com", false}, {"fatal: repository not found", true}, {"fatal: couldn't find remote ref", true}} {
		var f *tools.Failure
		_, err := New(Config{Driver: answer(128, c.stderr)}).GetFile(ctx, tools.FileQuery{URL: "https://github.com/a/b", Commit: sha, Path: "x"})
		if !errors.As(err, &f) || f.Own != c.own {
			t.Errorf("%s: %v", c.stderr, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	sha := strings.Repeat("b", 40)
	f.Add([]byte("100644 blob "+sha+" 5\tx\x00"), []byte(sha+" blob 5\nhello\n"))
	f.Add([]byte("120000 blob "+sha+" 5\tl\x00160000 commit "+sha+" -\ts\x00"), []byte(""))
	f.Fuzz(func(t *testing.T, tree, blobs []byte) {
		entries, err := parseTree(tree)
		if err != nil {
			return
		}
		for _, e := range entries {
			if strings.Contains(e.path, "..") && !plainPath(e.path) || e.size > maxFile {
				t.Fatalf("%+v", e)
			}
		}
		files, err := parseBlobs(entries, blobs)
		if err == nil && len(files) > len(entries) {
			t.Fatal("more files than entries")
		}
		for _, x := range files {
			if bytes.IndexByte([]byte(x.text), 0) >= 0 {
				t.Fatal("a binary file passed")
			}
		}
	})
}
