//go:build interop

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"testing"

	"github.com/agon-arena/agon/internal/interoptest"
	"github.com/agon-arena/agon/kinds/research/merkle"
)

// OpenZeppelin's own library makes the same tree: root and every proof.
func TestStandardTreeAgainstOpenZeppelin(t *testing.T) {
	dir := interoptest.File(t, "node")
	interoptest.File(t, "node", "node_modules", "@openzeppelin", "merkle-tree")
	for _, n := range []int{1, 2, 3, 37, 128} {
		in := merkle.OZInput{Types: []string{"address", "uint256"}}
		var rows [][]string
		for i := range n {
			row := []string{fmt.Sprintf("0x%040x", i*7919+1), fmt.Sprint(i * 1000)}
			rows = append(rows, row)
			in.Values = append(in.Values, []any{row[0], row[1]})
		}
		tree, err := in.Tree()
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("node", "-e", `const {StandardMerkleTree:T}=require("@openzeppelin/merkle-tree");
			const rows=JSON.parse(require("fs").readFileSync(0));const t=T.of(rows,["address","uint256"]);
			console.log(JSON.stringify({root:t.root,proofs:rows.map(r=>t.getProof(r))}))`)
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(b)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var want struct {
			Root   merkle.Hash     `json:"root"`
			Proofs [][]merkle.Hash `json:"proofs"`
		}
		if err := json.Unmarshal(out, &want); err != nil {
			t.Fatal(err)
		}
		if tree.Root() != want.Root {
			t.Errorf("%d rows: root %s, want %s", n, tree.Root(), want.Root)
		}
		for i := range n {
			if p, err := tree.Proof(i); err != nil || !slices.Equal(p, want.Proofs[i]) {
				t.Errorf("%d rows: proof %d %v, want %v", n, i, p, want.Proofs[i])
			}
		}
	}
}
