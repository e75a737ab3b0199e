// Package desearch is a search back end that asks an HTTP provider of the
// DeSearch shape: GET /web, GET /twitter and POST /desearch/ai/search with the
// key in the Authorization header. Replies are read by known fields only,
// within limits; no byte of an error reply leaves this package.
package desearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/remote"
	"github.com/agon-arena/agon/internal/plain"
)

// Config names the provider. BaseURL and Key are needed.
type Config struct {
	BaseURL string // "https://api.desearch.ai"; http only for loopback addresses
	Key     string
	Name    string        // for receipts; default "desearch"
	Client  *http.Client  // default: no proxy, no redirects
	Timeout time.Duration // of one request; default 50 s
}

// maxField bounds one text of a reply.
const (
	maxField = 20_000
)

// Search implements tools.Search.
type Search struct {
	cfg  Config
	base *url.URL
}

// New checks c.
func New(c Config) (*Search, error) {
	u, err := url.Parse(strings.TrimRight(c.BaseURL, "/"))
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("search provider: base URL is not an address")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || (u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost" && u.Hostname() != "::1")) {
		return nil, errors.New("search provider: want https (http only on this machine)")
	}
	if c.Key == "" || strings.ContainsAny(c.Key, "\r\n") {
		return nil, errors.New("search provider: no key is set")
	}
	if c.Name == "" {
		c.Name = "desearch"
	}
	if c.Timeout <= 0 {
		c.Timeout = 50 * time.Second
	}
	if c.Client == nil {
		c.Client = &http.Client{
			Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &Search{c, u}, nil
}

// Name implements tools.Search.
func (s *Search) Name() string { return s.cfg.Name }

// Probe implements tools.Search.
func (s *Search) Probe(ctx context.Context) error {
	_, err := s.do(ctx, http.MethodGet, "/web", url.Values{"query": {"ping"}, "num": {"1"}}, nil)
	return err
}

// Web implements tools.Search.
func (s *Search) Web(ctx context.Context, q tools.WebQuery) ([]tools.WebHit, error) {
	v := url.Values{"query": {q.Query}}
	if q.Num > 0 {
		v.Set("num", strconv.Itoa(q.Num))
	}
	if q.Start > 0 {
		v.Set("start", strconv.Itoa(q.Start))
	}
	b, err := s.do(ctx, http.MethodGet, "/web", v, nil)
	if err != nil {
		return nil, err
	}
	return parseWeb(b)
}

func parseWeb(b []byte) ([]tools.WebHit, error) {
	var in struct {
		Data *[]struct{ Link, Snippet, Title string }
	}
	if err := json.Unmarshal(b, &in); err != nil || in.Data == nil {
		return nil, remote.Bad("reply has no data")
	}
	out := make([]tools.WebHit, 0, len(*in.Data))
	for _, h := range *in.Data {
		if !webURL(h.Link) {
			continue
		}
		out = append(out, tools.WebHit{Link: h.Link, Snippet: some(h.Snippet), Title: some(h.Title)})
	}
	return out, nil
}

// X implements tools.Search.
func (s *Search) X(ctx context.Context, q tools.XQuery) ([]tools.Post, error) {
	v := url.Values{"query": {q.Query}}
	for k, x := range map[string]string{"lang": q.Lang, "sort": q.Sort, "user": q.User, "start_date": q.StartDate, "end_date": q.EndDate} {
		if x != "" {
			v.Set(k, x)
		}
	}
	if q.Count > 0 {
		v.Set("count", strconv.Itoa(q.Count))
	}
	for k, x := range map[string]*bool{"verified": q.Verified, "blue_verified": q.BlueVerified, "is_quote": q.IsQuote, "is_video": q.IsVideo, "is_image": q.IsImage} {
		if x != nil {
			v.Set(k, strconv.FormatBool(*x))
		}
	}
	for _, x := range []struct {
		k   string
		has bool
		n   int64
	}{{"min_retweets", q.HasMinRetweets, q.MinRetweets}, {"min_replies", q.HasMinReplies, q.MinReplies}, {"min_likes", q.HasMinLikes, q.MinLikes}} {
		if x.has {
			v.Set(x.k, strconv.FormatInt(x.n, 10))
		}
	}
	b, err := s.do(ctx, http.MethodGet, "/twitter", v, nil)
	if err != nil {
		return nil, err
	}
	return parseX(b)
}

func parseX(b []byte) ([]tools.Post, error) {
	type user struct {
		tools.PostUser
		Name  string `json:"name"`
		Image string `json:"profile_image_url_https"`
	}
	type post struct {
		tools.Post
		User *user `json:"user"`
	}
	var in []post
	if json.Unmarshal(b, &in) != nil {
		var wrapped struct{ Data *[]post }
		if json.Unmarshal(b, &wrapped) != nil || wrapped.Data == nil {
			return nil, remote.Bad("reply is not a list of posts")
		}
		in = *wrapped.Data
	}
	out := make([]tools.Post, 0, len(in))
	for _, p := range in {
		x := p.Post
		x.Text = plain.Head(x.Text, maxField)
		if !webURL(x.URL) {
			x.URL = ""
		}
		x.User = nil
		if p.User != nil {
			u := p.User.PostUser
			if p.User.Name != "" {
				u.DisplayName = p.User.Name
			}
			if p.User.Image != "" {
				u.ProfileImageURL = p.User.Image
			}
			x.User = &u
		}
		if len(x.Media) > 16 {
			x.Media = x.Media[:16]
		}
		if bytes.Equal(x.ExtendedEntities, []byte("null")) {
			x.ExtendedEntities = nil
		}
		out = append(out, x)
	}
	return out, nil
}

// AI implements tools.Search.
func (s *Search) AI(ctx context.Context, q tools.AIQuery) ([]tools.AIHit, error) {
	body := map[string]any{"prompt": q.Prompt, "tools": q.Tools, "count": q.Count, "result_type": q.ResultType, "streaming": false}
	if q.DateFilter != "" {
		body["date_filter"] = q.DateFilter
	}
	if q.SystemMessage != "" {
		body["system_message"] = q.SystemMessage
	}
	b, err := s.do(ctx, http.MethodPost, "/desearch/ai/search", nil, body)
	if err != nil {
		return nil, err
	}
	return parseAI(b)
}

// lists of an AI reply, in the order in which they are shown.
var lists = []struct{ key, source string }{
	{"search", "web"},
	{"search_results", "web"},
	{"wikipedia_search", "wikipedia"},
	{"arxiv_search", "arxiv"},
	{"hacker_news_search", "hackernews"},
	{"reddit_search", "reddit"},
	{"youtube_search", "youtube"},
	{"miner_tweets", "twitter"},
	{"tweets", "twitter"},
	{"data", "web"},
}

func parseAI(b []byte) ([]tools.AIHit, error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(b, &in); err != nil || in == nil {
		return nil, remote.Bad("reply is not an object")
	}
	out := []tools.AIHit{}
	seen := map[string]bool{}
	found := false
	for _, l := range lists {
		var hits []struct{ URL, Link, Title, Snippet, Summary, Note, Text, Source string }
		raw, ok := in[l.key]
		if !ok || json.Unmarshal(raw, &hits) != nil {
			continue
		}
		found = true
		for _, h := range hits {
			u := h.URL
			if u == "" {
				u = h.Link
			}
			if !webURL(u) {
				u = ""
			}
			if u != "" && seen[u] {
				continue
			}
			seen[u] = true
			source := l.source
			if h.Source != "" && l.key == "data" {
				source = h.Source
			}
			note := ""
			for _, x := range []string{h.Note, h.Summary, h.Snippet, h.Text} {
				if note == "" {
					note = x
				}
			}
			out = append(out, tools.AIHit{URL: u, Title: some(h.Title), Note: some(note), Source: some(source)})
		}
	}
	if !found {
		return nil, remote.Bad("reply has no results")
	}
	return out, nil
}

// do sends one request and reads its reply within the limits.
func (s *Search) do(ctx context.Context, method, path string, q url.Values, body any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	u := *s.base
	u.Path += path
	u.RawQuery = q.Encode()
	var rd io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode search request: %w", err)
		}
		rd = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), rd)
	if err != nil {
		return nil, remote.Bad("request cannot be made")
	}
	req.Header.Set("Authorization", s.cfg.Key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return remote.Do(s.cfg.Client, req, s.cfg.Key)
}

// some is nil for no text, and a bounded copy for too much.
func some(s string) *string {
	if strings.TrimSpace(s) == "" {
		return nil
	}
	s = plain.Head(s, maxField)
	return &s
}

func webURL(s string) bool {
	return len(s) <= 2000 && (strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://"))
}
