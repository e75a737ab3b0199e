package index

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/engine/tools"
)

// Limits of a folder of documents.
const (
	MaxDocs     = 100_000
	MaxDocBytes = 1 << 20
	MaxBytes    = 512 << 20
	snippetLen  = 400
	noteLen     = 1200
)

// Doc is one document.
type Doc struct {
	ID     string    // path within the folder
	URL    string    // "doc://<path>" where the document names none
	Title  string    // may be empty
	Text   string    // what is indexed and shown
	Kind   string    // "post" for search_x; else a page
	Source string    // of search_ai's tools: web (default), wikipedia, arxiv …
	At     time.Time // zero if unknown
	User   string    // of a post
}

// Folder is a search back end over documents. It answers search_web with
// pages, search_x with posts and search_ai with the best passages; nothing of
// it reaches a network. Safe for concurrent use.
type Folder struct {
	docs  []Doc
	index Inverted
	now   func() time.Time
	name  string
}

// Load reads every .md, .txt and .json document below fsys, in the order of
// their paths. A text document may begin with lines "url: …", "title: …",
// "kind: …", "source: …", "date: …" and "user: …" closed by an empty line; a
// JSON document is an object with those fields and "text". What is not UTF-8 or
// larger than 1 MiB is an error that names the file.
func Load(fsys fs.FS, name string, now func() time.Time) (*Folder, error) {
	if now == nil {
		now = time.Now
	}
	var docs []Doc
	total := int64(0)
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		ext := path.Ext(p)
		if d.IsDir() || !d.Type().IsRegular() || (ext != ".md" && ext != ".txt" && ext != ".json") {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if total += info.Size(); info.Size() > MaxDocBytes || total > MaxBytes || len(docs) == MaxDocs {
			return fmt.Errorf("%s: documents are limited to %d bytes each, %d together and %d files", p, MaxDocBytes, MaxBytes, MaxDocs)
		}
		b, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		doc, err := ParseDoc(p, b)
		if err != nil {
			return err
		}
		docs = append(docs, doc)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	return New(docs, name, now), nil
}

// New indexes documents.
func New(docs []Doc, name string, now func() time.Time) *Folder {
	if now == nil {
		now = time.Now
	}
	if name == "" {
		name = "index"
	}
	f := &Folder{docs: docs, now: now, name: name}
	for _, d := range docs {
		f.index.Add(Field{d.Title, 3}, Field{d.Text, 1})
	}
	return f
}

// ParseDoc reads one document; name decides its form and default address.
func ParseDoc(name string, b []byte) (Doc, error) {
	if len(b) > MaxDocBytes {
		return Doc{}, fmt.Errorf("%s: larger than %d bytes", name, MaxDocBytes)
	}
	if !utf8.Valid(b) {
		return Doc{}, fmt.Errorf("%s: it is not UTF-8", name)
	}
	d := Doc{ID: name}
	set := func(k, v string) error {
		switch k {
		case "url":
			d.URL = v
		case "title":
			d.Title = v
		case "kind":
			d.Kind = v
		case "source":
			d.Source = v
		case "user":
			d.User = v
		case "date":
			at, err := parseTime(v)
			if err != nil {
				return fmt.Errorf("%s: date %q: want RFC 3339 or YYYY-MM-DD", name, v)
			}
			d.At = at
		}
		return nil
	}
	if path.Ext(name) == ".json" {
		var in struct{ URL, Title, Kind, Source, User, Date, Text string }
		if err := json.Unmarshal(b, &in); err != nil {
			return Doc{}, fmt.Errorf("%s: want an object of strings", name)
		}
		d.Text = in.Text
		for _, kv := range [][2]string{{"url", in.URL}, {"title", in.Title}, {"kind", in.Kind}, {"source", in.Source}, {"user", in.User}, {"date", in.Date}} {
			if kv[1] != "" {
				if err := set(kv[0], kv[1]); err != nil {
					return Doc{}, err
				}
			}
		}
	} else {
		text := string(b)
		head, rest, ok := strings.Cut(text, "\n\n")
		if ok && isHead(head) {
			for line := range strings.Lines(head) {
				k, v, _ := strings.Cut(strings.TrimSpace(line), ":")
				if err := set(strings.ToLower(k), strings.TrimSpace(v)); err != nil {
					return Doc{}, err
				}
			}
			text = rest
		}
		d.Text = strings.TrimSpace(text)
		if d.Title == "" {
			if first, _, _ := strings.Cut(d.Text, "\n"); strings.HasPrefix(first, "# ") {
				d.Title = strings.TrimSpace(first[2:])
			}
		}
	}
	if strings.TrimSpace(d.Text) == "" {
		return Doc{}, fmt.Errorf("%s: it has no text", name)
	}
	if d.URL == "" {
		d.URL = "doc://" + name
	}
	return d, nil
}

// isHead reports whether every line is "known: value".
func isHead(s string) bool {
	for line := range strings.Lines(s) {
		k, _, ok := strings.Cut(line, ":")
		if !ok || !slices.Contains([]string{"url", "title", "kind", "source", "date", "user"}, strings.ToLower(k)) {
			return false
		}
	}
	return true
}

func parseTime(v string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		return t.UTC(), nil
	}
	return time.Parse(time.DateOnly, v)
}

