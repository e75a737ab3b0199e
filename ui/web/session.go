package web

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
)

// A browser holds no key. Someone who does asks for a sign-in with a signed
// request (`agon web login`) and gets a link that works once, within a minute;
// the link gives the browser a cookie for half a day.
const (
	codeLife    = time.Minute
	sessionLife = 12 * time.Hour
	maxSessions = 10_000
	maxPerKey   = 5 // of one hotkey; the oldest ends for a sixth
	cookieName  = "agon_session"
)

// Keep remembers sessions for all servers and over restarts; *platform.Keep implements it.
type Keep interface {
	// Put stores value under key until a time; it is durable on return.
	Put(ctx context.Context, key string, value []byte, until time.Time) error
	// PutFew is Put, after which at most few keys have this value: those that end first go.
	PutFew(ctx context.Context, key string, value []byte, until time.Time, few int) error
	// Get returns the value, or nil when there is none (any more).
	Get(ctx context.Context, key string) ([]byte, error)
	// Take returns the value and removes it. Of many at once exactly one gets it.
	Take(ctx context.Context, key string) ([]byte, error)
}

// sessions are those who signed in, by the hash of their secret. What is in memory bounds
// how many there are; where another server gave one out it is in keep alone.
type sessions struct {
	now   func() time.Time
	first string // the operator's hotkey: there is always room for it
	keep  Keep   // nil: a restart signs everybody out
	mu    sync.Mutex
	codes map[[32]byte]held
	live  map[[32]byte]held
}

type held struct {
	hotkey string
	until  time.Time
}

func newSessions(now func() time.Time, operator string, keep Keep) *sessions {
	return &sessions{now: now, first: operator, keep: keep, codes: map[[32]byte]held{}, live: map[[32]byte]held{}}
}

// key is what keep knows a session by.
func (s *sessions) key(live bool, k [32]byte) string {
	if live {
		return "live " + hex.EncodeToString(k[:])
	}
	return "code " + hex.EncodeToString(k[:])
}

// put stores a fresh secret among the live ones or the codes and returns it; only its hash is
// kept. A key costs nothing, so each has a few, and where strangers hold all there are the
// operator takes the place of one.
func (s *sessions) put(ctx context.Context, live bool, hotkey string, life time.Duration) (string, error) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	secret := base64.RawURLEncoding.EncodeToString(b[:])
	k := sha256.Sum256([]byte(secret))
	until := s.now().Add(life)
	gone, err := s.hold(live, k, held{hotkey, until})
	if err != nil || s.keep == nil {
		return secret, err
	}
	if gone != nil {
		if _, err := s.keep.Take(ctx, s.key(live, *gone)); err != nil {
			return "", err
		}
	}
	if live { // servers of before have given some to this key
		return secret, s.keep.PutFew(ctx, s.key(live, k), []byte(hotkey), until, maxPerKey)
	}
	return secret, s.keep.Put(ctx, s.key(live, k), []byte(codeValue+hotkey), until)
}

// codeValue begins what is kept of a code: it is not counted as a session.
const codeValue = "code "

func (s *sessions) in(live bool) map[[32]byte]held {
	if live {
		return s.live
	}
	return s.codes
}

// hold makes room and notes a secret; gone is the one that had to end for it.
func (s *sessions) hold(live bool, k [32]byte, of held) (gone *[32]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, now := s.in(live), s.now()
	var own, any [32]byte // the oldest of this key, and of all
	n := 0
	for k, h := range m {
		if !now.Before(h.until) {
			delete(m, k)
			continue
		}
		if o, ok := m[any]; !ok || h.until.Before(o.until) {
			any = k
		}
		if h.hotkey != of.hotkey {
			continue
		}
		if o, ok := m[own]; !ok || h.until.Before(o.until) {
			own = k
		}
		n++
	}
	switch {
	case n >= maxPerKey:
		delete(m, own)
		gone = &own
	case len(m) < maxSessions:
	case of.hotkey == s.first:
		delete(m, any)
		gone = &any
	default:
		return nil, &agon.Error{Code: "too_many_sessions", Status: 503, Message: "too many are signed in", Mend: "try again later"}
	}
	m[k] = of
	return gone, nil
}

