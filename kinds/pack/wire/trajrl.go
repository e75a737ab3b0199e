// Package trajrl speaks the wire of TrajectoryRL's public server over a
// policy-pack arena, so that the field's observer CLI and its miners' and
// validators' clients work with only their base URL changed. kinds/pack/trajrl.md
// lists the routes and how agon's own nouns stand behind them.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/ledger"
)

// Bounds of what one look at the platform takes in.
const (
	maxEntries = 5_000  // newest submissions of the arena
	maxRuns    = 20_000 // newest runs
	// DefaultFresh is how old an answer may be where Config does not say.
	DefaultFresh = time.Second
	// slowest is how old the answers of an arena may be that takes long to look at.
	slowest = 10 * time.Second
	// DefaultKeep bounds the archives that are listed, in bytes, where Config does not say.
	DefaultKeep = 1 << 30
)

// Config is what the routes are made of. Platform, Arena, Metagraph, Verifier, Documents and Dir are
// needed.
type Config struct {
	Platform Platform
	Arena    string // id of the policy-pack arena behind the routes
	// Metagraph reads the arena's subnet.
	Metagraph func(ctx context.Context) (*ledger.Metagraph, error)
	// BlockTime turns times into heights of blocks; 0: the newest block stands for all.
	BlockTime time.Duration
	Verifier  *dialect.Verifier // checks what is posted
	// Documents has reports, heartbeats, epochs, payloads, and the list of archives.
	Documents folder.Documents
	Dir       string // KeyDocument, and what an older program left there
	// Base is the URL under which these routes are reached, for links; nil: as the request names it.
	Base  func() string
	Model string // what agents run on, where no validator says so
	// Fresh is how old a public answer may be.
	Fresh time.Duration
	// Keep bounds the archives that are listed, in bytes: the oldest are dropped.
	Keep int64
	Now  func() time.Time
	Log  *slog.Logger
	// Fee is what an entry costs in alpha, in rao; 0: nothing. Chain tells what was recycled.
	Fee   int64
	Chain ledger.Burns
	// Epochs leads the field's validators: one submission after the other is open for their scores.
	Epochs bool
}

// Backend serves the routes.
type Backend struct {
	cfg Config
	dir folder.Documents

	last     atomic.Pointer[snapshot]
	stale    atomic.Bool // something was posted since
	building sync.Mutex  // held while a snapshot is made; guards memory
	memory   memory
	texts    texts

	freezing sync.Mutex // held while a snapshot of a window is read or made
	entering sync.Mutex // held while a pack is looked at and entered
	posts    posts
	book     *book // nil: the arena leads no epochs
	archives archives
	payloads payloads
	uploads  chan struct{} // holds a place per archive that is being read
}

// Route is one line of the table.
type Route struct {
	Pattern string // "METHOD /path"
	serve   func(*Backend, http.ResponseWriter, *http.Request)
}

// Routes is the table, in the order of the documentation.
func Routes() []Route {
	return []Route{
		{"GET /api/validators", (*Backend).validators},
		{"GET /api/scores/by-validator", (*Backend).scoresByValidator},
		{"GET /api/miners/{hotkey}", (*Backend).miner},
		{"GET /api/miners/{hotkey}/packs/{hash}", (*Backend).minerPack},
		{"GET /api/submissions", (*Backend).submissions},
		{"GET /api/eval-logs", (*Backend).evalLogs},

		{"GET /api/miners", (*Backend).miners},
		{"GET /api/challenge/state", (*Backend).challengeState},
		{"GET /api/queue", (*Backend).queue},
		{"GET /api/epoch/{id}", (*Backend).epoch},
		{"GET /api/v2/winner/current", (*Backend).winnerCurrent},
		{"GET /api/winner/history", (*Backend).winnerHistory},
		{"GET /api/validator/{hotkey}/activity", (*Backend).activity},
		{"GET /api/stats", (*Backend).stats},
		{"GET /api/previous-epoch", (*Backend).previousEpoch},
		{"GET /api/previous-epoch/miner-breakdown", (*Backend).minerBreakdown},
		{"GET /api/skills", (*Backend).skills},
		{"GET /api/skills/tags", (*Backend).skillTags},
		{"GET /api/skills/{slug}", (*Backend).skill},
		{"GET /api/skills/{slug}/SKILL.md", (*Backend).skillFile},

		{"GET /api/v2/leaderboard", (*Backend).leaderboard},
		{"GET /api/v2/scores/recent", (*Backend).scoresRecent},
		{"GET /api/v2/validators/progress", (*Backend).progress},
		{"GET /api/winners", (*Backend).winners},
		{"GET /api/nodes/status", (*Backend).nodes},
		{"GET /api/prices", (*Backend).prices},
		{"GET /api/bench", (*Backend).bench},
		{"GET /api/bench/miner-scores", (*Backend).benchMiner},

		{"GET /api/v2/epoch/current", (*Backend).epochCurrent},
		{"GET /api/v2/epoch/{id}/pack/{file}", (*Backend).epochPack},
		{"GET /api/v2/epochs", (*Backend).epochList},
		{"GET /api/v2/validators/epoch_snapshot", (*Backend).epochSnapshot},
		{"POST /api/v2/validators/epoch_snapshot", (*Backend).epochSnapshot},
		{"GET /api/v2/validators/epoch_snapshot/{hash}/{file}", (*Backend).frozenPack},
		{"POST /api/v2/epoch/{id}/score", (*Backend).epochScore},
		{"POST /api/v2/epoch/{id}/scenario_progress", (*Backend).scenarioProgress},

		{"GET /api/packs/{file}", (*Backend).packFile},
		{"GET /api/logs/{file}", (*Backend).logFile},

		{"POST /api/miners/pre-eval", (*Backend).preEval},
		{"POST /api/v2/miners/pre-eval", (*Backend).preEval2},
		{"POST /api/v2/miners/submit", (*Backend).submit},
		{"POST /api/validators/logs/upload", (*Backend).uploadLogs},
		{"POST /api/validators/logs/cycle", (*Backend).uploadCycle},
		{"POST /api/validators/heartbeat", (*Backend).heartbeat},
		{"POST /api/v2/validators/heartbeat", (*Backend).heartbeat},
		{"POST /api/v1/consensus/payload", (*Backend).putPayload},
		{"POST /api/v2/consensus/payload", (*Backend).putPayload},
		{"GET /c/{hash}", (*Backend).payload},
		{"POST /api/scores/submit", (*Backend).submitScore},
		{"POST /api/v2/scores/submit", (*Backend).submitScore},
	}
}