// Docs returns the documents, in order.
func (f *Folder) Docs() []Doc { return f.docs }

// Name implements tools.Search.
func (f *Folder) Name() string { return f.name }

// Probe implements tools.Search: what is in memory does not fail.
func (f *Folder) Probe(context.Context) error { return nil }

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

const defaultNum = 10

// Web implements tools.Search.
func (f *Folder) Web(ctx context.Context, q tools.WebQuery) ([]tools.WebHit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := q.Num
	if n == 0 {
		n = defaultNum
	}
	found := f.index.Search(q.Query, q.Start+n, func(d int) bool { return f.docs[d].Kind != "post" })
	found = found[min(q.Start, len(found)):]
	out := make([]tools.WebHit, 0, len(found))
	for _, m := range found {
		d := f.docs[m.Doc]
		out = append(out, tools.WebHit{Link: d.URL, Snippet: text(Excerpt(d.Text, q.Query, snippetLen)), Title: text(d.Title)})
	}
	return out, nil
}

// Page implements tools.Pages: the whole text of the document at an address.
func (f *Folder) Page(ctx context.Context, url string) (tools.Page, error) {
	if err := ctx.Err(); err != nil {
		return tools.Page{}, err
	}
	for _, d := range f.docs {
		if d.URL == url && d.Text != "" {
			return tools.Page{URL: d.URL, Content: d.Text, Title: text(d.Title)}, nil
		}
	}
	return tools.Page{}, &tools.Failure{Class: "not_found", Own: true}
}

// itemSpace names the uuids of items, which clients want.
var itemSpace = uuid.MustParse("8f1f8f0e-6c9b-4a53-9a0c-0c1d5a3b7a44")

func itemID(feed, part, doc string) string {
	return uuid.NewSHA1(itemSpace, []byte(feed+"\n"+part+"\n"+doc)).String()
}

// X implements tools.Search over documents of kind "post". Filters on counts
// and media, which documents do not have, find nothing.
func (f *Folder) X(ctx context.Context, q tools.XQuery) ([]tools.Post, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := q.Count
	if n == 0 {
		n = defaultNum
	}
	demands := q.MinLikes > 0 || q.MinReplies > 0 || q.MinRetweets > 0
	for _, b := range []*bool{q.Verified, q.BlueVerified, q.IsQuote, q.IsVideo, q.IsImage} {
		demands = demands || (b != nil && *b)
	}
	if demands {
		return nil, nil
	}
	from, _ := time.Parse(time.DateOnly, q.StartDate)
	to, _ := time.Parse(time.DateOnly, q.EndDate)
	limit := n
	if q.Sort == "Latest" {
		limit = len(f.docs)
	}
	found := f.index.Search(q.Query, limit, func(i int) bool {
		d := f.docs[i]
		return d.Kind == "post" && (q.User == "" || strings.EqualFold(strings.TrimPrefix(q.User, "@"), d.User)) &&
			(q.StartDate == "" || !d.At.Before(from)) && (q.EndDate == "" || d.At.Before(to.AddDate(0, 0, 1)))
	})
	if q.Sort == "Latest" {
		slices.SortStableFunc(found, func(a, b Match) int { return f.docs[b.Doc].At.Compare(f.docs[a.Doc].At) })
		found = found[:min(n, len(found))]
	}
	out := make([]tools.Post, 0, len(found))
	for _, m := range found {
		out = append(out, f.docs[m.Doc].Post())
	}
	return out, nil
}

// Post is d as search_x answers.
func (d Doc) Post() tools.Post {
	p := tools.Post{ID: d.ID, URL: d.URL, Text: d.Text}
	if d.User != "" {
		p.User = &tools.PostUser{Username: d.User}
	}
	if !d.At.IsZero() {
		p.CreatedAt = d.At.Format(time.RFC3339)
	}
	return p
}

