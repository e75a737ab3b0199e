package dialect

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/signing"
	"github.com/agon-arena/agon/store"
	"github.com/agon-arena/agon/store/sqlite"
)

// parallel runs f a hundred times at once and counts how often it was true.
func parallel(f func() bool) int32 {
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
	return won.Load()
}

// guard is the durable replay guard: the store of the platform.
type guard struct{ s *store.Store }

func (g guard) Seen(ctx context.Context, scheme, hotkey, nonce string, until time.Time) (fresh bool, err error) {
	err = g.s.Write(ctx, func(tx *store.Tx) (err error) {
		fresh, err = tx.UseNonce(scheme, hotkey, nonce, until)
		return err
	})
	return fresh, err
}

// oneOfEach is a signed request of every dialect that takes a request once.
func oneOfEach(t testing.TB, self string) map[string]*Request {
	alice := key(t, "//Alice")
	id := uuid.NewString()
	ms, ns := strconv.FormatInt(testNow.UnixMilli(), 10), strconv.FormatInt(testNow.UnixNano(), 10)
	return map[string]*Request{
		"oro": oroRequest(t, alice, stamp(0), id),
		"epistula": request("POST", "/x", "{}", epistulaVersion, "2", epistulaTimestamp, ms, epistulaUUID, id, epistulaSignedBy, alice.SS58(),
			epistulaSignature, "0x"+sign(t, alice, signing.Epistula([]byte("{}"), id, ms, ""))),
		"bitsota": request("POST", "/x", "{}", HeaderHotkey, alice.SS58(), HeaderTimestamp, stamp(0),
			HeaderSignature, sign(t, alice, signing.BitSota("POST", "/x", "", stamp(0), signing.BodyHash([]byte("{}"))))),
		"native": request("POST", "/Synapse", "{}", nativeHotkey, alice.SS58(), nativeNonce, ns, nativeUUID, id,
			nativeSignature, "0x"+sign(t, alice, signing.Native(ns, alice.SS58(), self, id, signing.NativeBodyHash()))),
		"caster, strict": request("POST", "/x", "{}", "Authorization",
			`Bittensor ss58="`+alice.SS58()+`",sig="`+sign(t, alice, signing.Caster("POST", "/x", []byte("{}")))+`"`),
	}
}

// 100 parallel uses of one request give one success, and none after a restart.
func TestReplayRaceAndRestart(t *testing.T) {
	ctx := context.Background()
	path := filepath.Join(t.TempDir(), "store.db")
	self := key(t, "//Bob").SS58()
	requests := oneOfEach(t, self)
	for round, want := range []int32{1, 0} {
		s, err := sqlite.Open(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range requests {
			v := verifier(t, ORO{}, Epistula{}, Native{Self: self}, BitSota{}, Caster{})
			v.Replay, v.Strict = guard{s}, name == "caster, strict"
			if won := parallel(func() bool { _, refusal := v.Verify(ctx, r, Need{}); return refusal == nil }); won != want {
				t.Errorf("round %d, %s: %d successes, want %d", round, name, won, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The same for the guard in memory, where nothing slows the race down.
func TestReplayRaceInMemory(t *testing.T) {
	self := key(t, "//Bob").SS58()
	for name, r := range oneOfEach(t, self) {
		v := verifier(t, ORO{}, Epistula{}, Native{Self: self}, BitSota{}, Caster{})
		v.Replay, v.Strict = auth.NewMemoryReplay(clock), name == "caster, strict"
		if won := parallel(func() bool { _, refusal := v.Verify(context.Background(), r, Need{}); return refusal == nil }); won != 1 {
			t.Errorf("%s: %d successes", name, won)
		}
	}
}

type alwaysFresh struct{}

func (alwaysFresh) Seen(context.Context, string, string, string, time.Time) (bool, error) {
	return true, nil
}

// One request of each dialect, but for the replay guard, whose cost is the store's.
func BenchmarkVerify(b *testing.B) {
	self := key(b, "//Bob").SS58()
	for name, r := range oneOfEach(b, self) {
		b.Run(name, func(b *testing.B) {
			v := verifier(b, ORO{}, Epistula{}, Native{Self: self}, BitSota{}, Caster{})
			v.Replay = alwaysFresh{}
			for b.Loop() {
				if _, refusal := v.Verify(b.Context(), r, Need{Registered: true}); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}
