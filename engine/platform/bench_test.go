package platform

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// BenchmarkClaimAndResult measures pairs of claim and result by 200 workers on
// a durable store, with AGON_BENCH_FINISHED finished runs beside the queue;
// AGON_BENCH_LOG publishes the transparency log beside it.
func BenchmarkClaimAndResult(b *testing.B) {
	finished, err := strconv.Atoi(os.Getenv("AGON_BENCH_FINISHED"))
	if err != nil {
		finished = 0
	}
	f := newFixture(b, 1, func(c *Config, a *agon.Arena) {
		c.Now = time.Now
		c.MaxRuns = 1 << 30
		a.MaxLeases = 1 << 20
	})
	f.kind.replicas = b.N + 1 // one too many, so that no decision is part of it
	f.clock = &clock{t: time.Now()}
	fillFinished(b, f, finished)
	must(b, f.EnsureArena(bg, f.arena))
	_, err = f.Submit(bg, Caller{Hotkey: miner1}, "demo", request("bench"))
	must(b, err)
	must(b, f.Start(bg))
	defer f.Stop()
	if os.Getenv("AGON_BENCH_LOG") != "" {
		l := f.withHistory()
		ctx, cancel := context.WithCancel(bg)
		done := make(chan struct{})
		go func() { defer close(done); l.Run(ctx) }()
		defer func() { cancel(); <-done }()
	}
	const workers = 200
	var left atomic.Int64
	left.Store(int64(b.N))
	var mu sync.Mutex
	var worst time.Duration
	b.ResetTimer()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				start := time.Now()
				l, err := f.Claim(context.Background(), Caller{Hotkey: val1}, client.ClaimRequest{Kinds: []string{"fake"}, WaitMS: 1000})
				if err != nil || l == nil {
					b.Errorf("claim: %v, %v", l, err)
					return
				}
				took := time.Since(start)
				if _, err := f.Platform.Result(context.Background(), Caller{Hotkey: val1}, l.ID, scored(l, 1)); err != nil {
					b.Errorf("result: %v", err)
					return
				}
				mu.Lock()
				worst = max(worst, took)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-claim-ms")
}

// fillFinished stores n scored runs with an attempt each, as an arena that has
// been open for long has them.
func fillFinished(b *testing.B, f *fixture, n int) {
	b.Helper()
	now := time.Now()
	for done := 0; done < n; {
		must(b, f.cfg.Store.Write(bg, func(tx *store.Tx) error {
			sub := fmt.Sprintf("old-%d", done)
			pd, err := PolicyDigest(f.arena.Policy)
			if err != nil {
				return err
			}
			if err := tx.PutPolicy(pd, f.arena.Policy); err != nil {
				return err
			}
			e, err := tx.InsertEntry(store.Entry{Submission: agon.Submission{ID: sub, Arena: "demo", Digest: agon.Sum([]byte(sub)), State: agon.SubmissionScored}})
			if err != nil {
				return err
			}
			for i := range min(1000, n-done) {
				id := fmt.Sprintf("%s-%d", sub, i)
				spec := agon.RunSpec{Run: id, Arena: "demo", Tasks: f.arena.Tasks, Replica: i}
				x := store.Run{Run: agon.Run{RunSpec: spec, Submission: sub, Deadline: now, CreatedAt: now}, SubSeq: e.Seq, PolicyDigest: pd}
				if err := tx.InsertRun(x); err != nil {
					return err
				}
				a := store.Attempt{Attempt: agon.Attempt{Run: id, N: 1, Validator: val1, LeasedAt: now}, Lease: id, Arena: "demo", Submission: sub}
				if err := tx.InsertAttempt(a); err != nil {
					return err
				}
				a.State, a.Counted, a.EndedAt = store.AttemptDone, true, now
				if err := tx.EndAttempt(a); err != nil {
					return err
				}
				x.State, x.EndedAt = agon.RunScored, now
				if err := tx.MoveRun(id, agon.RunQueued, x); err != nil {
					return err
				}
			}
			return nil
		}))
		done += min(1000, n-done)
	}
}
