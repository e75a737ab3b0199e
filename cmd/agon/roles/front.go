package roles

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/kinds/kit"
)

const (
	pathLive  = "/livez"
	pathReady = "/readyz"
	// drainFor is how long requests under way have to end after SIGTERM.
	drainFor = 10 * time.Second
	// unusedFor is how long a connection has then to begin a request.
	unusedFor = time.Second
)

// front is the listener of a process that is one of several servers: what
// answers behind it changes with the role. Between two roles requests wait.
type front struct {
	http     *http.Server
	addr     string // host:port that was bound
	scheme   string
	done     chan error
	role     atomic.Pointer[http.Handler] // nil: between two roles
	draining atomic.Bool
	serving  context.Context // until the server begins to end
	ends     context.CancelFunc
	waiting  atomic.Int64
	mu       sync.Mutex
	unused   map[net.Conn]struct{} // connections of which no request has come yet; guarded by mu
}

// newServer is an HTTP server with agon's limits.
func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 2 * time.Minute, WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
	}
}

// secured adds what a listener with TLS owes: browsers come back over TLS only, and where
// certificates of clients are checked only a server with one passes requests on.
func secured(t *certs.Server, next http.Handler) http.Handler {
	if !t.On() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, err := net.SplitHostPort(r.Host); r.Host != "localhost" && (err != nil || host != "localhost") { // on localhost it would close the ports of other programs
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		if t.Mutual() && r.Header.Get(headerPassed) != "" && len(r.TLS.VerifiedChains) == 0 {
			refuse(w, http.StatusForbidden, "no_certificate", "only a server with a certificate passes requests on", "name it with --client-cert and --client-key at the server that follows")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// listen binds an address.
func listen(at, flag string) (net.Listener, error) {
	ln, err := net.Listen("tcp", at)
	if err != nil {
		return nil, &agon.Error{
			Code: "listen", Status: 409, Field: flag, Message: "cannot listen on " + at + ": " + err.Error(),
			Mend: "choose another address with --" + flag,
		}
	}
	return ln, nil
}

// openFront listens and serves. End it with close.
func openFront(o kit.Options) (*front, error) {
	ln, err := listen(o.Listen, "listen")
	if err != nil {
		return nil, err
	}
	f := &front{addr: ln.Addr().String(), scheme: o.TLS.Scheme(), done: make(chan error, 1)}
	f.serving, f.ends = context.WithCancel(context.Background())
	f.http = newServer(secured(o.TLS, o.Traces.Handler(f)))
	f.unused = map[net.Conn]struct{}{}
	f.http.ConnState = f.connState
	go func() { f.done <- f.http.Serve(o.TLS.Listener(ln, true)) }()
	return f, nil
}

// show makes h answer; nil: nobody does for now.
func (f *front) show(h http.Handler) {
	if h == nil {
		f.role.Store(nil)
		return
	}
	f.role.Store(&h)
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case pathLive: // the process answers; whether it is ready is another question
		w.WriteHeader(http.StatusNoContent)
		return
	case pathReady:
		if f.draining.Load() {
			notReady(w, "the server ends")
			return
		}
		if h := f.role.Load(); h == nil {
			notReady(w, "the server changes its role")
			return
		}
	}
	h := f.role.Load()
	if h == nil {
		h = f.wait(r.Context())
	}
	if h == nil {
		notReady(w, "the server starts, or waits for one that leads")
		return
	}
	if streams(r) {
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		defer context.AfterFunc(f.serving, stop)()
		r = r.WithContext(ctx)
	}
	(*h).ServeHTTP(w, r)
}

// streams says whether a request asks for events until one of its ends goes.
func streams(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream")
}

// wait waits until a role is shown; nil: none was.
func (f *front) wait(ctx context.Context) *http.Handler {
	defer f.waiting.Add(-1)
	if f.waiting.Add(1) > waitsMost {
		return nil
	}
	ctx, stop := context.WithTimeout(ctx, drainFor)
	defer stop()
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		if h := f.role.Load(); h != nil {
			return h
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// connState keeps unused.
func (f *front) connState(c net.Conn, s http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s == http.StateNew {
		f.unused[c] = struct{}{}
	} else {
		delete(f.unused, c)
	}
}

// closeUnused ends connections of which no request has come. Callers keep such in reserve; the
// server would wait for them longer than for any request.
func (f *front) closeUnused() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.unused {
		_ = c.Close() // it had nothing to say
	}
}

// drain says that the server ends, and waits for the requests under way: those
// that wait for work end at once (platform.Drain), and so do streams, whose clients
// come back to another server. It may be called again.
func (f *front) drain() {
	f.draining.Store(true)
	f.ends()
	ctx, cancel := context.WithTimeout(context.Background(), drainFor)
	defer cancel()
	defer time.AfterFunc(unusedFor, f.closeUnused).Stop()
	if err := f.http.Shutdown(ctx); err != nil && !errors.Is(err, http.ErrServerClosed) {
		f.http.Close()
	}
}

func notReady(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Connection", "close") // a body is not waited for
	refuse(w, http.StatusServiceUnavailable, "not_ready", why, "try again in a second")
}
