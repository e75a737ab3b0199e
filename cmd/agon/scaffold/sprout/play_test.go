package sprout

import (
	"context"
	"io/fs"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

func TestMain(m *testing.M) { kittest.Main(m) }

// The arena, its tasks, the samples and the template fit each other.
func TestWhole(t *testing.T) { kittest.Whole(t, Kit()) }

// The engine's rules hold of this kind: what fails on our side is not a score, what
// an agent does to itself is.
func TestConformance(t *testing.T) {
	c := kittest.Case(t, Kit(), "adder")
	code := func(s string) fs.FS { return kittest.Files{agentFile: s}.FS() }
	const ok = "def agent_main(input):\n    return 0\n"
	c.Bad = []fs.FS{
		kittest.Files{}.FS(),
		code("x = 1\n"),
		code("\xff\xfe"),
		code(strings.Repeat("#", maxAgentBytes) + ok),
		kittest.Files{agentFile: ok, "more.py": "x"}.FS(),
	}
	c.Behave = func(_ context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
		if cmd.Untrusted {
			b.SetFile(result, []byte("42"))
		}
		return sandbox.Exit{}
	}
	kindtest.Run(t, c)
}

// lookingForTheAnswer returns what it finds of the task in its box.
const lookingForTheAnswer = `
import os

def agent_main(input):
    for top in os.listdir("/"):
        if top not in ("proc", "sys", "usr", "lib"):
            for path, _, names in os.walk("/" + top):
                if "answer.json" in names:
                    return int(open(path + "/answer.json").read())
    return 0
`

// Agents in real boxes: the sample wins, and each mistake has its outcome.
func TestPlay(t *testing.T) {
	for _, c := range []struct {
		name, outcome string
		files         kittest.Files
		value         float64
	}{
		{"sample", "ok", kittest.Sample(t, Kit(), "adder"), 1},
		{"wrong", "ok", kittest.Files{agentFile: "def agent_main(input):\n    return 0\n"}, 0},
		{"words", "ok", kittest.Files{agentFile: "def agent_main(input):\n    return 'many'\n"}, 0},
		{"raises", "raised", kittest.Files{agentFile: "def agent_main(input):\n    raise ValueError\n"}, 0},
		{"exits", "invalid", kittest.Files{agentFile: "def agent_main(input):\n    raise SystemExit(0)\n"}, 0},
		{"nothing", "ok", kittest.Files{agentFile: "def agent_main(input):\n    pass\n"}, 0},
		{"looks for the answer", "ok", kittest.Files{agentFile: lookingForTheAnswer}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, a := range kittest.Play(t, Kit(), c.files) {
				if a.Outcome != c.outcome || len(a.Scores) != 1 || a.Scores[0].Value != c.value {
					t.Errorf("outcome %q, scores %+v, printed:\n%s", a.Outcome, a.Scores, a.Files["output.txt"])
				}
			}
		})
	}
}
