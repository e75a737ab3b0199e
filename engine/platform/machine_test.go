package platform

import (
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// stand is a run in some state, with the lease that last held it (nil: never held).
type stand struct {
	*fixture
	run   string
	lease *client.Lease
}

func (s *stand) state() agon.RunState {
	s.t.Helper()
	r, err := s.Run(bg, Caller{}, s.run)
	must(s.t, err)
	return r.State
}

// inState brings a fresh run into a state.
func inState(t *testing.T, want agon.RunState, held bool) *stand {
	t.Helper()
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	page, err := f.Runs(bg, Caller{}, "", "", "", "", 0)
	must(t, err)
	s := &stand{fixture: f, run: page.Items[0].RunSpec.Run}
	if want == agon.RunQueued && !held {
		return s
	}
	s.lease = f.claim(val1)
	beat := func(state agon.RunState) {
		_, err := f.Heartbeat(bg, Caller{Hotkey: val1}, s.lease.ID, client.Heartbeat{Token: s.lease.Token, State: state})
		must(t, err)
	}
	switch want {
	case agon.RunQueued:
		s.expire()
	case agon.RunPlaying:
		beat(agon.RunPlaying)
	case agon.RunJudging:
		beat(agon.RunPlaying)
		beat(agon.RunJudging)
	case agon.RunScored:
		f.result(val1, s.lease, scored(s.lease, 1))
	case agon.RunFailed:
		for range 3 {
			r := scored(s.lease, 1)
			r.Fault = agon.FaultTask
			f.result(val1, s.lease, r)
			if next := f.claim(val1); next != nil {
				s.lease = next
			}
		}
	case agon.RunCancelled:
		must(t, f.CancelRun(bg, Caller{Operator: true}, s.run, ""))
	}
	if got := s.state(); got != want {
		t.Fatalf("run is %s, want %s", got, want)
	}
	return s
}

func (s *stand) expire() {
	s.t.Helper()
	s.clock.add(s.cfg.Lease + time.Second)
	must(s.t, s.Sweep(bg))
}

// useUpRetries makes the next loss of the run its last.
func (s *stand) useUpRetries() {
	s.t.Helper()
	must(s.t, s.cfg.Store.Write(bg, func(tx *store.Tx) error {
		r, err := tx.Run(s.run)
		if err != nil {
			return err
		}
		to := r
		to.Retries = 2
		return tx.MoveRun(s.run, r.State, to)
	}))
}

// doors are the ways in which an actor can try a move. A move without a door
// cannot be tried at all.
var doors = map[agon.Actor]map[agon.RunState]func(s *stand){
	agon.ByScheduler: {
		agon.RunLeased: func(s *stand) { s.claim(val2) },
		agon.RunQueued: func(s *stand) { s.expire() },
		agon.RunFailed: func(s *stand) {
			if !s.state().Final() {
				s.useUpRetries()
			}
			s.clock.add(s.cfg.QueueFor + time.Second)
			must(s.t, s.Sweep(bg))
		},
	},
	agon.ByHolder: {
		agon.RunPlaying: func(s *stand) { s.beat(agon.RunPlaying) },
		agon.RunJudging: func(s *stand) { s.beat(agon.RunJudging) },
		agon.RunScored: func(s *stand) {
			// What the reply says is tested elsewhere; here only whether the run moves.
			_, _ = s.Platform.Result(bg, Caller{Hotkey: val1}, s.lease.ID, scored(s.lease, 0.5))
		},
		agon.RunQueued:    func(s *stand) { s.beat(agon.RunQueued) },
		agon.RunLeased:    func(s *stand) { s.beat(agon.RunLeased) },
		agon.RunFailed:    func(s *stand) { s.beat(agon.RunFailed) },
		agon.RunCancelled: func(s *stand) { s.beat(agon.RunCancelled) },
	},
	agon.ByOperator: {
		agon.RunCancelled: func(s *stand) { _ = s.CancelRun(bg, Caller{Operator: true}, s.run, "why") },
	},
}

func (s *stand) beat(to agon.RunState) {
	_, _ = s.Heartbeat(bg, Caller{Hotkey: val1}, s.lease.ID, client.Heartbeat{Token: s.lease.Token, State: to})
}

// TestEveryCell walks every (state, next state, actor): the store moves iff the table says so.
func TestEveryCell(t *testing.T) {
	cells := 0
	for _, from := range agon.RunStates {
		for _, held := range []bool{true, false} {
			if !held && from != agon.RunQueued {
				continue // every other state has or had a holder
			}
			for _, by := range []agon.Actor{agon.ByScheduler, agon.ByHolder, agon.ByOperator} {
				for _, to := range agon.RunStates {
					if from == to || (by == agon.ByHolder && !held) {
						continue
					}
					cells++
					listed := agon.CheckTransition(from, to, by) == nil
					open := doors[by][to]
					if open == nil {
						if listed {
							t.Errorf("%s -> %s by %s is in the table and cannot be done", from, to, by)
						}
						continue
					}
					s := inState(t, from, held)
					open(s)
					got := s.state()
					// A lost lease whose run waits again is taken out of the
					// queue by nobody but a claim; leased to judging is two moves.
					want := listed || (by == agon.ByHolder && from == agon.RunLeased && to == agon.RunJudging)
					if (got == to) != want {
						t.Errorf("%s -> %s by %s: run is %s, allowed %v", from, to, by, got, want)
					}
					if got != to && got != from && !(by == agon.ByScheduler && to == agon.RunFailed) {
						t.Errorf("%s -> %s by %s: run went to %s instead", from, to, by, got)
					}
					checkInvariants(t, s.cfg.Store)
					s.cfg.Store.Close()
				}
			}
		}
	}
	if cells < 100 {
		t.Errorf("only %d cells walked", cells)
	}
}
