package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
)

// Times of sessions.
const (
	challengeTTL = 60 * time.Second
	sessionTTL   = 7200 * time.Second
)

// maxSessionBody bounds the body of a session request, in bytes.
const maxSessionBody = 8 << 10

// Keep remembers short-lived values. It is safe for concurrent use; what Put
// has stored is durable on return where sessions shall survive a restart.
type Keep interface {
	// Put stores value under key; it may be dropped after until.
	Put(ctx context.Context, key string, value []byte, until time.Time) error
	// Get returns the value, or nil when there is none (any more).
	Get(ctx context.Context, key string) ([]byte, error)
	// Take returns the value and removes it. Of many at once exactly one gets it.
	Take(ctx context.Context, key string) ([]byte, error)
}

// Sessions are ORO's bearer tokens, and the three routes that give and take them.
type Sessions struct {
	Keep     Keep
	Verifier *dialect.Verifier // for clock, membership and bans
	Need     dialect.Need      // what a session asks of its hotkey; the zero Need means Registered
	Prefix   string            // of challenges; "" = "bittensor-auth"
	// Role names the role of a member; nil = "validator" or "miner" by its permit.
	Role func(dialect.Member) string
}

type session struct {
	Hotkey    string `json:"hotkey"`
	Role      string `json:"role"`
	CreatedAt int64  `json:"created_at"`
}

type challenge struct {
	Hotkey    string `json:"hotkey"`
	Challenge string `json:"challenge"`
	CreatedAt int64  `json:"created_at"`
}

func (s *Sessions) need() dialect.Need {
	n := s.Need
	n.Registered = true
	return n
}

func (s *Sessions) role(m dialect.Member) string {
	switch {
	case s.Role != nil:
		return s.Role(m)
	case m.Validator:
		return "validator"
	default:
		return "miner"
	}
}

// sessionKey keeps no token, so that who reads the store cannot act as anybody.
func sessionKey(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "session:" + hex.EncodeToString(sum[:])
}

func randomHex(n int) (string, error) {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("read entropy: %w", err)
	}
	return hex.EncodeToString(b), nil
}

// Revoke ends every session that hotkey has now.
func (s *Sessions) Revoke(ctx context.Context, hotkey string) error {
	now := s.Verifier.Now()
	return s.Keep.Put(ctx, "session_revoked_after:"+hotkey, []byte(strconv.FormatInt(now.Unix(), 10)), now.Add(sessionTTL+time.Minute))
}

// lookup returns the session of a token, nil when there is none (any more).
func (s *Sessions) lookup(ctx context.Context, token string) (*session, error) {
	if len(token) > 256 {
		return nil, nil
	}
	raw, err := s.Keep.Get(ctx, sessionKey(token))
	if err != nil || raw == nil {
		return nil, err
	}
	var found session
	if json.Unmarshal(raw, &found) != nil || found.Hotkey == "" {
		return nil, nil
	}
	if s.Verifier.Now().Unix() > found.CreatedAt+int64(sessionTTL/time.Second) {
		return nil, nil // a Keep need not drop on time
	}
	stamp, err := s.Keep.Get(ctx, "session_revoked_after:"+found.Hotkey)
	if err != nil {
		return nil, err
	}
	if after, ok := dialect.Decimal(string(stamp)); ok && found.CreatedAt <= after {
		return nil, nil
	}
	return &found, nil
}

// splitBearer returns the token of an Authorization header.
func splitBearer(value string) (string, bool) {
	fields := strings.Fields(value)
	if len(fields) < 2 || !strings.EqualFold(fields[0], "bearer") {
		return "", false
	}
	return strings.TrimSpace(strings.TrimSpace(value)[len(fields[0]):]), true
}

