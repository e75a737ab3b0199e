package wire

import (
	"context"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/coding/signin"
)

// silence is how long a session lives without a sign of life.
const silence = time.Minute

// maxSessions bounds the sessions that are open at once.
const maxSessions = 2000

// What validators are told when they register.
const (
	agentSeconds = 2400
	evalSeconds  = 600
	maxLog       = 500_000
)

// session is a validator or screener that is connected. It is stored, so that
// it survives a restart of ours.
type session struct {
	ID        string    `json:"session_id"`
	Hotkey    string    `json:"hotkey"` // of a screener: its name
	Screener  string    `json:"screener,omitempty"`
	IP        string    `json:"ip"`
	Connected time.Time `json:"time_connected"`
	// Evaluation is what it works on; written under lock and Backend.mu, read under either.
	Evaluation string `json:"evaluation_id,omitempty"`

	lock sync.Mutex // one request of a session at a time, but heartbeats
	// guarded by Backend.mu
	seen    time.Time
	metrics any
	gone    bool
}

// caller is who holds the leases of a session.
func (s *session) caller() platform.Caller {
	if s.Screener != "" {
		return platform.Caller{Hotkey: platform.StaffName + s.Hotkey, Wire: wireName}
	}
	return platform.Caller{Hotkey: s.Hotkey, Wire: wireName}
}

// group is the evaluation group of a session's evaluations.
func (s *session) group() string {
	if s.Screener != "" {
		return "screener_" + s.Screener
	}
	return "validator"
}

// works notes what a session works on. Under s.lock.
func (b *Backend) works(s *session, evaluation string) {
	b.mu.Lock()
	s.Evaluation = evaluation
	b.mu.Unlock()
}

func (b *Backend) loadSessions() error {
	now := b.cfg.Now()
	return folder.Load(b.dir, "session-", func(_ string, s *session) {
		s.seen = now // while we were away they could not be heard
		b.sessions[s.ID] = s
	})
}

func (b *Backend) sessionOf(hotkey string) *session {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.sessions {
		if s.Hotkey == hotkey {
			return s
		}
	}
	return nil
}

// bearer finds the session of a request. ok is false when it has answered.
func (b *Backend) bearer(w http.ResponseWriter, r *http.Request) (*session, bool) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "Not authenticated")
		return nil, false
	}
	u, err := uuid.Parse(token)
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, "Invalid session ID format (expected a UUID).")
		return nil, false
	}
	b.mu.Lock()
	s := b.sessions[u.String()]
	b.mu.Unlock()
	if s == nil {
		refuse(w, http.StatusUnauthorized, "Session ID not found or expired.")
		return nil, false
	}
	return s, true
}

// held is bearer with the session to itself; done must be called.
func (b *Backend) held(w http.ResponseWriter, r *http.Request) (s *session, done func(), ok bool) {
	if s, ok = b.bearer(w, r); !ok {
		return nil, nil, false
	}
	s.lock.Lock()
	b.mu.Lock()
	gone := s.gone
	b.mu.Unlock()
	if gone {
		s.lock.Unlock()
		refuse(w, http.StatusUnauthorized, "Session ID not found or expired.")
		return nil, nil, false
	}
	return s, s.lock.Unlock, true
}

func (b *Backend) alive(s *session, metrics any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.seen = b.cfg.Now()
	if metrics != nil {
		s.metrics = metrics
	}
}

// registered answers a registration.
func (b *Backend) registered(w http.ResponseWriter, r *http.Request, hotkey, screener string, sameIP bool) {
	ip := auth.RemoteHost(r)
	if old := b.sessionOf(hotkey); old != nil {
		if sameIP && old.IP != ip {
			refuse(w, http.StatusConflict, "There is already a validator connected with the given hotkey.")
			return
		}
		b.drop(r.Context(), old, "it registered again", false)
	}
	s := &session{ID: uuid.NewString(), Hotkey: hotkey, Screener: screener, IP: ip, Connected: b.cfg.Now().UTC()}
	s.seen = s.Connected
	b.mu.Lock()
	full := len(b.sessions) >= maxSessions
	b.mu.Unlock()
	if full {
		refuse(w, http.StatusTooManyRequests, "Too many validators are connected, at most %d", maxSessions)
		return
	}
	if err := b.dir.Put("session-"+s.ID, s); err != nil {
		b.fail(w, "register", err)
		return
	}
	b.mu.Lock()
	b.sessions[s.ID] = s
	b.mu.Unlock()
	reply(w, http.StatusOK, map[string]any{
		"session_id": s.ID, "running_agent_timeout_seconds": agentSeconds, "running_eval_timeout_seconds": evalSeconds,
		"max_evaluation_run_log_size_bytes": maxLog, "environment_build_timeout_multiplier": 1.0,
	})
}

// registerValidator is POST /validator/register-as-validator. Any commit is taken:
// a client that is told of another one resets its checkout.
func (b *Backend) registerValidator(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Timestamp int64  `json:"timestamp"`
		Signed    string `json:"signed_timestamp"`
		Hotkey    string `json:"hotkey"`
		Commit    string `json:"commit_hash"`
	}
	if !decode(w, r, maxSmall, &in, "timestamp", "signed_timestamp", "hotkey", "commit_hash") {
		return
	}
	m, ok, err := b.cfg.Verifier.Members.Member(r.Context(), in.Hotkey)
	switch {
	case err != nil:
		refuse(w, http.StatusServiceUnavailable, "The ledger does not answer")
		return
	case !ok || !m.Validator:
		refuse(w, http.StatusForbidden, "The hotkey holds no validator permit on the arena's subnet.")
		return
	}
	if no := (signin.Ridges{}).CheckRegistration(r.Context(), b.cfg.Verifier, in.Hotkey, in.Timestamp, in.Signed); no != nil {
		refuse(w, no.Status, "%s", no.Code)
		return
	}
	b.registered(w, r, in.Hotkey, "", true)
}

