package translog

import (
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/agon-arena/agon/calc"
)

// maxCalcLeaves bounds the leaves of one line of input.
const maxCalcLeaves = 1 << 16

// memoryTree holds the stored hashes of a tree.
type memoryTree []tlog.Hash

// ReadHashes implements tlog.HashReader.
func (m memoryTree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		if x < 0 || x >= int64(len(m)) {
			return nil, fmt.Errorf("hash %d is not in the tree", x)
		}
		out[i] = m[x]
	}
	return out, nil
}

// treeOf makes the tree of leaf hashes.
func treeOf(leaves []tlog.Hash) (memoryTree, error) {
	if len(leaves) > maxCalcLeaves {
		return nil, fmt.Errorf("leaves: %d, at most %d", len(leaves), maxCalcLeaves)
	}
	var m memoryTree
	for i, h := range leaves {
		hs, err := tlog.StoredHashesForRecordHash(int64(i), h, m)
		if err != nil {
			return nil, err
		}
		m = append(m, hs...)
	}
	return m, nil
}

// Rules are this package's rules for agon calc. Hashes are base64, as in tlog.
func Rules() []calc.Rule {
	type leafIn struct {
		Entry json.RawMessage `json:"entry"`
	}
	type leafOut struct {
		Hash tlog.Hash `json:"hash"`
	}
	type rootIn struct {
		Leaves []tlog.Hash `json:"leaves"`
	}
	type rootOut struct {
		Size int64     `json:"size"`
		Root tlog.Hash `json:"root"`
	}
	type incIn struct {
		Leaves []tlog.Hash `json:"leaves,omitempty"`
		Index  int64       `json:"index"`
		Size   int64       `json:"size,omitempty"`
		Leaf   *tlog.Hash  `json:"leaf,omitempty"`
		Root   *tlog.Hash  `json:"root,omitempty"`
		Proof  []tlog.Hash `json:"proof,omitempty"`
	}
	type incOut struct {
		OK    bool        `json:"ok"`
		Size  int64       `json:"size"`
		Root  tlog.Hash   `json:"root"`
		Proof []tlog.Hash `json:"proof"`
	}
	return []calc.Rule{
		calc.Func("log.leaf", "{entry: text (its bytes) or JSON (as it stands)} -> {hash}: SHA-256(0x00 || entry)", func(x leafIn) (leafOut, error) {
			b := []byte(x.Entry)
			var s string
			if json.Unmarshal(x.Entry, &s) == nil {
				b = []byte(s)
			}
			if len(b) > MaxEntry {
				return leafOut{}, fmt.Errorf("entry: %d bytes, at most %d", len(b), MaxEntry)
			}
			return leafOut{tlog.RecordHash(b)}, nil
		}),
		calc.Func("log.root", "{leaves [hash]} -> {size, root}: the root of RFC 6962's tree", func(x rootIn) (rootOut, error) {
			m, err := treeOf(x.Leaves)
			if err != nil {
				return rootOut{}, err
			}
			n := int64(len(x.Leaves))
			h, err := tlog.TreeHash(n, m)
			return rootOut{n, h}, err
		}),
		calc.Func("log.inclusion", "{leaves [hash], index} -> the proof; {index, size, leaf, root, proof [hash]} -> {ok, size, root, proof}: whether it holds", func(x incIn) (incOut, error) {
			if x.Leaves == nil {
				if x.Leaf == nil || x.Root == nil {
					return incOut{}, errors.New("give leaves, or leaf, root, size and proof")
				}
				if x.Index < 0 || x.Index >= x.Size {
					return incOut{}, fmt.Errorf("index: %d is not in a tree of %d", x.Index, x.Size)
				}
				err := tlog.CheckRecord(x.Proof, x.Size, *x.Root, x.Index, *x.Leaf)
				return incOut{err == nil, x.Size, *x.Root, append([]tlog.Hash{}, x.Proof...)}, nil
			}
			m, err := treeOf(x.Leaves)
			if err != nil {
				return incOut{}, err
			}
			n := int64(len(x.Leaves))
			if x.Index < 0 || x.Index >= n {
				return incOut{}, fmt.Errorf("index: %d is not in a tree of %d", x.Index, n)
			}
			p, err := tlog.ProveRecord(n, x.Index, m)
			if err != nil {
				return incOut{}, err
			}
			h, err := tlog.TreeHash(n, m)
			return incOut{true, n, h, append([]tlog.Hash{}, p...)}, err
		}),
	}
}
