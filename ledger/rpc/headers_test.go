package rpc

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/trie"
)

// stranger knows of a node what it answers, and checks it.
type stranger struct {
	*testing.T
	*Server
}

func (x stranger) ask(v any, method string, params ...any) {
	x.Helper()
	body, err := json.Marshal(map[string]any{"id": 1, "method": method, "params": params})
	if err != nil {
		x.Fatal(err)
	}
	got := ask(x, x.Server, string(body))
	var r struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.Unmarshal([]byte(got), &r); err != nil || r.Error != nil {
		x.Fatalf("%s: %s %v", method, got, err)
	}
	if err := json.Unmarshal(r.Result, v); err != nil {
		x.Fatalf("%s: %s %v", method, got, err)
	}
}

func (x stranger) bytes(text string) []byte {
	x.Helper()
	b, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		x.Fatal(err)
	}
	return b
}

// block checks a block: the hash is its header's, the parent's that of the block
// before, the root of the extrinsics that of its list. It returns the hash and the header.
func (x stranger) block(n uint64) (string, header, int) {
	x.Helper()
	var hash, before string
	x.ask(&hash, "chain_getBlockHash", n)
	var b struct {
		Block struct {
			Header     header
			Extrinsics []string
		}
	}
	x.ask(&b, "chain_getBlock", hash)
	h := b.Block.Header
	number, err := strconv.ParseUint(h.Number[2:], 16, 64)
	if err != nil || number != n {
		x.Errorf("block %d is numbered %s", n, h.Number)
	}
	enc := append(x.bytes(h.ParentHash), scale.AppendCompact(nil, number)...)
	enc = append(append(append(enc, x.bytes(h.StateRoot)...), x.bytes(h.ExtrinsicsRoot)...), 0)
	if sum := blake2b.Sum256(enc); hexHash(sum) != hash {
		x.Errorf("block %d: its header's hash is %x, the node says %s", n, sum, hash)
	}
	if n > 0 {
		if x.ask(&before, "chain_getBlockHash", n-1); before != h.ParentHash {
			x.Errorf("block %d: its parent is %s, the block before is %s", n, h.ParentHash, before)
		}
	}
	var list [][]byte
	for _, e := range b.Block.Extrinsics {
		list = append(list, x.bytes(e))
	}
	if root, err := trie.Ordered(trie.V0, list); err != nil || hexHash(root) != h.ExtrinsicsRoot {
		x.Errorf("block %d: root of its extrinsics %x, its header says %s: %v", n, root, h.ExtrinsicsRoot, err)
	}
	return hash, h, len(list)
}

// read reads a value by its proof, and what the node says without one.
func (x stranger) read(at string, h header, key []byte) []byte {
	x.Helper()
	var p struct {
		At    string
		Proof []string
	}
	x.ask(&p, "state_getReadProof", []string{hexed(key)}, at)
	var nodes [][]byte
	for _, n := range p.Proof {
		nodes = append(nodes, x.bytes(n))
	}
	got, err := trie.Read([32]byte(x.bytes(h.StateRoot)), nodes, key)
	if err != nil || p.At != at {
		x.Fatalf("proof at %s: %v", p.At, err)
	}
	var said *string
	if x.ask(&said, "state_getStorage", hexed(key), at); (said == nil) != (got == nil) || said != nil && !bytes.Equal(x.bytes(*said), got) {
		x.Errorf("key %x: proved %x, said %v", key, got, said)
	}
	return got
}

