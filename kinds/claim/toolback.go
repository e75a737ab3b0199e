package claim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/desearch"
	"github.com/agon-arena/agon/engine/tools/gitrepo"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/engine/tools/websearch"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/rounds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
)

// shippedFeed is the feed of the documents that come with agon; the demo's claims name it.
const shippedFeed = "0b3c2d3e-5b0e-4c37-9d3d-1f8c2f6f6a51"

// feedList are the feeds that search_items answers from: folders by the uuid of their
// feed, and the corpus.
type feedList struct {
	index.Feeds
	corpus *rounds.Corpus // nil: none
}

// Items implements tools.Items.
func (f feedList) Items(ctx context.Context, q tools.ItemQuery) ([]tools.Item, error) {
	if f.corpus != nil && q.FeedID == rounds.FeedID {
		return f.corpus.Items(ctx, q)
	}
	return f.Feeds.Items(ctx, q)
}

// feeds are the feeds that search_items answers from: the shipped documents or the
// corpus, and the folders of AGON_FEEDS, each named by the uuid of its feed.
func feeds(o kit.Options, docs tools.Search, now func() time.Time) (feedList, error) {
	out := feedList{Feeds: index.Feeds{}}
	switch d := docs.(type) {
	case *index.Folder:
		out.Feeds[shippedFeed] = d
	case *rounds.Corpus:
		out.corpus = d
	}
	dir := o.Getenv("AGON_FEEDS")
	if dir == "" {
		return out, nil
	}
	bad := func(err error) (feedList, error) {
		return feedList{}, &agon.Error{Code: "bad_feeds", Status: 422, Field: "AGON_FEEDS", Message: err.Error(), Mend: "name a directory of folders of documents, each named by its feed's uuid", Err: err}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return bad(err)
	}
	for _, e := range list {
		id, err := uuid.Parse(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		f, err := index.Load(os.DirFS(filepath.Join(dir, e.Name())), "feed", now)
		if err != nil {
			return bad(fmt.Errorf("feed %s: %w", id, err))
		}
		out.Feeds[id.String()] = f
	}
	return out, nil
}

// lazyRepo reads repositories in boxes of a driver that is looked for when
// the first question comes: a server that never gets one needs no sandbox.
type lazyRepo struct {
	o    kit.Options
	open func() (tools.Repo, error)
}

func newLazyRepo(o kit.Options) *lazyRepo {
	return &lazyRepo{o: o, open: sync.OnceValues(func() (tools.Repo, error) {
		d, root, err := kit.OpenDriver(context.Background(), o)
		if err != nil {
			return nil, err
		}
		return gitrepo.New(gitrepo.Config{Driver: d, Rootfs: root}), nil
	})}
}

// Name implements tools.Repo.
func (*lazyRepo) Name() string { return "git" }

// SearchRepo implements tools.Repo.
func (l *lazyRepo) SearchRepo(ctx context.Context, q tools.RepoQuery) ([]tools.RepoHit, error) {
	r, err := l.open()
	if err != nil {
		return nil, err
	}
	return r.SearchRepo(ctx, q)
}

// GetFile implements tools.Repo.
func (l *lazyRepo) GetFile(ctx context.Context, q tools.FileQuery) (*tools.RepoFile, error) {
	r, err := l.open()
	if err != nil {
		return nil, err
	}
	return r.GetFile(ctx, q)
}

// toolConfig is what a tool host is made of here: the search engine that the
// environment names, else docs; and git in boxes of d.
func toolConfig(o kit.Options, docs tools.Search, d sandbox.Driver, rootfs string) (tools.Config, error) {
	c := tools.Config{Search: docs, Log: o.Log, Headers: play.Headers(), PriceVersion: play.PriceVersion}
	items, err := feeds(o, docs, time.Now)
	if err != nil {
		return c, err
	}
	c.Items = items
	engine, err := searchEngine(o)
	if err != nil {
		return c, err
	}
	if engine != nil {
		c.Search = engine
	}
	if p, ok := docs.(tools.Pages); ok && c.Search != docs {
		if own, ok := c.Search.(tools.Pages); ok {
			c.Pages = own
		} else {
			c.Pages = p // an engine that reads no pages leaves that to the documents
		}
	}
	if d != nil {
		c.Repo = gitrepo.New(gitrepo.Config{Driver: d, Rootfs: rootfs})
	}
	return c, nil
}

// searchEngine is the engine that the environment names: DeSearch (AGON_DESEARCH_URL and
// AGON_DESEARCH_KEY), a SearXNG instance (AGON_SEARXNG_URL) or Brave (AGON_BRAVE_KEY,
// AGON_BRAVE_URL); nil where it names none.
func searchEngine(o kit.Options) (tools.Search, error) {
	at := func(key string) string { return o.Getenv("AGON_" + key) }
	var named []string
	for _, k := range []string{"DESEARCH_URL", "SEARXNG_URL", "BRAVE_KEY"} {
		if at(k) != "" {
			named = append(named, "AGON_"+k)
		}
	}
	var s tools.Search
	var err error
	switch {
	case len(named) == 0:
		return nil, nil
	case len(named) > 1:
		return nil, &agon.Error{Code: "bad_search", Status: 422, Field: named[1], Message: strings.Join(named, " and ") + " are set: scripts search with one engine", Mend: "unset all but one"}
	case at("DESEARCH_URL") != "":
		s, err = desearch.New(desearch.Config{BaseURL: at("DESEARCH_URL"), Key: at("DESEARCH_KEY")})
	case at("SEARXNG_URL") != "":
		s, err = websearch.NewSearXNG(websearch.Config{BaseURL: at("SEARXNG_URL")})
	default:
		s, err = websearch.NewBrave(websearch.Config{BaseURL: at("BRAVE_URL"), Key: at("BRAVE_KEY")})
	}
	if err != nil {
		return nil, &agon.Error{Code: "bad_search", Status: 422, Field: named[0], Message: err.Error(), Mend: "check " + named[0] + " and its key"}
	}
	return s, nil
}
