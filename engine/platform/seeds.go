package platform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/translog"
)

// Random seeds that nobody can know or choose. An arena's time is cut into set
// periods. Each has a secret; the log holds its commitment before the period
// begins and the secret when it has ended. A submission's seeds are made of the
// secret of the period in which it was accepted and of the first block after
// that, so that a contestant knows neither, and the operator, who knows the
// secret, does not know the block.

// Beacons is a Ledger whose blocks have hashes that nobody knows before.
type Beacons interface {
	// Newest returns the number of the newest block; errors.ErrUnsupported: the
	// ledger has no hashes.
	Newest(ctx context.Context, netuid uint16) (uint64, error)
	// BlockHash returns the hash of a block; empty: it is not there yet.
	BlockHash(ctx context.Context, number uint64) (string, error)
}

// Maker is a Ledger of Beacons that makes its blocks itself: whoever runs it knows
// their hashes beforehand, so that nothing is gained by waiting for them.
type Maker interface {
	// Ahead returns the hash that a block will have; ok is false where others make the blocks.
	Ahead(number uint64) (hash string, ok bool)
}

// blockTime is what a block is taken to last where a period is counted in blocks:
// the times that are shown of it beforehand are estimates.
const blockTime = 12 * time.Second

// DefaultPeriod is how long a set period lasts where the arena's rule has none.
const DefaultPeriod = 7 * 24 * time.Hour

// RevealWithin is how long after its end the secret of a period must be shown:
// after that the decisions of the period are unverifiable.
const RevealWithin = 24 * time.Hour

// periodLength is how long the set periods of an arena are.
func (p *Platform) periodLength(a agon.Arena) time.Duration {
	if x := a.Period; x != nil && x.Hours > 0 {
		return time.Duration(x.Hours * float64(time.Hour))
	} else if x != nil && x.Blocks > 0 {
		return time.Duration(x.Blocks) * blockTime // an estimate
	}
	if rule, err := p.rule(a); err == nil && rule.Pairing != nil {
		if d := time.Duration(rule.Of(a.IncentiveNumbers)[incentive.NumPeriod] * 24 * float64(time.Hour)); d > 0 {
			return d
		}
	}
	return DefaultPeriod
}

// period returns the set period that now is in, and sees that the commitment of
// the next one is public.
func (p *Platform) period(tx *store.Tx, a agon.Arena) (store.SeedPeriod, error) {
	now, length := p.now(), p.periodLength(a)
	list, err := tx.Periods(a.ID, 2)
	if err != nil {
		return store.SeedPeriod{}, err
	}
	if err := p.blockEnds(tx, list, now); err != nil {
		return store.SeedPeriod{}, err
	}
	if len(list) == 2 && p.holds(list[1], now) && sound(list[0]) {
		return list[1], nil // as nearly always
	}
	add := func(n int64, opens time.Time, block uint64) (store.SeedPeriod, error) {
		s := store.SeedPeriod{Arena: a.ID, N: n, Opens: opens, Closes: opens.Add(length), Secret: seeds.NewSecret(), CommittedAt: now}
		if a.Period != nil && a.Period.Blocks > 0 {
			if block == 0 { // counted in time before
				block = p.block(a.ID) + uint64(max(0, opens.Sub(now))/blockTime)
			}
			s.OpensBlock, s.ClosesBlock = block, block+a.Period.Blocks
		}
		if s.Commitment, err = seeds.Commitment(s.Secret); err != nil {
			return s, err
		}
		if err := tx.InsertPeriod(s); err != nil {
			return s, err
		}
		return s, noteSeeds(tx, store.FactSeeds, s, now)
	}
	live, newest := -1, store.SeedPeriod{N: -1, Closes: a.CreatedAt}
	if newest.Closes.IsZero() {
		newest.Closes = now
	}
	if len(list) > 0 {
		newest = list[0]
	}
	for i, s := range list {
		if p.holds(s, now) {
			live = i
		}
		if s.Closes.After(now) && !sound(s) { // it can be used no more
			p.cfg.Log.Error("the secret of a period of seeds is lost: its decisions are unverifiable", "arena", a.ID, "period", s.N)
			if err := tx.EndPeriod(a.ID, s.N, now); err != nil {
				return s, err
			}
			if s.N == newest.N {
				newest.Closes = now
			}
		}
	}
	var s store.SeedPeriod
	switch {
	case live == 1: // the next one was lost
		_, err := add(newest.N+1, list[1].Closes, list[1].ClosesBlock)
		return list[1], err
	case live == 0:
		s = list[0]
	case len(list) > 0 && list[0].ClosesBlock == 0 && list[0].Opens.After(now) && sound(list[0]):
		// The clock went back, to where the secret is public. What was committed to
		// for later serves until the clock is there.
		return list[0], nil
	default:
		opens := newest.Closes
		if gap := now.Sub(opens); gap >= length { // nobody was here for whole periods
			opens = opens.Add(gap / length * length)
		}
		block := newest.ClosesBlock
		if a.Period != nil && a.Period.Blocks > 0 && block > 0 {
			block += (max(p.block(a.ID), block) - block) / a.Period.Blocks * a.Period.Blocks
		}
		if s, err = add(newest.N+1, opens, block); err != nil {
			return s, err
		}
	}
	_, err = add(s.N+1, s.Closes, s.ClosesBlock)
	return s, err
}

