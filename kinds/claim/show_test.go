package claim_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds/claim"
	"github.com/agon-arena/agon/kinds/claim/show"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

// A bare `agon up` goes on to rounds once its demos are decided: the reader sits, a script that
// knows the published claims by heart has nothing of the next round and never sits, and then
// nothing more is drawn. Two rounds here; TestThreeRounds plays three.
func TestShow(t *testing.T) {
	const rounds = 2
	x := &arena{t: t, clock: &clock{}}
	k := claim.Kit()
	k.Samples = nil // the demo is decided at once
	begun := make(chan struct{})
	docs := os.DirFS("data/tasks/documents")
	k.Show.Run = func(ctx context.Context, s *kit.Server, open func(context.Context, kit.ArenaFile) error) error {
		x.s = s
		close(begun)
		return show.Run(ctx, s, docs, rounds, open)
	}
	data, err := os.MkdirTemp("", "agon-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	if err := os.Chmod(data, 0o755); err != nil { // boxes enter it
		t.Fatal(err)
	}
	o := kittest.Options(data, kit.List{k})
	o.Now = x.clock.now
	o.Say = func(format string, args ...any) {
		t.Logf("agon: "+format, args...)
		x.mu.Lock()
		x.said = append(x.said, fmt.Sprintf(format, args...))
		x.mu.Unlock()
	}
	ctx, ended := upBeside(t, o)
	x.ctx = ctx
	select {
	case <-begun:
	case err := <-ended:
		ended <- err
		t.Fatalf("agon up ended: %v", err)
	}
	look := func() *client.Board {
		b, err := x.s.Platform.Board(ctx, show.Arena)
		if err != nil {
			return &client.Board{}
		}
		return b
	}
	var reader string
	x.until("the reader to sit", func() bool {
		b := look()
		if len(b.Seats) == 1 {
			reader = b.Seats[0].Submission
		}
		return reader != ""
	})
	for round := 1; round < rounds; round++ {
		x.clock.add(100 * time.Second)
		x.until("the next round to be drawn", func() bool { // on a slow machine it is played already
			x.mu.Lock()
			defer x.mu.Unlock()
			return slices.ContainsFunc(x.said, func(line string) bool {
				return strings.Contains(line, fmt.Sprintf("the round of period %d is drawn: ", round))
			})
		})
		x.clock.add(81 * time.Second)
		x.until("a script to be decided that knows what was published", func() bool { return len(look().Decisions) == round+1 })
	}
	x.until("the arena to be paused", func() bool {
		a, err := x.s.Platform.Arena(ctx, show.Arena)
		return err == nil && a.State == agon.ArenaClosed
	})
	b := look()
	if len(b.Seats) != 1 || b.Seats[0].Submission != reader || b.Seats[0].Score > 0.5 {
		t.Errorf("who sits: %+v", b.Seats)
	}
	hearts := 0
	for _, s := range b.Submissions {
		if !strings.HasPrefix(s.Name, "by-heart-") {
			continue
		}
		hearts++
		e, err := x.s.Platform.Submission(ctx, platform.Caller{Operator: true}, s.ID)
		if err != nil || e.Score == nil || *e.Score > 0.05 || e.Decision.Outcome == agon.TookSeat {
			t.Errorf("%s: %+v %v", s.Name, e, err)
		}
	}
	if hearts != rounds-1 {
		t.Errorf("%d scripts know claims by heart, want %d", hearts, rounds-1)
	}
	x.costsShown(rounds)
	// A process that starts again goes on with what was entered.
	operator := platform.Caller{Operator: true}
	if err := x.s.Platform.SetArenaState(ctx, operator, show.Arena, agon.ArenaOpen, ""); err != nil {
		t.Fatal(err)
	}
	opened := 0
	again := func(context.Context, kit.ArenaFile) error { opened++; return nil }
	for range 2 { // the second finds the arena paused
		if err := show.Run(ctx, x.s, docs, rounds, again); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(look().Submissions); opened != 1 || n != rounds {
		t.Errorf("started again: opened %d times, %d entries, want 1 and %d", opened, n, rounds)
	}
}
