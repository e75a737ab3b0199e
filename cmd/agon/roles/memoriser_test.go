package roles

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

// Agents that hold every answer of the published set, and nothing else. What they
// do not know they answer as the task that is most like it.
const (
	shopMemoriser = `import difflib
import json

from src.agent.agent_interface import create_dialogue_step, execute_tool_call, register_tool

KNOWN = json.loads(%s)
register_tool("recommend_product", lambda product_ids: f"Having recommended: {product_ids}.")
register_tool("terminate", lambda status="success": f"The interaction has been completed with status: {status}")


def agent_main(problem_data):
    query = problem_data["query"]
    near = max(KNOWN, key=lambda q: (q == query, difflib.SequenceMatcher(None, q, query).ratio()))
    done = [execute_tool_call("recommend_product", {"product_ids": KNOWN[near]}), execute_tool_call("terminate", {"status": "success"})]
    return [create_dialogue_step("I know this one.", done, "", query, 1)]
`
	codeMemoriser = `import difflib
import json

KNOWN = json.loads(%s)


def agent_main(input):
    text = json.dumps(input)
    near = max(KNOWN, key=lambda q: (json.dumps(q)[1:-1] in text, difflib.SequenceMatcher(None, q, text).ratio()))
    return {"patch": KNOWN[near]}
`
	shellMemoriser = `import difflib
import json
import subprocess

KNOWN = json.loads(%s)


def agent_main(input):
    text = json.dumps(input)
    near = max(KNOWN, key=lambda q: (json.dumps(q)[1:-1] in text, difflib.SequenceMatcher(None, q, text).ratio()))
    subprocess.run(["bash", "-c", KNOWN[near]])
`
)

// A memoriser of a published set solves all of it, and nothing of the next.
func TestMemoriser(t *testing.T) {
	kits := kinds.All()
	o := kittest.Options(t.TempDir(), kits)
	shop, _ := kits.Of("shopping")
	set := func(seed int64) []*task.Task {
		list, err := shop.Generate(t.Context(), o, kit.GenerateRequest{Tasks: 4, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	small, err := o.ShippedSet("coding", "small")
	if err != nil {
		t.Fatal(err)
	}
	basic, err := o.ShippedSet("harbor", "basic")
	if err != nil {
		t.Fatal(err)
	}
	ids := regexp.MustCompile(`"product_id":\s*"(\d+)"`)
	for _, c := range []struct {
		kind, agent     string
		published, next []*task.Task
		know            func(x *task.Task, dir string) (asked, answer string)
	}{
		{"shopping", shopMemoriser, set(101), set(202), func(_ *task.Task, dir string) (string, string) {
			b := readFile(t, filepath.Join(dir, "tests", "reward.json"))
			var p struct{ Query string }
			if err := json.Unmarshal(b, &p); err != nil {
				t.Fatal(err)
			}
			var list []string
			for _, m := range ids.FindAllSubmatch(b, -1) {
				list = append(list, string(m[1]))
			}
			return p.Query, strings.Join(list, ",")
		}},
		{"coding", codeMemoriser, small[:1], small[1:2], func(x *task.Task, _ string) (string, string) {
			patch, err := x.SolutionPatch()
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(x.Instruction), string(patch)
		}},
		{"harbor", shellMemoriser, basic[:2], basic[2:3], func(x *task.Task, dir string) (string, string) {
			return strings.TrimSpace(x.Instruction), string(readFile(t, filepath.Join(dir, "solution", "solve.sh")))
		}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			known := map[string]string{}
			dirs := map[bool][]string{}
			for next, list := range map[bool][]*task.Task{false: c.published, true: c.next} {
				for i, x := range list {
					dir := filepath.Join(t.TempDir(), fmt.Sprintf("task-%d", i))
					if err := task.Materialise(x, dir); err != nil {
						t.Fatal(err)
					}
					dirs[next] = append(dirs[next], dir)
					if asked, answer := c.know(x, dir); !next {
						known[asked] = answer
					}
				}
			}
			b, err := json.Marshal(known)
			if err != nil {
				t.Fatal(err)
			}
			literal, err := json.Marshal(string(b)) // a string of JSON is one of Python
			if err != nil {
				t.Fatal(err)
			}
			agent := filepath.Join(t.TempDir(), "agent.py")
			if err := os.WriteFile(agent, fmt.Appendf(nil, c.agent, literal), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, next := range []bool{false, true} {
				solved, sum := tried(t, o, agent, dirs[next])
				t.Logf("next %v: %d of %d solved, mean %.3f", next, solved, len(dirs[next]), sum/float64(len(dirs[next])))
				switch {
				case !next && solved < len(dirs[next])-1: // one may have nothing to recommend
					t.Errorf("of what it has memorised it solves %d of %d", solved, len(dirs[next]))
				case next && solved > 0:
					t.Errorf("of the next set it solves %d", solved)
				}
			}
		})
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tried(t *testing.T, o kit.Options, agent string, dirs []string) (solved int, sum float64) {
	t.Helper()
	got, err := Try(t.Context(), o, Trial{File: agent, Tasks: dirs})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range got.Runs {
		if r.Score == nil {
			t.Fatalf("%+v", r)
		}
		if sum += *r.Score; r.Solved {
			solved++
		}
		t.Logf("%s: %v %v %s", r.Task, *r.Score, r.Solved, r.Detail)
	}
	return solved, sum
}
