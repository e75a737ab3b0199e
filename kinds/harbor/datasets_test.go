package harbor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox/datasets"
)

// A task's data set is seen by agent and verifier, changed by neither, and named in
// the record. One that cannot be had is the task's fault, and said.
func TestDatasets(t *testing.T) {
	src := t.TempDir()
	if err := os.MkdirAll(filepath.Join(src, "words"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(src, "words/one.txt"), []byte("of the data set\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := datasets.Open(t.TempDir(), nil)
	d, err := s.Add(t.Context(), src, "")
	if err != nil {
		t.Fatal(err)
	}
	pub := filepath.Join(t.TempDir(), "pub")
	if err := s.Export(t.Context(), d, pub); err != nil {
		t.Fatal(err)
	}
	task := func(ref string) map[string]string {
		return map[string]string{
			"data/task.toml":              plainToml + "[environment]\ndatasets = [\"corpus=" + ref + "\"]\n",
			"data/instruction.md":         "Copy the word.",
			"data/environment/Dockerfile": "FROM x\nWORKDIR /app\n",
			"data/tests/test.sh":          "#!/bin/bash\ncmp /datasets/corpus/words/one.txt /app/one.txt && [ ! -e /app/wrong ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
			"data/solution/solve.sh":      "cp /datasets/corpus/words/one.txt /app/\n",
		}
	}
	const agent = `
import os, shutil
def agent_main(input):
    shutil.copy("/datasets/corpus/words/one.txt", "one.txt")
    for change in (lambda: open("/datasets/corpus/words/one.txt", "a"), lambda: os.remove("/datasets/corpus/words/one.txt"), lambda: os.mkdir("/datasets/corpus/more"), lambda: os.chmod("/datasets/corpus/words/one.txt", 0o777)):
        try:
            change()
            open("wrong", "w").close()
        except OSError:
            pass
`
	for _, a := range kittest.Play(t, withTasks(task("dir:"+pub+"@"+d.Digest)), kittest.Files{agentFile: agent}) {
		if a.Outcome != "ok" || len(a.Scores) != 1 || a.Scores[0].Value != 1 || !slices.Equal(a.Driver.Datasets, []string{d.Digest}) {
			t.Errorf("%q %s %s, data sets %v, scores %+v, printed:\n%s", a.Outcome, a.Fault, a.Reason, a.Driver.Datasets, a.Scores, a.Files[outputFile])
		}
	}
	for ref, want := range map[string]string{
		"sha256:" + strings.Repeat("ab", 32):                 "its reference says not where it is",
		"dir:" + pub + "@sha256:" + strings.Repeat("cd", 32): "the manifest is not the one",
	} {
		a := kittest.PlayAny(t, withTasks(task(ref)), kittest.Files{agentFile: agent})
		if len(a) != 1 || a[0].Fault != agon.FaultTask || !strings.Contains(a[0].Reason, want) || !strings.Contains(a[0].Reason, "corpus") {
			t.Errorf("%s: %+v", ref, a[0])
		}
	}
}
