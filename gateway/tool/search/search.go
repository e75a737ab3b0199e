// Package search is the tool search_web of the gateway's own route: over an
// HTTP provider, or over any back end of the tool host (tools.Source), such as
// its index over a folder of documents.
package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/tool"
	"github.com/agon-arena/agon/internal/plain"
)

// Name is the tool's name.
const Name = "search_web"

// Limits of a search.
const (
	maxQuery   = 2000 // bytes of all terms together
	maxQueries = 16
	maxNum     = 50
	defaultNum = 10
	maxSnippet = 2000 // bytes
	maxTitle   = 300
	maxLink    = 2000
)

// Query is a checked search.
type Query struct {
	Terms []string
	Num   int
}

// Hit is one result.
type Hit struct {
	Link    string `json:"link"`
	Snippet string `json:"snippet,omitempty"`
	Title   string `json:"title,omitempty"`
}

// Source answers searches: the best hits first, at most q.Num.
type Source interface {
	Name() string
	Search(ctx context.Context, q Query) ([]Hit, error)
}

// Tool is search_web over a Source. It implements tool.Tool.
type Tool struct {
	source Source
	price  tool.Price
}

// New returns the tool. Price.MaxResults is filled in.
func New(s Source, p tool.Price) *Tool {
	p.MaxResults = maxNum
	return &Tool{s, p}
}

// Name implements tool.Tool.
func (t *Tool) Name() string { return Name }

// Source implements tool.Tool.
func (t *Tool) Source() string { return t.source.Name() }

// Price implements tool.Tool.
func (t *Tool) Price() tool.Price { return t.price }

// Check implements tool.Tool: {"query": text} or {"search_queries": [texts]}, and "num" from 1 to 50.
func (t *Tool) Check(args []byte) (any, error) {
	var a struct {
		Query   *string  `json:"query"`
		Queries []string `json:"search_queries"`
		Num     *int     `json:"num"`
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	if err := d.Decode(&a); err != nil {
		return nil, errors.New("arguments: want {query or search_queries, num}")
	}
	q := Query{Terms: a.Queries, Num: defaultNum}
	if a.Query != nil {
		if len(a.Queries) > 0 {
			return nil, errors.New("query: give it or search_queries, not both")
		}
		q.Terms = []string{*a.Query}
	}
	if len(q.Terms) == 0 || len(q.Terms) > maxQueries {
		return nil, fmt.Errorf("query: want 1 to %d", maxQueries)
	}
	total := 0
	for _, s := range q.Terms {
		if strings.TrimSpace(s) == "" {
			return nil, errors.New("query: empty")
		}
		total += len(s)
	}
	if total > maxQuery {
		return nil, fmt.Errorf("query: longer than %d bytes", maxQuery)
	}
	if a.Num != nil {
		if *a.Num < 1 || *a.Num > maxNum {
			return nil, fmt.Errorf("num: want 1 to %d", maxNum)
		}
		q.Num = *a.Num
	}
	return q, nil
}

// Do implements tool.Tool: {"data": [{"link", "snippet", "title"}]}.
func (t *Tool) Do(ctx context.Context, checked any) (tool.Reply, error) {
	q, ok := checked.(Query)
	if !ok {
		return tool.Reply{}, &provider.Failure{Class: provider.ClassBadReply, Detail: "arguments were not checked"}
	}
	hits, err := t.source.Search(ctx, q)
	if err != nil {
		return tool.Reply{}, err
	}
	out := struct {
		Data []Hit `json:"data"`
	}{Data: []Hit{}}
	for _, h := range hits {
		if len(out.Data) == q.Num {
			break
		}
		if h.Link == "" || len(h.Link) > maxLink {
			continue
		}
		out.Data = append(out.Data, Hit{h.Link, plain.Head(plain.Clean(h.Snippet), maxSnippet), plain.Head(plain.Clean(h.Title), maxTitle)})
	}
	b, err := json.Marshal(out)
	if err != nil {
		return tool.Reply{}, &provider.Failure{Class: provider.ClassBadReply, Detail: "encode hits"}
	}
	return tool.Reply{Body: b, Results: int64(len(out.Data))}, nil
}
