package claim

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/kinds/claim/play"
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
	} {
		got, err := toolConfig(kit.Options{Getenv: func(k string) string { return c.env[k] }}, docs, nil, "")
		if (err == nil) != c.ok || (c.ok && got.Search.Name() != c.search) {
			t.Errorf("%v: %v %+v", c.env, err, got)
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
	if err != nil || len(all) != 2 {
		t.Fatalf("%d feeds, %v", len(all), err)
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
