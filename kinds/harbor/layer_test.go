package harbor

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

// withLayers is the kind with one task, and a cache of layers of its own.
func withLayers(dir string) kit.Kit {
	k := withTasks(map[string]string{
		"one/task.toml":              plainToml,
		"one/instruction.md":         "Greet.",
		"one/environment/Dockerfile": "FROM x\nWORKDIR /app\nCOPY words.txt .\n",
		"one/environment/words.txt":  "of the task\n",
		"one/tests/test.sh":          "#!/bin/bash\ngrep -q Hello hello.txt && echo 1 > /logs/verifier/reward.txt\n",
		"one/solution/solve.sh":      "echo Hello > hello.txt\n",
	})
	k.New = func(p kit.Parts) kind.Kind { return harbor{rootfs: p.Rootfs, layers: dir} }
	return k
}

// A set-up runs once, sees no task, and what it leaves is there for the agent, which cannot change it.
func TestSetup(t *testing.T) {
	dir := t.TempDir()
	k := withLayers(dir)
	setup := `[ -z "$(ls /app /tests /solution 2>/dev/null)" ] && [ ! -e /app/words.txt ]
mkdir bin; printf '#!/bin/sh\necho "Hello, world!" > hello.txt\n' > bin/greet; chmod 755 bin/greet; ln -s greet bin/again; head -c 16 /dev/urandom | od -An -tx1 > once`
	files := kittest.Files{entryFile: "setup = '''" + setup + "'''\ncommand = 'again; touch /layer/x 2>/dev/null && exit 1; [ -n \"$AGON_LAYER\" ] && cat /layer/once'\n"}
	said := map[string]bool{}
	for range 2 {
		for _, a := range kittest.Play(t, k, files) {
			if a.Outcome != "ok" {
				t.Fatalf("%q %s %s %s: %s", a.Outcome, a.Fault, a.Detail, a.Reason, a.Files[outputFile])
			}
			said[string(a.Files[outputFile])] = true
			if !a.Scores[0].Solved {
				t.Errorf("%+v", a.Scores)
			}
		}
	}
	if len(said) != 1 {
		t.Errorf("the set-up ran %d times", len(said))
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), ".new") {
			t.Errorf("%s was left", filepath.Join(dir, e.Name()))
		}
	}
}

// A set-up that fails is its maker's fault, one that a registry failed is ours.
func TestSetupFails(t *testing.T) {
	k := withLayers(t.TempDir())
	fails := kittest.Files{entryFile: "setup = 'echo why >&2; exit 3'\ncommand = 'true'\n"}
	for _, a := range kittest.Play(t, k, fails) {
		if a.Outcome != "setup" || a.Fault != agon.FaultAgent || a.Detail != "the set-up ended with status 3: why" || string(a.Files[setupFile]) != "why\n" {
			t.Fatalf("%q %s %q %s", a.Outcome, a.Fault, a.Detail, a.Files[setupFile])
		}
	}
	t.Setenv("NPM_CONFIG_REGISTRY", "http://127.0.0.1:1")
	for _, a := range kittest.PlayAny(t, k, fails) {
		if a.Fault != agon.FaultValidator || !strings.Contains(a.Reason, "npm") {
			t.Fatalf("%q %s %q", a.Outcome, a.Fault, a.Reason)
		}
	}
}

// An arena that runs no set-ups refuses them at the door.
func TestSetupOff(t *testing.T) {
	for _, text := range []string{"setup = 'true'\ncommand = 'true'\n", "agent = 'a.b:C'\n"} {
		setupOption(t, kittest.Files{entryFile: text}.FS())
	}
}

func setupOption(t *testing.T, files fs.FS) {
	t.Helper()
	for option, want := range map[string]int{"": 1, setupOff: 1, setupRegistries: 0} {
		found, err := harbor{}.Check(t.Context(), &agon.Arena{Options: map[string]string{optionSetup: option}}, files)
		if err != nil || len(found) != want {
			t.Errorf("%q: %v %v", option, found, err)
		}
	}
}
