package distill

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/agon-arena/agon"
)

// base writes a model's directory as transformers lays it out, with weights of
// these shapes (no numbers follow the header: nothing here reads them).
func base(t *testing.T, shapes map[string][]int64) string {
	t.Helper()
	dir := t.TempDir()
	head := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	for n, s := range shapes {
		head[n] = map[string]any{"dtype": "F32", "shape": s, "data_offsets": []int{0, 0}}
	}
	b, err := json.Marshal(head)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"config.json":       []byte(`{"hidden_size":8,"num_hidden_layers":2,"vocab_size":10,"max_position_embeddings":100}`),
		"tokenizer.json":    []byte(`{}`),
		"model.safetensors": append(binary.LittleEndian.AppendUint64(nil, uint64(len(b))), b...),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

const plays = `{"task":"a","reward":1,"messages":[{"role":"user","content":"x"}]}
{"task":"a","reward":0,"messages":[]}
{"task":"b","reward":1,"messages":[]}
{"task":"c","reward":null,"messages":[]}
{"task":"d","reward":{"outcome":0.5},"messages":[],"tokens":70}
`

// bare is the python3 of the machine without what was installed beside it.
func bare(t *testing.T) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("make setup brings python3: %v", err)
	}
	p := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(p, []byte("#!/bin/sh\nexec "+python+" -S \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlan(t *testing.T) {
	python := bare(t)
	b := base(t, map[string][]int64{"embed": {10, 8}, "norm": {8}})
	rows := write(t, "plays.jsonl", plays)
	for _, c := range []struct {
		method     string
		kept, step int
		rows       int
	}{{SFT, 2, 1, 5}, {KTO, 4, 2, 5}, {DPO, 2, 1, 5}, {RFT, 0, 10, 20}, {GRPO, 0, 10, 20}} {
		cfg := Config{Base: b, Out: filepath.Join(t.TempDir(), "o"), Method: c.method, Batch: 2, K: 2, Python: Python{Given: python}}
		if !Samples(c.method) {
			cfg.Rows = rows
		}
		p, err := cfg.Plan(t.Context(), Made{Tasks: 10, Held: 3})
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Missing) != 0 || p.Rows != c.rows || p.Kept != c.kept || p.Steps != c.step || p.Parameters != 88 || p.Held != 3 || p.Memory <= 16*88 || p.Tokens <= 0 {
			t.Errorf("%s: %+v", c.method, p)
		}
	}
	// A row over the length is not trained on.
	p, err := (&Config{Base: b, Out: "o", Method: KTO, Rows: rows, MaxLength: 60, Python: Python{Given: python}}).plan(t)
	if err != nil || p.Kept != 3 {
		t.Errorf("%+v %v", p, err)
	}
}

// Turns that an agent's code put there are not trained on: where the trainer knows no marks, their rows are left out.
func TestPlanLeavesOutWhatNoModelSaid(t *testing.T) {
	steps := func(marks ...string) string {
		return `{"task":"a","reward":1,"messages":[],"steps":[{"loss_mask":` + strings.Join(marks, `},{"loss_mask":`) + "}]}\n"
	}
	rows := write(t, "rows.jsonl", steps("false")+steps("true")+steps("false", "true")+steps("true", "false", "true")+`{"task":"b","reward":1,"messages":[]}`)
	for method, want := range map[string]int{SFT: 4, KTO: 3} {
		p, err := (&Config{Base: base(t, nil), Out: "o", Method: method, Rows: rows, Python: Python{Given: bare(t)}}).plan(t)
		if err != nil || p.Rows != 5 || p.Kept != want {
			t.Errorf("%s: %+v %v, want %d", method, p, err, want)
		}
	}
}

func (c *Config) plan(t *testing.T) (*Plan, error) { return c.Plan(t.Context(), Made{Tasks: 1}) }