// blockEnds corrects the estimated ends of periods that blocks count.
func (p *Platform) blockEnds(tx *store.Tx, list []store.SeedPeriod, now time.Time) error {
	for i := range list {
		s := &list[i]
		if s.ClosesBlock == 0 || !s.RevealedAt.IsZero() {
			continue
		}
		at := s.Closes
		if ended := p.closed(*s, now); ended && at.After(now) {
			at = now
		} else if !ended && !at.After(now) {
			at = now.Add(time.Duration(s.ClosesBlock-p.block(s.Arena)) * blockTime)
		}
		if at.Equal(s.Closes) {
			continue
		}
		if s.Closes = at; p.block(s.Arena) == 0 {
			continue // not asked yet
		}
		if err := tx.EndPeriod(s.Arena, s.N, at); err != nil {
			return err
		}
	}
	return nil
}

// holds reports whether seeds can be drawn from a period now. One whose secret
// is public never serves again, whatever the clock says.
func (p *Platform) holds(s store.SeedPeriod, now time.Time) bool {
	return !p.closed(s, now) && (s.ClosesBlock > 0 && (s.N == 0 || p.block(s.Arena) >= s.OpensBlock) || s.ClosesBlock == 0 && !s.Opens.After(now)) && s.RevealedAt.IsZero() && sound(s)
}

// sound reports whether a period's secret is the one that was committed to.
func sound(s store.SeedPeriod) bool {
	c, err := seeds.Commitment(s.Secret)
	return err == nil && c == s.Commitment
}

// noteSeeds puts a period's commitment, or its secret, into the log.
func noteSeeds(tx *store.Tx, typ string, s store.SeedPeriod, at time.Time) error {
	x := client.SeedPeriod{Arena: s.Arena, Period: s.N, Opens: s.Opens, Closes: s.Closes, OpensBlock: s.OpensBlock, ClosesBlock: s.ClosesBlock, Commitment: s.Commitment}
	if typ == store.FactReveal {
		x.Secret, x.RevealedAt = s.Secret, &at
	}
	return note(tx, typ, translog.SeedsID(typ, s.Arena, s.N), x, at)
}

// note puts what everybody may read into the log.
func note(tx *store.Tx, typ, id string, v any, at time.Time) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", typ, err)
	}
	return tx.InsertNote(store.Note{Type: typ, ID: id, At: at, Body: body})
}

