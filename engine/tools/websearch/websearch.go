// Package websearch asks search engines that others run: a SearXNG instance, or
// Brave's API. It answers search_web, search_ai with the engines' passages, and
// search_x with what they know of x.com; fetch_page reads the page itself, which
// never is one of this network. Replies are read by known fields only, within
// limits; no byte of an error reply leaves this package.
package websearch

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/remote"
	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/internal/plain"
)

// Limits of one text of a reply, of a page, and of results.
const (
	maxField   = 20_000
	maxPage    = 4 << 20
	defaultNum = 10
	maxAsked   = 50 // results of one question, over the engine's pages
)

// Config names an engine.
type Config struct {
	// BaseURL is the address of a SearXNG instance, or of Brave's API
	// (https://api.search.brave.com). http only on this machine.
	BaseURL string
	Key     string        // Brave's; SearXNG has none
	Timeout time.Duration // of one request; default 30 s
	Client  *http.Client  // default: no proxy, no redirects
	// Pages fetches what fetch_page names; default: never a private address.
	Pages *fetch.Client
}

// engine is what differs between engines.
type engine interface {
	name() string
	// page makes the request for the n-th page of results, from 0; size results at most.
	page(base *url.URL, q question, n int) *http.Request
	size() int
	read(b []byte) ([]hit, error)
}

// question is what an engine is asked.
type question struct {
	text   string
	since  time.Duration // 0: any time
	sort   string        // category of SearXNG: general, science, social media …
	offset int
}

type hit struct{ url, title, text string }

// Search implements tools.Search and tools.Pages.
type Search struct {
	cfg    Config
	base   *url.URL
	engine engine
}

// NewSearXNG asks an instance, which must allow the format json.
func NewSearXNG(c Config) (*Search, error) { return open(c, searxng{}) }

// NewBrave asks Brave's web search. Key is needed.
func NewBrave(c Config) (*Search, error) {
	if c.Key == "" || strings.ContainsAny(c.Key, "\r\n") {
		return nil, errors.New("search provider: no key is set")
	}
	if c.BaseURL == "" {
		c.BaseURL = "https://api.search.brave.com"
	}
	return open(c, brave{c.Key})
}

