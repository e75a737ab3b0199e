package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agon-arena/agon/gateway/provider"
)

const (
	maxReply    = 4 << 20 // bytes of a provider's reply
	httpTimeout = 60 * time.Second
)

// HTTP asks a search server: POST {"query", "num"}, reply {"data": [{"link",
// "snippet", "title"}]}. It implements Source.
type HTTP struct {
	name, url, key string
	client         *http.Client
}

// NewHTTP checks the address. The key goes out as a bearer token and nowhere else.
func NewHTTP(name, address, key string) (*HTTP, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil {
		return nil, errors.New("check search server: want http(s)://host[:port]/path without a user")
	}
	return &HTTP{name: name, url: address, key: key, client: &http.Client{
		Timeout:       httpTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Name implements Source.
func (h *HTTP) Name() string { return h.name }

// Search implements Source.
func (h *HTTP) Search(ctx context.Context, q Query) ([]Hit, error) {
	body, err := json.Marshal(map[string]any{"query": strings.Join(q.Terms, " "), "num": q.Num})
	if err != nil {
		return nil, &provider.Failure{Class: provider.ClassBadReply, Detail: "encode query"}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url, bytes.NewReader(body))
	if err != nil {
		return nil, &provider.Failure{Class: provider.ClassBadReply, Detail: "build request"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "agon")
	if h.key != "" {
		req.Header.Set("Authorization", "Bearer "+h.key)
	}
	resp, err := h.client.Do(req)
	if err != nil {
		// The error's text quotes the address: it stays here.
		class := provider.ClassServer
		var ue *url.Error
		if errors.As(err, &ue) && ue.Timeout() {
			class = provider.ClassTimeout
		}
		return nil, &provider.Failure{Class: class, Detail: "search server did not answer"}
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, &provider.Failure{Class: provider.Classify(resp.StatusCode), Status: resp.StatusCode, Detail: "search server"}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReply+1))
	if err != nil {
		return nil, &provider.Failure{Class: provider.ClassTruncated, Detail: "read hits"}
	}
	var out struct {
		Data []Hit `json:"data"`
	}
	if len(b) > maxReply || json.Unmarshal(b, &out) != nil {
		return nil, &provider.Failure{Class: provider.ClassBadReply, Detail: "hits are not what they should be"}
	}
	if provider.Echoes(b, h.key) {
		return nil, &provider.Failure{Class: provider.ClassBadReply, Detail: "reply holds our key"}
	}
	hits := out.Data[:0]
	for _, x := range out.Data {
		if u, err := url.Parse(x.Link); err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
			hits = append(hits, x)
		}
	}
	return hits, nil
}
