package rounds

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/fts"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/kinds/claim/supply"
)

// FeedID is the feed that a corpus is for search_items: its documents in the order in
// which they came.
const FeedID = "5c7b1f0a-9d0e-4a0b-8a55-3f0c6f2b9e61"

// Corpus is what scripts search in: the documents that claims are made of, the same
// for those who make them and for those who play them. It grows with each round.
type Corpus struct {
	now func() time.Time

	mu   sync.RWMutex
	docs []index.Doc     // in the order in which they came; guarded by mu
	have map[string]bool // ids and addresses of docs; guarded by mu
	in   *index.Folder   // over docs; nil: there are none; guarded by mu
	over *fts.Corpus     // a database in their place; nil: none; guarded by mu
	// root is the folder with the list of what is forgotten; "": nothing is. gone is that
	// list as it was at seen. Guarded by mu.
	root string
	seen time.Time
	gone forgotten
}

// NewCorpus returns an empty one.
func NewCorpus(now func() time.Time) *Corpus {
	return &Corpus{now: now, have: map[string]bool{}}
}

// Add adds what an operator names: a folder of documents, a feed as a file or an
// address, or an SQLite database with a full-text table (.db, .sqlite, .sqlite3), which
// is searched where it stands and in place of all else.
func (c *Corpus) Add(ctx context.Context, name string) error {
	switch {
	case database(name):
		c.mu.RLock()
		opened := c.over != nil
		c.mu.RUnlock()
		if opened {
			return nil
		}
		db, err := fts.Open(ctx, name, FeedID, c.now)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.over = db
		c.mu.Unlock()
		return nil
	case address(name):
	default:
		if st, err := os.Stat(name); err == nil && st.IsDir() {
			return c.AddFolder(name)
		}
	}
	items, err := Read(ctx, name)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return errors.New("the feed has no item with a date and a text of at least 80 bytes")
	}
	c.AddItems(items)
	return nil
}

// database reports whether a name is that of an SQLite database.
func database(name string) bool {
	return slices.Contains([]string{".db", ".sqlite", ".sqlite3"}, strings.ToLower(filepath.Ext(name))) && !address(name)
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
	grown := false
	for _, d := range docs {
		if c.have["id "+d.ID] || c.have["url "+d.URL] || c.gone.has(d.URL) {
			continue
		}
		c.docs, grown = append(c.docs, d), true
		c.have["id "+d.ID], c.have["url "+d.URL] = true, true
	}
	if grown {
		c.index()
	}
}

// index makes the index over docs anew; mu is held.
func (c *Corpus) index() { c.in = index.New(slices.Clone(c.docs), "corpus", c.now) }

// Empty reports whether nothing can be found.
func (c *Corpus) Empty() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.docs) == 0 && c.over == nil
}

// Len is how many documents there are in memory.
func (c *Corpus) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.docs)
}

// backend answers in place of a corpus.
type backend interface {
	tools.Search
	tools.Pages
	Items(ctx context.Context, q tools.ItemQuery) ([]tools.Item, error)
}

// inMemory is an index with the feed that it is.
type inMemory struct{ *index.Folder }

// Items implements tools.Items.
func (f inMemory) Items(ctx context.Context, q tools.ItemQuery) ([]tools.Item, error) {
	return index.Items{FeedID: FeedID, Folder: f.Folder}.Items(ctx, q)
}

// at is what answers. Where the list of what is forgotten cannot be read, nothing is found:
// a text that was deleted on demand must not be shown.
func (c *Corpus) at() backend {
	if c.look() != nil {
		return inMemory{index.New(nil, "corpus", c.now)}
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	switch {
	case c.over != nil:
		return c.over
	case c.in != nil:
		return inMemory{c.in}
	}
	return inMemory{index.New(nil, "corpus", c.now)}
}

// Name implements tools.Search.
func (c *Corpus) Name() string { return "corpus" }

// Probe implements tools.Search.
func (c *Corpus) Probe(ctx context.Context) error {
	if c.Empty() {
		return errors.New("the corpus is empty")
	}
	return c.at().Probe(ctx)
}

// Web implements tools.Search.
func (c *Corpus) Web(ctx context.Context, q tools.WebQuery) ([]tools.WebHit, error) {
	return c.at().Web(ctx, q)
}

// X implements tools.Search.
func (c *Corpus) X(ctx context.Context, q tools.XQuery) ([]tools.Post, error) {
	return c.at().X(ctx, q)
}

// AI implements tools.Search.
func (c *Corpus) AI(ctx context.Context, q tools.AIQuery) ([]tools.AIHit, error) {
	return c.at().AI(ctx, q)
}

// Page implements tools.Pages.
func (c *Corpus) Page(ctx context.Context, url string) (tools.Page, error) {
	return c.at().Page(ctx, url)
}

// Items implements tools.Items over the feed FeedID.
func (c *Corpus) Items(ctx context.Context, q tools.ItemQuery) ([]tools.Item, error) {
	return c.at().Items(ctx, q)
}
