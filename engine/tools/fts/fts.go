// Package fts is a search back end over an SQLite database with a full-text
// table (FTS5): the documents stay in the file, and SQLite ranks them by BM25.
// The database is opened for reading only.
package fts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	_ "modernc.org/sqlite" // the database driver

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
)

// Limits of one question and of what is read of one document.
const (
	maxTerms   = 64
	maxText    = 1 << 20
	snippetLen = 400
	noteLen    = 1200
	defaultNum = 10
	queryTime  = 20 * time.Second
)

// names are the columns that a table may have, by what they hold. Only a text is needed.
var names = map[string][]string{
	"url": {"url", "link", "address"}, "title": {"title", "headline"}, "text": {"text", "content", "body"}, "kind": {"kind"},
	"source": {"source"}, "date": {"date", "published", "at"}, "user": {"user", "author"},
}

// roles are the keys of names in the order in which rows are read.
var roles = []string{"url", "title", "text", "kind", "source", "date", "user"}

// Corpus is an open database. It answers search_web with pages, search_x with
// rows of kind "post", search_ai with the best passages, and search_items and
// fetch_page. Safe for concurrent use.
type Corpus struct {
	db    *sql.DB
	table string
	cols  map[string]string // by role; absent: the table has none
	feed  string
	now   func() time.Time
}

// Open opens the database in a file. feed is the uuid of the feed that its rows are for
// search_items, in the order of their rowids. A file that is not a database, or has no
// full-text table with a column text, content or body, is an error that says so.
func Open(ctx context.Context, file, feed string, now func() time.Time) (*Corpus, error) {
	if now == nil {
		now = time.Now
	}
	if st, err := os.Stat(file); err != nil || !st.Mode().IsRegular() {
		return nil, fmt.Errorf("open corpus %s: it is not a file", file)
	}
	dsn := url.URL{Scheme: "file", Opaque: (&url.URL{Path: file}).EscapedPath(), RawQuery: "mode=ro&_pragma=query_only(1)&_pragma=busy_timeout(5000)&_pragma=trusted_schema(0)"}
	db, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, fmt.Errorf("open corpus %s: %w", file, err)
	}
	db.SetMaxOpenConns(4)
	c := &Corpus{db: db, feed: feed, now: now}
	if err := c.look(ctx); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("open corpus %s: %w", file, err)
	}
	return c, nil
}

// Close closes the database.
func (c *Corpus) Close() error { return c.db.Close() }

// look finds the full-text table and its columns.
func (c *Corpus) look(ctx context.Context) error {
	list, err := texts(ctx, c.db, `select name from sqlite_master where type = 'table' and lower(sql) like 'create virtual table%using fts5%' order by name <> 'documents', name`)
	if err != nil {
		return errors.New("it is not an SQLite database")
	}
	for _, t := range list {
		have, err := texts(ctx, c.db, `select name from pragma_table_info(`+quote(t, '\'')+`)`)
		if err != nil {
			return err
		}
		cols := map[string]string{}
		for role, may := range names {
			for _, n := range may {
				if i := slices.IndexFunc(have, func(h string) bool { return strings.EqualFold(h, n) }); i >= 0 && cols[role] == "" {
					cols[role] = have[i]
				}
			}
		}
		if cols["text"] == "" {
			continue
		}
		c.table, c.cols = t, cols
		row := c.db.QueryRowContext(ctx, `select `+c.col("text")+` from `+quote(t, '"')+` limit 1`)
		var s string
		switch err := row.Scan(&s); {
		case errors.Is(err, sql.ErrNoRows):
			return errors.New("its full-text table is empty")
		case err != nil || s == "":
			return errors.New("its full-text table keeps no text (content='')")
		}
		return nil
	}
	return errors.New("it has no FTS5 table with a column text, content or body")
}

