package desearch

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/remote"
)

func serve(t *testing.T, h http.HandlerFunc) *Search {
	t.Helper()
	return patient(t, h, time.Minute)
}

func patient(t *testing.T, h http.HandlerFunc, timeout time.Duration) *Search {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	s, err := New(Config{BaseURL: srv.URL, Key: "secret-key", Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestShapes(t *testing.T) {
	var asked *http.Request
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r
		w.Header().Set("Content-Type", "application/json")
		body := map[string]string{
			"/web":                `{"data":[{"title":"T","link":"https://a.example","snippet":"s"},{"title":"no link"},{"link":"javascript:x"}]}`,
			"/twitter":            `[{"id":"1","url":"https://x.example/1","text":"post","user":{"id":"9","name":"Ann","profile_image_url_https":"https://i","verified":true},"like_count":3,"secret":"x"}]`,
			"/desearch/ai/search": `{"search":[{"title":"T","link":"https://a.example","snippet":"s"},{"title":"T","link":"https://a.example"}],"wikipedia_search":[{"title":"W","link":"https://w.example","summary":"sum"}],"completion":"ignored"}`,
		}[r.URL.Path]
		_, _ = w.Write([]byte(body))
	})
	ctx := context.Background()
	web, err := s.Web(ctx, tools.WebQuery{Query: "q", Num: 3})
	if err != nil || len(web) != 1 || *web[0].Snippet != "s" {
		t.Errorf("web: %v %+v", err, web)
	}
	if asked.Header.Get("Authorization") != "secret-key" || asked.URL.Query().Get("num") != "3" {
		t.Errorf("request: %v %v", asked.URL, asked.Header)
	}
	yes := true
	posts, err := s.X(ctx, tools.XQuery{Query: "q", Verified: &yes, MinLikes: 2, HasMinLikes: true})
	if err != nil || len(posts) != 1 || posts[0].User.DisplayName != "Ann" || posts[0].User.ProfileImageURL != "https://i" || *posts[0].LikeCount != 3 {
		t.Errorf("x: %v %+v", err, posts)
	}
	if q := asked.URL.Query(); q.Get("verified") != "true" || q.Get("min_likes") != "2" || q.Has("min_replies") {
		t.Errorf("x asked %v", q)
	}
	ai, err := s.AI(ctx, tools.AIQuery{Prompt: "p", Tools: []string{"web"}, Count: 5})
	if err != nil || len(ai) != 2 || *ai[1].Note != "sum" || *ai[1].Source != "wikipedia" {
		t.Errorf("ai: %v %+v", err, ai)
	}
	if err := s.Probe(ctx); err != nil {
		t.Errorf("probe: %v", err)
	}
}

func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		h     http.HandlerFunc
		class string
		own   bool
	}{
		"key": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "secret-key is wrong", http.StatusUnauthorized)
		}, "auth", false},
		"echo": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"data":[{"link":"https://a","snippet":"secret-key"}]}`))
		}, "bad_reply", false},
		"escaped": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"data":[{"link":"https://a","snippet":"\u0073ecret-key"}]}`))
		}, "bad_reply", false},
		"money": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(402) }, "payment", false},
		"busy":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, "rate_limit", false},
		"down":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "server", false},
		"bad":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(422) }, "refused", true},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "bad_reply", false},
		"html": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "bad_reply", false},
		"huge": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, remote.MaxReply+1)) }, "bad_reply", false},
		"slow": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "timeout", false},
	} {
		t.Run(name, func(t *testing.T) {
			timeout := time.Minute
			if name == "slow" {
				timeout = 200 * time.Millisecond
			}
			_, err := patient(t, c.h, timeout).Web(context.Background(), tools.WebQuery{Query: "q"})
			var f *tools.Failure
			if !errors.As(err, &f) || f.Class != c.class || f.Own != c.own {
				t.Errorf("%v, want %s", err, c.class)
			}
			if f != nil && strings.Contains(f.Error()+f.Detail, "secret-key") {
				t.Error("the key shows in an error")
			}
		})
	}
	for _, c := range []Config{{BaseURL: "http://api.example", Key: "k"}, {BaseURL: "https://u@api.example", Key: "k"}, {BaseURL: "https://api.example"}, {BaseURL: "https://api.example", Key: "a\nb"}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte(`{"data":[{"link":"https://a"}]}`))
	f.Add([]byte(`[{"user":{"name":"x"},"media":[{}]}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		web, _ := parseWeb(b)
		for _, h := range web {
			if !webURL(h.Link) {
				t.Fatalf("%+v", h)
			}
		}
		if ai, err := parseAI(b); err == nil {
			for _, h := range ai {
				if h.Note != nil && len(*h.Note) > maxField {
					t.Fatal("note is too long")
				}
			}
		}
		_, _ = parseX(b)
	})
}
