package harbor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/task"
)

func lintOf(t *testing.T, files map[string]string) []string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "x")
	for p, text := range files {
		at := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tk, err := task.LoadDir(dir, "s/x")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range (harbor{}).Lint(tk) {
		if !f.Warning || f.Message == "" {
			t.Errorf("%+v", f)
		}
		out = append(out, f.Field+" "+f.Code)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestLint(t *testing.T) {
	clean := map[string]string{
		"task.toml": `schema_version = "1.4"
[task]
name = "x/y"
[metadata]
licence = "MIT"
anything = 1
[agent]
user = "agent"
[verifier]
environment_mode = "separate"
`,
		"instruction.md": "Do it.\n", "environment/Dockerfile": "FROM debian" + digest + "\nWORKDIR /app\n",
		"tests/test.sh":     "#!/bin/bash\npytest /tests\ncurl -sf http://127.0.0.1:8080/ || exit 1\ncat <<EOF\npip install x\nEOF\n",
		"solution/solve.sh": "pip install -r requirements.txt 'x==1.0'\n",
	}
	if got := lintOf(t, clean); len(got) > 0 {
		t.Errorf("a clean task: %q", got)
	}
	got := lintOf(t, map[string]string{
		"task.toml": `artifacts = ["/out", "/out/x", "/logs"]
[task]
name = "x/y"
[agent]
tmeout_sec = 3
[verifier]
environment_mode = "separate"
[environment]
docker_image = "ubuntu:24.04"
network_mode = "public"
`,
		"instruction.md":                  "Do it.\n",
		"environment/Dockerfile":          "FROM debian:13 AS base\nFROM base\nRUN apt-get update && \\\n  pip install flask\nCOPY tests/test.sh /x\n",
		"environment/docker-compose.yaml": "services:\n  db:\n    image: postgres\n    privileged: true\n    cap_add: [NET_ADMIN]\n    volumes: ['/etc:/x', './here:/y:ro', 'named:/z']\n",
		"tests/test.sh":                   "curl -LsSf https://astral.sh/uv/install.sh | sh\nuvx -w pytest==8.4.1 -w pytest-json-ctrf pytest /tests\n",
	})
	want := strings.Fields(`environment/Dockerfile:1|unpinned-image environment/Dockerfile:3|unpinned-python-dependency environment/Dockerfile:5|agent-image-test-leak
		environment/docker-compose.yaml|compose-additional-capabilities environment/docker-compose.yaml|compose-external-bind-mount environment/docker-compose.yaml|compose-privileged
		environment/docker-compose.yaml|compose-writable-bind-mount environment/docker-compose.yaml|unpinned-image solution/solve.sh|agon-no-oracle
		task.toml|agon-network task.toml|agon-no-licence task.toml|artifact-log-overlap task.toml|overlapping-artifacts task.toml|root-agent task.toml|unknown-config-field task.toml|unpinned-image
		tests/test.sh:1|verifier-network-download tests/test.sh:2|unpinned-python-dependency tests/test.sh:2|verifier-runtime-install`)
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], "|", " ")
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	shared := map[string]string{}
	for p, text := range clean {
		shared[p] = strings.Replace(text, "separate", "shared", 1)
	}
	if got := lintOf(t, shared); !slices.Equal(got, []string{"task.toml shared-verifier"}) {
		t.Errorf("shared: %q", got)
	}
}

func FuzzLintLines(f *testing.F) {
	for _, s := range []string{"a \\\nb\n", "cat <<EOF\nx\nEOF\n", "pip install", "uvx -w", "curl https://a.b/ -o", "\\", "git clone https://a.b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l := &linter{}
		lines([]byte(s), func(n int, line string) { l.commands(line, "f", n, true) })
		if len(l.out) > maxLint {
			t.Errorf("%d findings", len(l.out))
		}
	})
}
