package ledger

// MechanismStep is between the storage indexes of a subnet's mechanisms: what a
// mechanism has of its own is kept, and promises of weights are hashed, under
// the netuid plus this for each mechanism before it.
const MechanismStep = 4096

// Mechanism is what a mechanism of a subnet, after the first, has of its own.
type Mechanism struct {
	Neurons []MechanismNeuron `json:"neurons"` // by uid
	Weights []WeightRow       `json:"weights"` // by uid of the validator; only those who set any
}

// MechanismNeuron is what a registration has of its own on a mechanism.
type MechanismNeuron struct {
	LastUpdate uint64         `json:"last_update"` // 0 = never, since the mechanism is there
	Incentive  uint16         `json:"incentive"`
	Commits    []WeightCommit `json:"weight_commits,omitempty"`
}

// Mechanism is the subnet as one of its mechanisms has it: weights, incentive,
// last updates and commits are the mechanism's, the rest is the subnet's. The
// first is 0, which the metagraph itself shows. ok is false where there is none.
func (m *Metagraph) Mechanism(id uint8) (of *Metagraph, ok bool) {
	if id == 0 {
		return m, true
	}
	if int(id) > len(m.Mechanisms) {
		return nil, false
	}
	x, y := *m, m.Mechanisms[id-1]
	x.Mechanisms, x.MechanismSplit, x.Weights = nil, nil, y.Weights
	x.Neurons = append([]Neuron{}, m.Neurons...)
	for i := range x.Neurons {
		n := y.Neurons[i]
		x.Neurons[i].LastUpdate, x.Neurons[i].Incentive, x.Neurons[i].Commits = n.LastUpdate, n.Incentive, n.Commits
	}
	return &x, true
}

// SplitEmission divides rao over count mechanisms: by shares of 65535, or equally
// where there are none. What rounding leaves is the first's.
func SplitEmission(rao uint64, count int, shares []uint16) []uint64 {
	out := make([]uint64, max(count, 1))
	left := rao
	for i := range out {
		switch {
		case len(shares) == 0:
			out[i] = rao / uint64(len(out))
		case i < len(shares):
			out[i] = mulDiv(rao, uint64(shares[i]), 65535)
		}
		left -= min(left, out[i])
	}
	out[0] += left
	return out
}
