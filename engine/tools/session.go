package tools

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
)

// Statuses of a session.
const (
	StatusActive    = "active"
	StatusExhausted = "exhausted"
	StatusError     = "error"
	StatusTimedOut  = "timed_out"
	StatusCompleted = "completed"
)

// SessionConfig is one session: one (task, script, attempt).
type SessionConfig struct {
	ID string // uuid; empty: a new one
	// Run, Attempt and Task say what the session is played for; receipts in the books name them.
	Run     string
	Attempt int
	Task    string
	UID     int // of the miner; the seed demands ≥ 1, which is the caller's business
	// Budget in micro-dollars; it is reserved before each call, so that it is
	// never passed. 0 allows only what is free.
	Budget agon.Micros
	TTL    time.Duration // default 5 min
	// Parallel bounds calls in flight (default 1). Queue false rejects what is
	// above it, as the seed does; true lets it wait its turn, first come first served.
	Parallel int
	Queue    bool
	// MaxCalls bounds all calls, refused ones too; default 2000.
	MaxCalls int
	// Models is the allow-list of llm_chat; nil means SeedModels.
	Models map[string]ModelPrice
	// Query gives the session the tools of scripts that answer queries instead.
	Query *QueryTools
	// LLM, Search, Pages, Items and Repo are the session's back ends; nil means the
	// host's. A tool whose back end is missing answers "session not found",
	// the seed's word for it.
	LLM    LLM
	Search Search
	Pages  Pages
	Items  Items
	Repo   Repo
	// Of gives the back ends of a provider that a call of QueryTools names, where the
	// session has some for it; nil ones are those above.
	Of func(provider string) (LLM, Search)
	// Record gets every receipt as it is written, one at a time. Optional.
	Record func(Receipt)
}

// Evidence is what the host itself saw of its back ends: the only thing that
// may move blame from a script to a provider.
type Evidence struct {
	Calls          int    `json:"calls"`
	ProviderErrors int    `json:"provider_errors"`
	LastError      string `json:"last_error,omitempty"`
	// CanaryFailed says that the host's own probe of the same back end failed too.
	CanaryFailed bool `json:"canary_failed,omitempty"`
	// Recovered says that a call of the same kind succeeded after the last failure.
	Recovered   bool `json:"recovered,omitempty"`
	AgentErrors int  `json:"agent_errors,omitempty"` // refused calls
}

// Session is open until Close or its TTL. Safe for concurrent use.
type Session struct {
	host   *Host
	cfg    SessionConfig
	id     string
	token  string // kept by the opener only; the host compares hashes
	digest [32]byte
	issued time.Time

	slots chan struct{}

	mu       sync.Mutex
	status   string // guarded by mu
	purse    *gateway.Purse
	receipts []Receipt     // guarded by mu
	kept     int64         // bytes of payloads in receipts; guarded by mu
	calls    int           // with the right token; guarded by mu
	waiting  int           // for a place; guarded by mu
	ev       Evidence      // guarded by mu
	closed   bool          // guarded by mu
	active   int           // guarded by mu
	idle     chan struct{} // closed when closed and active == 0

	recMu  sync.Mutex // orders Record
	ctx    context.Context
	cancel context.CancelFunc
}

const (
	defaultTTL      = 5 * time.Minute
	defaultMaxCalls = 2000
	// maxKept bounds the payloads held for a session; hashes cover everything.
	maxKept = 32 << 20
	// closeWait bounds how long Close waits for calls under way.
	closeWait = 10 * time.Second
)

