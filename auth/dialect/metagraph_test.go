package dialect_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/dialect/dialecttest"
)

func TestMetagraph(t *testing.T) {
	now, fail := dialecttest.Now, false
	g := dialect.NewMetagraph(func() time.Time { return now }, func(context.Context) ([]dialect.Member, error) {
		if fail {
			return nil, errors.New("chain is gone")
		}
		return []dialect.Member{{Hotkey: "a", UID: 7}}, nil
	})
	if _, _, err := g.Member(context.Background(), "a"); !errors.Is(err, dialect.ErrStale) {
		t.Errorf("before the first refresh: %v", err)
	}
	if err := g.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	fail = true
	if err := g.Refresh(context.Background()); err == nil {
		t.Error("refresh hides its failure")
	}
	now = now.Add(dialect.MetagraphMaxAge)
	if m, ok, err := g.Member(context.Background(), "a"); err != nil || !ok || m.UID != 7 {
		t.Errorf("at 1200 s: %v %t %v", m, ok, err)
	}
	now = now.Add(time.Second)
	if _, _, err := g.Member(context.Background(), "a"); !errors.Is(err, dialect.ErrStale) {
		t.Errorf("at 1201 s: %v", err)
	}
}

func TestMetagraphRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, failures atomic.Int32
		g := dialect.NewMetagraph(time.Now, func(context.Context) ([]dialect.Member, error) {
			if calls.Add(1) == 2 {
				return nil, errors.New("chain is gone")
			}
			return nil, nil
		})
		ctx, cancel := context.WithCancel(context.Background())
		go g.Run(ctx, func(error) { failures.Add(1) })
		for _, step := range []struct {
			wait  time.Duration
			calls int32
		}{{0, 1}, {299 * time.Second, 1}, {time.Second, 2}, {5 * time.Second, 3}, {300 * time.Second, 4}} {
			time.Sleep(step.wait)
			synctest.Wait()
			if got := calls.Load(); got != step.calls {
				t.Errorf("%d fetches, want %d", got, step.calls)
			}
		}
		if got := failures.Load(); got != 1 {
			t.Errorf("%d failures", got)
		}
		cancel()
		synctest.Wait()
	})
}
