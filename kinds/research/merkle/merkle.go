// Package merkle builds, proves and verifies the Merkle trees of reward
// packages: OpenZeppelin's standard tree, the EVM tree of emission roots, and a
// tree of cumulative claims. It is pure.
//
//	oz    leaf = keccak(keccak(abi.encode(values))), leaves sorted, complete tree
//	evm   leaf = keccak(abi.encode("SOTA_EMISSION_CLAIM", …)), leaves in the order of claims, odd node promoted
//	ink   leaf = blake2b(0x00 ‖ SCALE(claim)), node = blake2b(0x01 ‖ min ‖ max), odd node promoted
package merkle

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/blake2b"
	"golang.org/x/crypto/sha3"
)

// Profiles.
const (
	ProfileOZ  = "oz"
	ProfileEVM = "evm"
	ProfileInk = "ink-cumulative-v1"
)

// MaxLeaves bounds a tree.
const MaxLeaves = 1_000_000

// Hash is a node of a tree.
type Hash [32]byte

// String writes 0x and 64 hex digits.
func (h Hash) String() string { return "0x" + hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads 64 hex digits, with 0x in front or not.
func (h *Hash) UnmarshalText(b []byte) error {
	s := strings.TrimPrefix(string(b), "0x")
	if len(s) != 64 {
		return fmt.Errorf("hash %.80q: want 64 hex digits", string(b))
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return fmt.Errorf("hash %.80q: want 64 hex digits", string(b))
	}
	return nil
}

// Keccak is Keccak-256, as Ethereum has it.
func Keccak(parts ...[]byte) (h Hash) {
	k := states.Get().(hash.Hash)
	k.Reset()
	for _, p := range parts {
		k.Write(p)
	}
	k.Sum(h[:0])
	states.Put(k)
	return h
}

// states keeps hash states for reuse: a tree of 100,000 leaves takes 300,000 hashes.
var states = sync.Pool{New: func() any { return sha3.NewLegacyKeccak256() }}

// each runs f for 0..n-1 on all cores and returns the error of the lowest i.
func each(n int, f func(i int) error) error {
	workers := min(runtime.GOMAXPROCS(0), 1+n/256)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				errs[i] = f(i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Rule is how a profile hashes nodes.
type Rule struct {
	Profile string
	node    func(a, b Hash) Hash
	// complete trees stand in one array, leaves sorted, nothing promoted.
	complete bool
}

// RuleOf returns the rule of a profile.
func RuleOf(profile string) (Rule, error) {
	switch profile {
	case ProfileOZ:
		return Rule{profile, keccakPair, true}, nil
	case ProfileEVM:
		return Rule{profile, keccakPair, false}, nil
	case ProfileInk:
		return Rule{profile, blakePair, false}, nil
	}
	return Rule{}, fmt.Errorf("unknown profile %.40q: want %s, %s or %s", profile, ProfileOZ, ProfileEVM, ProfileInk)
}

func ordered(a, b Hash) (Hash, Hash) {
	if bytes.Compare(a[:], b[:]) > 0 {
		return b, a
	}
	return a, b
}

func keccakPair(a, b Hash) Hash {
	a, b = ordered(a, b)
	return Keccak(a[:], b[:])
}

func blakePair(a, b Hash) Hash {
	a, b = ordered(a, b)
	var in [65]byte
	in[0] = 1
	copy(in[1:], a[:])
	copy(in[33:], b[:])
	return blake2b.Sum256(in[:])
}

// Tree is a built tree. Leaves are addressed by the order in which they were given.
type Tree struct {
	rule   Rule
	leaves []Hash
	levels [][]Hash // of promoting trees, leaves first
	array  []Hash   // of complete trees, root first
	at     []int    // of each leaf, in array
}

// ErrEmpty is returned for a tree without leaves.
var ErrEmpty = errors.New("a tree has at least one leaf")

// Build makes the tree of leaves.
func Build(r Rule, leaves []Hash) (*Tree, error) {
	if len(leaves) == 0 {
		return nil, ErrEmpty
	}
	if len(leaves) > MaxLeaves {
		return nil, fmt.Errorf("%d leaves, at most %d are allowed", len(leaves), MaxLeaves)
	}
	t := &Tree{rule: r, leaves: leaves}
	if r.complete {
		t.buildComplete()
	} else {
		t.buildLevels()
	}
	return t, nil
}

func (t *Tree) buildComplete() {
	n := len(t.leaves)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return bytes.Compare(t.leaves[a][:], t.leaves[b][:]) })
	t.array, t.at = make([]Hash, 2*n-1), make([]int, n)
	for i, leaf := range order {
		k := len(t.array) - 1 - i
		t.array[k], t.at[leaf] = t.leaves[leaf], k
	}
	for i := len(t.array) - 1 - n; i >= 0; i-- {
		t.array[i] = t.rule.node(t.array[2*i+1], t.array[2*i+2])
	}
}

func (t *Tree) buildLevels() {
	level := t.leaves
	t.levels = [][]Hash{level}
	for len(level) > 1 {
		up := make([]Hash, 0, (len(level)+1)/2)
		for i := 0; i+1 < len(level); i += 2 {
			up = append(up, t.rule.node(level[i], level[i+1]))
		}
		if len(level)%2 == 1 {
			up = append(up, level[len(level)-1])
		}
		t.levels = append(t.levels, up)
		level = up
	}
}

// Root is the tree's root.
func (t *Tree) Root() Hash {
	if t.rule.complete {
		return t.array[0]
	}
	return t.levels[len(t.levels)-1][0]
}

// Len counts the leaves.
func (t *Tree) Len() int { return len(t.leaves) }

// Leaf returns the ith leaf as given.
func (t *Tree) Leaf(i int) Hash { return t.leaves[i] }

// Proof returns the siblings of the ith leaf, from the leaf up.
func (t *Tree) Proof(i int) ([]Hash, error) {
	if i < 0 || i >= len(t.leaves) {
		return nil, fmt.Errorf("index %d: the tree has %d leaves", i, len(t.leaves))
	}
	out := []Hash{}
	if t.rule.complete {
		for k := t.at[i]; k > 0; k = (k - 1) / 2 {
			if k%2 == 1 {
				out = append(out, t.array[k+1])
			} else {
				out = append(out, t.array[k-1])
			}
		}
		return out, nil
	}
	for _, level := range t.levels[:len(t.levels)-1] {
		if s := i ^ 1; s < len(level) {
			out = append(out, level[s])
		}
		i /= 2
	}
	return out, nil
}

// Verify reports whether proof leads from leaf to root.
func Verify(r Rule, root, leaf Hash, proof []Hash) bool {
	h := leaf
	for _, p := range proof {
		h = r.node(h, p)
	}
	return h == root
}

// OZLeaf is the leaf of one row of values in the standard tree.
func OZLeaf(types []string, values []any) (Hash, error) {
	s, err := parseTypes(types)
	if err != nil {
		return Hash{}, err
	}
	return s.leaf(values)
}

func (s signature) leaf(values []any) (Hash, error) {
	b, err := s.encode(values)
	if err != nil {
		return Hash{}, err
	}
	inner := Keccak(b)
	return Keccak(inner[:]), nil
}

// Tags of the EVM leaves.
const (
	emissionTag = "SOTA_EMISSION_CLAIM"
	genesisTag  = "SOTA_GENESIS_CLAIM"
)

// EmissionLeaf is the leaf of one claim of an epoch: amount as EncodeValue reads integers.
func EmissionLeaf(epoch uint64, lane Hash, account string, amount any, reward Hash) (Hash, error) {
	b, err := Encode([]string{"string", "uint64", "bytes32", "address", "uint256", "bytes32"},
		[]any{emissionTag, fmt.Sprint(epoch), lane.String(), account, amount, reward.String()})
	if err != nil {
		return Hash{}, err
	}
	return Keccak(b), nil
}

// CumulativeLeaf is the leaf of a cumulative claim (ProfileInk): all that a
// hotkey has earned until an epoch.
func CumulativeLeaf(epoch uint64, index uint32, hotkey, recipient [32]byte, amount uint64) Hash {
	var b [1 + 8 + 4 + 32 + 32 + 8]byte
	binary.LittleEndian.PutUint64(b[1:], epoch)
	binary.LittleEndian.PutUint32(b[9:], index)
	copy(b[13:], hotkey[:])
	copy(b[45:], recipient[:])
	binary.LittleEndian.PutUint64(b[77:], amount)
	return blake2b.Sum256(b[:])
}
