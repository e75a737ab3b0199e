package rpc

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/scale"
)

// slow is a ledger on which blocks pass by the clock between an extrinsic's nonce and its effect.
type slow struct {
	*local.Ledger
	now *atomic.Int64
}

func (s slow) Commit(ctx context.Context, netuid uint16, hotkey string, fields ...ledger.Field) (uint64, error) {
	s.now.Add(int64(3 * time.Second))
	return s.Ledger.Commit(ctx, netuid, hotkey, fields...)
}

// A state that counts an extrinsic has what it did. A client that finds the nonce used, and
// the effect missing, would send it again.
func TestNonceAndEffectInOneBlock(t *testing.T) {
	var at atomic.Int64
	at.Store(time.Unix(1_800_000_000, 0).UnixNano())
	now := func() time.Time { return time.Unix(0, at.Load()) }
	l, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "l.db"), local.Config{Preset: local.PresetDemo, BlockTime: time.Second, Keep: 64, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	key, err := auth.KeyFromURI("//owner")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.EnsureSubnet(t.Context(), 1, local.Subnet{OwnerHotkey: key.SS58(), OwnerColdkey: ledgertest.Key(t, "cold")}); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Ledger: slow{l, &at}, Genesis: "one", Replay: l, BlockTime: l.BlockTime(), Now: now})
	if err != nil {
		t.Fatal(err)
	}
	at.Add(int64(2 * time.Second))
	call, err := s.meta.EncodeCall("Commitments", "set_commitment", []any{1, scale.Map{"fields": []any{scale.Value{Name: "Raw1", Of: scale.Bytes("x")}}}})
	if err != nil {
		t.Fatal(err)
	}
	extra, err := s.meta.Extra([]byte{0}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	additional, err := s.meta.Additional(s.chain(), s.first)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := key.Sign(scale.Payload(call, extra, additional))
	if err != nil {
		t.Fatal(err)
	}
	pub, err := auth.ParseSS58(key.SS58())
	if err != nil {
		t.Fatal(err)
	}
	_, told, err := s.submit(t.Context(), (&scale.Extrinsic{Signer: pub, Signature: sig, Extra: extra, Call: call}).Encode())
	if err != nil {
		t.Fatal(err)
	}
	at.Add(int64(2 * time.Second))
	newest, err := l.Block(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if newest < 7 || told != 2 {
		t.Errorf("the extrinsic is told in block %d of %d, want 2 of 7", told, newest)
	}
	for n := uint64(1); n < newest; n++ {
		f, err := l.At(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		nonce, err := f.(*local.Ledger).Nonce(t.Context(), key.SS58())
		if err != nil {
			t.Fatal(err)
		}
		of, err := f.Commitments(t.Context(), 1)
		if err != nil || int(nonce) != len(of) || (nonce == 1) != (n >= told) {
			t.Errorf("block %d: nonce %d, %d commitments, told in %d: %v", n, nonce, len(of), told, err)
		}
	}
}
