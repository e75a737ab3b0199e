package play

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds/coding/canary"
	"github.com/agon-arena/agon/kinds/coding/data"
	"github.com/agon-arena/agon/kinds/coding/door"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
)

// smallTask loads one task that comes with agon and writes it where boxes can see it.
func smallTask(t testing.TB, name string) *task.Task {
	t.Helper()
	tk, err := task.Load(mustSub(t, path.Join("tasks/small", name)), "small/"+name)
	if err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(t.TempDir(), "task")
	if err := task.Materialise(tk, dst); err != nil {
		t.Fatal(err)
	}
	openPath(t, dst)
	if tk, err = task.LoadDir(dst, tk.Key); err != nil {
		t.Fatal(err)
	}
	return tk
}

func mustSub(t testing.TB, dir string) fs.FS {
	t.Helper()
	sub, err := fs.Sub(data.FS, dir)
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// playAndJudge plays a sample on a task as a validator would.
func playAndJudge(t *testing.T, e *testEnv, k *Kind, tk *task.Task) (agon.Record, agon.Score) {
	t.Helper()
	r := runSpec()
	r.Tasks[0].Key = tk.Key
	r.Policy.Agent.WallMS = 60_000
	rec, err := k.Play(t.Context(), e, agon.Submission{Digest: agentDigest}, r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := k.Judge(t.Context(), e, r, rec)
	if err != nil {
		t.Fatal(err)
	}
	return rec, s[0]
}

func sample(t *testing.T, name string) string {
	t.Helper()
	files, err := kit.SampleFiles(data.FS, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(files["agent.py"])
}

// The repair sample mends what a visible test shows to be broken.
func TestRepairSample(t *testing.T) {
	for _, name := range []string{"bank-ledger", "interval-merge", "lru-cache", "pagination", "ring-buffer", "semver"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, d := newKind(t)
			tk := smallTask(t, name)
			if rec, s := playAndJudge(t, newEnv(t, d, tk, sample(t, "repair")), k, tk); !s.Solved {
				t.Errorf("%s %s: %s\n%s\n%s\n%s", rec.Outcome, rec.Detail, s.Detail, rec.Files[FilePatch], rec.Files[FileStdout], rec.Files[FileStderr])
			}
		})
	}
}

// The forger passes every test, and their twins: it gains nothing and is named.
func TestForgerSample(t *testing.T) {
	t.Parallel()
	k, d := newKind(t)
	tk := smallTask(t, "lru-cache")
	rec, s := playAndJudge(t, newEnv(t, d, tk, sample(t, "forger")), k, tk)
	if rec.Outcome != agon.OutcomeOK || s.Value != 0 || s.Solved || !strings.HasPrefix(s.Detail, "forged: ") {
		t.Errorf("%s %s: %+v", rec.Outcome, rec.Detail, s)
	}
}

func TestNopSample(t *testing.T) {
	t.Parallel()
	k, d := newKind(t)
	tk := smallTask(t, "semver")
	if rec, s := playAndJudge(t, newEnv(t, d, tk, sample(t, "nop")), k, tk); rec.Outcome != agon.OutcomeEmpty || s.Value != 0 {
		t.Errorf("%+v %+v", rec, s)
	}
}

// gatewayEnv is a testEnv whose doors lead to a real gateway on the samples' script.
type gatewayEnv struct {
	*testEnv
	g *gateway.Gateway
	s gateway.Session
}

func (e *gatewayEnv) Record(string, string, any) {}

func (e *gatewayEnv) Door(ctx context.Context, key string, listen ...string) ([]sandbox.Door, error) {
	s, err := e.g.Open(ctx, gateway.Policy{
		Run: "run-1", Attempt: 1, Task: key, Payer: "run", Models: []string{"*"},
		Budget: agon.Budget{Micros: 1_000_000, Calls: 50}, Dialects: []string{gateway.DialectOpenAI, door.A0, door.B, door.C},
	}, e)
	if err != nil {
		return nil, err
	}
	e.s = s
	var out []sandbox.Door
	for _, l := range listen {
		out = append(out, sandbox.Door{Listen: l, Target: s.BaseURL(), Header: s.Header()})
	}
	return out, nil
}

// The llm sample works through the gateway: on its script it mends some tasks and leaves others alone.
func TestLLMSample(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse(kit.SampleScript(data.FS, "llm"), "json")
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Upstreams: []provider.Upstream{scripted.New(script)}, Dialects: door.Dialects()})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Stop() })
	t.Run("tasks", func(t *testing.T) {
		for name, solved := range map[string]bool{"interval-merge": true, "lru-cache": true, "pagination": true, "semver": true, "tilemap": true, "url-router": false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				k, d := newKind(t)
				tk := smallTask(t, name)
				e := &gatewayEnv{testEnv: newEnv(t, d, tk, sample(t, "llm")), g: g}
				r := runSpec()
				r.Policy.Models = []string{"scripted"}
				rec, err := k.Play(t.Context(), e, agon.Submission{Digest: agentDigest}, r)
				if err != nil {
					t.Fatal(err)
				}
				s, err := k.Judge(t.Context(), e, r, rec)
				if err != nil || s[0].Solved != solved || !agon.Ordinary(rec.Outcome) {
					t.Errorf("%s %s: %+v %v\n%s\n%s", rec.Outcome, rec.Detail, s, err, rec.Files[FileStdout], rec.Files[FileStderr])
				}
				if n := len(e.s.Receipts()); n < 3 {
					t.Errorf("%d receipts", n)
				}
				e.s.Close()
			})
		}
	})
}

