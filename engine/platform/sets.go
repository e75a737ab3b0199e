package platform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/translog"
)

// Sets rotate. An arena with a supply has for each set period a set of hidden
// tasks of its own. The set of the period to come is drawn, and committed to in
// the log, before that period begins. When it begins, who sits is played on the
// new set before anybody challenges there; a submission is played and decided on
// the set of the period in which it was accepted. When a period has ended and
// everything of it is decided, its set becomes public, with its results.

// Supply gives the sets of one arena. Its methods do I/O and are called one at a
// time; an error is said and tried again.
type Supply interface {
	// Draw returns the tasks of a period's set, whose trees are in the blob store.
	// For a period that it was asked for before and that was not stored it should
	// return the same again. Its error says what the operator can do.
	Draw(ctx context.Context, r SetRequest) ([]agon.TaskRef, error)
	// Complete finishes an arena that is to play a set: its Tasks are filled in.
	Complete(ctx context.Context, a *agon.Arena) error
	// Opened is called when an arena plays another set.
	Opened(ctx context.Context, a agon.Arena) error
	// Ended returns the tasks of a set whose period has ended that are used up:
	// they become public. The others may be drawn again.
	Ended(ctx context.Context, s EndedSet) ([]agon.Digest, error)
}

// SetRequest asks for a set.
type SetRequest struct {
	Arena  agon.Arena
	Period int64
	Tasks  int   // how many
	Seed   int64 // what is drawn is drawn by it; nobody but the operator can know it before the period ends
	// TaskSeeds are those of a generator: one for each task, of which none tells another.
	TaskSeeds []int64
	Level     int // agon.SetDifficulty's; 0: the arena names no difficulty
	// Uses is in how many periods each task was already, by digest; Shown are those
	// that are public, or in the set that is played now: they cannot be drawn.
	Uses  map[agon.Digest]int
	Shown map[agon.Digest]bool
	Seen  map[agon.Digest]int64 // how often each was given to validators
	// Needed: the arena cannot go on without it, so that Draw waits for what takes
	// long. Otherwise it may go on aside and return ErrDrawing meanwhile.
	Needed bool
}

// EndedSet is a set whose period has ended.
type EndedSet struct {
	Arena  string
	Period int64
	Tasks  []agon.TaskRef
	Uses   map[agon.Digest]int
	Played map[agon.Digest][]string // which submissions were given each
}

// seedSet names what the set of a period is drawn by.
const seedSet = "set"

// drawAgain is how long a supply rests that had nothing.
const drawAgain = 30 * time.Second

// supplies are those of the arenas that this process serves.
type supplies struct {
	mu     sync.Mutex
	list   map[string]*supplied
	blocks map[string]uint64 // the newest block seen, by arena with periods in blocks
	// opened are the tasks that were hidden and are public now, by arena. It follows the store.
	opened map[string]map[agon.Digest]bool
}

type supplied struct {
	Supply
	turn sync.Mutex // held while its arena's sets move
	rest time.Time  // no draw before
	said string     // the last failure that was logged
	// drawing says that the last draw goes on.
	drawing bool
}

// SetSupply gives an arena its supply; it must be called before EnsureArena.
func (p *Platform) SetSupply(arena string, s Supply) {
	p.sets.mu.Lock()
	defer p.sets.mu.Unlock()
	if p.sets.list == nil {
		p.sets.list = map[string]*supplied{}
	}
	p.sets.list[arena] = &supplied{Supply: s}
}

func (p *Platform) supplyOf(arena string) *supplied {
	p.sets.mu.Lock()
	defer p.sets.mu.Unlock()
	return p.sets.list[arena]
}

// block is the newest block that was seen of an arena's ledger; 0: none was.
func (p *Platform) block(arena string) uint64 {
	p.sets.mu.Lock()
	defer p.sets.mu.Unlock()
	return p.sets.blocks[arena]
}

func (p *Platform) sawBlock(arena string, n uint64) {
	p.sets.mu.Lock()
	defer p.sets.mu.Unlock()
	if p.sets.blocks == nil {
		p.sets.blocks = map[string]uint64{}
	}
	p.sets.blocks[arena] = max(p.sets.blocks[arena], n)
}

// closed reports whether a period has ended.
func (p *Platform) closed(s store.SeedPeriod, now time.Time) bool {
	if s.ClosesBlock > 0 {
		return p.block(s.Arena) >= s.ClosesBlock
	}
	return !s.Closes.After(now)
}

