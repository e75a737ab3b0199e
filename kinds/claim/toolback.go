package claim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/desearch"
	"github.com/agon-arena/agon/engine/tools/gitrepo"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
	"github.com/google/uuid"
)

// shippedFeed is the feed of the documents that come with agon; the demo's claims name it.
const shippedFeed = "0b3c2d3e-5b0e-4c37-9d3d-1f8c2f6f6a51"

// feeds are the feeds that search_items answers from: the shipped documents,
// and the folders of AGON_FEEDS, each named by the uuid of its feed.
func feeds(o kit.Options, docs tools.Search, now func() time.Time) (index.Feeds, error) {
	out := index.Feeds{}
	if f, ok := docs.(*index.Folder); ok {
		out[shippedFeed] = f
	}
	dir := o.Getenv("AGON_FEEDS")
	if dir == "" {
		return out, nil
	}
	bad := func(err error) error {
		return &agon.Error{Code: "bad_feeds", Status: 422, Field: "AGON_FEEDS", Message: err.Error(), Mend: "name a directory of folders of documents, each named by its feed's uuid", Err: err}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, bad(err)
	}
	for _, e := range list {
		id, err := uuid.Parse(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		f, err := index.Load(os.DirFS(filepath.Join(dir, e.Name())), "feed", now)
		if err != nil {
			return nil, bad(fmt.Errorf("feed %s: %w", id, err))
		}
		out[id.String()] = f
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

// toolConfig is what a tool host is made of here: the HTTP provider of
// AGON_DESEARCH_URL and AGON_DESEARCH_KEY where one is configured, else docs;
// and git in boxes of d.
func toolConfig(o kit.Options, docs tools.Search, d sandbox.Driver, rootfs string) (tools.Config, error) {
	c := tools.Config{Search: docs, Log: o.Log, Headers: play.Headers(), PriceVersion: play.PriceVersion}
	items, err := feeds(o, docs, time.Now)
	if err != nil {
		return c, err
	}
	c.Items = items
	if url := o.Getenv("AGON_DESEARCH_URL"); url != "" {
		s, err := desearch.New(desearch.Config{BaseURL: url, Key: o.Getenv("AGON_DESEARCH_KEY")})
		if err != nil {
			return c, &agon.Error{Code: "bad_search", Status: 422, Message: err.Error(), Mend: "check AGON_DESEARCH_URL and AGON_DESEARCH_KEY"}
		}
		c.Search = s
	}
	if d != nil {
		c.Repo = gitrepo.New(gitrepo.Config{Driver: d, Rootfs: rootfs})
	}
	return c, nil
}
