package wire_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth/signing"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
	"github.com/agon-arena/agon/kinds/research/signin"
	"github.com/agon-arena/agon/kinds/research/wire"
)

// Rows 1-4: the list has the nine fields of the seed's jq line, an empty setup
// is runnable, the onboarding document says what it must.
func TestTasks(t *testing.T) {
	f := open(t)
	task := f.task()
	var list []map[string]any
	f.get("/api/v1/tasks", 200, &list)
	for _, k := range []string{"slug", "title", "task_state", "competition_mode", "metric_name", "metric_direction", "repository", "base_ref", "allowed_patch_paths", "id", "repository_url", "is_active"} {
		if list[0][k] == nil {
			t.Errorf("%s is null", k)
		}
	}
	if s, ok := list[0]["setup_command"].(string); !ok || s != "" {
		t.Errorf("setup_command is %v: null would run as a command", list[0]["setup_command"])
	}
	if list[0]["validator_benchmark_env"] != nil {
		t.Error("the private environment is public")
	}
	resp, err := http.Get(f.url + "/api/v1/tasks/" + task.ID + "/onboard.md")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	if ct := resp.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/markdown") {
		t.Errorf("content type %s", ct)
	}
	for _, want := range []string{"toy", "size", "src/*.py", "600 s", "submission.json", "claimed_metrics", "git clone"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("onboard.md lacks %q", want)
		}
	}
	if strings.Contains(b.String(), "hidden-value") {
		t.Error("onboard.md shows the private environment")
	}
	c := f.miner("alice")
	if _, err := c.Task(context.Background(), "", "nothing", true); !errors.Is(err, miner.ErrNoTask) {
		t.Errorf("unknown slug: %v", err)
	}
	if got, err := c.Task(context.Background(), "", " TOY ", true); err != nil || got.ID != task.ID {
		t.Errorf("slug in another case: %v", err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("git", "-C", dir, "-c", "protocol.version=2", "clone", "-q", task.Repository, "w").CombinedOutput(); err != nil {
		t.Fatalf("clone: %v %s", err, out)
	}
}

// signedBy makes a signed request by hand, so that each part can be wrong.
func signedBy(f *fixture, name, method, path string, wire, signed []byte, at time.Time) *http.Request {
	hash := signing.EmptyBody
	if signed != nil {
		canonical, err := signing.CanonicalJSON(signed)
		if err != nil {
			f.t.Fatal(err)
		}
		hash = signing.BodyHash(canonical)
	}
	ts := strconv.FormatInt(at.Unix(), 10)
	p, q, _ := strings.Cut(path, "?")
	sig, err := f.key(name).Sign(signin.Message(method, p, q, ts, hash))
	if err != nil {
		f.t.Fatal(err)
	}
	r, err := http.NewRequest(method, f.url+path, bytes.NewReader(wire))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("X-Hotkey", f.key(name).SS58())
	r.Header.Set("X-Timestamp", ts)
	r.Header.Set("X-Signature", hex.EncodeToString(sig))
	return r
}

// Rows 5-12: what a signature covers, how old it may be, once only.
func TestSignatures(t *testing.T) {
	f := open(t)
	task := f.task()
	f.miner("alice")
	path := "/api/v1/tasks/" + task.ID + "/claim"
	body := []byte(`{"claim_description":"manual miner run"}`)
	spaced := []byte("{ \"claim_description\" :\t\"manual miner run\" }\n")
	now := f.clock.Now()
	say := func(r *http.Request, status int, want string) {
		t.Helper()
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		_, _ = b.ReadFrom(resp.Body)
		if resp.StatusCode != status || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %d %s, want %d %s", r.URL.Path, resp.StatusCode, b.String(), status, want)
		}
	}
	say(signedBy(f, "alice", "POST", path, spaced, body, now), 200, `"status":"active"`)
	say(signedBy(f, "alice", "POST", path, []byte(`{"claim_description":"another"}`), body, now), 401, "invalid signature")
	for skew, status := range map[time.Duration]int{299 * time.Second: 200, -299 * time.Second: 200, 301 * time.Second: 401, -301 * time.Second: 401} {
		want := ""
		if status == 401 {
			want = "301 s from the server's clock"
		}
		r := signedBy(f, "alice", "POST", path, body, body, now.Add(-skew))
		if status == 200 {
			r = signedBy(f, "alice", "POST", "/api/v1/validator/submissions/scan", nil, nil, now.Add(-skew))
			status = 403 // signed, but no validator
			want = "validator_not_allowlisted"
		}
		say(r, status, want)
	}
	once := signedBy(f, "alice", "POST", path, body, body, now)
	sig := once.Header.Get("X-Signature")
	say(once, 200, "active")
	again := signedBy(f, "alice", "POST", path, body, body, now)
	again.Header.Set("X-Signature", "0x"+strings.ToUpper(sig))
	say(again, 401, "used before")
	bare, _ := http.NewRequest("POST", f.url+path, bytes.NewReader(body))
	say(bare, 401, `{"detail":"missing auth headers"}`)
	say(signedBy(f, "mallory", "POST", path, body, body, now), 403, `"error":"insufficient_miner_stake"`)
	// A body where none was signed is another request.
	var claims []coordinator.Claim
	f.get("/api/v1/claims?status=active", 200, &claims)
	cancel := "/api/v1/claims/" + claims[0].ID + "/cancel"
	say(signedBy(f, "alice", "POST", cancel, []byte("{}"), nil, now), 401, "invalid signature")
	say(signedBy(f, "alice", "POST", cancel, nil, nil, now), 200, `"status":"cancelled"`)
}

