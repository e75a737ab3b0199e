package subtensor

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger/scale"
)

func bigOf(b []byte) *big.Int { return new(big.Int).SetBytes(b) }

// Plan is an extrinsic that is not signed: what its signer would put a name to.
type Plan struct {
	Pallet  string `json:"pallet"`
	Call    string `json:"call"`
	Args    any    `json:"args"`
	Signer  string `json:"signer"`
	Nonce   uint64 `json:"nonce"`
	Genesis string `json:"genesis"`
	Spec    uint32 `json:"spec_version"`
	// Until is the block from which on it can be taken no more; 0 = never.
	Until uint64 `json:"until"`
	Bytes string `json:"call_bytes"` // hex
	// Hash is that of the call's bytes (BLAKE2b-256), as multisig and proxies name a call.
	Hash string `json:"call_hash"`
	// Payload is what is signed, hex: the call, or its hash with what binds it to the chain.
	Payload string `json:"payload"`
	Length  int    `json:"length"`  // of the extrinsic, bytes
	Fee     uint64 `json:"fee"`     // rao
	Balance uint64 `json:"balance"` // of the signer, rao
	Pending bool   `json:"pending"` // another call of the signer is on its way
}

// Plan makes an extrinsic without its signature and asks what it would cost. It
// changes nothing, and needs no key.
func (c *Client) Plan(ctx context.Context, address string, call Call) (*Plan, error) {
	pub, err := auth.ParseSS58(address)
	if err != nil {
		return nil, badAddress("signer", err)
	}
	rt, err := c.runtime(ctx, "")
	if err != nil {
		return nil, err
	}
	call = current(rt.meta, call)
	body, err := rt.meta.EncodeCall(call.Pallet, call.Name, call.Args)
	if err != nil {
		return nil, fmt.Errorf("call %s.%s: %w", call.Pallet, call.Name, err)
	}
	decoded, err := scale.DecodeAll(rt.meta.CallType, body)
	if err != nil {
		return nil, err
	}
	seq, err := c.Sequence(ctx, address)
	if err != nil {
		return nil, err
	}
	era, birth, err := c.era(ctx)
	if err != nil {
		return nil, err
	}
	birthHash, err := hash32(birth.hash)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	chain := scale.Chain{Genesis: *c.genesis, SpecVersion: rt.spec, Version: rt.tx}
	c.mu.Unlock()
	extra, err := rt.meta.Extra(era, seq.Next, 0)
	if err != nil {
		return nil, err
	}
	additional, err := rt.meta.Additional(chain, birthHash)
	if err != nil {
		return nil, err
	}
	hash := scale.Hash(body)
	p := &Plan{
		Pallet: call.Pallet, Call: call.Name, Signer: auth.EncodeSS58(pub), Nonce: seq.Next, Pending: seq.Pending, Genesis: hexed(chain.Genesis[:]), Spec: rt.spec,
		Bytes: hexed(body), Hash: hexed(hash[:]), Payload: hexed(scale.Payload(body, extra, additional)),
	}
	if !c.cfg.Immortal {
		p.Until = birth.number + eraPeriod(c.cfg.Period)
	}
	if outer, ok := decoded.(scale.Value); ok {
		if inner, ok := outer.Of.(scale.Value); ok {
			p.Args = inner.Of
		}
	}
	if p.Balance, err = c.Balance(ctx, p.Signer); err != nil {
		return nil, err
	}
	raw := (&scale.Extrinsic{Signer: pub, Signature: make([]byte, 64), Extra: extra, Call: body}).Encode()
	p.Length = len(raw)
	p.Fee, err = c.fee(ctx, rt.meta, raw)
	return p, err
}

