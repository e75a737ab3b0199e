// Package rounds makes the sets of a claim arena: one for each set period, of what
// was published since, against the script that sits then.
package rounds

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/tools/fts"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/claim/supply"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// Making is what a set is made of, and by whom. Items and Log are needed.
type Making struct {
	Items  []supply.Item
	Log    string // file; a making that was stopped goes on from it
	Replay bool   // answer from the log only
	// Script is that of the sitting champion; nil: the seat is empty.
	Script []byte
	// Models of each role; empty: those that the environment names for it. Without an
	// auditor nothing is audited.
	Proposer, Reference, Auditor []string

	Count  int
	Wrong  float64 // share that the champion must get wrong
	Draws  int
	Seed   uint64
	Budget agon.Micros // of all models together, what the log has spent already included
	Avoid  []string    // claims of sets before
	Audit  bool        // by the models of the role, where Auditor names none
	// Search is what the champion searches in; nil: Items.
	Search *Corpus
	// Seq is the place in the feed FeedID up to which scripts find items; 0: that of
	// each claim's own item among Items.
	Seq int64
}

// Read reads a feed: an address, a file, a folder or an SQLite database.
func Read(ctx context.Context, feed string) ([]supply.Item, error) {
	if address(feed) {
		return supply.Fetch(ctx, feed)
	}
	st, err := os.Stat(feed)
	if err != nil {
		return nil, fmt.Errorf("read feed: %w", err)
	}
	if database(feed) {
		return readDatabase(ctx, feed)
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

// readDatabase takes the rows of a full-text table as items.
func readDatabase(ctx context.Context, file string) ([]supply.Item, error) {
	db, err := fts.Open(ctx, file, FeedID, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	docs, err := db.Docs(ctx, supply.MaxItems)
	if err != nil {
		return nil, err
	}
	return supply.Documents(docs), nil
}

func address(feed string) bool {
	return strings.HasPrefix(feed, "http://") || strings.HasPrefix(feed, "https://")
}

// Make makes a set; a part of one, with the reason in its report, where money, draws
// or items are used up.
func Make(ctx context.Context, o kit.Options, m Making) (*supply.Set, error) {
	log, err := supply.OpenLog(m.Log, m.Replay)
	if err != nil {
		return nil, &agon.Error{Code: "bad_log", Status: 422, Field: "log", Message: err.Error()}
	}
	defer log.Close()
	conf := supply.Config{
		Items: m.Items, Log: log, Replay: m.Replay, Feed: log.Feed(FeedID), Seq: m.Seq, Count: m.Count, Wrong: m.Wrong, Draws: m.Draws, Seed: m.Seed, Avoid: m.Avoid, Told: o.Sayf,
	}
	if m.Replay {
		conf.ChampionID = log.ChampionID()
		return supply.Generate(ctx, conf)
	}
	left := m.Budget - log.Spent()
	if left <= 0 {
		return nil, &agon.Error{Code: "budget_exhausted", Status: 402, Field: "budget", Message: fmt.Sprintf("the claims cost $%.2f so far, which is all that they may", float64(log.Spent())/1e6)}
	}
	work, err := tempdir.Make("supply")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	var gw *gateway.Gateway
	if m.Script == nil {
		if gw, err = kit.NewGateway(ctx, o, work); err != nil {
			return nil, err
		}
		defer gw.Stop()
	} else {
		conf.ChampionID = string(agon.Sum(m.Script))
		docs, err := m.search(ctx, o)
		if err != nil {
			return nil, err
		}
		ch, err := newChampion(ctx, o, work, m.Script, docs)
		if err != nil {
			return nil, err
		}
		defer ch.close()
		conf.Champion, gw = ch, ch.player.Own
	}
	o.Sayf("making %d claims can cost at most $%.2f for models, and what the champion spends", max(m.Count, 1), float64(left)/1e6)
	// Most of the money goes to the reference model: it answers every claim.
	roles := []role{{"propose", kit.RoleProposer, m.Proposer, left / 4, &conf.Proposer}}
	if auditors := m.auditors(o); m.Audit || len(auditors) > 0 {
		roles = append(roles, role{"reference", kit.RoleReference, m.Reference, left / 2, &conf.Reference}, role{"audit", kit.RoleAuditor, auditors, left / 4, &conf.Auditor})
	} else {
		roles = append(roles, role{"reference", kit.RoleReference, m.Reference, left - left/4, &conf.Reference})
	}
	for _, r := range roles {
		models := r.models
		if len(models) == 0 {
			models = o.Models(r.name)
		}
		if len(models) == 0 {
			models = gw.Models()[:1] // by its name, which stands in what it makes
		}
		j, s, err := kit.JudgeSession(ctx, gw, "supply", r.task, models, 0, r.share)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		*r.to = j
	}
	return supply.Generate(ctx, conf)
}

// role is who is asked for what.
type role struct {
	task, name string
	models     []string
	share      agon.Micros
	to         **judge.Judge
}

// auditors are the models that audit, of the making or named for it alone.
func (m Making) auditors(o kit.Options) []string {
	if len(m.Auditor) > 0 || o.Getenv == nil {
		return m.Auditor
	}
	return kit.ModelNames(o.Getenv("AGON_" + kit.RoleAuditor + "_MODEL"))
}

// search is what the champion searches, as scripts in play do: of a round the texts of
// all rounds, else what the claims are made of or, where it is set, AGON_CORPUS.
func (m Making) search(ctx context.Context, o kit.Options) (*Corpus, error) {
	c := m.Search
	if c == nil {
		c = NewCorpus(nil)
		if o.Getenv == nil || o.Getenv("AGON_CORPUS") == "" {
			c.AddItems(m.Items)
		}
	}
	return c, Own(ctx, o, c)
}

// Own adds what AGON_CORPUS names to a corpus.
func Own(ctx context.Context, o kit.Options, c *Corpus) error {
	if o.Getenv == nil || o.Getenv("AGON_CORPUS") == "" {
		return nil
	}
	if err := c.Add(ctx, o.Getenv("AGON_CORPUS")); err != nil {
		return &agon.Error{
			Code: "bad_corpus", Status: 422, Field: "AGON_CORPUS", Message: err.Error(), Err: err,
			Mend: "name a folder of .md, .txt or .json documents, a feed (file or address), or an SQLite database with an FTS5 table",
		}
	}
	return nil
}