// supply sees that an arena with a supply has the sets of the present period and
// of the next, and gives a the tasks of the present one.
func (p *Platform) supply(ctx context.Context, a *agon.Arena) error {
	s := p.supplyOf(a.ID)
	if s == nil {
		return errors.New("it has a supply, but this process does not know which")
	}
	if a.Supply.Beacon == agon.BeaconDrand && p.cfg.Rounds == nil {
		return errors.New("its sets are drawn by drand, but this process asks nobody for rounds")
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := p.seeBlock(ctx, *a); err != nil {
		return err
	}
	var now store.SeedPeriod
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		now, err = p.period(tx, *a)
		return err
	})
	if err != nil {
		return err
	}
	first := now.TurnedAt.IsZero() && now.N == 0
	for _, n := range []int64{now.N, now.N + 1} {
		if n > now.N && !p.due(*a, s, now) {
			break
		}
		tasks, err := p.drawn(ctx, *a, s, n, n == now.N)
		if err != nil && (n == now.N || first && !errors.Is(err, ErrDrawing)) {
			return err
		}
		if err != nil {
			p.sayDraw(ctx, s, *a, n, err)
			break
		}
		if n == now.N {
			a.Tasks = inSet(a.Tasks, tasks)
		}
	}
	return s.Complete(ctx, a)
}

// inSet are the open tasks of an arena with those of a set.
func inSet(all, set []agon.TaskRef) []agon.TaskRef {
	open := slices.DeleteFunc(slices.Clone(all), func(t agon.TaskRef) bool { return t.Hidden })
	return append(open, set...)
}

func (p *Platform) sayDraw(ctx context.Context, s *supplied, a agon.Arena, n int64, err error) {
	if s.drawing = errors.Is(err, ErrDrawing); s.drawing {
		s.rest = p.now().Add(lookAgain)
		return
	}
	s.rest = p.now().Add(drawAgain)
	if said := fmt.Sprint(n, err); said != s.said {
		s.said = said
		p.cfg.Log.ErrorContext(ctx, "draw the set of a period", "arena", a.ID, "period", n, "error", err)
	}
}

// drawn returns the set of a period; one that is not there yet is drawn and
// committed to. needed is SetRequest's.
func (p *Platform) drawn(ctx context.Context, a agon.Arena, s *supplied, n int64, needed bool) ([]agon.TaskRef, error) {
	var x store.SeedPeriod
	r := SetRequest{Arena: a, Period: n, Tasks: a.Supply.Tasks, Shown: map[agon.Digest]bool{}, Seen: map[agon.Digest]int64{}, Needed: needed}
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if x, err = tx.Period(a.ID, n); err != nil {
			return err
		}
		if len(x.Tasks) > 0 {
			return nil
		}
		if r.Uses, err = tx.PeriodUses(a.ID); err != nil {
			return err
		}
		open, err := tx.UnpublishedPeriods(a.ID) // the present one, and those whose results are not in
		if err != nil {
			return err
		}
		for _, o := range open {
			for _, t := range o.Tasks {
				r.Shown[t.Digest] = true
			}
		}
		hidden, err := tx.HiddenTasks(a.ID)
		if err != nil {
			return err
		}
		for _, h := range hidden {
			if !h.RetiredAt.IsZero() {
				r.Shown[h.Digest] = true
			}
		}
		seen, err := tx.Exposures(a.ID)
		for d, e := range seen {
			r.Seen[d] = e.Plays
		}
		return err
	})
	if err != nil || len(x.Tasks) > 0 {
		return x.Tasks, err
	}
	secret, round, err := p.worldSecret(ctx, a, x, needed)
	if err != nil {
		return nil, err
	}
	if r.Seed, err = seeds.Of(secret, seeds.Source{Arena: a.ID, Round: n, Task: seedSet}); err != nil {
		return nil, err
	}
	if r.TaskSeeds, err = taskSeeds(secret, a, n); err != nil {
		return nil, err
	}
	level, err := p.levelOf(ctx, a, n)
	if err != nil {
		return nil, err
	}
	if level != nil {
		r.Level = level.Level
	}
	list, err := s.Draw(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := checkSet(r, list); err != nil {
		return nil, err
	}
	var refs []store.BlobRef
	for i, t := range list {
		list[i].Hidden = true
		m, err := blob.GetManifest(ctx, p.cfg.Blobs, t.Digest, blob.TreeLimits{})
		if err != nil {
			return nil, fmt.Errorf("task %q: %w", t.Key, err)
		}
		refs = append(refs, treeRefs(t.Digest, m, store.BlobRef{What: store.RefTask, Owner: a.ID + "/" + t.Key, Hidden: true})...)
	}
	set := slices.Clone(list)
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		copy(set, list) // the transaction may run twice
		for _, r := range refs {
			if err := tx.AddRef(r); err != nil {
				return err
			}
		}
		now := p.now()
		body := client.Set{Arena: a.ID, Period: n, Drand: drandView(round), Difficulty: level}
		for i := range set {
			h, err := tx.HiddenTask(a.ID, set[i].Digest)
			if errors.Is(err, store.ErrNotFound) {
				h, err = p.commit(tx, &a, nil, set[i], now)
			}
			if err != nil {
				return err
			}
			set[i].Key = h.ID
			body.Tasks = append(body.Tasks, client.SetTask{Task: h.ID, Commitment: h.Commitment})
		}
		if err := tx.SetPeriodTasks(a.ID, n, set, round, level); err != nil {
			return err
		}
		return note(tx, store.FactSet, translog.SetID(a.ID, n), body, now)
	})
	if err != nil {
		return nil, err
	}
	s.said, s.drawing = "", false
	return set, nil
}

