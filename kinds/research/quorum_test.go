package research_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/research"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/gpu/gputest"
)

// liar replays as it should and reports half of what it saw.
type liar struct{ *kr.Kind }

func (l liar) Judge(ctx context.Context, env kind.Env, r agon.RunSpec, rec agon.Record) ([]agon.Score, error) {
	scores, err := l.Kind.Judge(ctx, env, r, rec)
	for _, s := range scores {
		for name := range s.Metrics {
			if name == kr.MetricObserved || strings.HasPrefix(name, kr.MetricPrefix) || name == kr.MetricDuelAgain || strings.HasPrefix(name, kr.MetricDuelPrefix) && strings.HasSuffix(name, "challenger") {
				s.Metrics[name] /= 2
			}
		}
	}
	return scores, err
}

// playAs is a validator in a process of its own; with AGON_TEST_LIAR it lies.
func playAs(name, url, wallets, data string) error {
	p, err := kit.LoadParty(wallets, name)
	if err != nil {
		return err
	}
	c, err := client.New(url, p.Hotkey)
	if err != nil {
		return err
	}
	o := options(data)
	if os.Getenv("AGON_TEST_CARDS") != "" {
		cards := gputest.NewFake(1, "Fake 1000", 1<<30)
		cards.Nodes[0] = sandbox.DeviceNode{Path: "/dev/full", Major: 1, Minor: 7} // a machine has it
		cards.Shared = nil
		o.Cards = cards
	}
	if os.Getenv("AGON_TEST_LIAR") != "" {
		for i, k := range o.Kits {
			if k.Kind == kr.Name {
				o.Kits[i].New = func(p kit.Parts) kind.Kind { return liar{kr.New(research.ReplayConfig(p.Options, p.Rootfs))} }
			}
		}
	}
	return roles.Validator(context.Background(), o, c, p.Hotkey, nil)
}

// quorumSet writes a task whose number is what the patch says.
func quorumSet(t *testing.T, needs string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"task.toml": "version = \"1.0\"\n[task]\nname = \"research/quorum\"\n[agon]\nkind = \"research\"\n" + needs, "instruction.md": "Make the number smaller.\n",
		"environment/research.toml": `slug = "quorum"
title = "Quorum"
benchmark_command = "python3 -I bench.py"
result_path = "out.json"
allowed_patch_paths = ["src/*.py"]
metric_name = "size"
metric_direction = "minimize"
competition_mode = "standard"
time_budget_seconds = 120
baseline = 100.0
[rules]
agree = 2
replays = 6
absolute = 0.5
`,
		"environment/repo/bench.py": `import json, re, time
time.sleep(0.5)
size = float(re.search(r"size = ([0-9.]+)", open("src/work.py").read())[1])
json.dump({"metrics": {"size": size}}, open("out.json", "w"))
`,
		"environment/repo/src/work.py": "size = 100\n-- old\n",
	} {
		p := filepath.Join(dir, "set", "quorum", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "set")
}

// quorum is a coordinator with validators in processes of their own.
type quorum struct {
	t     *testing.T
	ctx   context.Context
	s     *kit.Server
	arena agon.Arena
	token string
	keys  map[string]*kit.Party
	task  coordinator.TaskView
}

// openQuorum opens a server with one task. Nobody validates yet.
func openQuorum(t *testing.T) *quorum { return openNeeding(t, "") }

// openNeeding is openQuorum with more lines in the task's own file.
func openNeeding(t *testing.T, needs string) *quorum {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	o := options(t.TempDir())
	o.Lease = 5 * time.Second
	f := kit.ArenaFile{ID: "quorum", Kind: kr.Name, Title: "Quorum", Netuid: 4, Licence: "MIT", Sets: []string{quorumSet(t, needs)}, SubmissionsPerColdkey: 50}
	f.Defaults()
	file := filepath.Join(t.TempDir(), "arena.toml")
	text := fmt.Sprintf("id = %q\nkind = %q\ntitle = %q\nnetuid = %d\nsets = [%q]\nsubmissions_per_coldkey = %d\n", f.ID, f.Kind, f.Title, f.Netuid, f.Sets[0], f.SubmissionsPerColdkey)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Arenas = []string{file}
	s, stop, err := roles.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	q := &quorum{t: t, ctx: ctx, s: s, arena: f.Arena(), keys: map[string]*kit.Party{}}
	if q.token, err = research.AdminToken(s); err != nil {
		t.Fatal(err)
	}
	var tasks []coordinator.TaskView
	q.get("/api/v1/tasks", &tasks)
	q.task = tasks[0]
	return q
}

// register makes a Party a member of the subnet.
func (q *quorum) register(name string, validator bool) *kit.Party {
	q.t.Helper()
	p, err := kit.LoadParty(q.s.Data.Path("wallets"), name)
	if err == nil {
		_, err = q.s.EnsureRegistered(q.ctx, q.arena, p)
	}
	if err == nil && validator {
		err = q.s.Ledger.SetValidator(q.ctx, q.arena.Netuid, p.Hotkey.SS58(), true, 1_000_000_000_000)
	}
	if err != nil {
		q.t.Fatal(err)
	}
	q.keys[p.Hotkey.SS58()] = p
	return p
}

// start runs a validator in a process of its own, with its own key and data.
func (q *quorum) start(name string, env ...string) *exec.Cmd {
	q.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		q.t.Fatal(err)
	}
	data := q.t.TempDir()
	if err := os.Chmod(data, 0o755); err != nil { // boxes enter it
		q.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "AGON_TEST_VALIDATOR="+q.s.URL(), "AGON_TEST_WALLETS="+q.s.Data.Path("wallets"), "AGON_TEST_DATA="+data, "AGON_TEST_AS="+name)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		q.t.Fatal(err)
	}
	q.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

