package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/internal/traceparent"
)

// The routes by which a validator elsewhere uses a gateway. All but info are
// signed (agon-v1).
const (
	controlInfo     = "/gateway/v1/info"
	controlSessions = "/gateway/v1/sessions"
	controlSeal     = "/gateway/v1/statements"
)

const (
	maxControl   = 256 << 10 // bytes of a control request
	controlWait  = 15 * time.Second
	controlBatch = 8 << 20 // bytes of events in one reply
)

// Info is what a gateway says of itself to anybody.
type Info struct {
	Version  string `json:"version"`
	Audience string `json:"audience"`
	Signer   string `json:"signer"` // address of the key that signs receipts
	// Successions are how that key came about, oldest first.
	Successions []agon.Succession `json:"successions,omitempty"`
	Models      []string          `json:"models"`
}

// opened, polled and ended are the replies of the control routes.
type (
	opened struct {
		ID     string            `json:"id"`
		Header map[string]string `json:"header"`
	}
	polled struct {
		Events []RemoteEvent `json:"events"`
		Closed bool          `json:"closed"` // nothing comes after these
	}
	ended struct {
		Spent    agon.Micros    `json:"spent_micros"`
		Receipts []agon.Receipt `json:"receipts"`
		Evidence Evidence       `json:"evidence"`
		Error    string         `json:"error,omitempty"` // the books could not be written
	}
)

// RemoteEvent is an event on its way from a gateway to the validator that opened the session.
type RemoteEvent struct {
	Seq  int64           `json:"seq"`
	Type string          `json:"type"`
	Task string          `json:"task,omitempty"`
	Data json.RawMessage `json:"data"`
}

// ControlConfig is what a Control is made of.
type ControlConfig struct {
	Gateway  *Gateway
	Verifier *auth.Verifier
	// Authorize says whether hotkey may open a session with p, and returns the
	// policy to open it with: what the platform knows of the run, not what the
	// validator asks for. A refusal is an *agon.Error.
	Authorize func(ctx context.Context, hotkey string, p Policy) (Policy, error)
	// Seal says whether hotkey may close an attempt and take its statement: the
	// attempt was its own, whether or not it still is. A refusal is an *agon.Error.
	Seal func(ctx context.Context, hotkey, run string, attempt int) error
	// Recheck is how often Authorize is asked again of a session that lives
	// (default 10 s): a refusal ends it, and so does no answer for IdleFor.
	Recheck time.Duration
	// IdleFor is how long a session lives without a word of its validator (default 5 min).
	IdleFor time.Duration
	// Called is told of each receipt, with the span of the lease (W3C traceparent) that
	// the validator named as it opened the session, or "". Optional.
	Called func(within string, r *agon.Receipt)
	Log    *slog.Logger
}

// Control puts a gateway behind a listener that validators elsewhere can
// reach: they open sessions, take their events and close them, while boxes
// reach the sessions' own routes with the token. It is an http.Handler.
type Control struct {
	cfg ControlConfig
	mux *http.ServeMux

	mu   sync.Mutex
	open map[string]*lent // guarded by mu
}

// lent is a session that a validator elsewhere uses.
type lent struct {
	s      Session
	hotkey string
	asked  Policy // what the session was opened with, as the validator asked
	log    *remoteLog
	gone   chan struct{} // closed when the session has ended

	mu    sync.Mutex
	idle  *time.Timer // guarded by mu
	close sync.Once
	end   ended // after close
}

// remoteLog keeps events until the validator has them.
type remoteLog struct {
	mu     sync.Mutex
	seq    int64
	events []RemoteEvent
	closed bool
	news   chan struct{}       // closed and replaced when something changes
	called func(*agon.Receipt) // may be nil
}

// Record implements Recorder.
func (l *remoteLog) Record(typ, task string, data any) {
	if l.called != nil {
		switch d := data.(type) {
		case ModelCall:
			l.called(&d.Receipt)
		case ToolCallEvent:
			l.called(&d.Receipt)
		}
	}
	b, err := json.Marshal(data)
	if err != nil {
		b = []byte(`{"error":"event could not be encoded"}`)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	l.events = append(l.events, RemoteEvent{l.seq, typ, task, b})
	l.wake()
}

func (l *remoteLog) wake() { close(l.news); l.news = make(chan struct{}) }

func (l *remoteLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
}

// take drops what was acknowledged and returns what follows, or a channel to wait on.
func (l *remoteLog) take(after int64) (polled, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.events) > 0 && l.events[0].Seq <= after {
		l.events = l.events[1:]
	}
	out := polled{Events: []RemoteEvent{}}
	size := 0
	for _, e := range l.events {
		if size += len(e.Data); size > controlBatch && len(out.Events) > 0 {
			break
		}
		out.Events = append(out.Events, e)
	}
	out.Closed = l.closed && len(out.Events) == len(l.events)
	return out, l.news
}

