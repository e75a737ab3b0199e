// Package ledger holds what agon needs of a ledger: registrations, the
// metagraph, commitments and weights, with the chain's types and error names.
// ledger/local is the embedded ledger; a client of a chain fits the same
// interfaces.
package ledger

import (
	"context"
	"net/netip"
	"time"

	"github.com/agon-arena/agon"
)

// Reader reads a ledger. All methods may run at once; nothing is cached by the
// caller's leave, and two calls may see two blocks. An unknown subnet is
// ErrSubnetNotExists. What the ledger itself cannot answer (disk, network) is
// any error that is no *Error: the caller may retry it, and the fault is the ledger's.
type Reader interface {
	// Block returns the number of the newest block. It never falls.
	Block(ctx context.Context) (uint64, error)
	// Metagraph returns a consistent snapshot of one subnet.
	Metagraph(ctx context.Context, netuid uint16) (*Metagraph, error)
	// Commitments returns the live commitment of every hotkey that made one, by uid.
	Commitments(ctx context.Context, netuid uint16) ([]Commitment, error)
	// History returns what hotkey committed at block from or later, oldest
	// first: rules of first sighting need what a later commit overwrote.
	History(ctx context.Context, netuid uint16, hotkey string, from uint64) ([]Commitment, error)
}

// Writer changes a ledger. A write is durable when it returns without error.
// The caller has checked that it may act for the hotkey; a chain client signs
// with that hotkey's key. Refusals are *Error and may not be retried unchanged
// (but for ErrSettingWeightsTooFast: at a later block); input that no ledger
// could read, such as a broken address, is *agon.Error.
type Writer interface {
	// Register gives hotkey, owned by coldkey, a uid.
	Register(ctx context.Context, netuid uint16, hotkey, coldkey string) (uid uint16, err error)
	// Commit replaces hotkey's commitment and returns the block that stamps it.
	Commit(ctx context.Context, netuid uint16, hotkey string, fields ...Field) (block uint64, err error)
	// SetWeights replaces the weights that hotkey gives.
	SetWeights(ctx context.Context, netuid uint16, hotkey string, w Weights) error
}

// WeightCommitter commits and reveals weights, where a subnet wants that
// instead of SetWeights. The same promises as Writer's.
type WeightCommitter interface {
	// CommitWeights promises the weights of which hash is the CommitHash.
	CommitWeights(ctx context.Context, netuid uint16, hotkey string, hash Hash) error
	// RevealWeights sets weights that were committed RevealEpochs epochs before.
	RevealWeights(ctx context.Context, netuid uint16, hotkey string, w Weights, salt []uint16) error
}

// Staker moves rao between a coldkey's balance and a hotkey's stake on a subnet.
type Staker interface {
	AddStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error
	RemoveStake(ctx context.Context, netuid uint16, hotkey, coldkey string, rao uint64) error
	Balance(ctx context.Context, coldkey string) (rao uint64, err error)
}

// Burn is an extrinsic, and what alpha it burned or recycled.
type Burn struct {
	At      time.Time // of its block
	Call    string    // "SubtensorModule.burn_alpha"; empty: there is no such extrinsic
	Signer  string
	Failed  bool
	Owner   string // coldkey of the hotkey at that block
	Coldkey string // of the event; empty: nothing was burned
	Hotkey  string
	Netuid  uint16
	Amount  int64 // rao of alpha
}

// Burns tells what was burned, and what can be.
type Burns interface {
	// Burnable is what a coldkey can burn of its stake on a hotkey, in rao of alpha.
	Burnable(ctx context.Context, netuid uint16, coldkey, hotkey string) (int64, error)
	// Burned returns what the extrinsic at an index of a block did, with the owner
	// that hotkey had there; nil: there is no such block. A block is named by its
	// hash, 0x and 64 hexadecimal digits, or by its number in decimal.
	Burned(ctx context.Context, block string, index int, hotkey string) (*Burn, error)
}

// Told is an extrinsic of a block as clients of the chain's protocol see it.
type Told struct {
	Block     uint64
	At        time.Time
	Extrinsic []byte // as it was sent
	Events    []byte // its part of System.Events, SCALE
}

