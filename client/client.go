package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/internal/fetch"
)

// Limits on what a server may send. They bound memory, whatever the server claims.
const (
	MaxReply   = 32 << 20 // bytes of one JSON reply
	MaxBlob    = 64 << 20 // bytes of one blob, either way
	maxProblem = 1 << 20  // bytes of one problem+json
)

// HeaderDirect is sent by who can read a blob from where the server keeps it.
const HeaderDirect = "Agon-Direct"

// Client speaks agon's /v1 with one server. It is safe for concurrent use.
//
// Errors of its methods are *agon.Error where the server or the network said
// no, and the context's error where the caller gave up. Reads, blob puts,
// heartbeats, results and submissions are retried (the protocol answers a
// repeat alike); claims and all else are sent once.
type Client struct {
	base *url.URL
	key  auth.Signer // nil = unsigned reads only

	// HTTP, Tries and Backoff may be changed before the first use.
	HTTP *http.Client
	// Tries bounds how often an idempotent call is sent (default 4).
	Tries int
	// Backoff is the pause before the second try; it doubles, with jitter (default 200 ms).
	Backoff time.Duration
	// Agent is the User-Agent.
	Agent string
	// Quiet is how long an event stream may bring no byte before it counts as
	// dead; servers beat every 15 s (default 60 s).
	Quiet time.Duration
	// Now is the clock that signatures carry (default time.Now).
	Now func() time.Time

	mu       sync.Mutex // guards what follows
	audience string     // of the server, once asked
	deaf     int        // failures of the network in a row
	dropped  time.Time  // when the pool was dropped
	over     *certs.Client
	away     *http.Client // for bytes that the server keeps with somebody else; nil: not needed yet
}

// schemed is an address with the scheme that it lacks, where that is all it lacks.
func schemed(raw string) string {
	if u, err := url.Parse("http://" + raw); err == nil && !strings.Contains(raw, "://") && u.Host != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		return "http://" + raw
	}
	return "http://host:port"
}

// New returns a client of the server at baseURL ("http://127.0.0.1:8900"). A
// nil key makes unsigned reads only; with one every request is signed.
func New(baseURL string, key auth.Signer) (*Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, &agon.Error{
			Code: "bad_url", Status: http.StatusBadRequest, Field: "url",
			Message: fmt.Sprintf("url %q: not a URL", baseURL), Mend: "write it as " + schemed(baseURL),
		}
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, &agon.Error{
			Code: "bad_url", Status: http.StatusBadRequest, Field: "url",
			Message: fmt.Sprintf("url %q: want http(s)://host:port", u.Redacted()), Mend: "write it as " + schemed(baseURL),
		}
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return &Client{
		base: u,
		key:  key,
		HTTP: &http.Client{
			// A signature is for one server: never carry it to another.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Tries:   4,
		Backoff: 200 * time.Millisecond,
		Agent:   "agon/" + agon.Version,
		Quiet:   60 * time.Second,
		Now:     time.Now,
	}, nil
}

// Through has the client reach the server, and bytes that it keeps elsewhere, with
// these certificates. Call it before the first use.
func (c *Client) Through(over *certs.Client) error {
	t, err := over.Transport()
	if err != nil {
		return fmt.Errorf("reach the server: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.HTTP.Transport, c.over = t, over
	return nil
}

// URL returns the server's base URL.
func (c *Client) URL() string { return c.base.String() }

// call is one request of the protocol.
type call struct {
	method, path string // path is escaped, from "/v1"
	query        url.Values
	body         []byte
	contentType  string
	accept       string
	// idempotent calls are sent again after a failure of the network or the server.
	idempotent bool
	// unsigned calls go without a signature although there is a signer.
	unsigned bool
	limit    int64 // of the reply
	timeout  time.Duration
	// lastEventID resumes a stream.
	lastEventID string
	// direct says that the server may name another place for the bytes asked for.
	direct bool
}

// reply is an answer read to its end.
type reply struct {
	status int
	body   []byte
}

// json sends in (nil: no body) and decodes the reply into out (nil: ignored).
func (c *Client) json(ctx context.Context, ca call, in, out any) (int, error) {
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return 0, fmt.Errorf("encode request %s: %w", ca.path, err)
		}
		ca.body, ca.contentType = b, "application/json"
	}
	ca.accept, ca.limit = "application/json", MaxReply
	r, err := c.send(ctx, ca)
	if err != nil {
		return 0, err
	}
	if out == nil || r.status == http.StatusNoContent {
		return r.status, nil
	}
	if err := json.Unmarshal(r.body, out); err != nil {
		return r.status, &agon.Error{
			Code: "bad_reply", Status: http.StatusBadGateway, Fault: agon.FaultPlatform,
			Message: fmt.Sprintf("%s %s: the reply is not what /v1 promises", ca.method, ca.path),
			Mend:    "check that AGON_URL names an agon server of this version", Err: err,
		}
	}
	return r.status, nil
}

// send sends ca, again where that is safe, and returns the whole reply.
func (c *Client) send(ctx context.Context, ca call) (*reply, error) {
	tries := 1
	if ca.idempotent {
		tries = max(1, c.Tries)
	}
	if c.key != nil && !ca.unsigned {
		// Asked here, with its own retries, so that they do not multiply with ours.
		if _, err := c.serverAudience(ctx); err != nil {
			return nil, err
		}
	}
	pause := c.Backoff
	for n := 1; ; n++ {
		r, wait, err := c.once(ctx, ca)
		if err == nil {
			return r, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if n >= tries || wait < 0 {
			return nil, err
		}
		if wait == 0 {
			wait = pause/2 + rand.N(pause/2+1)
			pause *= 2
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		case <-t.C:
		}
	}
}

// noRetry is the wait of an answer that would not change.
const noRetry = time.Duration(-1)

// maxRetryAfter bounds how long a server may make us wait for a retry.
const maxRetryAfter = 30 * time.Second

// once sends ca one time. The duration is how long to wait before another
// try: zero for the client's own choice, noRetry when a repeat is useless.
func (c *Client) once(ctx context.Context, ca call) (*reply, time.Duration, error) {
	if ca.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ca.timeout)
		defer cancel()
	}
	resp, err := c.open(ctx, ca)
	if err != nil {
		var coded *agon.Error
		if errors.As(err, &coded) && coded.Code != "unreachable" {
			return nil, noRetry, err
		}
		return nil, 0, err
	}
	defer resp.Body.Close()
	if ca.direct && resp.StatusCode == http.StatusTemporaryRedirect {
		b, err := c.elsewhere(ctx, resp.Header.Get("Location"), ca.limit)
		if err != nil {
			return nil, noRetry, err
		}
		return &reply{status: http.StatusOK, body: b}, 0, nil
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return nil, retryAfter(resp), problem(resp, ca)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, ca.limit+1))
	if err != nil {
		return nil, 0, c.unreachable(err)
	}
	if int64(len(b)) > ca.limit {
		return nil, noRetry, &agon.Error{
			Code: "reply_too_large", Status: http.StatusBadGateway, Fault: agon.FaultPlatform,
			Limit: fmt.Sprintf("%d bytes", ca.limit), Message: fmt.Sprintf("%s %s: the reply is larger than the limit", ca.method, ca.path),
			Mend: "ask for less (a smaller --limit), or check that AGON_URL names an agon server",
		}
	}
	return &reply{status: resp.StatusCode, body: b}, 0, nil
}