func texts(ctx context.Context, db *sql.DB, q string) ([]string, error) {
	rows, err := db.QueryContext(ctx, q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// quote makes a name or a text of SQL.
func quote(s string, mark rune) string {
	m := string(mark)
	return m + strings.ReplaceAll(s, m, m+m) + m
}

// col is the expression of a role's column: bounded text, empty where there is none.
func (c *Corpus) col(role string) string {
	n := c.cols[role]
	if n == "" {
		return `''`
	}
	return fmt.Sprintf(`coalesce(substr(%s, 1, %d), '')`, quote(n, '"'), maxText)
}

// match is the question as FTS5 reads it: any of its words, longer ones by
// their beginning too. Nothing of FTS5's own language gets through.
func match(query string) string {
	var out []string
	seen := map[string]bool{}
	for w := range index.Terms(query) {
		if seen[w] || len(out) == maxTerms {
			continue
		}
		seen[w] = true
		s := `"` + w + `"`
		if len(w) >= 4 {
			s += `*`
		}
		out = append(out, s)
	}
	return strings.Join(out, " OR ")
}

// found is one row.
type found struct {
	index.Doc
	seq   int64
	score float64
	date  string
}

// ask finds rows that hold a word of query and meet where, best first.
func (c *Corpus) ask(ctx context.Context, query, where, order string, limit, offset int, args ...any) ([]found, error) {
	m := match(query)
	if m == "" || limit <= 0 {
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	t := quote(c.table, '"')
	q := `select rowid, -bm25(` + t + `), ` + c.columns() + ` from ` + t + ` where ` + t + ` match ?`
	if where != "" {
		q += ` and ` + where
	}
	return c.rows(ctx, q+` order by `+order+` limit ? offset ?`, slices.Concat([]any{m}, args, []any{limit, offset})...)
}

func (c *Corpus) rows(ctx context.Context, q string, args ...any) ([]found, error) {
	rows, err := c.db.QueryContext(ctx, q, args...)
	if err != nil {
		return nil, failed(ctx, err)
	}
	defer func() { _ = rows.Close() }()
	var out []found
	for rows.Next() {
		var f found
		if err := rows.Scan(&f.seq, &f.score, &f.URL, &f.Title, &f.Text, &f.Kind, &f.Source, &f.date, &f.User); err != nil {
			return nil, failed(ctx, err)
		}
		f.ID = fmt.Sprint(f.seq)
		if f.URL == "" {
			f.URL = "doc://" + f.ID
		}
		for _, form := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
			if at, err := time.Parse(form, f.date); err == nil {
				f.At = at.UTC()
				break
			}
		}
		out = append(out, f)
	}
	if err := rows.Err(); err != nil {
		return nil, failed(ctx, err)
	}
	return out, nil
}

func failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &tools.Failure{Class: "timeout"}
	}
	return &tools.Failure{Class: "server", Detail: err.Error()}
}

const byRank = `rank, rowid`

// Name implements tools.Search.
func (c *Corpus) Name() string { return "corpus" }

// Probe implements tools.Search.
func (c *Corpus) Probe(ctx context.Context) error { return c.db.PingContext(ctx) }

func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Web implements tools.Search.
func (c *Corpus) Web(ctx context.Context, q tools.WebQuery) ([]tools.WebHit, error) {
	n := q.Num
	if n == 0 {
		n = defaultNum
	}
	list, err := c.ask(ctx, q.Query, c.col("kind")+` <> 'post'`, byRank, n, q.Start)
	out := make([]tools.WebHit, 0, len(list))
	for _, d := range list {
		out = append(out, tools.WebHit{Link: d.URL, Snippet: text(index.Excerpt(d.Text, q.Query, snippetLen)), Title: text(d.Title)})
	}
	return out, err
}

// X implements tools.Search over rows of kind "post". Filters on counts and media,
// which rows do not have, find nothing.
func (c *Corpus) X(ctx context.Context, q tools.XQuery) ([]tools.Post, error) {
	n := q.Count
	if n == 0 {
		n = defaultNum
	}
	demands := q.MinLikes > 0 || q.MinReplies > 0 || q.MinRetweets > 0
	for _, b := range []*bool{q.Verified, q.BlueVerified, q.IsQuote, q.IsVideo, q.IsImage} {
		demands = demands || (b != nil && *b)
	}
	if demands {
		return nil, ctx.Err()
	}
	where, args := c.col("kind")+` = 'post'`, []any{}
	if q.User != "" {
		where, args = where+` and lower(`+c.col("user")+`) = ?`, append(args, strings.ToLower(strings.TrimPrefix(q.User, "@")))
	}
	if q.StartDate != "" {
		where, args = where+` and `+c.col("date")+` >= ?`, append(args, q.StartDate)
	}
	if q.EndDate != "" {
		where, args = where+` and substr(`+c.col("date")+`, 1, 10) <= ? and `+c.col("date")+` <> ''`, append(args, q.EndDate)
	}
	order := byRank
	if q.Sort == "Latest" {
		order = c.col("date") + ` desc, rank, rowid`
	}
	list, err := c.ask(ctx, q.Query, where, order, n, 0, args...)
	out := make([]tools.Post, 0, len(list))
	for _, d := range list {
		out = append(out, d.Post())
	}
	return out, err
}

