package local

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/agon-arena/agon/ledger"
)

// state is the whole ledger at one block. It is a pure state machine: the same
// genesis and the same extrinsics at the same blocks give the same bytes,
// however the blocks between them were stepped. So nothing here may depend on
// a clock, on the order of a map, or on who looked when.
type state struct {
	Block    uint64             `json:"block"`
	Faucet   uint64             `json:"faucet"` // rao: the balance of a coldkey that is not in Balances
	Subnets  map[uint16]*subnet `json:"subnets"`
	Owners   map[string]string  `json:"owners"` // coldkey by hotkey, for good
	Balances map[string]uint64  `json:"balances"`
	// Nonces count the extrinsics that accounts signed for the node.
	Nonces map[string]uint64 `json:"nonces,omitempty"`
	// Rounds are signatures of drand's rounds, the last keepRounds.
	Rounds    map[uint64][]byte `json:"rounds,omitempty"`
	LastRound uint64            `json:"last_round,omitempty"`
	// Takes are what hotkeys keep of their stakers' dividends, of 65535; one that is not here keeps maxTake.
	Takes map[string]uint16 `json:"takes,omitempty"`
	// Root is the root network; nil until a subnet has a pool.
	Root *rootBook `json:"root,omitempty"`
	// Proxies are by account, Announced by delegate.
	Proxies   map[string]ledger.ProxyList        `json:"proxies,omitempty"`
	Announced map[string]ledger.AnnouncementList `json:"announced,omitempty"`

	order []uint16 // keys of Subnets, ascending
	ran   []uint64 // blocks that changed by themselves since somebody looked: epochs ran, claims were made

	swapped []ledger.Swap // by the extrinsic that was applied last
}

type subnet struct {
	OwnerHotkey  string                 `json:"owner_hotkey"`
	OwnerColdkey string                 `json:"owner_coldkey"`
	Hyper        ledger.Hyperparameters `json:"hyperparameters"`
	Epoch        ledger.Epoch           `json:"epoch"`
	// The price of a registration at block PriceAt; it falls from there.
	Price   uint64 `json:"price"`
	PriceAt uint64 `json:"price_at"`
	// Pot is emission that no epoch has paid yet, counted up to block PotAt.
	Pot    uint64 `json:"pot"`
	PotAt  uint64 `json:"pot_at"`
	Burned uint64 `json:"burned"` // rao: price of registrations, and what the owner's uids earned

	Neurons []*neuron `json:"neurons"` // by uid
	stakeBook
	Commitments map[string]*commitment `json:"commitments"`
	// Sealed are timelocked weights that are not opened, oldest first.
	Sealed []ledger.SealedCommit `json:"sealed,omitempty"`
	// Revealed is what timelocked commitments held that are opened, by hotkey.
	Revealed map[string][]ledger.Revealed `json:"revealed,omitempty"`

	// Null is what Yuma had when Null took over; nil: Yuma's last epoch is the last.
	Null *null `json:"null,omitempty"`
	// More is how many mechanisms there are after the first, Split the shares of all.
	More  int      `json:"more,omitempty"`
	Split []uint16 `json:"split,omitempty"`
	// Alpha is the subnet's pool; nil: a TAO of stake is a TAO, and each block makes EmissionPerBlock of them.
	Alpha *alpha `json:"alpha,omitempty"`

	uids map[string]int // by hotkey
}

type neuron struct {
	Hotkey       string       `json:"hotkey"`
	Permit       bool         `json:"permit"`
	RegisteredAt uint64       `json:"registered_at"`
	book                      // of the first mechanism
	More         []book       `json:"more,omitempty"` // of those after it
	Axon         *ledger.Axon `json:"axon,omitempty"`

	Active         bool   `json:"active"`
	Consensus      uint16 `json:"consensus"`
	Trust          uint16 `json:"trust"`
	ValidatorTrust uint16 `json:"validator_trust"`
	Dividends      uint16 `json:"dividends"`
	Emission       uint64 `json:"emission"`
}

type commitment struct {
	Block  uint64         `json:"block"`
	Fields []ledger.Field `json:"fields"`
	// Space is what the hotkey used in epoch Epoch.
	Space uint64 `json:"space"`
	Epoch uint64 `json:"epoch"`
	// Opened says that all of it was timelocked and is opened: nothing is left but the space it took.
	Opened bool `json:"opened,omitempty"`
}

func newState(faucet uint64) *state {
	return &state{Faucet: faucet, Subnets: map[uint16]*subnet{}, Owners: map[string]string{}, Balances: map[string]uint64{}, Nonces: map[string]uint64{}, Rounds: map[uint64][]byte{}}
}

// encode gives the canonical bytes of the state.
func (s *state) encode() ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return b, nil
}

func decodeState(b []byte) (*state, error) {
	s := newState(0)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("decode state: %w", err)
	}
	s.order = slices.Sorted(maps.Keys(s.Subnets))
	for netuid, sub := range s.Subnets {
		if sub == nil {
			return nil, fmt.Errorf("decode state: subnet %d is null", netuid)
		}
		sub.uids = make(map[string]int, len(sub.Neurons))
		for uid, n := range sub.Neurons {
			sub.uids[n.Hotkey] = uid
		}
		if sub.Alpha != nil {
			sub.Alpha.turn()
		}
	}
	return s, nil
}

