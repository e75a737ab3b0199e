package local

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agon-arena/agon/ledger"
)

// Calls.
const (
	callSubnet       = "ensure_subnet"
	callHyper        = "set_hyperparameters"
	callValidator    = "set_validator"
	callFund         = "fund"
	callEndFaucet    = "end_faucet"
	callRegister     = "burned_register"
	callCommit       = "set_commitment"
	callSetWeights   = "set_weights"
	callCommitted    = "commit_weights"
	callReveal       = "reveal_weights"
	callAddStake     = "add_stake"
	callRemoveStake  = "remove_stake"
	callBurnStake    = "burn_stake"
	callTriggerEpoch = "trigger_epoch"
	callServeAxon    = "serve_axon"
	callTransfer     = "transfer"
	callNonce        = "use_nonce"
	callSealed       = "commit_timelocked_weights"
	callRound        = "add_round"
	callRule         = "set_rule"
	callTake         = "set_take"
	callSplit        = "set_mechanism_split"
	callFork         = "fork"
	callStake        = "stake"
	callChildren     = "set_children"
	callChildTake    = "set_childkey_take"
	callClaimRoot    = "root_claim"
	callRootKind     = "set_root_claim_type"
	callProxy        = "proxies"
	callCollateral   = "add_collateral"
	callFloor        = "set_min_collateral"
)

// extrinsic is one change, as it stands in the log. Each call uses some of the fields.
type extrinsic struct {
	Call    string                  `json:"call"`
	Netuid  uint16                  `json:"netuid,omitempty"`
	Hotkey  string                  `json:"hotkey,omitempty"`
	Coldkey string                  `json:"coldkey,omitempty"`
	Signer  string                  `json:"signer,omitempty"` // of a registration; empty = the coldkey
	Keep    bool                    `json:"keep,omitempty"`   // of a registration: it evicts nobody; of a transfer: the sender's account stays; of a take: it rises
	To      string                  `json:"to,omitempty"`
	Nonce   uint64                  `json:"nonce,omitempty"`
	Round   uint64                  `json:"round,omitempty"` // of drand
	Data    []byte                  `json:"data,omitempty"`  // timelocked weights, or a round's signature
	Axon    *ledger.Axon            `json:"axon,omitempty"`
	Rao     uint64                  `json:"rao,omitempty"`
	Permit  bool                    `json:"permit,omitempty"`
	Fields  []ledger.Field          `json:"fields,omitempty"`
	Weights *ledger.Weights         `json:"weights,omitempty"`
	Salt    []uint16                `json:"salt,omitempty"`
	Hash    *ledger.Hash            `json:"hash,omitempty"`
	Hyper   *ledger.Hyperparameters `json:"hyperparameters,omitempty"`
	Name    string                  `json:"name,omitempty"`  // of a rule
	Value   int64                   `json:"value,omitempty"` // of a rule, or a take
	Graph   *ledger.Metagraph       `json:"metagraph,omitempty"`

	Order    *ledger.StakeOrder `json:"order,omitempty"`
	Proxy    *ledger.ProxyOrder `json:"proxy,omitempty"`
	Children []ledger.Child     `json:"children,omitempty"`

	Mechanism uint8    `json:"mechanism,omitempty"`
	Shares    []uint16 `json:"shares,omitempty"` // of mechanisms; of a claim its subnets
}

// errUnchanged says that a call was fine and did nothing: it leaves no trace in the log.
var errUnchanged = errors.New("unchanged")

