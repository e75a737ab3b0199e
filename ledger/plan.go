package ledger

import (
	"fmt"
	"slices"
)

// Plan says whether a validator may give weights at the metagraph's block, when
// else, and why not now.
type Plan struct {
	Netuid uint16 `json:"netuid"`
	Hotkey string `json:"hotkey"`
	Block  uint64 `json:"block"`
	// Call is what the subnet takes: set_weights or commit_weights.
	Call  string `json:"call"`
	Ready bool   `json:"ready"`
	// Earliest is the block from which Call is taken if nothing else changes; 0 =
	// no block that we can name: a reason without Until has to go first.
	Earliest uint64   `json:"earliest"`
	Reasons  []Reason `json:"reasons"` // why not now; empty when ready
	// NextEpoch is the block of the next epoch, 0 = never.
	NextEpoch uint64 `json:"next_epoch"`
	// RevealFrom and RevealUntil bound the blocks in which a commit made now is
	// revealed: from the first, before the second. Epochs that are put off move them.
	RevealFrom  uint64 `json:"reveal_from,omitempty"`
	RevealUntil uint64 `json:"reveal_until,omitempty"`
	// Notes are warnings that keep nothing from working.
	Notes []string `json:"notes,omitempty"`
}

// Reason is one thing in the way.
type Reason struct {
	Name    string `json:"name"` // the chain's name of the refusal
	Message string `json:"message"`
	Until   uint64 `json:"until,omitempty"` // gone from this block on; 0 = not by waiting
}

// Calls of a plan.
const (
	CallSetWeights    = "set_weights"
	CallCommitWeights = "commit_weights"
)

// maxOpenCommits is how many unrevealed weight commits a hotkey may have.
const maxOpenCommits = 10

// PlanWeights plans when hotkey may give weights with a version key. It judges
// by the same rules as the ledger, except for the weights themselves.
func PlanWeights(m *Metagraph, hotkey string, versionKey uint64) Plan {
	p := Plan{Netuid: m.Netuid, Hotkey: hotkey, Block: m.Block, Call: CallSetWeights, Reasons: []Reason{}}
	h := &m.Hyper
	if next, err := m.NextEpoch(); err == nil {
		p.NextEpoch = next
	}
	if h.CommitReveal {
		p.Call = CallCommitWeights
		if p.NextEpoch > 0 {
			p.RevealFrom = p.NextEpoch + (h.RevealEpochs()-1)*uint64(h.Tempo)
			p.RevealUntil = p.RevealFrom + uint64(h.Tempo)
		}
		if reveal := (h.RevealEpochs() + 1) * uint64(h.Tempo); h.ImmunityPeriod <= reveal {
			p.Notes = append(p.Notes, fmt.Sprintf("the immunity period of %d blocks is not longer than the %d in which weights are revealed: new uids may get none", h.ImmunityPeriod, reveal))
		}
	}
	n, ok := m.Neuron(hotkey)
	if !ok {
		p.no(ErrNotRegistered, 0, "the hotkey is not registered on subnet %d", m.Netuid)
		return p
	}
	owner := hotkey == m.OwnerHotkey
	if n.Stake < h.StakeThreshold && !owner {
		p.no(ErrNotEnoughStake, 0, "stake is %d rao: the threshold is %d", n.Stake, h.StakeThreshold)
	}
	if h.WeightsVersionKey > versionKey {
		p.no(ErrVersionKey, 0, "version key is %d: the subnet wants at least %d; update this software", versionKey, h.WeightsVersionKey)
	}
	if next := n.LastUpdate + h.WeightsRateLimit; n.LastUpdate > 0 && m.Block < next {
		refusal := ErrSettingWeightsTooFast
		if h.CommitReveal {
			refusal = ErrCommittingTooFast
		}
		what := "the last weights"
		if n.LastUpdate == n.RegisteredAt {
			what = "the registration"
		}
		p.no(refusal, next, "%s of block %d: next after %d blocks", what, n.LastUpdate, h.WeightsRateLimit)
	}
	if !n.Permit && !owner {
		p.permit(m, n)
	}
	if h.CommitReveal && openCommits(m, n) >= maxOpenCommits {
		p.no(ErrTooManyCommits, 0, "%d weight commits wait to be revealed", len(n.Commits))
	}
	p.Ready = len(p.Reasons) == 0
	p.Earliest = m.Block
	for _, r := range p.Reasons {
		if r.Until == 0 {
			p.Earliest = 0
			break
		}
		p.Earliest = max(p.Earliest, r.Until)
	}
	return p
}

func (p *Plan) no(e *Error, until uint64, format string, args ...any) {
	p.Reasons = append(p.Reasons, Reason{Name: e.Name, Message: fmt.Sprintf(format, args...), Until: until})
}

// permit says whether the next epoch brings a permit.
func (p *Plan) permit(m *Metagraph, n Neuron) {
	if n.Stake == 0 || n.Stake < m.Hyper.StakeThreshold {
		p.no(ErrNoPermit, 0, "no validator permit: an epoch gives it to hotkeys with stake")
		return
	}
	var above []uint64
	for _, other := range m.Neurons {
		if other.Stake > n.Stake || other.Stake == n.Stake && other.UID > n.UID {
			above = append(above, other.Stake)
		}
	}
	if k := int(m.Hyper.MaxValidators); len(above) >= k {
		slices.Sort(above)
		least := uint64(0)
		if k > 0 {
			least = above[len(above)-k]
		}
		p.no(ErrNoPermit, 0, "no validator permit: %d permits go to stakes from %d rao, this one is %d", k, least, n.Stake)
		return
	}
	p.no(ErrNoPermit, p.NextEpoch, "no validator permit yet: the epoch at block %d gives it", p.NextEpoch)
}

func openCommits(m *Metagraph, n Neuron) (open int) {
	for _, c := range n.Commits {
		if c.Epoch+m.Hyper.RevealEpochs() >= m.EpochIndex() {
			open++
		}
	}
	return open
}
