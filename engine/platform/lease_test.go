package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

func (f *fixture) beat(l *client.Lease, h client.Heartbeat) *client.HeartbeatReply {
	f.t.Helper()
	h.Token = l.Token
	r, err := f.Heartbeat(bg, Caller{Hotkey: f.holderOf(l)}, l.ID, h)
	must(f.t, err)
	return r
}

func (f *fixture) holderOf(l *client.Lease) (v string) {
	f.t.Helper()
	f.read(func(tx *store.Tx) error {
		a, err := tx.AttemptByLease(l.ID)
		v = a.Validator
		return err
	})
	return v
}

func (f *fixture) run(id string) *client.Run {
	f.t.Helper()
	r, err := f.Run(bg, Caller{Operator: true}, id)
	must(f.t, err)
	return r
}

func (f *fixture) sweepAfter(d time.Duration) {
	f.t.Helper()
	f.clock.add(d)
	must(f.t, f.Sweep(bg))
}

func failedBy(l *client.Lease, fault agon.Fault) client.Result {
	r := scored(l, 1)
	r.Fault, r.Reason, r.Outcome = fault, "because", "broken"
	return r
}

func TestClaimRefusals(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	kinds := []string{"fake"}
	for name, tt := range map[string]struct {
		caller string
		req    client.ClaimRequest
		status int
		code   string
	}{
		"unsigned":      {"", client.ClaimRequest{Kinds: kinds}, 401, "unsigned"},
		"no permit":     {miner1, client.ClaimRequest{Kinds: kinds}, 403, "no_permit"},
		"unknown arena": {val1, client.ClaimRequest{Kinds: kinds, Arenas: []string{"x"}}, 404, "not_found"},
		"absurd":        {val1, client.ClaimRequest{Kinds: make([]string, 101)}, 422, "bad_claim"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.Claim(bg, Caller{Hotkey: tt.caller}, tt.req)
			wantCode(t, err, tt.status, tt.code)
		})
	}
	l, err := f.Claim(bg, Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{"chess"}})
	if l != nil || err != nil {
		t.Errorf("a kind that no arena has: %v, %v", l, err)
	}
}

func TestLeaseCarriesWhatAValidatorNeeds(t *testing.T) {
	f := newFixture(t, 2)
	s := f.submit(miner1, "x")
	l := f.claim(val1)
	if len(l.Token) != 64 || l.Attempt != 1 || l.Submission.ID != s.ID || l.Arena.ID != "demo" || len(l.Run.Tasks) != 1 ||
		l.Run.Seed == 0 || l.HeartbeatMS != 10_000 || !l.Until.Equal(f.clock.Now().Add(time.Minute)) {
		t.Errorf("lease: %+v", l)
	}
	other := f.claim(val1)
	if other.Run.Run == l.Run.Run || other.Run.Seed == l.Run.Seed {
		t.Errorf("two runs with seed %d", l.Run.Seed)
	}
	if again, err := f.Submission(bg, Caller{}, s.ID); err != nil || again.State != agon.SubmissionPlaying {
		t.Errorf("submission is %s, %v", again.State, err)
	}
	f.read(func(tx *store.Tx) error {
		a, err := tx.AttemptByLease(l.ID)
		if strings.Contains(fmt.Sprintf("%+v", a), l.Token) {
			t.Error("the token itself is stored")
		}
		return err
	})
}

func TestCapPerValidator(t *testing.T) {
	f := newFixture(t, 4, func(_ *Config, a *agon.Arena) { a.MaxLeases = 2 })
	f.submit(miner1, "x")
	l := f.claim(val1)
	if f.claim(val1) == nil || f.claim(val1) != nil {
		t.Fatal("want two leases and no third")
	}
	if f.claim(val2) == nil {
		t.Fatal("the cap of one validator stops another")
	}
	f.result(val1, l, scored(l, 1))
	if f.claim(val1) == nil {
		t.Fatal("a settled lease still counts")
	}
}

