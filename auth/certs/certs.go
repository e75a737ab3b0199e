// Package certs reads certificates from files for both ends of a TLS connection.
// Changed files are in force at the next handshake; a pair that does not fit
// leaves the one before in force and is logged.
package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/reread"
)

const (
	// maxPEM bounds a file, in bytes.
	maxPEM = 1 << 20
	// HandshakeTime bounds a handshake.
	HandshakeTime = 10 * time.Second
)

// Files names PEM files: a certificate with its chain, its key, and the
// authorities that the other end's certificate must come from.
type Files struct{ Cert, Key, CA string }

// names are the settings that the files come from, for errors.
type names struct{ cert, key, ca string }

// side is one end: a certificate to show, authorities to trust, or both.
type side struct {
	pair *reread.Files[*tls.Certificate] // nil: shows none
	pool *reread.Files[[]*x509.Certificate]
	now  func() time.Time
	log  *slog.Logger
}

func openSide(f Files, n names, log *slog.Logger, now func() time.Time) (s side, err error) {
	s = side{now: now, log: log}
	bad := func(field, path string, err error) error {
		return &agon.Error{
			Code: "bad_tls", Status: 422, Field: field, Message: fmt.Sprintf("cannot use %s: %v", path, err),
			Mend: fmt.Sprintf("name PEM files: a certificate (--%s) and its key (--%s), authorities (--%s)", n.cert, n.key, n.ca), Err: err,
		}
	}
	switch {
	case f.Cert != "" && f.Key == "":
		return s, bad(n.key, "the certificate", errors.New("its key is missing"))
	case f.Cert == "" && f.Key != "":
		return s, bad(n.cert, "the key", errors.New("its certificate is missing"))
	}
	if f.Cert != "" {
		s.pair, err = reread.Open(reread.Config[*tls.Certificate]{Paths: []string{f.Cert, f.Key}, Most: maxPEM, Make: pair, Log: log, Said: func(c *tls.Certificate) []any { return []any{"until", c.Leaf.NotAfter} }})
		if err != nil {
			return s, bad(n.cert, f.Cert, err)
		}
		if until := s.pair.Get().Leaf.NotAfter; now().After(until) {
			log.Warn("the certificate is over: clients refuse it", "file", f.Cert, "until", until)
		}
	}
	if f.CA != "" {
		s.pool, err = reread.Open(reread.Config[[]*x509.Certificate]{Paths: []string{f.CA}, Most: maxPEM, Make: func(all [][]byte) ([]*x509.Certificate, error) { return authorities(all[0]) }, Log: log})
		if err != nil {
			return s, bad(n.ca, f.CA, err)
		}
	}
	return s, nil
}

func pair(all [][]byte) (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(all[0], all[1])
	if err != nil {
		return nil, err
	}
	return &c, nil
}

// authorities reads a bundle: certificates and nothing else.
func authorities(b []byte) (list []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, b = pem.Decode(b); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it holds a %.40q: want certificates only", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("it holds no certificate in PEM")
	}
	return list, nil
}

// Server is a listener's end. The zero value, and nil, serve without TLS.
type Server struct{ side }

// OpenServer reads --tls-cert, --tls-key and --client-ca.
func OpenServer(f Files, log *slog.Logger, now func() time.Time) (*Server, error) {
	n := names{"tls-cert", "tls-key", "client-ca"}
	if f.CA != "" && f.Cert == "" {
		return nil, &agon.Error{Code: "bad_tls", Status: 422, Field: n.ca, Message: "certificates of clients are checked over TLS only", Mend: "give --tls-cert and --tls-key too"}
	}
	s, err := openSide(f, n, log, now)
	return &Server{s}, err
}

// On reports whether the listener speaks TLS.
func (s *Server) On() bool { return s != nil && s.pair != nil }

// Mutual reports whether clients' certificates are checked.
func (s *Server) Mutual() bool { return s != nil && s.pool != nil }

// Scheme is that of the listener's URLs.
func (s *Server) Scheme() string {
	if s.On() {
		return "https"
	}
	return "http"
}

// Listener wraps ln where TLS is on. Clients must show a certificate of the
// authorities, where there are some; with ask they may come without.
func (s *Server) Listener(ln net.Listener, ask bool) net.Listener {
	if !s.On() {
		return ln
	}
	return tls.NewListener(ln, s.Config(ask))
}

// Config is for listeners that are not HTTP. Files are looked at in each
// handshake. A session is never resumed where clients show certificates: an
// authority that was taken away would live on in its tickets.
func (s *Server) Config(ask bool) *tls.Config {
	least := uint16(tls.VersionTLS12)
	if s.Mutual() && !ask {
		least = tls.VersionTLS13 // both ends are ours
	}
	return &tls.Config{MinVersion: least, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := &tls.Config{MinVersion: least, Certificates: []tls.Certificate{*s.pair.Get()}, NextProtos: []string{"http/1.1"}, Time: s.now}
		if s.Mutual() {
			c.SessionTicketsDisabled, c.ClientCAs, c.ClientAuth = true, x509.NewCertPool(), tls.RequireAndVerifyClientCert
			if ask {
				c.ClientAuth = tls.VerifyClientCertIfGiven
			}
			for _, ca := range s.pool.Get() {
				c.ClientCAs.AddCert(ca)
			}
		}
		return c, nil
	}}
}

// Client is a caller's end. The zero value, and nil, trust the system's authorities
// and show no certificate.
type Client struct{ side }

// OpenClient reads --ca, --client-cert and --client-key.
func OpenClient(f Files, log *slog.Logger, now func() time.Time) (*Client, error) {
	s, err := openSide(f, names{"client-cert", "client-key", "ca"}, log, now)
	return &Client{s}, err
}

// Own reports whether authorities were named.
func (c *Client) Own() bool { return c != nil && c.pool != nil }

// Shows reports whether there is a certificate to show.
func (c *Client) Shows() bool { return c != nil && c.pair != nil }

// Config is for one connection to host. With only no authority of the system is
// trusted: the other end is ours.
func (c *Client) Config(host string, only bool) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, Time: c.now}
	if only {
		t.MinVersion = tls.VersionTLS13
	}
	if c.Own() {
		t.RootCAs = x509.NewCertPool()
		if !only {
			system, err := x509.SystemCertPool()
			if err != nil {
				return nil, fmt.Errorf("read the system's authorities: %w", err)
			}
			t.RootCAs = system
		}
		for _, ca := range c.pool.Get() {
			t.RootCAs.AddCert(ca)
		}
	}
	if c.Shows() {
		t.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.pair.Get(), nil }
	}
	return t, nil
}

// Transport is http.DefaultTransport with this end's certificates. It follows
// changed files, but for requests by way of a proxy, which keep those of now.
func (c *Client) Transport() (*http.Transport, error) {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the default transport is not that of net/http")
	}
	t := base.Clone()
	if !c.Own() && !c.Shows() {
		return t, nil
	}
	fixed, err := c.Config("", false)
	if err != nil {
		return nil, err
	}
	t.TLSClientConfig, t.ForceAttemptHTTP2 = fixed, false
	d := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		return c.dial(ctx, d, network, address, false)
	}
	return t, nil
}

// Dial connects to an end of ours over TLS: only the named authorities count.
func (c *Client) Dial(ctx context.Context, address string) (net.Conn, error) {
	return c.dial(ctx, &net.Dialer{Timeout: HandshakeTime}, "tcp", address, true)
}

func (c *Client) dial(ctx context.Context, d *net.Dialer, network, address string, only bool) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conf, err := c.Config(host, only)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, HandshakeTime)
	defer cancel()
	raw, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, conf)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return conn, nil
}
