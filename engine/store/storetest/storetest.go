// Package storetest is the conformance suite of the store: every driver runs it.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

var (
	ctx = context.Background()
	t0  = time.Date(2026, 5, 6, 7, 8, 9, 123456000, time.UTC)
)

// Run tests stores made by open. open with the same dir opens the same data
// again; the suite closes what it opens.
func Run(t *testing.T, open func(t *testing.T, dir string) *store.Store) {
	for _, tt := range []struct {
		name string
		fn   func(t *testing.T, s *suite)
	}{
		{"rows come back as they went in", roundTrip},
		{"a failed write leaves nothing", atomicWrite},
		{"arenas are current", arenasAreCurrent},
		{"writes survive a reopen", reopen},
		{"two claimers never get the same run", claimers},
		{"one live lease a run", oneLive},
		{"one counted result a run", oneCounted},
		{"a guarded move loses to the first", guardedMove},
		{"order of the queue", queueOrder},
		{"a lost run goes to another first", anotherFirst},
		{"events are idempotent", events},
		{"archived rows read as before", archived},
		{"nonces", nonces},
		{"what is kept for a while", kept},
		{"documents", documents},
		{"counters", counters},
		{"same bytes once an arena", sameBytes},
		{"overdue", overdue},
		{"a panic is the caller's", panics},
		{"runs of a group go to different validators", groups},
		{"rows of a coordinator", docs},
		{"facts of what a rule refused", refusedFacts},
		{"who took a seat", seats},
		{"vettings", vettings},
		{"statements that are put off", putOff},
		{"closed", closed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &suite{t: t, dir: t.TempDir(), open: open}
			s.start()
			t.Cleanup(func() { s.Close() })
			tt.fn(t, s)
		})
	}
}

type suite struct {
	*store.Store
	t    *testing.T
	dir  string
	open func(t *testing.T, dir string) *store.Store
}

func (s *suite) start() { s.Store = s.open(s.t, s.dir) }

func (s *suite) write(fn func(tx *store.Tx) error) {
	s.t.Helper()
	if err := s.Write(ctx, fn); err != nil {
		s.t.Fatal(err)
	}
}

func (s *suite) read(fn func(tx *store.Tx) error) {
	s.t.Helper()
	if err := s.Read(ctx, fn); err != nil {
		s.t.Fatal(err)
	}
}

func arena() agon.Arena {
	return agon.Arena{ID: "demo", Kind: "fake", Netuid: 3, State: agon.ArenaOpen, CreatedAt: t0}
}

func entry(i int) store.Entry {
	return store.Entry{Submission: agon.Submission{
		ID: fmt.Sprintf("sub-%d", i), Arena: "demo", Miner: "miner", Coldkey: "cold", Netuid: 3, Name: "näme",
		Digest: agon.Sum([]byte{byte(i)}), Licence: "MIT", State: agon.SubmissionQueued, Scripted: i%2 == 1, CreatedAt: t0,
	}, Findings: []agon.Finding{{Code: "style", Warning: true}}}
}

var policy = agon.Policy{Models: []string{"*"}, Agent: agon.Limits{WallMS: 1000}}

func run(id string, e store.Entry) store.Run {
	return store.Run{
		Run: agon.Run{
			RunSpec: agon.RunSpec{
				Run: id, Arena: e.Arena, Tasks: []agon.TaskRef{{Key: "a/b", Digest: agon.Sum(nil), Hidden: true}},
				Replica: 2, Seed: 1<<53 - 1, Policy: policy,
			},
			Submission: e.ID, State: agon.RunQueued, Deadline: t0.Add(time.Hour), CreatedAt: t0,
		},
		SubSeq: e.Seq, PolicyDigest: agon.Sum([]byte("policy")), MaxHold: time.Hour,
	}
}

