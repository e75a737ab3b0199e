package roles

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// gate answers 503 until the arenas are there: a server that has its port but
// not yet its arenas would answer 404 for what exists.
type gate struct {
	open atomic.Bool
	// ready answers /readyz where a kind's own dialect does not.
	kinds func(path string) bool
	// waits are paths whose clients leave for good at a 503: while the server starts
	// they wait, waitsMost of them at most, for waitsFor at most.
	waits   func(path string) bool
	waiting atomic.Int64
	next    http.Handler
}

const (
	waitsMost = 1000
	waitsFor  = time.Minute
)

// wait waits until the gate is open; false: it did not open.
func (g *gate) wait(ctx context.Context) bool {
	defer g.waiting.Add(-1)
	if g.waiting.Add(1) > waitsMost {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, waitsFor)
	defer stop()
	t := time.NewTicker(20 * time.Millisecond)
	defer t.Stop()
	for !g.open.Load() {
		select {
		case <-ctx.Done():
			return false
		case <-t.C:
		}
	}
	return true
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == pathLive:
		w.WriteHeader(http.StatusNoContent)
	case !g.open.Load() && (g.waits == nil || !g.waits(r.URL.Path) || !g.wait(r.Context())):
		notReady(w, "the server starts: its arenas are not open yet")
	case r.URL.Path == pathReady && !g.kinds(r.URL.Path):
		w.WriteHeader(http.StatusNoContent)
	default:
		g.next.ServeHTTP(w, r)
	}
}

func refuse(w http.ResponseWriter, status int, code, message, mend string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(client.Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Code: code, Detail: message, Mend: mend}) // the client is gone if this fails
}

// loopback reports whether only this machine reaches what listens there.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// guarded lets those read who may see money and every queue: who has the token
// of the data directory, the operator by a signature, and on this machine
// anybody where that was asked for. A proxy in front sits on this machine too,
// so a request that was forwarded is never local.
type guarded struct {
	next     http.Handler
	token    string
	local    bool
	operator string
	verifier signatures
}

func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.local && loopback(r.RemoteAddr) && !forwarded(r.Header) {
		g.next.ServeHTTP(w, r)
		return
	}
	if word, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && subtle.ConstantTimeCompare([]byte(word), []byte(g.token)) == 1 {
		g.next.ServeHTTP(w, r)
		return
	}
	if r.Header.Get("Agon-Signature") != "" {
		if by, err := g.verifier.VerifyRequest(r.Context(), r.Method, r.URL.RequestURI(), r.Header, nil); err == nil && by == g.operator {
			g.next.ServeHTTP(w, r)
			return
		}
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="metrics"`)
	refuse(w, http.StatusUnauthorized, "operator_only", "metrics are for the operator", "send the content of "+tokenFile+" (data directory) as a bearer token, or sign with the operator's key")
}

// forwarded reports whether a proxy has passed a request on.
func forwarded(h http.Header) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if h.Get(name) != "" {
			return true
		}
	}
	return false
}

// tokenFile holds what Prometheus sends as its credentials.
const tokenFile = "metrics.token"

// metricsToken reads the token of a data directory, or makes it (0600).
func metricsToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		var raw [32]byte
		_, _ = rand.Read(raw[:]) // never fails (crypto/rand)
		b = []byte(hex.EncodeToString(raw[:]))
		if err = os.WriteFile(path, append(b, '\n'), 0o600); err == nil {
			return string(b), nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("metrics token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if len(token) < 32 {
		return "", &agon.Error{Code: "bad_token", Status: 422, Field: tokenFile, Limit: "at least 32 characters", Message: path + " is too short to be a secret", Mend: "remove it: the next start makes another"}
	}
	return token, nil
}
