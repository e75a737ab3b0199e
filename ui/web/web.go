// Package web serves agon's pages: rendered on the server, live over
// server-sent events, whole without JavaScript, and part of the binary. Every
// page asks the platform as its caller, so it shows what that caller may read.
package web

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/served"
)

//go:embed template/*.html static/*
var files embed.FS

// Ledger shows a subnet.
type Ledger interface {
	Metagraph(ctx context.Context, netuid uint16) (*client.Metagraph, error)
}

// Verifier checks the agon-v1 signature of a request.
type Verifier interface {
	VerifyRequest(ctx context.Context, method, pathAndQuery string, h http.Header, body []byte) (hotkey string, err error)
}

// Config configures the pages. Corpus may be nil.
type Config struct {
	Platform Platform
	Ledger   Ledger
	// LedgerOf is the ledger that an arena is on; nil: all are on Ledger.
	LedgerOf func(a agon.Arena) Ledger
	Verifier Verifier // of sign-ins
	// Sessions keeps the sessions of signed-in browsers; nil: a restart ends them all.
	Sessions Keep
	Server   client.Server
	// Corpus returns what the corpus page shows; nil: there is none yet.
	Corpus func(ctx context.Context) (*Corpus, error)
	// Parts are what boards show besides, by kind.
	Parts map[string]Part
	// Starts are the commands that begin an entry of kinds which `agon agent new` has no
	// template of, by kind.
	Starts map[string]string
	// Docs are pages of documentation, Markdown at its top; nil: none.
	Docs fs.FS
	// Other answers what no page does (/v1 …).
	Other http.Handler
	Now   func() time.Time
	Log   *slog.Logger
}

// start is the command that begins an entry of an arena, with one of its tasks; "": its kind has a template.
func (c Config) start(a agon.Arena) string {
	s := c.Starts[a.Kind]
	if len(a.Tasks) > 0 {
		s = strings.Replace(s, "TASK", a.Tasks[0].Key, 1)
	}
	return s
}

type server struct {
	cfg      Config
	pages    pages
	parts    map[string]*template.Template // by kind
	sessions *sessions
	cache    *served.Cache
	pictures *served.Cache // of arenas, PNG
	feeds    *feeds
	library  library
}

// New returns the handler of all pages.
func New(cfg Config) (http.Handler, error) {
	p, err := loadPages(cfg.Now)
	if err != nil {
		return nil, err
	}
	parts, err := loadParts(cfg.Parts)
	if err != nil {
		return nil, err
	}
	s := &server{cfg: cfg, pages: p, parts: parts, sessions: newSessions(cfg.Now, cfg.Server.Operator, cfg.Sessions), cache: served.NewCache(cfg.Now, time.Second), pictures: served.NewCache(cfg.Now, time.Minute), feeds: newFeeds(), library: library{fs: cfg.Docs}}
	dir, err := fs.Sub(files, "static")
	if err != nil {
		return nil, err
	}
	static, err := statics(dir)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /static/", static)
	page := func(pattern string, h func(*request) error) { mux.Handle("GET "+pattern, s.page(h)) }
	page("/{$}", s.arenas)
	page("/arenas/{arena}", s.board)
	page("/arenas/{arena}/race", s.race)
	page("/arenas/{arena}/feed.atom", s.feed)
	page("/arenas/{arena}/badge.svg", s.badge)
	page("/arenas/{arena}/picture.png", s.picture)
	page("/feed.atom", s.feed)
	page("/miners/{hotkey}/feed.atom", s.minerFeed)
	page("/docs", s.docs)
	page("/docs/{page}", s.doc)
	page("/docs/pictures/{picture}", s.docPicture)
	mux.Handle("GET /embed/arenas/{arena}", s.stranger(s.embed))
	page("/arenas/{arena}/tasks", s.tasks)
	page("/arenas/{arena}/validators", s.validators)
	page("/arenas/{arena}/ledger", s.arenaLedger)
	page("/submissions/{id}", s.submission)
	page("/submissions/{id}/file", s.file)
	page("/submissions/{id}/run", s.runOfTask)
	page("/submissions/{id}/with/{other}", s.submissionsBeside)
	page("/submissions/{id}/with/{other}/run", s.runsBeside)
	page("/runs/{id}", s.run)
	page("/runs/{id}/events/{cursor}", s.event)
	page("/runs/{id}/with/{other}", s.sideBySide)
	page("/runs/{id}/cast/{file}", s.cast)
	page("/ledger/{netuid}", s.ledger)
	page("/corpus", s.corpus)
	page("/proof", s.proof)
	page("/operator", s.operator)
	page("/desk", s.desk)
	page("/signin", s.signInPage)
	mux.HandleFunc("GET /runs/{id}/live", s.live)
	mux.HandleFunc("GET /live", s.changes)
	mux.HandleFunc("POST /web/sessions", s.openSession)
	same := http.NewCrossOriginProtection()
	act := func(pattern string, h func(*request) error) { mux.Handle("POST "+pattern, same.Handler(s.page(h))) }
	act("/signin", s.signIn)
	act("/signout", s.signOut)
	act("/operator/arena", s.arenaState)
	act("/operator/cancel", s.cancelRun)
	act("/operator/requeue", s.requeueRun)
	act("/operator/retune", s.retune)
	act("/operator/retune-plan", s.retunePlan)
	act("/operator/ban", s.ban)
	act("/operator/retry", s.retry)
	act("/operator/appeal", s.answerAppeal)
	act("/desk/appeal", s.makeAppeal)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if cfg.Other != nil && !strings.Contains(r.Header.Get("Accept"), "text/html") {
			cfg.Other.ServeHTTP(w, r)
			return
		}
		s.page(func(*request) error {
			return &agon.Error{Code: "not_found", Status: 404, Message: "There is no such page."}
		}).ServeHTTP(w, r)
	})
	return headers(mux), nil
}

