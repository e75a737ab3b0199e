// Package openai is an upstream at a base URL: OpenAI-compatible, or one that
// takes Anthropic's or Google's form.
package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/agon-arena/agon/gateway/provider"
)

// Config describes an upstream.
type Config struct {
	Name    string   // for receipts; default "openai"
	BaseURL string   // up to and without "/chat/completions", for example "https://host/v1"
	Key     string   // sent as a bearer token; may be empty for a local server
	Models  []string // names it serves, the default first; at least one
	// Speaks are the forms that the server takes: "openai" (chat and embeddings; the
	// default), provider.FormAnthropic, FormResponses, FormGoogle. The base URL is
	// that of the form: up to and without "/messages", "/responses", "/models/…".
	Speaks []string
	// Timeout bounds a whole call (default 10 min), Header the wait for the
	// reply's head (default 5 min), Idle the silence within a reply (default 2 min).
	Timeout, Header, Idle time.Duration
	// MaxReply bounds a reply in bytes; default 64 MiB.
	MaxReply int64
	// Transport replaces the network in tests.
	Transport http.RoundTripper
}

// FromEnv reads AGON_LLM_BASE_URL, AGON_LLM_API_KEY and AGON_LLM_MODEL (one
// name, or several between commas; the first is the default). It reports
// false when no base URL is set, which means that there is no such upstream.
func FromEnv(getenv func(string) string) (Config, bool, error) {
	base := getenv("AGON_LLM_BASE_URL")
	if base == "" {
		if getenv("AGON_LLM_API_KEY") != "" {
			return Config{}, false, errors.New("read AGON_LLM_BASE_URL: it is empty but AGON_LLM_API_KEY is set")
		}
		return Config{}, false, nil
	}
	c := Config{BaseURL: base, Key: strings.TrimSpace(getenv("AGON_LLM_API_KEY"))}
	for m := range strings.SplitSeq(getenv("AGON_LLM_MODEL"), ",") {
		if m = strings.TrimSpace(m); m != "" {
			c.Models = append(c.Models, m)
		}
	}
	if len(c.Models) == 0 {
		return Config{}, false, errors.New("read AGON_LLM_MODEL: it is empty but AGON_LLM_BASE_URL is set")
	}
	return c, true, nil
}

// Upstream is an OpenAI-compatible server. It implements provider.Upstream.
type Upstream struct {
	cfg    Config
	secret string // what no reply may hold (provider.Secret)
	base   string
	rt     http.RoundTripper
}

// New checks c. It does not connect. Its errors never hold the key or the
// credentials of the URL.
func New(c Config) (*Upstream, error) {
	u, err := url.Parse(c.BaseURL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, errors.New("check base URL: want http(s)://host[:port]/path")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("check base URL: user, query and fragment are not allowed in it")
	}
	if len(c.Models) == 0 {
		return nil, errors.New("check upstream: no model is named")
	}
	for _, r := range c.Key {
		if r <= ' ' || r > '~' {
			return nil, errors.New("check key: only printable ASCII without blanks is allowed")
		}
	}
	for _, f := range c.Speaks {
		if f != chat && !slices.Contains(provider.Forms, f) {
			return nil, fmt.Errorf("check upstream: it speaks %.40q: want %s or %s", f, chat, strings.Join(provider.Forms, ", "))
		}
	}
	if c.Name == "" {
		c.Name = "openai"
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Minute
	}
	if c.Header <= 0 {
		c.Header = 5 * time.Minute
	}
	if c.Idle <= 0 {
		c.Idle = 2 * time.Minute
	}
	if c.MaxReply <= 0 {
		c.MaxReply = 64 << 20
	}
	rt := c.Transport
	if rt == nil {
		rt = &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			ResponseHeaderTimeout:  c.Header,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    64,
			IdleConnTimeout:        time.Minute,
			ForceAttemptHTTP2:      true,
			WriteBufferSize:        1 << 10, // of each connection; a longer request is written as it stands
			// The client gets the provider's bytes; nothing may unpack them on the way.
			DisableCompression: true,
		}
	}
	return &Upstream{
		cfg:    c,
		secret: provider.Secret(c.Key),
		base:   strings.TrimRight(u.String(), "/"),
		rt:     rt,
	}, nil
}

