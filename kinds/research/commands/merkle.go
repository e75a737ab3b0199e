package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/research/merkle"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/output"
)

// maxMerkle bounds the files that merkle commands read, in bytes.
const maxMerkle = 256 << 20

// merkleFile is what build and prove read: one of the three profiles.
type merkleFile struct {
	Profile string            `json:"profile"`
	Types   []string          `json:"types"`
	Values  [][]any           `json:"values"`
	Epoch   uint64            `json:"epoch"`
	Lane    merkle.Hash       `json:"lane"`
	Claims  []merkle.EVMClaim `json:"claims"`
}

// merkleProof is what prove prints and verify reads.
type merkleProof struct {
	Profile string        `json:"profile"`
	Root    merkle.Hash   `json:"root"`
	Index   int           `json:"index"`
	Leaf    merkle.Hash   `json:"leaf"`
	Proof   []merkle.Hash `json:"proof"`
	// Types and Value, where they are there, are what the leaf must be made of.
	Types []string `json:"types,omitempty"`
	Value []any    `json:"value,omitempty"`
}

func (a commands) merkle() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "merkle",
		Short: "Build, prove and verify the Merkle trees of reward packages",
		Long: `Build, prove and verify Merkle trees. Profiles: oz (OpenZeppelin's standard tree: double-hashed leaves, sorted),
evm (emission claims), and ink-cumulative-v1 (agon's epochs of cumulative claims, only verified here).`,
		Example: "  agon merkle build claims.json\n  agon merkle verify evidence.json",
		Args:    a.NoSubcommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.merkleBuild(), a.merkleProve(), a.merkleVerify())
	return cmd
}

// readMerkle reads a JSON file, "-" is standard input.
func (a commands) readMerkle(path string, v any) error {
	var in io.Reader = a.IO.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return &agon.Error{Code: "not_found", Status: 404, Field: "file", Message: err.Error()}
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxMerkle+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if len(b) > maxMerkle {
		return &agon.Error{Code: "too_large", Status: 413, Field: "file", Limit: fmt.Sprintf("%d bytes", maxMerkle), Message: path + " is too large"}
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return &agon.Error{Code: "bad_file", Status: 422, Field: "file", Message: fmt.Sprintf("%s: %v", path, err)}
	}
	return nil
}

func (f merkleFile) tree() (*merkle.Tree, string, error) {
	profile := f.Profile
	if profile == "" {
		profile = merkle.ProfileEVM
		if f.Types != nil {
			profile = merkle.ProfileOZ
		}
	}
	var t *merkle.Tree
	var err error
	switch profile {
	case merkle.ProfileOZ:
		t, err = merkle.OZInput{Types: f.Types, Values: f.Values}.Tree()
	case merkle.ProfileEVM:
		t, err = merkle.EVMInput{Epoch: f.Epoch, Lane: f.Lane, Claims: f.Claims}.Tree()
	default:
		err = fmt.Errorf("profile %.40q: build oz or evm", profile)
	}
	if err != nil {
		return nil, "", &agon.Error{Code: "bad_tree", Status: 422, Field: "file", Message: err.Error()}
	}
	return t, profile, nil
}

func (a commands) merkleBuild() *cobra.Command {
	return &cobra.Command{
		Use: "build FILE", Short: "Build a tree and print its root", Args: cli.Args(1, 1, "a file, or -"),
		Long:    "Build the tree of {types, values} (profile oz) or {epoch, lane, claims} (profile evm). JSON: {profile, root, leaf_count, leaves}.",
		Example: "  agon merkle build claims.json --jq .root",
		RunE: func(cmd *cobra.Command, in []string) error {
			var f merkleFile
			if err := a.readMerkle(in[0], &f); err != nil {
				return err
			}
			t, profile, err := f.tree()
			if err != nil {
				return err
			}
			leaves := make([]merkle.Hash, t.Len())
			for i := range leaves {
				leaves[i] = t.Leaf(i)
			}
			return a.Printer.Print(cmd.Context(), output.Result{
				Value: map[string]any{"profile": profile, "root": t.Root(), "leaf_count": t.Len(), "leaves": leaves}, IDs: []string{t.Root().String()},
				Human: func(h *output.Human) {
					h.Fields([2]string{"profile", profile}, [2]string{"root", t.Root().String()}, [2]string{"leaves", fmt.Sprint(t.Len())})
				},
			})
		},
	}
}

