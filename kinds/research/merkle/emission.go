package merkle

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// EmissionVersion names the form of an emission's bundle (spec/bitsota.md 6.2).
const EmissionVersion = "sota-emission-root-v1"

// emissionLeafFormat says how the leaves of an emission are made.
const emissionLeafFormat = `keccak256(abi.encode("SOTA_EMISSION_CLAIM", uint64 epoch, bytes32 offchainLaneId, address account, uint256 amount, bytes32 rewardHash))`

// MaxEmissionClaims bounds the claims of one emission.
const MaxEmissionClaims = 10_000

// Emission is the evidence of one epoch's emission root on a lane: who has it
// can compute the root again.
type Emission struct {
	Root   EmissionRoot   `json:"root"`
	Bundle EmissionBundle `json:"bundle"`
	// Proofs stand beside the evidence, in the order of claims; they are not part of it.
	Proofs [][]Hash `json:"proofs,omitempty"`
}

// EmissionRoot is what is attested and published.
type EmissionRoot struct {
	Subnet     string `json:"subnet_id"`
	Epoch      uint64 `json:"epoch"`
	Root       Hash   `json:"root"`
	LeafCount  int    `json:"leaf_count"`
	Total      string `json:"total_amount_units"` // decimal
	PolicyHash Hash   `json:"policy_hash"`
	ListHash   Hash   `json:"claim_list_hash"`
	Evidence   Hash   `json:"evidence_hash"` // of the bundle
	Ready      bool   `json:"ready_for_attestation"`
	CreatedAt  string `json:"created_at"` // RFC 3339
}

// EmissionBundle is all that the root is made of.
type EmissionBundle struct {
	Version string          `json:"version"`
	Epoch   uint64          `json:"epoch"`
	Subnet  EmissionSubnet  `json:"subnet"`
	Merkle  EmissionTree    `json:"merkle"`
	Claims  []EmissionClaim `json:"claim_list"`
	Why     []EmissionWhy   `json:"claim_evidence"`
}

// EmissionSubnet is the lane.
type EmissionSubnet struct {
	ID         string `json:"id"`
	Title      string `json:"title"`
	PolicyHash Hash   `json:"policy_hash"`
	Lane       Hash   `json:"offchain_lane_id"`
	Offchain   string `json:"offchain_subnet_id"`
}

// EmissionTree describes the tree.
type EmissionTree struct {
	Root      Hash   `json:"root"`
	LeafCount int    `json:"leaf_count"`
	Total     string `json:"total_amount_units"`
	Format    string `json:"leaf_format"`
	SortPairs bool   `json:"sort_pairs"`
	Odd       string `json:"odd_strategy"`
	Hash      string `json:"hash"`
}

// EmissionClaim is one claim, in the order of its leaf.
type EmissionClaim struct {
	Index      int    `json:"index"`
	Epoch      uint64 `json:"epoch"`
	Address    string `json:"reward_address"`
	Amount     string `json:"amount_units"` // decimal
	Lane       Hash   `json:"offchain_lane_id"`
	Reward     Hash   `json:"reward_hash"`
	PolicyHash Hash   `json:"policy_hash"`
	Subnet     string `json:"subnet_id"`
}

// EmissionWhy is what a claim rests on.
type EmissionWhy struct {
	Index    int             `json:"index"`
	Leaf     Hash            `json:"leaf"`
	Evidence EmissionGrounds `json:"evidence"`
}

// EmissionGrounds names the submission that earned a claim and how it was decided.
type EmissionGrounds struct {
	Submission string            `json:"submission_id"`
	Digest     string            `json:"patch_digest"`
	Consensus  EmissionConsensus `json:"self_validation_consensus"`
}

// RewardHash is what a claim's reward_hash is: of the grounds it rests on.
func (g EmissionGrounds) RewardHash() (Hash, error) { return hashJSON(g) }

// EmissionConsensus is how a submission was accepted.
type EmissionConsensus struct {
	Status         string `json:"status"`
	AcceptedCount  int    `json:"accepted_count"`
	CommitteeCount int    `json:"committee_count"`
	CommitteeSize  int    `json:"committee_size"`
}

func hashJSON(v any) (Hash, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return Hash{}, fmt.Errorf("encode evidence: %w", err)
	}
	return Keccak(b), nil
}

// LaneOf is the id of a lane off the chain.
func LaneOf(subnet string) Hash { return Keccak([]byte("base:" + subnet)) }

// PolicyHash is the hash of a lane's policy.
func PolicyHash(policy any) (Hash, error) { return hashJSON(policy) }

