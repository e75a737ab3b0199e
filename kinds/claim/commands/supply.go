package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/claim/rounds"
	"github.com/agon-arena/agon/kinds/claim/supply"
	"github.com/agon-arena/agon/kinds/claim/wire"
	"github.com/agon-arena/agon/kinds/kit"
)

// makeClaims makes claims from a feed, as c says.
func makeClaims(ctx context.Context, o kit.Options, c generateOptions) (*supply.Report, error) {
	bad := func(field string, err error) error {
		return &agon.Error{Code: "bad_" + field, Status: 422, Field: field, Message: err.Error()}
	}
	items, err := itemsFor(ctx, c)
	if err != nil {
		return nil, bad("feed", err)
	}
	if _, err := os.Lstat(c.out); err == nil {
		return nil, &agon.Error{Code: "exists", Status: 409, Field: "out", Message: c.out + " is there already", Mend: "name another directory"}
	}
	m := rounds.Making{
		Items: items, Log: c.log, Replay: c.replay, Count: c.count, Wrong: c.wrong, Draws: c.draws, Seed: c.seed, Budget: c.budget,
		Proposer: kit.ModelNames(c.proposer), Reference: kit.ModelNames(c.reference), Auditor: kit.ModelNames(c.auditor),
	}
	if !c.replay {
		if err := kit.NoModel(o, "making claims"); err != nil {
			return nil, err
		}
		if c.champion != "" {
			if m.Script, err = kit.ReadFile(c.champion, wire.MaxScript); err != nil {
				return nil, bad("champion", err)
			}
		}
	}
	set, err := rounds.Make(ctx, o, m)
	if err != nil {
		return nil, err
	}
	if set.Report.Complete {
		if err := supply.Write(c.out, set); err != nil {
			return nil, err
		}
		// The feed moves on; these are the texts that the claims can be found in.
		texts, err := supply.Feed("what the claims of "+filepath.Base(c.out)+" are made of", items)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(c.out+".corpus.json", texts, 0o600); err != nil {
			return nil, err
		}
		o.Sayf("%d claims are in %s; scripts find what they are about with AGON_CORPUS=%s", len(set.Tasks), c.out, corpusOf(o, c))
	}
	return &set.Report, nil
}

// corpusOf is what the arena of a set must search so that scripts find there what the
// champion found.
func corpusOf(o kit.Options, c generateOptions) string {
	if own := o.Getenv("AGON_CORPUS"); own != "" {
		return own
	}
	return c.out + ".corpus.json"
}

// itemsFor takes the items of the run that the log began with, where there is
// one: a feed moves on while a making waits.
func itemsFor(ctx context.Context, c generateOptions) ([]supply.Item, error) {
	kept := c.log + ".items"
	if b, err := os.ReadFile(kept); err == nil {
		var items []supply.Item
		if err := json.Unmarshal(b, &items); err != nil {
			return nil, fmt.Errorf("read %s: %w", kept, err)
		}
		return items, nil
	} else if !errors.Is(err, os.ErrNotExist) || c.replay {
		return nil, err
	}
	items, err := rounds.Read(ctx, c.feed)
	if err != nil {
		return nil, err
	}
	if !c.anyAge {
		items = supply.Fresh(items, time.Now()) //nolint:forbidigo // a command of an operator
	}
	if len(items) == 0 {
		return nil, errors.New("the feed has no item of the last 24 hours (--any-age takes older ones)")
	}
	b, err := json.Marshal(items)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(kept+".new", b, 0o600); err != nil {
		return nil, err
	}
	return items, os.Rename(kept+".new", kept)
}
