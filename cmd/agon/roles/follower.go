package roles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/archive"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger/remote"
	"github.com/agon-arena/agon/ui/api"
)

// headerPassed marks a request that a follower passed on: it is never passed on twice.
const headerPassed = "Agon-Passed-On"

// follower answers what a crowd of validators asks all day from the store, and
// passes all else to the leader, which has the ledger, the log, foreign wires
// and whatever is decided in memory.
type follower struct {
	platform *platform.Platform
	leader   *leaderAt
	ledgers  *foreign
	own      http.Handler // routes that are answered here
	pass     http.Handler
	end      func()

	log   *slog.Logger
	now   func() time.Time
	away  atomic.Value // string: the leader that was not reached when it was last asked for its clock
	apart atomic.Bool  // the clock here is not the leader's: nothing is answered here
}

// newFollower starts a follower. d is the leader's data directory, not locked.
func newFollower(ctx context.Context, o kit.Options, at seat, d *kit.Data, address, leader string) (*follower, error) {
	operator, err := kit.LoadParty(d.Path("wallets"), "operator")
	if err != nil {
		return nil, err
	}
	base, err := o.Over.Transport()
	if err != nil {
		return nil, err
	}
	base.MaxIdleConnsPerHost, base.DisableCompression = 64, true
	f := &follower{leader: &leaderAt{base: base}, ledgers: newForeign(time.Now), log: o.Log, now: time.Now}
	if o.Now != nil {
		f.now = o.Now
	}
	f.ledgers.over = o.Over
	f.leader.set(leader)
	// Caches of its own: the leader's have one owner.
	own := &kit.Data{Dir: d.Path("servers", strings.NewReplacer("://", "-", "/", "-", ":", "-").Replace(address)), Audience: d.Audience}
	var bytes blob.Store
	if o.Blobs != "" {
		bytes, err = openBlobs(ctx, own, o)
		at.store.UseArchive(archive.NewReader(bytes))
	} else { // the leader's folder has one owner too: blobs are passed on, archived runs are read beside it
		var folder blob.Store
		folder, err = blobfs.Open(d.Path("blobs"), blobfs.Options{Beside: true})
		at.store.UseArchive(archive.NewReader(folder))
		if err == nil {
			bytes, err = blobfs.Open(own.Path("blobs"), blobfs.Options{Cache: true, Quota: blobCache})
		}
	}
	if err != nil {
		return nil, err
	}
	far, err := remote.New(remote.Config{URL: "http://leader", Transport: f.leader})
	if err != nil {
		return nil, err
	}
	pc, err := configOf(o, d, at.store, bytes, o.Kinds(""), f.ledgers)
	if err != nil {
		return nil, err
	}
	pc.Ledger = kit.Chain{Ledger: far}
	if f.platform, err = platform.New(pc); err != nil {
		return nil, err
	}
	hear := f.platform.Share(at.cluster)
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if err := f.platform.Follow(ctx); err != nil {
		cancel()
		return nil, err
	}
	f.compareClocks(ctx)
	var ends sync.WaitGroup
	ends.Go(func() { hear(ctx) })
	ends.Go(func() { f.watchClock(ctx) })
	f.end = func() { cancel(); ends.Wait() }
	verifier := &auth.Verifier{Audience: d.Audience, Replay: (&kit.Server{Platform: f.platform}).Replay(), Now: time.Now}
	reader := &auth.Verifier{Audience: d.Audience, Replay: onceReplay{at.cluster}, Now: time.Now}
	spoken := client.Spoken()
	f.own = api.New(api.Config{
		Platform: f.platform, Verifier: signatures{verifier, reader, operator.Hotkey.SS58()}, Permit: f.platform.Permitted, Now: time.Now, Log: o.Log,
		Server: client.Server{Protocols: &spoken, Name: "agon", Version: agon.Version, Audience: d.Audience, Operator: operator.Hotkey.SS58()},
	})
	f.pass = f.route(o.Blobs != "")
	return f, nil
}

func (f *follower) ServeHTTP(w http.ResponseWriter, r *http.Request) { f.pass.ServeHTTP(w, r) }

// route says what is answered here. A route is here if all that it needs is in
// the store, in the bucket, or asked of the ledger.
func (f *follower) route(blobs bool) http.Handler {
	mux, passed := http.NewServeMux(), f.proxy()
	here := []string{
		"POST /v1/leases", "POST /v1/leases/{id}/heartbeat", "POST /v1/images",
		"POST /v1/judge-leases", "POST /v1/judge-leases/{id}/heartbeat",
		"GET /v1/runs/{id}/stream",
	}
	if blobs {
		here = append(here, "GET /v1/blobs/{digest}")
	}
	for _, route := range here {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			if f.apart.Load() {
				passed.ServeHTTP(w, r)
				return
			}
			f.own.ServeHTTP(w, r)
		})
	}
	mux.HandleFunc("GET "+pathReady, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.Handle("/", passed)
	return mux
}

const (
	// apartMost is how far the clock here may be from the leader's. The leader ends a lease by its own
	// clock: one of a minute that is given here would be over there before its holder says a word.
	apartMost = 10 * time.Second
	// clockEvery is how often the two are compared, and how long the leader has to answer.
	clockEvery = 2 * time.Second
)

