package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/merkle"
)

// Rows 42-43: who gets a worklist, and what is in it.
func TestWorklist(t *testing.T) {
	f := open(t)
	task := f.task()
	alice, v := f.miner("alice"), f.validator("val")
	if jobs := f.scan(v); len(jobs) != 0 {
		t.Fatalf("%d jobs in an idle arena", len(jobs))
	}
	if status, b := f.post(v, "/api/v1/validator/jobs/claim", nil); status != 404 || !strings.Contains(b, "no pending validator jobs") {
		t.Errorf("%d %s", status, b)
	}
	if status, b := f.post(alice, "/api/v1/validator/submissions/scan", nil); status != 403 || !strings.Contains(b, `"error":"validator_not_allowlisted"`) {
		t.Errorf("%d %s", status, b)
	}
	s := f.submit(alice, task.ID, patch("2"))
	jobs := f.scan(v)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs", len(jobs))
	}
	j := jobs[0]
	if j.Submission.ID != s.ID || j.Submission.Patch != patch("2") || j.Spec.BaseSHA != task.BaseSHA || j.Spec.Env["SECRET"] != "hidden-value-1234" ||
		j.Spec.Metric != "size" || j.Spec.Budget != 600 || j.Spec.Repository != task.Repository || j.Task.ID != task.ID {
		t.Errorf("job %+v", j)
	}
	if len(j.Submission.ClaimedMetrics) != 0 {
		t.Error("a validator is told what to find")
	}
	if again := f.scan(v); len(again) != 1 || again[0].ID != j.ID {
		t.Error("a held job is not offered again")
	}
	if status, b := f.post(v, "/api/v1/validator/jobs/claim", map[string]string{"task_id": task.ID}); status != 200 || !strings.Contains(b, j.ID) {
		t.Errorf("%d %s", status, b)
	}
	// The other replica is not for the same validator.
	if other := f.scan(f.validator("val2")); len(other) != 1 || other[0].ID == j.ID {
		t.Errorf("%+v", other)
	}
}

