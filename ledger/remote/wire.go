// Package remote talks to a ledger in another process over HTTP and JSON:
// reads are open, extrinsics are signed as agon-v1. ledger/serve is the other end.
package remote

import "github.com/agon-arena/agon/ledger"

// Paths.
const (
	PathInfo       = "/ledger/v1"
	PathSubnets    = "/ledger/v1/subnets/"   // {netuid}, {netuid}/commitments, {netuid}/commitments/{hotkey}?from=
	PathBalances   = "/ledger/v1/balances/"  // {coldkey}
	PathExtrinsics = "/ledger/v1/extrinsics" // POST, signed
)

// MaxExtrinsic bounds the body of an extrinsic, in bytes.
const MaxExtrinsic = 2 << 20

// Info is what a ledger says of itself.
type Info struct {
	Audience    string   `json:"audience"` // what signatures are made for
	Block       uint64   `json:"block"`
	BlockTimeMS int64    `json:"block_time_ms"` // 0 = stepped by hand
	Subnets     []uint16 `json:"subnets"`
}

// Calls of extrinsics, by the chain's names. Hotkeys sign theirs, coldkeys
// registrations and stake. A registration that costs nothing may be the hotkey's.
const (
	CallRegister      = "burned_register"
	CallCommit        = "set_commitment"
	CallSetWeights    = "set_weights"
	CallCommitWeights = "commit_weights"
	CallRevealWeights = "reveal_weights"
	CallAddStake      = "add_stake"
	CallRemoveStake   = "remove_stake"
)

// Extrinsic is the body of a signed change. Each call uses some of the fields.
type Extrinsic struct {
	Call    string          `json:"call"`
	Netuid  uint16          `json:"netuid"`
	Hotkey  string          `json:"hotkey"`
	Coldkey string          `json:"coldkey,omitempty"`
	Rao     uint64          `json:"rao,omitempty"`
	Fields  []ledger.Field  `json:"fields,omitempty"`
	Weights *ledger.Weights `json:"weights,omitempty"`
	Salt    []uint16        `json:"salt,omitempty"`
	Hash    *ledger.Hash    `json:"hash,omitempty"`
	// Mechanism is that of the weights.
	Mechanism uint8 `json:"mechanism,omitempty"`
}

// Included is the answer to an extrinsic that is on disk.
type Included struct {
	Block uint64 `json:"block"` // of a commitment its stamp, else the newest
	UID   uint16 `json:"uid"`   // of a registration
}

// Balance is the answer to a question for one.
type Balance struct {
	Rao uint64 `json:"rao"`
}

// Problem is an error answer, application/problem+json.
type Problem struct {
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Detail  string `json:"detail"`
	Field   string `json:"field,omitempty"`
	Limit   string `json:"limit,omitempty"`
	Mend    string `json:"mend,omitempty"`
	Fault   string `json:"fault,omitempty"`
	Refused bool   `json:"refused,omitempty"` // Code is the chain's name of a refusal
}