// NewControl returns a handler over a gateway.
func NewControl(c ControlConfig) *Control {
	if c.IdleFor <= 0 {
		c.IdleFor = 5 * time.Minute
	}
	if c.Recheck <= 0 {
		c.Recheck = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	k := &Control{cfg: c, mux: http.NewServeMux(), open: map[string]*lent{}}
	k.mux.HandleFunc("GET "+controlInfo, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, Info{Version: agon.Version, Audience: c.Verifier.Audience, Signer: c.Gateway.Signer(), Successions: c.Gateway.cfg.Successions, Models: c.Gateway.Models()})
	})
	k.mux.HandleFunc("POST "+controlSessions, k.signed(k.openSession))
	k.mux.HandleFunc("POST "+controlSessions+"/{id}/events", k.signed(k.events))
	k.mux.HandleFunc("POST "+controlSessions+"/{id}/close", k.signed(k.closeSession))
	k.mux.HandleFunc("POST "+controlSeal, k.signed(k.seal))
	k.mux.Handle("/", c.Gateway)
	return k
}

// ServeHTTP implements http.Handler.
func (k *Control) ServeHTTP(w http.ResponseWriter, r *http.Request) { k.mux.ServeHTTP(w, r) }

// Close ends every session that was lent.
func (k *Control) Close() {
	k.mu.Lock()
	list := make([]*lent, 0, len(k.open))
	for _, l := range k.open {
		list = append(list, l)
	}
	k.mu.Unlock()
	for _, l := range list {
		l.finish()
	}
}

// signed verifies a request and reads its body before h sees it.
func (k *Control) signed(h func(w http.ResponseWriter, r *http.Request, hotkey string, body []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxControl))
		if err != nil {
			k.fail(w, &agon.Error{Code: "too_large", Status: http.StatusRequestEntityTooLarge, Message: "the request is too large or broke off"})
			return
		}
		hotkey, aerr := k.cfg.Verifier.Verify(r.Context(), r.Method, auth.RequestTarget(r), r.Header, body)
		if aerr != nil {
			k.fail(w, aerr)
			return
		}
		if err := h(w, r, hotkey, body); err != nil {
			k.fail(w, err)
		}
	}
}

func (k *Control) fail(w http.ResponseWriter, err error) {
	var e *agon.Error
	if !errors.As(err, &e) {
		k.cfg.Log.Error("control request failed", "err", err)
		e = &agon.Error{Code: "internal", Status: http.StatusInternalServerError, Message: "internal error"}
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(e.Status), "status": e.Status, "code": e.Code, "detail": e.Message})
}

func (k *Control) openSession(w http.ResponseWriter, r *http.Request, hotkey string, body []byte) error {
	var p Policy
	if err := json.Unmarshal(body, &p); err != nil {
		return &agon.Error{Code: "invalid_request", Status: http.StatusUnprocessableEntity, Message: "the body is not a policy"}
	}
	asked := p
	p, err := k.cfg.Authorize(r.Context(), hotkey, p)
	if err != nil {
		return err
	}
	l := &lent{hotkey: hotkey, asked: asked, log: &remoteLog{news: make(chan struct{})}, gone: make(chan struct{})}
	if k.cfg.Called != nil {
		within := r.Header.Get(traceparent.Header) // of who holds the lease; boxes' requests have no say
		if !traceparent.Valid(within) {
			within = ""
		}
		l.log.called = func(r *agon.Receipt) { k.cfg.Called(within, r) }
	}
	if l.s, err = k.cfg.Gateway.Open(r.Context(), p, l.log); err != nil {
		return &agon.Error{Code: "refused", Status: http.StatusUnprocessableEntity, Message: err.Error()}
	}
	l.idle = time.AfterFunc(k.cfg.IdleFor, func() { k.forget(l) })
	k.mu.Lock()
	k.open[l.s.ID()] = l
	k.mu.Unlock()
	go k.watch(l) // ends with the session
	writeJSON(w, http.StatusOK, opened{l.s.ID(), l.s.Header()})
	return nil
}

