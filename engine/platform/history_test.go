package platform

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store/teststore"
	"github.com/agon-arena/agon/engine/translog"
)

// withHistory gives a fixture its log.
func (f *fixture) withHistory() *translog.Log {
	f.t.Helper()
	key, err := translog.LoadKey(filepath.Join(f.dir, "log.key"), func(ed25519.PublicKey) string { return "agon.test/log" })
	must(f.t, err)
	l, err := translog.Open(bg, translog.Config{Storage: translog.Dir(filepath.Join(f.dir, "log")), Source: Facts{f.cfg.Store}, Key: key, Commits: f.cfg.Store.Commits})
	must(f.t, err)
	f.SetHistory(l)
	return l
}

// opened is what a reader over HTTP makes of a result's leaf: the view as JSON
// and back, compared with the commitment.
func (f *fixture) opened(c Caller, key, run string) error {
	f.t.Helper()
	p, err := f.Proof(bg, c, translog.TypeResult, run+"/1")
	if err != nil {
		return err
	}
	e, _, err := translog.CheckProof(p, key)
	if err != nil {
		return err
	}
	if p.Salt == "" {
		return fmt.Errorf("no salt for %v", c)
	}
	r, err := f.Run(bg, c, run)
	if err != nil {
		return err
	}
	events, err := f.Events(bg, c, run, 0, 0, 100)
	if err != nil {
		return err
	}
	receipts, err := f.Receipts(bg, c, run, 1)
	if err != nil {
		return err
	}
	var v struct {
		Run      client.Run
		Events   []agon.Event
		Receipts []agon.Receipt
	}
	b, err := json.Marshal(map[string]any{"Run": r, "Events": events, "Receipts": receipts})
	must(f.t, err)
	must(f.t, json.Unmarshal(b, &v))
	if len(v.Run.List) == 0 {
		return errors.New("the run has no attempt")
	}
	var head agon.Digest
	for _, e := range v.Events {
		head = translog.HeadOf(head, e)
	}
	policy, err := PolicyDigest(v.Run.Policy)
	must(f.t, err)
	res, err := translog.ResultOf(v.Run.RunSpec, policy, v.Run.Submission, v.Run.List[0], v.Run.Scores, int64(len(v.Events)), head, v.Receipts)
	if err != nil {
		return err
	}
	return e.Opens(p.Salt, res)
}

// played is a fixture in which one submission was played and decided, with all
// that an attempt can have.
func played(t *testing.T) (f *fixture, key, sub, run string) {
	f = newFixture(t, 1)
	l := f.withHistory()
	s := f.submit(miner1, "agent one")
	lease := f.claim(val1)
	ev := func(seq int64, data string) agon.Event {
		return agon.Event{Seq: seq, At: f.clock.Now(), Task: lease.Run.Tasks[0].Key, Type: agon.EventNote, Data: json.RawMessage(data)}
	}
	_, err := f.Heartbeat(bg, Caller{Hotkey: val1}, lease.ID, client.Heartbeat{Token: lease.Token, State: agon.RunPlaying, Events: []agon.Event{ev(1, `{"text": "a <b>"}`), ev(2, `{"text":"two"}`)}})
	must(t, err)
	r := scored(lease, 0.75)
	r.Events = []agon.Event{ev(3, `{"text":"three"}`)}
	r.Scores[0].Metrics, r.Scores[0].Detail = map[string]float64{"x": 1.5, "a": 2}, "why \x00 so"
	r.Driver = agon.Driver{Name: "runc", Version: "1", Limits: []string{"pids", "memory"}}
	r.Receipts = []agon.Receipt{{ID: "r2", Cost: 4, Reserved: 5}, {ID: "r1", Cost: 6, Reserved: 6, Task: lease.Run.Tasks[0].Key}}
	if !f.result(val1, lease, r).Counted {
		t.Fatal("not counted")
	}
	_, err = l.Publish(bg) // what comes later is noticed
	must(t, err)
	return f, l.Key(), s.ID, lease.Run.Run
}

