package merkle

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// EvidenceVersion names the form of Evidence.
const EvidenceVersion = "agon-reward-epoch-v1"

// Evidence is all that a published epoch of cumulative claims is made of: who
// has it can compute its root again.
type Evidence struct {
	Version   string  `json:"version"`
	Epoch     uint64  `json:"epoch"`
	Profile   string  `json:"profile"` // of Root
	Root      Hash    `json:"root"`
	LeafCount int     `json:"leaf_count"`
	Budget    uint64  `json:"budget_rao"` // of this epoch
	Total     uint64  `json:"total_rao"`  // cumulative, over all claims
	Floor     uint64  `json:"transfer_floor_rao"`
	Claims    []Claim `json:"claims"`
	// ListHash is Keccak-256 of the claims' canonical lines.
	ListHash Hash `json:"claim_list_hash"`
	// Previous is the root of the epoch before; zero for the first.
	Previous Hash `json:"previous_root"`
	// OZ is the same claims as a standard tree: [bytes32 hotkey, bytes32 recipient, uint256 amount].
	OZRoot Hash `json:"oz_root"`
}

// Claim is one cumulative claim.
type Claim struct {
	Index     uint32 `json:"index"`
	Hotkey    string `json:"hotkey"`               // SS58
	Public    string `json:"hotkey_public"`        // 0x hex
	Recipient string `json:"recipient_coldkey"`    // SS58
	RecPublic string `json:"recipient_public"`     // 0x hex
	Amount    uint64 `json:"amount_rao"`           // earned until this epoch, all together
	Earned    uint64 `json:"earned_rao"`           // in this epoch
	Transfer  uint64 `json:"transfer_rao"`         // Amount less what the claim of the epoch before pays
	Below     bool   `json:"below_transfer_floor"` // a chain would not transfer so little
}

// OZTypes are the types of the standard tree of an epoch.
var OZTypes = []string{"bytes32", "bytes32", "uint256"}

func (c Claim) keys() (hotkey, recipient [32]byte, err error) {
	for _, x := range []struct {
		name, hex string
		to        *[32]byte
	}{{"hotkey_public", c.Public, &hotkey}, {"recipient_public", c.RecPublic, &recipient}} {
		b, err := hex.DecodeString(strings.TrimPrefix(x.hex, "0x"))
		if err != nil || len(b) != 32 {
			return hotkey, recipient, fmt.Errorf("claim %d: %s: want 32 bytes of hex", c.Index, x.name)
		}
		copy(x.to[:], b)
	}
	return hotkey, recipient, nil
}

// Trees builds both trees of the claims.
func (e *Evidence) Trees() (ink, oz *Tree, err error) {
	rows := OZInput{Types: OZTypes}
	var leaves []Hash
	for i, c := range e.Claims {
		if int(c.Index) != i {
			return nil, nil, fmt.Errorf("claim %d has index %d", i, c.Index)
		}
		hotkey, recipient, err := c.keys()
		if err != nil {
			return nil, nil, err
		}
		leaves = append(leaves, CumulativeLeaf(e.Epoch, c.Index, hotkey, recipient, c.Amount))
		rows.Values = append(rows.Values, []any{"0x" + hex.EncodeToString(hotkey[:]), "0x" + hex.EncodeToString(recipient[:]), fmt.Sprint(c.Amount)})
	}
	r, err := RuleOf(ProfileInk)
	if err != nil {
		return nil, nil, err
	}
	if ink, err = Build(r, leaves); err != nil {
		return nil, nil, err
	}
	oz, err = rows.Tree()
	return ink, oz, err
}

// HashClaims is the hash of the list of claims.
func HashClaims(list []Claim) (Hash, error) {
	var b strings.Builder
	for _, c := range list {
		line, err := json.Marshal(c)
		if err != nil {
			return Hash{}, fmt.Errorf("encode claim: %w", err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return Keccak([]byte(b.String())), nil
}

// Verify computes an epoch again and returns every mistake, joined. before is
// the evidence of the epoch before, nil where it is not at hand.
func (e *Evidence) Verify(before *Evidence) error {
	var errs []error
	no := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if e.Version != EvidenceVersion || e.Profile != ProfileInk {
		no("version %.40q, profile %.40q: not understood", e.Version, e.Profile)
	}
	if e.LeafCount != len(e.Claims) {
		no("leaf_count is %d, there are %d claims", e.LeafCount, len(e.Claims))
	}
	ink, oz, err := e.Trees()
	switch {
	case err != nil:
		no("%w", err)
	case ink.Root() != e.Root:
		no("the root of the claims is %s, the evidence says %s", ink.Root(), e.Root)
	}
	if err == nil && oz.Root() != e.OZRoot {
		no("the standard root of the claims is %s, the evidence says %s", oz.Root(), e.OZRoot)
	}
	if h, err := HashClaims(e.Claims); err != nil || h != e.ListHash {
		no("the hash of the claims is %s, the evidence says %s", h, e.ListHash)
	}
	var total, earned uint64
	seen := map[string]bool{}
	for _, c := range e.Claims {
		total += c.Amount
		earned += c.Earned
		if seen[c.Public] {
			no("hotkey %s has two claims", c.Hotkey)
		}
		seen[c.Public] = true
		if c.Below != (c.Transfer > 0 && c.Transfer < e.Floor) {
			no("claim %d: below_transfer_floor is %t for a transfer of %d and a floor of %d", c.Index, c.Below, c.Transfer, e.Floor)
		}
		if c.Transfer > c.Amount || c.Earned > c.Amount {
			no("claim %d: it transfers or earns more than its amount", c.Index)
		}
	}
	if total != e.Total {
		no("the claims sum to %d, the evidence says %d", total, e.Total)
	}
	if earned > e.Budget {
		no("the claims earn %d in this epoch, the budget is %d", earned, e.Budget)
	}
	if before != nil {
		if e.Previous != before.Root || e.Epoch != before.Epoch+1 {
			no("the epoch before has root %s and number %d, the evidence says %s", before.Root, before.Epoch, e.Previous)
		}
		old := map[string]uint64{}
		for _, c := range before.Claims {
			old[c.Public] = c.Amount
		}
		for _, c := range e.Claims {
			if c.Amount != old[c.Public]+c.Earned {
				no("claim %d: %d before and %d earned are not %d", c.Index, old[c.Public], c.Earned, c.Amount)
			}
			delete(old, c.Public)
		}
		for public := range old {
			no("the claim of %s is gone", public)
		}
	}
	return errors.Join(errs...)
}
