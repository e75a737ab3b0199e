package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/tool"
)

// Config is what a gateway is made of. Zero values mean the defaults.
type Config struct {
	// Listen is a loopback address; default "127.0.0.1:0".
	Listen string
	// Upstreams in order of preference: a call goes to the first that serves
	// its model and is in health, then to the next that does. Models that have
	// no price are not offered.
	Upstreams []provider.Upstream
	Prices    Prices // default: the built-in table
	Books     *Books // default: in memory, with a key of its own
	Clock     func() time.Time
	Log       *slog.Logger // default: discards. It never gets a key or a body.
	// Parallel bounds the calls of one session that are read or answered at
	// the same time (default 32); more wait their turn.
	Parallel int
	// CanaryEvery is how long the answer of a probe stands (default 10 s).
	CanaryEvery time.Duration
	// CanaryDelay is the pause before a probe that failed is repeated (default 1 s).
	CanaryDelay time.Duration
	// FairCalls in a minute (default 30) and FairParallel at once (default 4)
	// are what a session may do and still not be a load on its upstreams: beyond
	// them a failure that load can make is not proof against a provider.
	FairCalls, FairParallel int
	// RetryFor bounds how long one call waits in all for upstreams that asked
	// it to come back (default 30 s, negative: it does not wait).
	RetryFor time.Duration
	// CallTimeout bounds one call at any upstream (default 15 min).
	CallTimeout time.Duration
	// CloseWait bounds how long Session.Close waits for open calls (default 15 s).
	CloseWait time.Duration
	// KeepBytes bounds the bodies kept in events per session (default 48 MiB);
	// beyond it only the first 4 KiB of each are kept. Hashes cover everything.
	KeepBytes int64
	// Bodies keeps, compressed, what is too long for an event. Optional.
	Bodies blob.Store
	// KeepBodies is how long Bodies keep one after it was written (0: for ever). They can be
	// collected then (blob.Collector).
	KeepBodies time.Duration
	// Dialects are what sessions may speak besides the gateway's own: those of the
	// kinds that the process serves.
	Dialects []Dialect
	// Tools are the metered tools that sessions may be given.
	Tools []tool.Tool
	// Successions are how the key of Books came about; told to who asks.
	Successions []agon.Succession
	// AfterStop is called once, when Stop has closed every session: to close
	// what the books are written to. Optional.
	AfterStop func() error
}

// Gateway meters model calls. It is safe for concurrent use.
type Gateway struct {
	cfg      Config
	models   []offer // everything that has an upstream and a price, in order
	dialects map[string]Dialect
	canaries canaries

	mu       sync.RWMutex
	sessions map[[32]byte]*session // by hash of the token; guarded by mu
	ln       net.Listener          // guarded by mu
	srv      *http.Server          // guarded by mu
	stopped  bool                  // guarded by mu
	behind   sync.WaitGroup        // probes that nobody waits for, and what prunes
	leave    func()                // ends what prunes; guarded by mu
}

// background runs f unless the gateway is stopped; Stop waits for it.
func (g *Gateway) background(f func()) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if !g.stopped {
		g.behind.Go(f)
	}
}

// offer is a model that can be called.
type offer struct {
	model   string
	targets []*target // in order of preference, at least one
	price   Price
}

func (o offer) does(path string) bool {
	switch o.price.Kind {
	case kindChat:
		return path == provider.PathChat
	case kindEmbedding:
		return path == provider.PathEmbeddings
	}
	return true
}

