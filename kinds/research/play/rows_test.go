package play

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/research/surface"
)

// Rows 47 to 56 of the feature table, in real boxes. Artifacts and held-out
// rows (54 to 56) have their own files too.

// edit changes lines of a task's description.
func edit(toml string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(toml, pairs[i]) {
			panic("no " + pairs[i])
		}
		toml = strings.Replace(toml, pairs[i], pairs[i+1], 1)
	}
	return toml
}

// One replay each: what the base is, what the patch adds, what must come.
func TestRows(t *testing.T) {
	const (
		noFile  = "result_path = \"out/result.json\"\n"
		cmd     = "benchmark_command = \"python3 bench.py\"\n"
		budget  = "time_budget_seconds = 20"
		program = `import subprocess, sys
exec(open("submission/run.py").read())
`
	)
	runTask := edit(oneTask, noFile, "")
	runBase := map[string]string{"bench.py": program, "submission/run.py": "print('score=1.0')\n"}
	run := func(code string) string {
		return "--- a/submission/run.py\n+++ b/submission/run.py\n@@ -1 +1," + fmt.Sprint(strings.Count(code, "\n")+1) + " @@\n-print('score=1.0')\n+" + strings.ReplaceAll(code, "\n", "\n+") + "\n"
	}
	gated := oneTask + "[gate]\nmetric = \"loss\"\ndirection = \"minimize\"\nbound = 2.7\nseeds = 3\n"
	series := func(values string) map[string]string {
		return with(oneBase, "bench.py", "import os\nos.makedirs('out', exist_ok=True)\nv = open('submission/score.txt').read()\nopen('out/result.json', 'w').write('{\"metrics\": {\"score\": ' + v + '}, \"series\": {\"loss\": "+values+"}}')\n")
	}
	setup := func(code string) map[string]string {
		return with(oneBase, "setup.sh", code, "data/big.txt", strings.Repeat("x", 1000))
	}
	setupTask := edit(oneTask, cmd, "setup_command = \"sh setup.sh\"\n"+cmd)
	for _, c := range []struct {
		name    string
		toml    string
		base    map[string]string
		patch   string
		status  string
		reason  string
		outcome string
		notes   string
		score   float64
		log     string // must be in the log
		never   string // must not be in it
	}{
		{
			name: "47 host environment absent, hidden environment redacted", toml: runTask,
			base:  with(runBase, "private", "[benchmark_env]\nHIDDEN_TOKEN = \"s3cr3t-value\"\n"),
			patch: run("import os\nprint(sorted(os.environ.items()))\nprint('score=2.5')"), status: StatusAccepted, score: 2.5,
			log: "('HIDDEN_TOKEN', '[REDACTED]')", never: "host-only-value",
		},
		{
			name: "48 the metric is read before redaction", toml: runTask, base: with(runBase, "private", "[benchmark_env]\nPIN = \"1234\"\n"),
			patch: run("print('score=0.1234')"), status: StatusAccepted, score: 0.1234, log: "score=0.[REDACTED]",
		},
		{name: "49 the last match counts", toml: runTask, base: runBase, patch: run("print('SCORE: 9')\nprint('{\"score\": 3.5}')"), status: StatusAccepted, score: 3.5},
		{name: "49 nan at the end", toml: runTask, base: runBase, patch: run("print('score=9')\nprint('score=nan')"), status: StatusError, outcome: OutcomeNoMetric, notes: "not a finite number"},
		{name: "49 infinite", toml: runTask, base: runBase, patch: run("print('score=1e999')"), status: StatusError, outcome: OutcomeNoMetric, notes: "not a finite number"},
		{name: "49 no metric", toml: runTask, base: runBase, patch: run("print('fine')"), status: StatusError, outcome: OutcomeNoMetric, notes: "does not have the metric"},
		{name: "49 no result file", toml: oneTask, base: with(oneBase, "bench.py", "print('score=1')"), patch: scorePatch("2"), status: StatusError, outcome: OutcomeNoMetric, notes: "left no result file"},
		{name: "49 an old result file of the base", toml: oneTask, base: with(oneBase, "bench.py", "print(1)", "out/result.json", `{"score": 9}`), patch: scorePatch("2"), status: StatusError, outcome: OutcomeNoMetric, notes: "left no result file"},
		{name: "49 a link as result file", toml: oneTask, base: with(oneBase, "bench.py", "import os\nos.makedirs('out')\nopen('x','w').write('{\"score\":9}')\nos.symlink('../x','out/result.json')"), patch: scorePatch("2"), status: StatusError, outcome: OutcomeNoMetric, notes: "not a regular file"},
		{name: "49 over 10 MiB", toml: oneTask, base: with(oneBase, "bench.py", "import os\nos.makedirs('out')\nopen('out/result.json','w').write('{\"score\": 9}' + ' ' * (10 << 20))"), patch: scorePatch("2"), status: StatusError, outcome: OutcomeNoMetric, notes: "10485760 bytes"},
		{name: "gate reached", toml: gated, base: series("[2.6, 2.59, 2.61]"), patch: scorePatch("2"), status: StatusAccepted, score: 2},
		{name: "gate missed by chance", toml: gated, base: series("[2.0, 2.8, 2.9]"), patch: scorePatch("2"), status: StatusRejected, reason: RejectedGate, outcome: agon.OutcomeOK, notes: "a mean of 2.56667 over 3 seeds"},
		{name: "gate missed", toml: gated, base: series("[2.8, 2.81, 2.82]"), patch: scorePatch("2"), status: StatusRejected, reason: RejectedGate, outcome: agon.OutcomeOK},
		{name: "gate with one seed", toml: gated, base: series("[2.0]"), patch: scorePatch("2"), status: StatusError, outcome: OutcomeNoMetric, notes: "1 values, the task wants one for each of 3 seeds"},
		{name: "gate of what is no number", toml: gated, base: series("[2.0, 2.0, null]"), patch: scorePatch("2"), status: StatusError, outcome: OutcomeNoMetric, notes: "value 2 is not a number"},
		{name: "gate of NaN", toml: gated, base: series("[2.0, 2.0, NaN]"), patch: scorePatch("2"), status: StatusError, outcome: OutcomeNoMetric, notes: "finite numbers"},
		{name: "gate without values", toml: gated, base: oneBase, patch: scorePatch("2"), status: StatusError, outcome: OutcomeNoMetric, notes: "it is missing"},
		{name: "50 the task rejects", toml: runTask, base: runBase, patch: run("print('validator_rejection=too_slow')\nsys.exit(1)"), status: StatusRejected, reason: "too_slow", outcome: agon.OutcomeOK},
		{name: "50 a mark does not replace the result file", toml: oneTask, base: with(oneBase, "bench.py", "print('validator_rejection=x')\nraise SystemExit(1)"), patch: scorePatch("2"), status: StatusError, outcome: OutcomeNoMetric},
		{name: "50 failing without a mark", toml: runTask, base: runBase, patch: run("print('score=2')\nsys.exit(3)"), status: StatusError, outcome: OutcomeBenchmark, notes: "status 3"},
		{
			name: "51 timeout with a tree of processes", toml: edit(runTask, budget, "time_budget_seconds = 1"), base: runBase,
			patch:  run("import os\nif os.fork() == 0:\n    os.setsid()\n    subprocess.run(['sleep', '98767'])\nsubprocess.run(['sleep', '98767'])"),
			status: StatusError, outcome: agon.OutcomeTimeout, notes: "time budget",
		},
		{name: "52 the box", toml: runTask, base: runBase, patch: run(boxProbe), status: StatusAccepted, score: 6, log: "root read-only"},
		{name: "53 setup edits the benchmark", toml: setupTask, base: setup("echo 'print(9)' > bench.py"), patch: scorePatch("2"), status: StatusRejected, reason: "protected_paths_changed", outcome: agon.OutcomeOK, notes: "bench.py"},
		{name: "53 setup deletes a protected file", toml: setupTask, base: setup("rm data/big.txt"), patch: scorePatch("2"), status: StatusRejected, reason: "protected_paths_changed", outcome: agon.OutcomeOK, notes: "data/big.txt"},
		{name: "53 setup makes a file executable", toml: setupTask, base: setup("chmod +x bench.py"), patch: scorePatch("2"), status: StatusRejected, reason: "protected_paths_changed", outcome: agon.OutcomeOK, notes: "bench.py"},
		{name: "53 setup puts a link for a directory", toml: setupTask, base: setup("cp -r data /workspace/copy && rm -r data && ln -s copy data"), patch: scorePatch("2"), status: StatusRejected, reason: "protected_paths_changed", outcome: agon.OutcomeOK, notes: "data/big.txt"},
		{name: "53 setup plants bytecode", toml: setupTask, base: setup("mkdir __pycache__ && echo x > __pycache__/json.cpython-311.pyc"), patch: scorePatch("2"), status: StatusRejected, reason: "unexpected_files", outcome: agon.OutcomeOK, notes: "json.cpython-311.pyc"},
		{name: "53 setup plants a module where none is expected", toml: edit(setupTask, cmd, cmd+"setup_writes = [\"build/**\"]\n"), base: setup("mkdir build && touch build/ok json.py"), patch: scorePatch("2"), status: StatusRejected, reason: "unexpected_files", outcome: agon.OutcomeOK, notes: "json.py"},
		{
			name: "53 setup plants a module beside the benchmark", toml: setupTask, base: setup("mkdir json && echo x=1 > json/__init__.py"),
			patch: scorePatch("2"), status: StatusRejected, reason: "unexpected_files", outcome: agon.OutcomeOK, notes: "json/__init__.py",
		},
		{name: "53 an honest setup", toml: setupTask, base: setup("mkdir -p build && echo 1 > build/ok && (sleep 1; echo 'print(9)' > bench.py) & sleep 0"), patch: scorePatch("2"), status: StatusAccepted, score: 2},
		{name: "53 setup fails", toml: setupTask, base: setup("exit 7"), patch: scorePatch("2"), status: StatusError, outcome: OutcomeSetup, notes: "status 7"},
		{
			name: "56 hidden data is the benchmark's only", toml: edit(runTask, cmd, "setup_command = \"sh setup.sh\"\n"+cmd),
			base: with(runBase, "hidden/answer.txt", "42\n",
				"setup.sh", "ls /agon/hidden 2>/dev/null && exit 9; env | grep -q AGON_HIDDEN && exit 8; grep -r . /agon 2>/dev/null | grep 42 && exit 7; exit 0\n",
				"bench.py", "import os\nprint('score=' + open(os.environ['AGON_HIDDEN'] + '/answer.txt').read())\n"),
			patch: run("pass"), status: StatusAccepted, score: 42,
		},
		{name: "21 a rename header", toml: oneTask, base: oneBase, patch: "diff --git a/submission/score.txt b/submission/score.txt\nsimilarity index 100%\nrename from bench.py\nrename to submission/x\n", status: StatusRejected, reason: surface.CodeForbidden, outcome: agon.OutcomeOK},
		{name: "20 outside", toml: oneTask, base: oneBase, patch: newFile("json.py", "x"), status: StatusRejected, reason: surface.CodeDisallowed, outcome: agon.OutcomeOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.task(c.toml, c.base)
			rec, obs := w.play(w.submission(c.patch, Claim{}), w.run())
			log := string(rec.Files[LogFile])
			outcome := c.outcome
			if outcome == "" {
				outcome = agon.OutcomeOK
			}
			if obs.Status != c.status || obs.Reason != c.reason || rec.Outcome != outcome || !strings.Contains(obs.Notes, c.notes) {
				t.Fatalf("%s %q (%s) %q, want %s %q (%s) %q\n%s", obs.Status, obs.Reason, rec.Outcome, obs.Notes, c.status, c.reason, outcome, c.notes, log)
			}
			if c.status == StatusAccepted && obs.Metrics["score"] != c.score {
				t.Errorf("score %v, want %v\n%s", obs.Metrics["score"], c.score, log)
			}
			if !strings.Contains(log, c.log) {
				t.Errorf("the log does not have %q:\n%s", c.log, log)
			}
			if c.never != "" && strings.Contains(log, c.never) {
				t.Errorf("the log has %q:\n%s", c.never, log)
			}
			for _, b := range w.boxes {
				if !b.End().Ended && !b.End().Closed {
					t.Error("a box is still open")
				}
			}
			if strings.Contains(c.patch, "98767") {
				noProcess(t, "98767")
			}
		})
	}
}

