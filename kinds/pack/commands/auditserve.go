package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
)

// auditEvery is how long an answer stands: a block of the ledger.
const auditEvery = 12 * time.Second

// auditServer shows an audit to whoever asks: / as a page, /audit.json as JSON. It is
// worked out when somebody looks. Safe for concurrent use.
type auditServer struct {
	audit Audited
	o     AuditOptions
	now   func() time.Time

	mu   sync.Mutex // guards below, and lets one work at a time
	at   time.Time
	page []byte
	json []byte
	err  error
}

// look is the newest audit, at most auditEvery old.
func (s *auditServer) look(ctx context.Context) (page, doc []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); s.at.IsZero() || now.Sub(s.at) >= auditEvery {
		r, err := s.audit(context.WithoutCancel(ctx), s.o)
		if err == nil {
			s.page, err = auditPage(r)
		}
		if err == nil {
			s.json, err = json.MarshalIndent(r, "", "  ")
		}
		s.err, s.at = err, s.now()
	}
	return s.page, s.json, s.err
}

func (s *auditServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		page, _, err := s.look(r.Context())
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = fmt.Fprintf(w, "<!doctype html><title>Audit</title><p>There is no audit now: %s</p>", template.HTMLEscapeString(plain.Short(err.Error(), 500)))
			return
		}
		_, _ = w.Write(page)
	})
	mux.HandleFunc("GET /audit.json", func(w http.ResponseWriter, r *http.Request) {
		_, doc, err := s.look(r.Context())
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			doc, _ = json.Marshal(map[string]string{"error": plain.Short(err.Error(), 500)}) // a text always encodes
		}
		_, _ = w.Write(append(doc, '\n'))
	})
	return mux
}

// serveAudit serves until ctx ends.
func serveAudit(ctx context.Context, s *auditServer, up func(addr string)) error {
	ln, err := net.Listen("tcp", s.o.Listen)
	if err != nil {
		return &agon.Error{Code: "listen", Status: 422, Field: "listen", Message: err.Error(), Mend: "choose another --listen"}
	}
	up(ln.Addr().String())
	srv := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the audit: %w", err)
	}
	return ctx.Err()
}