// watch ends a session when its validator may not have it any more: the lease
// was lost or the run has ended.
func (k *Control) watch(l *lent) {
	t := time.NewTicker(k.cfg.Recheck)
	defer t.Stop()
	silent := 0
	for {
		select {
		case <-l.gone:
			return
		case <-t.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), max(k.cfg.Recheck, time.Second))
		_, err := k.cfg.Authorize(ctx, l.hotkey, l.asked)
		cancel()
		var e *agon.Error
		switch {
		case err == nil:
			silent = 0
			continue
		case errors.As(err, &e) && e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests:
			k.cfg.Log.Info("a session ends with its lease", "session", l.s.ID(), "run", l.asked.Run, "attempt", l.asked.Attempt, "why", e.Message)
		default:
			if silent++; time.Duration(silent)*k.cfg.Recheck < k.cfg.IdleFor {
				continue
			}
			k.cfg.Log.Warn("a session ends because the platform does not answer", "session", l.s.ID(), "err", err)
		}
		l.finish() // what it left can still be taken
		return
	}
}

// seal closes what is open of an attempt and answers with its statement. It may be repeated.
func (k *Control) seal(w http.ResponseWriter, r *http.Request, hotkey string, body []byte) error {
	var q struct {
		Run     string `json:"run"`
		Attempt int    `json:"attempt"`
	}
	if err := json.Unmarshal(body, &q); err != nil || q.Run == "" || len(q.Run) > 200 || q.Attempt < 1 {
		return &agon.Error{Code: "invalid_request", Status: http.StatusUnprocessableEntity, Message: "want {run, attempt}"}
	}
	if k.cfg.Seal == nil {
		return &agon.Error{Code: "not_found", Status: http.StatusNotFound, Message: "this gateway signs no statements"}
	}
	if err := k.cfg.Seal(r.Context(), hotkey, q.Run, q.Attempt); err != nil {
		return err
	}
	s, err := k.cfg.Gateway.Seal(r.Context(), q.Run, q.Attempt)
	if errors.Is(err, errSessionsOpen) {
		return &agon.Error{Code: "sessions_open", Status: http.StatusConflict, Message: err.Error()}
	}
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, s)
	return nil
}

// forget ends a session whose validator is silent.
func (k *Control) forget(l *lent) {
	l.finish()
	k.mu.Lock()
	delete(k.open, l.s.ID())
	k.mu.Unlock()
}

func (l *lent) finish() {
	l.close.Do(func() {
		if err := l.s.Close(); err != nil {
			l.end.Error = err.Error()
		}
		l.end.Spent, l.end.Receipts, l.end.Evidence = l.s.Spent(), l.s.Receipts(), l.s.Evidence()
		l.log.end()
		close(l.gone)
	})
}

// find returns a session of this validator and notes that it lives.
func (k *Control) find(r *http.Request, hotkey string) (*lent, error) {
	k.mu.Lock()
	l := k.open[r.PathValue("id")]
	k.mu.Unlock()
	if l == nil || l.hotkey != hotkey {
		return nil, &agon.Error{Code: "not_found", Status: http.StatusNotFound, Message: "there is no such session of yours"}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle.Reset(k.cfg.IdleFor)
	return l, nil
}

func (k *Control) events(w http.ResponseWriter, r *http.Request, hotkey string, body []byte) error {
	var q struct {
		After int64 `json:"after"`
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return &agon.Error{Code: "invalid_request", Status: http.StatusUnprocessableEntity, Message: "want {after}"}
	}
	l, err := k.find(r, hotkey)
	if err != nil {
		return err
	}
	wait := time.NewTimer(controlWait)
	defer wait.Stop()
	for {
		out, news := l.log.take(q.After)
		if len(out.Events) > 0 || out.Closed {
			writeJSON(w, http.StatusOK, out)
			return nil
		}
		select {
		case <-news:
		case <-wait.C:
			writeJSON(w, http.StatusOK, out)
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}

// closeSession may be repeated: it is answered alike until the session is forgotten.
func (k *Control) closeSession(w http.ResponseWriter, r *http.Request, hotkey string, _ []byte) error {
	l, err := k.find(r, hotkey)
	if err != nil {
		return err
	}
	l.finish()
	writeJSON(w, http.StatusOK, l.end)
	return nil
}
