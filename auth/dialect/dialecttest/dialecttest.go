// Package dialecttest is what tests of dialects share: a fixed time, development
// keys, a small subnet, and the check that a request is taken once.
package dialecttest

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
)

// Now is the time of Clock.
var Now = time.UnixMilli(1_760_000_000_500)

// Clock stands still at Now.
func Clock() time.Time { return Now }

// Stamp is the time d from Now in Unix seconds, as headers carry it.
func Stamp(d time.Duration) string { return strconv.FormatInt(Now.Add(d).Unix(), 10) }

// Key is the development key of a URI ("//Alice").
func Key(t testing.TB, uri string) *auth.Key {
	t.Helper()
	k, err := auth.KeyFromURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Sign returns k's signature over msg in hex.
func Sign(t testing.TB, k *auth.Key, msg []byte) string {
	t.Helper()
	sig, err := k.Sign(msg)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(sig)
}

// Members is the subnet of Verifier: Alice is a validator with 1000 rao, Bob a
// miner of another owner, Eve a validator.
func Members(t testing.TB) *dialect.Metagraph {
	t.Helper()
	g := dialect.NewMetagraph(Clock, func(context.Context) ([]dialect.Member, error) {
		return []dialect.Member{
			{Hotkey: Key(t, "//Alice").SS58(), Coldkey: "owner", UID: 1, Validator: true, Stake: 1000},
			{Hotkey: Key(t, "//Bob").SS58(), Coldkey: "other", UID: 2, Stake: 5},
			{Hotkey: Key(t, "//Eve").SS58(), Coldkey: "owner", UID: 3, Validator: true, Stake: 5000},
		}, nil
	})
	if err := g.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	return g
}

// Verifier checks requests in dialects d at Now. Eve is banned.
func Verifier(t testing.TB, d ...dialect.Dialect) *dialect.Verifier {
	t.Helper()
	eve := Key(t, "//Eve").SS58()
	return &dialect.Verifier{
		Dialects: d, Now: Clock, Replay: auth.NewMemoryReplay(Clock), Members: Members(t),
		Banned: func(_ context.Context, hotkey string) (bool, error) { return hotkey == eve, nil },
	}
}

// Request is a request with headers, each a name and a value.
func Request(method, target, body string, headers ...string) *dialect.Request {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return dialect.NewRequest(r, []byte(body))
}

// Outcome is what a client sees: "ok", or status and body.
func Outcome(id dialect.Identity, refusal *dialect.Refusal) string {
	if refusal == nil {
		if id.Hotkey == "" {
			return "no identity"
		}
		return "ok"
	}
	return http.StatusText(refusal.Status) + " " + string(refusal.JSON())
}

// BrokenGuard is a replay guard that fails.
type BrokenGuard struct{}

// Seen implements auth.ReplayGuard.
func (BrokenGuard) Seen(context.Context, string, string, string, time.Time) (bool, error) {
	return false, errors.New("disk is full")
}

// Parallel runs f a hundred times at once and counts how often it was true.
func Parallel(f func() bool) int {
	var won atomic.Int32
	var wg sync.WaitGroup
	start := make(chan struct{})
	for range 100 {
		wg.Go(func() {
			<-start
			if f() {
				won.Add(1)
			}
		})
	}
	close(start)
	wg.Wait()
	return int(won.Load())
}

// TakesOnce checks that of a hundred parallel uses of r exactly one passes d,
// and none after that, also not by another verifier with the same guard, as a
// server that started again has it.
func TakesOnce(t testing.TB, d dialect.Dialect, strict bool, r *dialect.Request) {
	t.Helper()
	guard := auth.NewMemoryReplay(Clock)
	for round, want := range []int{1, 0} {
		v := Verifier(t, d)
		v.Replay, v.Strict = guard, strict
		won := Parallel(func() bool {
			_, refusal := v.Verify(context.Background(), r, dialect.Need{})
			return refusal == nil
		})
		if won != want {
			t.Errorf("%s, round %d: %d of 100 uses passed, want %d", d.Name(), round, won, want)
		}
	}
}

// Fuzzed checks what no bytes of a request may change: nobody is let in, and the
// refusal is JSON that calls the request bad. headers are lines of "name: value".
func Fuzzed(t testing.TB, v *dialect.Verifier, method, path, query, headers, body string) {
	t.Helper()
	h := http.Header{}
	for line := range strings.Lines(headers) {
		name, value, _ := strings.Cut(line, ":")
		h.Add(name, strings.TrimSpace(value))
	}
	r := &dialect.Request{Method: method, Path: path, Query: query, Header: h, Body: []byte(body)}
	id, refusal := v.Verify(context.Background(), r, dialect.Need{})
	if refusal == nil {
		t.Fatalf("let in %+v", id)
	}
	if !json.Valid(refusal.JSON()) || refusal.Status < 400 || refusal.Status >= 500 {
		t.Fatalf("answer %d %s", refusal.Status, refusal.JSON())
	}
}
