//go:build interop

package interop

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/internal/interoptest"
)

// collection is a repository of published Harbor tasks.
type collection struct {
	repository, below string   // github.com/repository, as AGON_STRANGERS/<its last element>
	bases             []string // what FROM names, for which an image of testdata/published.Dockerfile stands in
	// tasks is what becomes of each: "" where one passes its check, else a part of
	// the reason why it does not, or cannot be played.
	tasks map[string]string
}

var collections = []collection{
	{"harbor-framework/harbor-cookbook", "harbor_cookbook/recipes", []string{"ubuntu:24.04", "python:3.12-slim"}, map[string]string{
		"simple-task": "", "multi-step": "", "skills": "", "multi-container": "",
		"multi-reward":         "reward.json: want a number `reward`",            // it has several, and says elsewhere how they are summed
		"dns-blacklisting":     "the reference solution does not solve the task", // it asks hosts of the open net
		"computer-use-windows": "services.desktop.environment",                   // a key of the host
		"simulated-user":       "services.user-server.environment",               // another
	}},
	{"johnbuck/harbor-tasks", "tasks", []string{"harbor-agents-rich:latest"}, map[string]string{
		"file-persistence-01": "", "reasoning-parity-01": "", "api-contract-01": "", "cli-tool-01": "", "add-feature-with-tests-01": "", "add-feature-with-tests-02": "",
		"fix-bug-with-failing-test-01": "", "fix-bug-with-failing-test-02": "", "fix-bug-with-failing-test-03": "", "fix-bug-with-failing-test-04": "", "fix-bug-with-failing-test-05": "",
		"refactor-multi-file-01": "", "pr-diff-review-01": "", "secret-scan-01": "", "find-contradictions-01": "", "diagnose-from-logs-01": "", "failure-recovery-loop-01": "", "shell-pipeline-01": "",
	}},
	{"QuesmaOrg/harbor-workshop", "tasks", []string{"ubuntu:26.04"}, map[string]string{"cipher": ""}},
}