// boxProbe counts what a box must not allow.
const boxProbe = `import os, socket
n = 0
n += os.getuid() != 0
n += [l.split()[1] for l in open('/proc/self/status') if l.startswith('CapEff')] == ['0' * 16]
for place in ('/etc/x', '/usr/x'):
    try:
        open(place, 'w')
    except OSError:
        n += 1
print('root read-only')
try:
    socket.create_connection(('1.1.1.1', 53), 2)
except OSError:
    n += 1
try:
    x = [os.fork() or os._exit(0 * __import__('time').sleep(3)) for _ in range(500)]
except OSError:
    n += 1
print('score=%d' % n)
os.kill(0, 0)`

// noProcess fails if any process of this machine has word among its arguments.
func noProcess(t *testing.T, word string) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(list) == 0 {
		t.Fatal("no /proc", err)
	}
	for _, p := range list {
		b, err := os.ReadFile(p)
		if err == nil && strings.Contains(string(b), "\x00"+word) {
			t.Errorf("process %s is left: %q", p, b)
		}
	}
}

func TestParseResultFile(t *testing.T) {
	for _, c := range []struct {
		in   string
		want float64
		err  string
	}{
		{`{"metric_name": "score", "metric_value": 2}`, 2, ""},
		{`{"metrics": {"score": 3, "x": 1}}`, 3, ""},
		{`{"score": -1.5e-3}`, -0.0015, ""},
		{`{"metric_name": "score", "metric_value": 1, "metrics": {"score": 2}, "score": 3}`, 1, ""},
		{`{"metric_name": "other", "metric_value": 1, "score": 3}`, 3, ""},
		{`{"score": NaN}`, 0, "finite numbers"},
		{`{"score": Infinity}`, 0, "finite numbers"},
		{`{"score": 1e999}`, 0, "not a finite number"},
		{`{"score": null}`, 0, "not a number"},
		{`{"score": [1]}`, 0, "not a number"},
		{`{"score": "1"}`, 0, "not a number"},
		{`{"score": true}`, 0, "not a number"},
		{`{"metrics": [1]}`, 0, "not an object"},
		{`{"metrics": {"score": null}, "score": 1}`, 0, "not a number"},
		{`[1]`, 0, "not a JSON object"},
		{`null`, 0, "not a JSON object"},
		{`{"score": 1} x`, 0, "not a JSON object"},
		{``, 0, "not a JSON object"},
		{"{\"score\": 1, \"\xff\": 2}", 0, "UTF-8"},
		{`{"x": 1}`, 0, "does not have the metric"},
	} {
		m, err := parseResultFile([]byte(c.in), "score")
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %q", c.in, err, c.err)
			}
			continue
		}
		if err != nil || m["score"] != c.want {
			t.Errorf("%s: %v %v", c.in, m, err)
		}
	}
}

