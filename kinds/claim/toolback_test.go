package claim

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/rounds"
	"github.com/agon-arena/agon/kinds/kit"
)

func TestToolConfig(t *testing.T) {
	docs := index.New(nil, "documents", nil)
	for _, c := range []struct {
		env    map[string]string
		search string
		ok     bool
	}{
		{nil, "documents", true},
		{map[string]string{"AGON_DESEARCH_URL": "https://search.example", "AGON_DESEARCH_KEY": "k"}, "desearch", true},
		{map[string]string{"AGON_DESEARCH_URL": "https://search.example"}, "", false},
		{map[string]string{"AGON_DESEARCH_URL": "http://search.example", "AGON_DESEARCH_KEY": "k"}, "", false},
		{map[string]string{"AGON_SEARXNG_URL": "https://searx.example"}, "searxng", true},
		{map[string]string{"AGON_SEARXNG_URL": "searx.example"}, "", false},
		{map[string]string{"AGON_BRAVE_KEY": "k"}, "brave", true},
		{map[string]string{"AGON_BRAVE_KEY": "k", "AGON_SEARXNG_URL": "https://searx.example"}, "", false}, // which?
	} {
		got, err := toolConfig(kit.Options{Getenv: func(k string) string { return c.env[k] }}, docs, nil, "")
		if (err == nil) != c.ok || (c.ok && got.Search.Name() != c.search) {
			t.Errorf("%v: %v %+v", c.env, err, got)
		}
	}
}

