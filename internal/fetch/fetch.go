// Package fetch reads what strangers name by URL: with limits on bytes, time
// and redirects, and without ever touching a private address.
package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/agon-arena/agon"
)

// Config bounds a client. The zero value is usable.
type Config struct {
	MaxBytes  int64         // of a body; 65,536
	Timeout   time.Duration // of everything, redirects included; 30 s
	Redirects int           // at most; 5, below 0 none
	// AllowPrivate lets requests go to private addresses: only for arenas whose
	// miners all live on this machine.
	AllowPrivate bool
}

// Client fetches. Safe for concurrent use.
type Client struct {
	cfg  Config
	http *http.Client
}

// New makes a client.
func New(c Config) *Client {
	if c.MaxBytes <= 0 {
		c.MaxBytes = 64 << 10
	}
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Redirects == 0 {
		c.Redirects = 5
	}
	d := &net.Dialer{Timeout: 10 * time.Second}
	if !c.AllowPrivate {
		// Asked with the address that is really dialled, so that a name which
		// resolves to another one the second time changes nothing.
		d.Control = func(_, address string, _ syscall.RawConn) error { return checkAddress(address) }
	}
	f := &Client{cfg: c}
	f.http = &http.Client{
		Transport: &http.Transport{
			Proxy: nil, DialContext: d.DialContext, DisableCompression: true, DisableKeepAlives: true,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: c.Timeout, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: f.redirect,
	}
	return f
}

func refuse(code, format string, args ...any) error {
	return &agon.Error{Code: code, Status: 422, Field: "url", Message: fmt.Sprintf(format, args...)}
}

func (f *Client) redirect(req *http.Request, via []*http.Request) error {
	if len(via) > f.cfg.Redirects {
		return refuse("too_many_redirects", "more than %d redirects", max(0, f.cfg.Redirects))
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return refuse("bad_redirect", "a redirect leaves https")
	}
	req.Header.Del("Authorization")
	return CheckURL(req.URL.String())
}

// CheckURL says what is wrong with an address before anything is asked of it.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > 2048:
		return refuse("bad_url", "it is not an address")
	case u.Scheme == "":
		return refuse("bad_url", "%.80q is not an address: it must begin with https:// or http://", raw)
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("bad_url", "the scheme is %.20q, not http or https", u.Scheme)
	case u.User != nil:
		return refuse("bad_url", "it carries a user name")
	case u.Hostname() == "":
		return refuse("bad_url", "it names no host")
	case u.Fragment != "":
		return refuse("bad_url", "it has a fragment")
	}
	return nil
}

// closed are ranges that no stranger may name, besides those that netip knows.
var closed = func() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10", "::/96",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}()

// Public reports whether an address is one of the open net.
func Public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsValid() || !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return false
	}
	for _, p := range closed {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

func checkAddress(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !Public(at.Addr()) {
		return refuse("private_address", "%s is not a public address", address)
	}
	return nil
}

// Post sends a body and returns the status of the answer, which is not read
// beyond its head. Redirects are not followed: what is sent is for that address.
func (f *Client) Post(ctx context.Context, raw string, h http.Header, body []byte) (int, error) {
	if err := CheckURL(raw); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, raw, bytes.NewReader(body))
	if err != nil {
		return 0, refuse("bad_url", "it is not an address")
	}
	req.Header = h.Clone()
	req.Header.Set("User-Agent", "agon/"+agon.Version)
	resp, err := f.http.Transport.RoundTrip(req)
	if err != nil {
		return 0, fmt.Errorf("post: %w", err)
	}
	_ = resp.Body.Close() // nothing in it is wanted
	return resp.StatusCode, nil
}

// Get returns the body of a successful answer: status 200 exactly, not
// compressed, at most MaxBytes. Errors of the other side are *agon.Error of
// status 422; what this side is to blame for (no name resolution, no route) is any other.
func (f *Client) Get(ctx context.Context, raw string) ([]byte, error) {
	if err := CheckURL(raw); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, raw, nil)
	if err != nil {
		return nil, refuse("bad_url", "it is not an address")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "agon/"+agon.Version)
	resp, err := f.http.Do(req)
	if err != nil {
		var own *agon.Error
		if errors.As(err, &own) {
			return nil, own
		}
		if ctx.Err() != nil {
			return nil, refuse("timeout", "no answer within %s", f.cfg.Timeout)
		}
		return nil, fmt.Errorf("fetch: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, refuse("bad_status", "it answers status %d", resp.StatusCode)
	}
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, refuse("encoded", "the answer is encoded (%.40q), which was not asked for", enc)
	}
	tooLarge := &agon.Error{Code: "too_large", Status: 422, Field: "url", Limit: fmt.Sprintf("%d bytes", f.cfg.MaxBytes), Message: fmt.Sprintf("the answer has more than %d bytes", f.cfg.MaxBytes)}
	if resp.ContentLength > f.cfg.MaxBytes {
		return nil, tooLarge
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, f.cfg.MaxBytes+1))
	switch {
	case int64(len(b)) > f.cfg.MaxBytes:
		return nil, tooLarge
	case err != nil && ctx.Err() != nil:
		return nil, refuse("timeout", "the answer did not end within %s", f.cfg.Timeout)
	case err != nil:
		return nil, refuse("cut_short", "the answer broke off")
	}
	return b, nil
}

// Outward is a transport for a service at host that may send its callers on to
// other hosts: a private address is dialled only where host itself stands there.
// The proxy of the environment is used, and then sees to that.
func Outward(host string) *http.Transport {
	plain := &net.Dialer{Timeout: 10 * time.Second}
	strict := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error { return checkAddress(address) }}
	proxied := func() bool {
		req := &http.Request{URL: &url.URL{Scheme: "https", Host: host}}
		u, err := http.ProxyFromEnvironment(req)
		return err == nil && u != nil
	}()
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second,
		ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if at, _, err := net.SplitHostPort(address); err == nil && at != host && !proxied {
				return strict.DialContext(ctx, network, address)
			}
			return plain.DialContext(ctx, network, address)
		},
	}
}