// Rows 13-16: limits, expiry, owners and states of claims.
func TestClaims(t *testing.T) {
	f := open(t)
	task := f.task()
	alice, bob := f.miner("alice"), f.miner("bob")
	first := f.claim(alice, task.ID)
	f.claim(alice, task.ID)
	f.claim(alice, task.ID)
	claim := "/api/v1/tasks/" + task.ID + "/claim"
	about := map[string]string{"claim_description": "a try"}
	refused := func(c *miner.Client, path string, body any, status int, code string) {
		t.Helper()
		if got, b := f.post(c, path, body); got != status || !strings.Contains(b, `"error":"`+code+`"`) {
			t.Errorf("%s: %d %s, want %d %s", path, got, b, status, code)
		}
	}
	refused(alice, claim, about, 409, "too_many_active_claims")
	refused(bob, "/api/v1/claims/"+first.ID+"/cancel", nil, 403, "claim_owner_mismatch")
	if got, b := f.post(alice, "/api/v1/claims/"+first.ID+"/cancel", nil); got != 200 {
		t.Fatalf("%d %s", got, b)
	}
	fourth := f.claim(alice, task.ID)
	refused(bob, claim, map[string]string{}, 422, "missing_claim_description")
	refused(bob, "/api/v1/tasks/none/claim", about, 404, "not_found")
	f.clock.Add(5 * time.Hour)
	var list []coordinator.Claim
	f.get("/api/v1/claims?status=expired", 200, &list)
	if len(list) != 3 {
		t.Errorf("%d claims are expired, want 3", len(list))
	}
	refused(alice, "/api/v1/submissions", entry(fourth.ID, patch("2")), 409, "claim_expired")
	refused(alice, "/api/v1/submissions", entry(first.ID, patch("2")), 409, "claim_not_active")
	for _, s := range []string{"pause", "close"} {
		cl := f.claim(bob, task.ID)
		f.admin("POST", "/api/v1/tasks/"+task.ID+"/"+s, nil, 200, nil)
		refused(bob, claim, about, 409, "task_not_live")
		refused(bob, "/api/v1/submissions", entry(cl.ID, patch("2")), 409, "task_not_live")
		if s == "pause" {
			f.admin("POST", "/api/v1/tasks/"+task.ID+"/resume", nil, 200, nil)
		}
	}
	f.admin("POST", "/api/v1/tasks/"+task.ID+"/resume", nil, 409, nil)
}

