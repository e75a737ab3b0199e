package problem

import (
	"errors"
	"fmt"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Schedule is the clock of a bank's races.
type Schedule struct {
	Every time.Duration // how long a race is open
	Count int           // problems of a race; the last races of a bank may have fewer
}

// Played lists what submissions have seen of a race: problem ids by submission.
type Played func(race Race) (map[string][]string, error)

// Turned is what Turn did.
type Turned struct {
	Race    Race     // that is open now
	Changed bool     // the bank wants to be saved
	Closed  string   // the race that ended; empty: none
	Retired []string // problems of it that retired
}

// timed is the open race that the clock opened, if there is one.
func (b *Bank) timed() *Race {
	for i := range b.Races {
		if r := &b.Races[i]; r.Open && !r.Closes.IsZero() {
			return r
		}
	}
	return nil
}

// Turn brings a bank to now: a race whose time has come is closed, its exposures
// are noted, what the policy calls used up retires, and the next race is drawn.
// Races of a schedule end on its beat: a process that was away opens one race,
// not all that it missed. Turning again at the same time changes nothing. On an
// error the bank may be half turned and must not be saved, but for code
// bank_exhausted: then the old race is closed and no other is open.
func (b *Bank) Turn(now time.Time, s Schedule, played Played) (Turned, error) {
	if s.Every < time.Second || s.Count < 1 {
		return Turned{}, invalid("schedule", "1 second, 1 problem", "a race wants a length and problems")
	}
	closes := now.Add(s.Every)
	var out Turned
	if r := b.timed(); r != nil {
		if now.Before(r.Closes) {
			out.Race = *r
			return out, nil
		}
		seen, err := played(*r)
		if err != nil {
			return out, fmt.Errorf("close race %s: %w", r.ID, err)
		}
		for submission, ids := range seen {
			for _, id := range ids {
				if err := b.Expose(r.ID, id, submission); err != nil {
					return out, err
				}
			}
		}
		missed := now.Sub(r.Closes) / s.Every
		closes = r.Closes.Add((missed + 1) * s.Every)
		out.Closed, out.Changed = r.ID, true
		if out.Retired, err = b.Close(r.ID); err != nil {
			return out, err
		}
	}
	id := fmt.Sprintf("race-%04d", len(b.Races)+1)
	if _, err := b.Draw(id, max(1, min(s.Count, b.Left()))); err != nil {
		return out, err
	}
	r := b.race(id)
	r.Opened, r.Closes = now, closes
	out.Race, out.Changed = *r, true
	return out, nil
}

// Task is one problem of a race and the name of its task.
type Task struct {
	Name    string
	Problem shop.Problem
}

// Tasks names the tasks of a race as WriteTasks does.
func (b *Bank) Tasks(race string) ([]Task, error) {
	list, err := b.Racing(race)
	if err != nil {
		return nil, err
	}
	out := make([]Task, len(list))
	for i := range list {
		out[i] = Task{taskName(&list[i], i), list[i]}
	}
	return out, nil
}

// Exhausted reports whether an error of Turn says that no hidden problem is left.
func Exhausted(err error) bool {
	var e *agon.Error
	return errors.As(err, &e) && e.Code == "bank_exhausted"
}