// Name implements provider.Upstream.
func (u *Upstream) Name() string { return u.cfg.Name }

// Models implements provider.Upstream.
func (u *Upstream) Models() []string { return u.cfg.Models }

// chat is what Config.Speaks calls OpenAI's chat and embeddings.
const chat = "openai"

// Speaks implements provider.Speaker.
func (u *Upstream) Speaks(form string) bool {
	if form == "" {
		return len(u.cfg.Speaks) == 0 || slices.Contains(u.cfg.Speaks, chat)
	}
	return slices.Contains(u.cfg.Speaks, form)
}

// anthropicVersion is the version of Anthropic's form that the gateway writes and reads.
const anthropicVersion = "2023-06-01"

// sign puts the key where the form wants it.
func (u *Upstream) sign(h http.Header, form string) {
	if form == provider.FormAnthropic {
		h.Set("Anthropic-Version", anthropicVersion)
	}
	switch {
	case u.cfg.Key == "":
	case form == provider.FormAnthropic:
		h.Set("X-Api-Key", u.cfg.Key)
	case form == provider.FormGoogle:
		h.Set("X-Goog-Api-Key", u.cfg.Key)
	default:
		h.Set("Authorization", "Bearer "+u.cfg.Key)
	}
}

// Do implements provider.Upstream.
func (u *Upstream) Do(ctx context.Context, req provider.Request) (*provider.Reply, error) {
	ctx, stop := context.WithTimeoutCause(ctx, u.cfg.Timeout, errCallTimeout)
	ctx, hush := context.WithCancelCause(ctx)
	cancel := func() { hush(nil); stop() }
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.base+req.Path, bytes.NewReader(req.Body))
	if err != nil {
		cancel()
		return nil, &provider.Failure{Class: provider.ClassBadReply, Detail: "build request"}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "agon")
	r.Header.Set("Accept", "application/json")
	if req.Stream {
		r.Header.Set("Accept", "text/event-stream")
	}
	u.sign(r.Header, req.Form)
	// No http.Client: it would follow redirects, which carry the key, or the prompt, elsewhere.
	resp, err := u.rt.RoundTrip(r)
	if err != nil {
		defer cancel()
		return nil, u.failure(ctx, err, provider.ClassServer)
	}
	body := &body{
		u: u, ctx: ctx, cancel: cancel, rc: resp.Body, left: u.cfg.MaxReply,
		idle: time.AfterFunc(u.cfg.Idle, func() { hush(errSilent) }),
	}
	body.idle.Stop()
	ctype := resp.Header.Get("Content-Type")
	if resp.StatusCode == http.StatusOK || provider.Own(resp.StatusCode) {
		if ce := resp.Header.Get("Content-Encoding"); ce != "" && ce != "identity" {
			_ = body.Close()
			return nil, &provider.Failure{Class: provider.ClassBadReply, Status: resp.StatusCode, Detail: "reply is compressed though it was not asked to be"}
		}
		if u.leaks(ctype) {
			ctype = "application/json"
		}
		return &provider.Reply{Status: resp.StatusCode, ContentType: ctype, Body: body}, nil
	}
	defer func() { _ = body.Close() }()
	f := &provider.Failure{
		Class:      provider.Classify(resp.StatusCode),
		Status:     resp.StatusCode,
		RetryAfter: retryAfter(resp.Header.Get("Retry-After")),
	}
	head, _ := io.ReadAll(io.LimitReader(body, 512)) // a hint for the log; how it ended does not matter
	f.Detail = u.clean(string(head))
	return nil, f
}

var (
	errCallTimeout = errors.New("call timed out")
	errSilent      = errors.New("reply fell silent")
)

