package platform

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/translog"
)

// A hidden task shows outside as an id that says nothing, and as a commitment to
// its digest. Its name, which its operator gave it, is nowhere but in the
// operator's own view. The salt and the digest are shown when it retires: when
// the arena lists it openly, or among its retired tasks.

// hiddenSet is the set that the ids of hidden tasks are of.
const hiddenSet = "hidden/"

// cover gives the hidden tasks of an arena their ids, commits to those that are
// new, and opens the commitments of those that have retired. old is the arena as
// it was, nil where it is new.
func (p *Platform) cover(tx *store.Tx, a, old *agon.Arena) error {
	now := p.now()
	named := map[string]string{} // ids by the keys that the operator gives
	defer func() {
		for i := range a.Stages {
			s := &a.Stages[i]
			s.Tasks = slices.Clone(s.Tasks)
			for j, k := range s.Tasks {
				if id := named[k]; id != "" {
					s.Tasks[j] = id
				}
			}
		}
	}()
	for i := range a.Tasks {
		t := &a.Tasks[i]
		if !t.Hidden {
			if err := p.retire(tx, a.ID, t, now, false); err != nil {
				return err
			}
			continue
		}
		h, err := tx.HiddenTask(a.ID, t.Digest)
		if errors.Is(err, store.ErrNotFound) {
			h, err = p.commit(tx, a, old, *t, now)
		}
		if err != nil {
			return err
		}
		named[t.Key], t.Key = h.ID, h.ID
	}
	for i := range a.Retired {
		a.Retired[i].Hidden = false
		if err := p.retire(tx, a.ID, &a.Retired[i], now, true); err != nil {
			return err
		}
	}
	return nil
}

// commit makes the id and the commitment of a task that is hidden from now on.
func (p *Platform) commit(tx *store.Tx, a, old *agon.Arena, t agon.TaskRef, now time.Time) (store.HiddenTask, error) {
	h := store.HiddenTask{Arena: a.ID, Digest: t.Digest, ID: hiddenSet + hex.EncodeToString(randomBytes(6)), Name: t.Key, Salt: hex.EncodeToString(randomBytes(16)), CreatedAt: now}
	// Everybody works on the one task of a contest: only its data is hidden. And a name
	// that was shown before there were ids is not a secret, but results stand under it.
	if a.Contest != nil || old != nil && shownBefore(*old, t) {
		h.ID = t.Key
	}
	var err error
	if h.Commitment, err = seeds.TaskCommitment(h.Salt, h.Digest); err != nil {
		return h, err
	}
	if err := tx.InsertHiddenTask(h); err != nil {
		return h, err
	}
	return h, noteHidden(tx, store.FactTask, h, now)
}

func shownBefore(a agon.Arena, t agon.TaskRef) bool {
	for _, x := range a.Tasks {
		if x.Digest == t.Digest && x.Key == t.Key {
			return true
		}
	}
	return false
}

// retire opens the commitment of a task that was hidden, if it was; named gives
// it back the id that its results stand under.
func (p *Platform) retire(tx *store.Tx, arena string, t *agon.TaskRef, now time.Time, named bool) error {
	h, err := tx.HiddenTask(arena, t.Digest)
	if errors.Is(err, store.ErrNotFound) {
		return nil // it never was
	}
	if err != nil {
		return err
	}
	if named {
		t.Key = h.ID
	}
	if !h.RetiredAt.IsZero() {
		return nil
	}
	if err := tx.RetireHiddenTask(arena, t.Digest, now); err != nil {
		return err
	}
	h.RetiredAt = now
	return noteHidden(tx, store.FactRetired, h, now)
}

// noteHidden puts a task's commitment, or what opens it, into the log.
func noteHidden(tx *store.Tx, typ string, h store.HiddenTask, at time.Time) error {
	return note(tx, typ, translog.TaskID(typ, h.Arena, h.ID), struct {
		Arena string `json:"arena"`
		client.HiddenTask
	}{h.Arena, hiddenView(h, false)}, at)
}

// hiddenView is what may be shown of a task that is hidden, or was.
func hiddenView(h store.HiddenTask, operator bool) client.HiddenTask {
	out := client.HiddenTask{Task: h.ID, Commitment: h.Commitment, CommittedAt: h.CreatedAt}
	if !h.RetiredAt.IsZero() {
		at := h.RetiredAt
		out.RetiredAt = &at
	}
	if operator || out.RetiredAt != nil {
		out.Name, out.Salt, out.Digest = h.Name, h.Salt, h.Digest
	}
	return out
}

// hiddenOf are the commitments of an arena.
func hiddenOf(tx *store.Tx, a agon.Arena) ([]client.HiddenTask, error) {
	list, err := tx.HiddenTasks(a.ID)
	var out []client.HiddenTask
	for _, h := range list {
		if a.Supply != nil && !h.RetiredAt.IsZero() {
			continue // they grow with every period: ArenaTasks has them
		}
		out = append(out, hiddenView(h, false))
	}
	return out, err
}

// TaskNames are the names that the operator of an arena gave its hidden tasks, by
// id; for the platform's own process.
func (p *Platform) TaskNames(ctx context.Context, arena string) (map[string]string, error) {
	out := map[string]string{}
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		list, err := tx.HiddenTasks(arena)
		for _, h := range list {
			out[h.ID] = h.Name
		}
		return err
	})
	return out, err
}

// ArenaTasks tells of each task of an arena how much of it was seen, and what is
// committed to. Only the operator reads names and digests of hidden ones.
func (p *Platform) ArenaTasks(ctx context.Context, c Caller, arena string) ([]client.ArenaTask, error) {
	out := []client.ArenaTask{}
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		a, err := tx.Arena(arena)
		if err != nil {
			return noArena(tx, err, arena)
		}
		seen, err := tx.Exposures(arena)
		if err != nil {
			return err
		}
		hidden, err := tx.HiddenTasks(arena)
		if err != nil {
			return err
		}
		committed := map[agon.Digest]client.HiddenTask{}
		for _, h := range hidden {
			committed[h.Digest] = hiddenView(h, c.Operator)
		}
		add := func(t agon.TaskRef, retired bool) {
			x := client.ArenaTask{Task: t.Key, Hidden: t.Hidden, Retired: retired, Exposure: p.exposure(seen[t.Digest])}
			if h, ok := committed[t.Digest]; ok {
				x.Committed = &h
			}
			if !t.Hidden || c.Operator {
				x.Digest = t.Digest
			}
			out = append(out, x)
		}
		for _, t := range a.Tasks {
			add(t, false)
		}
		for _, t := range a.Retired {
			add(t, true)
		}
		for _, h := range hidden { // of sets of before
			if !h.RetiredAt.IsZero() && !slices.ContainsFunc(out, func(x client.ArenaTask) bool { return x.Task == h.ID }) {
				add(agon.TaskRef{Key: h.ID, Digest: h.Digest}, true)
			}
		}
		return nil
	})
	return out, err
}

// exposure is what was seen of a task until now.
func (p *Platform) exposure(e store.Exposure) client.Exposure {
	out := client.Exposure{Plays: e.Plays, Miners: e.Miners}
	if e.Plays > 0 {
		first := e.First
		out.First = &first
		out.Days = max(0, int64(p.now().Sub(first)/(24*time.Hour))) + 1 // a clock that went back counts nothing
	}
	return out
}
