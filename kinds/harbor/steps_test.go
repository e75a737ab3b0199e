package harbor

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// withTasks is the kit with these tasks in place of its own, by path below the set.
func withTasks(files map[string]string) kit.Kit {
	k := Kit()
	m := fstest.MapFS{}
	for p, text := range files {
		m["tasks/basic/"+p] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	k.Data, k.Samples = m, nil
	return k
}

const plainToml = "schema_version = \"1.4\"\n[task]\nname = \"x/y\"\n[agent]\ntimeout_sec = 60.0\n[verifier]\ntimeout_sec = 60.0\n"

// three is a task of three steps, of which the second builds on what the first left
// and the third is not reached where the second has too small a reward.
func three(strategy string) map[string]string {
	return map[string]string{
		"three/task.toml": "multi_step_reward_strategy = \"" + strategy + "\"\n" + plainToml + `
[environment]
memory_mb = 256
[environment.env]
GREETING = "${GREETING:-hello}"
[environment.healthcheck]
command = "test -d /app && test \"$GREETING\" = hello"
interval_sec = 0.1
[[environment.mcp_servers]]
name = "files"
transport = "stdio"
command = "files-server"
[[steps]]
name = "one"
[[steps]]
name = "two"
min_reward = 0.6
artifacts = ["/logs/artifacts"]
[steps.healthcheck]
command = "test -f set-up"
interval_sec = 0.1
[[steps.verifier.collect]]
command = "echo collected > /logs/artifacts/collected"
[[steps]]
name = "three"
`,
		"three/environment/Dockerfile":      "FROM x\nWORKDIR /app\n",
		"three/steps/one/instruction.md":    "Write one to one.txt.",
		"three/steps/two/instruction.md":    "Write two to two.txt.",
		"three/steps/two/workdir/seed.txt":  "seed\n",
		"three/steps/two/workdir/setup.sh":  "#!/bin/bash\ntouch set-up\n",
		"three/steps/three/instruction.md":  "Write three to three.txt.",
		"three/tests/test.sh":               "#!/bin/bash\nnext=$(cat /tests/name)\nfirst=$(cat /app/one.txt)\nif [ \"$(cat /app/$next.txt)\" = $next ] && [ \"$first\" = one ]; then echo 1; else echo 0.5; fi > /logs/verifier/reward.txt\n",
		"three/steps/one/tests/name":        "one\n",
		"three/steps/two/tests/test.sh":     "#!/bin/bash\n[ -f seed.txt ] && [ -f set-up ] && [ \"$(cat /logs/artifacts/collected)\" = collected ] && [ \"$GREETING\" = hello ] && [ \"$(cat two.txt)\" = two ] && r=1\necho \"{\\\"reward\\\": ${r:-0.5}, \\\"other\\\": 0}\" > /logs/verifier/reward.json\n",
		"three/steps/three/tests/name":      "three\n",
		"three/steps/one/solution/solve.sh": "echo one > one.txt\n", "three/steps/two/solution/solve.sh": "echo two > two.txt\n", "three/steps/three/solution/solve.sh": "echo three > three.txt\n",
	}
}

const doesIt = `
def agent_main(input):
    assert input["mcp_servers"][0]["command"] == "files-server", input
    word = input["instruction"].split()[1]
    if word not in SKIP:
        open(word + ".txt", "w").write(word + "\n")
`

func TestSteps(t *testing.T) {
	for _, c := range []struct {
		strategy, skip string
		value          float64
		detail         string
	}{
		{"mean", "[]", 1, "one: the verifier's reward is 1, two: the verifier's reward is 1, three: the verifier's reward is 1"},
		{"final", `["three"]`, 0.5, ""},
		{"mean", `["two"]`, 0.5, "one: the verifier's reward is 1, two: the verifier's reward is 0.5, later steps were not played: reward is below 0.6"},
	} {
		for _, a := range kittest.Play(t, withTasks(three(c.strategy)), kittest.Files{agentFile: "SKIP = " + c.skip + doesIt}) {
			if a.Outcome != "ok" || len(a.Scores) != 1 || a.Scores[0].Value != c.value || !strings.Contains(a.Scores[0].Detail, c.detail) {
				t.Errorf("%s without %s: %q %s, scores %+v, printed:\n%s", c.strategy, c.skip, a.Outcome, a.Reason, a.Scores, a.Files[outputFile])
			}
		}
	}
}

// Work may stand anywhere; what would reach the verifier's own programs does not.
func TestElsewhere(t *testing.T) {
	k := withTasks(map[string]string{
		"wide/task.toml":              plainToml,
		"wide/instruction.md":         "Do it.",
		"wide/environment/Dockerfile": "FROM x\nWORKDIR /app\nCOPY . .\n",
		"wide/environment/gone.txt":   "x", "wide/environment/stays.txt": "x",
		"wide/tests/test.sh": `#!/bin/bash
ok=1
is() { [ "$($1 2>/dev/null)" = "$2" ] || { ok=0; echo "$1: $($1 2>&1)"; }; }
is "cat /etc/greeting/conf" hello
is "cat /var/lib/thing" var
is "cat /srv/www" srv
is "cat /root/.config/thing" home
is "hello" "hello from tools"
is "cat /app/link" stays
is "cat /tmp/left" tmp
[ -e /app/gone.txt ] && ok=0
[ -x /app/run.sh ] || ok=0
# What must not be here.
for f in /etc/ld.so.preload /etc/python3/evil.py /usr/local/lib/python3.11/dist-packages/evil.pth /app/out /app/far /usr/local/bin/grep; do [ -e $f ] || [ -L $f ] && { ok=0; echo "$f is here"; }; done
is "grep -c x /app/stays.txt" 0
[ "$HOME" = /verifier ] || ok=0
echo $ok > /logs/verifier/reward.txt
`,
		"wide/solution/solve.sh": "true\n",
	})
	src := `
import os, subprocess

def put(p, text, mode=0o644):
    os.makedirs(os.path.dirname(p), exist_ok=True)
    open(p, "w").write(text)
    os.chmod(p, mode)

def agent_main(input):
    put("/etc/greeting/conf", "hello\n")
    put("/var/lib/thing", "var\n")
    put("/srv/www", "srv\n")
    put("/root/.config/thing", "home\n")
    put("/usr/local/bin/hello", "#!/bin/sh\necho hello from tools\n", 0o755)
    put("/app/run.sh", "#!/bin/sh\n", 0o755)
    put("/app/stays.txt", "stays\n")
    put("/tmp/left", "tmp\n")
    os.unlink("/app/gone.txt")
    os.symlink("stays.txt", "/app/link")
    put("/etc/python3/evil.py", "x")
    put("/usr/local/lib/python3.11/dist-packages/evil.pth", "x")
    put("/usr/local/bin/grep", "#!/bin/sh\necho 0\n", 0o755)
    os.symlink("/logs/verifier/reward.txt", "/app/out")
    os.symlink("link/../../logs/verifier", "/app/far")
    put("/etc/ld.so.preload", "")
    for p in ("/usr/bin/evil", "/bin/sh", "/lib/evil"):
        try:
            open(p, "w").write("x")
        except OSError:
            continue
        raise SystemExit("could write " + p)
`
	for _, a := range kittest.Play(t, k, kittest.Files{agentFile: src}) {
		if a.Outcome != "ok" || len(a.Scores) != 1 || a.Scores[0].Value != 1 {
			t.Errorf("%q %s %s, scores %+v, printed:\n%s\nevents %s", a.Outcome, a.Detail, a.Reason, a.Scores, a.Files[outputFile], asJSON(a.Events))
		}
	}
}

func asJSON(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// A program of the contestant that a verifier starts as another user may do what
// it likes with the work, and cannot write the reward.
func TestAsAgent(t *testing.T) {
	k := withTasks(map[string]string{
		"as/task.toml":              plainToml,
		"as/instruction.md":         "Do it.",
		"as/environment/Dockerfile": "FROM x\nWORKDIR /app\n",
		"as/tests/test.sh": `#!/bin/bash
echo hidden > /verifier/secret
echo 0.25 > /logs/verifier/reward.txt
out=$(echo asked | as-agent sh /app/prog with args)
code=$?
[ "$out" = "asked with args 60999" ] && [ $code = 3 ] && [ -f /app/mine ] && [ ! -e /app/stolen ] && echo 1 > /logs/verifier/reward.txt
as-agent sh -c 'kill -9 -1' 2>/dev/null
as-agent true 2>/dev/null || true
`,
		"as/solution/solve.sh": "true\n",
	})
	src := `
PROG = """
touch mine
for f in /logs/verifier/reward.json /logs/verifier/reward.txt /logs/reward; do echo '{"reward": 0.75}' > $f; done
mv /logs/verifier /logs/other
mkdir /logs/verifier
rm -rf /logs/verifier /tests /agon /verifier
cat /verifier/secret > stolen && [ -s stolen ] || rm -f stolen
for p in /proc/[0-9]*; do [ "$p" = /proc/$$ ] || kill -9 ${p#/proc/}; done
read word
echo $word $* $(id -u)
exit 3
"""

def agent_main(input):
    open("prog", "w").write(PROG)
`
	for _, a := range kittest.Play(t, k, kittest.Files{agentFile: src}) {
		if a.Outcome != "ok" || len(a.Scores) != 1 || a.Scores[0].Value != 1 && a.Scores[0].Value != 0.25 {
			t.Errorf("%q %s %s, scores %+v, printed:\n%s\nevents %s", a.Outcome, a.Detail, a.Reason, a.Scores, a.Files[outputFile], asJSON(a.Events))
		}
	}
}

// as-agent returns what its program said and its status, once it has ended.
func TestAsAgentReturns(t *testing.T) {
	k := withTasks(map[string]string{
		"as/task.toml":              plainToml,
		"as/instruction.md":         "Do it.",
		"as/environment/Dockerfile": "FROM x\nWORKDIR /app\n",
		"as/tests/test.sh":          "out=$(as-agent sh -c 'echo said; exit 4')\n[ $? = 4 ] && [ \"$out\" = said ] && echo 1 > /logs/verifier/reward.txt\n",
		"as/solution/solve.sh":      "true\n",
	})
	for _, a := range kittest.Play(t, k, kittest.Files{agentFile: "def agent_main(input):\n    pass\n"}) {
		if len(a.Scores) != 1 || a.Scores[0].Value != 1 {
			t.Errorf("%q %s %s, scores %+v", a.Outcome, a.Detail, a.Reason, a.Scores)
		}
	}
}

// Bad configurations are named by their field.
func TestConfig(t *testing.T) {
	for text, want := range map[string]string{
		"[environment]\nos = \"windows\"":                                                    "environment.os",
		"[environment]\ntpu = {type = \"v4\"}":                                               "environment.tpu",
		"[verifier]\nenvironment_mode = \"separate\"\n[verifier.environment]\ngpus = 1":      "verifier.environment.gpus",
		"[environment]\nmemory = \"2X\"":                                                     "environment.memory",
		"[environment.env]\nKEY = \"${OPENAI_API_KEY}\"":                                     "environment.env.KEY",
		"[environment]\nnetwork_mode = \"some\"":                                             "environment.network_mode",
		"[[environment.mcp_servers]]\nname = \"x\"\ntransport = \"sse\"\nurl = \"http://x\"": "environment.mcp_servers[0].url",
		"[environment.healthcheck]\ncommand = \"\"":                                          "environment.healthcheck.command",
		"[environment.healthcheck]\ncommand = \"x\"\nretries = 1000":                         "environment.healthcheck.retries",
		"multi_step_reward_strategy = \"max\"":                                               "multi_step_reward_strategy",
		"artifacts = [\"/a/../b\"]":                                                          "artifacts[0]",
		"artifacts = [{source = \"/x\", service = \"db\"}]":                                  "artifacts[0]",
		"[[steps]]\nname = \"../x\"":                                                         "steps[0].name",
		"[[steps]]\nname = \"a\"\nmin_reward = \"x\"":                                        "steps[0].min_reward",
		"[[steps]]\nname = \"a\"\n[[steps]]\nname = \"A\"":                                   "steps[1].name",
		"[[verifier.collect]]\ncommand = \"x\"\nservice = \"db\"":                            "verifier.collect[0].service",
		"[verifier]\ntimeout_sec = inf":                                                      "verifier.timeout_sec",
		"[agent\n":                                                                           "task.toml:",
	} {
		fsys := fstest.MapFS{"task.toml": {Data: []byte(text)}, "instruction.md": {Data: []byte("x")}, "tests/test.sh": {Data: []byte("x")}, "steps/a/instruction.md": {Data: []byte("x")}, "steps/A/instruction.md": {Data: []byte("x")}}
		tk, err := task.Load(fsys, "a/b")
		if err == nil {
			err = checkTask(tk)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// A key that a task passes through from the host to its agent is none here.
func TestUnusedKeys(t *testing.T) {
	fsys := fstest.MapFS{"instruction.md": {Data: []byte("x")}, "tests/test.sh": {Data: []byte("x")}, "task.toml": {Data: []byte("[environment.env]\nSOME_API_KEY = \"${SOME_API_KEY}\"\nA = \"b\"\n")}}
	tk, err := task.Load(fsys, "a/b")
	if err == nil {
		err = checkTask(tk)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := confOf(tk)
	if err != nil || strings.Join(environOf(c.Environment.Env), " ") != "A=b SOME_API_KEY=unused" {
		t.Errorf("%v %v", err, c.Environment.Env)
	}
	fsys["task.toml"] = &fstest.MapFile{Data: []byte("[verifier.env]\nSOME_API_KEY = \"${SOME_API_KEY}\"\n")}
	if tk, err = task.Load(fsys, "a/b"); err != nil {
		t.Fatal(err)
	}
	if err := checkTask(tk); err == nil || !strings.Contains(err.Error(), "verifier.env.SOME_API_KEY") {
		t.Errorf("a judge without a key: %v", err)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(three("mean")["three/task.toml"]))
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys := fstest.MapFS{"task.toml": {Data: b}, "instruction.md": {Data: []byte("x")}, "tests/test.sh": {Data: []byte("x")}}
		if tk, err := task.Load(fsys, "a/b"); err == nil {
			_ = checkTask(tk)
		}
	})
}

// Whatever an archive holds, what comes out stands in directories of the task's.
func FuzzCleaned(f *testing.F) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []*tar.Header{
		{Name: "app/x", Typeflag: tar.TypeReg, Mode: 0o644},
		{Name: "app/l", Typeflag: tar.TypeSymlink, Linkname: "x"},
		{Name: "etc/ld.so.preload", Typeflag: tar.TypeReg},
		{Name: "app/d", Typeflag: tar.TypeDir, Mode: 0o755},
	} {
		if err := w.WriteHeader(h); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	s := &stage{dir: "/app", open: []string{"/app", "/etc", "/root", "/tmp"}, root: rootfs.NewRoots("/nowhere", nil).Own()}
	f.Fuzz(func(t *testing.T, b []byte) {
		out, _, err := s.cleaned(b, false)
		if err != nil || len(out) == 0 {
			return
		}
		if _, err := orders(out); err != nil {
			t.Fatal(err)
		}
		r := tar.NewReader(bytes.NewReader(out))
		for {
			h, err := r.Next()
			if err != nil {
				return
			}
			if h.Name == ".agon/deleted" {
				continue
			}
			if !fs.ValidPath(strings.TrimSuffix(h.Name, "/")) || s.dangerous(strings.TrimSuffix(h.Name, "/"), h.Typeflag, h.Linkname) {
				t.Fatalf("%+v", h)
			}
		}
	})
}