func TestHeartbeat(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	l := f.claim(val1)
	f.clock.add(50 * time.Second)
	r := f.beat(l, client.Heartbeat{State: agon.RunPlaying})
	if r.Cancel || !r.Until.Equal(f.clock.Now().Add(time.Minute)) {
		t.Fatalf("reply: %+v", r)
	}
	f.sweepAfter(50 * time.Second)
	f.beat(l, client.Heartbeat{State: agon.RunPlaying}) // a repeated state is fine
	f.beat(l, client.Heartbeat{})
	for _, tt := range []struct {
		state  agon.RunState
		status int
		code   string
	}{{agon.RunLeased, 422, "bad_state"}, {agon.RunScored, 422, "bad_state"}, {"dancing", 422, "bad_state"}} {
		_, err := f.Heartbeat(bg, Caller{Hotkey: val1}, l.ID, client.Heartbeat{Token: l.Token, State: tt.state})
		wantCode(t, err, tt.status, tt.code)
	}
	f.beat(l, client.Heartbeat{State: agon.RunJudging})
	_, err := f.Heartbeat(bg, Caller{Hotkey: val1}, l.ID, client.Heartbeat{Token: l.Token, State: agon.RunPlaying})
	wantCode(t, err, 409, "bad_transition")
	for name, try := range map[string]func() error{
		"another validator": func() error {
			_, err := f.Heartbeat(bg, Caller{Hotkey: val2}, l.ID, client.Heartbeat{Token: l.Token})
			return err
		},
		"wrong token": func() error {
			_, err := f.Heartbeat(bg, Caller{Hotkey: val1}, l.ID, client.Heartbeat{Token: "x"})
			return err
		},
		"result of another": func() error {
			_, err := f.Platform.Result(bg, Caller{Hotkey: val2}, l.ID, scored(l, 1))
			return err
		},
	} {
		e := wantCode(t, try(), 403, "not_holder")
		if strings.Contains(e.Error(), l.Token) {
			t.Errorf("%s: the error shows the token", name)
		}
	}
	_, err = f.Heartbeat(bg, Caller{Hotkey: val1}, "nothing", client.Heartbeat{})
	wantCode(t, err, 404, "not_found")

	// A holder that never ends loses the run however often it beats.
	for range 100 {
		f.clock.add(50 * time.Second)
		if f.beat(l, client.Heartbeat{}).Cancel {
			break
		}
		must(t, f.Sweep(bg))
	}
	if r := f.run(l.Run.Run); r.State != agon.RunQueued || r.Fault != agon.FaultValidator || !strings.Contains(r.List[0].Reason, "1h0m0s") {
		t.Errorf("run: %s %s %q", r.State, r.Fault, r.List[0].Reason)
	}
	checkInvariants(t, f.cfg.Store)
}

// TestRetries: a fault of ours is retried twice, then the run fails; it is
// counted for arena, validator and provider.
func TestRetries(t *testing.T) {
	for _, fault := range agon.Faults {
		t.Run(string(fault), func(t *testing.T) {
			f := newFixture(t, 1)
			f.submit(miner1, "x")
			attempts := 0
			for l := f.claim(val1); l != nil; l = f.claim(val1) {
				attempts++
				r := failedBy(l, fault)
				if fault != agon.FaultAgent && fault != agon.FaultValidator {
					r.Outcome = client.OutcomeGivenBack // spares the try of a validator that stops, and no other fault
				}
				r.Receipts = []agon.Receipt{{ID: "1", Provider: "other", Outcome: "provider_error"}, {ID: "2", Provider: "upstream", Outcome: "provider_error"}, {ID: "3", Provider: "fine", Outcome: "ok"}}
				f.result(val1, l, r)
			}
			o, err := f.Overview(bg)
			must(t, err)
			row := o.Arenas[0].Submissions[0]
			if fault == agon.FaultAgent {
				if attempts != 1 || o.Runs.Scored != 1 || *row.Score != 0 || *row.Solved != 0 || row.State != agon.SubmissionScored {
					t.Fatalf("agent's fault: %d attempts, %+v", attempts, row)
				}
				return
			}
			if attempts != 3 || o.Runs.Failed != 1 || o.Runs.Scored != 0 || o.Runs.ByFault[fault] != 3 {
				t.Fatalf("%d attempts, %+v", attempts, o.Runs)
			}
			if row.Score != nil || row.State != agon.SubmissionExcluded || len(o.Arenas[0].Decisions) != 0 {
				t.Fatalf("our fault became a result: %+v", row)
			}
			counts, err := f.FaultCounts(bg)
			must(t, err)
			want := fmt.Sprint([]store.Counter{{Scope: "validator", Name: val1, Key: faultKey(fault), N: 3}})
			if fault == agon.FaultProvider {
				want = fmt.Sprint([]store.Counter{
					{Scope: "validator", Name: val1, Key: faultKey(fault), N: 3}, {Scope: "provider", Name: "upstream", Key: faultKey(fault), N: 3},
				})
			}
			if fmt.Sprint(counts) != want {
				t.Errorf("counts: %v, want %s", counts, want)
			}
			checkInvariants(t, f.cfg.Store)
		})
	}
}

