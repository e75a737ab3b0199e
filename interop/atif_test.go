//go:build interop

package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/trajectory"
)

// TestATIF: Harbor's validator takes what agon writes, and refuses what agon's refuses.
func TestATIF(t *testing.T) {
	p := start(t, "harbor")
	golden, err := os.ReadFile("../trajectory/testdata/small.atif.json")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(doc string) (bool, any) {
		got := p.ask(t, "atif", args{"document": doc})
		return got["ok"] == true, got["errors"]
	}
	if ok, why := ask(string(golden)); !ok {
		t.Errorf("the golden file: %v", why)
	}
	for _, c := range []struct{ name, old, with string }{
		{"version", `"ATIF-v1.7"`, `"ATIF-v0.1"`},
		{"step numbers", `"step_id": 2`, `"step_id": 3`},
		{"source", `"source": "user"`, `"source": "robot"`},
		{"unknown field", `"agent": {`, `"agnet": {}, "agent": {`},
		{"stranger's result", `"source_call_id": "`, `"source_call_id": "x`},
	} {
		bad := strings.Replace(string(golden), c.old, c.with, 1)
		if bad == string(golden) {
			t.Errorf("%s: the golden file has no %s", c.name, c.old)
		}
		if trajectory.Validate([]byte(bad)) == nil {
			t.Errorf("%s: agon takes it", c.name)
		}
		if ok, _ := ask(bad); ok {
			t.Errorf("%s: Harbor takes it", c.name)
		}
	}
}

// TestATIFOfRun: runs that were really played, of the `agon up` at AGON_INTEROP_URL.
func TestATIFOfRun(t *testing.T) {
	url := os.Getenv("AGON_INTEROP_URL")
	if url == "" {
		t.Skip("NOT RUN: AGON_INTEROP_URL names no server with played runs (agon up)")
	}
	p := start(t, "harbor")
	agon := func(arg ...string) []byte {
		cmd := exec.Command(filepath.Join("..", "bin", "agon"), arg...)
		cmd.Env = append(os.Environ(), "AGON_URL="+url)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("agon %v: %v", arg, err)
		}
		return out
	}
	var runs []struct {
		Run   string `json:"run"`
		State string `json:"state"`
	}
	if err := json.Unmarshal(agon("run", "list", "-o", "json"), &runs); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range runs {
		if r.State != "scored" {
			continue
		}
		n++
		got := p.ask(t, "atif", args{"document": string(agon("run", "trace", r.Run, "--format", "atif"))})
		if got["ok"] != true {
			t.Errorf("run %s: %v", r.Run, got["errors"])
		}
	}
	if n == 0 {
		t.Error("no run is scored there")
	}
	t.Logf("%d runs", n)
}
