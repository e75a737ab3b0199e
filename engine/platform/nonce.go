package platform

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/engine/store"
)

// nonce is that of a signed request which its use case records together with
// what it does: one commit where there would be two. One request owns it.
type nonce struct {
	scheme, hotkey, value string
	until                 time.Time
	used                  bool // recorded, durably
	recent                *recentNonces
}

// recentNonces remembers nonces that were recorded a short while ago, the newest of them:
// who sends one again is refused without the store, where a nonce that is expected to be new
// and is not has a whole group of writes run again. The zero value is ready.
type recentNonces struct {
	mu       sync.Mutex
	new, old map[[16]byte]struct{} // guarded by mu; old goes when new is full
}

// maxRecent bounds each half of recentNonces.
const maxRecent = 50_000

func (n *nonce) key() (k [16]byte) {
	h := sha256.Sum256([]byte(n.scheme + "\x00" + n.hotkey + "\x00" + n.value))
	copy(k[:], h[:])
	return k
}

func (r *recentNonces) has(k [16]byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, a := r.new[k]
	_, b := r.old[k]
	return a || b
}

func (r *recentNonces) add(k [16]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.new == nil || len(r.new) >= maxRecent {
		r.new, r.old = map[[16]byte]struct{}{}, r.new
	}
	r.new[k] = struct{}{}
}

type nonceKey struct{}

// DeferNonce makes Replay under the context only note the nonce of a request.
// Claim, Heartbeat and Result record it in the transaction that does what the
// request asks for, so that of two alike only one does anything. Whoever
// defers calls SettleNonce before it replies.
func DeferNonce(ctx context.Context) context.Context {
	return context.WithValue(ctx, nonceKey{}, &nonce{})
}

func deferred(ctx context.Context) *nonce {
	n, _ := ctx.Value(nonceKey{}).(*nonce)
	return n
}

// use records the nonce that was deferred, if one was.
func (n *nonce) use(tx *store.Tx) error {
	if n == nil || n.value == "" {
		return nil
	}
	if n.recent.has(n.key()) {
		return replayed()
	}
	fresh, err := tx.PutNonce(n.scheme, n.hotkey, n.value, n.until)
	if err == nil && !fresh {
		return replayed()
	}
	return err
}

// kept says that the transaction of use was committed.
func (n *nonce) kept() {
	if n != nil && n.value != "" {
		n.used = true
		n.recent.add(n.key())
	}
}

// UseNonce records the nonce that was deferred, if one was, in a transaction of
// the caller's own; NonceKept says that it was committed.
func UseNonce(ctx context.Context, tx *store.Tx) error { return deferred(ctx).use(tx) }

// NonceKept says that the transaction of UseNonce was committed.
func NonceKept(ctx context.Context) { deferred(ctx).kept() }

func replayed() error {
	e := refuse(401, auth.CodeReplayed, "nonce was used before")
	e.Field, e.Mend = auth.HeaderNonce, "sign again with a new nonce"
	return e
}

// Replay records a nonce until its time is over; false when it was seen
// before. It is durable when it returns, but under DeferNonce.
func (p *Platform) Replay(ctx context.Context, scheme, hotkey, value string, until time.Time) (bool, error) {
	if len(scheme) > 40 || len(hotkey) > 128 || len(value) > 128 {
		return false, refuse(401, "bad_nonce", "the nonce is over 128 bytes")
	}
	if n := deferred(ctx); n != nil && n.value == "" {
		n.scheme, n.hotkey, n.value, n.until, n.recent = scheme, hotkey, value, until, &p.nonces
		return true, nil
	}
	return p.record(ctx, scheme, hotkey, value, until)
}

func (p *Platform) record(ctx context.Context, scheme, hotkey, value string, until time.Time) (fresh bool, err error) {
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		fresh, err = tx.UseNonce(scheme, hotkey, value, until)
		return err
	})
	return fresh, err
}

// SettleNonce records a nonce that was deferred and that nothing has used: the
// request was refused, or found nothing to do. Its error (401 replayed) goes to
// the caller in place of the reply.
func (p *Platform) SettleNonce(ctx context.Context) error {
	n := deferred(ctx)
	if n == nil || n.value == "" || n.used {
		return nil
	}
	fresh, err := p.record(context.WithoutCancel(ctx), n.scheme, n.hotkey, n.value, n.until)
	if err != nil {
		return &agon.Error{Code: "internal", Status: 500, Message: "replay guard failed", Fault: agon.FaultPlatform, Err: err}
	}
	if !fresh {
		return replayed()
	}
	n.used = true
	return nil
}
