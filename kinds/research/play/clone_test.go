package play

import (
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/research/gitserve"
)

// A task whose repository is elsewhere is cloned by git in a box, once for each commit.
func TestClone(t *testing.T) {
	repo, err := gitserve.Build([]gitserve.File{
		{Path: "bench.py", Mode: gitserve.ModeFile, Content: []byte(oneBench)},
		{Path: "submission/score.txt", Mode: gitserve.ModeFile, Content: []byte("1.0\n")},
		{Path: "bin/x", Mode: gitserve.ModeExec, Content: []byte("#!/bin/sh\n")},
		{Path: "link", Mode: gitserve.ModeLink, Content: []byte("bin/x")},
		{Path: "crlf.txt", Mode: gitserve.ModeFile, Content: []byte("a\r\nb\r\n")},
		{Path: ".gitattributes", Mode: gitserve.ModeFile, Content: []byte("* text eol=crlf\n")},
	}, "main")
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(repo)
	defer srv.Close()
	w := newWorld(t)
	cache := filepath.Join(files(t, nil), "clones")
	w.kind.cfg.Cache, w.kind.cfg.PlainRepositories = cache, true
	w.kind.cfg.Artifacts.Allow = func(a netip.Addr) bool { return a.IsLoopback() }
	toml := edit(oneTask, "baseline", "repository = \""+srv.URL+"\"\nsetup_command = \"ls -l bin/x link > build.txt\"\nbaseline")
	w.task(toml, map[string]string{"README.md": "elsewhere\n"})
	for range 2 {
		rec, obs := w.play(w.submission(scorePatch("2.5"), Claim{}), w.run())
		if obs.Status != StatusAccepted || obs.Metrics["score"] != 2.5 {
			t.Fatalf("%+v\n%s", obs, rec.Files[LogFile])
		}
		if !strings.Contains(string(rec.Files[LogFile]), "base_commit_sha="+repo.Commit()) {
			t.Errorf("log: %s", rec.Files[LogFile])
		}
	}
	// Bytes as they are in the repository, whatever its attributes say.
	if b, err := os.ReadFile(filepath.Join(cache, repo.Commit(), "tree", "crlf.txt")); err != nil || string(b) != "a\r\nb\r\n" {
		t.Errorf("%v %q", err, b)
	}
	// By its name the commit needs no server any more.
	w.task(edit(toml, "title", "base_ref = \""+repo.Commit()+"\"\ntitle"), map[string]string{"README.md": "elsewhere\n"})
	srv.Close()
	w.names = nil
	if _, obs := w.play(w.submission(scorePatch("3"), Claim{}), w.run()); obs.Metrics["score"] != 3 || slices.Contains(w.names, "clone") {
		t.Errorf("%+v %v", obs, w.names)
	}
}

func TestRepositoryRefused(t *testing.T) {
	k := New(Config{})
	for _, raw := range []string{"", "x", "git@github.com:a/b", "ssh://github.com/a", "file:///etc", "http://github.com/a", "https://u:p@github.com/a", "https://127.0.0.1/a", "https://[::1]/a", "https://10.0.0.1/a?x=1"} {
		if _, _, err := k.repository(t.Context(), raw); err == nil {
			t.Errorf("%q is accepted", raw)
		}
	}
}

func TestParseTree(t *testing.T) {
	id := strings.Repeat("a", 40)
	for name, in := range map[string]string{
		"empty": "", "no tab": "100644 blob " + id + " 3 x", "submodule": "160000 commit " + id + "       -\tx", "directory": "040000 tree " + id + " -\tx",
		"leaves": "100644 blob " + id + " 3\t../x", "absolute": "100644 blob " + id + " 3\t/x", "too large": "100644 blob " + id + " 999999999\tx", "short id": "100644 blob aa 3\tx",
	} {
		if e, err := parseTree([]byte(in)); err == nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
	e, err := parseTree([]byte("100644 blob " + id + "      3\ta/b c\x00120000 blob " + id + " 4\tl\x00"))
	if err != nil || len(e) != 2 || e[0].name != "a/b c" || e[1].size != 4 {
		t.Errorf("%+v %v", e, err)
	}
}
