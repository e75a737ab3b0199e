package platform

import (
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// maxHold is how long the queue of a held arena waits before it lapses.
const maxHold = 365 * 24 * time.Hour

// holdQueue does what a change of an arena from state was to a's asks of its queue,
// and returns the runs that went back into it.
func (p *Platform) holdQueue(tx *store.Tx, a agon.Arena, was agon.ArenaState) (back []string, err error) {
	switch held := a.State == agon.ArenaHeld; {
	case held == (was == agon.ArenaHeld):
		return nil, nil
	case !held:
		return nil, tx.DelayQueue(a.ID, p.now().Add(p.cfg.QueueFor), p.now().Add(min(p.cfg.QueueFor, pairWait)))
	}
	runs, err := tx.HeldRuns(a.ID)
	if err != nil {
		return nil, err
	}
	for _, run := range runs {
		attempt, err := tx.LiveAttempt(run.RunSpec.Run)
		if err != nil {
			return nil, err
		}
		attempt.State = store.AttemptExpired
		if _, err := p.lose(tx, run, attempt, agon.FaultPlatform, "the operator holds the arena", false); err != nil {
			return nil, err
		}
		back = append(back, run.RunSpec.Run)
	}
	end := p.now().Add(maxHold)
	return back, tx.DelayQueue(a.ID, end, end)
}

// unheld leaves out the arenas that are held. It is called where a lease is made,
// since a claim may have waited since it read the arenas. Waiting validators stay seen.
func unheld(tx *store.Tx, arenas []agon.Arena) ([]agon.Arena, error) {
	now, err := tx.Arenas()
	if err != nil {
		return nil, err
	}
	held := func(a agon.Arena) bool {
		return slices.ContainsFunc(now, func(b agon.Arena) bool { return b.ID == a.ID && b.State == agon.ArenaHeld })
	}
	if !slices.ContainsFunc(arenas, held) {
		return arenas, nil
	}
	return slices.DeleteFunc(slices.Clone(arenas), held), nil
}
