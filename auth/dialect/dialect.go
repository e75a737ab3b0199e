// Package dialect checks signed requests in the forms that arenas of this field
// speak. One Verifier tries its dialects; each is a straight list of checks in
// the order, and with the answers, that its clients know (docs/auth.md). The
// dialects of one arena stand with its kind; here stands what they share.
//
// Common are signatures with the <Bytes> form of browser wallets, replays,
// membership of the subnet, bans. What a dialect cannot do (a signature that
// does not cover the body, or has no time) is its Identity's Bound;
// Verifier.Strict refuses what can be replayed or moved to another request.
package dialect

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth"
)

// Headers that several forms share.
const (
	HeaderHotkey    = "X-Hotkey"
	HeaderTimestamp = "X-Timestamp"
	HeaderNonce     = "X-Nonce"
	HeaderSignature = "X-Signature"
)

// Forever is how long Strict remembers a signature of a form that signs no time.
const Forever = 10 * 365 * 24 * time.Hour

// Request is a request as it came.
type Request struct {
	Method string
	Path   string // escaped as on the request line; without a mount prefix that clients do not sign
	Query  string // raw, without "?"
	Header http.Header
	Body   []byte // all of it, bounded by the caller
}

// NewRequest takes over a server's request, whose body the caller has read.
func NewRequest(r *http.Request, body []byte) *Request {
	path, query, _ := strings.Cut(auth.RequestTarget(r), "?")
	return &Request{Method: r.Method, Path: path, Query: query, Header: r.Header, Body: body}
}

// Target is path and query as on the request line, without "?" when the query is empty.
func (r *Request) Target() string {
	if r.Query == "" {
		return r.Path
	}
	return r.Path + "?" + r.Query
}

// Mutates reports whether the request may change something.
func (r *Request) Mutates() bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}

// Get returns a header's text and whether it is there. One given twice reads
// as HTTP joins them, so that no two readers see different values.
func (r *Request) Get(name string) (string, bool) {
	all := r.Header.Values(name)
	return strings.Join(all, ", "), len(all) > 0
}

// Any reports whether any of these headers is there.
func (r *Request) Any(names ...string) bool {
	for _, n := range names {
		if len(r.Header.Values(n)) > 0 {
			return true
		}
	}
	return false
}

// Identity is who made a request.
type Identity struct {
	Hotkey  string // SS58, prefix 42
	Dialect string
	At      time.Time // as signed; zero where the dialect signs no time
	// Bound says that the signature covers method, path, query and body.
	Bound bool
	// Session says that a bearer token stood for the signature.
	Session bool
	Member  Member // zero when no membership was asked for
}

// Refusal is why a request is not let in, in the words of its dialect.
type Refusal struct {
	Status int
	Code   string // the dialect's code; where it has none, its text
	Body   any    // the JSON answer
	Err    error  // the cause, for logs only
}

func (r *Refusal) Error() string {
	if r.Err != nil {
		return r.Code + ": " + r.Err.Error()
	}
	return r.Code
}

func (r *Refusal) Unwrap() error { return r.Err }

// JSON is the answer's body.
func (r *Refusal) JSON() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r.Body); err != nil {
		panic("dialect: a refusal does not encode: " + err.Error()) // bodies are made here, of strings
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}

// Write answers w.
func (r *Refusal) Write(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.Status)
	_, err := w.Write(r.JSON())
	return err
}

// broken is the answer when we ourselves failed; body is in the dialect's shape.
func broken(body any, err error) *Refusal {
	return &Refusal{Status: http.StatusInternalServerError, Code: "internal", Body: body, Err: err}
}

// Plain is a refusal whose body is {"detail": text}. err is the cause, for logs
// only; nil where the text says all.
func Plain(status int, detail string, err error) *Refusal {
	return &Refusal{Status: status, Code: detail, Body: map[string]string{"detail": detail}, Err: err}
}

// PlainBroken is the refusal when we ourselves failed, in plain form.
func PlainBroken(err error) *Refusal {
	return broken(map[string]string{"detail": "Internal Server Error"}, err)
}

