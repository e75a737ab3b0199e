// Package artifact fetches what a submission names by URL: over https only, from
// public addresses only, with bounded time and disk, pinned by size and sha256.
package artifact

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Config says how to fetch. The zero value is right outside of tests.
type Config struct {
	// Timeout bounds a whole fetch; 0 means 10 minutes.
	Timeout time.Duration
	// Allow says which addresses may be dialled; nil means Public.
	Allow func(netip.Addr) bool
	// TLS is the client's configuration; nil means the system's roots.
	TLS *tls.Config
}

// MaxRedirects is how many hops a fetch follows.
const MaxRedirects = 5

// Error is a fetch that failed for a reason of the artifact's own.
type Error struct{ Reason string }

func (e *Error) Error() string { return "artifact: " + e.Reason }

func refuse(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

var sumForm = lazyregexp.New(`^[0-9a-f]{64}$`)

// CheckURL tells whether an artifact's three fields are complete and may be
// fetched at all; limit bounds its size in bytes.
func CheckURL(uri, sha string, size, limit int64) error {
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil:
		return refuse("%.200q is not a plain https URL", uri)
	case !sumForm().MatchString(strings.ToLower(sha)):
		return refuse("artifact_sha256 must be 64 hex digits")
	case size <= 0 || size > limit:
		return refuse("artifact_size_bytes is %d, from 1 to %d are allowed", size, limit)
	}
	return nil
}

// Fetch writes the artifact to the file dst, which must not exist. An *Error
// says that the artifact is bad; any other one is this host's. On error nothing is left.
func Fetch(ctx context.Context, c Config, uri, sha string, size, limit int64, dst string) (err error) {
	if err := CheckURL(uri, sha, size, limit); err != nil {
		return err
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, uri, nil)
	if err != nil {
		return refuse("%v", err)
	}
	req.Header.Set("Accept-Encoding", "identity") // the digest is of the bytes as they are
	resp, err := c.Client().Do(req)
	if err != nil {
		return refuse("fetch: %v", cause(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return refuse("fetch: the server answered %d", resp.StatusCode)
	}
	if n := resp.ContentLength; n >= 0 && n != size && resp.Header.Get("Content-Encoding") == "" {
		return refuse("the server offers %d bytes, the submission says %d", n, size)
	}
	f, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("make artifact file: %w", err)
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(dst))
		}
	}()
	h := sha256.New()
	// One byte more than declared is enough to know, and all that is ever written.
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(resp.Body, size+1))
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("write artifact: %w", err)
	case err != nil:
		return refuse("fetch: %v", cause(err))
	case n != size:
		return refuse("it has %s %d bytes, the submission says %d", map[bool]string{true: "more than", false: "only"}[n > size], min(n, size), size)
	case hex.EncodeToString(h.Sum(nil)) != strings.ToLower(sha):
		return refuse("its sha256 is not the one that the submission says")
	}
	return nil
}

// cause drops the URL, which may hold a token, from an error of net/http.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Client is an HTTP client that dials public addresses only and stays on https
// when it is redirected.
func (c Config) Client() *http.Client {
	if c.Allow == nil {
		c.Allow = fetch.Public
	}
	d := &net.Dialer{Timeout: 20 * time.Second, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		// The address is the resolved one: a name that changes its mind between
		// a check and the dial gains nothing.
		ap, err := netip.ParseAddrPort(address)
		if err != nil || !c.Allow(ap.Addr().Unmap()) {
			return fmt.Errorf("address %s is not a public one", address)
		}
		return nil
	}}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: d.DialContext, TLSClientConfig: c.TLS, TLSHandshakeTimeout: 20 * time.Second, ResponseHeaderTimeout: 60 * time.Second,
			DisableCompression: true, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, Proxy: nil,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if req.URL.Scheme != "https" {
				return errors.New("a redirect leaves https")
			}
			if len(via) > MaxRedirects {
				return fmt.Errorf("more than %d redirects", MaxRedirects)
			}
			return nil
		},
	}
}