// Rows 44-46: results are idempotent, survive a lost answer, and a lost lease is
// issued again while the late result stays evidence.
func TestResults(t *testing.T) {
	f := open(t)
	task := f.task()
	alice, v1, v2, v3 := f.miner("alice"), f.validator("v1"), f.validator("v2"), f.validator("v3")
	s := f.submit(alice, task.ID, patch("2"))
	j := f.scan(v1)[0]
	path := "/api/v1/validator/jobs/" + j.ID + "/result"
	body := map[string]any{"submission_id": s.ID, "status": "accepted", "observed_metrics": map[string]any{"size": 90}, "notes": "fine"}
	for name, bad := range map[string]any{"NaN": "NaN", "text": "90", "null": nil, "list": []int{1}} {
		b := map[string]any{"submission_id": s.ID, "status": "accepted", "observed_metrics": map[string]any{"size": bad}}
		if status, text := f.post(v1, path, b); status != 422 {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if status, b := f.post(v1, path, map[string]any{"submission_id": s.ID, "status": "accepted", "observed_metrics": map[string]any{}}); status != 422 || !strings.Contains(b, "missing_metric") {
		t.Errorf("%d %s", status, b)
	}
	if status, b := f.post(v2, path, body); status != 403 || !strings.Contains(b, "not_job_holder") {
		t.Errorf("%d %s", status, b)
	}
	for range 2 {
		status, b := f.post(v1, path, body)
		if status != 200 || !strings.Contains(b, `"id":"`+j.ID+`"`) || !strings.Contains(b, `"status":"accepted"`) {
			t.Fatalf("%d %s", status, b)
		}
	}
	if status, b := f.post(v1, path, map[string]any{"submission_id": s.ID, "status": "rejected"}); status != 409 || !strings.Contains(b, "result_conflict") {
		t.Errorf("%d %s", status, b)
	}
	var rows []coordinator.Verification
	f.get("/api/v1/verifications?submission_id="+s.ID, 200, &rows)
	if len(rows) != 1 || rows[0].ID != j.ID || rows[0].Status != "accepted" || rows[0].Observed["size"] != 90 {
		t.Fatalf("%+v", rows)
	}
	// v2 takes the other replica and dies.
	lost := f.scan(v2)[0]
	f.clock.Add(25 * time.Minute)
	if err := f.p.Sweep(context.Background()); err != nil {
		t.Fatal(err)
	}
	if jobs := f.scan(v3); len(jobs) != 1 || jobs[0].Submission.ID != s.ID {
		t.Fatalf("the lost job is not issued again: %+v", jobs)
	}
	if status, b := f.post(v2, "/api/v1/validator/jobs/"+lost.ID+"/result", map[string]any{"submission_id": s.ID, "status": "accepted", "observed_metrics": map[string]any{"size": 1}}); status != 200 || !strings.Contains(b, `"late":true`) || !strings.Contains(b, `"counted":false`) {
		t.Errorf("late result: %d %s", status, b)
	}
	if f.submission(s.ID).Status != "pending_verification" {
		t.Error("a late result counts")
	}
	f.answer(v3, s.ID, "accepted", 90)
	if got := f.submission(s.ID); got.Status != "accepted" || got.Observed["size"] != 90 {
		t.Errorf("%+v", got)
	}
	if over := f.submission(s.ID).OverClaim; over == nil || *over != 89 {
		t.Errorf("over-claim %v: claimed 1, observed 90", over)
	}
	var log bytes.Buffer
	r, _ := http.NewRequest("GET", f.url+"/api/v1/submissions/"+s.ID+"/replay.log", nil)
	r.Header.Set("X-Admin-Token", adminToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = log.ReadFrom(resp.Body)
	if resp.StatusCode != 200 || !strings.Contains(log.String(), "[REDACTED]") || strings.Contains(log.String(), "hidden-value") {
		t.Errorf("replay log: %d %s", resp.StatusCode, log.String())
	}
	f.get("/api/v1/submissions/"+s.ID+"/replay.log", 401, nil)
}

// Row 57: two agree; a liar is outvoted by a third; the median counts.
// Row 58: canaries take the liar's vote away.
func TestQuorumAndCanaries(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["rules"] = map[string]any{"agree": 2, "replays": 5, "absolute": 0.5} })
	alice := f.miner("alice")
	honest, other, liar := f.validator("honest"), f.validator("other"), f.validator("liar")
	s := f.submit(alice, task.ID, patch("2"))
	f.answer(honest, s.ID, "accepted", 90)
	f.answer(liar, s.ID, "accepted", 40)
	if got := f.submission(s.ID); got.Status != "pending_verification" {
		t.Fatalf("decided by two that differ: %+v", got)
	}
	if f.answer(honest, s.ID, "accepted", 90) {
		t.Fatal("a validator got a second replica")
	}
	f.answer(other, s.ID, "accepted", 90.2)
	got := f.submission(s.ID)
	if got.Status != "accepted" || got.Observed["size"] != 90.1 {
		t.Fatalf("%+v", got)
	}
	f.duels(100, "honest", "other", "liar")
	var d coordinator.Detail
	f.get("/api/v1/submissions/"+s.ID+"/detail", 200, &d)
	for _, v := range d.Verifications {
		if v.Validator == f.key("liar").SS58() && !v.Duel && (v.Deviation == nil || math.Abs(*v.Deviation+50.1) > 1e-9) {
			t.Errorf("the liar's deviation is %v", v.Deviation)
		}
	}

	// A canary: its score is known, and the liar lies again.
	can := f.submit(alice, task.ID, patch("3"))
	f.admin("POST", "/api/v1/canaries", map[string]any{"submission_id": can.ID, "verdict": "accepted", "known_value": 95}, 200, nil)
	f.answer(liar, can.ID, "accepted", 10)
	f.answer(honest, can.ID, "accepted", 95)
	f.answer(other, can.ID, "accepted", 95)
	var list []coordinator.ValidatorView
	f.get("/api/v1/validators", 200, &list)
	trust := map[string]float64{}
	for _, v := range list {
		trust[v.Hotkey] = v.Trust
	}
	if trust[f.key("liar").SS58()] != 0.25 || trust[f.key("honest").SS58()] != 1 {
		t.Fatalf("trust %v", trust)
	}
	// With one honest voice and the liar's quarter nothing is decided any more.
	next := f.submit(alice, task.ID, patch("4"))
	f.answer(liar, next.ID, "accepted", 50)
	f.answer(honest, next.ID, "accepted", 50)
	if f.submission(next.ID).Status != "pending_verification" {
		t.Error("the liar's vote still decides")
	}
	f.answer(other, next.ID, "accepted", 50)
	if f.submission(next.ID).Status != "accepted" {
		t.Error("two believed validators agree, and it is not decided")
	}
	f.duels(90.1, "honest", "other", "liar")
	if c := f.submission(can.ID); c.Best == nil || c.Best.Took || c.Best.Rule != "research.canary" {
		t.Errorf("the canary: %+v", c.Best)
	}
}

// epochs publishes two epochs of a task with records and verifies them.
func (f *fixture) epochs(coordinator.TaskView) {
	t := f.t
	alice := f.miner("alice")
	cold := f.key("alice/elsewhere").SS58()
	if _, err := alice.Do(context.Background(), "PUT", "/api/v1/miners/recipient-coldkey", nil, []byte(`{"recipient_coldkey":"`+cold+`"}`), true); err != nil {
		t.Fatal(err)
	}
	var rec coordinator.Recipient
	f.get("/api/v1/miners/recipient-coldkey/"+f.key("alice").SS58(), 200, &rec)
	if rec.Coldkey != cold {
		t.Errorf("%+v", rec)
	}
	f.get("/claims/epoch", 404, nil)
	var e0, e1 merkle.Evidence
	f.admin("POST", "/api/v1/rewards/epochs", nil, 200, &e0)
	f.admin("POST", "/api/v1/rewards/epochs", nil, 200, &e1)
	if err := e0.Verify(nil); err != nil {
		t.Error(err)
	}
	if err := e1.Verify(&e0); err != nil {
		t.Error(err)
	}
	for i, tamper := range []func(*merkle.Evidence){
		func(e *merkle.Evidence) { e.Claims[0].Amount++ }, func(e *merkle.Evidence) { e.Total-- }, func(e *merkle.Evidence) { e.Root[0] ^= 1 },
		func(e *merkle.Evidence) { e.Claims = e.Claims[1:] }, func(e *merkle.Evidence) { e.OZRoot[3] ^= 1 }, func(e *merkle.Evidence) { e.Claims[0].Recipient += "x" },
	} {
		b, err := json.Marshal(e1)
		if err != nil {
			t.Fatal(err)
		}
		var bad merkle.Evidence
		if err := json.Unmarshal(b, &bad); err != nil {
			t.Fatal(err)
		}
		tamper(&bad)
		if bad.Verify(&e0) == nil {
			t.Errorf("tampering %d passes", i)
		}
	}
	var p0, p1 coordinator.Package
	f.get("/claims/epoch/0/proof/"+f.key("alice").SS58(), 200, &p0)
	f.get("/claims/epoch/claim/"+f.key("alice").SS58(), 200, &p1)
	if p0.Recipient != cold || p1.Epoch != 1 || p1.Amount != 2*p0.Amount || p1.Transfer != p0.Amount {
		t.Errorf("%+v %+v", p0, p1)
	}
	rule, err := merkle.RuleOf(merkle.ProfileInk)
	if err != nil {
		t.Fatal(err)
	}
	ink, _, err := e1.Trees()
	if err != nil || !merkle.Verify(rule, e1.Root, ink.Leaf(int(p1.Index)), p1.Proof) {
		t.Errorf("the package's proof fails: %v", err)
	}
	f.get("/claims/epoch/1/proof/"+f.key("nobody").SS58(), 404, nil)
	// Row 41: a claim below the floor says so, and stays due.
	f.admin("PUT", "/api/v1/reward-policy", map[string]any{"validator_weights": map[string]any{"mode": "local"}, "epoch_budget_rao": 1000, "transfer_floor_rao": 5000}, 200, nil)
	f.admin("POST", "/api/v1/rewards/epochs", nil, 200, &e0)
	f.get("/claims/epoch/2/claim/"+f.key("alice").SS58(), 200, &p1)
	if !p1.Below || !strings.Contains(p1.Note, "below_transfer_floor") {
		t.Errorf("%+v", p1)
	}
}

// Row 38: peers decide; nobody evaluates its own; verify is refused.
func TestPeers(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["competition_mode"] = "peer_evaluation"; m["min_peer_evaluations"] = 2 })
	alice, bob, carol := f.miner("alice"), f.miner("bob"), f.miner("carol")
	v := f.validator("val")
	s := f.submit(alice, task.ID, patch("2"))
	path := "/api/v1/submissions/" + s.ID + "/peer-evaluate"
	vote := func(x float64) map[string]any {
		return map[string]any{"status": "accepted", "observed_metrics": map[string]float64{"size": x}}
	}
	if status, b := f.post(alice, path, vote(1)); status != 403 || !strings.Contains(b, "self_evaluation") {
		t.Errorf("%d %s", status, b)
	}
	if status, b := f.post(bob, path, map[string]any{"status": "accepted", "observed_metrics": map[string]any{}}); status != 422 || !strings.Contains(b, "missing_metric") {
		t.Errorf("%d %s", status, b)
	}
	if jobs := f.scan(v); len(jobs) != 0 {
		t.Error("validators replay what peers evaluate")
	}
	if status, b := f.post(v, "/api/v1/submissions/"+s.ID+"/verify", vote(1)); status != 409 || !strings.Contains(b, "peer_evaluated") {
		t.Errorf("%d %s", status, b)
	}
	if status, b := f.post(bob, path, vote(80)); status != 200 {
		t.Fatalf("%d %s", status, b)
	}
	if status, b := f.post(bob, path, vote(80)); status != 409 || !strings.Contains(b, "already_evaluated") {
		t.Errorf("%d %s", status, b)
	}
	if status, b := f.post(carol, path, vote(90)); status != 200 {
		t.Fatalf("%d %s", status, b)
	}
	got := f.submission(s.ID)
	if got.Status != "accepted" || got.Observed["size"] != 85 || got.Best == nil || !got.Best.Took {
		t.Errorf("%+v", got)
	}
	var c coordinator.Consensus
	f.get("/api/v1/submissions/"+s.ID+"/peer-consensus", 200, &c)
	if c.AcceptedCount != 2 || *c.Value != 85 || c.Status != "accepted" {
		t.Errorf("%+v", c)
	}
}