// Header is what a block's hash is made of besides its parent's hash.
type Header struct {
	Number                          uint64
	Hash, StateRoot, ExtrinsicsRoot [32]byte
}

// Ledger is what every arena needs.
type Ledger interface {
	Reader
	Writer
}

// Full is all that the embedded ledger offers.
type Full interface {
	Ledger
	WeightCommitter
	Staker
	// Subnets lists the netuids, ascending.
	Subnets(ctx context.Context) ([]uint16, error)
}

// Weights is a weight vector as a validator sends it. UIDs and Values have the
// same length; VersionKey is the version of the sending software, which a
// subnet's owner may require.
type Weights struct {
	UIDs       []uint16 `json:"uids"`
	Values     []uint16 `json:"values"`
	VersionKey uint64   `json:"version_key"`
}

// Neuron is one registration of a subnet.
type Neuron struct {
	UID          uint16 `json:"uid"`
	Hotkey       string `json:"hotkey"`
	Coldkey      string `json:"coldkey"`
	Permit       bool   `json:"validator_permit"`
	Stake        uint64 `json:"stake"` // rao; what the subnet counts
	RegisteredAt uint64 `json:"registered_at"`
	LastUpdate   uint64 `json:"last_update"` // block of the last weights; the registration's before
	Incentive    uint16 `json:"incentive"`

	// What the last epoch decided, of 65535 where 16 bits wide.
	Active         bool   `json:"active"`
	Consensus      uint16 `json:"consensus"`
	Trust          uint16 `json:"trust"`
	ValidatorTrust uint16 `json:"validator_trust"`
	Dividends      uint16 `json:"dividends"`
	Emission       uint64 `json:"emission"` // rao
	// Commits are the weight commits that are not revealed yet, oldest first.
	Commits []WeightCommit `json:"weight_commits,omitempty"`
	// AlphaStake and RootStake are what Stake is made of where the subnet has a Pool: the alpha of the
	// hotkey, and the TAO on the root network, less its children's parts and with its parents', in rao.
	AlphaStake uint64 `json:"alpha_stake,omitempty"`
	RootStake  uint64 `json:"root_stake,omitempty"`
	// Axon is where the hotkey said that it serves; nil = nowhere, or the ledger's reader does not look.
	Axon *Axon `json:"axon,omitempty"`
}

// Axon is where a hotkey serves. It is never changed, but replaced.
type Axon struct {
	Block        uint64     `json:"block"`
	Version      uint32     `json:"version"`
	IP           netip.Addr `json:"ip"`
	Port         uint16     `json:"port"`
	Protocol     uint8      `json:"protocol"`
	Placeholder1 uint8      `json:"placeholder1"`
	Placeholder2 uint8      `json:"placeholder2"`
}

// Holdings is what hangs on a coldkey.
type Holdings struct {
	Hotkeys []string  `json:"hotkeys"` // that it owns, sorted
	Stakes  []Holding `json:"stakes"`  // by hotkey and netuid
}

// Holding is what a hotkey has on a subnet.
type Holding struct {
	Netuid     uint16 `json:"netuid"`
	Hotkey     string `json:"hotkey"`
	Stake      uint64 `json:"stake"`    // rao
	Emission   uint64 `json:"emission"` // rao, of the last epoch
	Registered bool   `json:"registered"`
}

// WeightCommit is a promise of weights, made in an epoch.
type WeightCommit struct {
	Hash  Hash   `json:"hash"`  // of weights and salt (CommitHash), or of the ciphertext where Round is set
	Epoch uint64 `json:"epoch"` // index of the epoch it was made in
	Block uint64 `json:"block"`
	// Round is the drand round after which the ledger opens it by itself; 0: it has to be revealed.
	Round uint64 `json:"reveal_round,omitempty"`
}

// WeightRow is the weights of one validator as they stand: scaled up so that
// the largest is 65535, in the order in which they were given.
type WeightRow struct {
	UID    uint16   `json:"uid"`
	UIDs   []uint16 `json:"uids"`
	Values []uint16 `json:"values"`
	Block  uint64   `json:"block"`
}