// Rows 17-27: each bad submission is refused by name, and its claim stays usable.
func TestSubmitRefusals(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["max_patch_bytes"] = 2000 })
	alice, bob := f.miner("alice"), f.miner("bob")
	cl := f.claim(alice, task.ID)
	with := func(k string, v any) map[string]any {
		e := entry(cl.ID, patch("2"))
		e[k] = v
		return e
	}
	fill := func(n int) string { // an honest patch of exactly n bytes
		p := patch("2")
		return strings.Replace(p, "+x = 2\n", "+x = 2"+strings.Repeat(" ", n-len(p))+"\n", 1)
	}
	add := func(mode, path string) string {
		return fmt.Sprintf("diff --git a/%s b/%s\nnew file mode %s\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1 @@\n+y\n", path, path, mode, path)
	}
	for _, c := range []struct {
		name   string
		body   map[string]any
		status int
		code   string
		also   string
	}{
		{"empty", with("patch", ""), 422, "empty_submission", ""},
		{"blank", with("patch", " \n"), 422, "empty_submission", ""},
		{"artifact on a patch task", map[string]any{"claim_id": cl.ID, "base_ref": "main", "patch": "", "summary": "s", "claimed_metrics": map[string]any{}, "artifact_uri": "https://x/y"}, 422, "empty_submission", ""},
		{"outside the surface", with("patch", add("100644", "bench2.py")), 422, "disallowed_patch_paths", `"paths":["bench2.py"]`},
		{"symlink", with("patch", add("120000", "src/l.py")), 422, "forbidden_patch_entry", "src/l.py"},
		{"submodule", with("patch", "diff --git a/src/m.py b/src/m.py\nnew file mode 160000\n--- /dev/null\n+++ b/src/m.py\n@@ -0,0 +1 @@\n+Subproject commit 0123456789012345678901234567890123456789\n"), 422, "forbidden_patch_entry", ""},
		{"mode change", with("patch", "diff --git a/src/a.py b/src/a.py\nold mode 100644\nnew mode 100755\n"), 422, "forbidden_patch_entry", ""},
		{"rename under another header", with("patch", "diff --git a/src/a.py b/src/a.py\nsimilarity index 100%\nrename from bench.py\nrename to src/b.py\n"), 422, "forbidden_patch_entry", ""},
		{"python cache", with("patch", add("100644", "src/x.pyc")), 422, "disallowed_patch_paths", ""},
		{"no patch at all", with("patch", "hello\n"), 422, "unparseable_patch_surface", ""},
		{"does not apply", with("patch", strings.Replace(patch("2"), "-x = 1", "-x = 9", 1)), 422, "patch_does_not_apply", ""},
		{"too large", with("patch", fill(2001)), 413, "patch_too_large", `"got":2001`},
		{"unknown base", with("base_ref", strings.Repeat("ab", 20)), 422, "unknown_base_ref", task.BaseSHA},
		{"no summary", with("summary", ""), 422, "missing_summary", ""},
		{"long summary", with("summary", strings.Repeat("x", 8001)), 413, "field_too_large", ""},
		{"a metric of many bytes", with("claimed_metrics", map[string]any{"a": strings.Repeat("x", 1001)}), 422, "bad_claimed_metrics", ""},
		{"a metric's long name", with("claimed_metrics", map[string]any{strings.Repeat("x", 121): 1}), 422, "bad_claimed_metrics", ""},
		{"NUL", with("summary", "a\x00b"), 422, "bad_text", ""},
		{"unknown claim", with("claim_id", "nope"), 404, "not_found", ""},
		{"unknown idea", with("implemented_submission_id", "nope"), 422, "unknown_implemented_submission", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, b := f.post(alice, "/api/v1/submissions", c.body)
			if status != c.status || !strings.Contains(b, `"error":"`+c.code+`"`) || !strings.Contains(b, c.also) || !strings.Contains(b, `"message":`) {
				t.Errorf("%d %s, want %d %s %s", status, b, c.status, c.code, c.also)
			}
		})
	}
	if status, b := f.post(bob, "/api/v1/submissions", entry(cl.ID, patch("2"))); status != 403 || !strings.Contains(b, "claim_owner_mismatch") {
		t.Errorf("another's claim: %d %s", status, b)
	}
	// Row 24: as large as allowed; row 23: a removed line that looks like a header.
	big := entry(cl.ID, fill(2000))
	if status, b := f.post(alice, "/api/v1/submissions", big); status != 200 || !strings.Contains(b, `"pending_verification"`) || !strings.Contains(b, task.BaseSHA) {
		t.Fatalf("%d %s", status, b)
	}
	dashes := "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1,2 +1 @@\n x = 1\n--- old\n"
	f.submit(alice, task.ID, dashes)
	// Row 26: the same change again, written otherwise.
	again := strings.Replace(patch("2"), "@@ -1,2 +1,2 @@", "@@ -1,2 +1,2 @@ somewhere", 1)
	first := f.submit(alice, task.ID, patch("2"))
	cl2 := f.claim(alice, task.ID)
	if status, b := f.post(alice, "/api/v1/submissions", entry(cl2.ID, again)); status != 409 || !strings.Contains(b, "duplicate_submission") {
		t.Errorf("own duplicate: %d %s", status, b)
	}
	twin := f.submit(bob, task.ID, again)
	if twin.Status != "rejected" || twin.DuplicateOf == nil || *twin.DuplicateOf != first.ID {
		t.Errorf("twin: %+v", twin)
	}
	if f.submission(first.ID).Status != "pending_verification" {
		t.Error("the first submission changed")
	}
}

