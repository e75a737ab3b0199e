package fts

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/tools"
)

const feed = "6ba7b811-9dad-11d1-80b4-00c04fd430c9"

func made(t *testing.T, script string, args ...any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a corpus#1?.db") // a name that an address would have to escape
	db, err := sql.Open("sqlite", "file:"+strings.NewReplacer(" ", "%20", "#", "%23", "?", "%3f").Replace(file))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), script, args...); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func now() time.Time { return time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC) }

func open(t *testing.T, file string) *Corpus {
	t.Helper()
	c, err := Open(t.Context(), file, feed, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestAsk(t *testing.T) {
	file := made(t, `create virtual table documents using fts5(url unindexed, title, text, kind unindexed, source unindexed, date unindexed, user unindexed);
		insert into documents values
		('https://a.example', 'Ferries', 'The ferry sails at noon.', '', '', '2026-03-09T12:00:00Z', ''),
		('https://b.example', 'Bridge', 'No ferry: a bridge since 1904. A ferry sails elsewhere, said the ferrymen.', '', 'wikipedia', '2025-01-01', ''),
		('https://x.example/1', '', 'ferry late again', 'post', '', '2026-03-08', 'Ann'),
		('https://x.example/2', '', 'ferry on time', 'post', '', '2026-03-09', 'Bob'),
		('', 'Old', 'A ferry nobody has an address of.', '', '', '', '')`)
	c := open(t, file)
	web, err := c.Web(t.Context(), tools.WebQuery{Query: "ferry at noon", Num: 2})
	if err != nil || len(web) != 2 || web[0].Link != "https://a.example" {
		t.Errorf("%+v %v", web, err)
	}
	rest, err := c.Web(t.Context(), tools.WebQuery{Query: "ferry", Start: 1, Num: 9})
	if err != nil || len(rest) != 2 {
		t.Errorf("from the second on: %+v %v", rest, err)
	}
	for _, q := range []string{`"`, `ferry" OR url:x`, `NEAR(ferry noon)`, `ferry*) --`, `title : ferry`, "ferry\x00", strings.Repeat("ferry ", 5000)} {
		if _, err := c.Web(t.Context(), tools.WebQuery{Query: q}); err != nil {
			t.Errorf("%.40q: %v", q, err)
		}
	}
	posts, err := c.X(t.Context(), tools.XQuery{Query: "ferry", Sort: "Latest"})
	if err != nil || len(posts) != 2 || posts[0].User.Username != "Bob" || posts[0].CreatedAt != "2026-03-09T00:00:00Z" {
		t.Errorf("%+v %v", posts, err)
	}
	if posts, err = c.X(t.Context(), tools.XQuery{Query: "ferry", User: "@ann", EndDate: "2026-03-08"}); err != nil || len(posts) != 1 {
		t.Errorf("of one user: %+v %v", posts, err)
	}
	if posts, err = c.X(t.Context(), tools.XQuery{Query: "ferry", MinLikes: 1}); err != nil || len(posts) != 0 {
		t.Errorf("with likes: %+v %v", posts, err)
	}
	for _, x := range []struct {
		q    tools.AIQuery
		want string
	}{
		{tools.AIQuery{Prompt: "ferry", Tools: []string{"wikipedia"}, Count: 5}, "https://b.example"},
		{tools.AIQuery{Prompt: "ferry", Tools: []string{"web", "twitter"}, Count: 1, DateFilter: "PAST_24_HOURS"}, "https://a.example"},
		{tools.AIQuery{Prompt: "ferry", Tools: []string{"arxiv"}, Count: 5}, ""},
	} {
		hits, err := c.AI(t.Context(), x.q)
		if err != nil || (x.want == "") != (len(hits) == 0) || (x.want != "" && hits[0].URL != x.want) {
			t.Errorf("%+v: %+v %v", x.q, hits, err)
		}
	}
	items, err := c.Items(t.Context(), tools.ItemQuery{FeedID: feed, EnqueueSeq: 3, Queries: []string{"ferry", "bridge"}, Num: 9})
	if err != nil || len(items) != 2 || items[0].EnqueueSeq >= 3 || *items[0].Score < *items[1].Score {
		t.Errorf("%+v %v", items, err)
	}
	if _, err := c.Items(t.Context(), tools.ItemQuery{FeedID: "another", EnqueueSeq: 3, Queries: []string{"ferry"}, Num: 9}); err == nil {
		t.Error("another feed answers")
	}
	page, err := c.Page(t.Context(), "doc://5")
	if err != nil || page.URL != "doc://5" || page.Content != "A ferry nobody has an address of." {
		t.Errorf("%+v %v", page, err)
	}
	docs, err := c.Docs(t.Context(), 3)
	if err != nil || len(docs) != 3 || docs[1].Source != "wikipedia" {
		t.Errorf("%+v %v", docs, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Web(gone, tools.WebQuery{Query: "ferry"}); err == nil {
		t.Error("a cancelled question was answered")
	}
	if _, err := c.db.ExecContext(t.Context(), `delete from documents`); err == nil {
		t.Error("the database can be written")
	}
}

func TestOpen(t *testing.T) {
	for name, script := range map[string]string{
		"no table":  `create table documents(text)`,
		"no text":   `create virtual table documents using fts5(url, title)`,
		"empty":     `create virtual table documents using fts5(text)`,
		"text gone": `create virtual table documents using fts5(text, content=''); insert into documents(rowid, text) values (1, 'a')`,
	} {
		if c, err := Open(t.Context(), made(t, script), feed, now); err == nil {
			_ = c.Close()
			t.Errorf("%s: opened", name)
		}
	}
	junk := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(junk, []byte("a text that is long enough and not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{junk, t.TempDir(), junk + "none"} {
		if _, err := Open(t.Context(), file, feed, now); err == nil {
			t.Errorf("%s: opened", file)
		}
	}
	// Column names of others, and a table whose text stands elsewhere.
	c := open(t, made(t, `create table posts(id integer primary key, headline, body, link); insert into posts values (7, 'Tide', 'The tide turns.', 'https://t.example');
		create virtual table f using fts5(headline, body, link unindexed, content=posts, content_rowid=id); insert into f(f) values ('rebuild')`))
	web, err := c.Web(t.Context(), tools.WebQuery{Query: "tide"})
	if err != nil || len(web) != 1 || web[0].Link != "https://t.example" || *web[0].Title != "Tide" {
		t.Errorf("%+v %v", web, err)
	}
}

func BenchmarkWeb(b *testing.B) {
	file := filepath.Join(b.TempDir(), "c.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := db.ExecContext(b.Context(), `create virtual table documents using fts5(url unindexed, title, text);
		with recursive n(i) as (select 1 union all select i + 1 from n where i < 20000)
		insert into documents select 'https://e.example/' || i, 'page ' || i, 'word' || (i % 997) || ' other' || (i % 31) || ' more words of a page' from n`); err != nil {
		b.Fatal(err)
	}
	_ = db.Close()
	c, err := Open(b.Context(), file, feed, now)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	for i := 0; b.Loop(); i++ {
		if web, err := c.Web(b.Context(), tools.WebQuery{Query: fmt.Sprintf("word%d other%d", i%997, i%31)}); err != nil || len(web) == 0 {
			b.Fatal(web, err)
		}
	}
}