// A stranger checks every block of a localnet, reads values by proofs, and finds
// the same hashes after a restart.
func TestHeaders(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	path := filepath.Join(t.TempDir(), "l.db")
	open := func() (*local.Ledger, stranger) {
		l, err := local.Open(t.Context(), path, local.Config{Preset: local.PresetDemo, BlockTime: time.Second, Keep: 64, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Config{Ledger: l, Genesis: "headers", Replay: l, BlockTime: l.BlockTime(), Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return l, stranger{t, s}
	}
	l, x := open()
	x.most = 3 // blocks in memory
	key, err := auth.KeyFromURI("//owner")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.EnsureSubnet(t.Context(), 1, local.Subnet{OwnerHotkey: key.SS58(), OwnerColdkey: ledgertest.Key(t, "cold")}); err != nil {
		t.Fatal(err)
	}
	nonce := uint64(0)
	send := func(birth uint64, text string) string {
		t.Helper()
		var hash string
		x.ask(&hash, "chain_getBlockHash", birth)
		call, err := x.meta.EncodeCall("Commitments", "set_commitment", []any{1, scale.Map{"fields": []any{scale.Value{Name: fmt.Sprintf("Raw%d", len(text)), Of: scale.Bytes(text)}}}})
		if err != nil {
			t.Fatal(err)
		}
		extra, err := x.meta.Extra(era(birth), nonce, 0)
		if err != nil {
			t.Fatal(err)
		}
		additional, err := x.meta.Additional(x.chain(), [32]byte(x.bytes(hash)))
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
		b := (&scale.Extrinsic{Signer: pub, Signature: sig, Extra: extra, Call: call}).Encode()
		got := ask(t, x.Server, fmt.Sprintf(`{"id":1,"method":"author_submitExtrinsic","params":["%s"]}`, hexed(b)))
		if strings.Contains(got, `"result"`) {
			nonce++
		}
		return got
	}
	var hashes []string
	roots := map[string]bool{}
	filled := 0
	commitment, err := x.meta.StorageKey("Commitments", "CommitmentOf", uint64(1), key.SS58())
	if err != nil {
		t.Fatal(err)
	}
	other, err := x.meta.StorageKey("Commitments", "CommitmentOf", uint64(1), ledgertest.Key(t, "nobody"))
	if err != nil {
		t.Fatal(err)
	}
	look := func(n uint64) {
		t.Helper()
		hash, h, count := x.block(n)
		hashes, roots[h.StateRoot], filled = append(hashes, hash), true, filled+count
		if n > 0 && n%5 == 0 {
			if x.read(hash, h, other) != nil {
				t.Error("who committed nothing has a commitment")
			}
			x.read(hash, h, commitment)
		}
	}
	look(0)
	now = now.Add(time.Second)
	for n := uint64(1); n <= 45; n++ {
		if n%7 == 3 {
			if got := send(n-1, fmt.Sprintf("block %d", n)); !strings.Contains(got, `"result"`) {
				t.Fatalf("block %d: %s", n, got)
			}
		}
		if n == 31 { // nobody looked at the blocks since 30: they are told alike
			now = now.Add(2 * time.Second)
			n = 33
			for _, m := range []uint64{31, 32} {
				look(m)
			}
		}
		now = now.Add(time.Second)
		look(n)
	}
	if filled != 7 || len(roots) < 9 { // 7 commitments and two epochs of 20 blocks
		t.Errorf("%d extrinsics, %d states", filled, len(roots))
	}
	_, h, _ := x.block(40)
	if b := x.read(hashes[40], h, commitment); !bytes.Contains(b, []byte("block 38")) {
		t.Errorf("the commitment in block 40 is %q", b)
	}
	for _, bad := range []string{
		`{"id":1,"method":"state_getReadProof","params":[["` + hexed(must(x.meta.StorageKey("System", "Number"))) + `"]]}`,
		`{"id":1,"method":"state_getReadProof","params":[7]}`, `{"id":1,"method":"state_getReadProof","params":[["0xzz"]]}`,
	} {
		if got := ask(t, x.Server, bad); !strings.Contains(got, `"error"`) {
			t.Errorf("%s: %s", bad, got)
		}
	}
	for n, want := range hashes { // also those that are not in memory any more
		if hash, _, _ := x.block(uint64(n)); hash != want {
			t.Errorf("block %d was %s, and is %s", n, want, hash)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2000 * time.Second) // longer than states are kept
	l, x = open()
	defer l.Close()
	if got := send(45, "of before the restart"); !strings.Contains(got, "outdated") && !strings.Contains(got, "bad signature") {
		t.Errorf("an era that is over: %s", got)
	}
	now = now.Add(time.Second)
	for n, want := range hashes {
		if hash, _, _ := x.block(uint64(n)); hash != want {
			t.Errorf("block %d was %s, and is %s after the restart", n, want, hash)
		}
	}
	for _, n := range []uint64{46, 1023, 1024, 1025, 2044} {
		x.block(n)
	}
	hash, h, _ := x.block(2046)
	x.read(hash, h, commitment)
	s, err := New(Config{Ledger: noHeaders{l}, Genesis: "headers", Replay: l, BlockTime: l.BlockTime(), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(t, s, `{"id":1,"method":"state_getReadProof","params":[["0x00"]]}`); !strings.Contains(got, "keeps no states") {
		t.Error(got)
	}
}

// noHeaders is a ledger that keeps no states.
type noHeaders struct{ fullLedger }

type fullLedger = interface {
	Nonces
	Blocks
	ledger.Full
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// era is that of a block, 64 blocks long.
func era(birth uint64) []byte {
	code := uint64(5) | birth%64<<4
	return []byte{byte(code), byte(code >> 8)}
}
