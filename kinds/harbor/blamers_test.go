package harbor

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/kit/kittest"
)

// blamers are ends that an agent leaves so that reading or judging its work fails: were that taken for the
// validator's fault, a bad run would be played again.
var blamers = []struct{ name, code, why string }{
	{"directories deeper than an interpreter recurses", `[os.mkdir("d") or os.chdir("d") for _ in range(1020)]`, ""},
	{"directories deeper than a path can say", `[os.mkdir("d" * 200) or os.chdir("d" * 200) for _ in range(30)]`, "cannot be laid out"},
	{"the reader of the work is killed", `after("os.kill(-1, 9)")`, ""}, // the reader may be quicker: the work is judged then
	{"the reader of the work is stopped", `after("os.kill(-1, 19)")`, ""},
	{"a full disk", `f = open("/app/full", "wb", 0)` + "\n    while f.write(b'x' * (1 << 20)): pass", "more than"},
	{"names, targets, times, sizes and rights", `os.symlink(b"/app/\xff\xfe", b"/app/link"); os.mkdir(b"/app/\xff"); put("/app/a\nb\t\x01", "x"); os.symlink("a\nb", "/app/c\nd"); put("/app/t", "x"); os.utime("/app/t", ns=(2**62, 2**62)); put("/app/u", "x"); subprocess.run(["touch", "-d", "@9000000000000000000", "/app/u"]); ` +
		"[os.chmod(p, 0) for p in ('/tmp', '/root', '/app')]; open('/app/sparse', 'wb').truncate(1 << 40)", "the verifier's reward is 0"},
}

// Each ends with a score of 0, whose reason is the agent's.
func TestBlamers(t *testing.T) {
	t.Parallel()
	k := withTasks(map[string]string{
		"strict/task.toml": strings.Replace(plainToml, "60.0", "8.0", 1), "strict/instruction.md": "Write 42 to answer.txt.", "strict/environment/Dockerfile": "FROM x\nWORKDIR /app\nCOPY . .\n", "strict/environment/data.txt": "x\n",
		"strict/tests/test.sh": "echo 0 > /logs/verifier/reward.txt\n[ \"$(cat /app/answer.txt)\" = 42 ] && echo 1 > /logs/verifier/reward.txt\n", "strict/solution/solve.sh": "echo 42 > answer.txt\n",
	})
	const head = `
import os, shutil, subprocess

def put(p, text):
    open(p, "w").write(text)

def after(what):
    "Starts what is done over and over once the agent has ended: it would be killed, too."
    loop = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass\nwhile 1:\n try: %s\n except OSError: pass" % what
    subprocess.Popen(["python3", "-c", loop, str(os.getpid())], start_new_session=True)

def agent_main(input):
    try:
        f()
    except OSError as e:
        print("os error", e)
    return 0

def f():
    `
	for _, b := range blamers {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			for _, a := range kittest.PlayAny(t, k, kittest.Files{agentFile: head + b.code + "\n"}) {
				if a.Fault.Ours() || len(a.Scores) != 1 || a.Scores[0].Value != 0 || !strings.Contains(a.Scores[0].Detail, b.why) {
					t.Errorf("%s %s, fault %q: %s, scores %+v", a.Outcome, a.Detail, a.Fault, a.Reason, a.Scores)
				}
			}
		})
	}
}
