package platform

import (
	"context"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// An operator takes a run back from who holds it: it is queued again, no retry is
// used up, its holder's result does not count, and what was done is written down.
func TestRequeueRun(t *testing.T) {
	f := newFixture(t, 2)
	f.submit(miner1, "agent")
	l := f.claim(val1)
	ctx, op := context.Background(), Caller{Hotkey: operator, Operator: true}
	if err := f.RequeueRun(ctx, Caller{Hotkey: miner1}, l.Run.Run, "mine"); err == nil {
		t.Error("a miner takes runs back")
	}
	wantCode(t, f.RequeueRun(ctx, op, l.Run.Run, ""), 422, "no_reason")
	wantCode(t, f.RequeueRun(ctx, op, "nosuch", "why"), 404, "not_found")
	before, err := f.Run(ctx, op, l.Run.Run)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.RequeueRun(ctx, op, l.Run.Run, "its box hangs"); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Run(ctx, op, l.Run.Run); err != nil || got.State != agon.RunQueued || before.State == agon.RunQueued {
		t.Errorf("%+v, %v", got, err)
	}
	for range 3 { // as often as it takes: it is not a failure of the run
		l := f.claim(val1)
		if l == nil {
			t.Fatal("nothing to claim")
		}
		if err := f.RequeueRun(ctx, op, l.Run.Run, "again"); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, f.RequeueRun(ctx, op, l.Run.Run, "again"), 409, "bad_transition")
	if r, err := f.Heartbeat(ctx, Caller{Hotkey: val1}, l.ID, client.Heartbeat{Token: l.Token, State: agon.RunPlaying}); err != nil || !r.Cancel {
		t.Errorf("who held it is not told to stop: %+v, %v", r, err)
	}
	acts, err := f.Actions(ctx, op, 10)
	if err != nil || len(acts) != 4 || acts[3].What != "requeue" || acts[3].Target != l.Run.Run || acts[3].Reason != "its box hangs" {
		t.Errorf("%+v, %v", acts, err)
	}
}

// Health counts what waits and what failed through us, for the operator alone.
func TestHealth(t *testing.T) {
	f := newFixture(t, 2)
	f.submit(miner1, "agent")
	ctx, op := context.Background(), Caller{Hotkey: operator, Operator: true}
	if _, err := f.Health(ctx, Caller{Hotkey: miner1}, "demo"); err == nil {
		t.Error("a miner reads the operator's figures")
	}
	h, err := f.Health(ctx, op, "demo")
	if err != nil || h.Runs == 0 || h.Oldest.IsZero() || h.Scored != 0 {
		t.Errorf("%+v, %v", h, err)
	}
	q, err := f.Queue(ctx, "demo")
	if err != nil || len(q) != 1 || q[0].Position != 1 || q[0].Queued != h.Runs || q[0].Wait != 0 {
		t.Errorf("%+v, %v", q, err)
	}
}
