// Package run wires the parts into roles: `agon up` (everything in one
// process), `agon serve`, `agon validator`, `agon try` and `agon setup`.
package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/cli/progress"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/api"
	"github.com/agon-arena/agon/internal/metrics"
	"github.com/agon-arena/agon/internal/tracing"
	"github.com/agon-arena/agon/internal/webhook"
	"github.com/agon-arena/agon/kind"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/remote"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/serve"
	"github.com/agon-arena/agon/mcp"
	"github.com/agon-arena/agon/platform"
	"github.com/agon-arena/agon/research"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/store"
	"github.com/agon-arena/agon/store/sqlite"
	"github.com/agon-arena/agon/tools"
	"github.com/agon-arena/agon/validator"
	"github.com/agon-arena/agon/web"
)

// Options are what every role takes.
type Options struct {
	Data     string // data directory
	Cache    string // root file systems and fetched tasks; empty: the default of the machine
	Listen   string // address of /v1
	Arenas   []string
	Once     bool
	Parallel int // runs at once; 0: one per core
	Getenv   func(string) string
	Log      *slog.Logger
	// Say prints one line for people, Progress shows how far the play is. Ready is
	// told when /v1 answers, Decided whenever the last open submission has been
	// decided. All optional.
	Say      func(format string, args ...any)
	Progress func(progress.State)
	Ready    func(url string)
	Decided  func(*client.Overview)

	shop   *shopFloor      // see floor
	lease  time.Duration   // of runs that this server hands out; 0: the platform's default
	traces *tracing.Tracer // see trace; nil: none are sent
	// scriptPrice gives a script's calls the price of a cheap model: the demo's
	// validators without a platform go by cost, and say that it is made up.
	scriptPrice bool
}

func (o *Options) say(format string, args ...any) {
	if o.Say != nil {
		o.Say(format, args...)
	}
}

// trace opens the traces of a role, if the environment asks for them; end sends the last.
func (o *Options) trace(ctx context.Context, role string) (end func(), err error) {
	o.traces, err = tracing.Open(ctx, tracing.Config{URL: o.Getenv(tracing.Env), Role: role, Log: o.Log, Now: time.Now})
	if err == nil && o.traces != nil {
		o.say("traces go to %s", o.Getenv(tracing.Env))
	}
	return o.traces.Close, err
}

func (o *Options) progress(s progress.State) {
	if o.Progress != nil {
		o.Progress(s)
	}
}

// server is the platform's side: store, ledger, platform and /v1.
type server struct {
	o      Options
	data   *Data
	store  *store.Store
	blobs  blob.Store
	ledger *local.Ledger
	// foreignLedgers are those that arenas name.
	foreignLedgers *foreign
	platform       *platform.Platform
	operator       *party
	http           *http.Server
	addr           string // host:port that was bound
	done           chan error
	hooks          *webhook.Teller
	unhook         func()                 // ends the teller
	corpus         *client.CorpusSummary  // the last that was built here
	research       *research.Coordinator  // of the research arenas, if there are any
	without        sync.Map               // *together by arena id: validators without a platform that play here
	foreign        map[string]*handlerBox // of each kind that has a dialect, that of its first arena
	races          map[string]*raceClock  // by arena id: those whose races have a clock
	ends           []func()               // each ends one goroutine of background
}

// background runs f next to the server, which ends its context and waits for it
// before it closes what f uses.
func (s *server) background(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	s.ends = append(s.ends, func() { cancel(); <-done })
}

// handlerBox is a handler that comes later; until then nothing is found.
type handlerBox struct{ atomic.Pointer[http.Handler] }

func (b *handlerBox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := b.Load()
	if h == nil {
		http.NotFound(w, r)
		return
	}
	(*h).ServeHTTP(w, r)
}

