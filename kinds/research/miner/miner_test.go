package miner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/signing"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/surface"
)

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// baseRepo is a checkout with what breaks naive clients: CRLF, attributes that
// ask for other line ends, text that is not UTF-8, names outside ASCII.
func baseRepo(t *testing.T) (dir, sha string) {
	dir = t.TempDir()
	git(t, dir, "init", "-q", "-b", "main")
	write(t, dir, "src/crlf.txt", "one\r\ntwo\r\nthree\r\n")
	write(t, dir, "src/latin.txt", "caf\xe9\nline\n")
	write(t, dir, "src/bin", "\x00\x01\x02")
	write(t, dir, "src/gone.py", "x\n")
	write(t, dir, "src/\u00e9t\u00e9 \"q\".py", "a\n")
	write(t, dir, "bench.py", "b\n")
	git(t, dir, "-c", "core.autocrlf=false", "add", "-A")
	git(t, dir, "commit", "-q", "-m", "base")
	return dir, git(t, dir, "rev-parse", "HEAD")
}

var task = kr.Task{AllowedPatchPaths: []string{"src/**"}, ResultPath: "last_run.json"}

// Rows 28-29: what is changed arrives byte for byte, whatever git is told.
func TestPatchIsByteExact(t *testing.T) {
	dir, base := baseRepo(t)
	tree, err := BaseTree(context.Background(), dir, base)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"src/crlf.txt": "one\r\nTWO\r\nthree\r\nno end", "src/latin.txt": "caf\xe9\nli\xf1e\n", "src/bin": "\x00\x01\x02\x03\xff", "src/\u00e9t\u00e9 \"q\".py": "b\n",
		"src/new/\u65e5\u672c.py": "print('new')\r\n", "src/-- dash": "-- a\n++ b\n", "src/empty.py": "",
	}
	for name, text := range want {
		write(t, dir, name, text)
	}
	if err := os.Remove(filepath.Join(dir, "src/gone.py")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, ".gitattributes", "* text eol=lf\n*.txt diff=secret\n")
	write(t, dir, "src/__pycache__/a.pyc", "junk")
	write(t, dir, "last_run.json", "{}")
	write(t, dir, "submission.json", "{}")
	// The user's configuration would change the format, and run a program.
	for _, kv := range [][2]string{
		{"diff.noprefix", "true"},
		{"diff.mnemonicPrefix", "true"},
		{"diff.renames", "copies"},
		{"core.quotePath", "true"},
		{"color.ui", "always"},
		{"core.autocrlf", "true"},
		{"diff.external", "touch " + filepath.Join(dir, "ran")},
		{"diff.secret.textconv", "touch " + filepath.Join(dir, "ran") + "; cat"},
		{"diff.context", "0"},
	} {
		git(t, dir, "config", kv[0], kv[1])
	}
	// Half of the work is committed, the rest is not even tracked.
	git(t, dir, "-c", "core.autocrlf=false", "add", "src/bin")
	git(t, dir, "commit", "-q", "-m", "mine")
	p, err := MakePatch(context.Background(), dir, base, task, Ignored(task, dir, filepath.Join(dir, "submission.json")))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Outside, []string{".gitattributes"}) || p.Base != base {
		t.Errorf("outside %q, base %s", p.Outside, p.Base)
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a program of the configuration ran")
	}
	res, err := surface.Check(tree, []byte(p.Text), surface.Rule{Allowed: task.AllowedPatchPaths})
	if err != nil || !res.OK {
		t.Fatalf("the server refuses it: %v %v\n%s", err, res, p.Text)
	}
	got := map[string]string{}
	for _, c := range res.Changes {
		if c.NewMode != 0 {
			got[c.Path] = string(c.Data)
		} else if c.Path != "src/gone.py" {
			t.Errorf("%s is deleted", c.Path)
		}
	}
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%q is %q, want %q", name, got[name], text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("changes %q", res.Paths())
	}
	// git itself applies it to a clean clone.
	clean := filepath.Join(t.TempDir(), "c")
	git(t, dir, "-c", "core.autocrlf=false", "clone", "-q", ".", clean)
	git(t, clean, "-c", "core.autocrlf=false", "checkout", "-q", base)
	cmd := exec.Command("git", "apply", "-")
	cmd.Dir, cmd.Stdin = clean, strings.NewReader(p.Text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v %s", err, out)
	}
	for name, text := range want {
		if b, err := os.ReadFile(filepath.Join(clean, name)); err != nil || string(b) != text {
			t.Errorf("after git apply %q is %q, %v", name, b, err)
		}
	}
}