// AIHit is d as search_ai answers q, with its best passage where q wants more than links.
func (d Doc) AIHit(source string, q tools.AIQuery) tools.AIHit {
	h := tools.AIHit{URL: d.URL, Title: text(d.Title), Source: text(source)}
	if q.ResultType != "ONLY_LINKS" {
		h.Note = text(Excerpt(d.Text, q.Prompt, noteLen))
	}
	return h
}

// AI implements tools.Search: the best passages of the sources asked for. No
// model writes here, so every result type gives the passage itself.
func (f *Folder) AI(ctx context.Context, q tools.AIQuery) ([]tools.AIHit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var after time.Time
	if d := Period(q.DateFilter); d > 0 {
		after = f.now().Add(-d)
	}
	found := f.index.Search(q.Prompt, q.Count, func(i int) bool {
		d := f.docs[i]
		return slices.Contains(q.Tools, f.source(d)) && (after.IsZero() || (!d.At.IsZero() && d.At.After(after)))
	})
	out := make([]tools.AIHit, 0, len(found))
	for _, m := range found {
		d := f.docs[m.Doc]
		out = append(out, d.AIHit(f.source(d), q))
	}
	return out, nil
}

func (f *Folder) source(d Doc) string {
	switch {
	case d.Source != "":
		return d.Source
	case d.Kind == "post":
		return "twitter"
	}
	return "web"
}

const day = 24 * time.Hour

var periods = map[string]time.Duration{
	"PAST_24_HOURS": day, "PAST_2_DAYS": 2 * day, "PAST_WEEK": 7 * day, "PAST_2_WEEKS": 14 * day,
	"PAST_MONTH": 30 * day, "PAST_2_MONTHS": 60 * day, "PAST_YEAR": 365 * day, "PAST_2_YEARS": 730 * day,
}

// Period is the time of a date_filter of search_ai; 0 where there is none.
func Period(filter string) time.Duration { return periods[filter] }

// ItemOf is a document as search_items shows it: ids are uuids, as clients want
// them, the same for the same document of a feed. Its text is whole.
func ItemOf(feed string, d Doc, seq int64, score float64) tools.Item {
	at := int64(0)
	if !d.At.IsZero() {
		at = d.At.UnixMilli()
	}
	return tools.Item{
		JobID: itemID(feed, "job", d.ID), ContentID: itemID(feed, "content", d.ID), Provider: "feed", ExternalID: d.URL, URL: d.URL, Text: d.Text,
		RequestedAt: at, EnqueueSeq: seq, Score: &score,
	}
}

// Items is a feed that search_items answers from: documents in the order in
// which they were enqueued.
type Items struct {
	FeedID string
	Folder *Folder
}

// Name implements tools.Items.
func (x Items) Name() string { return x.Folder.name }

// Feeds are feeds by id.
type Feeds map[string]*Folder

// Name implements tools.Items.
func (Feeds) Name() string { return "feeds" }

// Items implements tools.Items.
func (f Feeds) Items(ctx context.Context, q tools.ItemQuery) ([]tools.Item, error) {
	return Items{FeedID: q.FeedID, Folder: f[q.FeedID]}.Items(ctx, q)
}

// Items implements tools.Items: documents enqueued before the claim, best first.
func (x Items) Items(ctx context.Context, q tools.ItemQuery) ([]tools.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if q.FeedID != x.FeedID || x.Folder == nil {
		return nil, &tools.Failure{Class: "not_found", Own: true}
	}
	best := map[int]float64{}
	for _, s := range q.Queries {
		for _, m := range x.Folder.index.Search(s, q.Num, func(d int) bool { return int64(d) < q.EnqueueSeq }) {
			best[m.Doc] = max(best[m.Doc], m.Score)
		}
	}
	found := make([]Match, 0, len(best))
	for d, s := range best {
		found = append(found, Match{d, s})
	}
	slices.SortFunc(found, func(a, b Match) int {
		if a.Score != b.Score {
			if a.Score > b.Score {
				return -1
			}
			return 1
		}
		return a.Doc - b.Doc
	})
	out := make([]tools.Item, 0, min(len(found), q.Num))
	for _, m := range found[:min(len(found), q.Num)] {
		it := ItemOf(q.FeedID, x.Folder.docs[m.Doc], int64(m.Doc), m.Score)
		it.Text = Excerpt(it.Text, q.Queries[0], noteLen)
		out = append(out, it)
	}
	return out, nil
}
