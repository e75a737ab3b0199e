package tools_test

import (
	"context"
	"errors"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/tool"
	"github.com/agon-arena/agon/gateway/tool/search"
)

// TestSource: the gateway's search_web over the index of the tool host.
func TestSource(t *testing.T) {
	x, err := index.Load(fstest.MapFS{
		"go/a.md": {Data: []byte("url: https://d.example/a\ntitle: Channels\n\nA channel moves values. channel channel")},
		"go/b.md": {Data: []byte("A map holds values; a CHANNEL does not, whatever else stands in here to make it longer.")},
		"c.bin":   {Data: []byte("channel")},
	}, "documents", nil)
	if err != nil {
		t.Fatal(err)
	}
	tl := search.New(tools.Source(x), tool.Price{PerCall: 1})
	if tl.Source() != "documents" {
		t.Errorf("source %q", tl.Source())
	}
	for _, c := range []struct {
		args string
		want int64
	}{{`{"query":"channel"}`, 2}, {`{"search_queries":["Channel"],"num":1}`, 1}, {`{"query":"absent"}`, 0}} {
		q, err := tl.Check([]byte(c.args))
		if err != nil {
			t.Fatal(err)
		}
		if r, err := tl.Do(t.Context(), q); err != nil || r.Results != c.want {
			t.Errorf("%s: %d results (%s), %v", c.args, r.Results, r.Body, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want provider.Class
	}{
		{t.Context(), &tools.Failure{Class: "rate_limit"}, provider.ClassRateLimit},
		{t.Context(), &tools.Failure{Class: "refused", Own: true}, provider.ClassBadReply},
		{t.Context(), errors.New("odd"), provider.ClassBadReply},
		{gone, context.Canceled, provider.ClassTimeout},
	} {
		_, err := tools.Source(&stub{err: c.err}).Search(c.ctx, search.Query{Terms: []string{"x"}, Num: 1})
		var f *provider.Failure
		if !errors.As(err, &f) || f.Class != c.want {
			t.Errorf("%v: %v, want %s", c.err, err, c.want)
		}
	}
}