// PlainStanding is the refusal of a standing in plain form; nil for a good one.
func PlainStanding(s Standing, err error) *Refusal {
	detail := map[Standing]string{
		StandingUnregistered: "Hotkey is not registered", StandingNoValidator: "Hotkey is not a validator",
		StandingNotOwner: "Hotkey belongs to another coldkey", StandingBanned: "Hotkey is banned",
	}[s]
	switch {
	case s == StandingGood:
		return nil
	case errors.Is(err, ErrStale):
		return Plain(http.StatusServiceUnavailable, "Metagraph is too old", err)
	case s == StandingUnknown:
		return PlainBroken(err)
	default:
		return Plain(http.StatusForbidden, detail, nil)
	}
}

// Dialect is one form of signed request. Implementations are immutable and safe
// for concurrent use.
type Dialect interface {
	// Name names the dialect in logs and in the replay guard: lower case, at most 40 bytes.
	Name() string
	// Speaks reports whether r carries any mark of this dialect. Such a request
	// must pass Check: it is never tried as something else.
	Speaks(r *Request) bool
	// Check reads r and lets it in or not, by the checks of v in the dialect's
	// own order. It records a nonce only after the signature held.
	Check(ctx context.Context, v *Verifier, r *Request, need Need) (Identity, *Refusal)
}

// Verifier checks requests in any of its dialects.
type Verifier struct {
	// Dialects are tried in order. A request that speaks none is refused by the first.
	Dialects []Dialect
	Now      func() time.Time // required
	Replay   auth.ReplayGuard // required
	// Members tells who is on the subnet; nil means that nobody is.
	Members Registry
	// Banned reports whether a hotkey is shut out; nil means that nobody is.
	Banned func(ctx context.Context, hotkey string) (bool, error)
	// Strict refuses what a dialect leaves open: docs/auth.md says what that breaks.
	Strict bool
}

// Verify returns who signed r and meets need, or the refusal to answer with.
func (v *Verifier) Verify(ctx context.Context, r *Request, need Need) (Identity, *Refusal) {
	if len(v.Dialects) == 0 {
		return Identity{}, broken(map[string]string{"error": "internal"}, errors.New("verifier has no dialect"))
	}
	chosen := v.Dialects[0]
	for _, d := range v.Dialects {
		if d.Speaks(r) {
			chosen = d
			break
		}
	}
	return chosen.Check(ctx, v, r, need)
}

// Once records nonce and reports whether it is fresh. Long nonces are recorded by their hash.
func (v *Verifier) Once(ctx context.Context, scheme, hotkey, nonce string, until time.Time) (bool, error) {
	if len(nonce) > 100 {
		sum := sha256.Sum256([]byte(nonce))
		nonce = "sha256:" + hex.EncodeToString(sum[:])
	}
	return v.Replay.Seen(ctx, scheme, hotkey, nonce, until)
}

// OnceSigned records a signature itself, where a dialect has no nonce. That
// holds because a signature is randomised (an honest retry signs anew) and has
// one spelling (non-canonical ones are refused).
func (v *Verifier) OnceSigned(ctx context.Context, scheme, hotkey string, sig []byte, until time.Time) (bool, error) {
	sum := sha256.Sum256(sig)
	return v.Replay.Seen(ctx, scheme, hotkey, "sig:"+hex.EncodeToString(sum[:]), until)
}

// Holds reports whether sig is pub's over any of msgs, or their <Bytes> forms.
func Holds(pub [32]byte, sig []byte, msgs ...[]byte) bool {
	for i, m := range msgs {
		if i > 0 && bytes.Equal(m, msgs[i-1]) {
			continue
		}
		if auth.VerifyPublic(auth.Sr25519, pub, m, sig) == nil {
			return true
		}
	}
	return false
}

// Unhex reads hex digits with 0x or 0X in front or not, at most limit bytes.
func Unhex(s string, limit int) ([]byte, error) {
	if len(s) >= 2 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X') {
		s = s[2:]
	}
	if len(s) > 2*limit {
		return nil, errors.New("too long")
	}
	return hex.DecodeString(s)
}

// Decimal reads ASCII digits, at most 18 of them.
func Decimal(s string) (int64, bool) {
	if s == "" || len(s) > 18 {
		return 0, false
	}
	var n int64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(s[i]-'0')
	}
	return n, true
}

// Near reports whether at is at most window from now, both ways.
func Near(now, at time.Time, window time.Duration) bool {
	d := now.Sub(at)
	return d <= window && d >= -window
}