// Patterns are the prefixes that a server gives to New's handler. They leave
// the rest of /api/v1 to others.
func Patterns() []string {
	return []string{
		"/api/validators", "/api/validators/", "/api/scores/", "/api/miners", "/api/miners/", "/api/submissions", "/api/eval-logs", "/api/challenge/state", "/api/queue",
		"/api/epoch/", "/api/v2/", "/api/winner/", "/api/validator/", "/api/stats", "/api/previous-epoch", "/api/previous-epoch/", "/api/skills", "/api/skills/",
		"/api/winners", "/api/nodes/", "/api/prices", "/api/bench", "/api/bench/", "/api/packs/", "/api/logs/", "/api/v1/consensus/", "/c/",
	}
}

// New returns a handler of every route.
func New(ctx context.Context, c Config) (http.Handler, error) {
	if c.Platform == nil || c.Arena == "" || c.Metagraph == nil || c.Verifier == nil || c.Documents == nil || c.Dir == "" {
		return nil, errors.New("trajrl: Platform, Arena, Metagraph, Verifier, Documents and Dir are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Fresh <= 0 {
		c.Fresh = DefaultFresh
	}
	if c.Keep <= 0 {
		c.Keep = DefaultKeep
	}
	b := &Backend{cfg: c, dir: c.Documents, memory: newMemory(), uploads: make(chan struct{}, maxUploads)}
	if err := b.posts.load(ctx, b); err != nil {
		return nil, fmt.Errorf("trajrl: %w", err)
	}
	if c.Epochs {
		var err error
		if b.book, err = loadBook(b); err != nil {
			return nil, fmt.Errorf("trajrl: %w", err)
		}
	}
	m := http.NewServeMux()
	for _, r := range Routes() {
		m.HandleFunc(r.Pattern, func(w http.ResponseWriter, q *http.Request) { r.serve(b, w, q) })
	}
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fail(w, http.StatusNotFound, "Not found") })
	return m, nil
}

// anybody is who reads here: what the table of rights withholds from the
// public is in no answer. operator reads what an answer is worked out from.
var (
	anybody  platform.Caller
	operator = platform.Caller{Operator: true}
)

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // no value here can fail: floats are checked where they come in
		return []byte(`{"error":"Internal server error"}`)
	}
	return b
}

func send(w http.ResponseWriter, status int, b []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(b) // a client that is gone reads no error
}

func reply(w http.ResponseWriter, status int, v any) { send(w, status, encode(v)) }

// fail answers a read that cannot be answered.
func fail(w http.ResponseWriter, status int, text string) {
	reply(w, status, map[string]string{"error": text})
}

// broken answers an error of ours without telling about it.
func (b *Backend) broken(w http.ResponseWriter, what string, err error) {
	var e *agon.Error
	if errors.As(err, &e) && e.Status < 500 {
		fail(w, e.Status, e.Message)
		return
	}
	b.cfg.Log.Error("request failed", "what", what, "err", err)
	fail(w, http.StatusInternalServerError, "Internal server error")
}

// stamp writes a time with three digits of a second: the readers parse no other
// number of them. nil where there is none.
func stamp(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	s := t.UTC().Format("2006-01-02T15:04:05.000Z")
	return &s
}

// plain makes foreign text safe to print: no control characters, and none of
// the brackets that readers take for markup and stumble over.
func plain(s string, n int) string {
	var b strings.Builder
	for _, r := range s {
		if n--; n < 0 {
			b.WriteRune('…')
			break
		}
		switch {
		case r == '[':
			r = '('
		case r == ']':
			r = ')'
		case r == '\n' || r == '\t':
			r = ' '
		case r == '\ufffd' || !unicode.IsPrint(r):
			r = '·'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// base is the URL that links of an answer to r begin with.
func (b *Backend) base(r *http.Request) string {
	if b.cfg.Base != nil {
		return strings.TrimSuffix(b.cfg.Base(), "/")
	}
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}