// The binary symbolic-link and CRLF tasks are graded like any other.
func TestOddTasks(t *testing.T) {
	for _, name := range []string{"csv-sniffer", "job-schedule", "release-catalog", "notes-index", "url-router", "template-loops"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tk := smallTask(t, name)
			diff, err := tk.SolutionPatch()
			if err != nil {
				t.Fatal(err)
			}
			if v := judge(t, tk, string(diff)); !v.Solved {
				t.Errorf("oracle: %s", v.Detail)
			}
			if v := judge(t, tk, ""); v.Solved {
				t.Error("nop solves it")
			}
		})
	}
}

// openPath lets other users come to p.
func openPath(t testing.TB, p string) {
	t.Helper()
	for ; p != os.TempDir() && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// A table of answers gives a canary the answer to the task that it looks like: it is
// named, and solves nothing. The canary's own reference solves it.
func TestCanaryNamesTables(t *testing.T) {
	t.Parallel()
	k, d := newKind(t)
	known := smallTask(t, "lru-cache")
	dir := filepath.Join(t.TempDir(), "lru-cache")
	if _, err := canary.Make(known, dir, "seed"); err != nil {
		t.Fatal(err)
	}
	openPath(t, dir)
	tk, err := task.LoadDir(dir, "canaries/lru-cache")
	if err != nil {
		t.Fatal(err)
	}
	diff, err := known.SolutionPatch()
	if err != nil {
		t.Fatal(err)
	}
	table := fmt.Sprintf("TABLE = {%q: %q}\n\ndef agent_main(input):\n    return TABLE.get(input['problem_statement'].strip(), '')\n", strings.TrimSpace(known.Instruction), diff)
	if rec, s := playAndJudge(t, newEnv(t, d, known, table), k, known); !s.Solved {
		t.Errorf("the task itself: %s %s: %+v", rec.Outcome, rec.Detail, s)
	}
	// Tables that ask for something else than the statement: none solves the canary, and a patch that is given is named.
	for name, agent := range map[string]string{
		"by the package's name":    fmt.Sprintf("import os\nPATCH = %q\n\ndef agent_main(input):\n    return PATCH if os.path.isdir('lru') else ''\n", diff),
		"by a piece of the text":   fmt.Sprintf("PATCH = %q\n\ndef agent_main(input):\n    return PATCH if 'drops entries before' in input['problem_statement'] else ''\n", diff),
		"by what the patch is for": fmt.Sprintf("import glob\nPATCH = %q\n\ndef agent_main(input):\n    gone = [l[1:] for l in PATCH.splitlines() if l.startswith('-') and not l.startswith('---')]\n    here = ''.join(open(f).read() for f in glob.glob('**/*.py', recursive=True))\n    return PATCH if any(l in here for l in gone) else ''\n", diff),
		"by hand":                  "def agent_main(input):\n    for line in open('lru/cache.py'):\n        if 'while len(self._index) >= self.capacity' in line: return 'x'\n    return ''\n",
	} {
		rec, s := playAndJudge(t, newEnv(t, d, tk, agent), k, tk)
		if s.Solved || rec.Outcome == agon.OutcomeOK && s.Metrics[MetricByHeart] == 0 {
			t.Errorf("%s: %s %s: %+v", name, rec.Outcome, rec.Detail, s)
		}
		t.Logf("%s: %s, %v lines known", name, rec.Outcome, s.Metrics[MetricByHeart])
	}
	env := newEnv(t, d, tk, table)
	rec, s := playAndJudge(t, env, k, tk)
	// Nothing but an ordinary end is judged.
	if rec.Outcome != agon.OutcomeOK || s.Solved || s.Value != 0 || s.Metrics[MetricByHeart] < canary.MinLines || !strings.HasPrefix(s.Detail, "known by heart: ") || !strings.Contains(s.Detail, "def _shrink(self):") {
		t.Errorf("the table: %s %s: %+v", rec.Outcome, rec.Detail, s)
	}
	if e := strings.Join(env.events, "\n"); !strings.Contains(e, `"known":["`) || !strings.Contains(e, "_shrink") {
		t.Errorf("no evidence: %s", e)
	}
	own, err := tk.SolutionPatch()
	if err != nil {
		t.Fatal(err)
	}
	if v := judge(t, tk, string(own)); !v.Solved {
		t.Errorf("its reference: %s", v.Detail)
	}
	v := &Verdict{Known: []string{"def _shrink(self):", "node = self._order.last()"}}
	if d := v.detail(true); strings.Contains(d, "_shrink") || !strings.HasPrefix(d, "known by heart: 2 lines") {
		t.Error(d)
	}
}