// apply makes one change in the state's block, or none and says why. The result
// is the uid of a registration.
func (s *state) apply(x *extrinsic) (uid uint16, err error) {
	s.swapped = nil
	switch x.Call {
	case callSubnet:
		return 0, s.ensureSubnet(x)
	case callHyper:
		return 0, s.setHyper(x)
	case callValidator:
		return 0, s.setValidator(x)
	case callFund:
		s.credit(x.Coldkey, x.Rao)
		return 0, nil
	case callEndFaucet:
		if s.Faucet == 0 {
			return 0, errUnchanged
		}
		s.Faucet = 0
		return 0, nil
	case callRegister:
		return s.register(x)
	case callCommit:
		return 0, s.commit(x)
	case callSetWeights:
		return 0, s.setWeights(x)
	case callCommitted:
		return 0, s.commitWeights(x)
	case callReveal:
		return 0, s.revealWeights(x)
	case callAddStake:
		return 0, s.addStake(x)
	case callRemoveStake:
		return 0, s.removeStake(x)
	case callBurnStake:
		return 0, s.takeStake(x)
	case callTriggerEpoch:
		return 0, s.triggerEpoch(x)
	case callServeAxon:
		return 0, s.serveAxon(x)
	case callTransfer:
		return 0, s.transfer(x)
	case callNonce:
		return 0, s.useNonce(x)
	case callSealed:
		return 0, s.commitSealed(x)
	case callRound:
		return 0, s.addRound(x)
	case callRule:
		return 0, s.setRule(x)
	case callTake:
		return 0, s.setTake(x)
	case callSplit:
		return 0, s.setSplit(x)
	case callFork:
		return 0, s.fork(x)
	case callStake:
		return 0, s.stakeOrder(x)
	case callChildren:
		return 0, s.setChildren(x)
	case callChildTake:
		return 0, s.setChildTake(x)
	case callClaimRoot:
		return 0, s.claimRoot(x)
	case callRootKind:
		return 0, s.setRootKind(x)
	case callProxy:
		return 0, s.delegate(x.Proxy)
	case callCollateral:
		return 0, s.addCollateral(x)
	case callFloor:
		return 0, s.setFloor(x)
	}
	return 0, fmt.Errorf("unknown call %q", x.Call)
}

func (s *state) ensureSubnet(x *extrinsic) error {
	if sub, ok := s.Subnets[x.Netuid]; ok {
		if sub.OwnerHotkey != x.Hotkey || sub.OwnerColdkey != x.Coldkey {
			return fmt.Errorf("subnet %d belongs to %s, not to %s", x.Netuid, sub.OwnerHotkey, x.Hotkey)
		}
		return errUnchanged
	}
	if owner, ok := s.Owners[x.Hotkey]; ok && owner != x.Coldkey {
		return ledger.ErrNonAssociatedColdkey
	}
	h := *x.Hyper
	// As on the chain subnets start apart, so that their epochs do not meet.
	anchor := s.Block - min(s.Block, uint64(x.Netuid%max(h.Tempo, 1)))
	sub := &subnet{
		OwnerHotkey: x.Hotkey, OwnerColdkey: x.Coldkey, Hyper: h, Epoch: ledger.Epoch{LastBlock: anchor, Since: s.Block},
		Price: h.MinBurn, PriceAt: s.Block, PotAt: s.Block,
		stakeBook: stakeBook{Stakes: map[string]uint64{}}, Commitments: map[string]*commitment{}, uids: map[string]int{},
	}
	if x.Permit {
		sub.Alpha = newAlpha(x.Rao, uint64(x.Value), s.Block)
		if s.Root == nil {
			s.Root = newRoot()
		}
	}
	if h.NullConsensus {
		sub.Null = &null{Validators: h.MaxValidators}
		sub.Hyper.MaxValidators = 1
	}
	s.Subnets[x.Netuid] = sub
	s.order = slices.Sorted(maps.Keys(s.Subnets))
	s.Owners[x.Hotkey] = x.Coldkey
	sub.seat(0, x.Hotkey, s.Block)
	return nil
}

// seat gives a uid to hotkey; whoever had it is gone. As on the chain the last
// update is the registration's block: the first weights wait for the rate limit too.
func (sub *subnet) seat(uid int, hotkey string, block uint64) {
	n := &neuron{Hotkey: hotkey, RegisteredAt: block, book: book{LastUpdate: block}, Active: true}
	for range sub.More {
		n.More = append(n.More, book{LastUpdate: block})
	}
	if uid == len(sub.Neurons) {
		sub.Neurons = append(sub.Neurons, n)
	} else {
		delete(sub.uids, sub.Neurons[uid].Hotkey)
		sub.Neurons[uid] = n
	}
	sub.uids[hotkey] = uid
}

func (s *state) setHyper(x *extrinsic) error {
	sub, err := s.subnet(x.Netuid)
	if err != nil {
		return err
	}
	if int(x.Hyper.MaxUIDs) < len(sub.Neurons) {
		return fmt.Errorf("set max uids to %d: %d are taken", x.Hyper.MaxUIDs, len(sub.Neurons))
	}
	sub.fillPot(s.Block)
	sub.Price, sub.PriceAt = sub.burn(s.Block), s.Block // the old half-life up to here
	if x.Hyper.Tempo != sub.Hyper.Tempo || x.Hyper.Model != sub.Hyper.Model {
		sub.Epoch.LastBlock, sub.Epoch.PendingAt = s.Block, 0
	}
	on, was := x.Hyper.NullConsensus, sub.Hyper.NullConsensus
	sub.Hyper = *x.Hyper
	sub.Hyper.NullConsensus = was
	return s.setNull(x.Netuid, sub, on)
}

