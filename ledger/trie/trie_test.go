package trie

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// random makes entries whose keys share beginnings, are each other's beginnings
// and are long, with values on both sides of what is hashed.
func random(r *rand.Rand) []Entry {
	seen := map[string]bool{}
	var out []Entry
	for range r.IntN(40) + 1 {
		key := bytes.Repeat([]byte{byte(r.IntN(3))}, r.IntN(3))
		for range r.IntN(4) {
			key = append(key, byte(r.IntN(256)))
		}
		if r.IntN(8) == 0 {
			key = append(key, bytes.Repeat([]byte{0x5a}, r.IntN(200))...)
		}
		if seen[string(key)] {
			continue
		}
		seen[string(key)] = true
		v := make([]byte, []int{0, 1, 5, 31, 32, 33, 34, 200}[r.IntN(8)])
		for i := range v {
			v[i] = byte(r.IntN(256))
		}
		out = append(out, Entry{key, v})
	}
	return out
}

// TestGolden compares roots with those that sp-trie 47 made of the same entries.
func TestGolden(t *testing.T) {
	f, err := os.Open("testdata/roots.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := 0
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for r := rand.New(rand.NewPCG(1, 2)); in.Scan(); lines++ {
		entries := random(r)
		got := []string{}
		for _, version := range []Version{V0, V1} {
			trie, err := Of(version, entries)
			if err != nil {
				t.Fatal(err)
			}
			root := trie.Root()
			got = append(got, hex.EncodeToString(root[:]))
		}
		values := make([][]byte, len(entries))
		for i, e := range entries {
			values[i] = e.Value
		}
		root, err := Ordered(V0, values)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, hex.EncodeToString(root[:])); strings.Join(got, " ") != in.Text() {
			t.Fatalf("line %d: %v, want %s", lines, got, in.Text())
		}
	}
	if in.Err() != nil || lines < 100 {
		t.Errorf("%d lines: %v", lines, in.Err())
	}
}

// A proof says of each key what the trie has there; with a byte changed or a node
// left out it says nothing else.
func TestProof(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for round := range 12 {
		entries := random(r)
		trie, err := Of(Version(round%2), entries)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]byte{}
		for _, e := range entries {
			want[string(e.Key)] = e.Value
		}
		keys := [][]byte{{}, {0}, {1, 1, 1}, bytes.Repeat([]byte{0x5a}, 9)}
		for _, e := range entries {
			keys = append(keys, e.Key, append(bytes.Clone(e.Key), 7))
		}
		root, proof := trie.Root(), trie.Proof(keys)
		for _, key := range keys {
			v, err := Read(root, proof, key)
			if _, there := want[string(key)]; err != nil || there != (v != nil) || !bytes.Equal(v, want[string(key)]) {
				t.Fatalf("round %d, key %x: %x, want %x: %v", round, key, v, want[string(key)], err)
			}
			for i := range proof {
				short := append(append([][]byte{}, proof[:i]...), proof[i+1:]...)
				v, err := Read(root, short, key)
				if err == nil && !bytes.Equal(v, want[string(key)]) {
					t.Fatalf("without node %d key %x reads as %x", i, key, v)
				}
				if errors.Is(err, ErrProof) {
					refused++
				}
			}
		}
		for i, b := range proof {
			if len(b) == 0 {
				continue
			}
			changed := append([][]byte{}, proof...)
			changed[i] = bytes.Clone(b)
			changed[i][r.IntN(len(b))] ^= 1 << r.IntN(8)
			for _, key := range keys {
				if v, err := Read(root, changed, key); err == nil && !bytes.Equal(v, want[string(key)]) {
					t.Fatalf("with a changed node key %x reads as %x", key, v)
				}
			}
		}
	}
	if refused == 0 {
		t.Error("no proof was refused")
	}
}

func TestEdges(t *testing.T) {
	empty, err := Of(V1, nil)
	if err != nil {
		t.Fatal(err)
	}
	root := empty.Root()
	if hex.EncodeToString(root[:]) != "03170a2e7597b7b7e3d84c05391d139a62b157e78786d8c082f29dcf4c111314" {
		t.Errorf("the empty root is %x", root)
	}
	if v, err := Read(root, empty.Proof(nil), []byte("k")); v != nil || err != nil {
		t.Errorf("%x %v", v, err)
	}
	if _, err := Of(V1, []Entry{{[]byte("k"), nil}, {[]byte("k"), nil}}); err == nil {
		t.Error("a key was there twice")
	}
}

func FuzzRead(f *testing.F) {
	trie, err := Of(V1, random(rand.New(rand.NewPCG(1, 2))))
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range trie.Proof([][]byte{{0}, {1}}) {
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) {
		if p, err := parse(b); err == nil {
			_ = fmt.Sprint(p.path)
		}
	})
}

func BenchmarkRoot(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	entries := make([]Entry, 10_000)
	for i := range entries {
		entries[i] = Entry{make([]byte, 50), make([]byte, 40)}
		for j := range entries[i].Key {
			entries[i].Key[j] = byte(r.IntN(256))
		}
	}
	for b.Loop() {
		if _, err := Of(V1, entries); err != nil {
			b.Fatal(err)
		}
	}
}
