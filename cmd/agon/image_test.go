package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/agon-arena/agon/sandbox/rootfs/rootfstest"
)

// An image from a directory into the cache, looked at, out again, and gone.
func TestImageCommands(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	w := &walker{t: t, home: dir, env: map[string]string{"AGON_CACHE": filepath.Join(dir, "cache")}}
	ref := rootfstest.Layout(t, map[string]string{"bin/sh": "#!", "srv/f": "x"}, &v1.Config{
		Env: []string{"A=b"}, Labels: map[string]string{"org.opencontainers.image.licenses": "MIT"},
	})
	type image struct {
		Digest  string   `json:"digest"`
		Layers  int      `json:"layers"`
		Bytes   int64    `json:"bytes"`
		Copied  int64    `json:"copied"`
		Licence string   `json:"licence"`
		Missing []string `json:"missing"`
		Images  []string `json:"images"`
		Config  struct {
			Env []string `json:"env"`
		} `json:"config"`
	}
	get := func(into any, args ...string) {
		t.Helper()
		code, out, said := w.printing(append(args, "-o", "json")...)
		if code != 0 {
			t.Fatalf("agon %s: exit %d: %s", strings.Join(args, " "), code, said)
		}
		if err := json.Unmarshal([]byte(out), into); err != nil {
			t.Fatalf("agon %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	var first, second, checked, gone image
	get(&first, "image", "import", ref)
	get(&second, "image", "pull", ref)
	if first.Layers != 1 || first.Copied != first.Bytes || first.Licence != "MIT" || len(first.Config.Env) != 1 || !strings.HasSuffix(ref, first.Digest) || second.Copied != 0 {
		t.Errorf("%+v, then %+v", first, second)
	}
	var list []image
	get(&list, "image", "list")
	if len(list) != 1 || list[0].Digest != first.Digest {
		t.Errorf("%+v", list)
	}
	if code, out, _ := w.printing("image", "-o", "table"); code != 0 || !strings.Contains(out, first.Digest[:len("sha256:")+12]) || !strings.Contains(out, "0.0 MB") {
		t.Errorf("exit %d: %s", code, out)
	}
	get(&checked, "image", "check", first.Digest)
	if strings.Join(checked.Missing, " ") != "git python3" {
		t.Errorf("%+v", checked)
	}
	var out struct{ Digest, Dir string }
	get(&out, "image", "export", first.Digest, "./out")
	if _, err := os.Stat("out/index.json"); err != nil || out.Dir != "./out" {
		t.Errorf("%+v, %v", out, err)
	}
	get(&gone, "image", "prune")
	if len(gone.Images) != 1 || gone.Bytes < first.Bytes {
		t.Errorf("%+v", gone)
	}
	get(&list, "image", "list")
	if len(list) != 0 {
		t.Errorf("%+v", list)
	}
	for _, args := range [][]string{{"import", "oci:./nowhere"}, {"import", "archive:f.tar"}, {"check", "not an image"}, {"prune", "--quota", "-1"}, {"import"}} {
		if code, said := w.run(append([]string{"image"}, args...)...); code == 0 || fixOf(said) == "" {
			t.Errorf("agon image %v: exit %d: %s", args, code, said)
		}
	}
}