// open sends ca and returns the response with its body unread.
func (c *Client) open(ctx context.Context, ca call) (*http.Response, error) {
	u := c.base.String() + ca.path
	if len(ca.query) > 0 {
		u += "?" + ca.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, ca.method, u, bytes.NewReader(ca.body))
	if err != nil {
		return nil, fmt.Errorf("make request %s: %w", ca.path, err)
	}
	if ca.contentType != "" {
		req.Header.Set("Content-Type", ca.contentType)
	}
	if ca.accept != "" {
		req.Header.Set("Accept", ca.accept)
	}
	if ca.lastEventID != "" {
		req.Header.Set("Last-Event-ID", ca.lastEventID)
	}
	if ca.direct {
		req.Header.Set(HeaderDirect, "1")
	}
	req.Header.Set("User-Agent", c.Agent)
	if c.key != nil && !ca.unsigned {
		audience, err := c.serverAudience(ctx)
		if err != nil {
			return nil, err
		}
		// Signed anew on every try: a nonce is good once.
		if err := auth.SignRequest(req, ca.body, c.key, audience, c.Now()); err != nil {
			return nil, err
		}
	} else if ca.method != http.MethodGet {
		return nil, &agon.Error{
			Code: "no_key", Status: http.StatusUnauthorized, Message: "this needs a key to sign with",
			Mend: "make one with `agon key new`, or name one with --wallet.name and --wallet.hotkey",
		}
	}
	resp, err := c.HTTP.Do(req)
	c.heard(err)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode == http.StatusUnauthorized {
		c.setAudience("") // the server may have been set up anew: ask again next time
	}
	return resp, nil
}

// A pooled connection can be dead without this end knowing, and all requests that it
// carries time out. After deafAfter failures of the network in a row the pool is dropped,
// at most once in dropEvery; any answer of HTTP starts the count anew.
const (
	deafAfter = 3
	dropEvery = time.Minute
)

// heard notes how a request of the network ended.
func (c *Client) heard(err error) {
	if errors.Is(err, context.Canceled) {
		return // by ourselves
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.deaf = 0
		return
	}
	c.deaf++
	if now := c.Now(); c.deaf >= deafAfter && now.Sub(c.dropped) >= dropEvery {
		c.deaf, c.dropped = 0, now
		c.HTTP.CloseIdleConnections()
	}
}

// errElsewhere says that the place to which the server pointed did not give the bytes.
var errElsewhere = errors.New("the place that the server named gave no bytes")

