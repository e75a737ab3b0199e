package merkle

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/sha3"
)

func rep(b string, n int) string { return "0x" + strings.Repeat(b, n) }

// The vectors of spec/bitsota.md 6.2 and 6.3.
func TestGolden(t *testing.T) {
	lane := Keccak([]byte("base:sota-local"))
	if lane.String() != "0x94644ecd920aaa5da091cc262bf91fa5289a6b6c6dd42a132fcdbfe95cc21e70" {
		t.Fatalf("lane %s", lane)
	}
	in := EVMInput{Epoch: 7, Lane: lane}
	for i, c := range []string{"aa", "bb", "cc"} {
		reward, err := ParseHash(rep([]string{"11", "22", "33"}[i], 32))
		if err != nil {
			t.Fatal(err)
		}
		in.Claims = append(in.Claims, EVMClaim{"0x" + strings.Repeat("00", 19) + c, json.Number(fmt.Sprintf("%d000000000000000000", i+1)), reward})
	}
	tree, err := in.Tree()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"0x685c64abe9b15a61e051109bbb5587a9fdeebb0c3d11f417f2314df6253a032b", "0x818f489e2c328bcd1d0d841eb730258ba436fb31e5dcb357f7bbb6f9554f43c5",
		"0x680931c0f370fda1c1eefeabf167e4a8d07a9313b935fb97d2a83b7c6e6d7e3a",
	} {
		if got := tree.Leaf(i).String(); got != want {
			t.Errorf("leaf %d %s", i, got)
		}
	}
	if got := tree.Root().String(); got != "0x88e2010ed850346c8014f3487f4950df350a12b3d23ddaa4cdc4a9b6a0feb731" {
		t.Errorf("root %s", got)
	}
	p0, _ := tree.Proof(0)
	if fmt.Sprint(p0) != fmt.Sprint([]Hash{tree.Leaf(1), tree.Leaf(2)}) {
		t.Errorf("proof 0 %v", p0)
	}
	p2, _ := tree.Proof(2)
	if fmt.Sprint(p2) != "[0x586eecabc20487c8ea5c4c73813ed1f271028f708d23b4cfa65c9048083be373]" {
		t.Errorf("proof 2 %v", p2)
	}
	alloc, _ := ParseHash(rep("44", 32))
	g, err := GenesisLeaf("0x"+strings.Repeat("00", 19)+"aa", "1500000000000000000", alloc)
	if err != nil || g.String() != "0xd4bd13699211957f465852f88190c7f0255fc0268be3e4f9837f7f189f831205" {
		t.Errorf("genesis leaf %s %v", g, err)
	}
	oz := OZInput{Types: []string{"address", "uint256"}, Values: [][]any{{rep("11", 20), "5000000000000000000"}, {rep("22", 20), json.Number("2.5e18")}}}
	tree, err = oz.Tree()
	if err != nil || tree.Root().String() != "0xd4dee0beab2d53f2cc83e567171bd2820e49898130a22622b10ead383e90bd77" {
		t.Fatalf("%v %v", tree, err)
	}
}

// The root that OpenZeppelin's own library (1.0.8) makes of 37 rows.
func TestOpenZeppelinRoot(t *testing.T) {
	in := OZInput{Types: []string{"address", "uint256"}}
	for i := range 37 {
		in.Values = append(in.Values, []any{fmt.Sprintf("0x%040x", i*7919+1), fmt.Sprint(i * 1000)})
	}
	tree, err := in.Tree()
	if err != nil || tree.Root().String() != "0xc64728f962446470dca0261091cb6fbfe8c9aee42188f306b7acb1f4f0972a1e" {
		t.Fatalf("%v %v", tree, err)
	}
}

// naiveRoot is written apart from the package, from the words of the standard
// alone: sort, fill the array from the back, hash pairs.
func naiveRoot(rows [][]byte) string {
	k := func(b ...[]byte) []byte {
		h := sha3.NewLegacyKeccak256()
		h.Write(bytes.Join(b, nil))
		return h.Sum(nil)
	}
	var leaves [][]byte
	for _, r := range rows {
		leaves = append(leaves, k(k(r)))
	}
	slices.SortFunc(leaves, bytes.Compare)
	tree := make([][]byte, 2*len(leaves)-1)
	for i, l := range leaves {
		tree[len(tree)-1-i] = l
	}
	for i := len(tree) - 1 - len(leaves); i >= 0; i-- {
		a, b := tree[2*i+1], tree[2*i+2]
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		tree[i] = k(a, b)
	}
	return "0x" + hex.EncodeToString(tree[0])
}

func TestAgainstNaive(t *testing.T) {
	rule, _ := RuleOf(ProfileOZ)
	for n := 1; n <= 40; n++ {
		in := OZInput{Types: []string{"address", "uint256"}}
		var rows [][]byte
		for i := range n {
			addr := fmt.Sprintf("0x%040x", i*7919+1)
			in.Values = append(in.Values, []any{addr, fmt.Sprint(i * 1000)})
			var row [64]byte
			big.NewInt(int64(i*7919 + 1)).FillBytes(row[:32])
			big.NewInt(int64(i * 1000)).FillBytes(row[32:])
			rows = append(rows, row[:])
		}
		tree, err := in.Tree()
		if err != nil {
			t.Fatal(err)
		}
		if got := tree.Root().String(); got != naiveRoot(rows) {
			t.Fatalf("%d leaves: %s", n, got)
		}
		for i := range n {
			p, err := tree.Proof(i)
			if err != nil || !Verify(rule, tree.Root(), tree.Leaf(i), p) {
				t.Fatalf("%d leaves: proof %d fails: %v", n, i, err)
			}
			if wrong, _ := OZLeaf(in.Types, []any{in.Values[i][0], "999999"}); Verify(rule, tree.Root(), wrong, p) {
				t.Fatalf("%d leaves: a tampered amount passes", n)
			}
		}
	}
}