func FuzzParseResult(f *testing.F) {
	f.Add([]byte(`{"metrics": {"score": 3}}`), []byte("score=1"))
	f.Add([]byte(`{"score": 1e308}`), []byte("x\nscore: -1.5e+3.\n"))
	f.Fuzz(func(t *testing.T, file, text []byte) {
		for _, parse := range []func([]byte, string) (map[string]float64, error){parseResultFile, parseResultText} {
			for _, b := range [][]byte{file, text} {
				m, err := parse(b, "score")
				if err == nil {
					for _, x := range m {
						if x != x || x-x != 0 {
							t.Fatalf("%q gives %v", b, x)
						}
					}
				}
			}
		}
	})
}

func TestRedact(t *testing.T) {
	got := string(redact([]byte("a longer-secret and longer and abc\nline two"), []string{"abc", "longer", "longer-secret", "line two\nother"}))
	if got != "a [REDACTED] and [REDACTED] and abc\n[REDACTED]" {
		t.Errorf("%q", got)
	}
}

// A duel has pairs on the same seeds; where an incumbent gives no number the base
// stands in for it, so that a program which stops working keeps no seat by that.
func TestDuel(t *testing.T) {
	w := newWorld(t)
	w.task(oneTask, oneBase)
	rival := w.submission(scorePatch("1.5"), Claim{})
	r := w.run()
	r.Rival = &agon.Rival{Submission: "old", Digest: rival.Digest, Round: 1, Pairs: 2}
	rec, obs := w.play(w.submission(scorePatch("2.5"), Claim{}), r)
	if len(obs.Duel) != 2 || obs.Duel[0].Challenger != 2.5 || obs.Duel[1].Incumbent != 1.5 || obs.Duel[0].Seed == obs.Duel[1].Seed {
		t.Fatalf("%+v\n%s", obs, rec.Files[LogFile])
	}
	scores, err := w.kind.Judge(t.Context(), w, r, rec)
	if err != nil {
		t.Fatal(err)
	}
	if again, ok := scores[0].Metrics[MetricDuelAgain]; !ok || again != 2.5 || obs.Seed != obs.Duel[0].Seed {
		t.Errorf("the challenger on the first pair's seed once more: %v, %+v", again, obs)
	}
	if p := PairsOf(scores[0].Metrics); len(p) != 2 || p[1].Challenger != 2.5 || p[1].Incumbent != 1.5 {
		t.Errorf("pairs %+v", p)
	}
	broken := w.submission(scorePatch("words"), Claim{})
	r.Rival.Digest = broken.Digest
	rec, obs = w.play(w.submission(scorePatch("2.5"), Claim{}), r)
	if obs.Status != StatusAccepted || len(obs.Duel) != 2 || obs.Duel[0].Challenger != 2.5 || obs.Duel[0].Incumbent != 1 || obs.Duel[1].Incumbent != 1 {
		t.Errorf("%+v\n%s", obs, rec.Files[LogFile])
	}
	r.Rival.Digest = "sha256:none"
	if _, err := w.kind.Play(t.Context(), w, w.submission(scorePatch("2.5"), Claim{}), r); err == nil || errors.As(err, new(*ended)) {
		t.Errorf("an incumbent that is not there: %v", err)
	}
}