func (s *state) setValidator(x *extrinsic) error {
	sub, n, _, err := s.neuron(x.Netuid, x.Hotkey)
	if err != nil {
		return err
	}
	n.Permit = x.Permit
	if a := sub.Alpha; a != nil { // alpha outside of the pool is what is staked
		a.Out = addRao(a.Out-min(a.Out, sub.Stakes[x.Hotkey]), x.Rao)
	}
	sub.Stakes[x.Hotkey] = x.Rao
	delete(sub.Shares, x.Hotkey)
	return nil
}

// triggerEpoch puts the next epoch into the next block.
func (s *state) triggerEpoch(x *extrinsic) error {
	sub, err := s.subnet(x.Netuid)
	switch {
	case err != nil:
		return err
	case x.Coldkey != "" && x.Coldkey != sub.OwnerColdkey:
		return ledger.ErrBadOrigin.With(fmt.Sprintf("subnet %d belongs to %s", x.Netuid, sub.OwnerColdkey))
	case sub.Hyper.CommitReveal: // it would move reveals that others have timed
		return ledger.ErrCommitRevealEnabled.With("an epoch is not moved while weights are committed and revealed")
	case sub.Hyper.Model == ledger.Modulo:
		return errors.New("epochs of the modulo model cannot be moved")
	}
	sub.Epoch.PendingAt = s.Block + 1
	return nil
}

func (s *state) register(x *extrinsic) (uint16, error) {
	sub, err := s.subnet(x.Netuid)
	if err != nil {
		return 0, err
	}
	if !sub.Hyper.RegistrationOpen {
		return 0, ledger.ErrRegistrationDisabled
	}
	if uid, ok := sub.uids[x.Hotkey]; ok {
		return 0, ledger.ErrAlreadyRegistered.With(fmt.Sprintf("hotkey is registered already, as uid %d", uid))
	}
	if owner, ok := s.Owners[x.Hotkey]; ok && owner != x.Coldkey {
		return 0, ledger.ErrNonAssociatedColdkey
	}
	price, balance := sub.burn(s.Block), s.balance(x.Coldkey)
	burned, locked := sub.priced(price, x.Hotkey)
	switch {
	case price > 0 && x.Signer != "" && x.Signer != x.Coldkey:
		return 0, ledger.ErrBadOrigin.With(fmt.Sprintf("a registration costs %d rao: the coldkey must sign it", price))
	case addRao(burned, locked) > balance:
		return 0, ledger.ErrNotEnoughBalance.With(fmt.Sprintf("a registration costs %d rao: the coldkey has %d", addRao(burned, locked), balance))
	}
	uid := len(sub.Neurons) // uids have no gaps
	if uid >= int(sub.Hyper.MaxUIDs) {
		if x.Keep {
			return 0, ledger.ErrSubnetFull.With(fmt.Sprintf("all %d uids are taken, and registrations that cost nothing evict nobody", uid))
		}
		if uid, err = sub.victim(s.Block); err != nil {
			return 0, err
		}
	}
	if err := s.payRegistration(sub, x.Hotkey, x.Coldkey, burned, locked); err != nil {
		return 0, err
	}
	s.Owners[x.Hotkey] = x.Coldkey
	sub.raiseBurn(s.Block)
	sub.seat(uid, x.Hotkey, s.Block)
	return uint16(uid), nil
}

func (s *state) addStake(x *extrinsic) error {
	if s.hasAlpha(x.Netuid) {
		return s.ordered(x, ledger.StakeAdd)
	}
	sub, err := s.owned(x)
	if err != nil {
		return err
	}
	have := s.balance(x.Coldkey)
	if x.Rao > have {
		return ledger.ErrNotEnoughBalance.With(fmt.Sprintf("stake %d rao: the coldkey has %d", x.Rao, have))
	}
	s.Balances[x.Coldkey] = have - x.Rao
	sub.Stakes[x.Hotkey] = addRao(sub.Stakes[x.Hotkey], x.Rao)
	return nil
}

func (s *state) removeStake(x *extrinsic) error {
	if s.hasAlpha(x.Netuid) {
		return s.ordered(x, ledger.StakeRemove)
	}
	if err := s.takeStake(x); err != nil {
		return err
	}
	s.credit(x.Coldkey, x.Rao)
	return nil
}