// New checks c and returns a gateway that does not listen yet.
func New(c Config) (*Gateway, error) {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("check gateway's address: %w", err)
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("check gateway's address: %q is not a loopback address", host)
	}
	if c.Prices == nil {
		if c.Prices, err = LoadPrices(); err != nil {
			return nil, err
		}
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Books == nil {
		if c.Books, err = NewBooks(context.Background(), BooksConfig{Clock: c.Clock}); err != nil {
			return nil, err
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Parallel <= 0 {
		c.Parallel = 32
	}
	if c.CanaryEvery <= 0 {
		c.CanaryEvery = 10 * time.Second
	}
	if c.CanaryDelay <= 0 {
		c.CanaryDelay = time.Second
	}
	if c.FairCalls <= 0 {
		c.FairCalls = 30
	}
	if c.FairParallel <= 0 {
		c.FairParallel = 4
	}
	if c.RetryFor == 0 {
		c.RetryFor = 30 * time.Second
	}
	if c.CallTimeout <= 0 {
		c.CallTimeout = 15 * time.Minute
	}
	if c.CloseWait <= 0 {
		c.CloseWait = 15 * time.Second
	}
	if c.KeepBytes <= 0 {
		c.KeepBytes = 48 << 20
	}
	if _, ok := c.Bodies.(blob.Collector); c.KeepBodies > 0 && !ok {
		return nil, errors.New("make gateway: bodies are to be kept for a time, and their place cannot be collected")
	}
	g := &Gateway{cfg: c, sessions: map[[32]byte]*session{}}
	if g.dialects, err = dialects(c.Dialects); err != nil {
		return nil, err
	}
	g.canaries = canaries{every: c.CanaryEvery, delay: c.CanaryDelay, clock: c.Clock, last: map[string]*probe{}}
	at := map[string]int{}
	for _, u := range c.Upstreams {
		for _, m := range u.Models() {
			p, ok := c.Prices[m]
			if !ok {
				continue
			}
			i, known := at[m]
			if !known {
				i = len(g.models)
				at[m] = i
				g.models = append(g.models, offer{model: m, price: p})
			}
			g.models[i].targets = append(g.models[i].targets, &target{model: m, up: u, price: p})
		}
	}
	return g, nil
}

// Models lists what the gateway can serve, the default first.
func (g *Gateway) Models() []string {
	out := make([]string, len(g.models))
	for i, o := range g.models {
		out[i] = o.model
	}
	return out
}

// Start listens and serves until Stop, or until ctx ends. A second Start does nothing.
func (g *Gateway) Start(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return errors.New("start gateway: it was stopped")
	}
	if g.srv != nil {
		return nil
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", g.cfg.Listen)
	if err != nil {
		return fmt.Errorf("start gateway: %w", err)
	}
	g.ln = ln
	g.srv = &http.Server{
		Handler:           g,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(g.cfg.Log.Handler(), slog.LevelDebug),
	}
	srv := g.srv
	go func() { _ = srv.Serve(ln) }() // ends when Stop closes the listener
	if c, ok := g.cfg.Bodies.(blob.Collector); ok && g.cfg.KeepBodies > 0 {
		ctx, leave := context.WithCancel(ctx)
		g.leave = leave
		g.behind.Go(func() { g.prune(ctx, c) })
	}
	context.AfterFunc(ctx, func() { _ = g.Stop() })
	return nil
}

// Stop closes every session and the listener. Idempotent; bounded by CloseWait.
func (g *Gateway) Stop() error {
	g.mu.Lock()
	srv, was, leave := g.srv, g.stopped, g.leave
	g.stopped = true
	open := make([]*session, 0, len(g.sessions))
	for _, s := range g.sessions {
		open = append(open, s)
	}
	g.mu.Unlock()
	if was {
		return nil
	}
	var wg sync.WaitGroup
	for _, s := range open {
		wg.Go(func() { _ = s.Close() })
	}
	wg.Wait()
	if leave != nil {
		leave()
	}
	g.behind.Wait()
	var err error
	if srv != nil {
		err = srv.Close()
	}
	if g.cfg.AfterStop != nil {
		err = errors.Join(err, g.cfg.AfterStop())
	}
	return err
}

// URL is the base of all routes, "http://127.0.0.1:port"; empty before Start.
func (g *Gateway) URL() string {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.ln == nil {
		return ""
	}
	return "http://" + g.ln.Addr().String()
}

// Open makes a session, which lives until its Close or the gateway's Stop; ctx
// bounds the opening only. rec may be nil.
func (g *Gateway) Open(ctx context.Context, p Policy, rec Recorder) (Session, error) {
	if p.Run == "" {
		return nil, errors.New("open gateway session: no run is named")
	}
	if len(p.Dialects) == 0 {
		return nil, errors.New("open gateway session: no dialect is named")
	}
	for _, d := range p.Dialects {
		if _, ok := g.dialects[d]; !ok {
			return nil, fmt.Errorf("open gateway session: dialect %q: this gateway speaks %s", d, known(g.dialects))
		}
	}
	if err := checkFields(p.Fields); err != nil {
		return nil, fmt.Errorf("open gateway session: %w", err)
	}
	var raw [48]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return nil, fmt.Errorf("open gateway session: %w", err)
	}
	switch p.Usage {
	case "", agon.UsageReport, agon.UsageRefuse:
	default:
		return nil, fmt.Errorf("open gateway session: usage %.40q: want %s or %s", p.Usage, agon.UsageReport, agon.UsageRefuse)
	}
	switch p.Payer {
	case "":
		p.Payer = payerRun
	case payerRun, payerPlatform:
	default:
		return nil, fmt.Errorf("open gateway session: payer %.40q: want %s or %s", p.Payer, payerRun, payerPlatform)
	}
	p.Models, p.Dialects, p.Tools, p.Aliases = slices.Clone(p.Models), slices.Clone(p.Dialects), slices.Clone(p.Tools), slices.Clone(p.Aliases)
	p.Fields = maps.Clone(p.Fields)
	s := &session{
		g: g, id: "gs-" + hex.EncodeToString(raw[32:]), token: hex.EncodeToString(raw[:32]),
		policy: p, slots: make(chan struct{}, g.cfg.Parallel), rec: rec, open: map[*call]struct{}{},
		idle: make(chan struct{}),
	}
	var err error
	if s.nonces, err = newNonces(p.NonceField != "", g.cfg.Clock); err != nil {
		return nil, fmt.Errorf("open gateway session: %w", err)
	}
	all := slices.Contains(p.Models, "*")
	for _, o := range g.models {
		if all || slices.Contains(p.Models, o.model) {
			s.offers = append(s.offers, o)
		}
	}
	aliased, err := g.aliased(p.Aliases)
	if err != nil {
		return nil, fmt.Errorf("open gateway session: %w", err)
	}
	for _, o := range aliased {
		if i := slices.IndexFunc(s.offers, func(x offer) bool { return x.model == o.model }); i >= 0 {
			s.offers[i] = o // the arena's own price of a model
		} else {
			s.offers = append(s.offers, o)
		}
	}
	if s.acct, err = g.cfg.Books.open(ctx, p.Run, p.Attempt, p.account(), p.Budget); err != nil {
		return nil, fmt.Errorf("open gateway session: %w", err)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		s.cancel()
		_ = s.acct.close(ctx)
		return nil, errors.New("open gateway session: the gateway was stopped")
	}
	g.sessions[sha256.Sum256([]byte(s.token))] = s
	return s, nil
}

// maxAliases bounds what a policy may name.
const maxAliases = 100

// aliased are the offers under other names, or at other prices, of the models that are here. One whose
// model is not here is not an offer: who asks for it is answered as for any other model.
func (g *Gateway) aliased(list []agon.Alias) (out []offer, err error) {
	if len(list) > maxAliases {
		return nil, fmt.Errorf("%d aliases: at most %d", len(list), maxAliases)
	}
	for _, a := range list {
		i := 0
		if a.Model != "" {
			i = slices.IndexFunc(g.models, func(o offer) bool { return o.model == a.Model })
		}
		if i < 0 || i >= len(g.models) {
			continue
		}
		o := g.models[i]
		o.model = a.Name
		if a.In != nil {
			o.price.In, o.price.Version = *a.In, aliasVersion
		}
		if a.Out != nil {
			o.price.Out, o.price.Version = *a.Out, aliasVersion
		}
		if a.Name == "" || len(a.Name) > maxName || min(o.price.In, o.price.Out) < 0 || max(o.price.In, o.price.Out) > maxPrice {
			return nil, fmt.Errorf("alias %.100q: want a name, and prices from 0 to %d", a.Name, int64(maxPrice))
		}
		out = append(out, o)
	}
	return out, nil
}

// aliasVersion marks a price that the arena set for a name.
const aliasVersion = "arena"

// Signer is the address of the key that signs this gateway's receipts.
func (g *Gateway) Signer() string { return g.cfg.Books.Signer() }

// session finds the session of a request, nil if there is none.
func (g *Gateway) session(r *http.Request) *session {
	h := r.Header.Values(TokenHeader)
	if len(h) != 1 {
		return nil
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.sessions[sha256.Sum256([]byte(h[0]))]
}

// ServeHTTP serves a session's routes. It is exported so that a gateway can be
// put behind another listener.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := g.session(r)
	if s == nil || !s.enter() {
		(&Refusal{Status: http.StatusUnauthorized, Code: "unauthorized", Message: "no open session belongs to this request"}).write(w)
		return
	}
	defer s.leave()
	s.serve(w, r)
}

var _ Session = (*session)(nil)

// usd writes money for people.
func usd(m agon.Micros) string {
	return fmt.Sprintf("$%d.%06d", m/1_000_000, m%1_000_000)
}
