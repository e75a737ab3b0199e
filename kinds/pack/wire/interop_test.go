//go:build interop

package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/interoptest"
)

// observer is one version of the field's CLI in an environment of its own,
// which scripts/interop.sh made, over a filled arena.
type observer struct {
	t    *testing.T
	bin  string
	url  string
	home string
}

func newObserver(t *testing.T, env, version string, url string) *observer {
	t.Helper()
	o := &observer{t: t, bin: interoptest.File(t, env, "bin", "trajrl"), url: url, home: t.TempDir()}
	if out, code := o.piped("--version"); code != 0 || !strings.Contains(out, version) {
		t.Fatalf("this is %q, not %s", out, version)
	}
	return o
}

func (o *observer) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.home, "TRAJRL_BASE_URL=" + o.url, "COLUMNS=220", "LINES=60", "TERM=xterm", "LC_ALL=C.UTF-8", "PYTHONUTF8=1", "NO_PROXY=*"}
}

func (o *observer) run(cmd *exec.Cmd) (string, int) {
	o.t.Helper()
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = o.env(), &out, &errs, 20*time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		o.t.Fatalf("%v: %v", cmd.Args, err)
	}
	if cmd.ProcessState.ExitCode() != 0 && errs.Len() > 0 {
		o.t.Logf("%v: %s", cmd.Args, errs.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// piped runs a command whose output is not a terminal.
func (o *observer) piped(args ...string) (string, int) {
	o.t.Helper()
	return o.run(exec.Command(o.bin, args...))
}

// terminal runs a command on a pseudo terminal.
func (o *observer) terminal(args ...string) (string, int) {
	o.t.Helper()
	line := "'" + o.bin + "'"
	for _, a := range args {
		line += " '" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return o.run(exec.Command("script", "-qec", "stty cols 220; "+line, "/dev/null"))
}

// json runs a command piped and reads what it printed.
func (o *observer) json(args ...string) map[string]any {
	o.t.Helper()
	out, code := o.piped(args...)
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		o.t.Fatalf("trajrl %v: exit %d, %.500s", args, code, out)
	}
	return v
}

// same runs a command piped: it must print exactly what the server serves.
func (o *observer) same(path string, args ...string) {
	o.t.Helper()
	got, want := o.json(args...), fetch(o.t, o.url+path)
	if !reflect.DeepEqual(got, want) {
		o.t.Errorf("trajrl %v: it prints\n%v\nthe server has\n%v", args, got, want)
	}
}

// shows runs a command on a terminal: every word must be on it, and no traceback.
func (o *observer) shows(words []string, args ...string) {
	o.t.Helper()
	out, code := o.terminal(args...)
	out = colours.ReplaceAllString(out, "")
	if code != 0 || strings.Contains(out, "Traceback") {
		o.t.Errorf("trajrl %v on a terminal: exit %d\n%s", args, code, out)
		return
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			o.t.Errorf("trajrl %v on a terminal: %q is not in\n%s", args, w, out)
		}
	}
}

var colours = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

func fetch(t *testing.T, url string) map[string]any {
	t.Helper()
	r, err := reader.Get(url)
	must(t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	must(t, err)
	var v map[string]any
	must(t, json.Unmarshal(b, &v))
	return v
}

// reader reads beside the CLI.
var reader = &http.Client{Timeout: 30 * time.Second}

func short(hotkey string) string { return hotkey[:6] + "…" + hotkey[len(hotkey)-4:] }

func serving(t *testing.T) (*world, map[byte]string, string) {
	t.Helper()
	w, hashes := filled(t)
	// Validators of the field report and upload beside agon's own.
	w.post('w', "/api/validators/heartbeat", "trajectoryrl-heartbeat", map[string]any{"version": "0.4.10", "llm_model": "glm-5", "bench_version": "4.0"})
	w.skip(time.Minute)
	ctype, body := w.form('v', "trajectoryrl-logs", archive(t, member{name: "validator.log", content: "a cycle that was uploaded\n"}), map[string]string{"eval_id": "20260304_0506_w8"})
	if status, raw := w.do("POST", "/api/validators/logs/cycle", ctype, body); status != 200 {
		t.Fatalf("upload: %d %s", status, raw)
	}
	s := httptest.NewServer(w.h)
	t.Cleanup(s.Close)
	return w, hashes, s.URL
}

// The seed's CLI: every command and option, piped and on a terminal.
func TestInteropSeed(t *testing.T) {
	w, hashes, url := serving(t)
	o := newObserver(t, "trajrl-seed", "0.2.1", url)
	v, a, b, d := w.ss58('v'), w.ss58('a'), w.ss58('b'), w.ss58('d')
	got := o.json("status")
	if want := map[string]any{"validators": fetch(t, url+"/api/validators"), "submissions": fetch(t, url+"/api/submissions")}; !reflect.DeepEqual(got, want) {
		t.Errorf("status: %v", got)
	}
	o.same("/api/validators", "validators")
	o.same("/api/validators", "validators", "--json", "--base-url", url)
	o.same("/api/scores/by-validator?validator="+v, "scores", v)
	o.same("/api/scores/by-validator?validator="+v, "scores", "-u", "1")
	first := rows(t, fetch(t, url+"/api/validators"), "validators")[0]["hotkey"].(string)
	o.same("/api/scores/by-validator?validator="+first, "scores")
	for _, m := range []string{a, b, d, w.ss58('f')} {
		o.same("/api/miners/"+m, "miner", m)
	}
	o.same("/api/miners/"+b, "miner", "-u", "4")
	o.same("/api/miners/"+b+"/packs/"+hashes['b'], "download", b)
	o.same("/api/miners/"+a+"/packs/"+hashes['a'], "download", a, hashes['a'])
	o.same("/api/miners/"+b+"/packs/"+hashes['b'], "download", "-u", "4")
	o.same("/api/submissions", "submissions")
	if failed := rows(t, o.json("submissions", "--failed"), "submissions"); len(failed) != 3 {
		t.Errorf("failed: %v", failed)
	}
	o.same("/api/eval-logs?limit=50", "logs")
	o.same("/api/eval-logs?limit=2&type=cycle", "logs", "-t", "cycle", "-l", "2")
	o.same("/api/eval-logs?limit=50&miner="+b+"&pack_hash="+hashes['b'], "logs", "-m", b, "--pack-hash", hashes['b'])
	o.same("/api/eval-logs?limit=50&validator="+v+"&eval_id=20260304_0506_w8", "logs", "-v", v, "--eval-id", "20260304_0506_w8")
	o.same("/api/eval-logs?limit=50&validator="+v, "logs", "-v", "1") // a uid, as its help says
	if log := o.json("logs", "--show", "-v", v); log["text"] != "a cycle that was uploaded\n" {
		t.Errorf("the newest cycle of v: %v", log)
	}
	if log := o.json("logs", "--show", "-v", v, "--eval-id", "20260304_0000_w20516"); !strings.Contains(log["text"].(string), "gate=PASS") {
		t.Errorf("agon's own cycle: %v", log)
	}
	for _, args := range [][]string{{"logs", "--show", "-v", "nobody"}, {"miner", w.ss58('x')}, {"scores", "-u", "99"}, {"logs", "-t", "other"}} {
		if out, code := o.piped(args...); code == 0 {
			t.Errorf("%v: exit 0, %s", args, out)
		}
	}
	o.shows([]string{"Network Status", "2 total", "2 passed, 3 failed", "glm-5", "scripted"}, "status")
	o.shows([]string{"Validators (2)", "Hotkey", "UID", "Version", "LLM Model", "Last Eval", "Last Seen", short(v), "0.4.10"}, "validators")
	o.shows([]string{"Scores from " + short(v), "Miner", "Qual", "Cost", "Score", "Weight", "Scenarios", "Rejected", short(a)}, "scores", v)
	o.shows([]string{"(UID 4)", "Rank: 1", "Winner: yes", "Confidence: high", "Scenario Summary", "Avg Cost", "stand_up", "Validator Reports", "Reported", "Recent Submissions", "passed"}, "miner", b)
	o.shows([]string{"Ban Record: 1 failed packs", "integrity_failed"}, "miner", d)
	o.shows([]string{"Status: passed", "(UID 4)", "2/2 validators", "Best Cost: $0.02", "Scenario", "inbox_triage"}, "download", b)
	o.shows([]string{"Submissions (5)", "Pack Hash", "Status", "Reason", "Submitted", "passed"}, "submissions")
	o.shows([]string{"Failed Submissions", short(d)}, "submissions", "--failed")
	o.shows([]string{"Eval Logs (", "Eval ID", "Type", "GCS URL", "Created", "cycle", "miner"}, "logs")
	o.shows([]string{"Cycle Log", "a cycle that was uploaded"}, "logs", "--show", "-v", v)
	o.shows([]string{"Cycle Log", "gate="}, "logs", "-s", "-v", v, "--eval-id", "20260304_0000_w20516")
}

// The newer CLI: every command and option, piped and on a terminal.
func TestInteropNewer(t *testing.T) {
	w, hashes, url := serving(t)
	o := newObserver(t, "trajrl-newer", "2.2.0", url)
	v, b, f := w.ss58('v'), w.ss58('b'), w.ss58('f')
	o.same("/api/challenge/state", "challenge")
	got := o.json("winner", "--history", "2")
	if want := map[string]any{"current": fetch(t, url+"/api/v2/winner/current"), "history": fetch(t, url+"/api/winner/history?limit=2")}; !reflect.DeepEqual(got, want) {
		t.Errorf("winner: %v", got)
	}
	o.json("winner", "--history", "0")
	o.same("/api/queue", "queue")
	o.same("/api/queue?limit=1", "queue", "-l", "1", "--eligible-only")
	o.same("/api/validators", "validators", "--detail")
	o.same("/api/miners/"+b, "miner", b)
	o.same("/api/miners/"+b, "miner", "-u", "4")
	o.same("/api/miners/"+b+"/packs/"+hashes['b'], "pack", b, hashes['b'])
	o.same("/api/submissions", "submissions")
	if failed := rows(t, o.json("submissions", "--failed"), "submissions"); len(failed) != 3 {
		t.Errorf("failed: %v", failed)
	}
	o.same("/api/eval-logs?limit=3&type=miner&miner="+b, "logs", "-m", b, "-t", "miner", "-l", "3")
	o.same("/api/eval-logs?limit=50&validator="+v, "logs", "-V", v)
	if log := o.json("logs", "--show", "-t", "cycle", "-V", v); log["text"] != "a cycle that was uploaded\n" {
		t.Errorf("cycle: %v", log)
	}
	log := o.json("logs", "--show", "-t", "miner", "--pack-hash", hashes['b'])
	if m, _ := log["metadata"].(map[string]any); m["final_score"] != 1.0 || !has(names(rows(t, log, "members"), "name"), "validator.log") {
		t.Errorf("miner's log: %v", log)
	}
	to := filepath.Join(o.home, "dump")
	if d := o.json("logs", "--dump-to", to, "-t", "miner", "--pack-hash", hashes['b']); d["extracted_to"] != to {
		t.Errorf("dump: %v", d)
	}
	for _, name := range []string{"validator.log", "metadata.json", "miner.log"} {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Errorf("dump: %v", err)
		}
	}

	o.shows([]string{"Live Challenge", "Epoch: 6", "pending", short(f), "Margin: 0.1"}, "challenge")
	o.shows([]string{"Current Winner (Seated)", "UID 4", short(b), "Seated since epoch 2", "winner_held", "Winner History", "Changed", "Recorded"}, "winner")
	o.shows([]string{"Pending Eval Queue (1)", "Submission", "Eligible", short(f)}, "queue")
	o.shows([]string{"Eligible Now (1)"}, "queue", "--eligible-only")
	o.shows([]string{"Validators (2)", "Stake", "19,999", "Last Seen"}, "validators")
	o.shows([]string{"Validators — Detail (2)", "Bench", "Weights", "pack-1+checks-1"}, "validators", "--detail")
	o.shows([]string{"(UID 4)", "Winner: yes", "Scenario Summary", "Validator Reports", "Recent Submissions"}, "miner", b)
	o.shows([]string{"Status: passed", "2/2 validators", "Scenario"}, "pack", b, hashes['b'])
	o.shows([]string{"Submissions (5)", "Reason"}, "submissions")
	o.shows([]string{"Eval Logs (", "cycle", "miner"}, "logs")
	o.shows([]string{"a cycle that was uploaded"}, "logs", "--show", "-t", "cycle", "-V", v)
	o.shows([]string{"validator.log"}, "logs", "--show", "-t", "miner", "--pack-hash", hashes['b'])
	o.shows([]string{"Extracted to"}, "logs", "--dump-to", filepath.Join(o.home, "dump2"))
	o.shows([]string{"Subnet Analysis", "Throughput", "Competition Health", "Score Distribution", "Per-Scenario", "Challenger Packs", "Miner Pool", "Validator Sync", "Recent Winner Changes", "llm_calls=24", "eval logs for top"}, "analyze", "--deep")
	o.shows([]string{"Per-Scenario — stand_up"}, "analyze", "--epochs", "5", "--scenario", "stand_up", "--no-compare")
	if out, code := o.piped("analyze", "--last", "48"); code != 0 || !strings.Contains(out, "Throughput") {
		t.Errorf("analyze piped: %d %s", code, out)
	}
}

// The newest CLI, which has no skills and twelve commands more: every command
// and option, piped and on a terminal.
func TestInteropNewest(t *testing.T) {
	w, hashes, url := serving(t)
	o := newObserver(t, "trajrl-newest", "3.0.0", url)
	v, a, b, f := w.ss58('v'), w.ss58('a'), w.ss58('b'), w.ss58('f')
	for path, args := range map[string][]string{
		"/api/challenge/state": {"challenge"}, "/api/queue": {"queue"}, "/api/queue?limit=1": {"queue", "-l", "1", "--eligible-only"}, "/api/validators": {"validators"},
		"/api/miners/" + b: {"miner", "-u", "4"}, "/api/miners/" + b + "/packs/" + hashes['b']: {"pack", b, hashes['b']}, "/api/submissions": {"submissions"},
		"/api/eval-logs?limit=50&validator=" + v: {"logs", "-V", v}, "/api/stats": {"stats"}, "/api/epoch/2": {"epoch", "2"}, "/api/v2/leaderboard": {"leaderboard"},
		"/api/v2/scores/recent?limit=100": {"events"}, "/api/v2/scores/recent?limit=2&since=2026-03-04T00:00:00Z": {"events", "-l", "2", "--since", "2026-03-04T00:00:00Z"},
		"/api/scores/by-validator?validator=" + v: {"scores", "-u", "1"}, "/api/v2/validators/progress": {"progress"}, "/api/validator/" + v + "/activity?limit=50": {"activity", "-u", "1"},
		"/api/validator/" + v + "/activity?limit=1": {"activity", v, "--limit", "1"}, "/api/winners": {"winners"}, "/api/nodes/status": {"nodes"}, "/api/nodes/status?type=miner": {"nodes", "-t", "miner"},
		"/api/prices": {"prices"}, "/api/bench": {"bench"}, "/api/bench?spec=1001": {"bench", "--spec", "1001"}, "/api/bench/miner-scores?hotkey=" + b + "&spec=1001": {"bench-miner", b},
		"/api/bench/miner-scores?spec=1001&hotkey=" + a: {"bench-miner", a, "--spec", "1001"},
	} {
		o.same(path, args...)
	}
	got := o.json("winner", "--history", "2")
	if want := map[string]any{"current": fetch(t, url+"/api/v2/winner/current"), "history": fetch(t, url+"/api/winner/history?limit=2")}; !reflect.DeepEqual(got, want) {
		t.Errorf("winner: %v", got)
	}
	if failed := rows(t, o.json("submissions", "--failed"), "submissions"); len(failed) != 3 {
		t.Errorf("failed: %v", failed)
	}
	if log := o.json("logs", "--show", "-t", "cycle", "-V", v); log["text"] != "a cycle that was uploaded\n" {
		t.Errorf("cycle: %v", log)
	}
	for _, args := range [][]string{{"miner"}, {"miner", w.ss58('x')}, {"epoch", "999"}, {"events", "--since", "yesterday"}, {"nodes", "-t", "other"}, {"bench", "--spec", "0"}, {"scores", "-u", "99"}} {
		if out, code := o.piped(args...); code == 0 {
			t.Errorf("%v: exit 0, %s", args, out)
		}
	}

	o.shows([]string{"Live Challenge", "Epoch: 6", "pending", short(f)}, "challenge")
	o.shows([]string{"Current Winner (Seated)", "UID 4", "Winner History"}, "winner")
	o.shows([]string{"Pending Eval Queue (1)", short(f)}, "queue")
	o.shows([]string{"Validators — Detail (2)", "Bench", "Weights"}, "validators", "--detail")
	o.shows([]string{"(UID 4)", "Winner: yes", "Scenario Summary", "Validator Reports"}, "miner", b)
	o.shows([]string{"Status: passed", "Scenario"}, "pack", b, hashes['b'])
	o.shows([]string{"Submissions (5)"}, "submissions")
	o.shows([]string{"Eval Logs (", "cycle", "miner"}, "logs")
	o.shows([]string{"validator.log"}, "logs", "--show", "-t", "miner", "--pack-hash", hashes['b'])
	o.shows([]string{"Extracted to"}, "logs", "--dump-to", filepath.Join(o.home, "dump"))
	o.shows([]string{"Subnet Analysis", "Throughput", "Per-Scenario", "Validator Sync", "Recent Winner Changes"}, "analyze", "--deep")
	o.shows([]string{"Network stats", "Total reports", "8", "Total LLM calls", "24", "Updated"}, "stats")
	o.shows([]string{"Epoch #2", "outcome=winner_replaced", "status=finalized", "Per-validator submissions (2)", short(v)}, "epoch", "2")
	o.shows([]string{"Winner " + short(b), "since_epoch=2", "In-progress epoch #6", "Leaderboard (6)", "Last score", "Queue", "★"}, "leaderboard")
	o.shows([]string{"Recent eval events (", "Validator", "Miner", "Rejected", short(v), short(b)}, "events")
	o.shows([]string{"Scores from " + short(v)}, "scores", v)
	o.shows([]string{"Current block: 50000", "Validator progress in current cycle (2)", "Done", "Total", short(v)}, "progress")
	o.shows([]string{"Validator activity (", "Epoch", "Participated", "✓"}, "activity", v)
	o.shows([]string{"Current spec: 1001", "Takeovers: 2", "Winner takeover history", "Defeated score", short(a), short(b)}, "winners")
	o.shows([]string{"Nodes (", "validator", "miner", "Validators: 2/2 online"}, "nodes")
	o.shows([]string{"Prices", "TAO / USD", "—"}, "prices")
	o.shows([]string{"Spec: 1001", "Bench scenarios (3)", "Best holder", "stand_up", short(b)}, "bench")
	o.shows([]string{"Best scores for " + short(b), "@ spec 1001", "inbox_triage", "1.00"}, "bench-miner", b)
}

// Skills into a home of their own; the second sync finds everything up to date.
func TestInteropSkills(t *testing.T) {
	_, hashes, url := serving(t)
	o := newObserver(t, "trajrl-newer", "2.2.0", url)
	must(t, os.MkdirAll(filepath.Join(o.home, ".claude", "skills"), 0o700))
	o.same("/api/skills", "skills", "list")
	o.same("/api/skills?tag=seated&agent=codex&limit=1&page=1", "skills", "list", "--tag", "seated", "--agent", "codex", "-l", "1", "-p", "1")
	o.same("/api/skills?q=inbox", "skills", "search", "inbox")
	slug := rows(t, fetch(t, url+"/api/skills"), "skills")[0]["slug"].(string)
	if !strings.HasSuffix(slug, hashes['b'][:8]) {
		t.Fatalf("the first skill is %s", slug)
	}
	o.same("/api/skills/"+slug, "skills", "show", slug)
	add := o.json("skills", "add", slug)
	if res := rows(t, add, "results"); len(res) != 1 || res[0]["status"] != "installed" {
		t.Fatalf("add: %v", add)
	}
	content, err := os.ReadFile(filepath.Join(o.home, ".claude", "skills", slug, "SKILL.md"))
	must(t, err)
	if string(content) != fetch(t, url+"/api/skills/"+slug)["content"] {
		t.Error("the installed skill is another")
	}
	if res := rows(t, o.json("skills", "add", slug), "results"); res[0]["status"] != "skipped" {
		t.Errorf("again: %v", res)
	}
	if res := rows(t, o.json("skills", "add", slug, "--force", "--agent", "claude-code"), "results"); res[0]["status"] != "updated" {
		t.Errorf("forced: %v", res)
	}
	o.json("skills", "add", slug, "--target", filepath.Join(o.home, "elsewhere"))
	for _, args := range [][]string{{"skills", "sync", "--dry-run"}, {"skills", "sync"}, {"skills", "sync"}} {
		if res := rows(t, o.json(args...), "synced"); len(res) != 1 || res[0]["status"] != "up-to-date" {
			t.Errorf("%v: %v", args, res)
		}
	}
	if out, code := o.piped("skills", "show", "no-such"); code != 1 || !strings.Contains(out, `"error"`) {
		t.Errorf("no such skill: %d %s", code, out)
	}
	o.shows([]string{"Skills (2)", "Slug", "Tags", "Version", slug}, "skills", "list")
	o.shows([]string{slug}, "skills", "search", "inbox")
	o.shows([]string{"skill", slug, "policy-pack", "claude-code"}, "skills", "show", slug)
	o.shows([]string{slug}, "skills", "show", slug, "--raw")
	o.shows([]string{"Install results (1)"}, "skills", "add", slug)
	o.shows([]string{"up-to-date"}, "skills", "sync")
}