func (o ORO) checkBearer(ctx context.Context, v *dialect.Verifier, r *dialect.Request, need dialect.Need) (dialect.Identity, *dialect.Refusal) {
	refuse := func(detail string) (dialect.Identity, *dialect.Refusal) {
		if o.Collapse && detail != "Hotkey is no longer registered" {
			return dialect.Identity{}, o.refuse(401, detail, "", nil)
		}
		return dialect.Identity{}, dialect.Plain(401, detail, nil)
	}
	value, _ := r.Get("Authorization")
	token, ok := splitBearer(value)
	if !ok {
		return refuse("Missing or invalid Authorization header")
	}
	found, err := o.Sessions.lookup(ctx, token)
	if err != nil {
		return dialect.Identity{}, dialect.PlainBroken(err)
	}
	if found == nil {
		return refuse("Invalid or expired session")
	}
	if v.Strict && r.Mutates() {
		return dialect.Identity{}, o.refuse(401, "REQUEST_NOT_BOUND", "Sign this request: a session is not bound to it", nil)
	}
	need.Registered = true // a session dies with the registration
	member, standing, err := v.Standing(ctx, found.Hotkey, need)
	switch {
	case standing == dialect.StandingGood:
		return dialect.Identity{Hotkey: found.Hotkey, Dialect: o.Name(), Session: true, Member: member}, nil
	case standing == dialect.StandingUnregistered || standing == dialect.StandingUnknown && errors.Is(err, dialect.ErrStale):
		return refuse("Hotkey is no longer registered")
	default:
		return dialect.Identity{}, o.standing(standing, need, err)
	}
}

// Handler serves POST /challenge, /session and /logout below wherever it is mounted.
func (s *Sessions) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, serve := range map[string]func(*http.Request) (any, *dialect.Refusal){
		"/challenge": s.challenge, "/session": s.session, "/logout": s.logout,
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			answer, refusal := serve(r)
			if refusal == nil {
				refusal = &dialect.Refusal{Status: http.StatusOK, Body: answer}
			}
			// A client that is gone reads no error.
			_ = refusal.Write(w)
		})
	}
	return mux
}

func (s *Sessions) challenge(r *http.Request) (any, *dialect.Refusal) {
	body, refusal := readFields(r, "hotkey")
	if refusal != nil {
		return nil, refusal
	}
	hotkey := body["hotkey"]
	if _, err := auth.ParseSS58(hotkey); err != nil {
		return nil, ORO{}.refuse(400, "INVALID_HOTKEY_FORMAT", "Invalid hotkey format", err)
	}
	prefix := s.Prefix
	if prefix == "" {
		prefix = "bittensor-auth"
	}
	nonce, err := randomHex(16)
	if err != nil {
		return nil, dialect.PlainBroken(err)
	}
	now := s.Verifier.Now()
	text := fmt.Sprintf("%s:%d:%s", prefix, now.Unix(), nonce)
	raw, err := json.Marshal(challenge{Hotkey: hotkey, Challenge: text, CreatedAt: now.Unix()})
	if err == nil {
		err = s.Keep.Put(r.Context(), "challenge:"+nonce, raw, now.Add(challengeTTL))
	}
	if err != nil {
		return nil, dialect.PlainBroken(err)
	}
	return struct {
		Challenge string `json:"challenge"`
		ExpiresAt int64  `json:"expires_at"`
	}{text, now.Add(challengeTTL).Unix()}, nil
}

