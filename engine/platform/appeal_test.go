package platform

import (
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// appealed is a submission that was played by one validator and appealed.
func appealed(t *testing.T) (f *fixture, id string) {
	t.Helper()
	f = pairedArena(t, 3, lone())
	s := f.submit(miner1, "agent")
	play(f, val1, 0.5, "ask")
	a, err := f.Appeal(bg, Caller{Hotkey: miner1}, s.ID, "the model was down")
	must(t, err)
	if a.State != agon.AppealOpen || !a.Deadline.Equal(f.clock.Now().Add(72*time.Hour)) || a.Compared.Tasks != 3 {
		t.Fatalf("%+v", a)
	}
	return f, s.ID
}

// play plays all that v gets with a value and one request.
func play(f *fixture, v string, value float64, request string) (plays int) {
	for {
		l := f.claim(v)
		if l == nil {
			return plays
		}
		plays++
		r := scored(l, value)
		r.Receipts = []agon.Receipt{{ID: l.ID, Task: l.Run.Tasks[0].Key, RequestHash: agon.Sum([]byte(request)), Outcome: "ok"}}
		f.result(v, l, r)
	}
}

// An appeal is played by another validator, compared, shown, and answered once.
func TestAppeal(t *testing.T) {
	f, id := appealed(t)
	before, err := f.Submission(bg, Caller{Hotkey: miner1}, id)
	must(t, err)
	if n := play(f, val1, 1, "other"); n != 0 {
		t.Fatalf("the validator whose result counts played %d runs again", n)
	}
	if s, err := f.Submission(bg, Caller{}, id); err != nil || !s.Appeal.Alone {
		t.Errorf("one validator serves the arena: %+v, %v", s.Appeal, err)
	}
	if n := play(f, val2, 0.5, "ask"); n != 3 {
		t.Fatalf("another played %d runs", n)
	}
	s, err := f.Submission(bg, Caller{}, id)
	must(t, err)
	if c := s.Appeal.Compared; c.Played != 3 || c.Same != 3 || c.Requests != 3 || c.Before != 0.5 || c.After != 0.5 || s.Appeal.Alone {
		t.Errorf("compared %+v", s.Appeal)
	}
	if *s.Score != *before.Score || s.CostMicros != before.CostMicros {
		t.Errorf("the appeal moved the result: %v %v", *s.Score, s.CostMicros)
	}
	b, err := f.Board(bg, "demo")
	must(t, err)
	if len(b.Appeals) != 1 || b.Appeals[0].State != agon.AppealOpen {
		t.Errorf("board %+v", b.Appeals)
	}
	op := Caller{Hotkey: operator, Operator: true}
	_, err = f.AnswerAppeal(bg, Caller{Hotkey: miner1}, id, true, "mine")
	wantCode(t, err, 403, "not_operator")
	a, err := f.AnswerAppeal(bg, op, id, false, "the same again")
	must(t, err)
	if a.State != agon.AppealDenied || a.Answer != "the same again" {
		t.Errorf("%+v", a)
	}
	_, err = f.AnswerAppeal(bg, op, id, true, "after all")
	wantCode(t, err, 409, "answered")
	_, err = f.Appeal(bg, Caller{Hotkey: miner1}, id, "again")
	wantCode(t, err, 409, "appealed")
	_, err = f.Appeal(bg, Caller{Hotkey: miner2}, id, "not mine")
	wantCode(t, err, 403, "not_miner")
	log, err := f.Actions(bg, op, 10)
	must(t, err)
	var said []string
	for _, x := range log {
		said = append(said, x.What)
	}
	if got := strings.Join(said, ","); got != "appeal denied,appeal" {
		t.Errorf("log %s", got)
	}
	if s, _ = f.Submission(bg, Caller{}, id); s.Credit != nil {
		t.Errorf("a denied appeal gives back %+v", s.Credit)
	}
}

// Without an answer until the deadline an appeal is granted: neither the entry
// nor the attempt counts.
func TestAppealDeadline(t *testing.T) {
	f, id := appealed(t)
	play(f, val2, 1, "differs")
	f.clock.add(72*time.Hour - time.Second)
	must(t, f.periods(bg))
	s, err := f.Submission(bg, Caller{}, id)
	must(t, err)
	if s.Appeal.State != agon.AppealOpen {
		t.Fatalf("%+v before the deadline", s.Appeal)
	}
	if c := s.Appeal.Compared; c.Same != 0 || c.Requests != 0 || c.After != 1 {
		t.Errorf("compared %+v", c)
	}
	f.clock.add(time.Second)
	must(t, f.periods(bg))
	s, err = f.Submission(bg, Caller{}, id)
	must(t, err)
	if s.Appeal.State != agon.AppealGranted || s.Credit == nil || !s.Credit.Quota || !s.Credit.Attempt {
		t.Fatalf("%+v, credit %+v", s.Appeal, s.Credit)
	}
	next := f.submit(miner1, "another agent")
	f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 1 })
	if n := f.decision(next.ID).Numbers["attempt"]; n != 1 {
		t.Errorf("the next entry is attempt %v", n)
	}
}

// A fault of ours gives back the entry, the attempt and the money.
func TestFaultOfOursIsCredited(t *testing.T) {
	f := pairedArena(t, 1, lone())
	f.arena.SubmissionsPerColdkey = 1
	must(t, f.EnsureArena(bg, f.arena))
	s := f.submit(miner1, "agent")
	for range 3 { // the arena retries twice
		l := f.claim(val1)
		if l == nil {
			f.clock.add(2 * time.Minute)
			if l = f.claim(val1); l == nil {
				break
			}
		}
		f.result(val1, l, client.Result{Token: l.Token, Outcome: "lost", Fault: agon.FaultProvider, Reason: "down", Cost: 7, Driver: agon.Driver{Name: "runc"}})
	}
	v, err := f.Submission(bg, Caller{Hotkey: miner1}, s.ID)
	must(t, err)
	if v.State != agon.SubmissionExcluded || v.Credit == nil || !v.Credit.Quota || !v.Credit.Attempt || v.Credit.Micros != 21 || v.CostMicros != 0 {
		t.Fatalf("%s: %+v", v.State, v.Credit)
	}
	next := f.submit(miner1, "another agent")
	f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 1 })
	if n := f.decision(next.ID).Numbers["attempt"]; n != 1 {
		t.Errorf("the next entry is attempt %v", n)
	}
	_, err = f.Submit(bg, Caller{Hotkey: miner1}, "demo", request("a third"))
	wantCode(t, err, 429, "coldkey_cap")
}

// A hotkey waits between two entries, by whatever way they come; what is sent
// again is not an entry, and others do not wait.
func TestCooldown(t *testing.T) {
	f := pairedArena(t, 1, lone())
	f.arena.CooldownSeconds = 3600
	must(t, f.EnsureArena(bg, f.arena))
	first := f.submit(miner1, "agent")
	_, err := f.Submit(bg, Caller{Hotkey: miner1}, "demo", request("another agent"))
	wantCode(t, err, 429, "cooldown")
	if again := f.submit(miner1, "agent"); again.ID != first.ID {
		t.Errorf("the same files again are submission %s, want %s", again.ID, first.ID)
	}
	f.clock.add(time.Hour - time.Second)
	_, err = f.Submit(bg, Caller{Hotkey: miner1}, "demo", request("another agent"))
	wantCode(t, err, 429, "cooldown")
	f.clock.add(time.Second)
	f.submit(miner1, "another agent")
}
