package rounds

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/kinds/claim/supply"
)

// Corpus is what scripts search in: the documents that claims are made of, the same
// for those who make them and for those who play them. It grows with each round.
type Corpus struct {
	now func() time.Time

	mu   sync.RWMutex
	docs map[string]index.Doc // by id; guarded by mu
	in   *index.Folder        // over docs; nil: there are none; guarded by mu
}

// NewCorpus returns an empty one.
func NewCorpus(now func() time.Time) *Corpus {
	return &Corpus{now: now, docs: map[string]index.Doc{}}
}

// AddFolder adds the documents of a folder.
func (c *Corpus) AddFolder(dir string) error {
	f, err := index.Load(os.DirFS(dir), "corpus", c.now)
	if err != nil {
		return err
	}
	c.add(f.Docs())
	return nil
}

// AddItems adds items of a feed.
func (c *Corpus) AddItems(items []supply.Item) {
	docs := make([]index.Doc, 0, len(items))
	for _, i := range items {
		docs = append(docs, index.Doc{ID: i.ID, URL: i.URL, Title: i.Title, Text: i.Text, At: i.At})
	}
	c.add(docs)
}

func (c *Corpus) add(docs []index.Doc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	byURL := map[string]bool{}
	for _, d := range c.docs {
		byURL[d.URL] = true
	}
	grown := false
	for _, d := range docs {
		if _, ok := c.docs[d.ID]; ok || byURL[d.URL] {
			continue
		}
		c.docs[d.ID], grown = d, true
	}
	if !grown {
		return
	}
	c.index()
}

// index makes the index anew. The caller holds mu.
func (c *Corpus) index() {
	if len(c.docs) == 0 {
		c.in = nil
		return
	}
	list := make([]index.Doc, 0, len(c.docs))
	for _, d := range c.docs {
		list = append(list, d)
	}
	sortDocs(list)
	c.in = index.New(list, "corpus", c.now)
}

// Len is how many documents there are.
func (c *Corpus) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.docs)
}

func (c *Corpus) folder() *index.Folder {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.in
}

// Name implements tools.Search.
func (c *Corpus) Name() string { return "corpus" }

// Probe implements tools.Search.
func (c *Corpus) Probe(ctx context.Context) error {
	if c.folder() == nil {
		return errors.New("the corpus is empty")
	}
	return ctx.Err()
}

// Web implements tools.Search.
func (c *Corpus) Web(ctx context.Context, q tools.WebQuery) ([]tools.WebHit, error) {
	f := c.folder()
	if f == nil {
		return nil, ctx.Err()
	}
	return f.Web(ctx, q)
}

// X implements tools.Search.
func (c *Corpus) X(ctx context.Context, q tools.XQuery) ([]tools.Post, error) {
	f := c.folder()
	if f == nil {
		return nil, ctx.Err()
	}
	return f.X(ctx, q)
}

// AI implements tools.Search.
func (c *Corpus) AI(ctx context.Context, q tools.AIQuery) ([]tools.AIHit, error) {
	f := c.folder()
	if f == nil {
		return nil, ctx.Err()
	}
	return f.AI(ctx, q)
}

// Page implements tools.Pages.
func (c *Corpus) Page(ctx context.Context, url string) (tools.Page, error) {
	f := c.folder()
	if f == nil {
		f = index.New(nil, "corpus", c.now)
	}
	return f.Page(ctx, url)
}
