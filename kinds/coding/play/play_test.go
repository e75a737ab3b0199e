package play

import (
	"strings"
	"testing"

	"github.com/agon-arena/agon"
)

// fixed is agent text that returns the right patch.
const fixed = "def agent_main(input):\n    return '''" + calcFix + "'''\n"

// The behaviours of an agent, each with the outcome it must lead to.
func TestPlayBehaviours(t *testing.T) {
	k, d := newKind(t)
	body := func(lines ...string) string {
		return "import os, sys, time, subprocess\ndef agent_main(input):\n    " + strings.Join(lines, "\n    ") + "\n"
	}
	tests := []struct {
		name, agent string
		outcome     string
		detail      string // part of Record.Detail
		file        string // part of stdout.txt
	}{
		{name: "string", agent: fixed, outcome: agon.OutcomeOK},
		{name: "dict", agent: strings.Replace(fixed, "return '''", "return {'patch': '''", 1)[:len(fixed)+len("{'patch': ")-1] + "}\n", outcome: agon.OutcomeOK},
		{name: "empty string", agent: body("return ''"), outcome: agon.OutcomeEmpty},
		{name: "blank patch", agent: body(`return {"patch": " \n\n"}`), outcome: agon.OutcomeEmpty},
		{name: "none", agent: body("return None"), outcome: agon.OutcomeInvalid, detail: "NoneType"},
		{name: "wrong type", agent: body("return 42"), outcome: agon.OutcomeInvalid, detail: "int"},
		{name: "bytes", agent: body("return b'x'"), outcome: agon.OutcomeInvalid},
		{name: "dict without patch", agent: body("return {}"), outcome: agon.OutcomeInvalid, detail: "patch"},
		{name: "dict with none", agent: body("return {'patch': None}"), outcome: agon.OutcomeInvalid},
		{name: "coroutine", agent: "async def f(): return ''\ndef agent_main(input): return f()\n", outcome: agon.OutcomeInvalid, detail: "coroutine"},
		{name: "raises", agent: body("raise ValueError('no \\x1b[31mred')"), outcome: agon.OutcomeRaised, detail: "ValueError"},
		{name: "forged provider error", agent: body("import urllib.error", "raise urllib.error.HTTPError('http://proxy', 503, 'down', None, None)"), outcome: agon.OutcomeRaised, detail: "503"},
		{name: "sys.exit", agent: body("sys.exit(0)"), outcome: agon.OutcomeExited, detail: "SystemExit"},
		{name: "os._exit", agent: body("os._exit(0)"), outcome: agon.OutcomeExited},
		{name: "exit on load", agent: "raise SystemExit(3)\n" + fixed, outcome: agon.OutcomeExited},
		{name: "syntax error", agent: "def agent_main(input): return ''\nx = = 1\n", outcome: agon.OutcomeLoadError, detail: "SyntaxError"},
		{name: "import error", agent: "import no_such_module\n" + fixed, outcome: agon.OutcomeLoadError, detail: "no_such_module"},
		{name: "missing function", agent: "def main(x): pass\n", outcome: agon.OutcomeLoadError, detail: "agent_main"},
		{name: "killed by itself", agent: body("os.kill(os.getpid(), 9)"), outcome: agon.OutcomeKilled},
		{name: "kills what it sees", agent: body("for p in os.listdir('/proc'):", "    if p.isdigit() and int(p) != os.getpid():", "        try: os.kill(int(p), 9)", "        except OSError: pass", "os.kill(os.getpid(), 9)"), outcome: agon.OutcomeKilled},
		{name: "forks and leaves", agent: body("if os.fork() == 0:", "    os.setsid()", "    time.sleep(60)", "    os._exit(0)", "return '''"+calcFix+"'''"), outcome: agon.OutcomeOK},
		{name: "thread left", agent: "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n" + fixed, outcome: agon.OutcomeOK},
		{name: "50 MB of output", agent: body("for _ in range(800): sys.stdout.write('x' * 65536)", "return ''"), outcome: agon.OutcomeOutputLimit},
		{name: "prints", agent: body("print('hello')", "return ''"), outcome: agon.OutcomeEmpty, file: "hello"},
		{name: "writes files", agent: body("open('/repo/new.txt', 'w').write('x')", "open('/sandbox/x', 'w').write('x')", "open('/tmp/y', 'w').write('y')", "return subprocess.run(['git', 'status', '--porcelain'], capture_output=True, text=True).stdout and ''"), outcome: agon.OutcomeEmpty},
		{name: "agent file is read-only", agent: body("open(__file__, 'a').write('x')", "return ''"), outcome: agon.OutcomeRaised},
		{name: "huge patch", agent: body("return 'x' * (9 << 20)"), outcome: agon.OutcomeBadPatch},
		{name: "patch over the limit", agent: body("return 'x' * (2 << 20)"), outcome: agon.OutcomeBadPatch, detail: "at most"},
		{name: "no diff", agent: body("return 'I fixed it'"), outcome: agon.OutcomeBadPatch, detail: "no diff"},
		{name: "does not apply", agent: strings.Replace(fixed, "-    return a - b", "-    return a * b", 1), outcome: agon.OutcomeBadPatch, detail: "git apply"},
		{name: "escapes", agent: strings.ReplaceAll(fixed, "/calc.py", "/../../etc/x"), outcome: agon.OutcomeBadPatch, detail: "leaves the tree"},
		{name: "symlink", agent: body(`return "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n"`), outcome: agon.OutcomeBadPatch, detail: "symbolic"},
		{name: "submodule", agent: body(`return "diff --git a/l b/l\nnew file mode 160000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+Subproject commit 0\n"`), outcome: agon.OutcomeBadPatch, detail: "submodule"},
		{name: "mode trick", agent: body(`return "diff --git a/calc.py b/calc.py\nold mode 100644\nnew mode 104755\n"`), outcome: agon.OutcomeBadPatch, detail: "mode"},
		{name: "result is a link", agent: body("os.symlink('/etc/passwd', '/sandbox/.agon-result')", "os._exit(0)"), outcome: agon.OutcomeBadPatch},
		{name: "result forged", agent: body("open('/sandbox/.agon-result', 'w').write('solved\\n\\nx')", "os._exit(0)"), outcome: agon.OutcomeInvalid},
		{
			name: "sees the contract", outcome: agon.OutcomeEmpty, file: "all there",
			agent: body(
				"assert input == {'problem_statement': 'add is wrong', 'run_id': 'run-1'}, input",
				"assert os.getcwd() == '/repo' and os.path.samefile('/sandbox/repo', '/repo')",
				"assert os.path.samefile('/sandbox/agent.py', __file__)",
				"for k in 'AI_PROXY_URL SANDBOX_PROXY_URL AGENT_TIMEOUT EVALUATION_RUN_ID RUN_ID PYTHONUNBUFFERED HOME PATH LANG OPENAI_BASE_URL OPENAI_API_KEY'.split(): assert os.environ[k], k",
				"assert os.environ['AGENT_TIMEOUT'] == '30' and os.environ['AGON_MODEL'] == 'm1'",
				"git = lambda *a: subprocess.run(('git',) + a, capture_output=True, text=True, check=True).stdout",
				"assert git('log', '--all', '--format=%H%n%s').split() == ['"+baseCommit+"', 'base'], git('log', '--all')",
				"assert git('status', '--porcelain') == '' and 'data.log' in git('ls-files') and os.listdir('.git/hooks') == [] if os.path.isdir('.git/hooks') else True",
				"assert 'import calc' in open('tests/test_calc.py').read() and 'add(2, 3)' not in open('tests/test_calc.py').read()",
				"print('all there')", "return ''"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, d, calcTask(t), tt.agent)
			rec, err := k.Play(t.Context(), e, agon.Submission{Digest: agentDigest}, runSpec())
			if err != nil {
				t.Fatal(err)
			}
			if rec.Outcome != tt.outcome || !strings.Contains(rec.Detail, tt.detail) || !strings.Contains(string(rec.Files[FileStdout]), tt.file) {
				t.Errorf("outcome %q %q, want %q %q\nstdout %.500s\nstderr %.1000s", rec.Outcome, rec.Detail, tt.outcome, tt.detail, rec.Files[FileStdout], rec.Files[FileStderr])
			}
			if strings.ContainsRune(rec.Detail, 0x1b) {
				t.Error("control characters in the detail")
			}
		})
	}
}