// advance steps to block to. Blocks in which nothing happens cost nothing; where
// subnets have pools something happens in each.
func (s *state) advance(to uint64) error {
	pooled := s.pooled()
	for s.Block < to && len(pooled) > 0 {
		s.Block++
		s.emit(pooled)
		if err := s.epochs(); err != nil {
			return err
		}
		s.settle(pooled)
	}
	for s.Block < to {
		next := uint64(math.MaxUint64)
		for _, netuid := range s.order {
			sub := s.Subnets[netuid]
			at, err := sub.Epoch.Next(sub.Hyper.Model, netuid, sub.Hyper.Tempo, s.Block)
			if err != nil {
				return fmt.Errorf("step subnet %d: %w", netuid, err)
			}
			next = min(next, at)
		}
		if next > to {
			s.Block = to
			return nil
		}
		s.Block = next
		if err := s.epochs(); err != nil {
			return err
		}
	}
	return nil
}

// epochs runs what is due in the block, before its extrinsics.
func (s *state) epochs() error {
	ran, most := 0, s.epochsAtOnce()
	for _, netuid := range s.order {
		sub := s.Subnets[netuid]
		if !sub.Epoch.Due(sub.Hyper.Model, netuid, sub.Hyper.Tempo, s.Block) {
			continue
		}
		if sub.Hyper.Model != ledger.Modulo {
			if ran == most {
				sub.Epoch.PendingAt = s.Block + 1
				continue
			}
			ran++
		}
		// What is to be opened in the epoch that begins here is opened before it runs,
		// as the chain does before its coinbase: an early round counts at once.
		s.openSealed(netuid, sub)
		run := s.runEpoch
		if sub.Alpha != nil {
			run = s.runAlphaEpoch
		}
		if err := run(sub); err != nil {
			return fmt.Errorf("epoch of subnet %d in block %d: %w", netuid, s.Block, err)
		}
		sub.yumaRan()
		sub.Epoch = ledger.Epoch{LastBlock: s.Block, Index: sub.Epoch.Index + 1, LastStep: s.Block, Since: s.Block}
		s.ran = append(s.ran, s.Block)
	}
	return nil
}

// subnet looks a subnet up.
func (s *state) subnet(netuid uint16) (*subnet, error) {
	sub, ok := s.Subnets[netuid]
	if !ok {
		return nil, ledger.ErrSubnetNotExists.With(fmt.Sprintf("subnet %d does not exist", netuid))
	}
	return sub, nil
}

// neuron looks a registration up.
func (s *state) neuron(netuid uint16, hotkey string) (*subnet, *neuron, int, error) {
	sub, err := s.subnet(netuid)
	if err != nil {
		return nil, nil, 0, err
	}
	uid, ok := sub.uids[hotkey]
	if !ok {
		return sub, nil, 0, ledger.ErrNotRegistered.With(fmt.Sprintf("hotkey is not registered on subnet %d", netuid))
	}
	return sub, sub.Neurons[uid], uid, nil
}

func (s *state) balance(coldkey string) uint64 {
	if b, ok := s.Balances[coldkey]; ok {
		return b
	}
	return s.Faucet
}

// credit adds rao to a coldkey's balance.
func (s *state) credit(coldkey string, rao uint64) {
	s.Balances[coldkey] = addRao(s.balance(coldkey), rao)
}

// addRao saturates: money never wraps.
func addRao(a, b uint64) uint64 {
	if b > math.MaxUint64-a {
		return math.MaxUint64
	}
	return a + b
}

func (sub *subnet) epochIndex(netuid uint16, block uint64) uint64 {
	return ledger.EpochIndex(&sub.Hyper, sub.Epoch, netuid, block)
}

// metagraph copies a subnet out.
func (s *state) metagraph(netuid uint16) (*ledger.Metagraph, error) {
	sub, err := s.subnet(netuid)
	if err != nil {
		return nil, err
	}
	m := &ledger.Metagraph{
		Netuid: netuid, Block: s.Block, OwnerHotkey: sub.OwnerHotkey, OwnerColdkey: sub.OwnerColdkey, Hyper: sub.Hyper,
		Epoch: sub.Epoch, Burn: sub.burn(s.Block), Neurons: make([]ledger.Neuron, len(sub.Neurons)), Weights: []ledger.WeightRow{},
	}
	if m.MechanismSplit = slices.Clone(sub.Split); sub.More > 0 {
		m.Mechanisms = sub.ofMechanisms()
	}
	m.Pool = s.poolOf(sub)
	for uid, n := range sub.Neurons {
		m.Neurons[uid] = ledger.Neuron{
			UID: uint16(uid), Hotkey: n.Hotkey, Coldkey: s.Owners[n.Hotkey], Permit: n.Permit, Stake: sub.Stakes[n.Hotkey],
			RegisteredAt: n.RegisteredAt, LastUpdate: n.LastUpdate, Incentive: n.Incentive, Active: n.Active, Consensus: n.Consensus,
			Trust: n.Trust, ValidatorTrust: n.ValidatorTrust, Dividends: n.Dividends, Emission: n.Emission, Commits: append(slices.Clone(n.Commits), sub.sealedOf(n.Hotkey, 0)...), Axon: n.Axon,
		}
		if sub.Alpha != nil {
			weight, of, root := s.weigh(sub, n.Hotkey)
			x := &m.Neurons[uid]
			x.Stake, x.AlphaStake, x.RootStake = weight.Whole32(), of, root
		}
		if n.HasWeights {
			given := row(uint16(uid), n.Weights)
			given.Block = n.WeightsAt
			m.Weights = append(m.Weights, given)
		}
	}
	return m, nil
}
