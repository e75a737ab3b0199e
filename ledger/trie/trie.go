// Package trie has the Merkle tries of Substrate chains: their roots and proofs,
// base 16 with Blake2b-256. It is what a header's extrinsicsRoot and stateRoot are.
package trie

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/crypto/blake2b"

	"github.com/agon-arena/agon/ledger/scale"
)

// Version is the form of a trie's nodes.
type Version uint8

// Versions, by how runtimes number them.
const (
	V0 Version = 0 // all values in their nodes
	V1 Version = 1 // values of more than 32 bytes by their hash
)

// hashedFrom is from how many bytes on a value of V1 is named by its hash.
const hashedFrom = 33

// Entry is one key with its value.
type Entry struct{ Key, Value []byte }

// Trie is a trie that does not change. It is safe for concurrent use.
type Trie struct {
	root    *node
	version Version
}

type node struct {
	path     []byte // nibbles below the parent's branch
	value    []byte
	valued   bool
	children [16]*node
	branches int
	encoded  []byte
}

// Of makes the trie of entries. A key that is there twice is an error.
func Of(version Version, entries []Entry) (*Trie, error) {
	list := make([]Entry, len(entries))
	for i, e := range entries {
		list[i] = Entry{nibbles(e.Key), e.Value}
	}
	slices.SortFunc(list, func(a, b Entry) int { return bytes.Compare(a.Key, b.Key) })
	for i := 1; i < len(list); i++ {
		if bytes.Equal(list[i-1].Key, list[i].Key) {
			return nil, fmt.Errorf("a key of %d nibbles is there twice", len(list[i].Key))
		}
	}
	t := &Trie{version: version}
	if len(list) > 0 {
		t.root = t.build(list, 0)
	}
	return t, nil
}

// Ordered is the root of a list, such as the extrinsics of a block: each value
// under its index.
func Ordered(version Version, values [][]byte) ([32]byte, error) {
	entries := make([]Entry, len(values))
	for i, v := range values {
		entries[i] = Entry{scale.AppendCompact(nil, uint64(i)), v}
	}
	t, err := Of(version, entries)
	if err != nil {
		return [32]byte{}, err
	}
	return t.Root(), nil
}

func nibbles(key []byte) []byte {
	out := make([]byte, 0, 2*len(key))
	for _, b := range key {
		out = append(out, b>>4, b&15)
	}
	return out
}

// build makes the node of entries that agree in their first at nibbles; they are sorted.
func (t *Trie) build(list []Entry, at int) *node {
	first, last := list[0].Key, list[len(list)-1].Key
	end := at
	for end < len(first) && end < len(last) && first[end] == last[end] {
		end++
	}
	n := &node{path: first[at:end]}
	if len(first) == end {
		n.value, n.valued = list[0].Value, true
		list = list[1:]
	}
	for len(list) > 0 {
		branch := list[0].Key[end]
		to := slices.IndexFunc(list, func(e Entry) bool { return e.Key[end] != branch })
		if to < 0 {
			to = len(list)
		}
		n.children[branch] = t.build(list[:to], end+1)
		n.branches++
		list = list[to:]
	}
	n.encoded = t.encode(n)
	return n
}

func (t *Trie) hashed(n *node) bool {
	return n.valued && t.version == V1 && len(n.value) >= hashedFrom
}

// encode has what the children were encoded to.
func (t *Trie) encode(n *node) []byte {
	var b []byte
	switch hashed := t.hashed(n); {
	case n.branches == 0 && hashed:
		b = head(b, 0x20, 3, len(n.path))
	case n.branches == 0:
		b = head(b, 0x40, 2, len(n.path))
	case hashed:
		b = head(b, 0x10, 4, len(n.path))
	case n.valued:
		b = head(b, 0xc0, 2, len(n.path))
	default:
		b = head(b, 0x80, 2, len(n.path))
	}
	path := n.path
	if len(path)%2 == 1 {
		b, path = append(b, path[0]), path[1:]
	}
	for i := 0; i < len(path); i += 2 {
		b = append(b, path[i]<<4|path[i+1])
	}
	if n.branches > 0 {
		var bitmap uint16
		for i, c := range n.children {
			if c != nil {
				bitmap |= 1 << i
			}
		}
		b = binary.LittleEndian.AppendUint16(b, bitmap)
	}
	switch {
	case t.hashed(n):
		h := blake2b.Sum256(n.value)
		b = append(b, h[:]...)
	case n.valued:
		b = append(scale.AppendCompact(b, uint64(len(n.value))), n.value...)
	}
	for _, c := range n.children {
		if c != nil {
			part := c.encoded
			if len(part) >= 32 {
				h := blake2b.Sum256(part)
				part = h[:]
			}
			b = append(scale.AppendCompact(b, uint64(len(part))), part...)
		}
	}
	return b
}

