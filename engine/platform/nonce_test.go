package platform

import (
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon/client"
)

// A request whose nonce is recorded with what it asks for does it once: of many alike, of
// one that comes again, and of one that another server has had, whose memory is its own.
func TestDeferredNonceCountsOnce(t *testing.T) {
	f := newFixture(t, 1)
	f.submit(miner1, "x")
	l := f.claim(val1)
	beat := func(nonce string) error {
		ctx := DeferNonce(bg)
		if _, err := f.Replay(ctx, "agon-v1", val1, nonce, f.clock.Now().Add(time.Minute)); err != nil {
			return err
		}
		_, err := f.Heartbeat(ctx, Caller{Hotkey: val1}, l.ID, client.Heartbeat{Token: l.Token})
		if serr := f.SettleNonce(ctx); serr != nil {
			return serr
		}
		return err
	}
	var wg sync.WaitGroup
	errs := make(chan error, 8)
	for range cap(errs) {
		wg.Go(func() { errs <- beat("n") })
	}
	wg.Wait()
	close(errs)
	fresh := 0
	for err := range errs {
		if err == nil {
			fresh++
			continue
		}
		wantCode(t, err, 401, "replayed")
	}
	if fresh != 1 {
		t.Errorf("%d of 8 alike were done", fresh)
	}
	wantCode(t, beat("n"), 401, "replayed")
	f.nonces.new, f.nonces.old = nil, nil
	wantCode(t, beat("n"), 401, "replayed")
	must(t, beat("m"))
}

func TestRecentNoncesAreBounded(t *testing.T) {
	var r recentNonces
	key := func(i int) (k [16]byte) { k[0], k[1], k[2] = byte(i), byte(i>>8), byte(i>>16); return k }
	for i := range 3 * maxRecent {
		r.add(key(i))
	}
	if n := len(r.new) + len(r.old); n > 2*maxRecent {
		t.Errorf("%d are kept", n)
	}
	if !r.has(key(3*maxRecent-1)) || r.has(key(0)) {
		t.Error("not the newest are kept")
	}
}