func TestPlanNamesWhatIsMissing(t *testing.T) {
	p, err := Config{Python: Python{Given: "/nowhere/python"}}.Plan(t.Context(), Made{Why: "there is no arena"})
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(p.Missing, "\n")
	for _, want := range []string{"method:", "base: --base", "environment: there is no arena", "rows: name", "python: there is no /nowhere", "out:"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in:\n%s", want, all)
		}
	}
	good := base(t, map[string][]int64{"w": {1}})
	for _, c := range []struct{ name, bytes, want string }{
		{"model.safetensors", "short", "not a file of safetensors"},
		{"model.safetensors", "\xff\xff\xff\xff\xff\xff\xff\x7f{}", "not a file of safetensors"},
		{"model.safetensors", "\x2a\x00\x00\x00\x00\x00\x00\x00{\"w\":{\"shape\":[9223372036854775807,2,2]}}   ", "impossible shape"},
		{"config.json", "{", "config.json"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, c.name), []byte(c.bytes), 0o644); err != nil {
			t.Fatal(err)
		}
		p, err := Config{Base: dir, Method: SFT}.Plan(t.Context(), Made{})
		if err != nil || !strings.Contains(strings.Join(p.Missing, "\n"), c.want) {
			t.Errorf("%s %.10q: %v %q", c.name, c.bytes, err, p.Missing)
		}
	}
	for _, rows := range []string{"{\"task\":\"a\",\"reward\":1,\"split\":\"held\"}\n", "{\"task\":\n", "{\"task\":\"a\",\"reward\":0}\n", strings.Repeat("x", 10)} {
		p, err := Config{Base: good, Method: SFT, Rows: write(t, "r", rows)}.Plan(t.Context(), Made{})
		if err != nil || !strings.Contains(strings.Join(p.Missing, "\n"), "rows: ") {
			t.Errorf("%q: %v %q", rows, err, p.Missing)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (Config{Base: good, Method: SFT, Rows: write(t, "r", plays)}).Plan(ctx, Made{}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped while reading: %v", err)
	}
}

// What was sampled before a stop counts, but for the line that was being written.
func TestPlanOfSampledPlays(t *testing.T) {
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "plays.jsonl"), []byte("{\"task\":\"a\",\"reward\":1,\"ids\":[1,2,3]}\n{\"task\":\"a\",\"reward\":0,\"ids\":[1]}\n{\"task\":\"b\",\"rew"), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := Config{Base: base(t, nil), Out: out, Method: RFT}.Plan(t.Context(), Made{Tasks: 5})
	if err != nil || p.Rows != 20 || p.Kept != 1 || p.Tokens != 3 || p.Steps != 1 {
		t.Errorf("%+v %v", p, err)
	}
}

// A trainer that outlives agon keeps its directory: two would write into it at once.
func TestTrainerThatIsLeftKeepsItsDirectory(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "pid")
	python := filepath.Join(dir, "python3")
	if err := os.WriteFile(python, []byte("#!/bin/sh\nsleep 600 </dev/null >/dev/null 2>&1 &\necho $! >"+left+"\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := Config{Base: base(t, nil), Out: t.TempDir(), Method: SFT, Rows: write(t, "r", plays), Python: Python{Given: python}}
	run := func() string {
		_, err := c.Run(t.Context(), Environments{}, nil)
		var e *agon.Error
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		return e.Code
	}
	end := func() {
		b, err := os.ReadFile(left)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	}
	if got := run(); got != "training_failed" {
		t.Errorf("the first: %s", got)
	}
	if got := run(); got != "busy" {
		t.Errorf("while what it left still runs: %s", got)
	}
	end()
	f, err := os.Open(filepath.Join(c.Out, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil { // waits for its end
		t.Fatal(err)
	}
	_ = f.Close()
	if got := run(); got != "training_failed" {
		t.Errorf("after it: %s", got)
	}
	end()
}

func TestRunSaysWhatFailed(t *testing.T) {
	python := bare(t)
	c := Config{Base: base(t, nil), Out: t.TempDir(), Method: SFT, Rows: write(t, "r", plays), Python: Python{Given: python}}
	_, err := c.Run(t.Context(), Environments{}, nil)
	var e *agon.Error
	if !errors.As(err, &e) || e.Code != "training_failed" || !strings.Contains(e.Message, "torch") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Run(ctx, Environments{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
