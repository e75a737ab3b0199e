package rpc

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/timelock"
)

// round1000 is the signature of quicknet's round 1000.
const round1000 = "b44679b9a59af2ec876b1a6b1ad52ea9b1615fc3982b19576350f93447cb1125e342b73a8dd2bacbe47e4b6b63ed5e39"

// Timelocked commitments are opened when their round is out, and leave what was
// not timelocked; rounds that nobody signs keep no other from being opened.
func TestRevealedCommitments(t *testing.T) {
	l, s := newServer(t)
	ctx := t.Context()
	names := []string{"owner", "mixed", "broken", "zero", "absurd"}
	for _, name := range names[1:] {
		if _, err := l.Register(ctx, 1, ledgertest.Key(t, name), ledgertest.Key(t, "cold")); err != nil {
			t.Fatal(err)
		}
	}
	seal := func(text string) scale.Bytes {
		b, err := timelock.Encrypt(rand.Reader, 1000, append([]byte{byte(len(text) << 2)}, text...))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	lock := func(b scale.Bytes, round uint64) any {
		return scale.Value{Name: "TimelockEncrypted", Of: scale.Map{"encrypted": b, "reveal_round": round}}
	}
	commit := func(name string, fields ...any) {
		t.Helper()
		call := scale.Value{Name: "Commitments", Of: scale.Value{Name: "set_commitment", Of: scale.Map{"netuid": uint64(1), "info": scale.Map{"fields": fields}}}}
		if _, err := s.apply(ctx, caller{signer: ledgertest.Key(t, name)}, call); err != nil {
			t.Fatal(err)
		}
	}
	commit("zero", lock(seal("zero"), 0))
	commit("owner", lock(seal("secret"), 1000))
	commit("mixed", scale.Value{Name: "Raw4", Of: scale.Bytes("open")}, lock(seal("hidden"), 1000))
	commit("broken", lock(scale.Bytes("no ciphertext"), 1000))
	commit("absurd", lock(seal("never"), 1<<63))
	read := func(item, name string) any {
		t.Helper()
		key, err := s.meta.StorageKey("Commitments", item, uint64(1), ledgertest.Key(t, name))
		if err != nil {
			t.Fatal(err)
		}
		n, err := s.newest(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.reading(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		b, err := r.stored(key)
		if err != nil || b == nil {
			if err != nil {
				t.Fatal(err)
			}
			return nil
		}
		_, of, err := s.meta.Storage("Commitments", item)
		if err != nil {
			t.Fatal(err)
		}
		v, err := scale.DecodeAll(of.Value, b)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, name := range names {
		if read("CommitmentOf", name) == nil || read("RevealedCommitments", name) != nil {
			t.Errorf("%s: %v %v", name, read("CommitmentOf", name), read("RevealedCommitments", name))
		}
	}
	if _, err := l.Step(ctx, 3); err != nil {
		t.Fatal(err)
	}
	follow(t, l)
	if got := read("CommitmentOf", "owner"); got != nil {
		t.Errorf("an opened commitment is left: %v", got)
	}
	if got := read("RevealedCommitments", "owner"); !revealedIs(got, "secret", 3) {
		t.Errorf("revealed %v", got)
	}
	if got, _ := read("CommitmentOf", "mixed").(scale.Map); got == nil || len(got["info"].(scale.Map)["fields"].([]any)) != 1 {
		t.Errorf("what was not timelocked: %v", got)
	}
	if got := read("RevealedCommitments", "mixed"); !revealedIs(got, "hidden", 3) {
		t.Errorf("revealed %v", got)
	}
	if read("CommitmentOf", "broken") != nil || read("RevealedCommitments", "broken") != nil {
		t.Error("what cannot be opened is left")
	}
	for _, name := range []string{"zero", "absurd"} {
		if read("CommitmentOf", name) == nil || read("RevealedCommitments", name) != nil {
			t.Errorf("%s is opened", name)
		}
	}
	// A round that is out already opens at once; ten are kept, and the space is used up as by others.
	refused := false
	for range 40 {
		field, err := FieldOf(lock(seal("again"), 1000))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Commit(ctx, 1, ledgertest.Key(t, "owner"), field); err != nil {
			refused = errors.Is(err, ledger.ErrCommitmentSpace)
			break
		}
	}
	if all, err := l.Revealed(ctx, 1, ledgertest.Key(t, "owner")); err != nil || len(all) > 10 || len(all) < 5 || !refused {
		t.Errorf("%d are kept, refused %v: %v", len(all), refused, err)
	}
	r, err := s.reading(ctx, 3)
	if err != nil {
		t.Fatal(err)
	}
	prefix, err := s.meta.StorageKey("Commitments", "RevealedCommitments")
	if err != nil {
		t.Fatal(err)
	}
	if keys, err := r.list(prefix); err != nil || len(keys) != 2 {
		t.Errorf("%d keys: %v", len(keys), err)
	}
	now, err := l.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := l.Replay(ctx, 0); err != nil || string(again) != string(now) {
		t.Errorf("the log gives another state: %v", err)
	}
}

func revealedIs(v any, text string, block uint64) bool {
	list, _ := v.([]any)
	if len(list) != 1 {
		return false
	}
	pair, _ := list[0].([]any)
	b, _ := pair[0].(scale.Bytes)
	return len(pair) == 2 && string(b) == string(rune(len(text)<<2))+text && pair[1] == block
}

// follow takes rounds until 1000 is there; of others the source knows nothing.
func follow(t *testing.T, l *local.Ledger) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	source := func(_ context.Context, round uint64) ([]byte, error) {
		if round != 1000 {
			return nil, errors.New("no such round")
		}
		return hex.DecodeString(round1000)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.FollowRounds(ctx, time.Millisecond, source, slog.New(slog.DiscardHandler))
	}()
	for {
		if b, err := l.Pulse(ctx, 1000); err != nil {
			t.Fatal(err)
		} else if b != nil {
			break
		}
	}
	stop()
	<-done
}
