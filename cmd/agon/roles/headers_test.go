package roles

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ledger/scale"
	"github.com/agon-arena/agon/ledger/trie"
)

// A stranger checks a block of the server's own ledger: its hash is that of its
// header, which names the state, and a proof from there says what is stored.
func TestServedBlocksAreChecked(t *testing.T) {
	r := newRegistry(t, t.TempDir(), local.RegistrationColdkey)
	ask := func(v any, method string, params ...any) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.Post(r.URL()+"/rpc", "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		var got struct{ Result, Error json.RawMessage }
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil || got.Error != nil {
			t.Fatalf("%s: %s %v", method, got.Error, err)
		}
		if err := json.Unmarshal(got.Result, v); err != nil {
			t.Fatal(err)
		}
	}
	bytesOf := func(text string) []byte {
		t.Helper()
		b, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var hash string
	var h struct{ ParentHash, Number, StateRoot, ExtrinsicsRoot string }
	for look := time.NewTicker(50 * time.Millisecond); h.Number == "" || h.Number == "0x0"; <-look.C { // the genesis names the ledger instead of a state
		ask(&hash, "chain_getFinalizedHead")
		ask(&h, "chain_getHeader", hash)
	}
	number, err := strconv.ParseUint(h.Number[2:], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	enc := append(bytesOf(h.ParentHash), scale.AppendCompact(nil, number)...)
	enc = append(append(append(enc, bytesOf(h.StateRoot)...), bytesOf(h.ExtrinsicsRoot)...), 0)
	if sum := blake2b.Sum256(enc); "0x"+hex.EncodeToString(sum[:]) != hash {
		t.Errorf("the header of block %d hashes to %x, the node names it %s", number, sum, hash)
	}
	var keys []string // of SubtensorModule.Tempo
	ask(&keys, "state_getKeysPaged", "0x658faa385070e074c85bf6b568cf05557641384bb339f3758acddfd7053d3317", 1, nil, hash)
	if len(keys) == 0 {
		t.Fatal("nothing is stored")
	}
	var proof struct{ Proof []string }
	ask(&proof, "state_getReadProof", keys, hash)
	var nodes [][]byte
	for _, n := range proof.Proof {
		nodes = append(nodes, bytesOf(n))
	}
	var said string
	ask(&said, "state_getStorage", keys[0], hash)
	got, err := trie.Read([32]byte(bytesOf(h.StateRoot)), nodes, bytesOf(keys[0]))
	if err != nil || !bytes.Equal(got, bytesOf(said)) {
		t.Errorf("proved %x, said %s: %v", got, said, err)
	}
}