// baseCommit is the root commit of calcTask's tree: the same on every machine.
const baseCommit = "c928c9f46dd1562092ef3b8c3e9429d8b2e5aa10"

func TestPlayTimeout(t *testing.T) {
	t.Parallel()
	k, d := newKind(t)
	e := newEnv(t, d, calcTask(t), "import time\ndef agent_main(input):\n    print('x', flush=True)\n    time.sleep(60)\n")
	r := runSpec()
	r.Policy.Agent.WallMS = 1500
	rec, err := k.Play(t.Context(), e, agon.Submission{Digest: agentDigest}, r)
	if err != nil || rec.Outcome != agon.OutcomeTimeout {
		t.Fatalf("%+v, %v", rec, err)
	}
}

// An arena budgets the time of processors, too: waiting costs none of it, and
// several processes share it.
func TestPlayCPUBudget(t *testing.T) {
	t.Parallel()
	k, d := newKind(t)
	e := newEnv(t, d, calcTask(t), "import os\ndef agent_main(input):\n    os.fork(); os.fork()\n    while True: pass\n")
	r := runSpec()
	r.Policy.Agent.WallMS, r.Policy.Agent.CPUMS = 60_000, 1500
	rec, err := k.Play(t.Context(), e, agon.Submission{Digest: agentDigest}, r)
	if err != nil || rec.Outcome != agon.OutcomeTimeout || !strings.Contains(rec.Detail, "cpu limit") {
		t.Fatalf("%+v, %v", rec, err)
	}
}

