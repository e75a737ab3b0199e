//go:build interop

package interop

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
)

// cookbook is what becomes of the tasks of Harbor's cookbook: "" where one passes
// its check, else a part of the reason why it does not, or cannot be played.
var cookbook = map[string]string{
	"simple-task": "", "multi-step": "", "skills": "",
	"multi-reward":     "reward.json: want a number `reward`",            // it has several, and says elsewhere how they are summed
	"dns-blacklisting": "the reference solution does not solve the task", // its image's ENTRYPOINT starts a server
	// Their services stand on python:3.12-slim, which no registry here has.
	"mcp-tools":            "cannot be built",
	"multi-container":      "cannot be built",
	"computer-use-ubuntu":  "cannot be built",
	"simulated-user":       "services.user-server.environment", // a key of the host
	"computer-use-windows": "services.desktop.environment",     // another
}

// Published Harbor tasks come over with the images that their Dockerfiles need, and
// are checked: the oracle solves, doing nothing does not. It wants a checkout of
// Harbor's cookbook (AGON_STRANGERS=DIR, DIR/harbor-cookbook).
func TestPublishedTasks(t *testing.T) {
	top := os.Getenv("AGON_STRANGERS")
	if top == "" {
		t.Skip("NOT RUN: AGON_STRANGERS names no folder with checkouts of others' repositories (harbor-cookbook)")
	}
	source := filepath.Join(top, "harbor-cookbook", "harbor_cookbook", "recipes")
	if _, err := os.Stat(source); err != nil {
		interoptest.Absent(t, "AGON_STRANGERS/harbor-cookbook (github.com/harbor-framework/harbor-cookbook)")
	}
	dir := t.TempDir()
	tasks := filepath.Join(dir, "tasks")
	agon := func(v any, args ...string) {
		t.Helper()
		var errs strings.Builder
		cmd := exec.Command(agonBinary(t), append(args, "--data", filepath.Join(dir, "data"), "-o", "json")...)
		cmd.Stderr = &errs
		out, _ := cmd.Output() // its status says that some did not pass
		if err := json.Unmarshal(out, v); err != nil {
			t.Fatalf("%v: %v\n%s\n%s", args, err, out, errs.String())
		}
	}
	var list []struct {
		Task, Reason string
		OK           bool
	}
	agon(&list, "task", "import", "harbor", source, tasks, "--build", "--from", "ubuntu:24.04=apt:bookworm")
	if len(list) != len(cookbook) {
		t.Errorf("%d tasks, want %d", len(list), len(cookbook))
	}
	for _, x := range list {
		t.Run(x.Task, func(t *testing.T) {
			reason := x.Reason
			if x.OK && reason == "" {
				var checked []struct {
					OK     bool
					Reason string
				}
				agon(&checked, "task", "check", filepath.Join(tasks, x.Task))
				if len(checked) != 1 || checked[0].OK != (checked[0].Reason == "") {
					t.Fatalf("%+v", checked)
				}
				reason = checked[0].Reason
			}
			want, known := cookbook[x.Task]
			if !known || want == "" && reason != "" || !strings.Contains(reason, want) {
				t.Errorf("%q, want %q", reason, want)
			}
			t.Logf("%q", reason)
		})
	}
}