// TestLate: what a lost lease reports is kept and never counted, whatever the
// run does meanwhile.
func TestLate(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	lost := f.claim(val1)
	f.sweepAfter(61 * time.Second)
	r := f.beat(lost, client.Heartbeat{State: agon.RunPlaying, Events: []agon.Event{{Seq: 1, Type: agon.EventNote, Data: json.RawMessage(`{}`)}}})
	if !r.Cancel {
		t.Fatal("the loser is not told")
	}
	late := scored(lost, 1)
	late.Reason = "it took long"
	reply := f.result(val1, lost, late)
	if reply.Counted || !reply.Late || reply.State != agon.RunQueued {
		t.Fatalf("late: %+v", reply)
	}
	l := f.claim(val2)
	f.result(val2, l, scored(l, 0))
	if again := f.result(val1, lost, late); *again != *reply {
		t.Errorf("the same late result again: %+v, want %+v", again, reply)
	}
	run := f.run(lost.Run.Run)
	if len(run.List) != 2 || !run.List[0].Late || run.List[0].Counted || run.List[0].CostMicros != 10 || !strings.Contains(run.List[0].Reason, "it took long") ||
		!run.List[1].Counted || run.Scores[0].Value != 0 || run.List[0].State != store.AttemptExpired {
		t.Errorf("run: %+v", run)
	}
	evs, err := f.Events(bg, Caller{Operator: true}, run.RunSpec.Run, 0, 0, 0)
	if len(evs) != 1 || err != nil {
		t.Errorf("events of the lost lease: %v, %v", evs, err)
	}
	o, err := f.Overview(bg)
	must(t, err)
	if o.Runs.Scored != 1 || o.Runs.ByFault[agon.FaultValidator] != 1 || o.Arenas[0].Submissions[0].CostMicros != 10 {
		t.Errorf("overview: %+v", o)
	}
	checkInvariants(t, f.cfg.Store)
}

func TestResultIsIdempotent(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	l := f.claim(val1)
	r := scored(l, 1)
	r.Receipts = []agon.Receipt{{ID: "a", Cost: 10}}
	r.Events = []agon.Event{{Seq: 1, Type: agon.EventNote}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			reply, err := f.Platform.Result(bg, Caller{Hotkey: val1}, l.ID, r)
			if err != nil || !reply.Counted || reply.State != agon.RunScored {
				t.Errorf("reply %+v, %v", reply, err)
			}
		})
	}
	wg.Wait()
	other := r
	other.Scores = []agon.Score{{Task: l.Run.Tasks[0].Key, Value: 0, Scorer: "fake-1"}}
	_, err := f.Platform.Result(bg, Caller{Hotkey: val1}, l.ID, other)
	wantCode(t, err, 409, "result_conflict")
	b, err := f.Board(bg, "demo")
	must(t, err)
	if row := b.Submissions[0]; row.CostMicros != 10 || *row.Score != 1 {
		t.Errorf("row: %+v", row)
	}
	checkInvariants(t, f.cfg.Store)
}

