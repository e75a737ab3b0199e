package tools

import (
	"context"
	"errors"
	"strings"

	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/tool/search"
)

// Source lets the gateway's own search_web ask a back end of this host, so
// that an index or a provider is written once for both wires.
func Source(s Search) search.Source { return source{s} }

type source struct{ s Search }

// Name implements search.Source.
func (x source) Name() string { return x.s.Name() }

// Search implements search.Source.
func (x source) Search(ctx context.Context, q search.Query) ([]search.Hit, error) {
	found, err := x.s.Web(ctx, WebQuery{Query: strings.Join(q.Terms, " "), Num: q.Num})
	if err != nil {
		return nil, failureFor(ctx, err)
	}
	hits := make([]search.Hit, 0, len(found))
	for _, h := range found {
		hit := search.Hit{Link: h.Link}
		if h.Snippet != nil {
			hit.Snippet = *h.Snippet
		}
		if h.Title != nil {
			hit.Title = *h.Title
		}
		hits = append(hits, hit)
	}
	return hits, nil
}

// failureFor says a back end's failure in the gateway's words. The arguments
// were checked: what the back end refuses is its own failure there.
func failureFor(ctx context.Context, err error) *provider.Failure {
	var f *Failure
	switch {
	case errors.As(err, &f) && f.Class != "refused":
		return &provider.Failure{Class: provider.Class(f.Class), Detail: f.Detail}
	case ctx.Err() != nil:
		return &provider.Failure{Class: provider.ClassTimeout}
	}
	return &provider.Failure{Class: provider.ClassBadReply}
}