func TestPromotingProofs(t *testing.T) {
	for _, profile := range []string{ProfileEVM, ProfileInk} {
		rule, _ := RuleOf(profile)
		for n := 1; n <= 33; n++ {
			var leaves []Hash
			for i := range n {
				leaves = append(leaves, Keccak([]byte{byte(i)}))
			}
			tree, err := Build(rule, leaves)
			if err != nil {
				t.Fatal(err)
			}
			if n == 1 && tree.Root() != leaves[0] {
				t.Fatal("the root of one leaf is the leaf")
			}
			for i := range n {
				p, err := tree.Proof(i)
				if err != nil || !Verify(rule, tree.Root(), leaves[i], p) || Verify(rule, tree.Root(), Keccak([]byte("x")), p) {
					t.Fatalf("%s, %d leaves, proof %d: %v", profile, n, i, err)
				}
			}
		}
	}
}

// The ink contract's tree by the numbers of another implementation of BLAKE2b
// (Python's hashlib): node = blake2b(0x01 ‖ min ‖ max), leaf = blake2b(0x00 ‖
// SCALE(claim)). Without their first byte an inner node could be passed off as a leaf.
func TestInkHashes(t *testing.T) {
	fill := func(b byte) (h Hash) {
		for i := range h {
			h[i] = b
		}
		return h
	}
	rule, err := RuleOf(ProfileInk)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		leaves []Hash
		root   string
	}{
		{[]Hash{fill(3), fill(1)}, "0x093e7f13668c7084db4cd45121fb59fd18d45797df620bf7cd993527be6f8295"},
		{[]Hash{fill(1), fill(3)}, "0x093e7f13668c7084db4cd45121fb59fd18d45797df620bf7cd993527be6f8295"},
		{[]Hash{fill(3), fill(1), fill(2)}, "0x7195f6e910ad9e423556781f67cb8a855c43ed1ea56bb825eae83ad2d34eb3a7"},
	} {
		tree, err := Build(rule, c.leaves)
		if err != nil || tree.Root().String() != c.root {
			t.Errorf("%d leaves: root %v, %v, want %s", len(c.leaves), tree.Root(), err, c.root)
		}
	}
	const leaf = "0xc2483502c37f616389bcfe841c6742950dd6948af097018f0c315812fba0cc41"
	if got := CumulativeLeaf(7, 3, fill(1), fill(2), 123_456_789); got.String() != leaf {
		t.Errorf("leaf %v, want %s", got, leaf)
	}
}

// Encodings as the ABI's specification shows them.
func TestEncode(t *testing.T) {
	for _, c := range []struct {
		types  []string
		values []any
		want   string
	}{
		{[]string{"uint32", "bool"}, []any{json.Number("69"), true}, word64(0x45) + word64(1)},
		{[]string{"bytes3[2]"}, []any{[]any{"0x616263", "0x646566"}}, "616263" + strings.Repeat("0", 58) + "646566" + strings.Repeat("0", 58)},
		{
			[]string{"bytes", "bool", "uint256[]"},
			[]any{"0x64617665", true, []any{"1", "2", "3"}},
			word64(0x60) + word64(1) + word64(0xa0) + word64(4) + "64617665" + strings.Repeat("0", 56) + word64(3) + word64(1) + word64(2) + word64(3),
		},
		{[]string{"int8"}, []any{"-1"}, strings.Repeat("f", 64)},
		{[]string{"string"}, []any{""}, word64(0x20) + word64(0)},
	} {
		b, err := Encode(c.types, c.values)
		if err != nil || hex.EncodeToString(b) != c.want {
			t.Errorf("%v: %x %v", c.types, b, err)
		}
	}
	for _, c := range []struct {
		types  []string
		values []any
	}{
		{[]string{"uint8"}, []any{"256"}},
		{[]string{"uint8"}, []any{"-1"}},
		{[]string{"int8"}, []any{"128"}},
		{[]string{"uint7"}, []any{"1"}},
		{[]string{"bytes33"}, []any{"0x00"}},
		{[]string{"address"}, []any{"0x11"}},
		{[]string{"uint256"}, []any{"1.5"}},
		{[]string{"uint256"}, []any{json.Number("1e999999999")}},
		{[]string{"uint256", "bool"}, []any{"1"}},
		{[]string{"tuple"}, []any{"1"}},
		{[]string{"bool"}, []any{"true"}},
		{[]string{"uint256[2]"}, []any{[]any{"1"}}},
		{nil, nil},
	} {
		if b, err := Encode(c.types, c.values); err == nil {
			t.Errorf("%v %v: %x", c.types, c.values, b)
		}
	}
}

func word64(n int) string { return fmt.Sprintf("%064x", n) }

func BenchmarkTree(b *testing.B) {
	in := OZInput{Types: []string{"address", "uint256"}}
	for i := range 100_000 {
		in.Values = append(in.Values, []any{fmt.Sprintf("0x%040x", i), fmt.Sprint(i)})
	}
	for b.Loop() {
		if _, err := in.Tree(); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzEncode(f *testing.F) {
	f.Add("uint256", `"1"`)
	f.Add("bytes[][2]", `[["0x00"],[]]`)
	f.Fuzz(func(t *testing.T, typ, value string) {
		d := json.NewDecoder(strings.NewReader(value))
		d.UseNumber()
		var v any
		if d.Decode(&v) != nil {
			return
		}
		if b, err := Encode([]string{typ}, []any{v}); err == nil && len(b)%32 != 0 {
			t.Fatalf("%d bytes", len(b))
		}
	})
}