// failure turns a transport error into a class. Its text is cleaned, since
// the standard library's errors quote the URL.
func (u *Upstream) failure(ctx context.Context, err error, class provider.Class) *provider.Failure {
	var ne net.Error
	switch {
	case errors.Is(context.Cause(ctx), errCallTimeout), errors.Is(context.Cause(ctx), errSilent):
		return &provider.Failure{Class: provider.ClassTimeout, Detail: context.Cause(ctx).Error()}
	case errors.As(err, &ne) && ne.Timeout():
		class = provider.ClassTimeout
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	return &provider.Failure{Class: class, Detail: u.clean(err.Error())}
}

func (u *Upstream) leaks(s string) bool {
	return u.secret != "" && strings.Contains(s, u.secret)
}

// clean makes foreign text fit for a log line: no key, no control sequences, at most 300 bytes.
func (u *Upstream) clean(s string) string {
	if u.secret != "" {
		s = strings.ReplaceAll(s, u.secret, "[key]")
		// Providers like to quote "sk-ab…wxyz"; the cut of our 512 bytes may also halve the key.
		if n := len(u.secret); n >= 8 {
			for i := n; i >= 6; i-- {
				if strings.HasSuffix(s, u.secret[:i]) {
					s = strings.TrimSuffix(s, u.secret[:i]) + "[key]"
					break
				}
			}
			s = strings.ReplaceAll(s, u.secret[:n/2], "[key]")
			s = strings.ReplaceAll(s, u.secret[n/2:], "[key]")
		}
	}
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return strings.TrimSpace(s)
}

// retryAfter reads the header in seconds; dates and nonsense give 0, more than an hour gives an hour.
func retryAfter(s string) time.Duration {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 0 {
		return 0
	}
	return time.Duration(min(n, 3600)) * time.Second
}

// body bounds a reply in bytes and silence, and stops if the provider echoes our
// key. What may be the beginning of the key is held back until the next bytes
// show that it is not, so no part of an echoed key is ever handed out.
type body struct {
	u      *Upstream
	ctx    context.Context
	cancel func()
	rc     io.ReadCloser
	left   int64
	held   []byte      // the longest end of what was read that begins the key
	ready  []byte      // read and cleared, for a reader with little room
	idle   *time.Timer // runs only while a Read waits: a slow client is not a silent provider
	err    error
}

func (b *body) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(b.ready) == 0 && b.err == nil && len(p) <= 2*len(b.u.secret) {
		room := make([]byte, 2*len(b.u.secret)+512)
		n, _ := b.Read(room) // b.err keeps what it says until the room is empty
		b.ready = room[:n]
	}
	if len(b.ready) > 0 {
		n := copy(p, b.ready)
		b.ready = b.ready[n:]
		return n, nil
	}
	n := 0
	for n == 0 && b.err == nil {
		n = b.fill(p)
	}
	return n, b.err
}

// fill reads once into p, which has room for the key twice over, and returns
// how many bytes are safe. It sets b.err at the end.
func (b *body) fill(p []byte) int {
	h := copy(p, b.held)
	b.idle.Reset(b.u.cfg.Idle)
	n, err := b.rc.Read(p[h:])
	b.idle.Stop()
	b.left -= int64(n)
	if b.left < 0 {
		b.err = &provider.Failure{Class: provider.ClassBadReply, Detail: fmt.Sprintf("reply is larger than %d bytes", b.u.cfg.MaxReply)}
		return 0
	}
	switch {
	case err == io.EOF:
		b.err = io.EOF
	case err != nil:
		b.err = b.u.failure(b.ctx, err, provider.ClassTruncated)
	}
	safe, echoed := b.clear(p[:h+n], err != nil)
	if echoed {
		b.err = &provider.Failure{Class: provider.ClassBadReply, Detail: "reply holds our key"}
	}
	return safe
}

// clear says how much of p can be handed out and holds back the rest. At the
// end nothing is held back: a reply that stops within the key has echoed it if
// half of it was told.
func (b *body) clear(p []byte, end bool) (safe int, echoed bool) {
	key := b.u.secret
	b.held = b.held[:0]
	if key == "" {
		return len(p), false
	}
	if i := bytes.Index(p, []byte(key)); i >= 0 {
		return i, true
	}
	for n := min(len(key)-1, len(p)); n > 0; n-- {
		switch {
		case key[:n] != string(p[len(p)-n:]):
			continue
		case !end:
			b.held = append(b.held, p[len(p)-n:]...)
			return len(p) - n, false
		case 2*n >= len(key):
			return len(p) - n, true
		}
		return len(p), false
	}
	return len(p), false
}

func (b *body) Close() error {
	b.idle.Stop()
	b.cancel()
	return b.rc.Close()
}
