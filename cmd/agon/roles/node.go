// Package roles wires the parts into roles: `agon up` (everything in one
// process), `agon serve`, `agon validator`, `agon try` and `agon setup`.
package roles

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/blob/s3"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/docs"
	"github.com/agon-arena/agon/engine/archive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/postgres"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/internal/disk"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/remote"
	"github.com/agon-arena/agon/ledger/rpc"
	"github.com/agon-arena/agon/ledger/serve"
	"github.com/agon-arena/agon/ledger/timelock"
	"github.com/agon-arena/agon/ui/api"
	"github.com/agon-arena/agon/ui/mcp"
	"github.com/agon-arena/agon/ui/metrics"
	"github.com/agon-arena/agon/ui/web"
	"github.com/agon-arena/agon/ui/webhook"
)

// server is the platform's side: store, ledger, platform and /v1.
type server struct {
	kit.Server
	// foreignLedgers are those that arenas name.
	foreignLedgers *foreign
	// rpc is the embedded ledger as a chain's node, once it answers.
	rpc     atomic.Pointer[rpc.Server]
	bytes   blob.Collector // Server.Blobs, of which some can be removed
	http    *http.Server
	near    *http.Server // see openNear; nil: there is none
	gate    *gate
	addr    string // host:port that was bound
	done    chan error
	hooks   *webhook.Teller
	history *translog.Log
	unhook  func()                 // ends the teller
	corpus  *client.CorpusSummary  // the last that was built here
	foreign map[string]*handlerBox // of each kind that has a dialect, that of its first arena
	later   func()                 // goes on once all is decided; nil: nothing does, or it went on

	endsMu sync.Mutex
	ends   []func() // each ends one goroutine of background; guarded by endsMu
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
	s.endsMu.Lock()
	defer s.endsMu.Unlock()
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

// openStore opens the platform's rows where the options say.
func openStore(ctx context.Context, d *kit.Data, o kit.Options, accept bool) (*store.Store, error) {
	if o.Store == "" {
		return sqlite.OpenWith(ctx, d.Path("agon.db"), sqlite.Options{AcceptLoss: accept})
	}
	if !postgres.IsURL(o.Store) {
		return nil, &agon.Error{
			Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: "store", Message: "the store is not a postgres:// URL",
			Mend: "give postgres://USER@HOST:PORT/DATABASE, or nothing for a file in the data directory",
		}
	}
	o.Sayf("the platform's rows are in %s", postgres.Redact(o.Store))
	return postgres.Open(ctx, o.Store)
}

// blobCache bounds the blobs of a bucket that a server keeps at hand, in bytes.
const blobCache = 10 << 30

// openBlobs opens the platform's bytes where the options say.
func openBlobs(ctx context.Context, d *kit.Data, o kit.Options) (blob.Collector, error) {
	if o.Blobs == "" {
		return blobfs.Open(d.Path("blobs"), blobfs.Options{})
	}
	if !s3.IsURL(o.Blobs) {
		return nil, &agon.Error{
			Code: "bad_setting", Status: http.StatusUnprocessableEntity, Field: "blobs", Message: "the blobs are not at an s3:// URL",
			Mend: "give s3://BUCKET/PREFIX?endpoint=https://HOST:PORT, or nothing for a folder in the data directory",
		}
	}
	so := s3.Options{Getenv: o.Getenv, Over: o.Over, Now: time.Now}
	if d != nil {
		cache, err := blobfs.Open(d.Path("blobs-cache"), blobfs.Options{Cache: true, Quota: blobCache})
		if err != nil {
			return nil, err
		}
		so.Cache = cache
	}
	return s3.Open(ctx, o.Blobs, so)
}

// openServer opens what is in the data directory and starts to serve it. On
// error everything opened so far is closed.
func openServer(ctx context.Context, o kit.Options, ks map[string]kind.Kind) (*server, error) {
	return openServerAt(ctx, o, ks, seat{})
}

// openServerAt is openServer with what is open already, which it closes too.
func openServerAt(ctx context.Context, o kit.Options, ks map[string]kind.Kind, at seat) (s *server, err error) {
	s = &server{done: make(chan error, 1), foreign: map[string]*handlerBox{}}
	s.Server = kit.Server{Options: o, URL: s.url, Near: s.url, Graphs: s.graphsOf, Burns: s.burnsOf, EnsureSubnet: s.ensureSubnet, EnsureRegistered: s.ensureRegistered, Background: s.background}
	defer func() {
		if err != nil {
			s.close()
			s = nil
		}
	}()
	s.Data, s.Store = at.data, at.store
	if s.Data == nil {
		if s.Data, err = kit.OpenData(o.Data); err != nil {
			return s, err
		}
	}
	if s.Operator, err = kit.LoadParty(s.Data.Path("wallets"), "operator"); err != nil {
		return s, err
	}
	accept := o.Getenv("AGON_ACCEPT_LOSS") != ""
	if s.Store == nil {
		if s.Store, err = openStore(ctx, s.Data, o, accept); err != nil {
			return s, err
		}
	}
	if s.bytes, err = openBlobs(ctx, s.Data, o); err != nil {
		return s, err
	}
	if s.history, err = openHistory(ctx, s.Data, s.Store, s.bytes, accept, o.Log, at.lost); err != nil {
		return s, err
	}
	s.Blobs = s.bytes
	s.Store.UseArchive(archive.NewReader(s.bytes))
	if s.Ledger, err = local.Open(ctx, s.Data.Path("ledger.db"), local.Config{Preset: local.PresetDemo, AcceptLoss: accept, Keep: rpc.KeptStates}); err != nil {
		return s, err
	}
	mode := o.Registration
	if mode == "" {
		mode = local.RegistrationOperator
	}
	if mode == local.RegistrationOpen && !loopback(o.Listen) {
		return s, &agon.Error{
			Code: "bad_setting", Status: 422, Field: "registration", Message: fmt.Sprintf("registration open on %s: anybody could register under any coldkey", o.Listen),
			Mend: "choose operator, coldkey or burn, or listen on 127.0.0.1",
		}
	}
	if mode == local.RegistrationBurn {
		if err = s.Ledger.EndFaucet(ctx); err != nil {
			return s, err
		}
	}
	served := &local.Served{Ledger: s.Ledger, Mode: mode, Operator: s.Operator.Hotkey.SS58()}
	s.foreignLedgers = newForeign(time.Now)
	s.foreignLedgers.over = o.Over
	c := kit.Chain{Ledger: s.Ledger}
	pc, err := configOf(o, s.Data, s.Store, s.Blobs, ks, s.foreignLedgers)
	if err != nil {
		return s, err
	}
	pc.Ledger, pc.OwnerUID, pc.Commons, pc.Agreement = c, c.OwnerUID, o.Kits.Commons(), o.Kits.Agreement
	pc.Rounds = drandRounds(o)
	pc.Disk = func() (free, total int64, err error) { return disk.Room(s.Data.Dir) }
	if s.Platform, err = platform.New(pc); err != nil {
		return s, err
	}
	if at.cluster != nil {
		s.background(s.Platform.Share(at.cluster))
	}
	s.Platform.SetHistory(s.history)
	s.background(s.history.Run)
	s.background(s.compareHistory)
	s.background(s.watchWeights)
	if hosts := strings.Fields(o.Getenv("AGON_DRAND_RELAYS")); len(hosts) > 0 {
		s.background(func(ctx context.Context) {
			s.Ledger.FollowRounds(ctx, 3*time.Second, (&timelock.Relay{Hosts: hosts}).Signature, o.Log)
		})
	}
	for _, k := range o.Kits {
		if k.Open == nil {
			continue
		}
		if err = k.Open(ctx, &s.Server); err != nil {
			return s, err
		}
	}
	if err = s.Platform.Start(ctx); err != nil {
		return s, err
	}
	var ln net.Listener
	if at.front != nil {
		s.addr = at.front.addr
	} else if ln, err = listen(o.Listen, "listen"); err != nil {
		return s, err
	} else {
		s.addr = ln.Addr().String()
	}
	verifier := &auth.Verifier{Audience: s.Data.Audience, Replay: s.Replay(), Now: time.Now}
	// A read that is sent twice changes nothing: its nonces need not outlive the process, nor wait for the disk.
	reader := &auth.Verifier{Audience: s.Data.Audience, Replay: auth.NewMemoryReplay(time.Now), Now: time.Now}
	if at.cluster != nil {
		reader.Replay = onceReplay{at.cluster}
	}
	mux := http.NewServeMux()
	lh := serve.New(serve.Config{Ledger: served, Verifier: verifier, BlockTime: s.Ledger.BlockTime(), Log: o.Log})
	mux.Handle(remote.PathInfo, lh)
	mux.Handle(remote.PathInfo+"/", lh)
	chainRPC, err := rpc.New(rpc.Config{
		Ledger: served, Genesis: "agon-ledger:" + strconv.FormatInt(s.Ledger.Genesis().UnixMilli(), 36), Replay: s.Ledger, BlockTime: s.Ledger.BlockTime(), Now: time.Now, Log: o.Log,
	})
	if err != nil {
		return s, err
	}
	s.rpc.Store(chainRPC)
	s.background(chainRPC.KeepSealing)
	mux.Handle("/rpc", chainRPC) // Substrate JSON-RPC over HTTP and WebSocket, as a chain's node answers it
	mux.Handle("/mcp", mcp.Handler(mcp.New(mcp.Local{Platform: s.Platform})))
	s.routeForeign(mux)
	if err = s.openWebhooks(); err != nil {
		return s, err
	}
	spoken := client.Spoken()
	info := client.Server{Protocols: &spoken, Name: "agon", Version: agon.Version, Audience: s.Data.Audience, Operator: s.Operator.Hotkey.SS58(), Registration: string(mode), Log: s.history.Key()}
	v1 := api.New(api.Config{
		Platform: s.Platform, Ledger: apiLedger{c, served}, LedgerOf: func(a agon.Arena) api.Graphs { return kit.Chain{Ledger: s.Graphs(a)} }, Verifier: signatures{verifier, reader, s.Operator.Hotkey.SS58()}, Permit: s.Platform.Permitted, Now: time.Now, Log: o.Log, Server: info, Webhooks: s.hooks,
	})
	mux.Handle("/v1/", v1)
	mux.Handle("/openapi.json", v1)
	clock := o.Now // pages show the platform's times, and their sessions stand in its store
	if clock == nil {
		clock = time.Now
	}
	pages, err := web.New(web.Config{
		Platform: s.Platform, Ledger: c, LedgerOf: func(a agon.Arena) web.Ledger { return kit.Chain{Ledger: s.Graphs(a)} }, Verifier: signatures{verifier, reader, s.Operator.Hotkey.SS58()}, Server: info, Other: v1, Corpus: s.corpusPage, Sessions: s.Platform.Keep("web"), Parts: o.Kits.Pages(), Starts: o.Kits.Starts(), Docs: docs.Files, Now: clock, Log: o.Log,
	})
	if err != nil {
		return s, err
	}
	mux.Handle("/", pages)
	mux.Handle("GET /log/", http.StripPrefix("/log/", logFiles(s.Data.Path(logFolder))))
	token, err := metricsToken(s.Data.Path(tokenFile))
	if err != nil {
		return s, err
	}
	requests := metrics.NewRequests()
	mux.Handle("GET /metrics", &guarded{
		next:  metrics.Handler(metrics.Config{Source: s.Platform, Requests: requests, Now: time.Now, Log: o.Log}),
		token: token, local: o.LocalMetrics, operator: s.Operator.Hotkey.SS58(), verifier: signatures{verifier, reader, s.Operator.Hotkey.SS58()},
	})
	s.gate = &gate{next: requests.Wrap(mux), kinds: s.answers, waits: s.waits}
	if at.front == nil {
		s.http = newServer(secured(o.TLS, o.Traces.Handler(s.gate)))
		go func() { s.done <- s.http.Serve(o.TLS.Listener(ln, true)) }()
	}
	return s, nil
}

func (s *server) url() string { return s.Options.TLS.Scheme() + "://" + s.addr }

// openNear serves on this machine without TLS for parts of this process, whose calls a
// certificate of a public name does not fit. It is the listener itself where that has no TLS.
func (s *server) openNear() error {
	if !s.Options.TLS.On() {
		return nil
	}
	ln, err := listen("127.0.0.1:0", "listen")
	if err != nil {
		return err
	}
	s.near = newServer(s.gate)
	s.Near = func() string { return "http://" + ln.Addr().String() }
	go func() { _ = s.near.Serve(ln) }() // until close
	return nil
}

func (s *server) close() {
	s.endsMu.Lock()
	ends := s.ends
	s.endsMu.Unlock()
	for _, end := range ends {
		end()
	}
	if s.Platform != nil {
		s.Platform.Drain()
	}
	if s.near != nil {
		s.near.Close()
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
	if s.Platform != nil {
		s.Platform.Stop()
	}
	if s.foreignLedgers != nil {
		if err := s.foreignLedgers.close(); err != nil {
			s.Options.Log.Error("closing a ledger elsewhere", "err", err)
		}
	}
	if s.Ledger != nil {
		if err := s.Ledger.Close(); err != nil {
			s.Options.Log.Error("closing the ledger", "err", err)
		}
	}
	if s.Store != nil {
		if err := s.Store.Close(); err != nil {
			s.Options.Log.Error("closing the store", "err", err)
		}
	}
	if s.Data != nil {
		s.Data.Close()
	}
}

// newValidator makes a loop that plays for the platform at url with key, in the
// versions of the protocol that the platform knows. idle, if any, is told that
// there is no work.
func newValidator(o kit.Options, p *kit.Player, c *client.Client, speaks *client.Protocols, arenas []string, parallel int, outbox string, idle func(), watch validator.Watch) *validator.Loop {
	return validator.NewLoop(validator.LoopConfig{Platform: c, Protocols: speaks, Player: p.Player, Images: validator.Stands{Images: p.Player.Roots, Datasets: p.Player.Datasets}, Arenas: arenas, Parallel: parallel, Log: o.Log, Traced: o.Traces.Attempt, Begun: o.Traces.Begin, Outbox: outbox, Idle: idle, Watch: watch})
}

// newWeights makes the setter of key's weights, each arena's on the ledger that
// it names.
func newWeights(o kit.Options, c *client.Client, l *weightLedgers, dir string, every time.Duration) *validator.Weights {
	return &validator.Weights{Targets: c, Ledgers: l.open, Hotkey: l.key.SS58(), Dir: dir, Every: every, Log: o.Log}
}

var errStopped = errors.New("stopped")
