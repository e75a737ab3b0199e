package translog

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/agon-arena/agon/client"
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

// Of foreign bytes, what is over a limit is refused for that, however good it is else.
func TestLimits(t *testing.T) {
	k := testKey(t, t.TempDir())
	head, err := k.Sign(Checkpoint{Tree: tlog.Tree{N: 3}})
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{-1, 3, 4} {
		if _, _, err := CheckProof(&client.LogProof{Index: at, Checkpoint: head.Text}, k.Public()); err == nil || !strings.Contains(err.Error(), "is not in a log of 3") {
			t.Errorf("leaf %d of three: %v", at, err)
		}
	}
	hashes := make([]string, maxProof+1)
	for i := range hashes {
		hashes[i] = tlog.Hash{byte(i)}.String()
	}
	if list, err := ParseHashes(hashes[:maxProof]); err != nil || len(list) != maxProof {
		t.Errorf("%d hashes: %v", maxProof, err)
	}
	if _, err := ParseHashes(hashes); err == nil || !strings.Contains(err.Error(), "at most 128") {
		t.Errorf("one hash more: %v", err)
	}
	entry := `{"type":"submission","id":"x"}`
	if _, err := ParseEntry([]byte(entry + strings.Repeat(" ", MaxEntry-len(entry)))); err != nil {
		t.Errorf("an entry as long as may be: %v", err)
	}
	if _, err := ParseEntry([]byte(entry + strings.Repeat(" ", MaxEntry-len(entry)+1))); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("an entry of a byte more: %v", err)
	}
	long, err := note.Sign(&note.Note{Text: head.body() + strings.Repeat("x", maxCheckpoint) + "\n"}, k.signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCheckpoint(string(long), k.Public()); err == nil || !strings.Contains(err.Error(), "at most 65536") {
		t.Errorf("a long checkpoint: %v", err)
	}
}

// A head is a log's only by the log's own key and under its own name.
func TestWhoseHead(t *testing.T) {
	k, w := testKey(t, t.TempDir()), testKey(t, t.TempDir()) // both are called agon.test/log
	head, err := k.Sign(Checkpoint{Tree: tlog.Tree{N: 3}})
	if err != nil {
		t.Fatal(err)
	}
	both, err := w.Cosign(head, time.Unix(1_700_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCheckpoint(both, k.Public(), w.WitnessKey()); err != nil {
		t.Errorf("cosigned by a namesake: %v", err)
	}
	lines := strings.SplitAfter(both, "\n")
	only := strings.Join(append(lines[:len(lines)-3:len(lines)-3], lines[len(lines)-2:]...), "") // without the log's line
	if _, err := OpenCheckpoint(only, k.Public(), w.WitnessKey()); err == nil || !strings.Contains(err.Error(), "own signature is missing") {
		t.Errorf("a namesake's cosignature alone: %v", err)
	}
	foreign := Checkpoint{Origin: "agon.test/other", Tree: tlog.Tree{N: 3}}
	b, err := note.Sign(&note.Note{Text: foreign.body()}, k.signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCheckpoint(string(b), k.Public()); err == nil || !strings.Contains(err.Error(), `it is of "agon.test/other"`) {
		t.Errorf("a head of another log: %v", err)
	}
}
