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

// maxProbe bounds the reply to a probe in bytes; a longer one is not an answer to it.
const maxProbe = 1 << 20

// canaries probe upstreams after a failure, with a request that no agent had
// a hand in: only if that fails too may blame move to the provider (design, rule 2).
type canaries struct {
	every time.Duration
	delay time.Duration // before a failed probe is repeated
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

// ask tells how a minimal call of t fails now; empty means that it does not.
// fresh says that this caller made the probe. It asks at most once per every.
// A probe that failed as load makes calls fail is repeated after a pause, since
// the load may not have been the provider's. The answer moves t's breaker.
func (c *canaries) ask(t *target, path string) (class provider.Class, fresh bool) {
	key := fmt.Sprintf("%s\x00%s\x00%s", t.up.Name(), t.model, path)
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
	f := ping(t, path)
	if f != nil && loadClass(f) {
		time.Sleep(c.delay)
		f = ping(t, path)
	}
	p.class, p.known, p.at = "", true, c.clock()
	if f != nil {
		p.class = f.Class
	}
	t.probed(f != nil && f.Class != provider.ClassNotFound, p.at)
	return p.class, true
}

// loadClass reports whether a failure is of the sort that a caller can bring
// about by calling much.
func loadClass(f *provider.Failure) bool {
	switch f.Class {
	case provider.ClassRateLimit, provider.ClassTimeout, provider.ClassServer, provider.ClassTruncated:
		return true
	}
	return false
}

// ping makes the minimal call; nil means that the upstream answers. Its cost is the platform's.
func ping(t *target, path string) *provider.Failure {
	q := &Request{path: path, fields: []byte(`"input":"ping"`)}
	field := ""
	if path == provider.PathChat {
		q.fields = []byte(`"messages":[{"role":"user","content":"ping"}]`)
		field = t.price.LimitField
	}
	// Not the session's context: a box that ends must not spoil the probe.
	ctx, cancel := context.WithTimeout(context.Background(), canaryTimeout)
	defer cancel()
	req := provider.Request{Path: path, Model: t.model}
	f := t.own()
	if f == nil {
		req.Body = q.body(t.model, minOutput, field)
	} else {
		q = &Request{native: []byte(f.ping)}
		req.Path, req.Form, req.Body = f.path(t.model, false), f.name, f.body(q, t.model, minOutput)
	}
	reply, err := t.up.Do(ctx, req)
	if err != nil {
		return failureOf(err)
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.Status == http.StatusNotFound {
		return &provider.Failure{Class: provider.ClassNotFound, Status: reply.Status}
	}
	b, err := io.ReadAll(io.LimitReader(reply.Body, maxProbe))
	if err != nil {
		return failureOf(err)
	}
	if reply.Status != http.StatusOK {
		return nil // it does not like so small a call, but it answers
	}
	w, ok := f.parse(b)
	switch {
	case !ok:
		return &provider.Failure{Class: provider.ClassBadReply}
	case w.brokeOff():
		return &provider.Failure{Class: provider.ClassTruncated}
	}
	return nil
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
