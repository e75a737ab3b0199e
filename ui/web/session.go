package web

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
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

type sessions struct {
	now   func() time.Time
	first string // the operator's hotkey: there is always room for it
	mu    sync.Mutex
	codes map[[32]byte]held
	live  map[[32]byte]held
}

type held struct {
	hotkey string
	until  time.Time
}

func newSessions(now func() time.Time, operator string) *sessions {
	return &sessions{now: now, first: operator, codes: map[[32]byte]held{}, live: map[[32]byte]held{}}
}

// put stores a fresh secret in m and returns it; only its hash is kept. A key
// costs nothing, so each has a few, and where strangers hold all there are the
// operator takes the place of one.
func (s *sessions) put(m map[[32]byte]held, hotkey string, life time.Duration) (string, error) {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	secret := base64.RawURLEncoding.EncodeToString(b[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
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
		if h.hotkey != hotkey {
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
	case len(m) < maxSessions:
	case hotkey == s.first:
		delete(m, any)
	default:
		return "", &agon.Error{Code: "too_many_sessions", Status: 503, Message: "too many are signed in", Mend: "try again later"}
	}
	m[sha256.Sum256([]byte(secret))] = held{hotkey, now.Add(life)}
	return secret, nil
}

// take returns who a secret stands for; once removes it.
func (s *sessions) take(m map[[32]byte]held, secret string, once bool) (string, bool) {
	if len(secret) != 43 {
		return "", false
	}
	k := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := m[k]
	if ok && once {
		delete(m, k)
	}
	return h.hotkey, ok && s.now().Before(h.until)
}

// of returns who a request's cookie stands for.
func (s *sessions) of(r *http.Request) (hotkey, token string) {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return "", ""
	}
	hotkey, ok := s.take(s.live, c.Value, false)
	if !ok {
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
	code, err := s.sessions.put(s.sessions.codes, hotkey, codeLife)
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
	hotkey, ok := s.sessions.take(s.sessions.codes, q.PostForm.Get("code"), true)
	if !ok {
		return &agon.Error{Code: "bad_code", Status: 403, Message: "This link was used before or is older than a minute.", Mend: "Make another with agon web login."}
	}
	token, err := s.sessions.put(s.sessions.live, hotkey, sessionLife)
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
		s.sessions.take(s.sessions.live, q.token, true)
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