// seeBlock notes the newest block of an arena whose periods are counted in blocks.
func (p *Platform) seeBlock(ctx context.Context, a agon.Arena) error {
	if a.Period == nil || a.Period.Blocks == 0 {
		return nil
	}
	l, ok := p.ledgerOf(a).(Beacons)
	if !ok {
		return errors.New("its ledger has no blocks to count a period in")
	}
	n, err := l.Newest(ctx, a.Netuid)
	if err != nil {
		return ledgerError(err)
	}
	p.sawBlock(a.ID, n)
	return nil
}

// rotate moves the sets of all arenas to now. What fails in one is said, and
// keeps no other.
func (p *Platform) rotate(ctx context.Context) error {
	var list []agon.Arena
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		list, err = tx.Arenas()
		return err
	})
	for _, a := range list {
		if a.Period != nil && a.Period.Blocks > 0 {
			if err := p.blockPeriods(ctx, a); err != nil && ctx.Err() == nil {
				p.cfg.Log.WarnContext(ctx, "count the blocks of a period", "arena", a.ID, "error", err)
			}
		}
		s := p.supplyOf(a.ID)
		if s == nil || a.Supply == nil {
			continue
		}
		if err := p.rotateArena(ctx, a.ID, s); err != nil && ctx.Err() == nil {
			p.cfg.Log.ErrorContext(ctx, "turn the set of an arena", "arena", a.ID, "error", err)
		}
	}
	return err
}

// blockPeriods ends a period whose block has come.
func (p *Platform) blockPeriods(ctx context.Context, a agon.Arena) error {
	if err := p.seeBlock(ctx, a); err != nil {
		return err
	}
	return p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		_, err := p.period(tx, a)
		return err
	})
}

func (p *Platform) rotateArena(ctx context.Context, id string, s *supplied) error {
	s.turn.Lock()
	defer s.turn.Unlock()
	var a agon.Arena
	var list []store.SeedPeriod
	var due []store.SeedPeriod
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if a, err = tx.Arena(id); err != nil {
			return err
		}
		if list, err = tx.Periods(id, 2); err != nil {
			return err
		}
		due, err = tx.UnpublishedPeriods(id)
		return err
	})
	if err != nil {
		return err
	}
	now := p.now()
	if len(list) < 2 || !p.holds(list[1], now) || !sound(list[0]) {
		err := p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
			if _, err = p.period(tx, a); err == nil {
				list, err = tx.Periods(id, 2)
			}
			return err
		})
		if err != nil || len(list) < 2 {
			return err
		}
	}
	next, cur := list[0], list[1]
	// The season of a closed arena is over: what was drawn is still played, and no more is drawn.
	if a.State != agon.ArenaClosed && (len(cur.Tasks) == 0 || len(next.Tasks) == 0) {
		if !now.Before(s.rest) {
			for _, x := range []*store.SeedPeriod{&cur, &next} {
				if len(x.Tasks) > 0 || x == &next && !p.due(a, s, cur) {
					continue
				}
				if x.Tasks, err = p.drawn(ctx, a, s, x.N, false); err != nil {
					p.sayDraw(ctx, s, a, x.N, err)
					break
				}
			}
		}
		if len(cur.Tasks) == 0 {
			if s.drawing {
				return nil // what is entered meanwhile waits for it
			}
			return p.pauseUnsupplied(ctx, a, cur)
		}
	}
	switch {
	case len(cur.Tasks) == 0:
	case cur.TurnedAt.IsZero():
		if err := p.turnSet(ctx, a, s, cur); err != nil {
			return err
		}
	case cur.Beacon == "" && cur.BeaconBlock > 0:
		if err := p.beaconOfSet(ctx, a, cur); err != nil {
			return err
		}
	}
	for _, x := range due {
		if x.N < cur.N {
			if err := p.publishSet(ctx, a, s, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// turnSet lets an arena play the set of the period that has begun.
func (p *Platform) turnSet(ctx context.Context, a agon.Arena, s *supplied, cur store.SeedPeriod) error {
	was := a.Tasks
	a.Tasks = inSet(a.Tasks, cur.Tasks)
	if err := s.Complete(ctx, &a); err != nil {
		return err
	}
	b, err := p.beaconFor(ctx, a)
	if err != nil {
		return err
	}
	queued := 0
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		now, err := tx.Arena(a.ID)
		if err != nil {
			return err
		}
		now.Tasks, now.Contest, now.Title = a.Tasks, a.Contest, a.Title
		if err := tx.PutArena(now); err != nil {
			return err
		}
		if err := tx.TurnPeriod(a.ID, cur.N, p.now(), b.Block, b.Hash); err != nil {
			return err
		}
		cur.TurnedAt, cur.BeaconBlock, cur.Beacon = p.now(), b.Block, b.Hash
		queued, err = p.entitle(tx, now, cur)
		return err
	})
	if err != nil {
		return err
	}
	if queued > 0 {
		p.news(queued)
	}
	p.hub.changed("")
	if slices.EqualFunc(was, a.Tasks, func(x, y agon.TaskRef) bool { return x.Digest == y.Digest }) {
		return nil
	}
	return s.Opened(ctx, a)
}

// beaconOfSet plays who sits when the block after the turn is there.
func (p *Platform) beaconOfSet(ctx context.Context, a agon.Arena, cur store.SeedPeriod) error {
	l, ok := p.ledgerOf(a).(Beacons)
	if !ok {
		return nil
	}
	hash, err := l.BlockHash(ctx, cur.BeaconBlock)
	if err != nil || hash == "" {
		return err
	}
	queued := 0
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		if err := tx.TurnPeriod(a.ID, cur.N, cur.TurnedAt, cur.BeaconBlock, hash); err != nil {
			return err
		}
		cur.Beacon = hash
		queued, err = p.entitle(tx, a, cur)
		return err
	})
	if err == nil && queued > 0 {
		p.news(queued)
		p.hub.changed("")
	}
	return err
}

