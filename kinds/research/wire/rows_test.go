package wire_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
	"github.com/agon-arena/agon/kinds/research/signin"
)

// Row 5: what is signed is the parsed body: order and blanks do not matter.
// Row 10: a read may be repeated as it is, what changes something may not.
func TestBodyOrderAndRepeats(t *testing.T) {
	f := open(t)
	task := f.task()
	f.miner("alice")
	path := "/api/v1/tasks/" + task.ID + "/claim"
	canonical := []byte(`{"base_submission_id":"","claim_description":"manual miner run"}`)
	for _, wire := range []string{"{\"claim_description\": \"manual miner run\",\n\t\"base_submission_id\": \"\"}", `{"base_submission_id":"" ,"claim_description":"manual \u006diner run"}`} {
		f.expect(signedBy(f, "alice", "POST", path, []byte(wire), canonical, f.clock.Now()), 200, nil)
	}
	locked := signedBy(f, "alice", "GET", "/api/v1/submissions/none/detail", nil, nil, f.clock.Now())
	for range 2 {
		again := locked.Clone(t.Context())
		f.expect(again, 404, nil) // signed and seen before, and answered all the same
	}
}

// dropper loses the answers of results after the server has made them.
type dropper struct{ dropped int }

func (d *dropper) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || filepath.Base(r.URL.Path) != "result" {
		return resp, err
	}
	_, _ = io.Copy(io.Discard, resp.Body) // the server is through
	resp.Body.Close()
	d.dropped++
	return nil, errors.New("connection reset by peer")
}