// Metagraph is a snapshot of one subnet at one block.
type Metagraph struct {
	Netuid       uint16          `json:"netuid"`
	Block        uint64          `json:"block"`
	OwnerHotkey  string          `json:"owner_hotkey"`
	OwnerColdkey string          `json:"owner_coldkey"`
	Hyper        Hyperparameters `json:"hyperparameters"`
	Epoch        Epoch           `json:"epoch"`
	Burn         uint64          `json:"burn"`    // rao: what a registration costs at Block
	Neurons      []Neuron        `json:"neurons"` // by uid, without gaps
	Weights      []WeightRow     `json:"weights"` // by uid of the validator; only those who set any
	// Mechanisms are those after the first, MechanismSplit the shares of all, of 65535; none = equal ones.
	Mechanisms     []Mechanism `json:"mechanisms,omitempty"`
	MechanismSplit []uint16    `json:"mechanism_split,omitempty"`
	// Pool is where the subnet's alpha is traded; nil = a TAO of stake is a TAO.
	Pool *Pool `json:"pool,omitempty"`
}

// Neuron returns the registration of hotkey.
func (m *Metagraph) Neuron(hotkey string) (Neuron, bool) {
	for _, n := range m.Neurons {
		if n.Hotkey == hotkey {
			return n, true
		}
	}
	return Neuron{}, false
}

// BurnUID is the uid of the owner's hotkey: weight given to it is burned. It
// need not be 0, and is absent where the owner is not registered.
func (m *Metagraph) BurnUID() (uint16, bool) {
	n, ok := m.Neuron(m.OwnerHotkey)
	return n.UID, ok
}

// TopWeights returns the weights of the validator with the highest stake that
// has set any (the lowest uid of equals), without zeros.
func (m *Metagraph) TopWeights() []agon.Weight {
	var top *WeightRow
	for i, row := range m.Weights {
		if int(row.UID) >= len(m.Neurons) {
			continue
		}
		if top == nil || m.Neurons[row.UID].Stake > m.Neurons[top.UID].Stake {
			top = &m.Weights[i]
		}
	}
	out := []agon.Weight{}
	if top == nil {
		return out
	}
	for i, uid := range top.UIDs {
		if top.Values[i] > 0 && int(uid) < len(m.Neurons) {
			out = append(out, agon.Weight{UID: uid, Hotkey: m.Neurons[uid].Hotkey, Weight: top.Values[i]})
		}
	}
	return out
}

