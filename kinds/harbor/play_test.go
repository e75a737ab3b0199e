package harbor

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

func TestMain(m *testing.M) { kittest.Main(m) }

// The arena, its tasks, the samples and the template fit each other.
func TestWhole(t *testing.T) { kittest.Whole(t, Kit()) }

func TestConformance(t *testing.T) {
	c := kittest.Case(t, Kit(), "solver")
	code := func(s string) fs.FS { return kittest.Files{agentFile: s}.FS() }
	const ok = "def agent_main(input):\n    return 0\n"
	c.Bad = []fs.FS{
		kittest.Files{}.FS(),
		code("x = 1\n"),
		code("\xff\xfe"),
		code(strings.Repeat("#", maxAgentBytes) + ok),
		kittest.Files{agentFile: ok, "more.py": "x"}.FS(),
		kittest.Files{"agon.toml": "command = ''\n"}.FS(),
		kittest.Files{"agon.toml": "command = 'x'\nbuild = 'make'\n"}.FS(),
		kittest.Files{"agon.toml": "command = 'x'\nagent = 'a:B'\n"}.FS(),
		kittest.Files{"agon.toml": "agent = 'a'\n"}.FS(),
		kittest.Files{"agon.toml": "command = \n"}.FS(),
		kittest.Files{"agon.toml": "command = 'x'\n[env]\n\"A=B\" = 'c'\n"}.FS(),
		kittest.Files{"agon.toml": "command = 'x'\n", "big": strings.Repeat("x", maxEntryBytes)}.FS(),
	}
	c.Behave = func(_ context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
		switch {
		case cmd.Untrusted && cmd.Args[0] == "bash":
			b.SetFile(rewardText, []byte("1\n"))
		case cmd.Untrusted:
			b.SetFile(logsDir+"/.returned-", nil)
		}
		return sandbox.Exit{}
	}
	kindtest.Run(t, c)
}

// The sample that asks a model is the template but for its first words, so that what plays the one plays the other.
func TestShellIsTheTemplate(t *testing.T) {
	code := func(f kittest.Files) string {
		_, code, _ := strings.Cut(f[agentFile], "\nimport json\n")
		return code
	}
	if shell := code(kittest.Sample(t, Kit(), "shell")); shell == "" || shell != code(kittest.Template(t, Kit())) {
		t.Errorf("the sample is another program than the template:\n%s", shell)
	}
}

// Agents in real boxes: the solver wins, the forger gains nothing, and each mistake has its outcome.
func TestPlay(t *testing.T) {
	for _, c := range []struct {
		name, outcome string
		files         kittest.Files
		value         float64
	}{
		{"solver", "ok", kittest.Sample(t, Kit(), "solver"), 1},
		{"forger", "ok", kittest.Sample(t, Kit(), "forger"), 0},
		{"template", "ok", kittest.Template(t, Kit()), 1}, // on the script of the sample that is it
		{"nothing", "ok", kittest.Files{agentFile: "async def agent_main(input):\n    pass\n"}, 0},
		{"raises", "raised", kittest.Files{agentFile: "def agent_main(input):\n    raise ValueError(\"mine\")\n"}, 0},
		{"directory", "ok", kittest.Files{
			"agon.toml": "command = 'exec sh $AGON_AGENT_DIR/start.sh'\n[env]\nCOLOUR = 'red'\n", agentFile: kittest.Sample(t, Kit(), "solver")[agentFile],
			"start.sh": "[ \"$COLOUR\" = red ] || exit 1\n[ \"$(cat)\" = \"$(printf '%s' \"$AGON_INSTRUCTION\")\" ] || exit 2\nPYTHONPATH=$AGON_AGENT_DIR exec python3 -c 'import os, agent; agent.agent_main({\"instruction\": os.environ[\"AGON_INSTRUCTION\"]})'\n",
		}, 1},
		{"a command that fails", "raised", kittest.Files{"agon.toml": "command = 'exit 3'\n"}, 0},
		{"exits", "exited", kittest.Files{agentFile: "import os\ndef agent_main(input):\n    os._exit(0)\n"}, 0},
		{"too much", "limit", kittest.Files{agentFile: "import os\ndef agent_main(input):\n    open('big', 'wb').write(os.urandom(40 << 20))\n"}, 0},
		{"looks for the tests", "ok", kittest.Files{agentFile: lookingForTests}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, a := range kittest.Play(t, Kit(), c.files) {
				if a.Outcome != c.outcome || len(a.Scores) != 1 || a.Scores[0].Value != c.value {
					t.Errorf("outcome %q %s %s, scores %+v, printed:\n%s", a.Outcome, a.Fault, a.Reason, a.Scores, a.Files[outputFile])
				}
				if c.name == "raises" && a.Detail != "ValueError: mine" {
					t.Errorf("raised: %q, want the last line of the traceback", a.Detail)
				}
			}
		})
	}
}

// lookingForTests does the work only where it finds the tests or the solution.
const lookingForTests = `
import os, subprocess

def agent_main(input):
    for top in ("/tests", "/solution", "/logs", "/agon", "/root", "/tmp"):
        for path, _, names in os.walk(top):
            for name in names:
                if name in ("solve.sh", "test.sh"):
                    subprocess.run(["bash", path + "/" + name])
`

