package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	bifrost "github.com/maximhq/bifrost/core"
	"github.com/maximhq/bifrost/core/schemas"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/internal/starting"
)

func newProxy(up string) (http.Handler, error) {
	u, err := url.Parse(up)
	if err != nil {
		return nil, err
	}
	p := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport:     &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		FlushInterval: -1,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else the server closes the request's body with the first flush, while
		// the transport still looks for its end, and the stream breaks off.
		_ = http.NewResponseController(w).EnableFullDuplex()
		p.ServeHTTP(w, r)
	}), nil
}

// perSession is how many calls a session gets before the next one is opened.
const perSession = 1000

// agonFront is the gateway with a new session every perSession calls, as runs come and go.
type agonFront struct {
	g *gateway.Gateway

	mu   sync.Mutex
	cur  *rotating
	runs int
}

type rotating struct {
	s     gateway.Session
	token string
	n     int
	open  sync.WaitGroup
}

// sink takes events and drops them, as a platform takes them over.
type sink struct{}

func (sink) Record(string, string, any) {}

func newAgon(up string, durable bool) (http.Handler, string, error) {
	prices, err := gateway.LoadPrices()
	if err != nil {
		return nil, "", err
	}
	if err := prices.Set("m", gateway.Price{In: 150_000, Out: 600_000, Version: "bench"}); err != nil {
		return nil, "", err
	}
	u, err := openai.New(openai.Config{BaseURL: up + "/v1", Key: "sk-bench", Models: []string{"m"}})
	if err != nil {
		return nil, "", err
	}
	cfg := gateway.Config{Upstreams: []provider.Upstream{u}, Prices: prices, Parallel: perSession}
	if durable {
		dir, err := os.MkdirTemp("", "agon-bench-")
		if err != nil {
			return nil, "", err
		}
		s, err := sqlite.Open(context.Background(), filepath.Join(dir, "gateway.db"))
		if err != nil {
			return nil, "", err
		}
		if cfg.Books, err = gateway.NewBooks(context.Background(), gateway.BooksConfig{Journal: s}); err != nil {
			return nil, "", err
		}
	}
	starting.Roomy() // as agon gateway does when it serves
	g, err := gateway.New(cfg)
	if err != nil {
		return nil, "", err
	}
	return &agonFront{g: g}, "", nil
}

// take returns the session to use now.
func (f *agonFront) take() (*rotating, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cur == nil || f.cur.n == perSession {
		f.runs++
		s, err := f.g.Open(context.Background(), gateway.Policy{
			Run: "run-" + strconv.Itoa(f.runs), Attempt: 1, Models: []string{"m"}, Dialects: []string{gateway.DialectOpenAI},
			Budget: agon.Budget{Micros: 1_000_000_000, Calls: perSession},
		}, sink{})
		if err != nil {
			return nil, err
		}
		if old := f.cur; old != nil {
			go func() { old.open.Wait(); _ = old.s.Close() }()
		}
		f.cur = &rotating{s: s, token: s.Header()[gateway.TokenHeader]}
	}
	f.cur.n++
	f.cur.open.Add(1)
	return f.cur, nil
}

func (f *agonFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, err := f.take()
	if err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	defer s.open.Done()
	r.Header.Set(gateway.TokenHeader, s.token)
	f.g.ServeHTTP(w, r)
}

// account is bifrost's view of the dummy.
type account struct{ up string }

func (a account) GetConfiguredProviders() ([]schemas.ModelProvider, error) {
	return []schemas.ModelProvider{schemas.OpenAI}, nil
}

func (a account) GetKeysForProvider(context.Context, schemas.ModelProvider) ([]schemas.Key, error) {
	return []schemas.Key{{ID: "1", Name: "bench", Value: *schemas.NewEnvVar("sk-bench"), Models: schemas.WhiteList{"*"}, Weight: 1}}, nil
}

func (a account) GetConfigForProvider(schemas.ModelProvider) (*schemas.ProviderConfig, error) {
	return &schemas.ProviderConfig{
		NetworkConfig:            schemas.NetworkConfig{BaseURL: a.up, DefaultRequestTimeoutInSeconds: 30},
		ConcurrencyAndBufferSize: schemas.ConcurrencyAndBufferSize{Concurrency: 256, BufferSize: 2048},
	}, nil
}

func newBifrost(up string) (http.Handler, error) {
	b, err := bifrost.Init(context.Background(), schemas.BifrostConfig{Account: account{up}, InitialPoolSize: 1024, Logger: bifrost.NewDefaultLogger(schemas.LogLevelError)})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model    string                `json:"model"`
			Messages []schemas.ChatMessage `json:"messages"`
			Stream   bool                  `json:"stream"`
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		ctx := schemas.NewBifrostContext(r.Context(), schemas.NoDeadline)
		req := &schemas.BifrostChatRequest{Provider: schemas.OpenAI, Model: q.Model, Input: q.Messages}
		if q.Stream {
			streamed(w, b, ctx, req)
			return
		}
		resp, berr := b.ChatCompletionRequest(ctx, req)
		if berr != nil {
			http.Error(w, errors.New(berr.Error.Message).Error(), 502)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(resp)
	}), nil
}

// streamed writes bifrost's events as they come.
func streamed(w http.ResponseWriter, b *bifrost.Bifrost, ctx *schemas.BifrostContext, req *schemas.BifrostChatRequest) {
	events, berr := b.ChatCompletionStreamRequest(ctx, req)
	if berr != nil {
		http.Error(w, berr.Error.Message, 502)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	for e := range events {
		p, err := json.Marshal(e)
		if err != nil {
			return
		}
		_, _ = w.Write(append(append([]byte("data: "), p...), "\n\n"...)) // a caller that left is counted as failed there
		_ = rc.Flush()
	}
	_, _ = w.Write([]byte("data: [DONE]\n\n"))
}
