//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/corpus"
	"github.com/agon-arena/agon/corpus/corpustest"
	"github.com/agon-arena/agon/internal/interoptest"
)

// corpusOf builds a corpus with every format in it.
func corpusOf(t *testing.T) string {
	t.Helper()
	r, err := corpus.Build(t.Context(), corpus.Config{
		Source: corpustest.Source{Problems: 24, Agents: 4, Steps: 4, Words: 40, Wild: true}, Out: filepath.Join(t.TempDir(), "corpus"), EvalShare: 0.3,
	})
	if err != nil {
		t.Fatal(err)
	}
	v, err := corpus.Verify(r.Dir, nil)
	if err != nil || len(v.Problems) > 0 {
		t.Fatalf("%v %v", err, v)
	}
	return r.Dir
}

// TestCorpus: every export loads in the library that it is made for, and one
// step of training can be taken on it.
func TestCorpus(t *testing.T) {
	cmd := exec.Command(interoptest.Python(t, "trainer"), "corpus.py", corpusOf(t), t.TempDir())
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1", "CUDA_VISIBLE_DEVICES=")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	out = bytes.TrimSpace(out)
	var got map[string]struct {
		OK     bool   `json:"ok"`
		Rows   int    `json:"rows"`
		Absent string `json:"absent"`
		Error  string `json:"error"`
	}
	if err := json.Unmarshal(out[bytes.LastIndexByte(out, '\n')+1:], &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, x := range got {
		t.Run(name, func(t *testing.T) {
			switch {
			case x.Absent != "":
				interoptest.Absent(t, x.Absent)
			case !x.OK || x.Rows == 0:
				t.Errorf("%d rows: %s", x.Rows, x.Error)
			default:
				t.Logf("%d rows", x.Rows)
			}
		})
	}
}

// TestCorpusATIF: Harbor's validator takes every document of a corpus.
func TestCorpusATIF(t *testing.T) {
	p := start(t, "harbor")
	b, err := os.ReadFile(filepath.Join(corpusOf(t), "train", "atif.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for l := range strings.Lines(string(b)) {
		if got := p.ask(t, "atif", args{"document": l}); got["ok"] != true {
			t.Errorf("%v", got["errors"])
		}
		n++
	}
	if n == 0 {
		t.Error("no document")
	}
}

// TestDistill: the dry run of each method passes on a CPU.
func TestDistill(t *testing.T) {
	py, dir := interoptest.Python(t, "trainer"), corpusOf(t)
	if err := exec.Command(py, "-c", "import trl, torch, peft").Run(); err != nil {
		interoptest.Absent(t, "trl, torch or peft")
	}
	run := func(method, corpus string) (string, string, error) {
		cmd := exec.Command(py, "../docs/examples/distill/distill.py", "--corpus", corpus, "--method", method, "--dry-run", "--out", t.TempDir())
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PYTHONDONTWRITEBYTECODE=1")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		return string(out), errs.String(), err
	}
	for _, method := range []string{"sft", "dpo", "kto", "grpo"} {
		t.Run(method, func(t *testing.T) {
			out, errs, err := run(method, dir)
			if err != nil || !strings.Contains(out, `"steps": 2`) {
				t.Fatalf("%v %s\n%s", err, out, errs)
			}
			t.Log(strings.TrimSpace(out))
		})
	}
	path := filepath.Join(dir, "train", "qwen3.jsonl")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(b, []byte("mend"), []byte("bend"), 1), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, errs, err := run("sft", dir); err == nil || !strings.Contains(errs, "is not the file that was written") {
		t.Errorf("a changed export was trained on: %v %s", err, errs)
	}
}