// publishSet makes a set public whose period has ended, as far as it is used up,
// when everything of it is decided; at the latest when its secret must be shown.
func (p *Platform) publishSet(ctx context.Context, a agon.Arena, s *supplied, x store.SeedPeriod) error {
	now := p.now()
	end := EndedSet{Arena: a.ID, Period: x.N, Tasks: x.Tasks, Played: map[agon.Digest][]string{}}
	waits := false
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if x.Closes.Add(RevealWithin).After(now) {
			if waits, err = tx.AnyOpenEntry(a.ID, x.N); err != nil || waits {
				return err
			}
		}
		if end.Uses, err = tx.PeriodUses(a.ID); err != nil {
			return err
		}
		for _, t := range x.Tasks {
			if end.Played[t.Digest], err = tx.PlayedOn(a.ID, t.Key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || waits {
		return err
	}
	used, err := s.Ended(ctx, end)
	if err != nil {
		return err
	}
	var refs []store.BlobRef
	for _, d := range used {
		i := slices.IndexFunc(x.Tasks, func(t agon.TaskRef) bool { return t.Digest == d })
		if i < 0 {
			return fmt.Errorf("the supply calls a task used up that was not in the set of period %d", x.N)
		}
		m, err := blob.GetManifest(ctx, p.cfg.Blobs, d, blob.TreeLimits{})
		if err != nil {
			return err
		}
		refs = append(refs, treeRefs(d, m, store.BlobRef{What: store.RefTask, Owner: a.ID + "/" + x.Tasks[i].Key})...)
	}
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		for _, r := range refs {
			if err := tx.AddRef(r); err != nil {
				return err
			}
		}
		for _, d := range used {
			if err := p.retire(tx, a.ID, &agon.TaskRef{Digest: d}, now, true); err != nil {
				return err
			}
		}
		return tx.PublishPeriod(a.ID, x.N, now)
	})
	if err != nil {
		return err
	}
	p.hub.changed("")
	return p.findOpened(ctx)
}

// findOpened notes which tasks were hidden and are public now.
func (p *Platform) findOpened(ctx context.Context) error {
	all := map[string]map[agon.Digest]bool{}
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		list, err := tx.RetiredTasks()
		for _, h := range list {
			if all[h.Arena] == nil {
				all[h.Arena] = map[agon.Digest]bool{}
			}
			all[h.Arena][h.Digest] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	p.sets.mu.Lock()
	defer p.sets.mu.Unlock()
	p.sets.opened = all
	return nil
}

// wasOpened reports whether a task that was hidden is public now.
func (p *Platform) wasOpened(arena string, d agon.Digest) bool {
	p.sets.mu.Lock()
	defer p.sets.mu.Unlock()
	return p.sets.opened[arena][d]
}
