package local

import (
	"context"
	"fmt"
	"slices"

	"github.com/agon-arena/agon/ledger"
)

// Fork makes a subnet of a metagraph that was read elsewhere, such as on a real
// chain: its neurons, stakes, weights, rules and where its epoch stands. Blocks
// are those of the metagraph, so this ledger has to be at its block or later
// (Config.Genesis). Bonds are not in a metagraph and begin anew; timelocked
// commits cannot be opened and are left out.
func (l *Ledger) Fork(ctx context.Context, m *ledger.Metagraph) error {
	if err := CheckFork(m); err != nil {
		return err
	}
	if at := l.block(); at < m.Block {
		return fmt.Errorf("fork subnet %d: it is of block %d and the ledger is at %d", m.Netuid, m.Block, at)
	}
	_, _, err := l.call(ctx, &extrinsic{Call: callFork, Netuid: m.Netuid, Graph: m})
	return err
}

// CheckFork reports why a ledger cannot be forked from a metagraph.
func CheckFork(m *ledger.Metagraph) error {
	if m.Netuid == 0 {
		return ledger.ErrRootRegistration
	}
	if err := checkAddresses(m.OwnerHotkey, m.OwnerColdkey); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, n := range m.Neurons {
		if int(n.UID) != i {
			return fmt.Errorf("fork subnet %d: neuron %d has uid %d", m.Netuid, i, n.UID)
		}
		if err := checkAddresses(n.Hotkey, n.Coldkey); err != nil {
			return err
		}
		if seen[n.Hotkey] {
			return fmt.Errorf("fork subnet %d: hotkey %s has two uids", m.Netuid, n.Hotkey)
		}
		seen[n.Hotkey] = true
		if err := checkRao("stake", n.Stake); err != nil {
			return err
		}
	}
	if len(m.Mechanisms) >= maxMechanisms {
		return fmt.Errorf("fork subnet %d: it has %d mechanisms, at most %d are modelled", m.Netuid, len(m.Mechanisms)+1, maxMechanisms)
	}
	return checkHyper(&m.Hyper)
}

func (s *state) fork(x *extrinsic) error {
	m := x.Graph
	if _, ok := s.Subnets[x.Netuid]; ok {
		return fmt.Errorf("subnet %d is there already", x.Netuid)
	}
	if err := s.ensureSubnet(&extrinsic{Netuid: x.Netuid, Hotkey: m.OwnerHotkey, Coldkey: m.OwnerColdkey, Hyper: &m.Hyper}); err != nil {
		return err
	}
	sub := s.Subnets[x.Netuid]
	sub.Epoch, sub.Price, sub.PriceAt = m.Epoch, m.Burn, s.Block
	if sub.Hyper.CommitmentSpace == 0 {
		sub.Hyper.CommitmentSpace = maxSpace
	}
	sub.Neurons, sub.uids = nil, map[string]int{} // the owner's hotkey too has the uid of the metagraph, or none
	for uid, n := range m.Neurons {
		s.Owners[n.Hotkey], sub.Stakes[n.Hotkey] = n.Coldkey, n.Stake
		sub.seat(uid, n.Hotkey, n.RegisteredAt)
		y := sub.Neurons[uid]
		y.Permit, y.LastUpdate, y.Active, y.Axon = n.Permit, n.LastUpdate, n.Active, n.Axon
		y.Consensus, y.Incentive, y.Trust, y.ValidatorTrust, y.Dividends, y.Emission = n.Consensus, n.Incentive, n.Trust, n.ValidatorTrust, n.Dividends, n.Emission
		y.Commits = slices.DeleteFunc(slices.Clone(n.Commits), func(c ledger.WeightCommit) bool { return c.Round > 0 })
	}
	sub.forkWeights(0, m.Weights)
	if err := sub.setMechanisms(int64(len(m.Mechanisms)) + 1); err != nil {
		return err
	}
	sub.Split = m.MechanismSplit
	for i, x := range m.Mechanisms {
		id := uint8(i + 1)
		for uid, n := range x.Neurons[:min(len(x.Neurons), len(sub.Neurons))] {
			b := sub.Neurons[uid].on(id)
			b.LastUpdate, b.Incentive, b.Commits = n.LastUpdate, n.Incentive, slices.DeleteFunc(slices.Clone(n.Commits), func(c ledger.WeightCommit) bool { return c.Round > 0 })
		}
		sub.forkWeights(id, x.Weights)
	}
	return nil
}

func (sub *subnet) forkWeights(mechanism uint8, rows []ledger.WeightRow) {
	for _, row := range rows {
		if int(row.UID) < len(sub.Neurons) && len(row.UIDs) == len(row.Values) {
			sub.Neurons[row.UID].on(mechanism).set(sub.rowOf(&ledger.Weights{UIDs: row.UIDs, Values: row.Values}), row.Block)
		}
	}
}

// maxSpace is what a hotkey may commit in an epoch, in bytes, where nothing else is said.
const maxSpace = 3100