func TestBadResults(t *testing.T) {
	f := newFixture(t, 2)
	f.kind.replicas = 1
	f.submit(miner1, "x")
	l := f.claim(val1)
	task := l.Run.Tasks[0].Key
	one := agon.Score{Task: task, Value: 1, Scorer: "s"}
	with := func(change func(*agon.Score)) []agon.Score {
		s := one
		change(&s)
		return []agon.Score{s}
	}
	for name, change := range map[string]func(*client.Result){
		"no score":     func(r *client.Result) { r.Scores = nil },
		"another task": func(r *client.Result) { r.Scores = with(func(s *agon.Score) { s.Task = "small/t9" }) },
		"twice":        func(r *client.Result) { r.Scores = []agon.Score{one, one} },
		"one too many": func(r *client.Result) { r.Scores = append(r.Scores, agon.Score{Task: "other"}) },
		"above one":    func(r *client.Result) { r.Scores = with(func(s *agon.Score) { s.Value = 1.0001 }) },
		"negative":     func(r *client.Result) { r.Scores = with(func(s *agon.Score) { s.Value = -0.1 }) },
		"NaN":          func(r *client.Result) { r.Scores = with(func(s *agon.Score) { s.Value = math.NaN() }) },
		"Inf metric": func(r *client.Result) {
			r.Scores = with(func(s *agon.Score) { s.Metrics = map[string]float64{"m": math.Inf(1)} })
		},
		"no scorer":        func(r *client.Result) { r.Scores = with(func(s *agon.Score) { s.Scorer = "" }) },
		"unknown fault":    func(r *client.Result) { r.Fault = "weather" },
		"negative cost":    func(r *client.Result) { r.Cost = -1 },
		"absurd cost":      func(r *client.Result) { r.Cost = math.MaxInt64 },
		"negative time":    func(r *client.Result) { r.BoxMS = -1 },
		"missing evidence": func(r *client.Result) { r.Evidence = agon.Sum([]byte("nothing")) },
		"bad evidence":     func(r *client.Result) { r.Evidence = "x" },
		"evidence no tree": func(r *client.Result) { r.Evidence = agon.Sum([]byte("small/t0")) },
		"event no JSON":    func(r *client.Result) { r.Events = []agon.Event{{Seq: 1, Type: "note", Data: []byte("{")}} },
		"event seq":        func(r *client.Result) { r.Events = []agon.Event{{Seq: 0, Type: "note"}} },
		"event type":       func(r *client.Result) { r.Events = []agon.Event{{Seq: 1, Type: "a\x1b"}} },
		"receipt no id":    func(r *client.Result) { r.Receipts = []agon.Receipt{{}} },
	} {
		t.Run(name, func(t *testing.T) {
			r := scored(l, 1)
			change(&r)
			_, err := f.Platform.Result(bg, Caller{Hotkey: val1}, l.ID, r)
			var e *agon.Error
			if !errors.As(err, &e) || e.Status != 422 || e.Field == "" {
				t.Fatalf("got %v, want 422 with its field", err)
			}
			if got := f.run(l.Run.Run); got.State != agon.RunLeased || len(got.Scores) != 0 {
				t.Fatalf("the run moved: %+v", got)
			}
		})
	}
	f.result(val1, l, scored(l, 1)) // and still takes a good one
}

func TestEventsAreIdempotentAndBounded(t *testing.T) {
	f := newFixture(t, 1, func(c *Config, _ *agon.Arena) { c.MaxEvents, c.MaxEventBytes, c.MaxLogBytes = 5, 100, 1000 })
	f.submit(miner1, "x")
	l := f.claim(val1)
	ev := func(seq int64, data string) agon.Event {
		return agon.Event{Run: "forged", Attempt: 9, Seq: seq, Type: agon.EventOutput, Data: json.RawMessage(data)}
	}
	batch := client.Heartbeat{Events: []agon.Event{ev(1, `{"text":"a"}`), ev(2, `{"text":"`+strings.Repeat("x", 5000)+`"}`)}}
	f.beat(l, batch)
	f.beat(l, batch)
	batch.Events[0].Data = json.RawMessage(`{"text":"changed"}`)
	f.beat(l, batch)
	f.beat(l, client.Heartbeat{Events: []agon.Event{ev(3, `1`), ev(4, `1`), ev(5, `1`), ev(6, `1`), ev(7, `1`)}})
	f.beat(l, client.Heartbeat{Events: []agon.Event{ev(8, `1`)}})
	evs, err := f.Events(bg, Caller{Operator: true}, l.Run.Run, 0, 0, 0)
	must(t, err)
	if len(evs) != 6 {
		t.Fatalf("%d events: %+v", len(evs), evs)
	}
	for i, e := range evs {
		if e.Run != l.Run.Run || e.Attempt != 1 || e.Seq != int64(i+1) || e.Task != l.Run.Tasks[0].Key {
			t.Errorf("event %d: %+v", i, e)
		}
	}
	if string(evs[0].Data) != `{"text":"a"}` {
		t.Errorf("a stored event changed: %s", evs[0].Data)
	}
	var cut struct {
		Cut   bool
		Bytes int
		Head  string
	}
	if err := json.Unmarshal(evs[1].Data, &cut); err != nil || !cut.Cut || cut.Bytes != 5011 || !strings.HasPrefix(cut.Head, `{"text":"xxx`) {
		t.Errorf("large event: %+v, %v", cut, err)
	}
	if evs[5].Type != agon.EventNote || !strings.Contains(string(evs[5].Data), "log is full") {
		t.Errorf("last event: %+v", evs[5])
	}
	_, err = f.Heartbeat(bg, Caller{Hotkey: val1}, l.ID, client.Heartbeat{Token: l.Token, Events: make([]agon.Event, maxBatch+1)})
	wantCode(t, err, 413, "too_large")
}

