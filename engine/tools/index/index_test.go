package index

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon/engine/tools"
)

func TestTerms(t *testing.T) {
	got := slices.Collect(Terms("The miners' subnet_id of parseHTTP, glass 2026 Äpfel!"))
	want := []string{"the", "miner", "subnet", "id", "of", "parse", "http", "glass", "2026", "äpfel"}
	if !slices.Equal(got, want) {
		t.Errorf("terms %q, want %q", got, want)
	}
}

func TestSearchOrder(t *testing.T) {
	var x Inverted
	for _, s := range []string{"red fox", "red red red", "blue whale and a red fox jumps over it all day long", "green"} {
		x.Add(Field{s, 1})
	}
	got := x.Search("red fox", 10, nil)
	if len(got) != 3 || got[0].Doc != 0 {
		t.Errorf("matches %+v", got)
	}
	if again := x.Search("red fox", 10, nil); !slices.Equal(got, again) {
		t.Error("the order is not stable")
	}
	if x.Search("", 5, nil) != nil && len(x.Search("", 5, nil)) != 0 {
		t.Error("an empty query finds something")
	}
}

func TestFolder(t *testing.T) {
	now := time.Date(2026, 5, 2, 12, 0, 0, 0, time.UTC)
	fsys := fstest.MapFS{
		"a.md":     {Data: []byte("url: https://a.example/x\ndate: 2026-05-02T01:00:00Z\n\n# Ferry\n\nThe ferry runs hourly.")},
		"b.txt":    {Data: []byte("Plain: words with a colon stay text.\n\nThe ferry sank in 1870.")},
		"p.json":   {Data: []byte(`{"kind":"post","user":"ann","text":"the ferry is late","date":"2026-05-01"}`)},
		"skip.png": {Data: []byte{0xff}},
	}
	f, err := Load(fsys, "", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	d := f.Docs()
	if len(d) != 3 || d[0].Title != "Ferry" || d[0].URL != "https://a.example/x" || d[1].URL != "doc://b.txt" || !strings.HasPrefix(d[1].Text, "Plain:") {
		t.Fatalf("docs %+v", d)
	}
	ctx := context.Background()
	if hits, _ := f.Web(ctx, tools.WebQuery{Query: "ferry"}); len(hits) != 2 {
		t.Errorf("web %+v", hits)
	}
	if posts, _ := f.X(ctx, tools.XQuery{Query: "ferry", User: "@Ann"}); len(posts) != 1 || posts[0].User.Username != "ann" {
		t.Errorf("x %+v", posts)
	}
	if hits, _ := f.AI(ctx, tools.AIQuery{Prompt: "ferry", Tools: []string{"web"}, Count: 5, DateFilter: "PAST_24_HOURS"}); len(hits) != 1 || hits[0].Note == nil {
		t.Errorf("ai %+v", hits)
	}
	for name, data := range map[string]string{"bad.txt": "\xff", "empty.md": " ", "bad.json": "[", "date.md": "date: soon\n\nx"} {
		if _, err := Load(fstest.MapFS{name: {Data: []byte(data)}}, "", nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("nothing here ", 100) + "the golden key lies under the mat " + strings.Repeat("and more ", 100)
	e := Excerpt(long, "golden key mat", 120)
	if !strings.Contains(e, "golden key") || utf8.RuneCountInString(e) > 120 {
		t.Errorf("excerpt %q", e)
	}
}

func FuzzParseDoc(f *testing.F) {
	f.Add("a.md", []byte("url: x\ntitle: y\n\nz"))
	f.Add("a.json", []byte(`{"text":"x","date":"2026-01-01"}`))
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		d, err := ParseDoc(name, b)
		if err == nil && (strings.TrimSpace(d.Text) == "" || d.URL == "" || !utf8.ValidString(d.Text)) {
			t.Fatalf("%+v", d)
		}
		if err == nil {
			if e := Excerpt(d.Text, "x y z", 50); utf8.RuneCountInString(e) > 50 {
				t.Fatalf("excerpt %q", e)
			}
		}
	})
}
