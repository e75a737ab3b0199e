package translog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// Heads is what a witness asks of a log. *client.Client has both.
type Heads interface {
	URL() string
	Server(ctx context.Context) (*client.Server, error)
	LogConsistency(ctx context.Context, size int64) (*client.LogConsistency, error)
	LogCheckpoint(ctx context.Context) (string, error)
	LogKeys(ctx context.Context) ([]byte, error)
}

// Peer tells what another witness has seen: the text of its cosigned heads.
type Peer interface {
	Heads(ctx context.Context) ([]string, error)
}

// Witness follows logs: it cosigns each head that follows the one before, and
// compares what other witnesses were shown. Safe for concurrent use.
type Witness struct {
	Key    *Key
	Memory Memory // the heads that it has cosigned
	Now    func() time.Time

	mu       sync.Mutex
	cosigned map[string]string // by address of the log; guarded by mu
}

// Look fetches the newest head of a log, checks that it follows the last one,
// cosigns it and remembers it. key pins the log's key; empty: the one that was
// seen first. An *EquivocationError carries both signed heads: it proves with
// the log's key alone that it shows two histories.
func (w *Witness) Look(ctx context.Context, l Heads, key string, peers ...Peer) (Checkpoint, error) {
	known, ok, err := w.Memory.Get(l.URL())
	if err != nil {
		return Checkpoint{}, err
	}
	switch {
	case key == "" && ok:
		key = known.Key
	case key == "":
		s, err := l.Server(ctx)
		if err != nil {
			return Checkpoint{}, err
		}
		if key = s.Log; key == "" {
			return Checkpoint{}, &agon.Error{Code: "no_log", Status: 404, Message: l.URL() + " has no transparency log"}
		}
	case ok && known.Key != key:
		known = Known{} // another key, another log
	}
	text, err := l.LogCheckpoint(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	seen := key // under which the head that is remembered was signed
	c, err := OpenCheckpoint(text, key)
	if err != nil { // the key may have changed since
		b, kerr := l.LogKeys(ctx)
		if kerr != nil || b == nil {
			return c, errors.Join(err, kerr)
		}
		list, kerr := ParseKeys(b)
		if kerr != nil {
			return c, errors.Join(err, kerr)
		}
		if key = Current(key, list); key == seen {
			return c, err
		}
		if c, err = OpenCheckpoint(text, key); err != nil {
			return c, err
		}
	}
	follow := func(old Checkpoint) error {
		if old.N == 0 || old.N == c.N {
			return Advance(old, c, nil)
		}
		p, err := l.LogConsistency(ctx, old.N)
		if err != nil {
			var e *agon.Error
			if errors.As(err, &e) && e.Code == "bad_size" {
				return &StaleError{Seen: old.N}
			}
			return err
		}
		c, err = CheckConsistency(p, old, key)
		return err
	}
	if known.Checkpoint != "" {
		old, err := OpenCheckpoint(known.Checkpoint, seen)
		if err != nil {
			return c, fmt.Errorf("read %s: %w", w.Memory.Path, err)
		}
		if err := follow(old); err != nil {
			return c, err
		}
	}
	for _, p := range peers {
		heads, err := p.Heads(ctx)
		if err != nil {
			return c, fmt.Errorf("ask another witness: %w", err)
		}
		for _, text := range heads {
			theirs, err := OpenCheckpoint(text, key)
			if err != nil {
				continue // of another log, or signed by nobody we know
			}
			if err := follow(theirs); err != nil {
				return c, fmt.Errorf("another witness was shown something else: %w", err)
			}
		}
	}
	both, err := w.Key.Cosign(c, w.Now())
	if err != nil {
		return c, err
	}
	if err := w.Memory.Put(l.URL(), Known{Key: key, Checkpoint: c.Text}); err != nil {
		return c, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cosigned == nil {
		w.cosigned = map[string]string{}
	}
	w.cosigned[l.URL()] = both
	return OpenCheckpoint(both, key, w.Key.WitnessKey())
}

// heads is what a witness tells others.
type heads struct {
	Witness string   `json:"witness"` // its public key
	Heads   []string `json:"heads"`   // cosigned checkpoints
}

// ServeHTTP tells what the witness has cosigned: GET /heads, JSON.
func (w *Witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if strings.TrimSuffix(r.URL.Path, "/") != "/heads" || r.Method != http.MethodGet {
		http.NotFound(rw, r)
		return
	}
	w.mu.Lock()
	out := heads{Witness: w.Key.WitnessKey(), Heads: []string{}}
	for _, h := range w.cosigned {
		out.Heads = append(out.Heads, h)
	}
	w.mu.Unlock()
	slices.Sort(out.Heads)
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(out) // the reader is gone
}

// maxHeads bounds what is read of another witness, in bytes.
const maxHeads = 1 << 20

// HTTPPeer is a witness at an address.
type HTTPPeer struct {
	URL    string
	Client *http.Client
}

// Heads implements Peer.
func (p HTTPPeer) Heads(ctx context.Context) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.URL, "/")+"/heads", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := p.Client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %d", p.URL, resp.StatusCode)
	}
	var h heads
	if err := json.NewDecoder(http.MaxBytesReader(nil, resp.Body, maxHeads)).Decode(&h); err != nil {
		return nil, fmt.Errorf("read heads of %s: %w", p.URL, err)
	}
	return h.Heads, nil
}