// AI implements tools.Search: the best passages of the sources asked for.
func (c *Corpus) AI(ctx context.Context, q tools.AIQuery) ([]tools.AIHit, error) {
	// A row without a source is of the web, or of twitter where it is a post.
	source := `case when ` + c.col("source") + ` <> '' then ` + c.col("source") + ` when ` + c.col("kind") + ` = 'post' then 'twitter' else 'web' end`
	where, args := source+` in (`+strings.TrimSuffix(strings.Repeat("?, ", len(q.Tools)), ", ")+`)`, []any{}
	for _, t := range q.Tools {
		args = append(args, t)
	}
	if d := index.Period(q.DateFilter); d > 0 {
		where, args = where+` and `+c.col("date")+` >= ?`, append(args, c.now().UTC().Add(-d).Format(time.RFC3339))
	}
	list, err := c.ask(ctx, q.Prompt, where, byRank, q.Count, 0, args...)
	out := make([]tools.AIHit, 0, len(list))
	for _, d := range list {
		from := d.Source
		switch {
		case from != "":
		case d.Kind == "post":
			from = "twitter"
		default:
			from = "web"
		}
		out = append(out, d.AIHit(from, q))
	}
	return out, err
}

// Page implements tools.Pages: the whole text of the row with an address.
func (c *Corpus) Page(ctx context.Context, address string) (tools.Page, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	where := c.col("url") + ` = ?`
	if id, ok := strings.CutPrefix(address, "doc://"); ok {
		where, address = `cast(rowid as text) = ?`, id
	}
	list, err := c.rows(ctx, `select rowid, 0.0, `+c.columns()+` from `+quote(c.table, '"')+` where `+where+` limit 1`, address)
	if err != nil {
		return tools.Page{}, err
	}
	if len(list) == 0 || list[0].Text == "" {
		return tools.Page{}, &tools.Failure{Class: "not_found", Own: true}
	}
	return tools.Page{URL: list[0].URL, Content: list[0].Text, Title: text(list[0].Title)}, nil
}

// Docs reads at most limit documents, in the order of their rowids.
func (c *Corpus) Docs(ctx context.Context, limit int) ([]index.Doc, error) {
	list, err := c.rows(ctx, `select rowid, 0.0, `+c.columns()+` from `+quote(c.table, '"')+` order by rowid limit ?`, limit)
	out := make([]index.Doc, 0, len(list))
	for _, f := range list {
		out = append(out, f.Doc)
	}
	return out, err
}

func (c *Corpus) columns() string {
	cols := make([]string, len(roles))
	for i, r := range roles {
		cols[i] = c.col(r)
	}
	return strings.Join(cols, ", ")
}

// Items implements tools.Items: rows before the claim's place, best first.
func (c *Corpus) Items(ctx context.Context, q tools.ItemQuery) ([]tools.Item, error) {
	if q.FeedID != c.feed {
		return nil, &tools.Failure{Class: "not_found", Own: true}
	}
	best := map[int64]found{}
	for _, s := range q.Queries {
		list, err := c.ask(ctx, s, `rowid < ?`, byRank, q.Num, 0, q.EnqueueSeq)
		if err != nil {
			return nil, err
		}
		for _, f := range list {
			if old, ok := best[f.seq]; !ok || f.score > old.score {
				best[f.seq] = f
			}
		}
	}
	out := make([]tools.Item, 0, len(best))
	for _, f := range best {
		it := index.ItemOf(q.FeedID, f.Doc, f.seq, f.score)
		it.Text = index.Excerpt(f.Text, q.Queries[0], noteLen)
		out = append(out, it)
	}
	slices.SortFunc(out, func(a, b tools.Item) int {
		switch {
		case *a.Score > *b.Score:
			return -1
		case *a.Score < *b.Score:
			return 1
		}
		return int(a.EnqueueSeq - b.EnqueueSeq)
	})
	return out[:min(len(out), q.Num)], nil
}
