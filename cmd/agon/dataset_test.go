package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A data set from a directory into the cache, out to where others get it, and gone.
func TestDatasetCommands(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	w := &walker{t: t, home: dir, env: map[string]string{"AGON_CACHE": filepath.Join(dir, "cache")}}
	if err := os.MkdirAll("corpus/deep", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("corpus/deep/a.txt", []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}
	type set struct {
		Digest   string   `json:"digest"`
		Files    int      `json:"files"`
		Bytes    int64    `json:"bytes"`
		Copied   int64    `json:"copied"`
		Licence  string   `json:"licence"`
		Wrong    []string `json:"wrong"`
		Datasets []string `json:"datasets"`
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
	var first, second, checked, fetched, gone set
	get(&first, "dataset", "add", "./corpus", "--licence", "CC0-1.0")
	get(&second, "dataset", "add", "./corpus", "--licence", "CC0-1.0")
	if first.Files != 1 || first.Bytes != 3 || first.Copied != 3 || first.Licence != "CC0-1.0" || second.Digest != first.Digest || second.Copied != 0 {
		t.Errorf("%+v, then %+v", first, second)
	}
	var list []set
	get(&list, "dataset", "list")
	if len(list) != 1 || list[0].Digest != first.Digest {
		t.Errorf("%+v", list)
	}
	if code, out, _ := w.printing("dataset", "-o", "table"); code != 0 || !strings.Contains(out, first.Digest[:len("sha256:")+12]) || !strings.Contains(out, "0.0 MB") {
		t.Errorf("exit %d: %s", code, out)
	}
	get(&checked, "dataset", "check", first.Digest)
	if checked.Wrong == nil || len(checked.Wrong) > 0 {
		t.Errorf("%+v", checked)
	}
	var out struct{ Digest, Dir string }
	get(&out, "dataset", "export", first.Digest, "./out")
	get(&gone, "dataset", "prune")
	if len(gone.Datasets) != 1 {
		t.Errorf("%+v", gone)
	}
	get(&fetched, "dataset", "add", "dir:"+filepath.Join(dir, "out")+"@"+first.Digest)
	if fetched.Digest != first.Digest || fetched.Copied != 3 {
		t.Errorf("%+v", fetched)
	}
	for args, want := range map[string]string{
		"dataset export sha256:012345678901 ./x":                   "no_dataset",
		"dataset add ./nothing":                                    "bad_dataset",
		"dataset add sha256:" + strings.Repeat("ab", 32):           "no_dataset",
		"dataset add dir:./out@sha256:" + strings.Repeat("ab", 32): "bad_dataset",
	} {
		if code, _, said := w.printing(append(strings.Fields(args), "-o", "json")...); code == 0 || !strings.Contains(said, want) {
			t.Errorf("agon %s: exit %d: %s", args, code, said)
		}
	}
}