// TestQueueDeadline: a run that nobody takes ends too.
func TestQueueDeadline(t *testing.T) {
	f := newFixture(t, 1)
	s := f.submit(miner1, "x")
	f.sweepAfter(24*time.Hour - time.Second)
	if r, _ := f.Runs(bg, Caller{}, "", s.ID, "queued", "", 0); len(r.Items) != 1 {
		t.Fatal("failed too early")
	}
	f.sweepAfter(time.Second)
	got, err := f.Submission(bg, Caller{}, s.ID)
	must(t, err)
	if got.State != agon.SubmissionExcluded || got.Score != nil {
		t.Errorf("submission: %+v", got)
	}
	checkInvariants(t, f.cfg.Store)
}

// TestDecisionsInOrderOfAdmission: who finishes first does not decide.
func TestDecisionsInOrderOfAdmission(t *testing.T) {
	f := newFixture(t, 1)
	first, second, third := f.submit(miner1, "a"), f.submit(miner2, "b"), f.submit(miner1, "c")
	l1, l2, l3 := f.claim(val1), f.claim(val1), f.claim(val1)
	f.result(val1, l3, scored(l3, 1))
	f.result(val1, l2, scored(l2, 1))
	b, err := f.Board(bg, "demo")
	must(t, err)
	if len(b.Decisions) != 0 || b.Submissions[0].Score == nil {
		t.Fatalf("decided before its turn: %+v", b.Decisions)
	}
	for range 3 {
		f.result(val1, l1, failedBy(l1, agon.FaultTask))
		l1 = f.claim(val1)
	}
	b, err = f.Board(bg, "demo")
	must(t, err)
	if len(b.Decisions) != 2 || b.Decisions[0].Challenger != second.ID || b.Decisions[0].Outcome != agon.TookSeat ||
		b.Decisions[1].Challenger != third.ID || b.Decisions[1].Outcome != agon.KeptSeat {
		t.Fatalf("decisions: %+v", b.Decisions)
	}
	if s, _ := f.Submission(bg, Caller{}, first.ID); s.State != agon.SubmissionExcluded {
		t.Errorf("first: %s", s.State)
	}
	checkInvariants(t, f.cfg.Store)
}

func TestRestartGivesHoldersTime(t *testing.T) {
	f := newFixture(t, 2, func(c *Config, _ *agon.Arena) { c.SweepEvery = time.Hour }) // this test sweeps itself
	f.submit(miner1, "x")
	alive, dead := f.claim(val1), f.claim(val1)
	must(t, f.cfg.Store.Close())
	f.clock.add(10 * time.Minute)
	f.open(f.cfg.Blobs)
	must(t, f.Start(bg))
	defer f.Stop()
	must(t, f.Sweep(bg))
	f.clock.add(30 * time.Second)
	if f.beat(alive, client.Heartbeat{State: agon.RunPlaying}).Cancel {
		t.Fatal("a holder that came back lost its lease")
	}
	f.sweepAfter(31 * time.Second)
	if r := f.result(val1, alive, scored(alive, 1)); !r.Counted {
		t.Error("its result does not count")
	}
	r := f.run(dead.Run.Run)
	if r.State != agon.RunQueued || r.Fault != agon.FaultPlatform {
		t.Errorf("the other run: %s %s", r.State, r.Fault)
	}
	checkInvariants(t, f.cfg.Store)
}

// TestAbandonUsesUpNoRetry: a machine that dies again and again still ends its
// runs, with a score if it lives long enough.
func TestAbandonUsesUpNoRetry(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	for range 5 {
		if l := f.claim(val1); l == nil {
			t.Fatal("no run")
		}
		if n, err := f.Abandon(bg, val1, "restart"); n != 1 || err != nil {
			t.Fatalf("abandon: %d, %v", n, err)
		}
	}
	l := f.claim(val1)
	r := failedBy(l, agon.FaultValidator)
	r.Outcome = client.OutcomeGivenBack
	f.result(val1, l, r)
	l = f.claim(val1)
	if r := f.result(val1, l, scored(l, 1)); !r.Counted {
		t.Fatalf("result: %+v", r)
	}
	f.submit(miner1, "y")
	for i := 0; ; i++ {
		if f.claim(val1) == nil {
			if i != maxLeasesOfRun {
				t.Errorf("ended after %d leases, want %d", i, maxLeasesOfRun)
			}
			break
		}
		_, err := f.Abandon(bg, val1, "restart")
		must(t, err)
	}
	checkInvariants(t, f.cfg.Store)
}