// Open makes a session on the host.
func (h *Host) Open(c SessionConfig) (*Session, error) {
	if c.ID == "" {
		c.ID = uuid.NewString()
	} else if u, err := uuid.Parse(c.ID); err != nil || u.String() != c.ID {
		return nil, fmt.Errorf("open tool session: id %q is not a uuid", c.ID)
	}
	if c.TTL <= 0 {
		c.TTL = defaultTTL
	}
	if c.Parallel <= 0 {
		c.Parallel = 1
	}
	if c.MaxCalls <= 0 {
		c.MaxCalls = defaultMaxCalls
	}
	if c.Models == nil {
		c.Models = SeedModels()
	}
	c.Models = maps.Clone(c.Models)
	if c.LLM == nil {
		c.LLM = h.cfg.LLM
	}
	if c.Search == nil {
		c.Search = h.cfg.Search
	}
	if c.Pages == nil {
		c.Pages = h.cfg.Pages
	}
	if c.Items == nil {
		c.Items = h.cfg.Items
	}
	if c.Query != nil && c.Query.Models == nil {
		c.Query = &QueryTools{Models: QueryModels()}
	}
	if c.Repo == nil {
		c.Repo = h.cfg.Repo
	}
	var raw [16]byte
	if _, err := rand.Read(raw[:]); err != nil {
		return nil, fmt.Errorf("open tool session: %w", err)
	}
	s := &Session{
		host: h, cfg: c, id: c.ID, token: base64.RawURLEncoding.EncodeToString(raw[:]), issued: h.cfg.Now().UTC(),
		slots: make(chan struct{}, c.Parallel), status: StatusActive, idle: make(chan struct{}),
	}
	s.digest = blake2b.Sum256([]byte(s.token))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	// A chain of its own: the run's is the gateway's, which may be elsewhere.
	chain := "tools/" + s.id
	if c.Run != "" {
		chain = c.Run + "/" + chain
	}
	var err error
	if s.purse, err = h.cfg.Books.Purse(s.ctx, chain, max(c.Attempt, 1), "tools", agon.Budget{Micros: c.Budget, Calls: int64(c.MaxCalls)}); err != nil {
		s.cancel()
		return nil, fmt.Errorf("open tool session: %w", err)
	}
	if err := h.enter(s); err != nil {
		_ = s.purse.Close(s.ctx) // nothing was reserved
		s.cancel()
		return nil, fmt.Errorf("open tool session: %w", err)
	}
	return s, nil
}

// enter puts a session among the open ones.
func (h *Host) enter(s *Session) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stopped {
		return errors.New("the host was stopped")
	}
	if _, ok := h.sessions[s.id]; ok {
		return fmt.Errorf("%s is open already", s.id)
	}
	h.sessions[s.id] = s
	return nil
}

// ID is the session's uuid.
func (s *Session) ID() string { return s.id }

// Token is what a script presents: 16 random bytes, URL-safe Base64.
func (s *Session) Token() string { return s.token }

// IssuedAt and ExpiresAt bound the session's life.
func (s *Session) IssuedAt() time.Time  { return s.issued }
func (s *Session) ExpiresAt() time.Time { return s.issued.Add(s.cfg.TTL) }

// Budget is what the session may spend at most.
func (s *Session) Budget() agon.Micros { return s.cfg.Budget }

// Spent is what was settled.
func (s *Session) Spent() agon.Micros {
	spent, _ := s.purse.Balance()
	return spent.Micros
}

// Status is where the session stands.
func (s *Session) Status() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Receipts returns those of successful calls, in order: what citations are
// hydrated from, and all that the seed's validators write.
func (s *Session) Receipts() []Receipt {
	return slices.DeleteFunc(s.Log(), func(r Receipt) bool { return r.Outcome != OutcomeOK })
}

// Log returns every receipt, those of calls that failed too.
func (s *Session) Log() []Receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.receipts)
}

// Evidence is what the host saw of its back ends.
func (s *Session) Evidence() Evidence {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ev
}

// Close ends the session with a status (StatusCompleted, StatusTimedOut,
// StatusError): later calls are refused, calls under way are cut off and
// settled at what they reserved. It returns when none is open, or after 10 s.
// Calling it again changes nothing.
func (s *Session) Close(status string) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	if s.status == StatusActive {
		s.status = status
	}
	if s.active == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	s.cancel()
	t := time.NewTimer(closeWait)
	defer t.Stop()
	select {
	case <-s.idle:
	case <-t.C:
	}
	s.host.mu.Lock()
	delete(s.host.sessions, s.id)
	s.host.mu.Unlock()
	if err := s.purse.Close(context.WithoutCancel(s.ctx)); err != nil {
		// What a call holds that never ended is released when the books are opened next.
		s.host.cfg.Log.Error("close tool session", "session", s.id, "error", err)
	}
}