// Hyperparameters are the rules of one subnet. Blocks count blocks.
type Hyperparameters struct {
	Tempo              uint16 `json:"tempo"` // blocks between epochs
	MaxUIDs            uint16 `json:"max_allowed_uids"`
	MinAllowedWeights  uint16 `json:"min_allowed_weights"`
	WeightsVersionKey  uint64 `json:"weights_version_key"` // 0 accepts any
	WeightsRateLimit   uint64 `json:"weights_rate_limit"`  // blocks
	StakeThreshold     uint64 `json:"stake_threshold"`     // rao
	CommitReveal       bool   `json:"commit_reveal_weights_enabled"`
	RegistrationOpen   bool   `json:"registration_allowed"`
	CommitmentSpace    uint64 `json:"commitment_space"` // bytes per hotkey and epoch
	ImmunityPeriod     uint64 `json:"immunity_period"`  // blocks
	MaxValidators      uint16 `json:"max_allowed_validators"`
	Kappa              uint16 `json:"kappa"`
	BondsMovingAverage uint64 `json:"bonds_moving_avg"` // of 1,000,000

	Model                Model  `json:"epoch_model,omitempty"`        // empty = dynamic
	ActivityCutoffFactor uint64 `json:"activity_cutoff_factor_milli"` // thousandths of a tempo; 0 = 13889
	// ActivityCutoffBlocks is the cutoff itself, where a runtime counts it in blocks; 0 = by the factor.
	ActivityCutoffBlocks uint64 `json:"activity_cutoff_blocks,omitempty"`
	BondsPenalty         uint16 `json:"bonds_penalty"` // of 65535
	// NullConsensus pays by the weights of the most stake instead of Yuma's consensus.
	NullConsensus bool `json:"null_consensus,omitempty"`
	// CollateralShare is what of a registration's price is locked as the miner's collateral, of 65535,
	// CollateralDrain how much of it an alpha earned sets free, of 2^32; 0 = all of an alpha.
	CollateralShare uint16 `json:"collateral_lock_share,omitempty"`
	CollateralDrain uint64 `json:"collateral_drain_ratio,omitempty"`
	Yuma3           bool   `json:"yuma3"`
	LiquidAlpha     bool   `json:"liquid_alpha_enabled"`
	AlphaLow        uint16 `json:"alpha_low"`
	AlphaHigh       uint16 `json:"alpha_high"`
	AlphaSteepness  int16  `json:"alpha_sigmoid_steepness"` // of 100
	RevealPeriod    uint64 `json:"commit_reveal_period"`    // epochs; 0 = 1

	MinBurn          uint64 `json:"min_burn"`            // rao
	MaxBurn          uint64 `json:"max_burn"`            // rao
	BurnHalfLife     uint64 `json:"burn_half_life"`      // blocks; 0 = the price does not fall
	BurnIncrease     uint64 `json:"burn_increase_mult"`  // of 1,000,000: what a registration does to the price
	MinNonImmuneUIDs uint16 `json:"min_non_immune_uids"` // with so few or fewer, an immune uid is evicted
	EmissionPerBlock uint64 `json:"emission_per_block"`  // rao
	OwnerCut         uint16 `json:"owner_cut"`           // of 65535
	// EmissionStaked adds what an epoch pays to the hotkey's stake, as the chain
	// does; otherwise it goes to the coldkey's balance and stakes stay.
	EmissionStaked bool `json:"emission_staked"`
}

// ActivityCutoff is after how many blocks without weights a validator does not count.
func (h *Hyperparameters) ActivityCutoff() uint64 {
	if h.ActivityCutoffBlocks > 0 {
		return h.ActivityCutoffBlocks
	}
	factor := h.ActivityCutoffFactor
	if factor == 0 {
		factor = 13889
	}
	return max(1, factor*uint64(h.Tempo)/1000)
}

// RevealEpochs is how many epochs after its commit a weight vector is revealed.
func (h *Hyperparameters) RevealEpochs() uint64 { return max(1, h.RevealPeriod) }

// FieldType is the form of one committed field.
type FieldType string

// Forms of committed fields that the embedded ledger takes.
const (
	FieldRaw    FieldType = "raw"     // at most 128 bytes
	FieldBigRaw FieldType = "big_raw" // at most 512 bytes
	FieldSha256 FieldType = "sha256"  // 32 bytes

	// FieldTimelock is bytes that are opened after the drand round Round.
	FieldTimelock   FieldType = "TimelockEncrypted" // at most 1024 bytes
	FieldBlake2     FieldType = "BlakeTwo256"       // 32 bytes
	FieldKeccak     FieldType = "Keccak256"         // 32 bytes
	FieldSha3       FieldType = "ShaThree256"       // 32 bytes
	FieldNone       FieldType = "None"
	FieldResetBonds FieldType = "ResetBondsFlag"
)

// Field is one committed field.
type Field struct {
	Type  FieldType `json:"type"`
	Data  []byte    `json:"data"`
	Round uint64    `json:"reveal_round,omitempty"` // of FieldTimelock
}

// Raw makes the shortest plain field that holds b.
func Raw(b []byte) Field {
	if len(b) > 128 {
		return Field{Type: FieldBigRaw, Data: b}
	}
	return Field{Type: FieldRaw, Data: b}
}

// Commitment is what a hotkey committed. Block is the trusted time stamp; a
// second commitment has a new one.
type Commitment struct {
	Netuid uint16  `json:"netuid"`
	Hotkey string  `json:"hotkey"`
	Block  uint64  `json:"block"`
	Fields []Field `json:"fields"`
}