// Row 45: the answer to a result is lost. The stock client asks for the
// verifications of the submission and finds its job's id there, final.
func TestLostAnswer(t *testing.T) {
	f := open(t)
	task := f.task()
	s := f.submit(f.miner("alice"), task.ID, patch("2"))
	v := f.validator("v1")
	j := f.scan(v)[0]
	d := &dropper{}
	v.HTTP = &http.Client{Transport: d}
	body, err := json.Marshal(map[string]any{"submission_id": s.ID, "status": "accepted", "observed_metrics": map[string]float64{"size": 90}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = v.Do(t.Context(), "POST", "/api/v1/validator/jobs/"+j.ID+"/result", nil, body, true)
	var answer *miner.APIError
	if err == nil || errors.As(err, &answer) || d.dropped != 1 {
		t.Fatalf("the answer arrived: %v", err)
	}
	var rows []coordinator.Verification
	f.get("/api/v1/verifications?submission_id="+s.ID, 200, &rows)
	if len(rows) != 1 || rows[0].ID != j.ID || rows[0].Status != "accepted" {
		t.Errorf("%+v", rows)
	}
	if status, b := f.post(f.validator("v1"), "/api/v1/validator/jobs/"+j.ID+"/result", json.RawMessage(body)); status != 200 {
		t.Errorf("sent again: %d %s", status, b)
	}
	f.get("/api/v1/verifications?submission_id="+s.ID, 200, &rows)
	if len(rows) != 1 {
		t.Errorf("%d verifications", len(rows))
	}
}

// Row 63: a paused or closed task takes nothing new; what is under way ends.
func TestPausedJobsFinish(t *testing.T) {
	for _, word := range []string{"pause", "close"} {
		f := open(t)
		task := f.task(func(m map[string]any) { m["rules"] = map[string]any{"agree": 1, "replays": 2} })
		s := f.submit(f.miner("alice"), task.ID, patch("2"))
		v := f.validator("v1")
		j := f.scan(v)[0]
		var view coordinator.TaskView
		f.admin("POST", "/api/v1/tasks/"+task.ID+"/"+word, nil, 200, &view)
		if view.State != word+"d" || view.Active {
			t.Errorf("%+v", view)
		}
		if status, b := f.post(v, "/api/v1/validator/jobs/"+j.ID+"/result", map[string]any{"submission_id": s.ID, "status": "accepted", "observed_metrics": map[string]float64{"size": 90}}); status != 200 {
			t.Fatalf("%s: %d %s", word, status, b)
		}
		if got := f.submission(s.ID); got.Status != "accepted" || got.Observed["size"] != 90 {
			t.Errorf("%s: %+v", word, got)
		}
	}
}

// Row 36: pool style resumes one's own item, else takes the highest priority, else the oldest.
func TestPoolStyle(t *testing.T) {
	item := func(title string, priority int) map[string]any {
		return map[string]any{"kind": "explore", "title": title, "instructions": "Do " + title + ".", "priority": priority, "base_submission_id": ""}
	}
	b, err := json.Marshal(map[string]any{"items": []any{item("low", 1), item("high", 9), item("high too", 9), item("middle", 5)}})
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, planner(t, map[string]any{"last": "Make it smaller.", "content": string(b)}))
	task := f.task()
	f.admin("POST", "/api/v1/planner/run-agentic", map[string]string{"task_id": task.ID}, 200, nil)
	var printed bytes.Buffer
	a := &miner.Agent{
		Client: f.miner("alice"), Command: "exit 1", Mode: miner.ModeManaged, Slug: "toy", Root: filepath.Join(t.TempDir(), "w"), Sidecar: "submission.json", Pool: true,
		Result: "submission_result.json", MaxLog: 1000, CoordinatorURL: f.url, Now: time.Now, Out: &printed,
	}
	once := func() *miner.Cycle {
		out, _ := a.Once(t.Context(), 1) // the command fails, and the claim goes back
		return out
	}
	if out := once(); out.WorkItem == nil || out.WorkItem.Title != "high" {
		t.Errorf("first %+v", out.WorkItem)
	}
	var list []coordinator.WorkItem
	f.get("/api/v1/work-items?status=open&task_id="+task.ID, 200, &list)
	if len(list) != 4 || list[0].Title != "high" || list[1].Title != "high too" || list[2].Title != "middle" {
		t.Fatalf("%+v", list)
	}
	own, _, err := a.Client.Claim(t.Context(), "", list[3].ID, "")
	if err != nil {
		t.Fatal(err)
	}
	if out := once(); out.WorkItem == nil || out.WorkItem.Title != "low" || out.Claim.ID != own.ID {
		t.Errorf("one's own: %+v %+v", out.WorkItem, out.Claim)
	}
	if _, _, err := f.miner("bob").Claim(t.Context(), "", list[0].ID, ""); err != nil {
		t.Fatal(err)
	}
	if out := once(); out.WorkItem == nil || out.WorkItem.Title != "high too" {
		t.Errorf("another has the first: %+v", out.WorkItem)
	}
}

// Row 39: who signs for another recipient than the message names is refused.
func TestRecipientOfAnother(t *testing.T) {
	f := open(t)
	f.miner("alice")
	mine, other := f.key("alice/elsewhere").SS58(), f.key("mallory").SS58()
	ts := strconv.FormatInt(f.clock.Now().Unix(), 10)
	sig, err := f.key("alice").Sign(signin.RecipientMessage(ts, mine))
	if err != nil {
		t.Fatal(err)
	}
	send := func(recipient string, status int) {
		t.Helper()
		body, err := json.Marshal(map[string]string{"recipient_coldkey": recipient})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest("POST", f.url+"/coldkey_address/update", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Key", f.key("alice").SS58())
		r.Header.Set("X-Timestamp", ts)
		r.Header.Set("X-Signature", hex.EncodeToString(sig))
		f.expect(r, status, nil)
	}
	send(other, 401)
	f.get("/api/v1/miners/recipient-coldkey/"+f.key("alice").SS58(), 404, nil)
	send(mine, 200)
	var rec coordinator.Recipient
	f.get("/api/v1/miners/recipient-coldkey/"+f.key("alice").SS58(), 200, &rec)
	if rec.Coldkey != mine {
		t.Errorf("%+v", rec)
	}
}

// A validator that says that a job is under way keeps it beyond its lease, up to
// the longest hold; one that says nothing loses it.
func TestJobHeartbeat(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["rules"] = map[string]any{"agree": 1, "replays": 3} })
	s := f.submit(f.miner("alice"), task.ID, patch("2"))
	v, other := f.validator("v1"), f.validator("v2")
	j := f.scan(v)[0]
	path := "/api/v1/validator/jobs/" + j.ID + "/heartbeat"
	if status, b := f.post(other, path, nil); status != 403 {
		t.Errorf("another's job: %d %s", status, b)
	}
	if status, b := f.post(v, "/api/v1/validator/jobs/none/heartbeat", nil); status != 404 {
		t.Errorf("no job: %d %s", status, b)
	}
	pass := func(d time.Duration) {
		t.Helper()
		f.clock.Add(d)
		if err := f.p.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pass(15 * time.Minute) // the lease is 10 min of budget and 10 min more
	status, b := f.post(v, path, nil)
	var row coordinator.Verification
	if status != 200 || json.Unmarshal([]byte(b), &row) != nil || row.ID != j.ID || !row.ExpiresAt.Equal(f.clock.Now().Add(20*time.Minute)) {
		t.Fatalf("%d %s", status, b)
	}
	pass(15 * time.Minute)
	if jobs := f.scan(other); len(jobs) != 0 {
		t.Fatalf("a held job is issued again: %+v", jobs)
	}
	if jobs := f.scan(v); len(jobs) != 1 || jobs[0].ID != j.ID {
		t.Fatalf("%+v", jobs)
	}
	for range 10 { // for ever is too long
		f.post(v, path, nil)
		pass(15 * time.Minute)
	}
	if jobs := f.scan(other); len(jobs) != 1 || jobs[0].Submission.ID != s.ID {
		t.Errorf("a job that is held for ever: %+v", jobs)
	}
	if status, b := f.post(v, path, nil); status != 200 || json.Unmarshal([]byte(b), &row) != nil || row.ExpiresAt.After(f.clock.Now()) {
		t.Errorf("a lost job: %d %s", status, b)
	}
}

// Of requests that are alike and come at once only one does anything, and what
// was refused is used too.
func TestReplayedAtOnce(t *testing.T) {
	f := open(t)
	task := f.task()
	f.miner("alice")
	path, body := "/api/v1/tasks/"+task.ID+"/claim", []byte(`{"claim_description":"a try"}`)
	send := func(r *http.Request) (int, string) {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return resp.StatusCode, string(b)
	}
	first := signedBy(f, "alice", "POST", path, body, body, f.clock.Now())
	copyOf := func() *http.Request {
		r := first.Clone(t.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		return r
	}
	var mu sync.Mutex
	by := map[int]int{}
	var wg sync.WaitGroup
	for range 8 {
		r := copyOf()
		wg.Go(func() {
			status, b := send(r)
			mu.Lock()
			defer mu.Unlock()
			if by[status]++; status == 401 && b != `{"detail":"request was used before: sign it again"}` {
				t.Errorf("%s", b)
			}
		})
	}
	wg.Wait()
	var claims []coordinator.Claim
	f.get("/api/v1/claims?task_id="+task.ID, 200, &claims)
	if by[200] != 1 || by[401] != 7 || len(claims) != 1 {
		t.Fatalf("%v, %d claims", by, len(claims))
	}
	// Refused while the task is paused; the same request does nothing later.
	f.admin("POST", "/api/v1/tasks/"+task.ID+"/pause", nil, 200, nil)
	first = signedBy(f, "alice", "POST", path, body, body, f.clock.Now())
	if status, b := send(copyOf()); status != 409 {
		t.Fatalf("%d %s", status, b)
	}
	f.admin("POST", "/api/v1/tasks/"+task.ID+"/resume", nil, 200, nil)
	if status, b := send(copyOf()); status != 401 {
		t.Errorf("a refused request later: %d %s", status, b)
	}
	f.get("/api/v1/claims?task_id="+task.ID, 200, &claims)
	if len(claims) != 1 {
		t.Errorf("%d claims", len(claims))
	}
}