func (a commands) merkleProve() *cobra.Command {
	var index int
	cmd := &cobra.Command{
		Use: "prove FILE --index N", Short: "Print the proof of one row", Args: cli.Args(1, 1, "a file, or -"),
		Long: "Print the proof of one row of a tree, from 0. JSON: {profile, root, index, leaf, proof, types, value}; verify reads it.", Example: "  agon merkle prove claims.json --index 3 | agon merkle verify -",
		RunE: func(cmd *cobra.Command, in []string) error {
			var f merkleFile
			if err := a.readMerkle(in[0], &f); err != nil {
				return err
			}
			t, profile, err := f.tree()
			if err != nil {
				return err
			}
			p := merkleProof{Profile: profile, Root: t.Root(), Index: index}
			if p.Proof, err = t.Proof(index); err != nil {
				return output.Usage("index", fmt.Sprintf("give 0 to %d", t.Len()-1), "%v", err)
			}
			p.Leaf = t.Leaf(index)
			if profile == merkle.ProfileOZ {
				p.Types, p.Value = f.Types, f.Values[index]
			}
			return a.Printer.Print(cmd.Context(), output.Result{Value: p, IDs: []string{p.Leaf.String()}})
		},
	}
	cmd.Flags().IntVar(&index, "index", 0, "the row, from 0")
	return cmd
}

func (a commands) merkleVerify() *cobra.Command {
	var previous string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Verify a proof, or an epoch's evidence", Args: cli.Args(1, 1, "a file, or -"),
		Long: `Verify what prove printed, or the evidence of a reward epoch: its root, its standard root, its totals, its floors and,
with --previous, that every claim grew by what it earned; or the evidence of an emission root. Everything is computed again from the file alone. Exit code 1
and every mistake, if anything does not fit.`,
		Example: "  agon merkle verify proof.json\n  curl -fsS $URL/claims/epoch/3 | agon merkle verify - --previous epoch2.json",
		RunE: func(cmd *cobra.Command, in []string) error {
			var raw json.RawMessage
			if err := a.readMerkle(in[0], &raw); err != nil {
				return err
			}
			var e merkle.Evidence
			if json.Unmarshal(raw, &e) == nil && e.Version != "" {
				var before *merkle.Evidence
				if previous != "" {
					before = &merkle.Evidence{}
					if err := a.readMerkle(previous, before); err != nil {
						return err
					}
				}
				if err := e.Verify(before); err != nil {
					return fmt.Errorf("epoch %d is not what it says: %w", e.Epoch, err)
				}
				return a.verified(cmd, map[string]any{"ok": true, "epoch": e.Epoch, "root": e.Root, "leaf_count": e.LeafCount, "total_rao": e.Total})
			}
			var m merkle.Emission
			if json.Unmarshal(raw, &m) == nil && m.Bundle.Version != "" {
				if err := m.Verify(); err != nil {
					return fmt.Errorf("epoch %d of %s is not what it says: %w", m.Root.Epoch, plain.Line(m.Root.Subnet), err)
				}
				return a.verified(cmd, map[string]any{"ok": true, "subnet_id": m.Root.Subnet, "epoch": m.Root.Epoch, "root": m.Root.Root, "leaf_count": m.Root.LeafCount, "total_amount_units": m.Root.Total})
			}
			var p merkleProof
			d := json.NewDecoder(bytes.NewReader(raw))
			d.UseNumber()
			if err := d.Decode(&p); err != nil {
				return &agon.Error{Code: "bad_file", Status: 422, Field: "file", Message: err.Error()}
			}
			r, err := merkle.RuleOf(p.Profile)
			if err != nil {
				return &agon.Error{Code: "bad_file", Status: 422, Field: "profile", Message: err.Error()}
			}
			if p.Types != nil {
				leaf, err := merkle.OZLeaf(p.Types, p.Value)
				if err != nil {
					return &agon.Error{Code: "bad_file", Status: 422, Field: "value", Message: err.Error()}
				}
				if leaf != p.Leaf {
					return errors.New("the value is not what the leaf is made of")
				}
			}
			if !merkle.Verify(r, p.Root, p.Leaf, p.Proof) {
				return errors.New("the proof does not lead to the root")
			}
			return a.verified(cmd, map[string]any{"ok": true, "root": p.Root, "leaf": p.Leaf})
		},
	}
	cmd.Flags().StringVar(&previous, "previous", "", "`file` with the evidence of the epoch before")
	return cmd
}

func (a commands) verified(cmd *cobra.Command, v map[string]any) error {
	return a.Printer.Print(cmd.Context(), output.Result{Value: v, Human: func(h *output.Human) { h.Line("it is what it says: root %v", v["root"]) }})
}
