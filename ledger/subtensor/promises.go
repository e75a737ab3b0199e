package subtensor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// promises reads the weight commits that wait: hashes, and timelocks that the
// chain opens itself.
func (c *Client) promises(ctx context.Context, m *scale.Metadata, at point, g *ledger.Metagraph) error {
	for _, item := range []string{"WeightCommits", "TimelockedWeightCommits"} {
		_, s, err := m.Storage(module, item)
		if errors.Is(err, scale.ErrUnknown) {
			continue
		} else if err != nil {
			return err
		}
		all, err := c.entries(ctx, m, at, module, item, g.Netuid)
		if err != nil {
			return err
		}
		for _, e := range all {
			list, names := promisesIn(s, e.value)
			for _, x := range list {
				var w ledger.WeightCommit
				var who string
				if item == "WeightCommits" {
					who, _ = e.keys[1].(string)
					w = weightCommit(g, names, x)
				} else {
					epoch, _ := e.keys[1].(uint64)
					if who, w, err = timelockedCommit(epoch, names, x); err != nil {
						return err
					}
				}
				if i := slices.IndexFunc(g.Neurons, func(n ledger.Neuron) bool { return n.Hotkey == who }); i >= 0 {
					g.Neurons[i].Commits = append(g.Neurons[i].Commits, w)
				}
			}
		}
	}
	for i := range g.Neurons {
		slices.SortStableFunc(g.Neurons[i].Commits, func(a, b ledger.WeightCommit) int {
			return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Block, b.Block))
		})
	}
	return nil
}

// promisesIn lists the promises of one key, and the names of their parts.
func promisesIn(s *scale.Storage, v any) (list []any, names []string) {
	if s.Value.Form == scale.Tuple { // the first runtimes keep one for a hotkey: (hash, block)
		return []any{v}, []string{"hash", "commit_block"}
	}
	list, _ = v.([]any)
	return list, s.Elements()
}

// named gives the parts of a tuple the names that the metadata has for them.
func named(names []string, x any) values {
	list, _ := x.([]any)
	if len(list) != len(names) {
		return nil
	}
	out := values{}
	for i, name := range names {
		out[name] = list[i]
	}
	return out
}

// weightCommit reads a promise of a hash. Runtimes keep the epoch and the block
// of it, or, before, its block and those that bound its reveal.
func weightCommit(g *ledger.Metagraph, names []string, x any) (w ledger.WeightCommit) {
	list, _ := x.([]any)
	v := named(names, x)
	if v == nil && len(list) == 4 { // metadata without docs: only the older form has a last block
		names = []string{"hash", "commit_epoch", "commit_block", "unused"}
		if last, _ := list[3].(uint64); last > 0 {
			names = []string{"hash", "commit_block", "first_reveal_block", "last_reveal_block"}
		}
		v = named(names, x)
	}
	b, _ := v["hash"].(scale.Bytes)
	copy(w.Hash[:], b)
	w.Block = v.num("commit_block")
	if _, ok := v["commit_epoch"]; ok {
		w.Epoch = v.num("commit_epoch")
		return w
	}
	switch tempo := uint64(g.Hyper.Tempo); {
	case g.Hyper.Model == ledger.Modulo:
		w.Epoch = ledger.EpochIndex(&g.Hyper, g.Epoch, g.Netuid, w.Block)
	case w.Block >= g.Epoch.LastBlock || tempo == 0:
		w.Epoch = g.Epoch.Index
	default:
		w.Epoch = g.Epoch.Index - min(g.Epoch.Index, (g.Epoch.LastBlock-w.Block+tempo-1)/tempo)
	}
	return w
}

// timelockedCommit reads a promise that is a ciphertext. Its hash is that of the ciphertext.
func timelockedCommit(epoch uint64, names []string, x any) (who string, w ledger.WeightCommit, err error) {
	if names == nil {
		names = []string{"who", "commit_block", "ciphertext", "reveal_round"}
	}
	v := named(names, x)
	who = v.text("who")
	sealed, ok := v["ciphertext"].(scale.Bytes)
	if who == "" || !ok {
		return "", w, fmt.Errorf("%w: timelocked weights without committer or ciphertext", ErrBadState)
	}
	return who, ledger.WeightCommit{Hash: scale.Hash(sealed), Epoch: epoch, Block: v.num("commit_block"), Round: v.num("reveal_round")}, nil
}
