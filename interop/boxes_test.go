//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/interoptest"
)

// helloWorld is a Harbor task whose verifier calls what published ones call.
var helloWorld = map[string]string{
	"task.toml":              "schema_version = \"1.4\"\n[task]\nname = \"agon/hello-world\"\n[agent]\ntimeout_sec = 120.0\n[verifier]\ntimeout_sec = 120.0\nenvironment_mode = \"shared\"\n[environment]\nmemory_mb = 512\n",
	"instruction.md":         "Create a file called hello.txt with \"Hello, world!\" in it.\n",
	"environment/Dockerfile": "FROM ubuntu:24.04\nRUN apt-get update && apt-get install -y curl \\\n  git\nWORKDIR /app\n",
	"solution/solve.sh":      "#!/bin/bash\necho 'Hello, world!' > hello.txt\n",
	"tests/test_state.py":    "from pathlib import Path\n\n\ndef test_hello():\n    assert Path('/app/hello.txt').read_text() == 'Hello, world!\\n'\n",
	"tests/test.sh": `#!/bin/bash
apt-get update && apt-get install -y curl
curl -LsSf https://astral.sh/uv/0.9.7/install.sh | sh
source $HOME/.local/bin/env
if uvx -p 3.13 -w pytest==8.4.1 -w pytest-json-ctrf==0.3.5 pytest --ctrf /logs/verifier/ctrf.json /tests/test_state.py -rA; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
`,
}

// Boxes serve Harbor's own command line, Inspect and verifiers, unmodified.
func TestBoxes(t *testing.T) {
	dir := t.TempDir()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	cmd := exec.Command(agonBinary(t), "box", "serve", "--at", addr, "--data", filepath.Join(dir, "data"))
	cmd.Env, cmd.Stderr = append(os.Environ(), "AGON_BOXES_TOKEN=token"), os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("box serve: %v", err)
		}
	})
	until(t, time.Minute, "boxes are served", func() bool {
		resp, err := http.Get("http://" + addr + "/healthz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusNoContent
	})
	sdk, err := filepath.Abs("../kinds/harbor/sdk/python")
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PYTHONPATH="+sdk, "AGON_BOXES_URL=http://"+addr, "AGON_BOXES_TOKEN=token", "HOME="+dir, "LITELLM_LOCAL_MODEL_COST_MAP=True")
	run := func(t *testing.T, name string, args ...string) {
		t.Helper()
		c := exec.Command(name, args...)
		c.Env = env
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	task := filepath.Join(dir, "hello-world")
	for p, text := range helloWorld {
		at := filepath.Join(task, p)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("harbor", func(t *testing.T) {
		harbor := interoptest.File(t, "harborcli", "bin", "harbor")
		// Made by Harbor itself: its verifier has an environment of its own.
		run(t, harbor, "init", "agon/made", "--task", "--output-dir", dir)
		for _, c := range []struct {
			task, agent, flag string
			want              float64
		}{{task, "oracle", "--environment-import-path", 1}, {task, "nop", "--env", 0}, {filepath.Join(dir, "made"), "oracle", "--env", 1}} {
			jobs, err := os.MkdirTemp(dir, "jobs")
			if err != nil {
				t.Fatal(err)
			}
			run(t, harbor, "run", "-p", c.task, "-a", c.agent, c.flag, "agon_boxes.harbor:AgonEnvironment", "-o", jobs, "-y")
			found, err := filepath.Glob(filepath.Join(jobs, "*", "*", "result.json"))
			if err != nil || len(found) != 1 {
				t.Fatalf("%v %v", found, err)
			}
			b, err := os.ReadFile(found[0])
			if err != nil {
				t.Fatal(err)
			}
			var r struct {
				Verifier struct {
					Rewards map[string]float64 `json:"rewards"`
				} `json:"verifier_result"`
				Exception any `json:"exception_info"`
			}
			if err := json.NewDecoder(bytes.NewReader(b)).Decode(&r); err != nil {
				t.Fatal(err)
			}
			if got, ok := r.Verifier.Rewards["reward"]; !ok || got != c.want || r.Exception != nil {
				t.Errorf("%s by %s: reward %v, want %v: %s", filepath.Base(c.task), c.agent, r.Verifier.Rewards, c.want, b)
			}
		}
	})
	t.Run("inspect", func(t *testing.T) { run(t, interoptest.Python(t, "evals"), "boxes_inspect.py") })
	t.Run("verifiers", func(t *testing.T) { run(t, interoptest.Python(t, "evals"), "boxes_verifiers.py") })
}
