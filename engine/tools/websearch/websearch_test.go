package websearch

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/remote"
	"github.com/agon-arena/agon/internal/fetch"
)

// searx answers as an instance does: ten results a page, three pages, one of them double.
func searx(asked *[]url.Values) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		*asked = append(*asked, q)
		if r.URL.Path != "/search" || q.Get("format") != "json" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		var page int
		_, _ = fmt.Sscan(q.Get("pageno"), &page)
		list := []any{map[string]any{"url": "javascript:alert(1)", "title": "x"}}
		for i := range 10 {
			if page <= 3 {
				list = append(list, map[string]any{"url": fmt.Sprintf("https://e.example/%d-%d", page, i), "title": "T <b>&amp;</b>", "content": "about <b>ferries</b>", "engine": "e"})
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"query": q.Get("q"), "number_of_results": 0, "results": list, "suggestions": []any{}})
	}
}

func TestSearXNG(t *testing.T) {
	var asked []url.Values
	srv := httptest.NewServer(searx(&asked))
	defer srv.Close()
	s, err := NewSearXNG(Config{BaseURL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	web, err := s.Web(t.Context(), tools.WebQuery{Query: "ferry", Start: 5, Num: 12})
	if err != nil || len(web) != 12 || web[0].Link != "https://e.example/1-5" || *web[0].Snippet != "about ferries" || *web[0].Title != "T &" || len(asked) != 2 {
		t.Errorf("%d results in %d requests: %+v %v", len(web), len(asked), web, err)
	}
	web, err = s.Web(t.Context(), tools.WebQuery{Query: "ferry", Num: 50})
	if err != nil || len(web) != 30 {
		t.Errorf("%d results: %v", len(web), err)
	}
	asked = nil
	ai, err := s.AI(t.Context(), tools.AIQuery{Prompt: "ferry", Tools: []string{"web", "arxiv"}, Count: 4, DateFilter: "PAST_24_HOURS"})
	if err != nil || len(ai) != 4 || *ai[0].Source != "web" || *ai[1].Source != "arxiv" || *ai[0].Note != "about ferries" {
		t.Errorf("%+v %v", ai, err)
	}
	if len(asked) != 2 || asked[1].Get("q") != "site:arxiv.org ferry" || asked[1].Get("categories") != "science" || asked[1].Get("time_range") != "day" {
		t.Errorf("asked %v", asked)
	}
}

func TestBrave(t *testing.T) {
	const key = "a-key-of-this-test"
	reply := `{"type":"search","web":{"results":[{"url":"https://x.com/ann/status/12","title":"Ann","description":"a <strong>ferry</strong>"},{"url":"https://x.com/ann","title":"Ann","description":"profile"}]}}`
	status := 200
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/res/v1/web/search" || r.Header.Get("X-Subscription-Token") != key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(reply))
	}))
	defer srv.Close()
	s, err := NewBrave(Config{BaseURL: srv.URL, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	posts, err := s.X(t.Context(), tools.XQuery{Query: "ferry", User: "@ann"})
	if err != nil || len(posts) != 1 || posts[0].ID != "12" || posts[0].User.Username != "ann" || posts[0].Text != "a <strong>ferry</strong>" {
		t.Errorf("%+v %v", posts, err)
	}
	for _, c := range []struct {
		status int
		reply  string
		class  string
	}{
		{429, "", "rate_limit"},
		{401, "", "auth"},
		{422, "", "refused"},
		{503, "", "server"},
		{200, `{}`, "bad_reply"},
		{200, `[`, "bad_reply"},
		{200, strings.Repeat(" ", remote.MaxReply+1), "bad_reply"},
		{200, `{"type":"search","x":"` + key + `"}`, "bad_reply"},
	} {
		status, reply = c.status, c.reply
		_, err := s.Web(t.Context(), tools.WebQuery{Query: "ferry"})
		var f *tools.Failure
		if !errors.As(err, &f) || f.Class != c.class || strings.Contains(err.Error(), key) {
			t.Errorf("%d %.20q: %v, want %s", c.status, c.reply, err, c.class)
		}
	}
	status, reply = 200, `{"type":"search"}`
	if web, err := s.Web(t.Context(), tools.WebQuery{Query: "ferry"}); err != nil || len(web) != 0 {
		t.Errorf("nothing found: %v %v", web, err)
	}
	if _, err := NewBrave(Config{}); err == nil {
		t.Error("no key was needed")
	}
	for _, bad := range []string{"http://search.example", "ftp://x", "https://u:p@x.example", "x", "https://x.example?q=1"} {
		if _, err := NewSearXNG(Config{BaseURL: bad}); err == nil {
			t.Errorf("%s: taken", bad)
		}
	}
}

func TestPage(t *testing.T) {
	body := "<!DOCTYPE html><html><head><title>Tides &amp; ferries</title><script>evil()</script></head><body><p>One.</p><p>Two  three.</p></body></html>"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	defer srv.Close()
	near, err := NewSearXNG(Config{BaseURL: "https://searx.example", Pages: fetch.New(fetch.Config{AllowPrivate: true, MaxBytes: 1000})})
	if err != nil {
		t.Fatal(err)
	}
	page, err := near.Page(t.Context(), srv.URL)
	if err != nil || page.Content != "Tides & ferries\nOne.\nTwo three." || page.Title == nil || *page.Title != "Tides & ferries" {
		t.Errorf("%q %+v %v", page.Content, page, err)
	}
	for name, b := range map[string]string{"not text": "\xff\xfe\x00", "too large": strings.Repeat("a", 1001), "empty": " "} {
		body = b
		var f *tools.Failure
		if _, err := near.Page(t.Context(), srv.URL); !errors.As(err, &f) || !f.Own {
			t.Errorf("%s: %v", name, err)
		}
	}
	// As it is made, nothing of this network is read.
	s, err := NewSearXNG(Config{BaseURL: "https://searx.example"})
	if err != nil {
		t.Fatal(err)
	}
	body = "secret"
	for _, at := range []string{srv.URL, "http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "not an address"} {
		if page, err := s.Page(t.Context(), at); err == nil {
			t.Errorf("%s: read %q", at, page.Content)
		}
	}
}
