package rounds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/kinds/claim/supply"
	"github.com/agon-arena/agon/kinds/kit"
)

func texts(n int) []supply.Item {
	var out []supply.Item
	for i := range n {
		out = append(out, supply.Item{ID: fmt.Sprint("i", i), URL: fmt.Sprintf("https://feed.example/%d", i), Title: "A report", At: time.Unix(int64(i), 0), Text: fmt.Sprintf("Report %d: the lighthouse number%d of Skarn was painted.", i, i)})
	}
	return out
}

// A text that was deleted on demand is found by no search of a server that runs, stands in
// no round any more, and does not come again with the feed, nor after a restart.
func TestForget(t *testing.T) {
	data := t.TempDir()
	root := Folder(data, "claims")
	for i, name := range []string{"000000-aa", "000001-bb"} {
		at := folder.Folder(filepath.Join(root, name))
		if err := at.Put("items", texts(3+i)); err != nil {
			t.Fatal(err)
		}
		if err := at.Put("used", used{Claims: []string{"The lighthouse was painted."}, Items: []string{"i1"}}); err != nil {
			t.Fatal(err)
		}
	}
	making := folder.Folder(filepath.Join(root, "000002-bb")) // a round that was stopped in its making
	if err := making.Put("items", texts(2)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(string(making), "log"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	running := NewCorpus(time.Now)
	if err := running.Without(root); err != nil {
		t.Fatal(err)
	}
	running.AddItems(texts(4))
	finds := func(c *Corpus, i int) bool {
		t.Helper()
		hits, err := c.Web(context.Background(), tools.WebQuery{Query: fmt.Sprint("number", i), Num: 5})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Page(context.Background(), fmt.Sprint("https://feed.example/", i))
		for _, h := range hits {
			if h.Link == fmt.Sprint("https://feed.example/", i) {
				return true
			}
		}
		return err == nil
	}
	if !finds(running, 1) || !finds(running, 2) {
		t.Fatal("the texts are not found before")
	}
	r, err := Forget(data, "claims", []string{"https://feed.example/1", " https://feed.example/none "})
	if err != nil || r.Texts != 3 || len(r.Unknown) != 1 || r.Unknown[0] != "https://feed.example/none" {
		t.Fatalf("%+v %v", r, err)
	}
	if _, err := os.Stat(filepath.Join(string(making), "log")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a round that is being made goes on from a log of other texts: %v", err)
	}
	running.AddItems(texts(6)) // the feed still has it
	started := NewCorpus(time.Now)
	if err := started.Without(root); err != nil {
		t.Fatal(err)
	}
	started.AddItems(texts(6))
	for name, c := range map[string]*Corpus{"running": running, "started anew": started} {
		if finds(c, 1) || !finds(c, 2) || !finds(c, 5) {
			t.Errorf("%s: finds the text %v, and others %v %v", name, finds(c, 1), finds(c, 2), finds(c, 5))
		}
	}
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "number1 ") {
			t.Errorf("%s still has the text", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// Rounds are read on, and the next one takes in what is left.
	x := &Supply{Stock: &kit.Stock{Server: &kit.Server{Data: &kit.Data{Dir: data}}}, Arena: "claims", Feed: filepath.Join(data, "feed.json")}
	before, err := x.earlier("")
	if err != nil || len(before) != 2 || len(before[0].items) != 2 || len(before[1].items) != 3 || before[0].Claims[0] == "" {
		t.Fatalf("%+v %v", before, err)
	}
	fresh := texts(6)
	for i := range fresh {
		fresh[i].At = time.Now()
		fresh[i].Text += strings.Repeat(" It was white before, and has a new lamp.", 3)
	}
	feed, err := supply.Feed("towns", fresh)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(x.Feed, feed, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "000003-cc")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	next, err := x.items(context.Background(), dir, nil)
	if err != nil || len(next) != 5 {
		t.Fatalf("the next round has %d texts of 6 less one: %v", len(next), err)
	}
}

// Nothing is written outside an arena's rounds, and mistakes are named.
func TestForgetRefuses(t *testing.T) {
	data := t.TempDir()
	if err := os.MkdirAll(Folder(data, "claims"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ arena, address, field string }{
		{"nope", "https://x.example", "arena"},
		{"../..", "https://x.example", "arena"},
		{"", "https://x.example", "arena"},
		{"claims", " ", "address"},
		{"claims", strings.Repeat("x", maxAddress+1), "address"},
	} {
		_, err := Forget(data, c.arena, []string{c.address})
		var e *agon.Error
		if !errors.As(err, &e) || e.Field != c.field {
			t.Errorf("%q %.20q: %v", c.arena, c.address, err)
		}
	}
	// A list that cannot be read hides everything, so that nothing deleted is shown.
	c := NewCorpus(time.Now)
	if err := c.Without(Folder(data, "claims")); err != nil {
		t.Fatal(err)
	}
	c.AddItems(texts(2))
	if err := os.WriteFile(filepath.Join(Folder(data, "claims"), forgottenName+".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if hits, err := c.Web(context.Background(), tools.WebQuery{Query: "lighthouse", Num: 5}); err != nil || len(hits) != 0 {
		t.Errorf("%d hits %v", len(hits), err)
	}
}