func (f *follower) watchClock(ctx context.Context) {
	t := time.NewTicker(clockEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			f.compareClocks(ctx)
		}
	}
}

// compareClocks asks the leader for its time. Where nobody answers all stays as it was.
func (f *follower) compareClocks(ctx context.Context) {
	u := f.leader.url.Load()
	if u == nil {
		return
	}
	asked, cancel := context.WithTimeout(ctx, clockEvery/2)
	defer cancel()
	r, err := http.NewRequestWithContext(asked, http.MethodGet, u.JoinPath(pathLive).String(), nil)
	if err != nil {
		return
	}
	sent := f.now()
	resp, err := f.leader.base.RoundTrip(r)
	if ctx.Err() == nil {
		f.reaches(ctx, u, err)
	}
	if err != nil {
		return
	}
	_ = resp.Body.Close()
	theirs, err := http.ParseTime(resp.Header.Get("Date")) // in whole seconds, cut off
	if err != nil {
		return
	}
	by := max(sent.Sub(theirs.Add(time.Second)), theirs.Sub(f.now()))
	f.compared(ctx, u, by)
}

// reaches notes whether the leader was reached. A client hears only that it does not answer: a
// certificate without its name, or of an authority that is not trusted here, stands in the log.
func (f *follower) reaches(ctx context.Context, u *url.URL, err error) {
	away := ""
	if err != nil {
		away = u.String()
	}
	if was, _ := f.away.Swap(away).(string); was == away {
		return
	}
	if err != nil {
		f.log.WarnContext(ctx, "the server that leads is not reached from here", "leader", u.String(), "err", err)
	} else {
		f.log.InfoContext(ctx, "the server that leads is reached again", "leader", u.String())
	}
}

// compared notes by how much the clocks differ.
func (f *follower) compared(ctx context.Context, u *url.URL, by time.Duration) {
	apart := by > apartMost
	if f.apart.Swap(apart) == apart {
		return
	}
	if apart {
		f.log.WarnContext(ctx, "the clock of this machine is not the leader's: everything is passed on to the leader", "apart", by.Round(time.Second), "leader", u.String())
	} else {
		f.log.InfoContext(ctx, "the clock of this machine is the leader's again", "leader", u.String())
	}
}

// proxy passes requests to the leader as they are: their signatures name no host.
func (f *follower) proxy() http.Handler {
	p := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "leader"
			r.Out.Host = r.In.Host
			r.SetXForwarded()
			if r.In.Header.Get("X-Forwarded-Proto") == "https" { // by a balancer in front: cookies stay Secure
				r.Out.Header.Set("X-Forwarded-Proto", "https")
			}
			r.Out.Header.Set(headerPassed, "1")
		},
		Transport: f.leader, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			notReady(w, "the server that leads does not answer")
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerPassed) != "" {
			notReady(w, "this server does not lead any more")
			return
		}
		if streams(r) {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a stream outlives the server's write timeout
		}
		p.ServeHTTP(w, r)
	})
}

// close ends what the follower runs; the store stays open. Claims that wait end
// with "nothing now": whoever asks again finds the role that comes.
func (f *follower) close() {
	f.platform.Drain()
	f.end()
	f.leader.idle()
	_ = f.ledgers.close() // connections for reads
}

// leaderAt reaches the leader, wherever it is now: the host of a request's URL
// is replaced. A connection that is refused is tried again, for a take-over
// takes a moment.
type leaderAt struct {
	url  atomic.Pointer[url.URL]
	base *http.Transport
}

// patience is how long a request waits for a leader: one that ends keeps the lead while it drains.
const patience = drainFor + 2*time.Second

func (l *leaderAt) set(address string) {
	if u, err := url.Parse(address); err == nil {
		l.url.Store(u)
	}
}

func (l *leaderAt) idle() { l.base.CloseIdleConnections() }

func (l *leaderAt) RoundTrip(r *http.Request) (*http.Response, error) {
	until := time.Now().Add(patience)
	for {
		u := l.url.Load()
		if u == nil {
			return nil, errors.New("no server leads")
		}
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host = u.Scheme, u.Host
		if r.Body != nil && r.Body != http.NoBody {
			out.Body = io.NopCloser(r.Body) // a transport that cannot connect closes it
		}
		resp, err := l.base.RoundTrip(out)
		var dial *net.OpError
		if err == nil || !errors.As(err, &dial) || dial.Op != "dial" || time.Now().After(until) {
			if err != nil {
				err = fmt.Errorf("pass on to the leader: %w", err)
			}
			return resp, err
		}
		// Nothing was sent, and nothing of the body was read.
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// onceReplay keeps the nonces of reads for all servers of a store.
type onceReplay struct{ c store.Cluster }

// Seen implements auth.ReplayGuard, but for durability.
func (o onceReplay) Seen(ctx context.Context, scheme, hotkey, nonce string, until time.Time) (bool, error) {
	if len(scheme) > 40 || len(hotkey) > 128 || len(nonce) > 128 {
		return false, &agon.Error{Code: "bad_nonce", Status: 401, Message: "the nonce is over 128 bytes"}
	}
	return o.c.Once(ctx, scheme+" "+hotkey+" "+nonce, until)
}
