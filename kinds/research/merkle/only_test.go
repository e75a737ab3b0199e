// What only the tests of this package need.

package merkle

// ParseHash reads a hash.
func ParseHash(s string) (h Hash, err error) { return h, h.UnmarshalText([]byte(s)) }

// GenesisLeaf is the leaf of one allocation.
func GenesisLeaf(account string, amount any, allocation Hash) (Hash, error) {
	b, err := Encode([]string{"string", "address", "uint256", "bytes32"}, []any{genesisTag, account, amount, allocation.String()})
	if err != nil {
		return Hash{}, err
	}
	return Keccak(b), nil
}
