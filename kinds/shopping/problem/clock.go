package problem

import (
	"slices"
	"time"

	"github.com/agon-arena/agon"
)

// Open draws the problems of a race, or returns those of one that was drawn
// before: who crashed after Save gets the same ones.
func (b *Bank) Open(race string, n int, now time.Time) (Race, error) {
	if r := b.race(race); r != nil {
		return *r, nil
	}
	if _, err := b.Draw(race, n); err != nil {
		return Race{}, err
	}
	r := b.race(race)
	r.Opened = now
	return *r, nil
}

// End closes a race after noting which submissions have seen which of its
// problems. It returns those that are retired then. Ending again changes nothing.
func (b *Bank) End(race string, seen map[string][]string) (retired []string, err error) {
	r := b.race(race)
	if r == nil {
		return nil, noRace(race)
	}
	if r.Open {
		for id, submissions := range seen {
			for _, s := range submissions {
				if err := b.Expose(race, id, s); err != nil {
					return nil, err
				}
			}
		}
		if _, err := b.Close(race); err != nil {
			return nil, err
		}
	}
	for _, id := range b.race(race).Problems {
		if b.Entries[id].State == StateRetired {
			retired = append(retired, id)
		}
	}
	return retired, nil
}

// LastRace is the newest race whose id begins so.
func (b *Bank) LastRace(prefix string) (Race, error) {
	for _, r := range slices.Backward(b.Races) {
		if len(r.ID) > len(prefix) && r.ID[:len(prefix)] == prefix {
			return r, nil
		}
	}
	return Race{}, &agon.Error{Code: "not_found", Status: 404, Field: "race", Message: "the bank has no race " + prefix, Mend: "is it the arena's bank?"}
}