// elsewhere reads what a server keeps with somebody else: no signature goes
// there, and nothing of an answer counts but its bytes, which the caller verifies. An
// address of a private network is asked only where the server itself has it.
func (c *Client) elsewhere(ctx context.Context, at string, limit int64) ([]byte, error) {
	u, err := url.Parse(at)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
		return nil, fmt.Errorf("%w: it is not a URL", errElsewhere)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errElsewhere, err)
	}
	req.Header.Set("User-Agent", c.Agent)
	direct, err := c.direct()
	if err != nil {
		return nil, err
	}
	resp, err := direct.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errElsewhere, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: status %d", errElsewhere, resp.StatusCode)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if err != nil || int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: it broke off, or has more than %d bytes", errElsewhere, limit)
	}
	return b, nil
}

// direct is the client for elsewhere. One is enough: it keeps connections.
func (c *Client) direct() (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away == nil {
		t := fetch.Outward(c.base.Host)
		if a, err := netip.ParseAddr(c.base.Hostname()); c.base.Hostname() == "localhost" || err == nil && !fetch.Public(a) {
			if t, err = c.over.Transport(); err != nil { // both are on the same private network
				return nil, err
			}
		} else if c.over.Own() {
			trust, err := c.over.Config("", false)
			if err != nil {
				return nil, err
			}
			trust.GetClientCertificate = nil // that is for the server
			t.TLSClientConfig = trust
		}
		c.away = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	return c.away, nil
}

// serverAudience returns what signatures are bound to, asking the server once.
func (c *Client) serverAudience(ctx context.Context) (string, error) {
	c.mu.Lock()
	audience := c.audience
	c.mu.Unlock()
	if audience != "" {
		return audience, nil
	}
	s, err := c.Server(ctx)
	if err != nil {
		return "", err
	}
	if s.Audience == "" {
		return "", &agon.Error{
			Code: "bad_reply", Status: http.StatusBadGateway, Fault: agon.FaultPlatform,
			Message: "GET /v1/server: no audience", Mend: "check that AGON_URL names an agon server",
		}
	}
	c.setAudience(s.Audience)
	return s.Audience, nil
}

func (c *Client) setAudience(a string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.audience = a
}

// unreachable is the error of a request that got no answer.
func (c *Client) unreachable(err error) error {
	root := err
	for next := errors.Unwrap(root); next != nil; next = errors.Unwrap(root) {
		root = next
	}
	return &agon.Error{
		Code: "unreachable", Status: http.StatusServiceUnavailable, Fault: agon.FaultPlatform,
		Message: fmt.Sprintf("no answer from %s (%v)", c.base.Redacted(), root),
		Mend:    "start an arena with `agon up`, or name a running one with AGON_URL or --url", Err: err,
	}
}

// RequestError is the cause of an *agon.Error that a server sent: which
// request it was, in the server's log too.
type RequestError struct {
	ID     string // request_id of the problem; may be empty
	Method string
	Path   string
}

func (e *RequestError) Error() string {
	if e.ID == "" {
		return e.Method + " " + e.Path
	}
	return e.Method + " " + e.Path + " (request " + e.ID + ")"
}

// problem reads an error reply into an *agon.Error.
func problem(resp *http.Response, ca call) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil {
		b = nil
	}
	return ParseProblem(resp.StatusCode, b, &RequestError{Method: ca.method, Path: ca.path})
}

// ParseProblem makes an *agon.Error of an error reply. The body is problem+json
// or, from a proxy on the way, anything: then the status alone speaks.
func ParseProblem(status int, body []byte, re *RequestError) *agon.Error {
	var p Problem
	if err := json.Unmarshal(body, &p); err != nil {
		p = Problem{}
	}
	e := &agon.Error{
		Code: p.Code, Status: status, Field: p.Field, Limit: p.Limit, Message: p.Detail, Mend: p.Mend,
		Fault: p.Fault, Findings: p.Findings,
	}
	if e.Message == "" {
		e.Message = p.Title
	}
	if e.Message == "" {
		e.Message = strings.ToLower(http.StatusText(status))
	}
	if e.Message == "" {
		e.Message = "status " + strconv.Itoa(status)
	}
	if e.Code == "" {
		e.Code = "http_" + strconv.Itoa(status)
	}
	if status >= 500 && e.Fault == agon.FaultNone {
		e.Fault = agon.FaultPlatform
	}
	if re != nil {
		re.ID = p.RequestID
		e.Err = re
	}
	return e
}

// retryAfter says how long to wait before asking again after resp.
func retryAfter(resp *http.Response) time.Duration {
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
	default:
		return noRetry
	}
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	return 0
}

// ListOptions bounds a listing; the zero value is the first page at the server's size.
type ListOptions struct {
	Cursor string
	Limit  int // at most 200
}

func (o ListOptions) query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if o.Cursor != "" {
		q.Set("cursor", o.Cursor)
	}
	if o.Limit > 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	return q
}

// path joins escaped segments below /v1.
func path(segments ...string) string {
	var b strings.Builder
	b.WriteString("/v1")
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(s))
	}
	return b.String()
}