var screenerName = lazyregexp.New(`^screener-(\d)-\d+$`)

// registerScreener is POST /validator/register-as-screener.
func (b *Backend) registerScreener(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name     string `json:"name"`
		Password string `json:"password"`
		Commit   string `json:"commit_hash"`
	}
	if !decode(w, r, maxSmall, &in, "name", "password", "commit_hash") {
		return
	}
	m := screenerName().FindStringSubmatch(in.Name)
	switch {
	case m == nil || len(in.Name) > 30:
		refuse(w, http.StatusBadRequest, "The provided name is not in the format screener-CLASS-NUM.")
	case m[1] != "1" && m[1] != "2":
		refuse(w, http.StatusBadRequest, "The screener class must be either 1 or 2.")
	case b.cfg.ScreenerPassword == "" || subtle.ConstantTimeCompare([]byte(in.Password), []byte(b.cfg.ScreenerPassword)) != 1:
		refuse(w, http.StatusForbidden, "The provided password is incorrect.")
	default:
		b.registered(w, r, in.Name, m[1], false)
	}
}

// drop ends a session. What it has not reported is played by others; given: it
// left in good order, which uses up no retry.
func (b *Backend) drop(ctx context.Context, s *session, why string, given bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	b.dropHeld(ctx, s, why, given)
}

// dropHeld is drop under s.lock.
func (b *Backend) dropHeld(ctx context.Context, s *session, why string, given bool) {
	b.mu.Lock()
	if s.gone {
		b.mu.Unlock()
		return
	}
	s.gone = true
	delete(b.sessions, s.ID)
	b.mu.Unlock()
	if s.Evaluation != "" {
		b.abandon(context.WithoutCancel(ctx), s, why, given)
	}
	if err := b.dir.Remove("session-" + s.ID); err != nil {
		b.cfg.Log.Error("remove a session", "err", err)
	}
}

// Sweep ends sessions that were silent for too long, and prolongs the leases of the others.
func (b *Backend) Sweep(ctx context.Context) {
	now := b.cfg.Now()
	b.mu.Lock()
	var lost []*session
	for _, s := range b.sessions {
		if now.Sub(s.seen) > silence {
			lost = append(lost, s)
		}
	}
	b.mu.Unlock()
	for _, s := range lost {
		s.lock.Lock()
		b.mu.Lock()
		still := now.Sub(s.seen) > silence
		b.mu.Unlock()
		if still {
			b.dropHeld(ctx, s, "it sent no heartbeat for 60 seconds", false)
		}
		s.lock.Unlock()
	}
}

// heartbeat is POST /validator/heartbeat.
func (b *Backend) heartbeat(w http.ResponseWriter, r *http.Request) {
	s, ok := b.bearer(w, r)
	if !ok {
		return
	}
	var in struct {
		Metrics *struct {
			CPU        *float64 `json:"cpu_percent"`
			RAM        *float64 `json:"ram_percent"`
			RAMTotal   *float64 `json:"ram_total_gb"`
			Disk       *float64 `json:"disk_percent"`
			DiskTotal  *float64 `json:"disk_total_gb"`
			Containers *int64   `json:"num_containers"`
		} `json:"system_metrics"`
	}
	if !decode(w, r, maxSmall, &in, "system_metrics") {
		return
	}
	b.alive(s, in.Metrics)
	b.prolong(r.Context(), s)
	reply(w, http.StatusOK, struct{}{})
}

// disconnect is POST /validator/disconnect.
func (b *Backend) disconnect(w http.ResponseWriter, r *http.Request) {
	s, done, ok := b.held(w, r)
	if !ok {
		return
	}
	defer done()
	var in struct {
		Reason string `json:"reason"`
	}
	if !decode(w, r, maxSmall, &in, "reason") {
		return
	}
	b.dropHeld(r.Context(), s, "it left: "+clip(in.Reason, 200), true)
	reply(w, http.StatusOK, struct{}{})
}

// connected is GET /validator/connected-validators-info.
func (b *Backend) connected(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	list := make([]*session, 0, len(b.sessions))
	for _, s := range b.sessions {
		list = append(list, s)
	}
	f := b.flags
	type info struct {
		status, evaluation string
		seen               time.Time
		metrics            any
	}
	at := map[*session]info{}
	for _, s := range list {
		i := info{"available", s.Evaluation, s.seen, s.metrics}
		switch {
		case f.Paused || slices.Contains(f.Black, s.Hotkey):
			i.status = "paused"
		case s.Evaluation != "" && s.Screener != "":
			i.status = "screening"
		case s.Evaluation != "":
			i.status = "evaluating"
		}
		at[s] = i
	}
	b.mu.Unlock()
	slices.SortFunc(list, func(a, c *session) int { return strings.Compare(a.Hotkey, c.Hotkey) })
	out := []any{}
	for _, s := range list {
		row := map[string]any{
			"name": s.Hotkey, "hotkey": s.Hotkey, "time_connected": stamp(s.Connected), "status": at[s].status,
			"time_last_heartbeat": stamp(at[s].seen), "system_metrics": at[s].metrics, "evaluation": nil, "agent": nil,
		}
		if e, ok := b.evaluation(at[s].evaluation); ok {
			row["evaluation"] = e.public()
			if p, err := b.public(r.Context(), b.submissionOf(e.Agent)); err == nil {
				row["agent"] = p
			}
		}
		out = append(out, row)
	}
	reply(w, http.StatusOK, out)
}