// reveal shows the secrets of periods that have ended.
func (p *Platform) reveal(tx *store.Tx) error {
	now := p.now()
	due, err := tx.DuePeriods(now)
	if err != nil {
		return err
	}
	for _, s := range due {
		if !sound(s) || !p.closed(s, now) {
			continue // lost: it stays unverifiable
		}
		if err := tx.RevealPeriod(s.Arena, s.N, now); err != nil {
			return err
		}
		if err := noteSeeds(tx, store.FactReveal, s, now); err != nil {
			return err
		}
	}
	return nil
}

// beaconFor says what the seeds of a submission that is accepted now will come of.
func (p *Platform) beaconFor(ctx context.Context, a agon.Arena) (agon.Beacon, error) {
	l, ok := p.ledgerOf(a).(Beacons)
	if !ok {
		return agon.Beacon{Rule: agon.BeaconNone}, nil
	}
	n, err := l.Newest(ctx, a.Netuid)
	if errors.Is(err, errors.ErrUnsupported) {
		return agon.Beacon{Rule: agon.BeaconNone}, nil
	}
	if err != nil {
		return agon.Beacon{}, ledgerError(err)
	}
	b := agon.Beacon{Rule: agon.BeaconBlock, Block: n + 1}
	if m, ok := l.(Maker); ok {
		if hash, ok := m.Ahead(b.Block); ok {
			b.Hash = hash
		}
	}
	return b, nil
}

// seedOf is the seed of a run that challenger's submission is played by: its own
// runs, and both halves of its pairs.
func (p *Platform) seedOf(tx *store.Tx, a agon.Arena, e *store.Entry, task string, round int64) (int64, error) {
	for range 2 {
		if e.Beacon != nil && e.Beacon.Period >= 0 {
			s, err := tx.Period(a.ID, e.Beacon.Period)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return 0, err
			}
			if err == nil && sound(s) {
				return seeds.Of(s.Secret, seeds.Source{Beacon: e.Beacon.Hash, Arena: a.ID, Submission: e.ID, Round: round, Task: task})
			}
		}
		// It is older than periods, or its secret is lost.
		s, err := p.period(tx, a)
		if err != nil {
			return 0, err
		}
		b := agon.Beacon{Rule: agon.BeaconNone}
		if e.Beacon != nil {
			b = *e.Beacon
		}
		b.Period = s.N
		if err := tx.SetBeacon(e.ID, b); err != nil {
			return 0, err
		}
		e.Beacon = &b
	}
	return 0, fmt.Errorf("arena %s: no secret for the seeds of submission %s", a.ID, e.ID)
}

// awaitBeacons plans submissions whose block has come.
func (p *Platform) awaitBeacons(ctx context.Context) error {
	var list []store.Entry
	var arenas map[string]agon.Arena
	later := map[string]bool{}
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if list, err = tx.AwaitBeacons(p.now(), sweepBatch); err != nil || len(list) == 0 {
			return err
		}
		all, err := tx.Arenas()
		arenas = make(map[string]agon.Arena, len(all))
		for _, a := range all {
			arenas[a.ID] = a
		}
		for _, e := range list {
			opening, err := p.opening(tx, arenas[e.Arena], e.Beacon.Period)
			if err != nil {
				return err
			}
			later[e.ID] = opening
		}
		return err
	})
	if err != nil {
		return err
	}
	type block struct {
		arena string
		n     uint64
	}
	hashes := map[block]string{}
	queued := 0
	for _, e := range list {
		a, at := arenas[e.Arena], block{e.Arena, e.Beacon.Block}
		if later[e.ID] {
			continue // who sits is played on the new set first
		}
		hash, asked := hashes[at]
		if !asked {
			l, ok := p.ledgerOf(a).(Beacons)
			if !ok {
				continue
			}
			if hash, err = l.BlockHash(ctx, at.n); err != nil {
				p.cfg.Log.WarnContext(ctx, "submissions wait for a block", "arena", a.ID, "block", at.n, "err", err)
				hash = ""
			}
			hashes[at] = hash
		}
		if hash == "" {
			continue
		}
		n, err := p.begin(ctx, a, e.ID, hash)
		if err != nil {
			return fmt.Errorf("begin submission %s: %w", e.ID, err)
		}
		queued += n
	}
	if queued > 0 {
		p.news(queued)
		p.hub.changed("")
	}
	return nil
}