// Self-validation (5.7): a drawn committee, weights, threshold.
func TestSelfValidation(t *testing.T) {
	f := open(t)
	var hotkeys []string
	for i := range 5 {
		f.miner(fmt.Sprintf("m%d", i))
		hotkeys = append(hotkeys, f.key(fmt.Sprintf("m%d", i)).SS58())
	}
	task := f.task(func(m map[string]any) {
		m["competition_mode"] = "self_validation"
		m["self_validation_policy"] = map[string]any{"committee_size": 3, "committee_hotkeys": hotkeys, "sortition_seed": "x"}
	})
	s := f.submit(f.miner("alice"), task.ID, patch("2"))
	var c coordinator.Consensus
	f.get("/api/v1/submissions/"+s.ID+"/peer-consensus", 200, &c)
	if len(c.Committee) != 3 {
		t.Fatalf("%+v", c)
	}
	drawn := map[string]bool{}
	for _, h := range c.Committee {
		drawn[h] = true
	}
	n := 0
	for i := range 5 {
		name := fmt.Sprintf("m%d", i)
		status, b := f.post(f.miner(name), "/api/v1/submissions/"+s.ID+"/peer-evaluate", map[string]any{"status": "accepted", "observed_metrics": map[string]float64{"size": 80}})
		if in := drawn[f.key(name).SS58()]; in && status != 200 || !in && !strings.Contains(b, "not_in_committee") && !strings.Contains(b, "already_final") {
			t.Errorf("%s: %d %s", name, status, b)
		} else if in {
			n++
		}
	}
	if got := f.submission(s.ID); n != 3 || got.Status != "accepted" {
		t.Errorf("%d votes: %+v", n, got)
	}
}