// seed stores one arena and a submission with n queued runs r0, r1, …
func (s *suite) seed(n int) (e store.Entry) {
	s.t.Helper()
	s.write(func(tx *store.Tx) (err error) {
		if err := errors.Join(tx.PutArena(arena()), tx.PutPolicy(agon.Sum([]byte("policy")), policy)); err != nil {
			return err
		}
		if e, err = tx.InsertEntry(entry(1)); err != nil {
			return err
		}
		for i := range n {
			if err := tx.InsertRun(run(fmt.Sprintf("r%d", i), e)); err != nil {
				return err
			}
		}
		return nil
	})
	return e
}

func attempt(r string, n int, validator string) store.Attempt {
	return store.Attempt{
		Attempt: agon.Attempt{Run: r, N: n, Validator: validator, State: "leased", LeasedAt: t0, LeaseUntil: t0.Add(time.Minute)},
		Lease:   fmt.Sprintf("%s-%d", r, n), TokenHash: "hash", Arena: "demo", Submission: "sub-1", SeenAt: t0,
	}
}

// lose ends the live attempt of a run and queues it again.
func lose(tx *store.Tx, id string) error {
	a, err := tx.LiveAttempt(id)
	if err != nil {
		return err
	}
	a.State, a.Fault, a.EndedAt = store.AttemptExpired, agon.FaultValidator, t0
	if err := tx.EndAttempt(a); err != nil {
		return err
	}
	r, err := tx.Run(id)
	if err != nil {
		return err
	}
	from := r.State
	r.State, r.Fault, r.Retries = agon.RunQueued, agon.FaultValidator, r.Retries+1
	return tx.MoveRun(id, from, r)
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func roundTrip(t *testing.T, s *suite) {
	e := s.seed(1)
	bar, score, solved, total := 0.5, 0.75, 3, 4
	d := agon.Decision{
		Arena: "demo", Challenger: e.ID, Incumbent: "x", Score: score, Bar: &bar, Outcome: agon.TookSeat, Rule: "r",
		Numbers: map[string]float64{"n": 1.5}, At: t0,
	}
	sc := agon.Score{Run: "r0", Task: "a/b", Value: 0.25, Solved: true, Metrics: map[string]float64{"m": 2}, Scorer: "v1", Detail: "ok"}
	a := attempt("r0", 1, "val")
	s.write(func(tx *store.Tx) error {
		if err := errors.Join(tx.LeaseRun("r0", t0.Add(time.Minute)), tx.InsertAttempt(a)); err != nil {
			return err
		}
		a.State, a.Fault, a.Reason, a.Outcome, a.Counted = store.AttemptDone, agon.FaultAgent, "why\x00\xff", "raised", true
		a.Driver = agon.Driver{Name: "runc", Limits: []string{"memory"}}
		a.CostMicros, a.BoxMS, a.Evidence, a.EndedAt, a.ResultHash, a.Reply = 12, 34, agon.Sum([]byte("e")), t0, "h", "{}"
		return errors.Join(
			tx.EndAttempt(a), tx.InsertScore(sc, 1, "key"), tx.InsertDecision(d), tx.SetEntryResult(e.ID, &score, &solved, &total),
			tx.AddCost(e.ID, 12), tx.SetEntryState(e.ID, agon.SubmissionScored, e.Findings),
			tx.PutSeat(agon.Seat{Arena: "demo", Submission: e.ID, Miner: "miner", Score: score, Since: t0}),
			tx.InsertReceipt("r0", 1, agon.Receipt{ID: "x", Model: "m", Cost: 5}),
			tx.AddRef(store.BlobRef{Digest: "d", What: store.RefCode, Owner: e.ID}),
			tx.AddRef(store.BlobRef{Digest: "d", What: store.RefTask, Owner: "demo/a", Hidden: true}),
		)
	})
	s.read(func(tx *store.Tx) error {
		gotArena, err1 := tx.Arena("demo")
		same(t, "arena", gotArena, arena())
		gotEntry, err2 := tx.Entry(e.ID)
		want := e
		want.Score, want.Solved, want.Total, want.CostMicros, want.State = &score, &solved, &total, 12, agon.SubmissionScored
		same(t, "entry", gotEntry, want)
		runs, err3 := tx.RunsOf(e.ID)
		wantRun := run("r0", e)
		wantRun.N, wantRun.State, wantRun.Attempts, wantRun.Deadline = runs[0].N, agon.RunLeased, 1, t0.Add(time.Minute)
		wantRun.Scores = []agon.Score{sc}
		same(t, "runs", runs, []store.Run{wantRun})
		attempts, err4 := tx.Attempts("r0")
		wantAttempt := a
		wantAttempt.Reason = "why\uFFFD"
		if wantAttempt.Fact = attempts[0].Fact; wantAttempt.Fact == 0 {
			t.Error("the result is noted for no log")
		}
		same(t, "attempts", attempts, []store.Attempt{wantAttempt})
		lease, err10 := tx.Lease(a.Lease)
		wantLease := store.Lease{Attempt: wantAttempt, Of: wantRun, Code: e.Digest}
		wantLease.Of.Scores = nil
		same(t, "lease", lease, wantLease)
		seat, err5 := tx.Seat("demo")
		same(t, "seat", seat, &agon.Seat{Arena: "demo", Submission: e.ID, Miner: "miner", Score: score, Since: t0})
		decisions, err6 := tx.Decisions("demo", 10)
		same(t, "decisions", decisions, []agon.Decision{d})
		receipts, err7 := tx.Receipts("r0", 1)
		same(t, "receipts", receipts, []agon.Receipt{{ID: "x", Model: "m", Cost: 5}})
		refs, err8 := tx.Refs("d")
		same(t, "refs", refs, []store.BlobRef{{Digest: "d", What: store.RefTask, Owner: "demo/a", Hidden: true}, {Digest: "d", What: store.RefCode, Owner: e.ID}})
		keys, err9 := tx.ScoreKeys("r0")
		same(t, "score keys", keys, map[string]agon.Digest{"a/b": "key"})
		return errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9, err10)
	})
	s.read(func(tx *store.Tx) error {
		for name, err := range map[string]error{
			"arena": second(tx.Arena("x")), "entry": second(tx.Entry("x")), "run": second(tx.Run("x")),
			"attempt": second(tx.AttemptByLease("x")), "lease": second(tx.Lease("x")), "decision": second(tx.Decision("x")),
			"undecided": second(tx.FirstUndecided("demo")), "live": second(tx.LiveAttempt("r0")),
		} {
			if !errors.Is(err, store.ErrNotFound) {
				t.Errorf("missing %s: %v, want ErrNotFound", name, err)
			}
		}
		seat, err := tx.Seat("x")
		if seat != nil || err != nil {
			t.Errorf("empty seat: %v, %v", seat, err)
		}
		return nil
	})
}