// policy lets a page load what stands on this server and nothing else: no
// inline script or style, no frame, no form to elsewhere.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// embedPolicy is that of the pages below /embed, which may stand in frames: they
// show what a stranger may read, whoever looks, and have no form.
const embedPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'none'; base-uri 'none'; frame-ancestors *"

func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// request is one request for a page and who makes it.
type request struct {
	*http.Request
	w      http.ResponseWriter
	s      *server
	caller platform.Caller
	token  string // of the session; empty: not signed in
}

// page turns a handler's error into a page of its own.
func (s *server) page(h func(*request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: r, w: w, s: s}
		q.caller, q.token = s.callerOf(r)
		w.Header().Set("Cache-Control", "no-store")
		if err := h(q); err != nil {
			s.fail(q, err)
		}
	})
}

// stranger is page for a reader who is not signed in, whatever the request brings.
func (s *server) stranger(h func(*request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := &request{Request: r, w: w, s: s}
		w.Header().Set("Cache-Control", "no-store")
		if err := h(q); err != nil {
			s.fail(q, err)
		}
	})
}

func (s *server) callerOf(r *http.Request) (platform.Caller, string) {
	hotkey, token := s.sessions.of(r)
	return platform.Caller{Hotkey: hotkey, Operator: hotkey != "" && hotkey == s.cfg.Server.Operator}, token
}

// fail shows an error as a page. What went wrong inside stays in the log.
func (s *server) fail(q *request, err error) {
	if q.Context().Err() != nil {
		return
	}
	var e *agon.Error
	if away := platform.Away(err); away != nil {
		s.cfg.Log.Error("page failed", "path", q.URL.Path, "err", err)
		e = away
	} else if !errors.As(err, &e) {
		s.cfg.Log.Error("page failed", "path", q.URL.Path, "err", err)
		e = &agon.Error{Code: "internal", Status: 500, Message: "This page could not be made. The server's log says why."}
	}
	data := struct {
		base
		Status        int
		Code          string
		Message, Mend string
		Findings      []agon.Finding
		Page          string // what the code means
	}{q.base("Error", ""), e.Status, e.Code, e.Message, e.Mend, e.Findings, s.library.errorPage(e.Code)}
	if err := s.render(q, e.Status, "error", data); err != nil {
		s.cfg.Log.Error("error page failed", "err", err)
	}
}