// Rows 61, 63-65, 69, 72-74.
func TestAdminAndObservers(t *testing.T) {
	f := open(t)
	task := f.task()
	for field, v := range map[string]any{
		"slug": "x", "title": "y", "brief": strings.Repeat("b", 20001), "onboard_md": strings.Repeat("b", 40001), "allowed_patch_paths": []string{}, "metric_direction": "up",
		"time_budget_seconds": 86401, "benchmark_command": "", "competition_mode": "free", "ranking_mode": "pareto", "min_peer_evaluations": 21, "max_patch_bytes": -1,
	} {
		b, err := json.Marshal(toy(func(m map[string]any) { m["slug"] = "toy-two"; m[field] = v }))
		if err != nil {
			t.Fatal(err)
		}
		r, _ := http.NewRequest("POST", f.url+"/api/v1/tasks", bytes.NewReader(b))
		r.Header.Set("X-Admin-Token", adminToken)
		f.expect(r, 422, nil)
	}
	f.admin("POST", "/api/v1/tasks", toy(), 409, nil)
	f.admin("POST", "/api/v1/tasks", toy(func(m map[string]any) { m["slug"] = "toy-two"; delete(m, "files") }), 422, nil)
	var no map[string]string
	for _, p := range []string{"/api/v1/reward-policy"} {
		f.get(p, 401, &no)
		if no["detail"] != "invalid admin token" {
			t.Errorf("%v", no)
		}
	}
	bad := map[string]any{"validator_weights": map[string]any{"mode": "targets", "targets": []any{map[string]any{"uid": 0, "hotkey": f.key("a").SS58(), "weight": 1}}}}
	f.admin("PUT", "/api/v1/reward-policy", bad, 422, nil)
	good := map[string]any{"validator_weights": map[string]any{"mode": "targets", "targets": []any{map[string]any{"uid": 0, "weight": 90}, map[string]any{"hotkey": f.key("a").SS58(), "weight": 10}}}}
	f.admin("PUT", "/api/v1/reward-policy", good, 200, nil)
	f.admin("PUT", "/api/v1/reward-policy", map[string]any{"validator_weights": map[string]any{"mode": "burn_uid0"}}, 200, nil)
	var pol coordinator.PolicyHistory
	f.admin("GET", "/api/v1/reward-policy", nil, 200, &pol)
	if pol.Version != 2 || len(pol.History) != 2 || pol.History[1].ValidatorWeights.Mode != "targets" {
		t.Errorf("%+v", pol)
	}
	var snap map[string]any
	f.get("/api/v1/reward-snapshot", 200, &snap)
	if snap["reward_policy"].(map[string]any)["validator_weights"].(map[string]any)["mode"] != "burn_uid0" || snap["generated_at"] == nil {
		t.Errorf("%v", snap)
	}
	f.submit(f.miner("alice"), task.ID, patch("2"))
	f.claim(f.miner("alice"), task.ID)
	resp, err := http.Get(f.url + "/api/v1/dashboard")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var counts coordinator.Counts
	if err := json.NewDecoder(resp.Body).Decode(&counts); err != nil || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v %s", err, resp.Header.Get("Cache-Control"))
	}
	if counts.Tasks["live"] != 1 || counts.ActiveClaims != 1 || counts.Submissions["pending_verification"] != 1 || counts.Verifications["queued"] != 2 {
		t.Errorf("%+v", counts)
	}
	var disc map[string]any
	f.get("/disclaimer", 200, &disc)
	for _, k := range []string{"code", "version", "title", "summary", "must_display", "url"} {
		if disc[k] == nil {
			t.Errorf("disclaimer lacks %s", k)
		}
	}
	var health map[string]string
	f.get("/healthz", 200, &health)
	if health["status"] != "ok" {
		t.Errorf("%v", health)
	}
	f.get("/readyz", 204, nil)
	head, _ := http.NewRequest("HEAD", f.url+"/readyz", nil)
	f.expect(head, 405, nil)
	var doc struct {
		Paths map[string]map[string]struct {
			Security []map[string]any `json:"security"`
		} `json:"paths"`
	}
	f.get("/api/v1/openapi.json", 200, &doc)
	for path, want := range map[string]string{"/api/v1/submissions post": "miner", "/api/v1/validator/submissions/scan post": "validator", "/api/v1/reward-policy get": "admin", "/api/v1/claims/{id}/cancel post": "hotkey"} {
		p, m, _ := strings.Cut(path, " ")
		if s := doc.Paths[p][m].Security; len(s) != 1 || s[0][want] == nil {
			t.Errorf("%s: %v", path, s)
		}
	}
	f.get("/api/v1/nothing", 404, &no)
	if no["detail"] != "Not Found" {
		t.Errorf("%v", no)
	}
}