func open(c Config, e engine) (*Search, error) {
	u, err := url.Parse(strings.TrimRight(c.BaseURL, "/"))
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return nil, errors.New("search provider: base URL is not an address")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || (u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost" && u.Hostname() != "::1")) {
		return nil, errors.New("search provider: want https (http only on this machine)")
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Client == nil {
		c.Client = &http.Client{
			Transport:     &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	if c.Pages == nil {
		c.Pages = fetch.New(fetch.Config{MaxBytes: maxPage})
	}
	return &Search{c, u, e}, nil
}

// Name implements tools.Search.
func (s *Search) Name() string { return s.engine.name() }

// Probe implements tools.Search.
func (s *Search) Probe(ctx context.Context) error {
	_, err := s.ask(ctx, question{text: "ping"}, 1)
	return err
}

// ask collects at most n results that no earlier one repeats.
func (s *Search) ask(ctx context.Context, q question, n int) ([]hit, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	size := s.engine.size()
	skip := q.offset
	want := min(n, maxAsked) + skip
	var out []hit
	seen := map[string]bool{}
	for page := 0; len(out) < want && page <= (want-1)/size; page++ {
		b, err := s.do(ctx, s.engine.page(s.base, q, page))
		if err != nil {
			return nil, err
		}
		list, err := s.engine.read(b)
		if err != nil {
			return nil, err
		}
		before := len(out)
		for _, h := range list {
			if webURL(h.url) && !seen[h.url] {
				seen[h.url] = true
				out = append(out, h)
			}
		}
		if len(out) == before {
			break // there are no more
		}
	}
	out = out[min(skip, len(out)):]
	return out[:min(len(out), n)], nil
}

// Web implements tools.Search.
func (s *Search) Web(ctx context.Context, q tools.WebQuery) ([]tools.WebHit, error) {
	n := q.Num
	if n == 0 {
		n = defaultNum
	}
	list, err := s.ask(ctx, question{text: q.Query, offset: min(q.Start, maxAsked)}, n)
	out := make([]tools.WebHit, 0, len(list))
	for _, h := range list {
		out = append(out, tools.WebHit{Link: h.url, Snippet: some(h.text), Title: some(h.title)})
	}
	return out, err
}

// X implements tools.Search: posts that the engine has indexed, by their address.
// What it cannot filter by finds nothing.
func (s *Search) X(ctx context.Context, q tools.XQuery) ([]tools.Post, error) {
	demands := q.MinLikes > 0 || q.MinReplies > 0 || q.MinRetweets > 0 || q.StartDate != "" || q.EndDate != "" || q.Lang != ""
	for _, b := range []*bool{q.Verified, q.BlueVerified, q.IsQuote, q.IsVideo, q.IsImage} {
		demands = demands || (b != nil && *b)
	}
	if demands {
		return nil, ctx.Err()
	}
	n := q.Count
	if n == 0 {
		n = defaultNum
	}
	site := "site:x.com "
	if q.User != "" {
		site = "site:x.com/" + url.PathEscape(strings.TrimPrefix(q.User, "@")) + " "
	}
	list, err := s.ask(ctx, question{text: site + q.Query}, n)
	out := make([]tools.Post, 0, len(list))
	for _, h := range list {
		u, err := url.Parse(h.url)
		if err != nil {
			continue
		}
		host := strings.TrimPrefix(u.Hostname(), "www.")
		part := strings.Split(strings.Trim(u.Path, "/"), "/")
		if (host != "x.com" && host != "twitter.com") || len(part) < 3 || part[1] != "status" {
			continue
		}
		out = append(out, tools.Post{ID: part[2], URL: h.url, Text: plain.Head(h.text, maxField), User: &tools.PostUser{Username: part[0]}})
	}
	return out, err
}

// sites are where the sources of search_ai are, and their category at SearXNG.
var sites = map[string]struct{ site, sort string }{
	"web": {}, "hackernews": {"news.ycombinator.com", "it"}, "reddit": {"reddit.com", "social media"}, "wikipedia": {"wikipedia.org", "general"},
	"youtube": {"youtube.com", "videos"}, "twitter": {"x.com", "social media"}, "arxiv": {"arxiv.org", "science"},
}

// AI implements tools.Search: the engine's passages of each source that is asked for,
// in turn. No model writes here, so that every result type gives the passage itself.
func (s *Search) AI(ctx context.Context, q tools.AIQuery) ([]tools.AIHit, error) {
	lists := make([][]tools.AIHit, 0, len(q.Tools))
	each := (q.Count + len(q.Tools) - 1) / max(len(q.Tools), 1)
	for _, tool := range q.Tools {
		at := sites[tool]
		text := q.Prompt
		if at.site != "" {
			text = "site:" + at.site + " " + text
		}
		found, err := s.ask(ctx, question{text: text, since: period(q.DateFilter), sort: at.sort}, each)
		if err != nil {
			return nil, err
		}
		var of []tools.AIHit
		for _, h := range found {
			a := tools.AIHit{URL: h.url, Title: some(h.title), Source: &tool}
			if q.ResultType != "ONLY_LINKS" {
				a.Note = some(h.text)
			}
			of = append(of, a)
		}
		lists = append(lists, of)
	}
	out := []tools.AIHit{}
	for i := 0; len(out) < q.Count; i++ {
		more := false
		for _, l := range lists {
			if i < len(l) && len(out) < q.Count {
				out, more = append(out, l[i]), true
			}
		}
		if !more {
			break
		}
	}
	return out, nil
}

// Page implements tools.Pages. What is not text, is too large or stands in this
// network is not found: that is the caller's mistake, not the engine's.
func (s *Search) Page(ctx context.Context, address string) (tools.Page, error) {
	b, err := s.cfg.Pages.Get(ctx, address)
	var no *agon.Error
	switch {
	case ctx.Err() != nil:
		return tools.Page{}, &tools.Failure{Class: "timeout"}
	case errors.As(err, &no):
		return tools.Page{}, &tools.Failure{Class: "not_found", Own: true, Detail: no.Code}
	case err != nil:
		return tools.Page{}, &tools.Failure{Class: "server", Detail: "the page could not be read"}
	case !utf8.Valid(b):
		return tools.Page{}, &tools.Failure{Class: "not_found", Own: true, Detail: "not text"}
	}
	page := tools.Page{URL: address, Content: plain.Squeeze(string(b))}
	if head := strings.ToLower(plain.Head(strings.TrimSpace(string(b)), 1000)); strings.Contains(head, "<html") || strings.HasPrefix(head, "<!doctype") {
		page.Content, page.Title = plain.HTML(string(b)), some(plain.Title(string(b)))
	}
	if strings.TrimSpace(page.Content) == "" {
		return tools.Page{}, &tools.Failure{Class: "not_found", Own: true, Detail: "no text"}
	}
	return page, nil
}

// do sends one request and reads its reply within the limits.
func (s *Search) do(ctx context.Context, req *http.Request) ([]byte, error) {
	req.Header.Set("User-Agent", "agon")
	return remote.Do(s.cfg.Client, req.WithContext(ctx), s.cfg.Key)
}

// some is nil for no text, and a bounded copy for too much.
func some(s string) *string {
	if s = plain.HTML(s); s == "" {
		return nil
	}
	s = plain.Head(s, maxField)
	return &s
}

func webURL(s string) bool {
	return len(s) <= 2000 && (strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://"))
}

const day = 24 * time.Hour

func period(filter string) time.Duration {
	switch filter {
	case "PAST_24_HOURS":
		return day
	case "PAST_2_DAYS", "PAST_WEEK":
		return 7 * day
	case "PAST_2_WEEKS", "PAST_MONTH":
		return 31 * day
	case "PAST_2_MONTHS", "PAST_YEAR":
		return 366 * day
	}
	return 0 // older than engines tell apart
}

// searxng is GET /search with format=json.
type searxng struct{}

func (searxng) name() string { return "searxng" }

func (searxng) size() int { return 10 }

func (searxng) page(base *url.URL, q question, n int) *http.Request {
	v := url.Values{"q": {q.text}, "format": {"json"}, "pageno": {strconv.Itoa(n + 1)}}
	if q.sort != "" {
		v.Set("categories", q.sort)
	}
	switch {
	case q.since == 0:
	case q.since <= day:
		v.Set("time_range", "day")
	case q.since <= 31*day:
		v.Set("time_range", "month")
	default:
		v.Set("time_range", "year")
	}
	return get(base, "/search", v)
}

func (searxng) read(b []byte) ([]hit, error) {
	var in struct {
		Results *[]struct{ URL, Title, Content string }
	}
	if json.Unmarshal(b, &in) != nil || in.Results == nil {
		return nil, remote.Bad("reply has no results")
	}
	out := make([]hit, 0, len(*in.Results))
	for _, r := range *in.Results {
		out = append(out, hit{r.URL, r.Title, r.Content})
	}
	return out, nil
}

// brave is GET /res/v1/web/search.
type brave struct{ key string }

func (brave) name() string { return "brave" }

func (brave) size() int { return 20 }

func (e brave) page(base *url.URL, q question, n int) *http.Request {
	v := url.Values{"q": {q.text}, "count": {strconv.Itoa(e.size())}, "offset": {strconv.Itoa(n)}, "text_decorations": {"false"}, "result_filter": {"web"}}
	switch {
	case q.since == 0:
	case q.since <= day:
		v.Set("freshness", "pd")
	case q.since <= 7*day:
		v.Set("freshness", "pw")
	case q.since <= 31*day:
		v.Set("freshness", "pm")
	default:
		v.Set("freshness", "py")
	}
	r := get(base, "/res/v1/web/search", v)
	r.Header.Set("X-Subscription-Token", e.key)
	return r
}

func (brave) read(b []byte) ([]hit, error) {
	var in struct {
		Type string
		Web  *struct {
			Results []struct {
				URL, Title, Description string
				Extra                   []string `json:"extra_snippets"`
			}
		}
	}
	if json.Unmarshal(b, &in) != nil || (in.Type != "search" && in.Web == nil) {
		return nil, remote.Bad("reply is not a search")
	}
	if in.Web == nil { // nothing was found
		return nil, nil
	}
	out := make([]hit, 0, len(in.Web.Results))
	for _, r := range in.Web.Results {
		out = append(out, hit{r.URL, r.Title, strings.Join(append([]string{r.Description}, r.Extra...), "\n")})
	}
	return out, nil
}

func get(base *url.URL, path string, v url.Values) *http.Request {
	u := *base
	u.Path += path
	u.RawQuery = v.Encode()
	return &http.Request{Method: http.MethodGet, URL: &u, Host: u.Host, Header: http.Header{}}
}