// openServer opens what is in the data directory and starts to serve it. On
// error everything opened so far is closed.
func openServer(ctx context.Context, o Options, ks map[string]kind.Kind) (s *server, err error) {
	s = &server{o: o, done: make(chan error, 1), foreign: map[string]*handlerBox{}, races: map[string]*raceClock{}}
	defer func() {
		if err != nil {
			s.close()
			s = nil
		}
	}()
	if s.data, err = OpenData(o.Data); err != nil {
		return s, err
	}
	if s.operator, err = loadParty(s.data.Path("wallets"), "operator"); err != nil {
		return s, err
	}
	if s.store, err = sqlite.Open(ctx, s.data.Path("agon.db")); err != nil {
		return s, err
	}
	if s.blobs, err = blobfs.Open(s.data.Path("blobs"), blobfs.Options{}); err != nil {
		return s, err
	}
	if s.ledger, err = local.Open(ctx, s.data.Path("ledger.db"), local.Config{Preset: local.PresetDemo}); err != nil {
		return s, err
	}
	s.foreignLedgers = newForeign(time.Now)
	c := chain{s.ledger}
	pc := platform.Config{
		Store: s.store, Blobs: s.blobs, Kinds: ks, Ledger: c, Log: o.Log, OwnerUID: c.OwnerUID,
		Ledgers:    func(name string) platform.Ledger { return chain{s.foreignLedgers.of(name)} },
		Incentives: incentives(), Lease: o.lease, Agreement: s.agreement,
	}
	if pc.UploadPerDay, err = uploadPerDay(o.Getenv); err != nil {
		return s, err
	}
	s.research = research.Hooks(&pc)
	if s.platform, err = platform.New(pc); err != nil {
		return s, err
	}
	if err = s.openResearch(ctx); err != nil {
		return s, err
	}
	if err = s.platform.Start(ctx); err != nil {
		return s, err
	}
	ln, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return s, &agon.Error{
			Code: "listen", Status: 409, Field: "listen", Message: fmt.Sprintf("cannot listen on %s: %v", o.Listen, err),
			Mend: "choose another address with --listen",
		}
	}
	s.addr = ln.Addr().String()
	verifier := &auth.Verifier{Audience: s.data.Audience, Replay: replay{s.platform}, Now: time.Now}
	// A read that is sent twice changes nothing: its nonces need not outlive the process, nor wait for the disk.
	reader := &auth.Verifier{Audience: s.data.Audience, Replay: auth.NewMemoryReplay(time.Now), Now: time.Now}
	mux := http.NewServeMux()
	lh := serve.New(serve.Config{Ledger: s.ledger, Verifier: verifier, BlockTime: s.ledger.BlockTime(), Log: o.Log})
	mux.Handle(remote.PathInfo, lh)
	mux.Handle(remote.PathInfo+"/", lh)
	chainRPC, err := rpc.New(rpc.Config{
		Ledger: s.ledger, Genesis: "agon-ledger:" + strconv.FormatInt(s.ledger.Genesis().UnixMilli(), 36), Replay: s.ledger, BlockTime: s.ledger.BlockTime(), Now: time.Now, Log: o.Log,
	})
	if err != nil {
		return s, err
	}
	mux.Handle("/rpc", chainRPC) // Substrate JSON-RPC over HTTP and WebSocket, as a chain's node answers it
	mux.Handle("/mcp", mcp.Handler(mcp.New(mcp.Local{API: s.platform})))
	s.routeForeign(mux)
	if err = s.openWebhooks(); err != nil {
		return s, err
	}
	info := client.Server{Name: "agon", Version: agon.Version, Audience: s.data.Audience, Operator: s.operator.Hotkey.SS58()}
	v1 := api.New(api.Config{
		Platform: s.platform, Ledger: apiLedger{c, s.ledger}, LedgerOf: func(a agon.Arena) api.Graphs { return chain{s.graphsOf(a)} }, Verifier: signatures{verifier, reader}, OpenRegistration: true, Now: time.Now, Log: o.Log, Server: info, Webhooks: s.hooks,
	})
	mux.Handle("/v1/", v1)
	mux.Handle("/openapi.json", v1)
	pages, err := web.New(web.Config{
		Platform: s.platform, Ledger: c, LedgerOf: func(a agon.Arena) web.Ledger { return chain{s.graphsOf(a)} }, Verifier: signatures{verifier, reader}, Server: info, Other: v1, Corpus: s.corpusPage, Agreement: s.agreement, Now: time.Now, Log: o.Log,
	})
	if err != nil {
		return s, err
	}
	mux.Handle("/", pages)
	mux.Handle("GET /metrics", metrics.Handler(metrics.Config{Source: s.platform, Now: time.Now, Log: o.Log}))
	s.http = &http.Server{
		Handler:           o.traces.Handler(mux),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 2 * time.Minute, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
	go func() { s.done <- s.http.Serve(ln) }()
	return s, nil
}