// Row 61: the longest slug of a task is that of the original; it is the arena's id, too.
func TestLongSlug(t *testing.T) {
	f := open(t)
	slug := strings.Repeat("long-slug-", 11) + "of-120-all"
	task := f.task(func(m map[string]any) { m["slug"] = slug })
	if task.Slug != slug || len(slug) != 120 {
		t.Errorf("%d bytes became %q", len(slug), task.Slug)
	}
	f.submit(f.miner("alice"), task.ID, patch("2"))
	f.claim(f.miner("alice"), task.ID)
	f.admin("POST", "/api/v1/tasks", toy(func(m map[string]any) { m["slug"] = slug + "x" }), 422, nil)
}

// Tasks that an admin created are there again after a restart, with the same
// ids and commits, and their submissions go on.
func TestResume(t *testing.T) {
	f := open(t)
	task := f.task()
	s := f.submit(f.miner("alice"), task.ID, patch("2"))
	again, err := coordinator.New(f.conf)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := again.Tasks(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("%+v %v", list, err)
	}
	if err := again.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := again.Task(t.Context(), task.ID)
	if err != nil || got.BaseSHA != task.BaseSHA || got.Slug != task.Slug || !got.CreatedAt.Equal(task.CreatedAt.Time) {
		t.Fatalf("%+v %v", got, err)
	}
	if x, err := again.Submission(t.Context(), s.ID); err != nil || x.Replays == nil || x.Replays.Queued != 2 {
		t.Fatalf("%+v %v", x, err)
	}
	if err := again.Resume(t.Context()); err != nil {
		t.Error(err)
	}
}

