package run

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/cli"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/cassette"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/gateway/tool"
	"github.com/agon-arena/agon/gateway/tool/search"
	"github.com/agon-arena/agon/kind/shopping"
	"github.com/agon-arena/agon/store"
	"github.com/agon-arena/agon/store/sqlite"
	"github.com/agon-arena/agon/tools"
	"github.com/agon-arena/agon/tools/index"
)

// openBooks gives a gateway durable books, its key and a place for long bodies, all in dir. What a
// crash left reserved is released here.
func openBooks(ctx context.Context, c *gateway.Config, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the gateway's directory: %w", err)
	}
	key, err := gateway.LoadKey(filepath.Join(dir, "gateway.key"))
	if err != nil {
		return err
	}
	if c.Bodies, err = blobfs.Open(filepath.Join(dir, "bodies"), blobfs.Options{}); err != nil {
		return err
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, "gateway.db"))
	if err != nil {
		return err
	}
	c.AfterStop = s.Close
	c.Books, err = gateway.NewBooks(ctx, gateway.BooksConfig{Journal: s, Key: key})
	if err != nil {
		_ = s.Close() // the error before says more
	}
	return err
}

// gateways opens sessions where a run's policy wants them: at this process's
// own gateway, or at the platform's.
type gateways struct {
	own *gateway.Gateway
	key auth.Signer

	mu     sync.Mutex
	remote map[string]*gateway.Remote // by URL; guarded by mu
}

// Open implements validator.Gateway.
func (g *gateways) Open(ctx context.Context, p gateway.Policy, rec gateway.Recorder) (gateway.Session, error) {
	if p.At == "" {
		return g.own.Open(ctx, p, rec)
	}
	r, err := g.dial(ctx, p.At)
	if err != nil {
		return nil, err
	}
	if got := r.Info().Signer; p.Key != "" && got != p.Key {
		return nil, fmt.Errorf("open gateway session: %s signs as %s, the arena wants %s", p.At, got, p.Key)
	}
	return r.Open(ctx, p, rec)
}

func (g *gateways) dial(ctx context.Context, url string) (*gateway.Remote, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.remote[url]; r != nil {
		return r, nil
	}
	r, err := gateway.Dial(ctx, url, g.key, time.Now)
	if err != nil {
		return nil, err
	}
	if g.remote == nil {
		g.remote = map[string]*gateway.Remote{}
	}
	g.remote[url] = r
	return r, nil
}

// gatewayRole is `agon gateway`.
func gatewayRole(ctx context.Context, c cli.GatewayOptions) error {
	o := options(c.Common, "")
	d, err := OpenData(filepath.Join(o.Data, "gateway"))
	if err != nil {
		return err
	}
	defer d.Close()
	gw, err := newGateway(ctx, o, d.Dir)
	if err != nil {
		return err
	}
	defer gw.Stop()
	seen, err := sqlite.Open(ctx, d.Path("nonces.db"))
	if err != nil {
		return err
	}
	defer seen.Close()
	control := gateway.NewControl(gateway.ControlConfig{
		Gateway: gw, Log: o.Log, Authorize: leaseholders{c.Platform, c.Allow}.authorize,
		Verifier: &auth.Verifier{Audience: d.Audience, Now: time.Now, Replay: &nonceGuard{store: seen, now: time.Now}},
	})
	defer control.Close()
	srv := &http.Server{Handler: control, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return &agon.Error{Code: "bad_tls", Status: 422, Field: "tls-cert", Message: fmt.Sprintf("cannot use the certificate: %v", err), Mend: "name a PEM certificate and its key with --tls-cert and --tls-key"}
		}
		srv.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	ln, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return &agon.Error{Code: "listen", Status: 409, Field: "listen", Message: fmt.Sprintf("cannot listen on %s: %v", o.Listen, err), Mend: "choose another address with --listen"}
	}
	done := make(chan error, 1)
	go func() { // ends with Close below
		if srv.TLSConfig != nil {
			done <- srv.ServeTLS(ln, "", "")
		} else {
			done <- srv.Serve(ln)
		}
	}()
	defer srv.Close()
	defer roomy(o.Getenv)()
	c.Ready(scheme+"://"+ln.Addr().String(), gw.Signer())
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-done:
		return err
	}
}

// nonceGuard is an auth.ReplayGuard that survives a restart.
type nonceGuard struct {
	store *store.Store
	now   func() time.Time

	mu     sync.Mutex
	purged time.Time // guarded by mu
}

// Seen implements auth.ReplayGuard.
func (g *nonceGuard) Seen(ctx context.Context, scheme, hotkey, nonce string, until time.Time) (fresh bool, err error) {
	now := g.now()
	g.mu.Lock()
	purge := now.Sub(g.purged) > time.Minute
	if purge {
		g.purged = now
	}
	g.mu.Unlock()
	err = g.store.Write(ctx, func(tx *store.Tx) error {
		if purge {
			if _, err := tx.PurgeNonces(now, 10_000); err != nil {
				return err
			}
		}
		fresh, err = tx.UseNonce(scheme, hotkey, nonce, until)
		return err
	})
	return fresh, err
}

// leaseholders lets a validator open sessions for the runs that it holds.
type leaseholders struct {
	platform *client.Client
	allow    []string
}