func TestPlan(t *testing.T) {
	v := agon.View{Arena: agon.Arena{ID: "a", Tasks: []agon.TaskRef{{Key: "x"}, {Key: "y"}}}}
	k := New(Config{})
	p, err := k.Plan(v)
	if err != nil || len(p.Runs) != 2 || p.Done || p.Runs[0].Tasks[0].Key != "x" {
		t.Fatalf("%+v, %v", p, err)
	}
	v.Runs = []agon.Run{{RunSpec: agon.RunSpec{Tasks: v.Arena.Tasks[:1]}, State: agon.RunPlaying}, {RunSpec: agon.RunSpec{Tasks: v.Arena.Tasks[1:]}, State: agon.RunScored}}
	if p, _ = k.Plan(v); len(p.Runs) != 0 || p.Done {
		t.Fatalf("%+v", p)
	}
	v.Runs[0].State = agon.RunFailed
	if p, _ = k.Plan(v); !p.Done {
		t.Fatalf("%+v", p)
	}
}

// What an agent had done when its time was up is kept, and judged by nobody.
func TestPartialPatch(t *testing.T) {
	t.Parallel()
	k, d := newKind(t)
	tk := calcTask(t)
	e := newEnv(t, d, tk, "import time\ndef agent_main(input):\n    open('/repo/calc.py', 'a').write('# half done\\n')\n    open('/repo/new.py', 'w').write('x = 1\\n')\n    time.sleep(60)\n")
	r := runSpec()
	r.Policy.Agent.WallMS = 6000
	rec, err := k.Play(t.Context(), e, agon.Submission{Digest: agentDigest}, r)
	if err != nil {
		t.Fatal(err)
	}
	left := string(rec.Files[FilePartial])
	if rec.Outcome != agon.OutcomeTimeout || rec.Files[FilePatch] != nil || !strings.Contains(left, "+# half done") || !strings.Contains(left, "+x = 1") {
		t.Errorf("%s %s: %q", rec.Outcome, rec.Detail, left)
	}
}