func (q *quorum) get(path string, v any) {
	q.t.Helper()
	read(q.t, q.s.URL()+path, v)
}

// until waits for a condition, at most until the test's context ends.
func (q *quorum) until(what string, ok func() bool) {
	q.t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-q.ctx.Done():
			q.t.Fatalf("never: %s", what)
		}
	}
}

// submit enters a patch that makes the number x.
func (q *quorum) submit(name, task string, x float64) string {
	q.t.Helper()
	c := &miner.Client{URL: q.s.URL(), Key: q.register(name, false).Hotkey}
	cl, _, err := c.Claim(q.ctx, task, "", "a try")
	if err != nil {
		q.t.Fatal(err)
	}
	b, err := c.Submit(q.ctx, &miner.Submission{
		ClaimID: cl.ID, BaseRef: "main", Sidecar: miner.Sidecar{Summary: "a try", ClaimedMetrics: json.RawMessage(`{"size": 1}`)},
		Patch: fmt.Sprintf("--- a/src/work.py\n+++ b/src/work.py\n@@ -1,2 +1,2 @@\n-size = 100\n+size = %v\n -- old\n", x),
	})
	if err != nil {
		q.t.Fatal(err)
	}
	var s coordinator.Submission
	if err := json.Unmarshal(b, &s); err != nil {
		q.t.Fatal(err)
	}
	return s.ID
}

func (q *quorum) verifications(id string) map[string]coordinator.Verification {
	var list []coordinator.Verification
	q.get("/api/v1/verifications?submission_id="+id, &list)
	out := map[string]coordinator.Verification{}
	for _, v := range list {
		if !v.Duel {
			out[q.keys[v.Validator].Name] = v
		}
	}
	return out
}

func (q *quorum) submission(id string) (s coordinator.Submission) {
	q.get("/api/v1/submissions/"+id, &s)
	return s
}

// Four validators, each a process with its own key, replay in real boxes over
// HTTP: one is killed and its job is issued again, one lies, is outvoted, and a
// canary takes its voice away.
func TestResearchQuorum(t *testing.T) {
	q := openQuorum(t)
	for _, name := range []string{"victim", "liar", "honest", "other"} {
		q.register(name, true)
	}
	can := q.submit("alice", q.task.ID, 60)
	q.canary(can, 60)
	victim := q.start("victim")
	q.until("the victim has a job", func() bool { return q.verifications(can)["victim"].Status == coordinator.VerificationPending })
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait() // it was killed
	q.start("liar", "AGON_TEST_LIAR=1")
	q.until("the liar has reported", func() bool { return q.verifications(can)["liar"].Counted })
	q.start("honest")
	q.start("other")
	q.until("the canary is decided", func() bool { return q.submission(can).Best != nil })
	got, by := q.submission(can), q.verifications(can)
	if got.Status != "accepted" || got.Observed["size"] != 60 || got.Best.Took || got.Best.Rule != "research.canary" {
		t.Errorf("the canary: %+v %+v", got, got.Best)
	}
	if v := by["liar"]; v.Observed["size"] != 30 || v.Deviation == nil || *v.Deviation != -30 {
		t.Errorf("the liar: %+v", v)
	}
	if by["victim"].Status != coordinator.VerificationExpired || by["honest"].Observed["size"] != 60 || by["other"].Observed["size"] != 60 || by["honest"].Driver == "" {
		t.Errorf("%+v", by)
	}
	var list []coordinator.ValidatorView
	q.get("/api/v1/validators", &list)
	for _, v := range list {
		if want := map[string]float64{"liar": 0.25, "honest": 1, "other": 1}[q.keys[v.Hotkey].Name]; v.Trust != want {
			t.Errorf("%s is trusted %v, want %v", q.keys[v.Hotkey].Name, v.Trust, want)
		}
	}

	next := q.submit("bob", q.task.ID, 50)
	q.until("the next is decided", func() bool { return q.submission(next).Best != nil })
	if got := q.submission(next); got.Status != "accepted" || got.Observed["size"] != 50 || !got.Best.Took {
		t.Errorf("%+v %+v", got, got.Best)
	}
	var records []coordinator.Record
	q.get("/api/v1/tasks/"+q.task.ID+"/records", &records)
	if len(records) != 1 || records[0].Submission != next || coordinator.VerifyRecord(records[0]) != nil {
		t.Fatalf("%+v", records)
	}
	var agree []string
	for _, r := range records[0].Replays {
		if r.Agrees && !r.Duel {
			agree = append(agree, q.keys[r.Validator].Name)
		}
	}
	slices.Sort(agree)
	if !slices.Equal(agree, []string{"honest", "other"}) {
		t.Errorf("the record rests on %q", agree)
	}
}

// canary marks a submission as one of a known number.
func (q *quorum) canary(id string, x float64) {
	q.t.Helper()
	body := fmt.Sprintf(`{"submission_id": %q, "verdict": "accepted", "known_value": %v}`, id, x)
	r, err := http.NewRequestWithContext(q.ctx, http.MethodPost, q.s.URL()+"/api/v1/canaries", strings.NewReader(body))
	if err != nil {
		q.t.Fatal(err)
	}
	r.Header.Set("X-Admin-Token", q.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		q.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		q.t.Fatalf("canary: %s", resp.Status)
	}
}