// What build tools keep to be faster next time does not count as work, however much it is; other
// files of the home are.
func TestCachesAreNoWork(t *testing.T) {
	files := map[string]string{
		"one/task.toml": plainToml, "one/instruction.md": "x", "one/environment/Dockerfile": "FROM x\nWORKDIR /app\n", "one/solution/solve.sh": "true\n",
		"one/tests/test.sh": "[ -f /root/.cache/mine ] && [ ! -e /root/.cache/go-build/big ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
	}
	agent := `
import os

def agent_main(input):
    os.makedirs("/root/.cache/go-build")
    with open("/root/.cache/go-build/big", "wb") as f:
        f.truncate(64 << 20)
    open("/root/.cache/mine", "w").close()
`
	for _, a := range kittest.Play(t, withTasks(files), kittest.Files{agentFile: agent}) {
		if a.Outcome != "ok" || len(a.Scores) != 1 || a.Scores[0].Value != 1 {
			t.Errorf("%q %s %s, scores %+v", a.Outcome, a.Detail, a.Reason, a.Scores)
		}
	}
}

func TestDockerfile(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string // of the recipe, or of the error
	}{
		{"FROM x\nWORKDIR /app\nCOPY a.txt .\n", "/app a.txt> into"},
		{"FROM x\nWORKDIR /app\nCOPY a b/ data/\n", "/app a>data into b>data into"},
		{"FROM x\nWORKDIR /srv/x\nENV A=b \\\n  C='d'\nCOPY a ./b\n", "/srv/x A=b C=d a>b"},
		{"FROM x\nCOPY . /app\n", " .> into"},
		{"FROM x\nRUN make\n", "line 2: RUN cannot be done"},
		{"FROM x\n\n# c\nWORKDIR /usr/lib\n", "line 4: WORKDIR"},
		{"COPY a /etc/passwd\n", "only into the work directory"},
		{"COPY ../a .\n", "below environment/"},
		{"COPY --from=x a .\n", "want files"},
		{"COPY a\n", "want files"},
		{"COPY *.txt .\n", "below environment/"},
		{"ENV A\n", "NAME=VALUE"},
		{"WORKDIR /app \\\n", "ends in the middle"},
	} {
		r, err := parseDockerfile([]byte(tt.text))
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = r.dir
			for _, e := range r.env {
				got += " " + e
			}
			for _, c := range r.copies {
				got += " " + c.from + ">" + c.at
				if c.into {
					got += " into"
				}
			}
		}
		if err == nil && got != tt.want || err != nil && !strings.Contains(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}

func FuzzEntry(f *testing.F) {
	f.Add([]byte("command = 'x'\n[env]\nA = 'b'\n"))
	f.Add([]byte("agent = 'a.b:C'\n[agent_args]\nd = [1, {e = 'f'}]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := parseEntry(b); err == nil && ((strings.TrimSpace(e.Command) == "") == (e.Agent == "") || len(e.Env) > maxEnv) {
			t.Fatalf("%+v", e)
		}
	})
}

func FuzzDockerfile(f *testing.F) {
	f.Add([]byte("FROM x\nWORKDIR /app\nCOPY a b/ ./\nENV A=b\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := parseDockerfile(b)
		if err != nil {
			return
		}
		if r.dir != "" && !workable(r.dir) {
			t.Fatalf("work in %q", r.dir)
		}
		for _, c := range r.copies {
			if !fs.ValidPath(c.from) || c.at != "" && !fs.ValidPath(c.at) {
				t.Fatalf("%+v", c)
			}
		}
	})
}

func FuzzReward(f *testing.F) {
	f.Add([]byte("1\n"))
	f.Add([]byte(`{"reward": 0.5}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (float64, map[string]float64, error){parseText, parseJSON} {
			if v, _, err := parse(b); err == nil && !(v >= 0 && v <= 1) {
				t.Fatal(v)
			}
		}
	})
}

func TestReward(t *testing.T) {
	for text, want := range map[string]float64{"1": 1, " 0.25\n": 0.25, "NaN": -1, "2": -1, "-0.1": -1, "one": -1, "": -1, "1 0": -1, "1e-3": 0.001} {
		if v, _, err := parseText([]byte(text)); (err != nil) != (want < 0) || err == nil && v != want {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
	for text, want := range map[string]float64{`{"reward":1}`: 1, `{"score":0.5}`: 0.5, `{"a":1,"b":0}`: -1, `{"reward":"1"}`: -1, `[]`: -1, `{"reward":7}`: -1, `{"a":1,"reward":0.5}`: 0.5} {
		if v, _, err := parseJSON([]byte(text)); (err != nil) != (want < 0) || err == nil && v != want {
			t.Errorf("%q: %v, %v", text, v, err)
		}
	}
}

// A directory of Harbor's is one of the kind's tasks, and says what is wrong with it.
func TestAdopts(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("instruction.md", "do it")
	write("task.toml", "schema_version = \"1.4\"\n[task]\nname = \"x/y\"\n[environment]\nallow_internet = false\ndocker_image = \"x:latest\"\n")
	write("environment/Dockerfile", "FROM x\nRUN make\n")
	tk, err := task.LoadDir(dir, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	if adopts(tk) {
		t.Error("adopted without a verifier")
	}
	write("tests/test.sh", "echo 1 > /logs/verifier/reward.txt\n")
	if tk, err = task.LoadDir(dir, "a/b"); err != nil || !adopts(tk) {
		t.Fatalf("%v", err)
	}
	if err := checkTask(tk); err == nil || !strings.Contains(err.Error(), "line 2: RUN") {
		t.Errorf("%v", err)
	}
}
