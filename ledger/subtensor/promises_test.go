package subtensor

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// TestWeightCommitOrder reads promises as each real runtime writes them: the
// four numbers of the tuple changed their meaning between 393 and 424, and only
// the metadata's docs say so.
func TestWeightCommitOrder(t *testing.T) {
	for _, x := range []struct {
		spec  int
		model ledger.Model
		names []string
		tuple []any // after the hash
		want  ledger.WeightCommit
	}{
		{218, ledger.Modulo, []string{"hash", "commit_block", "first_reveal_block", "last_reveal_block"}, []any{uint64(400), uint64(500), uint64(600)}, ledger.WeightCommit{Epoch: 4, Block: 400}},
		{393, ledger.Modulo, []string{"hash", "commit_block", "first_reveal_block", "last_reveal_block"}, []any{uint64(400), uint64(500), uint64(600)}, ledger.WeightCommit{Epoch: 4, Block: 400}},
		{424, ledger.Dynamic, []string{"hash", "commit_epoch", "commit_block", "unused"}, []any{uint64(9), uint64(400), uint64(0)}, ledger.WeightCommit{Epoch: 9, Block: 400}},
	} {
		t.Run(fmt.Sprint(x.spec), func(t *testing.T) {
			b, err := os.ReadFile(fmt.Sprintf("../scale/testdata/spec-%d.scale", x.spec))
			if err != nil {
				t.Fatal(err)
			}
			m, err := scale.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			_, item, err := m.Storage(module, "WeightCommits")
			if err != nil || !slices.Equal(item.Elements(), x.names) {
				t.Fatalf("the parts are %v: %v", item.Elements(), err)
			}
			g := &ledger.Metagraph{Netuid: 3, Block: 450}
			g.Hyper.Model, g.Hyper.Tempo = x.model, 99
			x.want.Hash = ledger.Hash{7}
			tuple := append([]any{scale.Bytes(append([]byte{7}, make([]byte, 31)...))}, x.tuple...)
			// Through the codec, as from storage.
			raw, err := scale.Encode(nil, item.Value, []any{tuple})
			if err != nil {
				t.Fatal(err)
			}
			v, err := m.DecodeStorage(module, "WeightCommits", raw)
			if err != nil {
				t.Fatal(err)
			}
			if got := weightCommit(g, item.Elements(), v.([]any)[0]); got != x.want {
				t.Errorf("%+v, want %+v", got, x.want)
			}
			if got := weightCommit(g, nil, v.([]any)[0]); got != x.want {
				t.Errorf("without docs %+v, want %+v", got, x.want)
			}
		})
	}
	if _, _, err := timelockedCommit(1, nil, []any{"5x", uint64(1)}); err == nil {
		t.Error("a promise of two parts")
	}
}

// TestOnePromise reads the promise of the first runtimes, which keep one a hotkey.
func TestOnePromise(t *testing.T) {
	s := &scale.Storage{Value: &scale.Type{Form: scale.Tuple}}
	list, names := promisesIn(s, []any{scale.Bytes{7, 31: 9}, uint64(400)})
	if len(list) != 1 {
		t.Fatalf("%d promises", len(list))
	}
	g := &ledger.Metagraph{Netuid: 1, Hyper: ledger.Hyperparameters{Tempo: 100, Model: ledger.Modulo}}
	if w := weightCommit(g, names, list[0]); w.Hash[0] != 7 || w.Hash[31] != 9 || w.Block != 400 {
		t.Errorf("%+v", w)
	}
}