// A challenger that ends itself in a pair, say because it was slow, loses that pair:
// what it has won and lost before it counts, and the duel goes on.
func TestDuelOfAChallengerThatEndsItself(t *testing.T) {
	w := newWorld(t)
	tk := w.task(oneTask, with(oneBase, "bench.py", strings.Replace(oneBench, "score = float(open(\"submission/score.txt\").read())",
		"score, *moods = open(\"submission/score.txt\").read().split()\nscore = float(score)\nif os.environ[\"AGON_SEED\"] in moods: raise SystemExit(3)", 1)))
	rival := w.submission(scorePatch("1.5"), Claim{})
	r := w.run()
	r.Rival = &agon.Rival{Submission: "old", Digest: rival.Digest, Round: 1, Pairs: 3}
	rec, obs := w.play(w.submission(scorePatch(fmt.Sprintf("2.5 %d", DuelSeed(tk.Digest, r, 1))), Claim{}), r)
	if obs.Status != StatusAccepted || len(obs.Duel) != 3 {
		t.Fatalf("%+v\n%s", obs, rec.Files[LogFile])
	}
	for i, want := range []float64{2.5, 1.5, 2.5} {
		if p := obs.Duel[i]; p.Challenger != want || p.Incumbent != 1.5 {
			t.Errorf("pair %d: %+v", i, p)
		}
	}
}