// What AGON_CORPUS names is what every tool finds, as a folder, a feed or a database;
// ids are uuids, and fetch_page reads what search_web has found.
func TestOwnCorpus(t *testing.T) {
	dir := t.TempDir()
	docs := filepath.Join(dir, "docs")
	if err := os.Mkdir(docs, 0o755); err != nil {
		t.Fatal(err)
	}
	const text = "The lighthouse of Tarn was painted yellow in the spring of 1987, because sailors had asked for it again and again."
	for name, s := range map[string]string{
		"docs/1.md": "url: https://tarn.example/light\ntitle: Lighthouse\ndate: 2026-01-02\n\n" + text,
		"docs/2.md": "url: https://x.example/1\nkind: post\nuser: tarnian\ndate: 2026-01-03\n\nYellow again! The lighthouse of Tarn has new paint, and all of the harbour came to look at it today.",
		"feed.xml":  `<rss version="2.0"><channel><item><title>Lighthouse</title><link>https://tarn.example/light</link><description>` + text + `</description><pubDate>Mon, 02 Nov 2026 10:00:00 GMT</pubDate></item></channel></rss>`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open("sqlite", filepath.Join(dir, "corpus.db"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `create virtual table pages using fts5(link unindexed, title, body, kind unindexed, date unindexed, author unindexed);
		insert into pages values ('https://tarn.example/light', 'Lighthouse', ?, '', '2026-01-02', ''), ('https://x.example/1', '', 'Yellow again! The lighthouse of Tarn has new paint.', 'post', '2026-01-03', 'tarnian')`, text)
	if cerr := db.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	for _, name := range []string{"docs", "feed.xml", "corpus.db"} {
		t.Run(name, func(t *testing.T) {
			o := kit.Options{Getenv: func(k string) string {
				return map[string]string{"AGON_CORPUS": filepath.Join(dir, name)}[k]
			}}
			found, err := documents(o, rounds.NewCorpus(time.Now))
			if err != nil {
				t.Fatal(err)
			}
			c, err := toolConfig(o, found, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			host := tools.New(c)
			defer host.Stop()
			web, err := c.Search.Web(t.Context(), tools.WebQuery{Query: "lighthouses painted yellow?"})
			if err != nil || len(web) != 1 || web[0].Link != "https://tarn.example/light" || web[0].Snippet == nil {
				t.Fatalf("search_web: %+v %v", web, err)
			}
			page, err := c.Search.(tools.Pages).Page(t.Context(), web[0].Link)
			if err != nil || page.Content != text || page.Title == nil || *page.Title != "Lighthouse" {
				t.Errorf("fetch_page: %+v %v", page, err)
			}
			if _, err := c.Search.(tools.Pages).Page(t.Context(), "https://tarn.example/none"); err == nil {
				t.Error("a page that is not there was read")
			}
			ai, err := c.Search.AI(t.Context(), tools.AIQuery{Prompt: "colour of Tarn's lighthouse", Tools: []string{"web"}, Count: 5})
			if err != nil || len(ai) != 1 || ai[0].Note == nil {
				t.Errorf("search_ai: %+v %v", ai, err)
			}
			posts, err := c.Search.X(t.Context(), tools.XQuery{Query: "lighthouse", User: "@Tarnian", StartDate: "2026-01-03", EndDate: "2026-01-03"})
			if want := name != "feed.xml"; err != nil || (len(posts) == 1) != want {
				t.Errorf("search_x: %+v %v", posts, err)
			}
			hits, err := c.Items.Items(t.Context(), tools.ItemQuery{FeedID: rounds.FeedID, EnqueueSeq: 100, Queries: []string{"lighthouse"}, Num: 5})
			if err != nil || len(hits) == 0 {
				t.Fatalf("search_items: %+v %v", hits, err)
			}
			for _, h := range hits {
				for _, id := range []string{h.JobID, h.ContentID} {
					if _, err := uuid.Parse(id); err != nil {
						t.Errorf("%s is not a UUID", id)
					}
				}
			}
			if hits, err := c.Items.Items(t.Context(), tools.ItemQuery{FeedID: rounds.FeedID, EnqueueSeq: 0, Queries: []string{"lighthouse"}, Num: 5}); err != nil || len(hits) > 0 {
				t.Errorf("before everything: %+v %v", hits, err)
			}
			if _, err := c.Items.Items(t.Context(), tools.ItemQuery{FeedID: shippedFeed, EnqueueSeq: 9, Queries: []string{"x"}, Num: 5}); err == nil {
				t.Error("the shipped documents are searched besides")
			}
		})
	}
	for _, bad := range []string{"none", "docs/1.md", "broken.db"} {
		if bad == "broken.db" {
			if err := os.WriteFile(filepath.Join(dir, bad), []byte("no database"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := documents(kit.Options{Getenv: func(k string) string { return map[string]string{"AGON_CORPUS": filepath.Join(dir, bad)}[k] }}, rounds.NewCorpus(time.Now))
		var no *agon.Error
		if !errors.As(err, &no) || no.Code != "bad_corpus" || no.Field != "AGON_CORPUS" {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Every claim of the demo names a place in the shipped feed, where its own
// source is found and nothing that came later.
func TestDemoFeed(t *testing.T) {
	docs, err := shippedDocs(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const own = "6ba7b811-9dad-11d1-80b4-00c04fd430c9"
	if err := os.MkdirAll(filepath.Join(dir, own), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, own, "a.md"), []byte("a kite over the pier"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := feeds(kit.Options{Getenv: func(k string) string { return map[string]string{"AGON_FEEDS": dir}[k] }}, docs, time.Now)
	if err != nil || len(all.Feeds) != 2 {
		t.Fatalf("%d feeds, %v", len(all.Feeds), err)
	}
	if hits, err := all.Items(t.Context(), tools.ItemQuery{FeedID: own, EnqueueSeq: 1, Queries: []string{"kite"}, Num: 5}); err != nil || len(hits) != 1 {
		t.Errorf("own feed: %+v %v", hits, err)
	}
	if _, err := feeds(kit.Options{Getenv: func(string) string { return dir + "/none" }}, docs, time.Now); err == nil {
		t.Error("a directory that is not there was taken")
	}
	set, err := kit.Options{Kits: kit.List{Kit()}}.ShippedSet(play.Name, "demo")
	if err != nil {
		t.Fatal(err)
	}
	for _, tk := range set {
		on := filepath.Join(dir, "t", filepath.Base(tk.Key))
		if err := task.Materialise(tk, on); err != nil {
			t.Fatal(err)
		}
		loaded, err := task.LoadDir(on, tk.Key)
		if err != nil {
			t.Fatal(err)
		}
		c, ref, err := play.LoadTask(loaded)
		if err != nil || c.Payload.Context == nil {
			t.Fatalf("%s: no context, %v", tk.Key, err)
		}
		hits, err := all.Items(t.Context(), tools.ItemQuery{FeedID: c.Payload.Context.FeedID, EnqueueSeq: c.Payload.Context.EnqueueSeq, Queries: []string{c.Payload.ClaimText}, Num: 20})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, h := range hits {
			found = found || h.URL == ref.Citations[0].URL
			if h.EnqueueSeq >= c.Payload.Context.EnqueueSeq {
				t.Errorf("%s sees %s, which came later", tk.Key, h.URL)
			}
		}
		if !found {
			t.Errorf("%s does not find its source %s", tk.Key, ref.Citations[0].URL)
		}
	}
}
