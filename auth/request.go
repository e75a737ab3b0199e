package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/oasisprotocol/curve25519-voi/primitives/sr25519"

	"github.com/agon-arena/agon"
)

// Headers of an agon-v1 request.
const (
	HeaderHotkey    = "Agon-Hotkey"
	HeaderTimestamp = "Agon-Timestamp" // Unix time in ms, decimal
	HeaderNonce     = "Agon-Nonce"     // uuid
	HeaderSignature = "Agon-Signature" // 128 hex digits, 0x optional
)

// SchemeAgonV1 names agon's own request signature, also in the replay guard.
const SchemeAgonV1 = "agon-v1"

// DefaultWindow is how far a timestamp may be off, both ways.
const DefaultWindow = 60 * time.Second

// Codes of the 401 answers.
const (
	CodeMissingSignature = "missing_signature"
	CodeBadSignature     = "bad_signature"
	CodeStale            = "stale"
	CodeReplayed         = "replayed"
)

// ReplayGuard remembers nonces.
type ReplayGuard interface {
	// Seen records nonce for (scheme, hotkey) and reports whether it is fresh,
	// that is, was not recorded before. Of many calls at once with the same
	// nonce exactly one is told fresh. The record is durable on return and may
	// be dropped after until.
	Seen(ctx context.Context, scheme, hotkey, nonce string, until time.Time) (fresh bool, err error)
}

// SigningBytes is what an agon-v1 signature covers. target is path and query
// as RequestTarget gives them; timestamp and nonce are the headers' text.
func SigningBytes(method, target string, body []byte, nonce, timestamp, audience string) []byte {
	sum := sha256.Sum256(body)
	return []byte(strings.Join([]string{
		SchemeAgonV1, method, target, hex.EncodeToString(sum[:]), nonce, timestamp, audience,
	}, "\n"))
}

// RequestTarget returns path and query of r as they stand on the request line,
// without a "?" when the query is empty. It serves client and server requests.
func RequestTarget(r *http.Request) string {
	target := r.RequestURI // set on the server only: the bytes that came
	if target == "" {
		target = r.URL.RequestURI()
	} else if !strings.HasPrefix(target, "/") {
		target = r.URL.RequestURI() // absolute form, sent to proxies
	}
	if path, query, ok := strings.Cut(target, "?"); ok && query == "" {
		target = path
	}
	return target
}

// SignRequest signs req with the headers of agon-v1. body is what req will
// send; audience is the server's, from GET /v1/server.
func SignRequest(req *http.Request, body []byte, key Signer, audience string, now time.Time) error {
	id, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("make nonce: %w", err)
	}
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	nonce, timestamp := id.String(), strconv.FormatInt(now.UnixMilli(), 10)
	sig, err := key.Sign(SigningBytes(method, RequestTarget(req), body, nonce, timestamp, audience))
	if err != nil {
		return fmt.Errorf("sign request: %w", err)
	}
	req.Header.Set(HeaderHotkey, key.SS58())
	req.Header.Set(HeaderTimestamp, timestamp)
	req.Header.Set(HeaderNonce, nonce)
	req.Header.Set(HeaderSignature, hex.EncodeToString(sig))
	return nil
}

// Signed reports whether h carries any agon-v1 header: such a request must
// verify, even where unsigned ones are welcome.
func Signed(h http.Header) bool {
	for _, name := range []string{HeaderHotkey, HeaderTimestamp, HeaderNonce, HeaderSignature} {
		if len(h.Values(name)) > 0 {
			return true
		}
	}
	return false
}

// Verifier checks agon-v1 requests. Safe for concurrent use; it must not be copied.
type Verifier struct {
	Audience string
	Window   time.Duration    // 0 = DefaultWindow
	Now      func() time.Time // required
	Replay   ReplayGuard      // required

	mu   sync.Mutex
	keys map[string]*sr25519.PublicKey // guarded by mu; see key
}

// maxKeys bounds the public keys that a Verifier keeps parsed.
const maxKeys = 4096

// key returns the public key of an address. The same few sign all day, and
// parsing a key (a square root) is a fifth of a check. The second result keeps
// what was parsed; it is called once a signature of the key has held, so that
// made-up keys push out no one else's.
func (v *Verifier) key(address string) (*sr25519.PublicKey, func(), error) {
	v.mu.Lock()
	key := v.keys[address]
	v.mu.Unlock()
	if key != nil {
		return key, func() {}, nil
	}
	pub, err := ParseSS58(address)
	if err != nil {
		return nil, nil, err
	}
	if key, err = parsePublic(pub); err != nil {
		return nil, nil, err
	}
	return key, func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.keys == nil || len(v.keys) >= maxKeys {
			v.keys = map[string]*sr25519.PublicKey{}
		}
		v.keys[address] = key
	}, nil
}

// Verify returns the hotkey that signed, or why the request is refused (401;
// 500 when the replay guard failed). Checks run in this order: headers present,
// hotkey, timestamp, window, nonce, signature's form, signature, replay. A nonce
// is recorded only after the signature held, so nobody can burn another's nonce.
func (v *Verifier) Verify(ctx context.Context, method, pathAndQuery string, header http.Header, body []byte) (string, *agon.Error) {
	c, refused := v.claim(header)
	if refused != nil {
		return "", refused
	}
	check, err := srVerifier(c.pub, c.sig)
	if err == nil {
		err = checkEither(check, SigningBytes(method, pathAndQuery, body, c.nonce, c.timestamp, v.Audience))
	}
	if err != nil {
		return "", refuse(CodeBadSignature, HeaderSignature, "signature does not hold", "check method, path, body, audience ("+v.Audience+") and key", err)
	}
	c.keep()
	// A record must outlive every moment at which the timestamp is still accepted.
	fresh, err := v.Replay.Seen(ctx, SchemeAgonV1, c.hotkey, c.id, c.at.Add(v.window()+time.Second))
	if err != nil {
		return "", &agon.Error{Code: "internal", Status: http.StatusInternalServerError, Message: "replay guard failed", Fault: agon.FaultPlatform, Err: err}
	}
	if !fresh {
		return "", refuse(CodeReplayed, HeaderNonce, "nonce was used before", "sign again with a new nonce", nil)
	}
	return c.hotkey, nil
}

