package roles

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/translog"
	"github.com/agon-arena/agon/kinds/kit"
)

// openHistory opens the transparency log of a data directory: its key, and what
// it has published, compared with the store. blobs are the platform's: a bucket keeps the log too,
// until lost is closed (nil: it never is).
func openHistory(ctx context.Context, d *kit.Data, st *store.Store, blobs blob.Store, accept bool, log *slog.Logger, lost <-chan struct{}) (*translog.Log, error) {
	if err := finishRotation(d); err != nil {
		return nil, err
	}
	key, err := translog.LoadKey(d.Path("log.key"), logOrigin)
	if err != nil {
		return nil, err
	}
	files, err := logStorage(ctx, d, blobs, lost)
	if err != nil {
		return nil, err
	}
	if err := noteKeys(ctx, d, st); err != nil {
		return nil, err
	}
	l, err := translog.Open(ctx, translog.Config{Storage: files, Source: platform.Facts{Store: st}, Key: key, Commits: st.Commits, AcceptLoss: accept, Log: log})
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
		if name != "checkpoint" && name != "keys" && !strings.HasPrefix(name, "tile/") || strings.Contains(name, "/.") {
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
		if name == "checkpoint" || name == "keys" {
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

// nextKey is where a new key waits until the old one has named it.
const nextKey = "log.key.next"

// rotateLogKey gives the log of a data directory a new key: the old one signs
// that the new one follows. The server must not run.
func rotateLogKey(o kit.Options) (*translog.Succession, error) {
	d, err := kit.OpenData(o.Data)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := finishRotation(d); err != nil {
		return nil, err
	}
	key, err := translog.LoadKey(d.Path("log.key"), logOrigin)
	if err != nil {
		return nil, err
	}
	file, s, err := key.Succeed()
	if err != nil {
		return nil, err
	}
	// The new key is on disk before the old one names it: a crash loses neither.
	if err := os.WriteFile(d.Path(nextKey), file, 0o600); err != nil {
		return nil, fmt.Errorf("write log key: %w", err)
	}
	if err := translog.AddKey(translog.Dir(d.Path(logFolder)), s); err != nil {
		return nil, err
	}
	return &s, finishRotation(d)
}

// finishRotation puts a key in force that the one before has named.
func finishRotation(d *kit.Data) error {
	b, err := os.ReadFile(d.Path(nextKey))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read log key: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	key, err := translog.ParseKey(line)
	if err != nil {
		return err
	}
	list, err := translog.ReadKeys(translog.Dir(d.Path(logFolder)))
	if err != nil {
		return err
	}
	if len(list) == 0 || list[len(list)-1].New != key.Public() {
		return os.Remove(d.Path(nextKey)) // the old key never named it
	}
	return os.Rename(d.Path(nextKey), d.Path("log.key"))
}

// noteKeys lets the log say which keys it has had.
func noteKeys(ctx context.Context, d *kit.Data, st *store.Store) error {
	list, err := translog.ReadKeys(translog.Dir(d.Path(logFolder)))
	if err != nil {
		return err
	}
	for _, s := range list {
		body, err := json.Marshal(s)
		if err != nil {
			return fmt.Errorf("encode key: %w", err)
		}
		err = st.Write(ctx, func(tx *store.Tx) error {
			return tx.InsertNote(store.Note{Type: store.FactKey, ID: "key-" + agon.Sum([]byte(s.New)).Hex()[:16], At: time.Now(), Body: body})
		})
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return nil
}

// watchWeights notes for the log what validators have set on the embedded
// ledger's subnets: one note for each change.
func (s *server) watchWeights(ctx context.Context) {
	seen := map[uint16]agon.Digest{}
	t := time.NewTicker(max(s.Ledger.BlockTime(), 2*time.Second))
	defer t.Stop()
	for {
		if err := s.noteWeights(ctx, seen); err != nil && ctx.Err() == nil {
			s.Options.Log.Error("weights are not noted for the log", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (s *server) noteWeights(ctx context.Context, seen map[uint16]agon.Digest) error {
	arenas, err := s.Store.Arenas(ctx) // not the platform's, which counts the queues
	if err != nil {
		return err
	}
	for _, a := range arenas {
		if a.Ledger != "" { // of a chain, which has a history of its own
			continue
		}
		g, err := kit.Chain{Ledger: s.Ledger}.Metagraph(ctx, a.Netuid)
		if err != nil || len(g.Weights) == 0 {
			continue // no subnet yet, or nothing set
		}
		body, err := json.Marshal(map[string]any{"netuid": a.Netuid, "weights": g.Weights})
		if err != nil {
			return fmt.Errorf("encode weights: %w", err)
		}
		d := agon.Sum(body)
		if seen[a.Netuid] == d {
			continue
		}
		n := store.Note{Type: store.FactWeights, ID: fmt.Sprintf("weights-%d-%d", a.Netuid, g.Block), At: time.Now(), Body: body}
		err = s.Store.Write(ctx, func(tx *store.Tx) error { return tx.InsertNote(n) })
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		}
		seen[a.Netuid] = d
	}
	return nil
}