// take returns who a secret stands for; once removes it.
func (s *sessions) take(ctx context.Context, live bool, secret string, once bool) (string, bool, error) {
	if len(secret) != 43 {
		return "", false, nil
	}
	k := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	h, ok := s.in(live)[k]
	if ok && once {
		delete(s.in(live), k)
	}
	s.mu.Unlock()
	if s.keep == nil || ok && !once {
		return h.hotkey, ok && s.now().Before(h.until), nil
	}
	// Of many servers that are asked exactly one has a code; a session may be another's.
	get := s.keep.Get
	if once {
		get = s.keep.Take
	}
	b, err := get(ctx, s.key(live, k))
	return strings.TrimPrefix(string(b), codeValue), b != nil, err
}

// of returns the hotkey that a request's cookie stands for, none where the store does not answer.
func (s *sessions) of(r *http.Request) (hotkey, token string) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return "", ""
	}
	hotkey, ok, err := s.take(r.Context(), true, c.Value, false)
	if err != nil || !ok {
		return "", ""
	}
	return hotkey, c.Value
}

// openSession is POST /web/sessions, signed (agon-v1): it answers with the
// path of a sign-in that works once.
func (s *server) openSession(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	fail := func(status int, code, msg string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"status": status, "code": code, "detail": msg})
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<10))
	if err != nil {
		fail(http.StatusRequestEntityTooLarge, "too_large", "the body is over 4096 bytes")
		return
	}
	hotkey, err := s.cfg.Verifier.VerifyRequest(r.Context(), r.Method, r.URL.RequestURI(), r.Header, body)
	if err != nil {
		var e *agon.Error
		if errors.As(err, &e) {
			fail(e.Status, e.Code, e.Message)
			return
		}
		fail(http.StatusUnauthorized, "unsigned", "this needs an agon-v1 signature")
		return
	}
	code, err := s.sessions.put(r.Context(), false, hotkey, codeLife)
	if err != nil {
		fail(http.StatusServiceUnavailable, "too_many_sessions", "too many are signing in")
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"path": "/signin?code=" + code, "hotkey": hotkey, "expires_in_s": int(codeLife.Seconds())})
}

// signInPage asks for a click, so that nothing that only fetches the link uses it up.
func (s *server) signInPage(q *request) error {
	data := struct {
		base
		Code string
	}{q.base("Sign in", ""), q.URL.Query().Get("code")}
	return s.render(q, http.StatusOK, "signin", data)
}

func (s *server) signIn(q *request) error {
	if err := q.form(); err != nil {
		return err
	}
	hotkey, ok, err := s.sessions.take(q.Context(), false, q.PostForm.Get("code"), true)
	if err != nil {
		return err
	}
	if !ok {
		return &agon.Error{Code: "bad_code", Status: 403, Message: "This link was used before or is older than a minute.", Mend: "Make another with agon web login."}
	}
	token, err := s.sessions.put(q.Context(), true, hotkey, sessionLife)
	if err != nil {
		return err
	}
	http.SetCookie(q.w, &http.Cookie{
		Name: cookieName, Value: token, Path: "/", MaxAge: int(sessionLife.Seconds()),
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: q.TLS != nil || q.Header.Get("X-Forwarded-Proto") == "https",
	})
	to := "/"
	if hotkey == s.cfg.Server.Operator {
		to = "/operator"
	}
	http.Redirect(q.w, q.Request, to, http.StatusSeeOther)
	return nil
}

func (s *server) signOut(q *request) error {
	if q.token != "" {
		if _, _, err := s.sessions.take(q.Context(), true, q.token, true); err != nil {
			return err
		}
	}
	http.SetCookie(q.w, &http.Cookie{Name: cookieName, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	http.Redirect(q.w, q.Request, "/", http.StatusSeeOther)
	return nil
}

// form reads a posted form of at most 64 KB.
func (q *request) form() error {
	q.Body = http.MaxBytesReader(q.w, q.Body, 64<<10)
	if err := q.ParseForm(); err != nil {
		return &agon.Error{Code: "bad_form", Status: 400, Message: "The form could not be read.", Err: err}
	}
	return nil
}