// What the API shows of a fact is what the log has committed to, for those who
// may read it; nobody else can open it.
func TestHistory(t *testing.T) {
	f, key, sub, run := played(t)
	if err := f.opened(Caller{}, key, run); err != nil {
		t.Fatal(err)
	}
	s, err := f.Submission(bg, Caller{}, sub)
	must(t, err)
	p, err := f.Proof(bg, Caller{}, translog.TypeSubmission, sub)
	must(t, err)
	e, _, err := translog.CheckProof(p, key)
	must(t, err)
	must(t, e.Opens(p.Salt, translog.SubmissionOf(s.Submission)))
	p, err = f.Proof(bg, Caller{}, translog.TypeDecision, sub)
	must(t, err)
	e, head, err := translog.CheckProof(p, key)
	must(t, err)
	var d agon.Decision
	must(t, json.Unmarshal(e.Body, &d))
	commits, _ := f.cfg.Store.Commits() // PostgreSQL counts none
	if d.Outcome != agon.TookSeat || d.Challenger != sub || (head.Commits == 0 || head.CommitHash == "") != (commits == 0) {
		t.Errorf("%+v, head %+v", d, head)
	}
	// An undecided submission's digest stays its miner's.
	two := f.submit(miner2, "agent two")
	for c, open := range map[Caller]bool{{}: false, {Hotkey: miner1}: false, {Hotkey: miner2}: true, {Hotkey: operator, Operator: true}: true} {
		p, err := f.Proof(bg, c, translog.TypeSubmission, two.ID)
		must(t, err)
		if (p.Salt != "") != open || strings.Contains(string(p.Entry), two.Digest.Hex()) {
			t.Errorf("%+v: salt %q, entry %s", c, p.Salt, p.Entry)
		}
	}
	must(t, f.Ban(bg, Caller{Hotkey: operator, Operator: true}, two.ID, "because of a secret"))
	p, err = f.Proof(bg, Caller{}, translog.TypeOperator, "1")
	must(t, err)
	if p.Salt != "" || strings.Contains(string(p.Entry), "secret") || !strings.Contains(string(p.Entry), `"ban"`) {
		t.Errorf("an operator's act shows %s, salt %q", p.Entry, p.Salt)
	}
	if _, err := f.Proof(bg, Caller{}, translog.TypeDecision, "nobody"); err == nil {
		t.Error("a proof of nothing")
	}
}

// Events that came out of order have the same head.
func TestHistoryUnordered(t *testing.T) {
	f := newFixture(t, 1)
	l := f.withHistory()
	f.submit(miner1, "agent one")
	lease := f.claim(val1)
	for _, seq := range []int64{2, 1} {
		_, err := f.Heartbeat(bg, Caller{Hotkey: val1}, lease.ID, client.Heartbeat{Token: lease.Token, State: agon.RunPlaying, Events: []agon.Event{{Seq: seq, At: f.clock.Now(), Type: agon.EventNote, Data: json.RawMessage(`{}`)}}})
		must(t, err)
	}
	f.result(val1, lease, scored(lease, 1))
	if err := f.opened(Caller{}, l.Key(), lease.Run.Run); err != nil {
		t.Error(err)
	}
}

