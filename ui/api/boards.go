package api

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"github.com/agon-arena/agon/internal/served"
)

// boardLife is how old a board may be: everybody reads the same one, and a
// crowd costs four renderings a second.
const boardLife = 250 * time.Millisecond

// shared answers boards from a cache, everything else by next. Errors are not kept.
func (a *server) shared(next http.Handler) http.Handler {
	cache := served.NewCache(a.cfg.Now, boardLife)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.RawQuery != "" || !strings.HasPrefix(r.URL.Path, "/v1/arenas/") || !strings.HasSuffix(r.URL.Path, "/board") {
			next.ServeHTTP(w, r)
			return
		}
		var own *answer
		doc, err := cache.Get(r.URL.Path, func() ([]byte, error) {
			own = &answer{header: http.Header{}, code: http.StatusOK}
			next.ServeHTTP(own, r)
			if own.code != http.StatusOK {
				return nil, errNotShared
			}
			return own.body.Bytes(), nil
		})
		switch {
		case err == nil:
			w.Header().Set("Content-Type", "application/json")
			doc.Write(w, r, http.StatusOK)
		case own != nil: // what went wrong is this caller's own answer
			own.to(w)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

type notShared struct{}

func (notShared) Error() string { return "not a reply for all" }

var errNotShared error = notShared{}

// answer is a reply that is kept.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(code int)        { a.code = code }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

func (a *answer) to(w http.ResponseWriter) {
	for k, v := range a.header {
		w.Header()[k] = v
	}
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body.Bytes()) // the client is gone if this fails
}
