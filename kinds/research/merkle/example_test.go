package merkle_test

import (
	"fmt"
	"strings"

	"github.com/agon-arena/agon/kinds/research/merkle"
)

// A reward package is one root; whoever holds a leaf and its proof can show
// that it is part of it.
func ExampleBuild() {
	rule, err := merkle.RuleOf(merkle.ProfileOZ)
	if err != nil {
		fmt.Println(err)
		return
	}
	var leaves []merkle.Hash
	for i, amount := range []string{"5000000000000000000", "2500000000000000000"} {
		leaf, err := merkle.OZLeaf([]string{"address", "uint256"}, []any{"0x" + strings.Repeat([]string{"11", "22"}[i], 20), amount})
		if err != nil {
			fmt.Println(err)
			return
		}
		leaves = append(leaves, leaf)
	}
	tree, err := merkle.Build(rule, leaves)
	if err != nil {
		fmt.Println(err)
		return
	}
	proof, err := tree.Proof(0)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(tree.Root())
	fmt.Println(merkle.Verify(rule, tree.Root(), tree.Leaf(0), proof))
	fmt.Println(merkle.Verify(rule, tree.Root(), tree.Leaf(1), proof))
	// Output:
	// 0xd4dee0beab2d53f2cc83e567171bd2820e49898130a22622b10ead383e90bd77
	// true
	// false
}