// takeStake takes stake from a hotkey; where it goes is the caller's.
func (s *state) takeStake(x *extrinsic) error {
	if s.hasAlpha(x.Netuid) {
		return s.ordered(x, ledger.StakeBurn)
	}
	sub, err := s.owned(x)
	if err != nil {
		return err
	}
	have := sub.Stakes[x.Hotkey]
	if x.Rao > have {
		return ledger.ErrNotEnoughStakeLeft.With(fmt.Sprintf("take %d rao back: the hotkey's stake is %d", x.Rao, have))
	}
	sub.Stakes[x.Hotkey] = have - x.Rao
	return nil
}

// hasAlpha says whether stake on a subnet is moved by orders.
func (s *state) hasAlpha(netuid uint16) bool {
	if netuid == ledger.Root {
		return s.Root != nil
	}
	sub := s.Subnets[netuid]
	return sub != nil && sub.Alpha != nil
}

// ordered is a plain call about stake as an order.
func (s *state) ordered(x *extrinsic, kind string) error {
	y := *x
	y.Order = &ledger.StakeOrder{Kind: kind, Netuid: x.Netuid, Hotkey: x.Hotkey, Coldkey: x.Coldkey, Amount: x.Rao}
	return s.stakeOrder(&y)
}

// owned finds the subnet of a call about a hotkey and checks whose it is.
func (s *state) owned(x *extrinsic) (*subnet, error) {
	sub, err := s.subnet(x.Netuid)
	if err != nil {
		return nil, err
	}
	switch owner, ok := s.Owners[x.Hotkey]; {
	case !ok:
		return nil, ledger.ErrNotRegistered.With("hotkey was never registered")
	case owner != x.Coldkey:
		return nil, ledger.ErrNonAssociatedColdkey
	}
	return sub, nil
}

// Limits of a commitment (spec/chain.md 2.6).
const (
	maxFields = 3
	minSpace  = 100 // what a commitment costs at least
)

func (s *state) commit(x *extrinsic) error {
	space, err := fieldSpace(x.Fields)
	if err != nil {
		return err
	}
	sub, _, _, err := s.neuron(x.Netuid, x.Hotkey)
	if errors.Is(err, ledger.ErrNotRegistered) {
		return ledger.ErrAccountMayNotCommit.With("only hotkeys that are registered on the subnet may commit")
	} else if err != nil {
		return err
	}
	epoch := sub.epochIndex(x.Netuid, s.Block)
	var used uint64
	if old := sub.Commitments[x.Hotkey]; old != nil && old.Epoch == epoch {
		used = old.Space
	}
	if used+space > sub.Hyper.CommitmentSpace {
		next, err := sub.Epoch.Next(sub.Hyper.Model, x.Netuid, sub.Hyper.Tempo, s.Block)
		if err != nil {
			return err
		}
		return ledger.ErrCommitmentSpace.With(fmt.Sprintf("%d bytes: %d of %d are used until block %d", space, used, sub.Hyper.CommitmentSpace, next))
	}
	c := &commitment{Block: s.Block, Fields: nonNil(x.Fields), Space: used + space, Epoch: epoch}
	sub.Commitments[x.Hotkey] = c
	s.openCommitment(sub, x.Hotkey, c)
	return nil
}

// fieldSpace checks the fields and returns what they cost.
func fieldSpace(fields []ledger.Field) (uint64, error) {
	if len(fields) > maxFields {
		return 0, ledger.ErrTooManyFields.With(fmt.Sprintf("%d fields: at most %d", len(fields), maxFields))
	}
	space := 0
	for i, f := range fields {
		least, most := 0, 0
		switch f.Type {
		case ledger.FieldRaw:
			most = 128
		case ledger.FieldBigRaw:
			most = 512
		case ledger.FieldSha256, ledger.FieldBlake2, ledger.FieldKeccak, ledger.FieldSha3:
			least, most = 32, 32
		case ledger.FieldTimelock:
			most = 1024
		case ledger.FieldNone, ledger.FieldResetBonds:
		default:
			return 0, ledger.ErrCommitmentFieldInvalid.With(fmt.Sprintf("field %d: unknown form %q", i, f.Type))
		}
		if len(f.Data) < least || len(f.Data) > most {
			return 0, ledger.ErrCommitmentFieldInvalid.With(fmt.Sprintf("field %d of %d bytes: a %s field has %d to %d", i, len(f.Data), f.Type, least, most))
		}
		space += len(f.Data)
	}
	return uint64(max(space, minSpace)), nil
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