// Each column of each table that a check of a run reads is bound: changing it
// is noticed. What is not bound is listed with its reason.
func TestHistoryBindsColumns(t *testing.T) {
	free := map[string]string{
		"attempts.lease": "an internal name", "attempts.token_hash": "a secret's hash", "attempts.arena": "of the run", "attempts.submission": "of the run",
		"attempts.outcome": "the kind's word, not shown", "attempts.counted": "others may judge again", "attempts.lease_until": "of the lease", "attempts.seen_at": "of the lease",
		"attempts.event_bytes": "a quota", "attempts.event_count": "events are counted by the reader", "attempts.fact": "finds the proof", "attempts.event_head": "the reader computes it", "attempts.result_hash": "for repeats",
		"attempts.reply": "for repeats",
		"runs.n":         "order in the queue", "runs.sub_seq": "order in the queue", "runs.max_hold_us": "of the queue",
		"runs.state": "of the queue", "runs.again": "of the queue", "runs.attempts": "of the queue", "runs.retries": "of the queue", "runs.deadline": "of the queue", "runs.driver": "of the queue",
		"runs.created_at": "of the queue", "runs.ended_at": "of the queue", "runs.fault": "of its attempts, which are bound", "runs.reason": "of its attempts, which are bound", "runs.grp": "of the queue",
		"scores.attempt": "others may judge again", "scores.score_key": "computed from what is bound",
		"receipts.id": "stands in the body, which is bound", "receipts.task": "stands in the body, which is bound", "policies.digest": "the body is bound", "runs.policy": "names the row of policies, whose body is bound",
	}
	f, key, _, run := played(t)
	db, id := teststore.Raw(t, f.dir)
	id = "CAST(" + id + " AS text)"
	at := map[string]string{"attempts": "run = $1", "events": "run = $1 AND seq = 2", "scores": "run = $1", "receipts": "run = $1 AND id = 'r1'", "runs": "id = $1", "policies": "$1 <> ''"}
	done := 0
	for table, where := range at {
		rows, err := db.Query("SELECT * FROM " + table + " WHERE 1 = 0")
		must(t, err)
		cols, err := rows.Columns()
		must(t, errors.Join(err, rows.Close()))
		for _, c := range cols {
			name := table + "." + c
			if _, ok := free[name]; ok {
				continue
			}
			var old any
			var row string
			must(t, db.QueryRow("SELECT "+c+", "+id+" FROM "+table+" WHERE "+where, run).Scan(&old, &row))
			for _, v := range alterations(old) {
				change := "UPDATE " + table + " SET " + c + " = $2 WHERE " + id + " = $1 RETURNING " + id
				if err := db.QueryRow(change, row, v).Scan(&row); err != nil {
					continue // the database itself refuses it
				}
				if err := f.opened(Caller{Hotkey: operator, Operator: true}, key, run); err == nil {
					t.Errorf("%s: %v in place of %v is not noticed", name, v, old)
				}
				done++
				must(t, db.QueryRow(change, row, old).Scan(&row))
			}
		}
	}
	if err := f.opened(Caller{}, key, run); err != nil {
		t.Fatalf("put back: %v", err)
	}
	if done < 40 {
		t.Errorf("only %d alterations", done)
	}
}

// alterations of a column's value.
func alterations(old any) []any {
	switch v := old.(type) {
	case int64:
		if v == 1 { // of a flag, 2 would mean the same
			return []any{int64(0)}
		}
		return []any{v + 1}
	case float64:
		return []any{v / 2}
	case string:
		out := []any{}
		for i := range v { // another digit somewhere keeps JSON readable
			if c := v[i]; c >= '0' && c < '9' {
				out = append(out, v[:i]+string(c+1)+v[i+1:])
				break
			}
		}
		if strings.HasPrefix(v, "{") && v != "{}" {
			out = append(out, strings.Replace(v, "{", `{"zz":1,`, 1))
			return slices.Clip(out[:min(1, len(out))])
		}
		return append(out, v+"x")
	}
	return nil
}

// sickDir is a place of a log's files that can be made to fail.
type sickDir struct {
	translog.Dir
	sick bool
}

func (d *sickDir) Write(name string, data []byte, durable bool) error {
	if d.sick {
		return errors.New("no route to the bucket")
	}
	return d.Dir.Write(name, data, durable)
}

// While the log's files cannot be written a proof of what is newer says so, without another
// try of each who asks; older proofs are given, and all are when it goes on.
func TestProofBehind(t *testing.T) {
	f := newFixture(t, 1)
	key, err := translog.LoadKey(filepath.Join(f.dir, "log.key"), func(ed25519.PublicKey) string { return "agon.test/log" })
	must(t, err)
	at := &sickDir{Dir: translog.Dir(filepath.Join(f.dir, "log"))}
	l, err := translog.Open(bg, translog.Config{Storage: at, Source: Facts{f.cfg.Store}, Key: key, Commits: f.cfg.Store.Commits})
	must(t, err)
	f.SetHistory(l)
	over, end := context.WithCancel(bg)
	end()
	first := f.submit(miner1, "one")
	proof := func(id, want string) {
		t.Helper()
		_, err := f.Proof(bg, Caller{Hotkey: operator, Operator: true}, translog.TypeSubmission, id)
		var e *agon.Error
		if errors.As(err, &e); want != "" && (e == nil || e.Code != want || e.Status != 503) || want == "" && err != nil {
			t.Errorf("%v, want %q", err, want)
		}
	}
	proof(first.ID, "")
	at.sick = true
	second := f.submit(miner2, "two")
	proof(second.ID, "log_behind")
	l.Run(over)
	at.sick = false
	proof(second.ID, "log_behind") // Run has not been there yet
	proof(first.ID, "")
	l.Run(over)
	proof(second.ID, "")
}