func (s *Sessions) session(r *http.Request) (any, *dialect.Refusal) {
	body, refusal := readFields(r, "hotkey", "challenge", "signature")
	if refusal != nil {
		return nil, refusal
	}
	ctx, hotkey, text := r.Context(), body["hotkey"], body["challenge"]
	parts := strings.Split(text, ":")
	if len(parts) < 3 {
		return nil, dialect.Plain(401, "Invalid challenge format", nil)
	}
	nonce := parts[len(parts)-1]
	var raw []byte
	var err error
	if len(nonce) <= 64 {
		// Consumed before anything else is checked: a failed attempt burns it.
		if raw, err = s.Keep.Take(ctx, "challenge:"+nonce); err != nil {
			return nil, dialect.PlainBroken(err)
		}
	}
	var known challenge
	if raw == nil || json.Unmarshal(raw, &known) != nil {
		return nil, dialect.Plain(401, "Invalid or expired challenge", nil)
	}
	now := s.Verifier.Now()
	if now.Unix() > known.CreatedAt+int64(challengeTTL/time.Second) {
		return nil, dialect.Plain(401, "Invalid or expired challenge", nil) // a Keep need not drop on time
	}
	if known.Hotkey != hotkey {
		return nil, dialect.Plain(401, "Hotkey mismatch", nil)
	}
	if known.Challenge != text {
		return nil, dialect.Plain(401, "Challenge mismatch", nil)
	}
	pub, err := auth.ParseSS58(hotkey)
	sig, hexErr := dialect.Unhex(body["signature"], auth.SignatureSize)
	if err != nil || hexErr != nil || !dialect.Holds(pub, sig, []byte(text)) {
		return nil, dialect.Plain(401, "Invalid signature", nil)
	}
	member, standing, err := s.Verifier.Standing(ctx, hotkey, s.need())
	switch {
	case standing == dialect.StandingBanned:
		return nil, dialect.Plain(403, "Hotkey is banned", nil)
	case standing == dialect.StandingUnknown && !errors.Is(err, dialect.ErrStale):
		return nil, dialect.PlainBroken(err)
	case standing != dialect.StandingGood:
		return nil, dialect.Plain(401, "Not registered on subnet", nil)
	}
	secret, err := randomHex(32)
	if err != nil {
		return nil, dialect.PlainBroken(err)
	}
	token, role := "ses_"+secret, s.role(member)
	raw, err = json.Marshal(session{Hotkey: hotkey, Role: role, CreatedAt: now.Unix()})
	if err == nil {
		err = s.Keep.Put(ctx, sessionKey(token), raw, now.Add(sessionTTL))
	}
	if err != nil {
		return nil, dialect.PlainBroken(err)
	}
	return struct {
		Token     string `json:"session_token"`
		ExpiresAt int64  `json:"expires_at"`
		Role      string `json:"role"`
	}{token, now.Add(sessionTTL).Unix(), role}, nil
}

func (s *Sessions) logout(r *http.Request) (any, *dialect.Refusal) {
	value := r.Header.Get("Authorization")
	if value == "" {
		return nil, dialect.Plain(401, "Missing Authorization header", nil)
	}
	token, ok := splitBearer(value)
	if !ok {
		return nil, dialect.Plain(401, "Invalid Authorization header format", nil)
	}
	found, err := s.lookup(r.Context(), token)
	if err == nil && found != nil {
		_, err = s.Keep.Take(r.Context(), sessionKey(token))
	}
	if err != nil {
		return nil, dialect.PlainBroken(err)
	}
	if found == nil {
		return nil, dialect.Plain(401, "Invalid or expired session", nil)
	}
	return map[string]bool{"success": true}, nil
}

// readFields reads a JSON object's string fields, and refuses as FastAPI does.
func readFields(r *http.Request, names ...string) (map[string]string, *dialect.Refusal) {
	type problem struct {
		Type string   `json:"type"`
		Loc  []string `json:"loc"`
		Msg  string   `json:"msg"`
	}
	invalid := func(p ...problem) *dialect.Refusal {
		return &dialect.Refusal{Status: http.StatusUnprocessableEntity, Code: "schema", Body: map[string][]problem{"detail": p}}
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, maxSessionBody+1))
	if err != nil || len(b) > maxSessionBody {
		return nil, invalid(problem{"too_long", []string{"body"}, "Body is too large"})
	}
	if len(b) == 0 {
		return nil, invalid(problem{"missing", []string{"body"}, "Field required"})
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, invalid(problem{"json_invalid", []string{"body"}, "JSON decode error"})
	}
	out := map[string]string{}
	var problems []problem
	for _, name := range names {
		value, ok := raw[name]
		var s *string
		switch {
		case !ok:
			problems = append(problems, problem{"missing", []string{"body", name}, "Field required"})
		case json.Unmarshal(value, &s) != nil || s == nil:
			problems = append(problems, problem{"string_type", []string{"body", name}, "Input should be a valid string"})
		default:
			out[name] = *s
		}
	}
	if problems != nil {
		return nil, invalid(problems...)
	}
	return out, nil
}