// head writes the kind of a node, of so many bits, and the length of its path.
func head(b []byte, kind byte, bits, n int) []byte {
	most := 255 >> bits
	if n < most {
		return append(b, kind|byte(n))
	}
	b = append(b, kind|byte(most))
	for n -= most; n >= 255; n -= 255 {
		b = append(b, 255)
	}
	return append(b, byte(n))
}

// Root names the trie.
func (t *Trie) Root() [32]byte {
	if t.root == nil {
		return blake2b.Sum256([]byte{0})
	}
	return blake2b.Sum256(t.root.encoded)
}

// Proof are the nodes that somebody with the root needs to read keys, present or
// absent ones, in no order that matters.
func (t *Trie) Proof(keys [][]byte) [][]byte {
	if t.root == nil {
		return [][]byte{{0}}
	}
	seen := map[string]bool{}
	var out [][]byte
	add := func(b []byte) {
		if !seen[string(b)] {
			seen[string(b)] = true
			out = append(out, b)
		}
	}
	add(t.root.encoded)
	for _, key := range keys {
		rest, n := nibbles(key), t.root
		for n != nil {
			if n == t.root || len(n.encoded) >= 32 {
				add(n.encoded)
			}
			if !bytes.HasPrefix(rest, n.path) {
				break
			}
			if rest = rest[len(n.path):]; len(rest) == 0 {
				if t.hashed(n) {
					add(n.value)
				}
				break
			}
			n, rest = n.children[rest[0]], rest[1:]
		}
	}
	return out
}

// ErrProof says that a proof does not hold.
var ErrProof = errors.New("the proof does not hold")

// Read reads a key by a proof that somebody gave for a root. nil: the key is
// proved to have no value. ErrProof: the proof does not say.
func Read(root [32]byte, proof [][]byte, key []byte) ([]byte, error) {
	nodes := make(map[[32]byte][]byte, len(proof))
	for _, b := range proof {
		nodes[blake2b.Sum256(b)] = b
	}
	b, ok := nodes[root]
	if !ok {
		return nil, fmt.Errorf("%w: its root is missing", ErrProof)
	}
	rest := nibbles(key)
	for {
		p, err := parse(b)
		if err != nil {
			return nil, err
		}
		if p.empty || !bytes.HasPrefix(rest, p.path) {
			return nil, nil
		}
		if rest = rest[len(p.path):]; len(rest) == 0 {
			if !p.hashed {
				return p.value, nil
			}
			v, ok := nodes[[32]byte(p.value)] // 32 bytes, as read found
			if !ok {
				return nil, fmt.Errorf("%w: a value is missing", ErrProof)
			}
			return v, nil
		}
		child := p.children[rest[0]]
		if child == nil {
			return nil, nil
		}
		if b, rest = child, rest[1:]; len(child) == 32 {
			if b, ok = nodes[[32]byte(child)]; !ok {
				return nil, fmt.Errorf("%w: a node is missing", ErrProof)
			}
		}
	}
}

type parsed struct {
	empty, hashed, padded bool
	path, value           []byte
	children              [16][]byte
}

// parse reads a node.
func parse(b []byte) (p parsed, err error) {
	r := scale.NewReader(b)
	kind := r.U8()
	branch, valued, bits := false, true, 2
	switch {
	case kind == 0:
		p.empty = true
	case kind>>6 == 1:
	case kind>>6 == 2:
		branch, valued = true, false
	case kind>>6 == 3:
		branch = true
	case kind>>5 == 1:
		p.hashed, bits = true, 3
	case kind>>4 == 1:
		branch, p.hashed, bits = true, true, 4
	default:
		return p, fmt.Errorf("%w: a node of kind %#x", ErrProof, kind)
	}
	if !p.empty {
		p.read(r, kind, bits, branch, valued)
	}
	if err := r.End(); err != nil {
		return p, fmt.Errorf("%w: %w", ErrProof, err)
	}
	if p.padded {
		return p, fmt.Errorf("%w: a path begins in the midst of a byte", ErrProof)
	}
	return p, nil
}

func (p *parsed) read(r *scale.Reader, kind byte, bits int, branch, valued bool) {
	most := byte(255 >> bits)
	n := int(kind & most)
	for more := kind&most == most; more && r.Err() == nil; {
		c := r.U8()
		n += int(c)
		more = c == 255
	}
	p.path = nibbles(r.Bytes((n + 1) / 2))
	if n%2 == 1 && len(p.path) > 0 {
		p.padded = p.path[0] != 0
		p.path = p.path[1:]
	}
	var bitmap uint16
	if branch {
		bitmap = r.U16()
	}
	switch {
	case p.hashed:
		p.value = r.Bytes(32)
	case valued:
		p.value = append([]byte{}, r.Blob()...)
	}
	for i := range p.children {
		if bitmap>>i&1 == 1 {
			p.children[i] = append([]byte{}, r.Blob()...)
		}
	}
}