// Seal computes leaves, root, totals and hashes of an emission whose lane,
// epoch, claims and grounds are filled in.
func (e *Emission) Seal(at time.Time) error {
	b := &e.Bundle
	b.Version = EmissionVersion
	t, leaves, total, err := b.tree()
	if err != nil {
		return err
	}
	for i := range b.Why {
		b.Why[i].Leaf = leaves[i]
	}
	b.Merkle = EmissionTree{Root: t.Root(), LeafCount: t.Len(), Total: total, Format: emissionLeafFormat, SortPairs: true, Odd: "promote", Hash: "keccak256"}
	e.Root = EmissionRoot{
		Subnet: b.Subnet.ID, Epoch: b.Epoch, Root: t.Root(), LeafCount: t.Len(), Total: total, PolicyHash: b.Subnet.PolicyHash, Ready: true, CreatedAt: at.UTC().Format(time.RFC3339),
	}
	if e.Root.ListHash, err = hashJSON(b.Claims); err != nil {
		return err
	}
	e.Root.Evidence, err = hashJSON(b)
	return err
}

// tree builds the tree of the claims and sums them up.
func (b *EmissionBundle) tree() (*Tree, []Hash, string, error) {
	if len(b.Claims) == 0 || len(b.Claims) > MaxEmissionClaims || len(b.Why) != len(b.Claims) {
		return nil, nil, "", fmt.Errorf("claim_list has %d claims and claim_evidence %d: want 1 to %d of each", len(b.Claims), len(b.Why), MaxEmissionClaims)
	}
	in := EVMInput{Epoch: b.Epoch, Lane: b.Subnet.Lane}
	total := new(big.Int)
	for i, c := range b.Claims {
		n, ok := new(big.Int).SetString(c.Amount, 10)
		if !ok || n.Sign() <= 0 || len(c.Amount) > 78 || c.Amount != n.String() {
			return nil, nil, "", fmt.Errorf("claim %d: amount_units %.80q: want a whole number above 0", i, c.Amount)
		}
		total.Add(total, n)
		in.Claims = append(in.Claims, EVMClaim{Account: c.Address, Amount: c.Amount, Reward: c.Reward})
	}
	t, err := in.Tree()
	if err != nil {
		return nil, nil, "", err
	}
	leaves := make([]Hash, t.Len())
	for i := range leaves {
		leaves[i] = t.Leaf(i)
	}
	return t, leaves, total.String(), nil
}

// ProofsOf are the proofs of all claims.
func (e *Emission) ProofsOf() ([][]Hash, error) {
	t, _, _, err := e.Bundle.tree()
	if err != nil {
		return nil, err
	}
	out := make([][]Hash, t.Len())
	for i := range out {
		if out[i], err = t.Proof(i); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Verify computes an emission again and returns every mistake, joined.
func (e *Emission) Verify() error {
	var errs []error
	no := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	b, r := &e.Bundle, &e.Root
	want := *e
	want.Proofs = nil
	want.Bundle.Why = append([]EmissionWhy(nil), b.Why...)
	at, err := time.Parse(time.RFC3339, r.CreatedAt)
	if err != nil {
		no("created_at %.40q is not a time", r.CreatedAt)
	}
	if err := want.Seal(at); err != nil {
		return errors.Join(append(errs, err)...)
	}
	if b.Version != EmissionVersion {
		no("version %.40q is not understood", b.Version)
	}
	if want.Root.CreatedAt = r.CreatedAt; *r != want.Root {
		no("the root document is %+v, computed is %+v", *r, want.Root)
	}
	if b.Merkle != want.Bundle.Merkle {
		no("the tree is %+v, computed is %+v", b.Merkle, want.Bundle.Merkle)
	}
	if b.Subnet.Lane != LaneOf(b.Subnet.ID) {
		no("the lane of %.80q is %s, the evidence says %s", b.Subnet.ID, LaneOf(b.Subnet.ID), b.Subnet.Lane)
	}
	seen := map[string]bool{}
	for i, c := range b.Claims {
		w := b.Why[i]
		reward, err := w.Evidence.RewardHash()
		switch {
		case c.Index != i || w.Index != i || c.Epoch != b.Epoch || c.Lane != b.Subnet.Lane || c.PolicyHash != b.Subnet.PolicyHash || c.Subnet != b.Subnet.ID:
			no("claim %d is of another epoch, lane, policy or place", i)
		case w.Leaf != want.Bundle.Why[i].Leaf:
			no("claim %d: its leaf is %s, the evidence says %s", i, want.Bundle.Why[i].Leaf, w.Leaf)
		case err != nil || reward != c.Reward:
			no("claim %d: its reward_hash is not that of its evidence", i)
		case seen[w.Evidence.Submission]:
			no("claim %d: submission %.60s is paid twice", i, w.Evidence.Submission)
		}
		seen[w.Evidence.Submission] = true
		if !strings.HasPrefix(c.Address, "0x") {
			no("claim %d: reward_address: want 0x and 40 hex digits", i)
		}
	}
	if len(e.Proofs) > 0 {
		proofs, err := e.ProofsOf()
		if err != nil || len(proofs) != len(e.Proofs) {
			no("there are %d proofs for %d claims", len(e.Proofs), len(b.Claims))
			return errors.Join(errs...)
		}
		rule, err := RuleOf(ProfileEVM)
		if err != nil {
			return err
		}
		for i, p := range e.Proofs {
			if !Verify(rule, r.Root, want.Bundle.Why[i].Leaf, p) {
				no("the proof of claim %d does not lead to the root", i)
			}
		}
	}
	return errors.Join(errs...)
}