// Row 18: artifacts.
func TestArtifacts(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["artifact"] = "allowed" })
	alice := f.miner("alice")
	cl := f.claim(alice, task.ID)
	body := map[string]any{
		"claim_id": cl.ID, "base_ref": "main", "patch": "", "summary": "s", "claimed_metrics": map[string]any{"size": 1}, "artifact_uri": "https://example.org/a.bin",
		"artifact_sha256": strings.Repeat("AB", 32), "artifact_size_bytes": 12,
	}
	for _, k := range []string{"artifact_sha256", "artifact_size_bytes"} {
		bad := map[string]any{}
		for n, v := range body {
			if n != k {
				bad[n] = v
			}
		}
		if status, b := f.post(alice, "/api/v1/submissions", bad); status != 422 || !strings.Contains(b, "artifact_integrity_required") {
			t.Errorf("without %s: %d %s", k, status, b)
		}
	}
	if status, b := f.post(alice, "/api/v1/submissions", body); status != 200 {
		t.Fatalf("%d %s", status, b)
	}
}

// Row 27: centerless tasks want an idea; an implemented one is accepted, older, another's.
func TestIdeas(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["competition_mode"] = "centerless"; m["rules"] = map[string]any{"agree": 1} })
	alice, bob := f.miner("alice"), f.miner("bob")
	v := f.validator("val")
	cl := f.claim(alice, task.ID)
	if status, b := f.post(alice, "/api/v1/submissions", entry(cl.ID, patch("2"))); status != 422 || !strings.Contains(b, "missing_proposed_idea") {
		t.Fatalf("%d %s", status, b)
	}
	e := entry(cl.ID, patch("2"))
	e["proposed_idea"] = "use fewer letters"
	if status, b := f.post(alice, "/api/v1/submissions", e); status != 200 {
		t.Fatalf("%d %s", status, b)
	}
	var list []coordinator.Submission
	f.get("/api/v1/submissions?task_id="+task.ID, 200, &list)
	idea := list[0].ID
	implement := func(c *miner.Client, x string) (int, string) {
		e := entry(f.claim(c, task.ID).ID, patch(x))
		e["proposed_idea"], e["implemented_submission_id"] = "another", idea
		return f.post(c, "/api/v1/submissions", e)
	}
	if status, b := implement(bob, "3"); status != 422 || !strings.Contains(b, "it is not accepted") {
		t.Errorf("%d %s", status, b)
	}
	f.answer(v, idea, "accepted", 90)
	f.clock.Add(time.Minute)
	if status, b := implement(alice, "3"); status != 422 || !strings.Contains(b, "your own") {
		t.Errorf("%d %s", status, b)
	}
	status, b := implement(bob, "4")
	if status != 200 {
		t.Fatalf("%d %s", status, b)
	}
	for _, q := range []string{"task_id=" + task.ID, "submission_id=" + idea, "proposer_hotkey=" + f.key("alice").SS58(), "implementer_hotkey=" + f.key("bob").SS58()} {
		var ideas []coordinator.Idea
		f.get("/api/v1/idea-rewards?"+q, 200, &ideas)
		if len(ideas) != 1 || ideas[0].ProposerShare != 0.2 || ideas[0].Status != "pending" {
			t.Errorf("%s: %+v", q, ideas)
		}
	}
	var none []coordinator.Idea
	f.get("/api/v1/idea-rewards?proposer_hotkey="+f.key("bob").SS58(), 200, &none)
	if len(none) != 0 {
		t.Errorf("%+v", none)
	}
}

