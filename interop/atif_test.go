//go:build interop

package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/corpus/trajectory"
)

// TestATIF: Harbor's validator takes what agon writes, and refuses what agon's refuses.
func TestATIF(t *testing.T) {
	p := start(t, "harbor")
	golden, err := os.ReadFile("../corpus/trajectory/testdata/small.atif.json")
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
		{"version", `"ATIF-v1.8"`, `"ATIF-v0.1"`},
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

// TestATIFOfRun: runs of every kind that agon up really played are read by
// Harbor's validator.
func TestATIFOfRun(t *testing.T) {
	p := start(t, "harbor")
	url := serve(t, t.TempDir(), "up")
	agon := func(arg ...string) []byte {
		cmd := exec.Command(agonBinary(t), arg...)
		cmd.Env = append(os.Environ(), "AGON_URL="+url)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("agon %v: %v", arg, err)
		}
		return out
	}
	var arenas []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(agon("arena", "list", "-o", "json"), &arenas); err != nil || len(arenas) < 5 {
		t.Fatalf("%d arenas: %v", len(arenas), err)
	}
	for _, a := range arenas {
		t.Run(a.ID, func(t *testing.T) {
			var runs []struct {
				Run string `json:"run"`
			}
			until(t, 10*time.Minute, "three runs are scored", func() bool {
				if err := json.Unmarshal(agon("run", "list", "--arena", a.ID, "--state", "scored", "-o", "json"), &runs); err != nil {
					t.Fatal(err)
				}
				return len(runs) >= 3
			})
			for _, r := range runs {
				docs := []string{string(agon("run", "trace", r.Run, "--format", "atif"))}
				if !json.Valid([]byte(docs[0])) { // a run of several tasks is a line for each
					docs = strings.Split(strings.TrimSpace(docs[0]), "\n")
				}
				for i, doc := range docs {
					if got := p.ask(t, "atif", args{"document": doc}); got["ok"] != true {
						t.Errorf("run %s, document %d: %v", r.Run, i, got["errors"])
					}
				}
			}
			t.Logf("%d runs", len(runs))
		})
	}
}