// fee is what an extrinsic costs, in rao; the signature in it does not matter. 0
// where the runtime has no such question.
func (c *Client) fee(ctx context.Context, m *scale.Metadata, raw []byte) (uint64, error) {
	x, err := m.Method("TransactionPaymentApi", "query_info")
	if errors.Is(err, scale.ErrUnknown) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	in := append(append([]byte{}, raw...), byte(len(raw)), byte(len(raw)>>8), byte(len(raw)>>16), byte(len(raw)>>24))
	var text string
	if err := c.call(ctx, false, &text, "state_call", "TransactionPaymentApi_query_info", hexed(in)); err != nil {
		return 0, fmt.Errorf("ask for the fee: %w", err)
	}
	b, err := unhex(text)
	if err != nil {
		return 0, err
	}
	v, err := scale.DecodeAll(x.Output, b)
	if err != nil {
		return 0, fmt.Errorf("fee: %w: %w", ErrBadState, err)
	}
	info, _ := v.(scale.Map)
	for _, name := range []string{"partial_fee", "partialFee"} {
		if n, ok := info[name].(uint64); ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("fee: %w", ErrBadState)
}

// Do signs a call with the key of address, sends it and waits for it (Submit).
func (c *Client) Do(ctx context.Context, address string, call Call) (*Included, error) {
	return c.Submit(ctx, address, call.Pallet, call.Name, call.Args)
}

// Take is what a hotkey keeps of its stakers' dividends, of 65535.
func (c *Client) Take(ctx context.Context, hotkey string) (uint16, error) {
	at, m, err := c.now(ctx)
	if err != nil {
		return 0, err
	}
	v, err := c.get(ctx, m, at, module, "Delegates", hotkey)
	if err != nil {
		return 0, err
	}
	n, ok := v.(uint64)
	if !ok || n > 65535 {
		return 0, fmt.Errorf("take of %s: %w", hotkey, ErrBadState)
	}
	return uint16(n), nil
}

// TakeCall is the call that makes a hotkey's take what it is told, from what it is.
func TakeCall(hotkey string, from, to uint16) Call {
	name := "increase_take"
	if to < from {
		name = "decrease_take"
	}
	return Call{module, name, scale.Map{"hotkey": hotkey, "take": to}}
}

// Mechanisms are how a subnet's emission is divided: so many mechanisms, each
// with its share of 65535; no shares = equal ones.
type Mechanisms struct {
	Count  uint8    `json:"count"`
	Shares []uint16 `json:"shares,omitempty"`
}

// Mechanisms reads how a subnet's emission is divided. A runtime without
// mechanisms has one.
func (c *Client) Mechanisms(ctx context.Context, netuid uint16) (Mechanisms, error) {
	out := Mechanisms{Count: 1}
	at, m, err := c.now(ctx)
	if err != nil {
		return out, err
	}
	v, err := c.get(ctx, m, at, module, "MechanismCountCurrent", netuid)
	if errors.Is(err, scale.ErrUnknown) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	if n, ok := v.(uint64); ok && n <= 255 {
		out.Count = uint8(n)
	}
	if v, err = c.get(ctx, m, at, module, "MechanismEmissionSplit", netuid); err != nil {
		return out, err
	}
	if x, ok := v.(scale.Value); ok { // an Option
		v = x.Of
	}
	list, _ := v.([]any)
	for _, e := range list {
		n, _ := e.(uint64)
		out.Shares = append(out.Shares, uint16(n))
	}
	return out, nil
}

// SplitCall divides a subnet's emission over its mechanisms; no shares = equal ones.
func SplitCall(netuid uint16, shares []uint16) Call {
	var split any
	if len(shares) > 0 {
		split = scale.Value{Name: "Some", Of: shares}
	}
	return Call{admin, "sudo_set_mechanism_emission_split", scale.Map{"netuid": netuid, "maybe_split": split}}
}

// Calls that operators make besides.
func TransferCall(to string, rao uint64) Call {
	return Call{"Balances", "transfer_keep_alive", scale.Map{"dest": to, "value": rao}}
}

// StakeCall stakes rao, or takes alpha back. A limit above 0 is the worst price in rao an alpha.
func StakeCall(netuid uint16, hotkey string, amount, limit uint64, remove bool) Call {
	name, arg := "add_stake", "amount_staked"
	if remove {
		name, arg = "remove_stake", "amount_unstaked"
	}
	a := scale.Map{"hotkey": hotkey, "netuid": netuid, arg: amount}
	if limit > 0 {
		name += "_limit"
		a["limit_price"], a["allow_partial"] = limit, false
	}
	return Call{module, name, a}
}

// RegisterCall registers a hotkey at the price of the block, or at a limit above 0 at most.
func RegisterCall(netuid uint16, hotkey string, limit uint64) Call {
	a := scale.Map{"netuid": netuid, "hotkey": hotkey}
	if limit > 0 {
		a["limit_price"] = limit
		return Call{module, "register_limit", a}
	}
	return Call{module, "burned_register", a}
}
