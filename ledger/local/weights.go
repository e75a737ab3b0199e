package local

import (
	"fmt"
	"slices"

	"github.com/agon-arena/agon/ledger"
)

// maxOpenCommits is how many unrevealed weight commits a hotkey may have.
const maxOpenCommits = 10

// setWeights has the chain's checks in the chain's order (spec/chain.md 2.7).
func (s *state) setWeights(x *extrinsic) error {
	if x.Netuid == 0 {
		return ledger.ErrRootWeights
	}
	sub, err := s.subnet(x.Netuid)
	if err != nil {
		return err
	}
	// The call itself is closed where weights are committed and revealed, before anything is looked at.
	if sub.Hyper.CommitReveal {
		return ledger.ErrCommitRevealEnabled
	}
	b, err := s.checkWeights(x)
	if err != nil {
		return err
	}
	b.set(sub.rowOf(x.Weights), s.Block)
	b.LastUpdate = s.Block
	return nil
}

// checkWeights gives the book that the weights belong into.
func (s *state) checkWeights(x *extrinsic) (*book, error) {
	w := x.Weights
	sub, err := s.subnet(x.Netuid)
	if err != nil {
		return nil, err
	}
	if len(w.UIDs) != len(w.Values) {
		return nil, ledger.ErrUnequalLengths.With(fmt.Sprintf("%d uids and %d values", len(w.UIDs), len(w.Values)))
	}
	if err := sub.mechanism(x.Mechanism); err != nil {
		return nil, err
	}
	count := len(sub.Neurons)
	if len(w.UIDs) > count {
		return nil, ledger.ErrTooManyUIDs.With(fmt.Sprintf("%d uids: the subnet has %d", len(w.UIDs), count))
	}
	_, n, uid, err := s.neuron(x.Netuid, x.Hotkey)
	if err != nil {
		return nil, err
	}
	b := n.on(x.Mechanism)
	owner := x.Hotkey == sub.OwnerHotkey
	selfOnly := len(w.UIDs) == 1 && int(w.UIDs[0]) == uid
	h, stake := &sub.Hyper, s.stakeOn(sub, x.Hotkey)
	switch {
	case stake < h.StakeThreshold && !owner:
		return nil, ledger.ErrNotEnoughStake.With(fmt.Sprintf("stake %d rao: the threshold is %d", stake, h.StakeThreshold))
	case h.WeightsVersionKey > 0 && w.VersionKey < h.WeightsVersionKey:
		return nil, ledger.ErrVersionKey.With(fmt.Sprintf("version key %d: want at least %d", w.VersionKey, h.WeightsVersionKey))
	case !h.CommitReveal && b.LastUpdate != 0 && s.Block-b.LastUpdate < h.WeightsRateLimit:
		return nil, ledger.ErrSettingWeightsTooFast.With(fmt.Sprintf("block %d: next at block %d", s.Block, b.LastUpdate+h.WeightsRateLimit))
	case !n.Permit && !owner && !selfOnly:
		return nil, ledger.ErrNoPermit
	}
	seen := make([]bool, 1<<16)
	for _, uid := range w.UIDs {
		if seen[uid] {
			return nil, ledger.ErrDuplicateUIDs.With(fmt.Sprintf("uid %d is given twice", uid))
		}
		seen[uid] = true
	}
	for _, uid := range w.UIDs {
		if int(uid) >= count {
			return nil, ledger.ErrInvalidUID.With(fmt.Sprintf("uid %d does not exist: the subnet has %d", uid, count))
		}
	}
	if least := min(int(h.MinAllowedWeights), count); len(w.UIDs) < least && !selfOnly {
		return nil, ledger.ErrTooFewWeights.With(fmt.Sprintf("%d weights: want at least %d", len(w.UIDs), least))
	}
	return b, nil
}