func TestPatchOfNothing(t *testing.T) {
	dir, base := baseRepo(t)
	p, err := MakePatch(context.Background(), dir, "", task, nil)
	if err != nil || p.Text != "" || p.Base != base || len(p.Outside) != 0 {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := MakePatch(context.Background(), t.TempDir(), "", task, nil); err == nil {
		t.Error("no checkout, and no error")
	}
	if _, err := MakePatch(context.Background(), dir, strings.Repeat("ab", 20), task, nil); err == nil || !strings.Contains(err.Error(), "does not hold the base") {
		t.Errorf("unknown base: %v", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "src/link")); err != nil {
		t.Fatal(err)
	}
	p, err = MakePatch(context.Background(), dir, "", task, nil)
	if err != nil || strings.Contains(p.Text, "root:") || !strings.Contains(p.Text, "120000") {
		t.Errorf("a link is followed: %v %s", err, p.Text)
	}
}

// Row 30: the five texts of the stock client.
func TestSidecar(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"{":                                    "submission sidecar is not valid JSON: ",
		"[]":                                   "submission sidecar must be a JSON object",
		`{"claimed_metrics":{"a":1}}`:          "submission sidecar is missing required field: summary",
		`{"summary":"s"}`:                      "submission sidecar is missing required field: claimed_metrics",
		`{"summary":"s","claimed_metrics":{}}`: "submission sidecar is missing required field: claimed_metrics",
		`{"summary":"s","claimed_metrics":{"b":1}}`: "submission sidecar is missing required metric: a",
	} {
		write(t, dir, "s.json", text)
		if _, err := ReadSidecar(filepath.Join(dir, "s.json"), "a"); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := ReadSidecar(filepath.Join(dir, "none.json"), ""); err == nil || err.Error() != "submission sidecar is missing: "+filepath.Join(dir, "none.json") {
		t.Errorf("%v", err)
	}
}

// The requests have the stock client's shape: its order of keys, its blanks,
// its headers, no body where it sends none.
func TestRequestShapes(t *testing.T) {
	type seen struct {
		line, body string
		h          http.Header
	}
	var got []seen
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = append(got, seen{r.Method + " " + r.RequestURI, string(b), r.Header.Clone()})
		_, _ = io.WriteString(w, `{"id":"c1","task_id":"t1"}`)
	}))
	defer s.Close()
	key, err := auth.KeyFromURI("//Alice")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1760000000, 0)
	c := &Client{URL: s.URL + "/", Key: key, Now: func() time.Time { return at }}
	ctx := context.Background()
	if _, _, err := c.Claim(ctx, "t1", "", "manual miner run"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Claim(ctx, "", "w1", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Cancel(ctx, "c1"); err != nil {
		t.Fatal(err)
	}
	size := int64(0)
	sub := &Submission{ClaimID: "c1", BaseRef: "main", Patch: "diff --git a/x b/x\n+\u00e9\U0001F600 \"q\" \\ / <&> \u007f\t\u0001\r\n", Sidecar: Sidecar{
		Summary: "s", ClaimedMetrics: json.RawMessage(`{"heldout_ppl": 0.0, "tiny": 1e-07, "n": 3, "big": 1e+16, "neg": -2.5}`),
	}}
	if _, err := c.Submit(ctx, sub); err != nil {
		t.Fatal(err)
	}
	full := *sub
	full.Sidecar.ProposedIdea, full.Sidecar.ArtifactBytes, full.Sidecar.ArtifactSHA256 = "idea", &size, "AB"
	full.Sidecar.ExecutionLog, full.Sidecar.Summary = "log", strings.Repeat("x", 9000)
	if _, err := c.Submit(ctx, &full); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(ctx, "get", "/api/v1/submissions", []Field{{"task_id", "t 1"}, {"status", nil}, {"x", []string{"a", "b"}}}, nil, true); err != nil {
		t.Fatal(err)
	}
	// The wire body of the specification, byte for byte.
	const w = `{"claim_id": "c1", "base_ref": "main", "patch": "diff --git a/x b/x\n+\u00e9\ud83d\ude00 \"q\" \\ / <&> \u007f\t\u0001\r\n", "summary": "s", "claimed_metrics": {"heldout_ppl": 0.0, "tiny": 1e-07, "n": 3, "big": 1e+16, "neg": -2.5}}`
	for i, want := range []seen{
		{line: "POST /api/v1/tasks/t1/claim", body: `{"claim_description": "manual miner run"}`},
		{line: "POST /api/v1/work-items/w1/claim", body: "{}"},
		{line: "POST /api/v1/claims/c1/cancel"},
		{line: "POST /api/v1/submissions", body: w},
		{line: "POST /api/v1/submissions", body: ""},
		{line: "GET /api/v1/submissions?task_id=t+1&x=a&x=b"},
	} {
		g := got[i]
		if g.line != want.line || i != 4 && g.body != want.body {
			t.Errorf("%d: %s %s\nwant %s %s", i, g.line, g.body, want.line, want.body)
		}
		if ct := g.h.Get("Content-Type"); (g.body != "") != (ct == "application/json") {
			t.Errorf("%d: content type %q", i, ct)
		}
		if len(g.h.Get("X-Signature")) != 128 || g.h.Get("X-Timestamp") != "1760000000" || g.h.Get("X-Hotkey") != key.SS58() {
			t.Errorf("%d: headers %v", i, g.h)
		}
	}
	canonical, err := signing.CanonicalJSON([]byte(got[3].body))
	if sum := sha256.Sum256(canonical); err != nil || hex.EncodeToString(sum[:]) != "4504d798560d4d6e995dd72eee5ed5352eacb5699f9cc7938be90a0916351d0c" {
		t.Errorf("the canonical body hashes to %x", sum)
	}
	order := []string{`"claim_id"`, `"base_ref"`, `"patch"`, `"summary"`, `"claimed_metrics"`, `"proposed_idea"`, `"artifact_sha256": "ab"`, `"artifact_size_bytes": 0`, `"execution_log"`}
	last := -1
	for _, k := range order {
		at := strings.Index(got[4].body, k)
		if at <= last {
			t.Errorf("%s stands at %d after %d", k, at, last)
		}
		last = at
	}
	if strings.Contains(got[4].body, "implemented") || strings.Contains(got[4].body, "artifact_uri") || strings.Count(got[4].body, "x") > 7910 {
		t.Error("an empty field is sent, or the summary is not cut")
	}
}

// An answer of 400 or above is printed as the stock client prints it.
func TestErrorText(t *testing.T) {
	e := &APIError{Method: "POST", Path: "/api/v1/submissions", Status: 409, Body: []byte(`{"detail":{"error":"claim_expired"}}`)}
	if e.Error() != `POST /api/v1/submissions failed: HTTP 409 ({"detail":{"error":"claim_expired"}})` || e.Code() != "claim_expired" {
		t.Error(e.Error(), e.Code())
	}
}

func TestFindPhrase(t *testing.T) {
	const a = "bottom drive obey lake curtain smoke basket hold race lonely fit walk"
	const b = "legal winner thank year wave sausage worth useful legal winner thank yellow"
	for text, want := range map[string]string{
		a: a, "Hotkey mnemonic: " + a + "\nColdkey mnemonic: " + b: a, `{"secretPhrase":"` + b + `"}`: b, `{"x":{"hotkey_mnemonic":"` + a + `"},"mnemonic":"` + b + `"}`: a,
		a + "\n" + b: "", "nothing here": "", "mnemonic: " + a + "\nmnemonic: " + b: "",
	} {
		got, err := FindPhrase(text)
		if got != want || (want == "") != (err != nil) {
			t.Errorf("%.60s: %q %v", text, got, err)
		}
	}
}

// fakeCoordinator answers what a loop asks, with a real repository.
func fakeCoordinator(t *testing.T, submitted *[]map[string]any, cancelled *int) *httptest.Server {
	dir, sha := baseRepo(t)
	view := coordinator.TaskView{ID: "t1", BaseSHA: sha, State: coordinator.StateLive, Active: true, Task: task}
	view.Slug, view.MetricName, view.MetricDirection, view.Repository, view.BaseRef, view.TimeBudgetSeconds = "toy", "size", "minimize", dir, "main", 60
	mux := http.NewServeMux()
	say := func(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }
	n := 0
	mux.HandleFunc("GET /api/v1/tasks", func(w http.ResponseWriter, _ *http.Request) { say(w, []coordinator.TaskView{view}) })
	mux.HandleFunc("GET /api/v1/tasks/t1/onboard.md", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "# toy\n") })
	mux.HandleFunc("GET /api/v1/submissions", func(w http.ResponseWriter, _ *http.Request) { say(w, []coordinator.Submission{}) })
	mux.HandleFunc("POST /api/v1/tasks/t1/claim", func(w http.ResponseWriter, _ *http.Request) {
		n++
		say(w, coordinator.Claim{ID: fmt.Sprintf("c%d", n), TaskID: "t1", Status: "active"})
	})
	mux.HandleFunc("POST /api/v1/claims/{id}/cancel", func(w http.ResponseWriter, _ *http.Request) {
		*cancelled++
		say(w, map[string]string{"status": "cancelled"})
	})
	mux.HandleFunc("POST /api/v1/submissions", func(w http.ResponseWriter, r *http.Request) {
		var m map[string]any
		if json.NewDecoder(r.Body).Decode(&m) != nil {
			http.Error(w, "{}", 400)
			return
		}
		*submitted = append(*submitted, m)
		say(w, map[string]string{"id": "s", "status": "pending_verification"})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// Rows 33-35: the agent sees its variables and files and no others; a failing
// cycle gives its claim back and does not stop the loop; what improves is kept.
func TestLoop(t *testing.T) {
	t.Setenv("LLM_API_KEY", "a-secret-of-the-user")
	t.Setenv("AGENT_TOKEN", "passed")
	var submitted []map[string]any
	cancelled := 0
	s := fakeCoordinator(t, &submitted, &cancelled)
	key, err := auth.KeyFromURI("//Bob")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	script := filepath.Join(root, "agent.sh")
	write(t, root, "agent.sh", `set -e
n=$(cat "$1/../count" 2>/dev/null || echo 0); n=$((n+1)); echo $n > "$1/../count"
test -f "$1/claim_context.json" -a -f "$1/onboard.md" -a -f "$BITSOTA_AGENT_INTRO_PATH" -a -d "$BITSOTA_AGENT_REPO_DIR/.git"
env | cut -d= -f1 | sort > "$1/../env.$n"
if [ $n = 2 ]; then echo broken >&2; exit 3; fi
grep -q . "$BITSOTA_AGENT_REPO_DIR/src/bin"
cat "$BITSOTA_AGENT_REPO_DIR/src/gone.py" >> "$1/../starts"
echo "x = $n" > "$BITSOTA_AGENT_REPO_DIR/src/gone.py"
echo "{\"summary\":\"try $n\",\"claimed_metrics\":{\"size\":$((10-n))}}" > "$BITSOTA_AGENT_SUBMISSION_PATH"
`)
	var out bytes.Buffer
	a := &Agent{
		Client: &Client{URL: s.URL, Key: key}, Command: "bash " + script + " {workspace_dir_quoted}", Mode: ModeManaged, Slug: "toy", Root: root, Sidecar: "submission.json",
		Result: "submission_result.json", MaxLog: 1000, CoordinatorURL: s.URL, Now: time.Now, Out: &out, Passed: []string{"AGENT_TOKEN"},
	}
	if err := a.Loop(context.Background(), 3, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if len(submitted) != 2 || cancelled != 1 {
		t.Fatalf("%d submitted, %d cancelled\n%s", len(submitted), cancelled, out.String())
	}
	var cycles []Cycle
	for d := json.NewDecoder(&out); d.More(); {
		var c Cycle
		if err := d.Decode(&c); err != nil {
			t.Fatal(err)
		}
		cycles = append(cycles, c)
	}
	if len(cycles) != 3 || !strings.Contains(cycles[1].Error, "broken") || cycles[1].Execution.ExitCode != 3 || !cycles[2].Kept {
		t.Errorf("%+v", cycles)
	}
	env, err := os.ReadFile(filepath.Join(root, "env.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"BITSOTA_AGENT_WORKSPACE", "BITSOTA_AGENT_REPO_DIR", "BITSOTA_AGENT_INTRO_PATH", "BITSOTA_AGENT_SUBMISSION_PATH", "BITSOTA_AGENT_SUBMISSION_RESULT_PATH",
		"BITSOTA_RESEARCH_CLAIM_ID", "BITSOTA_RESEARCH_TASK_ID", "BITSOTA_RESEARCH_TASK_SLUG", "BITSOTA_RESEARCH_COORDINATOR_URL", "AGENT_TOKEN",
	} {
		if !strings.Contains(string(env), want+"\n") {
			t.Errorf("the agent lacks %s", want)
		}
	}
	if strings.Contains(string(env), "LLM_API_KEY") {
		t.Error("the agent sees the user's secrets")
	}
	starts, err := os.ReadFile(filepath.Join(root, "starts"))
	if err != nil || string(starts) != "x\nx = 1\n" {
		t.Errorf("the third cycle starts from %q, %v", starts, err)
	}
	tsv, err := os.ReadFile(filepath.Join(root, "results.tsv"))
	if err != nil || strings.Count(string(tsv), "\tkeep\t") != 2 || strings.Count(string(tsv), "\tcrash\t") != 1 {
		t.Errorf("%s %v", tsv, err)
	}
	if p := submitted[1]["patch"].(string); !strings.Contains(p, "+x = 3") || strings.Contains(p, "x = 1") {
		t.Errorf("the patch is not against the base: %s", p)
	}
}

// Row 34: an autonomous agent must leave the coordinator's answer.
func TestAutonomous(t *testing.T) {
	var submitted []map[string]any
	cancelled := 0
	s := fakeCoordinator(t, &submitted, &cancelled)
	key, err := auth.KeyFromURI("//Bob")
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{
		Client: &Client{URL: s.URL, Key: key}, Command: "true", Mode: ModeAutonomous, Root: t.TempDir(), Sidecar: "submission.json", Result: "submission_result.json", Now: time.Now, Out: io.Discard,
	}
	if _, err := a.Once(context.Background(), 1); err == nil || cancelled != 1 {
		t.Errorf("%v, %d cancelled", err, cancelled)
	}
	a.Command = `echo '{"id":"s"}' > {submission_result_path}`
	if out, err := a.Once(context.Background(), 1); err != nil || string(bytes.TrimSpace(out.Submission)) != `{"id":"s"}` || cancelled != 1 {
		t.Errorf("%+v %v", out, err)
	}
}

func FuzzRespace(f *testing.F) {
	f.Add([]byte(`{"a": [1, "\u00e9", null, true, {}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := Respace(b)
		if err != nil {
			return
		}
		again, err := Respace(out)
		if err != nil || !bytes.Equal(out, again) {
			t.Fatalf("%q becomes %q becomes %q: %v", b, out, again, err)
		}
	})
}

func FuzzFindPhrase(f *testing.F) {
	f.Add("hotkey mnemonic: bottom drive obey lake curtain smoke basket hold race lonely fit walk")
	f.Fuzz(func(_ *testing.T, s string) {
		if len(s) < 4096 {
			_, _ = FindPhrase(s)
		}
	})
}

// The checkout may be named by a relative path: its sidecar is not a change of it.
func TestIgnoredOfARelativeCheckout(t *testing.T) {
	top := t.TempDir()
	if err := os.Mkdir(filepath.Join(top, "work"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(top)
	got := Ignored(task, "work", filepath.Join("work", "submission.json"), filepath.Join(top, "work", "out.json"), filepath.Join(top, "beside.json"))
	for _, want := range []string{"submission.json", "out.json"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not ignored: %q", want, got)
		}
	}
	if slices.Contains(got, "beside.json") || slices.Contains(got, "../beside.json") {
		t.Errorf("a file beside the checkout is ignored: %q", got)
	}
}

// What is kept is what validators observed: a claim stands until then, and goes
// where it was not true.
func TestClaimsGiveWayToWhatIsObserved(t *testing.T) {
	status, observed := "pending_verification", 0.0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/submissions/s1" {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(coordinator.Submission{ID: "s1", Status: status, Observed: map[string]float64{"size": observed}})
	}))
	defer s.Close()
	key, err := auth.KeyFromURI("//Bob")
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{Client: &Client{URL: s.URL, Key: key}, Root: t.TempDir(), Now: time.Now}
	view := &coordinator.TaskView{ID: "t1"}
	view.Slug, view.MetricName, view.MetricDirection = "toy", "size", "minimize"
	submitted := func(claim float64, patch string) bool {
		t.Helper()
		out := &Cycle{Task: view, Submission: json.RawMessage(`{"id":"s1"}`)}
		side := Sidecar{ClaimedMetrics: json.RawMessage(fmt.Sprintf(`{"size":%v}`, claim))}
		if err := a.keep(out, side, &Patch{Text: patch}); err != nil {
			t.Fatal(err)
		}
		return out.Kept
	}
	settled := func(now string, x float64) (float64, string) {
		t.Helper()
		status, observed = now, x
		if err := a.settle(t.Context(), view); err != nil {
			t.Fatal(err)
		}
		b, _ := a.best("toy")
		p, _ := os.ReadFile(a.bestPatch("toy"))
		return b.Value, string(p)
	}
	if !submitted(1, "liar") {
		t.Fatal("the first claim is not kept")
	}
	if v, _ := settled("pending_verification", 0); v != 1 {
		t.Errorf("while it waits: %v", v)
	}
	if v, p := settled("accepted", 60.8); v != 60.8 || p != "liar" {
		t.Errorf("observed: %v %q", v, p)
	}
	if !submitted(50, "honest") { // better than what was observed, not than what was claimed
		t.Error("an honest claim after a lie is not kept")
	}
	if v, p := settled("accepted", 50); v != 50 || p != "honest" {
		t.Errorf("honest: %v %q", v, p)
	}
	for _, c := range []struct {
		status string
		x      float64
	}{{"rejected", 0}, {"accepted", 70}} {
		if !submitted(2, "again a lie") {
			t.Fatal("a claim is not kept")
		}
		if v, p := settled(c.status, c.x); v != 50 || p != "honest" {
			t.Errorf("%s: %v %q", c.status, v, p)
		}
	}
}