// Row 31: the seed's unsigned read works; the patch stays hidden while it is pending.
func TestReads(t *testing.T) {
	f := open(t)
	task := f.task()
	alice := f.miner("alice")
	s := f.submit(alice, task.ID, patch("2"))
	var d coordinator.Detail
	f.get("/api/v1/submissions/"+s.ID+"/detail", 200, &d)
	if d.Submission.Patch != nil || !d.Submission.PatchHidden {
		t.Error("the patch of a pending submission is public")
	}
	b, err := alice.Do(context.Background(), "GET", "/api/v1/submissions/"+s.ID+"/detail", nil, nil, true)
	if err != nil || json.Unmarshal(b, &d) != nil || d.Submission.Patch == nil || *d.Submission.Patch != patch("2") {
		t.Errorf("the miner does not see its own patch: %v", err)
	}
	f.get("/api/v1/submissions/"+s.ID+"/execution.log", 403, nil)
	f.get("/api/v1/submissions/"+s.ID+"/artifact", 404, nil)
	f.get("/api/v1/submissions/none", 404, nil)
	f.get("/api/v1/tasks/"+task.ID+"/best", 404, nil)
	locked := open(t, func(_ *coordinator.Config, c *wire.Config) { c.SignedReads = true })
	var body map[string]string
	locked.get("/api/v1/submissions", 401, &body)
	if body["detail"] != "missing auth headers" {
		t.Errorf("%v", body)
	}
	if _, err := locked.miner("alice").Do(context.Background(), "GET", "/api/v1/submissions", []miner.Field{{Name: "task_id", Value: "t1"}, {Name: "status", Value: "pending_verification"}}, nil, true); err != nil {
		t.Errorf("a signed read: %v", err)
	}
	// Open lists check who signs all the same: parameters in another order than the signed ones are refused.
	read := []miner.Field{{Name: "task_id", Value: task.ID}, {Name: "status", Value: "pending_verification"}}
	if _, err := alice.Do(context.Background(), "GET", "/api/v1/submissions", read, nil, true); err != nil {
		t.Errorf("a signed read of an open list: %v", err)
	}
	alice.HTTP = &http.Client{Transport: reordered{}}
	var no *miner.APIError
	if _, err := alice.Do(context.Background(), "GET", "/api/v1/submissions", read, nil, true); !errors.As(err, &no) || no.Status != http.StatusUnauthorized {
		t.Errorf("another order: %v, want 401", err)
	}
}

// reordered sends the parameters of a request the other way round.
type reordered struct{}

func (reordered) RoundTrip(r *http.Request) (*http.Response, error) {
	list := strings.Split(r.URL.RawQuery, "&")
	slices.Reverse(list)
	r.URL.RawQuery = strings.Join(list, "&")
	return http.DefaultTransport.RoundTrip(r)
}

// Row 36-37: the planner opens items, a claim takes one, a submission completes it.
func TestWorkItems(t *testing.T) {
	f := open(t)
	task := f.task()
	alice := f.miner("alice")
	var made struct {
		Created []coordinator.WorkItem `json:"created"`
	}
	f.admin("POST", "/api/v1/planner/run", map[string]string{}, 200, &made)
	if len(made.Created) != 1 || made.Created[0].Strategy != "explore" {
		t.Fatalf("%+v", made)
	}
	f.admin("POST", "/api/v1/planner/run", nil, 200, &made)
	if len(made.Created) != 0 {
		t.Errorf("a second pass made %d items", len(made.Created))
	}
	status := func() string {
		var list []coordinator.WorkItem
		f.get("/api/v1/work-items?task_id="+task.ID, 200, &list)
		return list[0].Status
	}
	var list []coordinator.WorkItem
	f.get("/api/v1/work-items?status=open", 200, &list)
	cl, _, err := alice.Claim(context.Background(), "", list[0].ID, "")
	if err != nil || cl.WorkItem == nil || status() != "claimed" {
		t.Fatalf("%+v %v", cl, err)
	}
	if code, b := f.post(f.miner("bob"), "/api/v1/work-items/"+list[0].ID+"/claim", map[string]any{}); code != 409 || !strings.Contains(b, "work_item_not_open") {
		t.Errorf("%d %s", code, b)
	}
	f.clock.Add(5 * time.Hour)
	if status() != "open" {
		t.Error("an expired claim keeps its item")
	}
	cl, _, err = alice.Claim(context.Background(), "", list[0].ID, "")
	if err != nil {
		t.Fatal(err)
	}
	if code, b := f.post(alice, "/api/v1/submissions", entry(cl.ID, patch("2"))); code != 200 {
		t.Fatalf("%d %s", code, b)
	}
	if status() != "completed" {
		t.Error("a submission does not complete its item")
	}
}