func (l leaseholders) authorize(ctx context.Context, hotkey string, p gateway.Policy) (gateway.Policy, error) {
	no := func(format string, args ...any) (gateway.Policy, error) {
		return p, &agon.Error{Code: "not_authorised", Status: http.StatusForbidden, Message: fmt.Sprintf(format, args...)}
	}
	if slices.Contains(l.allow, hotkey) {
		return p, nil
	}
	if l.platform == nil {
		return no("%s may open no session here", hotkey)
	}
	r, err := l.platform.Run(ctx, p.Run)
	var e *agon.Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound {
		return no("there is no such run")
	}
	if err != nil {
		return p, err
	}
	i := slices.IndexFunc(r.List, func(a agon.Attempt) bool { return a.N == p.Attempt })
	if i < 0 || r.List[i].Validator != hotkey || !agon.RunState(r.List[i].State).Held() {
		return no("%s does not hold attempt %d of this run", hotkey, p.Attempt)
	}
	if p.Payer == "" || p.Payer == "run" {
		// What agents may spend is the arena's word. Judges' sessions are the
		// platform's own money: it runs this gateway and sees them.
		p.Budget, p.Models, p.Fields, p.Tools = r.Policy.Budget, r.Policy.Models, r.Policy.Fields, r.Policy.Tools
	}
	return p, nil
}

// upstreamFile is AGON_LLM_UPSTREAMS: further servers, in order of preference
// behind the first. It holds keys, so nobody else may read it.
type upstreamFile struct {
	Upstream []struct {
		Name    string   `toml:"name"`
		BaseURL string   `toml:"base_url"`
		Key     string   `toml:"key"`
		Models  []string `toml:"models"`
	} `toml:"upstream"`
}

// maxUpstreams bounds the file in bytes.
const maxUpstreams = 64 << 10

// withOthers adds the upstreams of AGON_LLM_UPSTREAMS behind up, and puts the
// first behind the tape of AGON_LLM_CASSETTE: with AGON_LLM_BASE_URL it
// records, without it plays.
func withOthers(o Options, prices gateway.Prices, up provider.Upstream) ([]provider.Upstream, error) {
	out := []provider.Upstream{up}
	if tape := o.Getenv("AGON_LLM_CASSETTE"); tape != "" {
		var c *cassette.Upstream
		var err error
		if o.Getenv("AGON_LLM_BASE_URL") != "" {
			c, err = cassette.Record(tape, up)
		} else {
			c, err = cassette.Play(tape, strings.FieldsFunc(o.Getenv("AGON_LLM_MODEL"), func(r rune) bool { return r == ',' || r == ' ' }))
			if err == nil && len(c.Models()) == 0 {
				err = errors.New("read AGON_LLM_MODEL: it is empty but AGON_LLM_CASSETTE is set")
			}
		}
		if err != nil {
			return nil, err
		}
		for _, m := range c.Models() {
			if _, err := prices.Operator(m, o.Getenv); err != nil {
				return nil, err
			}
		}
		out[0] = c
	}
	path := o.Getenv("AGON_LLM_UPSTREAMS")
	if path == "" {
		return out, nil
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read AGON_LLM_UPSTREAMS: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 || st.Size() > maxUpstreams || !st.Mode().IsRegular() {
		return nil, fmt.Errorf("read AGON_LLM_UPSTREAMS: %s must be a file of at most %d bytes that only its owner may read (0600)", path, maxUpstreams)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read AGON_LLM_UPSTREAMS: %w", err)
	}
	var f upstreamFile
	if err := toml.NewDecoder(bytes.NewReader(b)).DisallowUnknownFields().Decode(&f); err != nil {
		return nil, errors.New("read AGON_LLM_UPSTREAMS: want [[upstream]] tables with name, base_url, key and models") // the parser's text may quote a key
	}
	for _, x := range f.Upstream {
		u, err := openai.New(openai.Config{Name: x.Name, BaseURL: x.BaseURL, Key: x.Key, Models: x.Models})
		if err != nil {
			return nil, fmt.Errorf("upstream %s: %w", x.Name, err)
		}
		for _, m := range x.Models {
			note, err := prices.Operator(m, o.Getenv)
			if err != nil {
				return nil, err
			}
			if note != "" {
				o.say("%s", note)
			}
		}
		out = append(out, u)
	}
	return out, nil
}

// gatewayTools are the metered tools: those of the catalogue, and search_web at
// AGON_SEARCH_URL (key in AGON_SEARCH_KEY), or over the documents in
// AGON_SEARCH_DIR. AGON_SEARCH_PRICE is in micro-dollars per result.
func gatewayTools(o Options) ([]tool.Tool, error) {
	out := shopping.Tools(o.floor())
	var src search.Source
	var err error
	url, dir := o.Getenv("AGON_SEARCH_URL"), o.Getenv("AGON_SEARCH_DIR")
	switch {
	case url != "" && dir != "":
		return nil, errors.New("read AGON_SEARCH_URL: AGON_SEARCH_DIR is set as well")
	case url != "":
		src, err = search.NewHTTP("search", url, o.Getenv("AGON_SEARCH_KEY"))
	case dir != "":
		var docs *index.Folder
		if docs, err = index.Load(os.DirFS(dir), "index", time.Now); err == nil {
			src = tools.Source(docs)
		}
	default:
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	price := tool.Price{Version: "operator"}
	if s := o.Getenv("AGON_SEARCH_PRICE"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 || n > 1_000_000 {
			return nil, fmt.Errorf("read AGON_SEARCH_PRICE: %q is not a whole number of micro-dollars per result", s)
		}
		price.PerResult = agon.Micros(n)
	}
	return append(out, search.New(src, price)), nil
}
