package roles

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"log/slog"
	"net/http"
	"strings"

	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/kinds/kit"
)

// openHistory opens the transparency log of a data directory: its key, and what
// it has published, compared with the store.
func openHistory(ctx context.Context, d *kit.Data, st *store.Store, accept bool, log *slog.Logger) (*translog.Log, error) {
	key, err := translog.LoadKey(d.Path("log.key"), logOrigin)
	if err != nil {
		return nil, err
	}
	l, err := translog.Open(ctx, translog.Config{Storage: translog.Dir(d.Path("log")), Source: platform.Facts{Store: st}, Key: key, Commits: st.Commits, AcceptLoss: accept, Log: log})
	if err != nil || !accept {
		return l, err
	}
	have, err := st.FactCount(ctx)
	if err != nil || have >= l.Head().N {
		return l, err
	}
	// The log keeps what it has published: what comes next stands behind it, and
	// begins with the operator's word.
	n := l.Head().N
	return l, st.Write(ctx, func(tx *store.Tx) error { return tx.Loss(have, n) })
}

// logOrigin names a log after its key: nobody else has it.
func logOrigin(public ed25519.PublicKey) string { return "agon/log/" + hex.EncodeToString(public[:8]) }

// logFiles serves the log as C2SP's tlog-tiles has it: checkpoint, tiles of
// hashes and bundles of entries. Everybody may read all of it.
func logFiles(dir string) http.Handler {
	d := translog.Dir(dir)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Path
		if name != "checkpoint" && !strings.HasPrefix(name, "tile/") || strings.Contains(name, "/.") {
			http.NotFound(w, r)
			return
		}
		b, err := d.Read(name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		if name == "checkpoint" {
			h.Set("Content-Type", "text/plain; charset=utf-8")
			h.Set("Cache-Control", "no-cache")
		} else {
			h.Set("Content-Type", "application/octet-stream")
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		_, _ = w.Write(b) // the reader is gone
	})
}

// compareAtStart is how many of the newest entries a start compares with the
// store; agon doctor --data compares all.
const compareAtStart = 20_000

// compareHistory compares what the log has said lately with the store, once.
func (s *server) compareHistory(ctx context.Context) {
	n := 0
	err := s.history.Compare(ctx, s.history.Head().N-compareAtStart, func(what string) {
		if n++; n <= maxNamedDamage {
			s.Options.Log.Error("the store is damaged or was changed", "what", what, "mend", "agon doctor --data names all of it, with the server stopped")
		}
	})
	if err != nil && ctx.Err() == nil {
		s.Options.Log.Error("the store is not compared with the log", "err", err)
	}
}
