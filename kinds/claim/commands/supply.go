package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/claim/supply"
	"github.com/agon-arena/agon/kinds/claim/wire"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// readItems reads a feed: an address, a file or a folder.
func readItems(ctx context.Context, feed string) ([]supply.Item, error) {
	if strings.HasPrefix(feed, "http://") || strings.HasPrefix(feed, "https://") {
		return supply.Fetch(ctx, nil, feed)
	}
	st, err := os.Stat(feed)
	if err != nil {
		return nil, fmt.Errorf("read feed: %w", err)
	}
	if st.IsDir() {
		return supply.ReadFolder(os.DirFS(feed))
	}
	b, err := kit.ReadFile(feed, supply.MaxFeed)
	if err != nil {
		return nil, err
	}
	return supply.ReadFeed(b)
}

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
	log, err := supply.OpenLog(c.log, c.replay)
	if err != nil {
		return nil, bad("log", err)
	}
	defer log.Close()
	conf := supply.Config{
		Items: items, Log: log, Replay: c.replay, Count: c.count, Wrong: c.wrong, Draws: c.draws, Seed: c.seed, Told: o.Sayf,
	}
	var script []byte
	if c.replay {
		conf.ChampionID = log.ChampionID()
	} else if c.champion != "" {
		if script, err = kit.ReadFile(c.champion, wire.MaxScript); err != nil {
			return nil, bad("champion", err)
		}
		conf.ChampionID = string(agon.Sum(script))
	}
	if !c.replay {
		if err := kit.NoModel(o, "making claims"); err != nil {
			return nil, err
		}
		work, err := tempdir.Make("supply")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(work)
		var gw *gateway.Gateway
		if script == nil {
			if gw, err = kit.NewGateway(ctx, o, work); err != nil {
				return nil, err
			}
			defer gw.Stop()
		} else {
			ch, err := newChampion(ctx, o, work, script, items)
			if err != nil {
				return nil, err
			}
			defer ch.close()
			conf.Champion, gw = ch, ch.player.Own
		}
		o.Sayf("making claims can cost at most $%.2f for models, and what the champion spends", float64(c.budget)/1e6)
		// Most of the money goes to the reference model: it answers every claim.
		for _, m := range []struct {
			task, role, model string
			share             agon.Micros
			to                **judge.Judge
		}{{"propose", kit.RoleProposer, c.proposer, c.budget / 4, &conf.Proposer}, {"reference", kit.RoleReference, c.reference, c.budget - c.budget/4, &conf.Reference}} {
			models := o.Models(m.role)
			if m.model != "" {
				models = kit.ModelNames(m.model)
			}
			j, s, err := kit.JudgeSession(ctx, gw, "supply", m.task, models, 0, m.share)
			if err != nil {
				return nil, err
			}
			defer s.Close()
			*m.to = j
		}
	}
	set, err := supply.Generate(ctx, conf)
	if err != nil {
		return nil, err
	}
	if set.Report.Complete {
		if err := supply.Write(c.out, set); err != nil {
			return nil, err
		}
		o.Sayf("%d claims are in %s", len(set.Tasks), c.out)
	}
	return &set.Report, nil
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
	items, err := readItems(ctx, c.feed)
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