// begin plans a submission whose beacon is known now.
func (p *Platform) begin(ctx context.Context, a agon.Arena, id, hash string) (queued int, err error) {
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		queued = 0
		e, err := tx.Entry(id)
		if err != nil || e.Beacon == nil || e.Beacon.Hash != "" {
			return err
		}
		b := *e.Beacon
		b.Hash = hash
		if err := tx.SetBeacon(id, b); err != nil {
			return err
		}
		if e.Beacon = &b; e.State != agon.SubmissionQueued {
			return nil // withdrawn, or excluded meanwhile
		}
		if waits, err := tx.InVetting(id); waits || err != nil {
			return err // it begins when somebody has passed it (vetted)
		}
		queued, err = p.firstOrOurs(tx, a, e)
		return err
	})
	return queued, err
}

// Seeds returns the set periods of an arena, newest first: the one to come, the
// present one, and those that have ended, with their secrets.
func (p *Platform) Seeds(ctx context.Context, arena string) ([]client.SeedPeriod, error) {
	out := []client.SeedPeriod{}
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		if _, err := tx.Arena(arena); err != nil {
			return found(err, "arena", arena)
		}
		list, err := tx.Periods(arena, maxPage)
		for _, s := range list {
			out = append(out, p.periodView(s))
		}
		return err
	})
	return out, err
}

func (p *Platform) periodView(s store.SeedPeriod) client.SeedPeriod {
	x := client.SeedPeriod{Arena: s.Arena, Period: s.N, Opens: s.Opens, Closes: s.Closes, OpensBlock: s.OpensBlock, ClosesBlock: s.ClosesBlock, Commitment: s.Commitment, Beacon: s.Beacon, BeaconBlock: s.BeaconBlock}
	for _, t := range s.Tasks {
		x.Tasks = append(x.Tasks, t.Key)
	}
	if !s.PublishedAt.IsZero() {
		at := s.PublishedAt
		x.PublishedAt = &at
	}
	if !s.CommittedAt.IsZero() {
		at := s.CommittedAt
		x.CommittedAt = &at
	}
	x.Drand, x.Difficulty = drandView(s.Drand), s.Difficulty
	if !s.RevealedAt.IsZero() {
		at := s.RevealedAt
		x.Secret, x.RevealedAt = s.Secret, &at
	}
	late, now := s.Closes.Add(RevealWithin), p.now()
	x.Unverifiable = s.RevealedAt.After(late) || s.RevealedAt.IsZero() && now.After(late) && (s.ClosesBlock == 0 || p.closed(s, now))
	return x
}

// seedsOf is what everybody may know of the seeds of an arena.
func (p *Platform) seedsOf(tx *store.Tx, a agon.Arena) (*client.Seeds, error) {
	list, err := tx.Periods(a.ID, 2)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	now, out := p.now(), client.Seeds{BeaconRule: agon.BeaconNone}
	if _, ok := p.ledgerOf(a).(Beacons); ok {
		out.BeaconRule = agon.BeaconBlock
	}
	for i, s := range list {
		if s.Opens.After(now) || i == 0 && len(list) == 2 && p.holds(list[1], now) {
			x := p.periodView(s)
			out.Next, out.NextTasks = s.Commitment, x.Tasks
		} else if out.Period == nil {
			x := p.periodView(s)
			out.Period = &x
		}
	}
	return &out, nil
}

// unverifiable reports whether the seeds of a submission can never be computed again.
func (p *Platform) unverifiable(tx *store.Tx, e store.Entry) (bool, error) {
	if e.Beacon == nil || e.Beacon.Period < 0 {
		return false, nil
	}
	s, err := tx.Period(e.Arena, e.Beacon.Period)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return err == nil && p.periodView(s).Unverifiable, err
}