// Published Harbor tasks of several collections come over with the images that their
// Dockerfiles need, and are checked: the oracle solves, doing nothing does not. Then an
// agent plays each, whose model, a script, has it do what the reference solution does.
// It wants checkouts (AGON_STRANGERS=DIR, DIR/harbor-cookbook and so on).
func TestPublishedTasks(t *testing.T) {
	top := os.Getenv("AGON_STRANGERS")
	if top == "" {
		t.Skip("NOT RUN: AGON_STRANGERS names no folder with checkouts of others' repositories (harbor-cookbook, harbor-tasks, harbor-workshop)")
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	for name, file := range map[string]string{stand: "published", standRewardkit: "rewardkit"} {
		b, err := os.ReadFile("testdata/" + file + ".Dockerfile")
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Join(dir, file)
		writeText(t, filepath.Join(base, "Dockerfile"), string(b))
		agonJSON(t, data, nil, new(any), "image", "build", base, "--from", "debian:12=apt:bookworm", "--from", "debian:13=apt:trixie", "--name", name)
	}
	for _, c := range collections {
		name := filepath.Base(c.repository)
		t.Run(name, func(t *testing.T) {
			source := filepath.Join(top, name, c.below)
			if _, err := os.Stat(source); err != nil {
				interoptest.Absent(t, "AGON_STRANGERS/"+name+" (github.com/"+c.repository+")")
			}
			for task, at := range c.chosen(t, source) {
				t.Run(task, func(t *testing.T) { c.play(t, data, task, at, filepath.Join(dir, name, task)) })
			}
		})
	}
}

// stand is the image that stands in for those that FROM names; standRewardkit where the
// task's verifier calls rewardkit, which those have.
const (
	stand          = "published/base"
	standRewardkit = "published/rewardkit"
)

// play imports the task that stands at at, checks it, and has an agent play it where it passes.
func (c collection) play(t *testing.T, data, task, at, to string) {
	t.Helper()
	args := []string{"task", "import", "harbor", at, to, "--build"}
	on := stand
	if b, err := os.ReadFile(filepath.Join(at, "tests", "test.sh")); err == nil && bytes.Contains(b, []byte("rewardkit ")) {
		on = standRewardkit
	}
	for _, b := range c.bases {
		args = append(args, "--from", b+"="+on)
	}
	var list []struct {
		Task, Reason string
		OK           bool
	}
	agonJSON(t, data, nil, &list, args...)
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	reason := list[0].Reason
	to = filepath.Join(to, list[0].Task)
	if list[0].OK && reason == "" {
		var checked struct {
			OK, Forgeable bool
			Reason        string
		}
		agonJSON(t, data, nil, &checked, "task", "check", to)
		if checked.OK != (checked.Reason == "") {
			t.Fatalf("%+v", checked)
		}
		reason = checked.Reason
		t.Logf("forgeable %v", checked.Forgeable)
	}
	if want := c.tasks[task]; want == "" && reason != "" || !strings.Contains(reason, want) {
		t.Fatalf("%q, want %q", reason, want)
	}
	if reason == "" {
		playSolution(t, data, to)
	}
}

// chosen are the directories of the tasks of a collection that are looked at, by name.
func (c collection) chosen(t *testing.T, source string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(source, func(p string, d fs.DirEntry, err error) error {
		if name := filepath.Base(filepath.Dir(p)); err == nil && d.Name() == "task.toml" {
			if _, ok := c.tasks[name]; ok {
				out[name] = filepath.Dir(p)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != len(c.tasks) {
		t.Errorf("%s: %d tasks, want %d", c.repository, len(out), len(c.tasks))
	}
	return out
}

// toolAgent does what its model says, until that says no more.
const toolAgent = `import json, os, subprocess, urllib.request

TOOL = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}

def agent_main(input):
    messages = [{"role": "user", "content": input["instruction"]}]
    while True:
        body = json.dumps({"model": os.environ["AGON_MODEL"], "messages": messages, "tools": [TOOL]}).encode()
        asked = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body, {"Content-Type": "application/json"})
        said = json.load(urllib.request.urlopen(asked))["choices"][0]["message"]
        if not said.get("tool_calls"):
            return
        messages.append(said)
        for call in said["tool_calls"]:
            env = dict(os.environ, STEP=input.get("step") or "")
            done = subprocess.run(["bash", "-c", json.loads(call["function"]["arguments"])["command"]], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            print(done.stdout.decode(errors="replace"), flush=True)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "status %d" % done.returncode})
`

// playSolution has an agent play a task, whose model says what the reference solution does.
func playSolution(t *testing.T, data, task string) {
	t.Helper()
	var archive bytes.Buffer
	z := gzip.NewWriter(&archive)
	w := tar.NewWriter(z)
	for _, d := range []string{"solution", "steps"} {
		err := filepath.WalkDir(filepath.Join(task, d), func(p string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || d == "steps" && !strings.Contains(p, "/solution/") {
				return nil //nolint:nilerr // most tasks have one of the two
			}
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(task, p)
			if err != nil {
				return err
			}
			b = bytes.ReplaceAll(b, []byte("/solution/"), []byte("/tmp/plan/solution/"))
			if err := w.WriteHeader(&tar.Header{Name: rel, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(b))}); err != nil {
				return err
			}
			_, err = w.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	command := "mkdir -p /tmp/plan && base64 -d << X | tar xz -C /tmp/plan\n" + base64.StdEncoding.EncodeToString(archive.Bytes()) + "\nX\n" +
		"f=/tmp/plan/solution/solve.sh; [ -z \"$STEP\" ] || [ ! -e /tmp/plan/steps/$STEP/solution/solve.sh ] || f=/tmp/plan/steps/$STEP/solution/solve.sh; bash $f; code=$?; rm -rf /tmp/plan; exit $code"
	zero := 0
	rules, err := json.Marshal(map[string]any{"version": 1, "fallback": "That is all.", "rule": []map[string]any{
		{"turn": zero, "content": "I do it.", "tool_calls": []map[string]any{{"name": "shell", "arguments": map[string]any{"command": command}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	script, err := scripted.Parse(rules, "json")
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewServer(scripted.Handler(script))
	defer up.Close()
	entry := filepath.Join(t.TempDir(), "agent.py")
	writeText(t, entry, toolAgent)
	var got struct {
		Tasks []struct {
			Reward float64
			Solved bool
			Fault  string
		}
		CostMicros int64 `json:"cost_micros"`
	}
	agonJSON(t, data, []string{"AGON_LLM_BASE_URL=" + up.URL + "/v1", "AGON_LLM_API_KEY=" + sdkKey, "AGON_LLM_MODEL=" + agon.Script, "AGON_LLM_PRICE_IN=1000000", "AGON_LLM_PRICE_OUT=1000000"},
		&got, "try", entry, "--task", task)
	if len(got.Tasks) != 1 || !got.Tasks[0].Solved || got.Tasks[0].Reward != 1 || got.CostMicros == 0 {
		t.Errorf("played by an agent: %+v", got)
	}
}

// agonJSON runs agon and reads what it prints.
func agonJSON(t *testing.T, data string, env []string, v any, args ...string) {
	t.Helper()
	var errs strings.Builder
	cmd := exec.Command(agonBinary(t), append(args, "--data", data, "-o", "json")...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = &errs
	out, _ := cmd.Output() // its status says that some did not pass
	if err := json.Unmarshal(out, v); err != nil {
		t.Fatalf("%v: %v\n%s\n%s", args, err, out, errs.String())
	}
}