func (s *server) url() string { return "http://" + s.addr }

func (s *server) close() {
	for _, end := range s.ends {
		end()
	}
	if s.http != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		if err := s.http.Shutdown(ctx); err != nil {
			s.http.Close()
		}
		cancel()
	}
	if s.unhook != nil {
		s.unhook()
	}
	if s.platform != nil {
		s.platform.Stop()
	}
	if s.foreignLedgers != nil {
		if err := s.foreignLedgers.close(); err != nil {
			s.o.Log.Error("closing a ledger elsewhere", "err", err)
		}
	}
	if s.ledger != nil {
		if err := s.ledger.Close(); err != nil {
			s.o.Log.Error("closing the ledger", "err", err)
		}
	}
	if s.store != nil {
		if err := s.store.Close(); err != nil {
			s.o.Log.Error("closing the store", "err", err)
		}
	}
	if s.data != nil {
		s.data.Close()
	}
}

// replay makes the platform the verifier's replay guard.
type replay struct{ p *platform.Platform }

func (r replay) Seen(ctx context.Context, scheme, hotkey, nonce string, until time.Time) (bool, error) {
	return r.p.Replay(ctx, scheme, hotkey, nonce, until)
}

// signatures is the verifier in the API's words: one for what changes
// something, one for reads.
type signatures struct{ writes, reads *auth.Verifier }

func (s signatures) VerifyRequest(ctx context.Context, method, target string, h http.Header, body []byte) (string, error) {
	v := s.writes
	if method == http.MethodGet || method == http.MethodHead {
		v = s.reads
	}
	hotkey, err := v.Verify(ctx, method, target, h, body)
	if err != nil {
		return "", err
	}
	return hotkey, nil
}

// player is the validator's side of a machine: driver, gateway, tool host, kinds.
type player struct {
	*validator.Player
	gateway *gateway.Gateway
	stop    func() // ends the tool host
}

// newPlayer makes a player whose boxes stand on rootfs, whose trees come from
// source and are cached in cache.
func newPlayer(ctx context.Context, o Options, d sandbox.Driver, rootfs string, ks map[string]kind.Kind, source blob.Store, cache string) (*player, error) {
	docs, err := shippedDocs(time.Now)
	if err != nil {
		return nil, err
	}
	return newPlayerOver(ctx, o, d, rootfs, ks, source, cache, docs)
}

// newPlayerOver is newPlayer with documents of its own for search.
func newPlayerOver(ctx context.Context, o Options, d sandbox.Driver, rootfs string, ks map[string]kind.Kind, source blob.Store, cache string, docs tools.Search) (*player, error) {
	gw, err := newGateway(ctx, o, filepath.Dir(cache))
	if err != nil {
		return nil, err
	}
	host, stop, err := openToolHost(o, docs, d, rootfs, gw, time.Now)
	if err != nil {
		gw.Stop()
		return nil, err
	}
	return &player{gateway: gw, stop: stop, Player: &validator.Player{
		Driver: d, Gateway: gw, Kinds: ks, Now: time.Now, Tools: host,
		Trees: &validator.TreeCache{Dir: cache, Source: source},
	}}, nil
}

func (p *player) close() {
	p.stop()
	p.gateway.Stop()
}

// newValidator makes a loop that plays for the platform at url with key.
func newValidator(o Options, p *player, c *client.Client, arenas []string, parallel int) *validator.Loop {
	return validator.NewLoop(validator.LoopConfig{Platform: c, Player: p.Player, Arenas: arenas, Parallel: parallel, Log: o.Log, Traced: o.traces.Attempt})
}

// newWeights makes the setter of key's weights, each arena's on the ledger that
// it names.
func newWeights(o Options, c *client.Client, l *weightLedgers, dir string, every time.Duration) *validator.Weights {
	return &validator.Weights{Targets: c, Ledgers: l.open, Hotkey: l.key.SS58(), Dir: dir, Every: every, Log: o.Log}
}

// remoteSource reads blobs through to the platform.
func remoteSource(c *client.Client, dir string) (blob.Store, error) {
	local, err := blobfs.Open(filepath.Join(dir, "blobs"), blobfs.Options{Cache: true})
	if err != nil {
		return nil, err
	}
	return validator.RemoteBlobs{Local: local, Remote: c}, nil
}

var errStopped = errors.New("stopped")
