package platform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store"
)

// ErrDrawing says that a set is being made and not there yet: the supply is asked again soon.
var ErrDrawing = errors.New("the set is being drawn")

// lookAgain is how long a supply rests that is drawing.
const lookAgain = time.Second

// LateSupply is a supply whose sets should be drawn late in the period before
// theirs: of what is new then, against who sits then.
type LateSupply interface {
	Supply
	// DrawFrom is when the set after a period may be drawn. It is before the period closes.
	DrawFrom(opens, closes time.Time) time.Time
}

// due reports whether the set after a period may be drawn by now. One whose difficulty
// follows the champion is drawn when that one was seen on the set before.
func (p *Platform) due(a agon.Arena, s *supplied, cur store.SeedPeriod) bool {
	if a.Supply.Difficulty != nil {
		return p.halfOver(cur)
	}
	late, ok := s.Supply.(LateSupply)
	if !ok || cur.ClosesBlock > 0 { // when a block comes nobody knows
		return true
	}
	return !p.now().Before(late.DrawFrom(cur.Opens, cur.Closes))
}

// halfOver reports whether the second half of a period has begun: by then who sits was
// played on its set.
func (p *Platform) halfOver(cur store.SeedPeriod) bool {
	if cur.ClosesBlock > 0 {
		return p.block(cur.Arena) >= cur.OpensBlock+(cur.ClosesBlock-cur.OpensBlock)/2
	}
	return !p.now().Before(cur.Opens.Add(cur.Closes.Sub(cur.Opens) / 2))
}

// pauseUnsupplied pauses an arena whose supply has no set for the period that has
// begun: nothing may decide it but tasks that nobody knows.
func (p *Platform) pauseUnsupplied(ctx context.Context, a agon.Arena, s store.SeedPeriod) error {
	if a.State != agon.ArenaOpen {
		return nil
	}
	return p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		now, err := tx.Arena(a.ID)
		if err != nil || now.State != agon.ArenaOpen {
			return err
		}
		now.State = agon.ArenaPaused
		if err := tx.PutArena(now); err != nil {
			return err
		}
		return p.logAction(tx, Caller{Hotkey: "agon", Operator: true}, "state", a.ID, fmt.Sprintf("its supply has no set for period %d: add tasks to it, then open the arena", s.N), "open to paused")
	})
}

// checkSet says what is wrong with a set that a supply gave.
func checkSet(r SetRequest, list []agon.TaskRef) error {
	bad := func(format string, args ...any) error {
		return &agon.Error{Code: "bad_set", Status: 422, Field: "supply", Message: fmt.Sprintf("the set of period %d: ", r.Period) + fmt.Sprintf(format, args...)}
	}
	if len(list) != r.Tasks {
		return bad("the supply gave %d tasks where the set has %d", len(list), r.Tasks)
	}
	seen := map[agon.Digest]string{}
	for _, t := range list {
		if err := t.Digest.Validate(); err != nil || t.Key == "" {
			return bad("task %q: %v", t.Key, err)
		}
		if other, ok := seen[t.Digest]; ok {
			return bad("tasks %q and %q have the same content", other, t.Key)
		}
		seen[t.Digest] = t.Key
		if r.Shown[t.Digest] {
			return bad("task %q is public, or in a set whose results are not in", t.Key)
		}
	}
	return nil
}

// checkPeriod says what is wrong with an arena's periods and supply.
func checkPeriod(a agon.Arena) error {
	if x := a.Period; x != nil {
		switch {
		case (x.Hours > 0) == (x.Blocks > 0):
			return errors.New("period: name hours or blocks, one of them")
		case x.Blocks == 0 && !(x.Hours >= agon.LeastPeriodHours && x.Hours <= agon.MostPeriodHours):
			return fmt.Errorf("period.hours: %v: want a minute (0.0167) to %d", x.Hours, agon.MostPeriodHours)
		case x.Blocks > agon.MostPeriodBlocks:
			return fmt.Errorf("period.blocks: %d: want at most %d", x.Blocks, agon.MostPeriodBlocks)
		}
	}
	x := a.Supply
	if x == nil {
		return nil
	}
	if !slices.Contains(agon.Supplies(), x.From) {
		return fmt.Errorf("supply.from: %.40q is not one of %s", x.From, strings.Join(agon.Supplies(), ", "))
	}
	if len(a.Stages) > 0 {
		return errors.New("stages: a supply gives one set, which has no stages")
	}
	if x.Tasks < 1 || x.Tasks > agon.MostSetTasks {
		return fmt.Errorf("supply.tasks: %d: want 1 to %d", x.Tasks, agon.MostSetTasks)
	}
	if x.Beacon != "" && x.Beacon != agon.BeaconDrand {
		return fmt.Errorf("supply: beacon %.40q: want %q, or none", x.Beacon, agon.BeaconDrand)
	}
	if x.Entries != "" && x.Entries != agon.EntriesNext {
		return fmt.Errorf("supply: entries %.40q: want %q, or none", x.Entries, agon.EntriesNext)
	}
	if d := x.Difficulty; d != nil {
		if x.From != agon.SupplyGenerator {
			return errors.New("supply.difficulty: only what a generator makes has levels")
		}
		if field, message := d.Mistake(math.MaxInt); field != "" {
			return fmt.Errorf("supply.difficulty.%s: %s", field, message)
		}
	}
	if x.Uses < 0 || x.Uses > 1000 || x.Uses > 0 && x.From != agon.SupplyBank {
		return fmt.Errorf("supply.uses: %d: want 0 (%d) to 1000, for a bank", x.Uses, agon.DefaultUses)
	}
	return nil
}