// TestProviderIsGivenTime: a run that a model's provider failed is left alone for a
// while, longer each time; one that another fault of ours lost is not.
func TestProviderIsGivenTime(t *testing.T) {
	f := newFixture(t, 1, func(c *Config, a *agon.Arena) {
		c.ProviderWaits, a.Attempts = []time.Duration{20 * time.Second, time.Minute}, 4
	})
	f.submit(miner1, "x")
	l := f.claim(val1)
	for _, wait := range []time.Duration{20 * time.Second, time.Minute, time.Minute} {
		f.result(val1, l, failedBy(l, agon.FaultProvider))
		if r := f.run(l.Run.Run); !r.RetryAt.Equal(f.clock.Now().Add(wait)) {
			t.Errorf("played again at %s, want in %s", r.RetryAt, wait)
		}
		f.clock.add(wait - time.Second)
		if early := f.claim(val1); early != nil {
			t.Fatalf("%s: leased before its time", wait)
		}
		f.clock.add(time.Second)
		if l = f.claim(val1); l == nil {
			t.Fatalf("%s: not leased in time", wait)
		}
	}
	f.result(val1, l, failedBy(l, agon.FaultValidator))
	if l = f.claim(val1); l == nil {
		t.Fatal("a fault of the validator waits too")
	}
	f.result(val1, l, scored(l, 1))
	if r := f.run(l.Run.Run); !r.RetryAt.IsZero() {
		t.Errorf("a scored run is played again at %s", r.RetryAt)
	}
	checkInvariants(t, f.cfg.Store)
}

// TestClaimGivenBack: a lease that its claimant never got is in the queue again at once.
func TestClaimGivenBack(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	l := f.claim(val1)
	f.giveBack(bg, l)
	r := f.run(l.Run.Run)
	if r.State != agon.RunQueued || r.List[0].Fault != agon.FaultPlatform {
		t.Fatalf("run: %+v", r)
	}
	f.giveBack(bg, l) // again changes nothing
	if l := f.claim(val1); l == nil || l.Attempt != 2 {
		t.Fatalf("next: %+v", l)
	}
	checkInvariants(t, f.cfg.Store)
}

func TestReplaySurvivesRestart(t *testing.T) {
	f := newFixture(t, 1)
	until := f.clock.Now().Add(time.Minute)
	use := func() bool {
		fresh, err := f.Replay(bg, "agon-v1", miner1, "nonce", until)
		must(t, err)
		return fresh
	}
	if !use() || use() {
		t.Fatal("want fresh once")
	}
	must(t, f.cfg.Store.Close())
	f.open(f.cfg.Blobs)
	if use() {
		t.Fatal("fresh again after a restart")
	}
	f.clock.add(2 * time.Minute)
	must(t, f.purge(bg))
	if use() {
		t.Error("fresh again after its time")
	}
	until = f.clock.Now().Add(time.Minute)
	if !use() {
		t.Error("kept for ever")
	}
	_, err := f.Replay(bg, "agon-v1", miner1, strings.Repeat("n", 200), until)
	wantCode(t, err, 401, "bad_nonce")
}

func TestStartStop(t *testing.T) {
	f := newFixture(t, 1, func(c *Config, _ *agon.Arena) { c.SweepEvery, c.Lease = time.Millisecond, 2*time.Second })
	for range 2 {
		must(t, f.Start(bg))
		must(t, f.Start(bg))
		f.submit(miner1, "x")
		if l := f.claim(val1); l != nil {
			f.clock.add(4 * time.Second)
			ctx, cancel := context.WithTimeout(bg, 10*time.Second)
			for f.run(l.Run.Run).State != agon.RunQueued {
				must(t, f.Wait(ctx, l.Run.Run)) // the sweeper tells
			}
			cancel()
		}
		f.Stop()
		f.Stop()
	}
}
