package ledger

import "math/big"

// Swap is what a swap of TAO for alpha, or the other way, moved. Fee is part of
// what was paid, in the same unit.
type Swap struct {
	Tao   uint64 `json:"tao"`   // rao
	Alpha uint64 `json:"alpha"` // rao of alpha
	Fee   uint64 `json:"fee"`
}

// Pool is a subnet's alpha at a block. Prices are TAO an alpha.
type Pool struct {
	Tao    uint64 `json:"tao"`          // rao in the pool
	Alpha  uint64 `json:"alpha"`        // rao of alpha in it
	Out    uint64 `json:"alpha_out"`    // rao of alpha outside of it: staked, burned or not yet paid
	Quote  uint64 `json:"quote"`        // the weight of TAO in the price, of 10^18
	Price  uint64 `json:"price"`        // rao an alpha
	Moving uint64 `json:"moving_price"` // with 32 fraction bits
	Volume uint64 `json:"volume"`       // rao that were swapped, ever

	// What the last block put into the pool, made for those who work, and bought with what did not fit, in rao.
	TaoIn    uint64 `json:"tao_in"`
	AlphaIn  uint64 `json:"alpha_in"`
	AlphaOut uint64 `json:"alpha_made"`
	Excess   uint64 `json:"excess"`
	// What no epoch has paid yet, in rao of alpha.
	PendingMiners     uint64 `json:"pending_miners"`
	PendingValidators uint64 `json:"pending_validators"`
	PendingRoot       uint64 `json:"pending_root"`
	PendingOwner      uint64 `json:"pending_owner"`
	// Bought is the alpha that blocks have bought, Withheld the part of the miners' emission that the last
	// epoch gave to nobody, and RootPart the part of the validators' that goes to the root network's stake; 32 fraction bits.
	Bought       uint64 `json:"bought"`
	Withheld     uint64 `json:"withheld"`
	RootPart     uint64 `json:"root_part"`
	Recycles     bool   `json:"recycles"` // what is withheld is unmade instead of burned
	RegisteredAt uint64 `json:"registered_at"`
}

// Root is the number of the root network: its stake is TAO, and weighs on every subnet.
const Root = 0

// World is what a ledger with alpha has besides its subnets' metagraphs.
type World struct {
	TaoWeight   uint64     // what a TAO on the root network weighs against an alpha, of 2^64-1; 0: no subnet has a pool
	Positions   []Position // sorted by netuid, hotkey and coldkey
	Families    []Family   // sorted by netuid and parent
	Pending     []Family   // that are not in force yet
	ChildTakes  []Take     // what children keep of their parents' dividends
	Claims      []Claim    // sorted by hotkey and netuid
	Claimed     []Claimed  // sorted by netuid, hotkey and coldkey
	RootClaims  map[string]RootClaim
	Coldkeys    []string // that have claims made for them, by their index
	Dividends   []Dividend
	Collateral  []Collateral // sorted by netuid and hotkey
	RootTao     uint64       // rao that are staked on the root network
	TotalIssued uint64       // rao that exist
}

// Position is a coldkey's stake on a hotkey. Shares are of the hotkey's Of, with 32 fraction bits.
type Position struct {
	Netuid          uint16
	Hotkey, Coldkey string
	Stake           uint64 // rao; of alpha where the subnet has a pool
	Shares, Of      *big.Int
}

// Family is a hotkey's children on a subnet.
type Family struct {
	Netuid   uint16
	Parent   string
	Children []Child
	From     uint64 // block after which an epoch puts it in force, where it is pending
}

// Child has a part of its parent's stake, of 2^64-1.
type Child struct {
	Proportion uint64 `json:"proportion"`
	Hotkey     string `json:"hotkey"`
}

// Take is what a hotkey keeps on a subnet, of 65535.
type Take struct {
	Netuid uint16
	Hotkey string
	Take   uint16
}

// Claim is what a rao on the root network has earned on a subnet since the hotkey began, with 32 fraction bits.
type Claim struct {
	Netuid uint16
	Hotkey string
	Rate   uint64
}

// Claimed is what a coldkey has had of it.
type Claimed struct {
	Netuid          uint16
	Hotkey, Coldkey string
	Alpha           uint64 // rao of alpha
}

// RootClaim says what becomes of what a coldkey claims: it is sold for TAO on the
// root network, but for the alpha that is kept.
type RootClaim struct {
	Keep    bool     `json:"keep,omitempty"`    // of all subnets
	Subnets []uint16 `json:"subnets,omitempty"` // or of these; ascending
}

// Dividend is what the last epoch paid a hotkey's stakers, in rao of alpha.
type Dividend struct {
	Netuid          uint16
	Hotkey          string
	Alpha, RootPart uint64
}

// Collateral is what a hotkey's owner has locked of its stake on the hotkey, in rao of alpha.
type Collateral struct {
	Netuid          uint16
	Hotkey, Coldkey string
	Locked          uint64
	Drain           uint64 // set free by an alpha earned, of 2^32
	Floor           uint64 // what stays locked
	Earned          uint64 // ever
}

// Kinds of orders.
const (
	StakeAdd     = "add"     // Amount rao of the coldkey's balance
	StakeRemove  = "remove"  // Amount of the stake, or All
	StakeMove    = "move"    // Amount of the stake, to ToNetuid, ToHotkey and ToColdkey
	StakeLeave   = "leave"   // all stake on the hotkey, on every subnet
	StakeBurn    = "burn"    // Amount of the stake, at most what there is
	StakeRecycle = "recycle" // the same, and it counts as never made
	// StakeLeaveAlpha is StakeLeave but for the root network, where what it fetches goes.
	StakeLeaveAlpha = "leave-alpha"
)

// StakeOrder is what a coldkey does with stake on a hotkey.
type StakeOrder struct {
	Kind    string `json:"kind"`
	Netuid  uint16 `json:"netuid"`
	Hotkey  string `json:"hotkey"`
	Coldkey string `json:"coldkey"`
	Amount  uint64 `json:"amount,omitempty"` // rao; of alpha where stake is meant
	All     bool   `json:"all,omitempty"`
	// Limit is the worst price, in rao an alpha; of a move, what an alpha there costs in alpha here. nil = any.
	Limit   *uint64 `json:"limit,omitempty"`
	Partial bool    `json:"partial,omitempty"` // as much as the limit allows, instead of nothing
	// Of a move; empty = the same.
	ToNetuid  uint16 `json:"to_netuid,omitempty"`
	ToHotkey  string `json:"to_hotkey,omitempty"`
	ToColdkey string `json:"to_coldkey,omitempty"`
}
