package merkle

import (
	"fmt"

	"github.com/agon-arena/agon/calc"
)

// Names of this package's rules.
const (
	RuleOZ  = "bitsota.merkle_oz"
	RuleEVM = "bitsota.merkle_evm"
)

// OZInput is a standard tree as it is given: rows of values of solidity types.
type OZInput struct {
	Types  []string `json:"types"`
	Values [][]any  `json:"values"`
}

// EVMInput is an epoch of emission claims.
type EVMInput struct {
	Epoch  uint64     `json:"epoch"`
	Lane   Hash       `json:"lane"`
	Claims []EVMClaim `json:"claims"`
}

// EVMClaim is one claim of it.
type EVMClaim struct {
	Account string `json:"account"`
	Amount  any    `json:"amount"`
	Reward  Hash   `json:"reward_hash"`
}

// Tree builds the standard tree.
func (in OZInput) Tree() (*Tree, error) {
	s, err := parseTypes(in.Types)
	if err != nil {
		return nil, err
	}
	leaves := make([]Hash, len(in.Values))
	err = each(len(leaves), func(i int) (err error) {
		if leaves[i], err = s.leaf(in.Values[i]); err != nil {
			return fmt.Errorf("values[%d]: %w", i, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r, err := RuleOf(ProfileOZ)
	if err != nil {
		return nil, err
	}
	return Build(r, leaves)
}

// Tree builds the tree of an epoch.
func (in EVMInput) Tree() (*Tree, error) {
	leaves := make([]Hash, len(in.Claims))
	err := each(len(leaves), func(i int) (err error) {
		c := in.Claims[i]
		if leaves[i], err = EmissionLeaf(in.Epoch, in.Lane, c.Account, c.Amount, c.Reward); err != nil {
			return fmt.Errorf("claims[%d]: %w", i, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r, err := RuleOf(ProfileEVM)
	if err != nil {
		return nil, err
	}
	return Build(r, leaves)
}

type ozOut struct {
	Root   Hash     `json:"root"`
	Proofs [][]Hash `json:"proofs"`
}

type evmOut struct {
	Root Hash `json:"root"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{
		calc.Func(RuleOZ, "{types [solidity types], values [[...]...]} -> {root, proofs}: OpenZeppelin's standard tree, a proof for each row in order", func(in OZInput) (ozOut, error) {
			t, err := in.Tree()
			if err != nil {
				return ozOut{}, err
			}
			out := ozOut{Root: t.Root(), Proofs: make([][]Hash, t.Len())}
			for i := range out.Proofs {
				if out.Proofs[i], err = t.Proof(i); err != nil {
					return ozOut{}, err
				}
			}
			return out, nil
		}),
		calc.Func(RuleEVM, "{epoch, lane, claims [{account, amount, reward_hash}]} -> {root}: the tree of emission claims", func(in EVMInput) (evmOut, error) {
			t, err := in.Tree()
			if err != nil {
				return evmOut{}, err
			}
			return evmOut{t.Root()}, nil
		}),
	}
}