// enter admits a call. The order of the checks is the seed's: permit, session
// active, not expired, then token. The seed keeps permits by token, so a wrong
// token never meets a busy session.
func (s *Session) enter(ctx context.Context, token string) (leave func(), text string) {
	sum := blake2b.Sum256([]byte(token))
	right := subtle.ConstantTimeCompare(sum[:], s.digest[:]) == 1
	if right {
		select {
		case s.slots <- struct{}{}:
		default:
			if !s.cfg.Queue {
				s.refused()
				return nil, TextConcurrency
			}
			if text := s.wait(ctx); text != "" {
				return nil, text
			}
		}
	}
	release := func() {
		if right {
			<-s.slots
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if right { // nobody else uses up the script's calls
		s.calls++
	}
	switch {
	case s.closed, s.status != StatusActive, !s.host.cfg.Now().Before(s.ExpiresAt()), s.calls > s.cfg.MaxCalls:
		release()
		if right {
			s.ev.AgentErrors++
		}
		return nil, TextFailed
	case !right:
		release()
		return nil, TextToken
	}
	s.active++
	return func() {
		s.mu.Lock()
		if s.active--; s.active == 0 && s.closed {
			close(s.idle)
		}
		s.mu.Unlock()
		release()
	}, ""
}

// maxWaiting bounds the calls of a session that wait for a place.
const maxWaiting = 256

func (s *Session) wait(ctx context.Context) string {
	s.mu.Lock()
	if s.waiting >= maxWaiting {
		s.mu.Unlock()
		return TextFailed
	}
	s.waiting++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.waiting--
		s.mu.Unlock()
	}()
	select {
	case s.slots <- struct{}{}:
		return ""
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return TextFailed
}

func (s *Session) refused() {
	s.mu.Lock()
	s.ev.AgentErrors++
	s.mu.Unlock()
}

// left is what is neither spent nor held.
func (s *Session) left() agon.Micros {
	_, left := s.purse.Balance()
	return left.Micros
}

func (s *Session) reserve(id string, m agon.Micros) error {
	return s.purse.Reserve(id, gateway.Amount{Micros: m, Calls: 1})
}

// settle books what a call used, at most what it reserved, signs that and fills
// in the receipt's cost. It returns when all of it is durable.
func (s *Session) settle(r *Receipt, m agon.Micros) error {
	response := agon.Sum(nil)
	if r.ResponseHash != "" {
		response = agon.Digest(agon.DigestPrefix + r.ResponseHash)
	}
	end := s.host.cfg.Now().UTC()
	signed := &agon.Receipt{
		ID: r.ReceiptID, Session: s.id, Task: s.cfg.Task, Payer: "run", Route: Path, Model: r.Tool, Provider: r.Backend,
		RequestHash: agon.Digest(agon.DigestPrefix + hexSum(r.Request)), ResponseHash: response, Prompt: r.Prompt, Completion: r.Completion,
		PriceVersion: s.host.cfg.PriceVersion, Reserved: r.Reserved, Status: http.StatusOK, Outcome: OutcomeOK, Start: r.IssuedAt, End: end,
	}
	if r.Outcome != OutcomeOK {
		signed.Status, signed.Outcome = http.StatusBadRequest, OutcomeProvider
	}
	booked, err := s.purse.Settle(context.WithoutCancel(s.ctx), r.ReceiptID, gateway.Amount{Micros: m, Calls: 1}, signed)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		// The host's own failure, as bad as a provider's: no script may pay for it.
		s.ev.ProviderErrors++
		s.ev.LastError, s.ev.CanaryFailed, s.ev.Recovered = "books", true, false
		return fmt.Errorf("settle tool call %s: %w", r.ReceiptID, err)
	}
	r.Cost, r.Signed = booked.Micros, signed
	return nil
}

// write keeps a receipt and hands it on.
func (s *Session) write(r Receipt) {
	s.recMu.Lock()
	defer s.recMu.Unlock()
	s.mu.Lock()
	size := int64(len(r.Request) + len(r.Response))
	if s.kept+size > maxKept {
		r.Request, r.Response = nil, nil // the hashes stay
	} else {
		s.kept += size
	}
	s.receipts = append(s.receipts, r)
	s.mu.Unlock()
	if s.cfg.Record != nil {
		s.cfg.Record(r)
	}
}

// snapshot is the budget as answers show it.
func (s *Session) snapshot() map[string]any {
	used := s.Spent()
	return map[string]any{
		"session_budget_usd": usd(s.cfg.Budget), "session_hard_limit_usd": usd(s.cfg.Budget),
		"session_used_budget_usd": usd(used), "session_remaining_budget_usd": usd(max(s.cfg.Budget-used, 0)),
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func hexSum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
