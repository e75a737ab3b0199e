package translog

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// A cosignature holds for its witness, time and head alone.
func TestWitnessVerifies(t *testing.T) {
	pub, sec, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	w, body := witness{name: "w", pub: pub}, []byte("head\n")
	sig := append(binary.BigEndian.AppendUint64(nil, 7), ed25519.Sign(sec, cosigned(7, body))...)
	if !w.Verify(body, sig) {
		t.Error("a true cosignature is refused")
	}
	for i := range sig {
		bad := append([]byte(nil), sig...)
		bad[i] ^= 1
		if w.Verify(body, bad) {
			t.Errorf("a cosignature whose byte %d was changed holds", i)
		}
	}
	if w.Verify([]byte("other\n"), sig) || w.Verify(body, sig[:len(sig)-1]) {
		t.Error("a cosignature of another head, or a short one, holds")
	}
}

// A head that is older by one leaf, of another log, or different at the same
// size does not follow.
func TestAdvanceRefuses(t *testing.T) {
	old := Checkpoint{Origin: "a", Tree: tlog.Tree{N: 5, Hash: tlog.Hash{1}}}
	never := func(int64, Checkpoint) (tlog.TreeProof, error) {
		t.Error("a proof was asked for")
		return nil, errors.New("none")
	}
	var stale *StaleError
	if err := Advance(old, Checkpoint{Origin: "a", Tree: tlog.Tree{N: 4}}, never); !errors.As(err, &stale) || stale.Seen != 5 {
		t.Errorf("one leaf less: %v, want stale", err)
	}
	var twice *EquivocationError
	if err := Advance(old, Checkpoint{Origin: "a", Tree: tlog.Tree{N: 5, Hash: tlog.Hash{2}}}, never); !errors.As(err, &twice) {
		t.Errorf("another root: %v, want a contradiction", err)
	}
	if err := Advance(old, Checkpoint{Origin: "b", Tree: tlog.Tree{N: 5, Hash: tlog.Hash{1}}}, never); err == nil {
		t.Error("a head of another log follows")
	}
	if err := Advance(old, old, never); err != nil {
		t.Errorf("the same head: %v", err)
	}
}