// commitWeights takes a promise of weights. What the promise hides is checked
// when it is revealed.
func (s *state) commitWeights(x *extrinsic) error {
	if x.Netuid == 0 {
		return ledger.ErrRootWeights
	}
	sub, err := s.subnet(x.Netuid)
	if err != nil {
		return err
	}
	h := &sub.Hyper
	if !h.CommitReveal {
		return ledger.ErrCommitRevealDisabled
	}
	b, epoch, err := s.mayCommit(x)
	if err != nil {
		return err
	}
	live := slices.Clone(b.Commits)
	live = slices.DeleteFunc(live, func(c ledger.WeightCommit) bool { return c.Epoch+h.RevealEpochs() < epoch })
	if len(live) >= maxOpenCommits {
		return ledger.ErrTooManyCommits.With(fmt.Sprintf("%d weight commits wait to be revealed", len(live)))
	}
	b.Commits = append(live, ledger.WeightCommit{Hash: *x.Hash, Epoch: epoch, Block: s.Block})
	b.LastUpdate = s.Block
	return nil
}

// mayCommit checks who commits weights and when.
func (s *state) mayCommit(x *extrinsic) (b *book, epoch uint64, err error) {
	sub, n, _, err := s.neuron(x.Netuid, x.Hotkey)
	if err != nil {
		return nil, 0, err
	}
	if err := sub.mechanism(x.Mechanism); err != nil {
		return nil, 0, err
	}
	b = n.on(x.Mechanism)
	switch h, stake := &sub.Hyper, s.stakeOn(sub, x.Hotkey); {
	case stake < h.StakeThreshold && x.Hotkey != sub.OwnerHotkey:
		return nil, 0, ledger.ErrNotEnoughStake.With(fmt.Sprintf("stake %d rao: the threshold is %d", stake, h.StakeThreshold))
	case b.LastUpdate != 0 && s.Block-b.LastUpdate < h.WeightsRateLimit:
		return nil, 0, ledger.ErrCommittingTooFast.With(fmt.Sprintf("block %d: next at block %d", s.Block, b.LastUpdate+h.WeightsRateLimit))
	}
	return b, sub.epochIndex(x.Netuid, s.Block), nil
}

// revealWeights sets committed weights. Revealing one commit drops all older ones.
func (s *state) revealWeights(x *extrinsic) error {
	if x.Netuid == 0 {
		return ledger.ErrRootWeights
	}
	sub, err := s.subnet(x.Netuid)
	if err != nil {
		return err
	}
	h := &sub.Hyper
	if !h.CommitReveal {
		return ledger.ErrCommitRevealDisabled
	}
	_, n, _, err := s.neuron(x.Netuid, x.Hotkey)
	if err != nil {
		return err
	}
	if err := sub.mechanism(x.Mechanism); err != nil {
		return err
	}
	b := n.on(x.Mechanism)
	if len(b.Commits) == 0 {
		return ledger.ErrNoWeightsCommit
	}
	hash, err := ledger.CommitHash(x.Hotkey, indexOf(x.Netuid, x.Mechanism), *x.Weights, x.Salt)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(b.Commits, func(c ledger.WeightCommit) bool { return c.Hash == hash })
	if at < 0 {
		return ledger.ErrRevealMismatch.With(fmt.Sprintf("the weights hash to %s: no open commit has that", hash))
	}
	reveal, now := b.Commits[at].Epoch+h.RevealEpochs(), sub.epochIndex(x.Netuid, s.Block)
	switch {
	case now > reveal:
		return ledger.ErrExpiredCommit.With(fmt.Sprintf("epoch %d: the commit was to be revealed in epoch %d", now, reveal))
	case now < reveal:
		return ledger.ErrRevealTooEarly.With(fmt.Sprintf("epoch %d: the commit is to be revealed in epoch %d", now, reveal))
	}
	if _, err := s.checkWeights(x); err != nil {
		return err
	}
	b.set(sub.rowOf(x.Weights), s.Block)
	b.Commits = slices.Clone(b.Commits[at+1:])
	return nil
}