// CheckHeaders refuses what no body could make valid, and returns the hotkey
// that the request claims: nothing is proved until Verify. A server asks it
// before it reads a body.
func (v *Verifier) CheckHeaders(header http.Header) (hotkey string, refused *agon.Error) {
	c, refused := v.claim(header)
	if refused != nil {
		return "", refused
	}
	return c.hotkey, nil
}

func (v *Verifier) window() time.Duration {
	if v.Window == 0 {
		return DefaultWindow
	}
	return v.Window
}

// claim is what the headers of a request say, well formed and in time.
type claim struct {
	hotkey, timestamp, nonce, id string
	pub                          *sr25519.PublicKey
	keep                         func()
	sig                          []byte
	at                           time.Time
}

func (v *Verifier) claim(header http.Header) (*claim, *agon.Error) {
	var values [4]string
	for i, name := range []string{HeaderHotkey, HeaderTimestamp, HeaderNonce, HeaderSignature} {
		all := header.Values(name)
		if len(all) == 0 || all[0] == "" {
			return nil, refuse(CodeMissingSignature, name, "header "+name+" is missing", "sign the request as agon-v1", nil)
		}
		if len(all) > 1 {
			return nil, refuse(CodeBadSignature, name, "header "+name+" is given twice", "send it once", nil)
		}
		values[i] = all[0]
	}
	hotkey, timestamp, nonce, signature := values[0], values[1], values[2], values[3]

	pub, keep, err := v.key(hotkey)
	if err != nil {
		return nil, refuse(CodeBadSignature, HeaderHotkey, "hotkey is not an SS58 address with prefix 42 of a key", "", err)
	}
	ms, err := parseTimestamp(timestamp)
	if err != nil {
		return nil, refuse(CodeBadSignature, HeaderTimestamp, "timestamp is not Unix time in ms", "", err)
	}
	window := v.window()
	at, now := time.UnixMilli(ms), v.Now()
	if age := now.Sub(at); age > window || age < -window {
		e := refuse(CodeStale, HeaderTimestamp,
			fmt.Sprintf("timestamp is %d ms from the server's clock", age.Milliseconds()), "sign again; check the clock (GET /v1/server tells the server's)", nil)
		e.Limit = fmt.Sprintf("%d ms", window.Milliseconds())
		return nil, e
	}
	id, err := parseNonce(nonce)
	if err != nil {
		return nil, refuse(CodeBadSignature, HeaderNonce, "nonce is not a uuid", "", err)
	}
	sig, err := ParseSignature(signature)
	if err != nil {
		return nil, refuse(CodeBadSignature, HeaderSignature, "signature is not 128 hex digits", "", err)
	}
	return &claim{hotkey, timestamp, nonce, id, pub, keep, sig, at}, nil
}

func refuse(code, field, message, mend string, cause error) *agon.Error {
	return &agon.Error{Code: code, Status: http.StatusUnauthorized, Field: field, Message: message, Mend: mend, Err: cause}
}

func parseTimestamp(s string) (int64, error) {
	if len(s) > 15 { // year 33658
		return 0, fmt.Errorf("%d characters: at most 15", len(s))
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, errors.New("not a decimal number")
		}
	}
	return strconv.ParseInt(s, 10, 64)
}

// parseNonce returns the nonce in lower case, so that one uuid is one nonce.
func parseNonce(s string) (string, error) {
	if len(s) != 36 {
		return "", fmt.Errorf("%d characters: want 36", len(s))
	}
	id, err := uuid.Parse(s)
	if err != nil {
		return "", errors.New("not a uuid")
	}
	return id.String(), nil
}

// ParseSignature reads 128 hex digits with an optional 0x in front.
func ParseSignature(s string) ([]byte, error) {
	s = strings.TrimPrefix(s, "0x")
	if len(s) != 2*SignatureSize {
		return nil, fmt.Errorf("%d characters: want %d hex digits", len(s), 2*SignatureSize)
	}
	sig, err := hex.DecodeString(s)
	if err != nil {
		return nil, errors.New("not hex")
	}
	return sig, nil
}

// MemoryReplay is a ReplayGuard that a restart empties: for tests and tools.
type MemoryReplay struct {
	now  func() time.Time
	mu   sync.Mutex
	seen map[string]time.Time // guarded by mu; value: keep until
	next int                  // guarded by mu; size at which old entries are dropped
}

// NewMemoryReplay makes an empty guard on the given clock.
func NewMemoryReplay(now func() time.Time) *MemoryReplay {
	return &MemoryReplay{now: now, seen: map[string]time.Time{}, next: 1024}
}

// Seen implements ReplayGuard, but for durability.
func (m *MemoryReplay) Seen(_ context.Context, scheme, hotkey, nonce string, until time.Time) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := scheme + "\n" + hotkey + "\n" + nonce
	if _, ok := m.seen[key]; ok {
		return false, nil
	}
	if len(m.seen) >= m.next {
		now := m.now()
		for k, u := range m.seen {
			if u.Before(now) {
				delete(m.seen, k)
			}
		}
		m.next = max(1024, 2*len(m.seen))
	}
	m.seen[key] = until
	return true, nil
}

// RemoteHost is where a request comes from: the address without its port.
func RemoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
