package door

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	pathpkg "path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon/auth"
)

// Proxy is ORO's proxy (spec/oro.md 3.1) for validators of ORO, without nginx: all that
// a sandbox reaches. It forwards searches, and requests for models that the arena allows.
// Stricter than the source: one fetch of the list at a time, nothing but GET, HEAD and
// POST reaches the provider. Replies of any length pass; the source fails over 256 KiB.
type Proxy struct {
	cfg    ProxyConfig
	limit  *Limiter
	models *allowed
	search http.Handler
	infer  http.Handler
}

// ProxyConfig is where a proxy leads. All but Log is needed.
type ProxyConfig struct {
	// Backend lists the models that are allowed, at /v1/public/inference/models; Search is the
	// search server; Inference is the provider with its /v1.
	Backend, Search, Inference string
	Now                        func() time.Time
	Log                        *slog.Logger
}

// Times of the proxy.
const (
	listTime   = 5 * time.Second // of one fetch
	freshFor   = 15 * time.Minute
	staleFor   = time.Hour       // after that, while no fetch succeeds
	fetchPause = 5 * time.Second // after a fetch that failed
	modelTime  = 300 * time.Second
	maxList    = 1 << 20 // bytes of the list
)

// identifier tells the provider which subnet asks.
const identifier = "orosn15"

// NewProxy makes a proxy; it has fetched nothing yet.
func NewProxy(c ProxyConfig) (*Proxy, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	p := &Proxy{cfg: c, limit: NewLimiter(c.Now), models: &allowed{now: c.Now, log: c.Log, url: strings.TrimRight(c.Backend, "/") + "/v1/public/inference/models"}}
	to := func(name, raw, strip string) (http.Handler, error) {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil {
			return nil, fmt.Errorf("%s %q: want http(s)://HOST:PORT", name, raw)
		}
		return &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) {
				r.Out.URL.Path = strings.TrimRight(u.Path, "/") + "/" + strings.TrimPrefix(r.In.URL.Path, strip)
				r.Out.URL.RawPath = ""
				r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = u.Scheme, u.Host, u.Host
				r.Out.URL.RawQuery = r.In.URL.RawQuery
				if name == "inference" {
					r.Out.Header.Set("X-Identifier", identifier)
					r.Out.Header.Set("Accept-Encoding", "identity")
				}
			},
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				c.Log.Warn("a call is not passed on", "to", name, "err", err)
				w.WriteHeader(http.StatusBadGateway)
			},
		}, nil
	}
	var err error
	if _, err = to("backend", c.Backend, ""); err != nil {
		return nil, err
	}
	if p.search, err = to("search", c.Search, searchPath); err != nil {
		return nil, err
	}
	p.infer, err = to("inference", c.Inference, inferencePath)
	return p, err
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	plain := pathpkg.Clean(path) == strings.TrimSuffix(path, "/") // else it may mean another place to who reads it next
	search, infer := strings.HasPrefix(path, searchPath), strings.HasPrefix(path, inferencePath)
	switch {
	case path == "/health":
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "healthy\n")
	case !search && !infer, strings.HasPrefix(path, searchPath+"get_product_raw"), !plain:
		answer(w, http.StatusForbidden, forbidden)
	case !p.limit.Allow(auth.RemoteHost(r)):
		answer(w, http.StatusServiceUnavailable, tooMany)
	case search:
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		p.search.ServeHTTP(w, r)
	default:
		p.inference(w, r)
	}
}

func (p *Proxy) inference(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), modelTime)
	defer cancel()
	r = r.WithContext(ctx)
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		r.Body = http.NoBody
	case http.MethodPost:
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			answer(w, http.StatusRequestEntityTooLarge, `{"error":"the body is too large"}`)
			return
		}
		if err != nil {
			body = nil
		}
		if no := checkModel(body, func() []string { return p.models.list(ctx) }); no != nil {
			answer(w, no.status, no.body)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	default:
		answer(w, http.StatusForbidden, forbidden)
		return
	}
	p.infer.ServeHTTP(w, r)
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // a client that is gone reads no error
}

// allowed are the models that the backend allows, as last fetched.
type allowed struct {
	now func() time.Time
	log *slog.Logger
	url string

	mu      sync.Mutex // held while the list is fetched: who comes meanwhile waits for it
	models  []string   // guarded by mu
	fetched time.Time  // when; guarded by mu
	failed  time.Time  // when a fetch failed last; guarded by mu
}

// list is the list that holds now; nil: none does.
func (a *allowed) list(ctx context.Context) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	age := now.Sub(a.fetched)
	if a.models != nil && age < freshFor {
		return a.models
	}
	if a.failed.IsZero() || now.Sub(a.failed) >= fetchPause {
		list, err := a.fetch(context.WithoutCancel(ctx)) // for all who wait
		if err == nil {
			a.models, a.fetched, a.failed = list, now, time.Time{}
			return list
		}
		a.failed = now
		a.log.Warn("the list of models is not fetched", "err", err, "age", age)
	}
	if a.models != nil && age < freshFor+staleFor {
		return a.models
	}
	return nil
}

func (a *allowed) fetch(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out struct {
		Models []string `json:"models"`
	}
	switch err := json.NewDecoder(io.LimitReader(resp.Body, maxList)).Decode(&out); {
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	case err != nil:
		return nil, err
	case len(out.Models) == 0:
		return nil, errors.New("the list is empty")
	}
	return slices.Clip(out.Models), nil
}