func second[T any](_ T, err error) error { return err }

func reopen(t *testing.T, s *suite) {
	e := s.seed(2)
	s.write(func(tx *store.Tx) error { return second(take(tx, "v1")) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.read(func(tx *store.Tx) error {
		runs, err := tx.RunsOf(e.ID)
		if len(runs) != 2 || runs[0].State != agon.RunLeased || runs[1].State != agon.RunQueued {
			t.Errorf("runs: %+v", runs)
		}
		return err
	})
	var e2 store.Entry
	s.write(func(tx *store.Tx) (err error) { e2, err = tx.InsertEntry(entry(2)); return err })
	if e2.Seq != e.Seq+1 {
		t.Errorf("seq %d after %d", e2.Seq, e.Seq)
	}
}

func nonces(t *testing.T, s *suite) {
	var putOff atomic.Int64
	use := func(nonce string) (fresh bool) {
		s.write(func(tx *store.Tx) (err error) {
			record := tx.UseNonce
			if putOff.Add(1)%2 == 0 {
				record = tx.PutNonce
			}
			fresh, err = record("agon-v1", "key", nonce, t0)
			return err
		})
		return fresh
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for range 8 {
		wg.Go(func() {
			if use("n") {
				mu.Lock()
				won++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("%d uses of one nonce were fresh", won)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	for range 3 {
		if use("n") {
			t.Error("the nonce is fresh again after a reopen")
		}
	}
	s.write(func(tx *store.Tx) error {
		n, err := tx.PurgeNonces(t0, 10)
		if n != 0 {
			t.Errorf("purged %d before their time", n)
		}
		for i := range 5 {
			if _, err := tx.UseNonce("s", "k", fmt.Sprint("more", i), t0.Add(time.Duration(i)*time.Microsecond)); err != nil {
				return err
			}
		}
		var got []int64
		for range 4 {
			n, err := tx.PurgeNonces(t0.Add(time.Second), 3)
			if err != nil {
				return err
			}
			got = append(got, n)
		}
		if want := []int64{3, 3, 0, 0}; !slices.Equal(got, want) {
			t.Errorf("purged %d, want %d", got, want)
		}
		return err
	})
}

func counters(t *testing.T, s *suite) {
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { s.write(func(tx *store.Tx) error { return tx.Count("a", "b", "c") }) })
	}
	wg.Wait()
	s.write(func(tx *store.Tx) error { return tx.Count("a", "x", "c") })
	s.read(func(tx *store.Tx) error {
		one, err := tx.Counters("a", "b")
		same(t, "one", one, []store.Counter{{Scope: "a", Name: "b", Key: "c", N: 20}})
		all, err2 := tx.Counters("a", "")
		same(t, "all", all, []store.Counter{{Scope: "a", Name: "b", Key: "c", N: 20}, {Scope: "a", Name: "x", Key: "c", N: 1}})
		return errors.Join(err, err2)
	})
}

func sameBytes(t *testing.T, s *suite) {
	s.seed(0)
	e := entry(1)
	e.ID = "other"
	err := s.Write(ctx, func(tx *store.Tx) error { return second(tx.InsertEntry(e)) })
	if !errors.Is(err, store.ErrConflict) {
		t.Fatalf("same bytes: %v, want ErrConflict", err)
	}
	e.Arena = "elsewhere"
	s.write(func(tx *store.Tx) error { return second(tx.InsertEntry(e)) })
	s.read(func(tx *store.Tx) error {
		n, err := tx.CountColdkey("demo", "cold", t0.Add(-time.Second))
		m, err2 := tx.CountColdkey("demo", "cold", t0)
		if n != 1 || m != 0 {
			t.Errorf("entries of the coldkey: %d, %d", n, m)
		}
		return errors.Join(err, err2)
	})
}

func overdue(t *testing.T, s *suite) {
	s.seed(3)
	s.write(func(tx *store.Tx) error {
		return errors.Join(second(take(tx, "v1")), tx.MoveRun("r2", agon.RunQueued, store.Run{Run: agon.Run{State: agon.RunCancelled}}))
	})
	for _, tt := range []struct {
		at   time.Duration
		want []string
	}{{59 * time.Second, nil}, {time.Minute, []string{"r0"}}, {2 * time.Hour, []string{"r0", "r1"}}} {
		s.read(func(tx *store.Tx) error {
			got, err := tx.Overdue(t0.Add(tt.at), 10)
			same(t, tt.at.String(), got, tt.want)
			return err
		})
	}
}

// refusedFacts: a row that a rule refuses states no fact, though its transaction goes on.
func refusedFacts(t *testing.T, s *suite) {
	note := func(id string) store.Note { return store.Note{Type: "test", ID: id, At: t0, Body: []byte("{}")} }
	s.write(func(tx *store.Tx) error { return tx.InsertNote(note("a")) })
	s.write(func(tx *store.Tx) error {
		if err := tx.InsertNote(note("a")); !errors.Is(err, store.ErrConflict) {
			t.Errorf("a second note of one id: %v", err)
		}
		return tx.InsertNote(note("b"))
	})
	s.read(func(tx *store.Tx) error {
		got, err := tx.Facts(0, 10)
		same(t, "facts", got, []store.Fact{{Index: 0, Type: "test", ID: "a"}, {Index: 1, Type: "test", ID: "b"}})
		return err
	})
}
