package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/agon-arena/agon/gateway/provider"
)

// canaryTimeout bounds a probe. A session's call that failed waits for it.
const canaryTimeout = 10 * time.Second

// maxProbe bounds the reply to a probe in bytes; a longer one is no answer to it.
const maxProbe = 1 << 20

// canaries probe upstreams after a failure, with a request that no agent had
// a hand in: only if that fails too may blame move to the provider (design, rule 2).
type canaries struct {
	every time.Duration
	clock func() time.Time

	mu   sync.Mutex
	last map[string]*probe // by upstream, model and path; guarded by mu
}

// probe is the last answer for one model. Its lock is held while one caller
// asks, so that the others wait for the same answer.
type probe struct {
	mu    sync.Mutex
	at    time.Time
	known bool
	class provider.Class // empty: it answered
}

// ask tells how a minimal call of o fails now; empty means that it does not.
// fresh says that this caller made the probe. It asks at most once per every.
func (c *canaries) ask(o offer, path string) (class provider.Class, fresh bool) {
	key := fmt.Sprintf("%s\x00%s\x00%s", o.up.Name(), o.model, path)
	c.mu.Lock()
	p := c.last[key]
	if p == nil {
		p = &probe{}
		c.last[key] = p
	}
	c.mu.Unlock()

	p.mu.Lock()
	defer p.mu.Unlock()
	if now := c.clock(); p.known && now.Sub(p.at) < c.every && !now.Before(p.at) {
		return p.class, false
	}
	p.class, p.known = ping(o, path), true
	p.at = c.clock()
	return p.class, true
}

// ping makes the minimal call. Its cost is the platform's.
func ping(o offer, path string) provider.Class {
	q := &request{path: path, fields: []byte(`"input":"ping"`)}
	field := ""
	if path == provider.PathChat {
		q.fields = []byte(`"messages":[{"role":"user","content":"ping"}]`)
		field = o.price.LimitField
	}
	// Not the session's context: a box that ends must not spoil the probe.
	ctx, cancel := context.WithTimeout(context.Background(), canaryTimeout)
	defer cancel()
	reply, err := o.up.Do(ctx, provider.Request{Path: path, Model: o.model, Body: q.body(o.model, minOutput, field)})
	if err != nil {
		return failureOf(err).Class
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.Status == http.StatusNotFound {
		return provider.ClassNotFound
	}
	b, err := io.ReadAll(io.LimitReader(reply.Body, maxProbe))
	if err != nil {
		return failureOf(err).Class
	}
	if reply.Status != http.StatusOK {
		return "" // it does not like so small a call, but it answers
	}
	if _, ok := parseReply(b); !ok {
		return provider.ClassBadReply
	}
	return ""
}

// failureOf makes a Failure of any error of an upstream.
func failureOf(err error) *provider.Failure {
	var f *provider.Failure
	if errors.As(err, &f) {
		return f
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &provider.Failure{Class: provider.ClassTimeout}
	}
	return &provider.Failure{Class: provider.ClassServer}
}