// Row 59: what the reward policy wants reaches the weights that validators set.
func TestPolicyWeights(t *testing.T) {
	f := open(t)
	task := f.task()
	f.miner("alice")
	f.miner("bob")
	g, err := f.led.Metagraph(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	put := func(status int, mode string, targets ...map[string]any) {
		t.Helper()
		f.admin("PUT", "/api/v1/reward-policy", map[string]any{"validator_weights": map[string]any{"mode": mode, "targets": targets}}, status, nil)
	}
	want := func(uids, values []uint16) {
		t.Helper()
		got, err := f.p.Target(t.Context(), task.Arena)
		if err != nil || got.Netuid != 4 || !slices.Equal(got.UIDs, uids) || !slices.Equal(got.Values, values) {
			t.Errorf("%+v %v, want %v %v", got, err, uids, values)
		}
	}
	own, err := f.p.Target(t.Context(), task.Arena)
	if err != nil {
		t.Fatal(err)
	}
	uid0, bob := map[string]any{"uid": 0, "weight": 90}, map[string]any{"hotkey": g.Neurons[1].Hotkey, "weight": 10}
	put(200, "targets", uid0, bob)
	want([]uint16{0, 1}, []uint16{65535, 7282})
	put(200, "targets", uid0, bob, map[string]any{"uid": 1, "weight": 80}) // the same neuron adds up
	want([]uint16{0, 1}, []uint16{65535, 65535})
	put(422, "targets")
	put(422, "targets", map[string]any{"uid": 0, "weight": 0})
	put(422, "anything")
	want([]uint16{0, 1}, []uint16{65535, 65535}) // a bad policy changes nothing
	put(200, "targets", bob, map[string]any{"hotkey": f.key("stranger").SS58(), "weight": 1000})
	want([]uint16{1}, []uint16{65535})
	put(200, "burn_uid0")
	want([]uint16{0}, []uint16{65535})
	put(200, "local")
	want(own.UIDs, own.Values)
}
