package subtensor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// unknownBlock is a node's code for a block that it does not have.
const unknownBlock = 4001

var _ ledger.Burns = (*Client)(nil)

// Burnable implements ledger.Burns by the stake API.
func (c *Client) Burnable(ctx context.Context, netuid uint16, coldkey, hotkey string) (int64, error) {
	for field, a := range map[string]string{"coldkey": coldkey, "hotkey": hotkey} {
		if _, err := auth.ParseSS58(a); err != nil {
			return 0, badAddress(field, err)
		}
	}
	at, m, err := c.now(ctx)
	if err != nil {
		return 0, err
	}
	api, err := m.Method("StakeInfoRuntimeApi", "get_stake_info_for_hotkey_coldkey_netuid")
	if err != nil {
		return 0, err
	}
	in, err := api.EncodeInputs(hotkey, coldkey, netuid)
	if err != nil {
		return 0, err
	}
	var text string
	if err := c.call(ctx, false, &text, "state_call", "StakeInfoRuntimeApi_get_stake_info_for_hotkey_coldkey_netuid", hexed(in), at.hash); err != nil {
		return 0, err
	}
	b, err := unhex(text)
	if err != nil {
		return 0, err
	}
	v, err := scale.DecodeAll(api.Output, b)
	if err != nil {
		return 0, fmt.Errorf("%w: stake: %w", ErrBadState, err)
	}
	stake, _ := v.(scale.Map) // none: no stake
	return int64(min(values(stake).num("stake"), 1<<62)), nil
}

// Burned implements ledger.Burns: the extrinsic, the events that it left and the
// owner of the hotkey are all read at its block.
func (c *Client) Burned(ctx context.Context, block string, index int, hotkey string) (*ledger.Burn, error) {
	if _, err := auth.ParseSS58(hotkey); err != nil {
		return nil, badAddress("hotkey", err)
	}
	if n, err := strconv.ParseUint(block, 10, 32); err == nil {
		var hash *string // null: no such block yet
		if err := c.call(ctx, false, &hash, "chain_getBlockHash", n); err != nil || hash == nil {
			return nil, err
		}
		block = *hash
	}
	if _, err := hash32(block); err != nil || index < 0 {
		return nil, nil // there is no such block
	}
	var told *struct {
		Block struct {
			Header struct {
				Number string `json:"number"`
			} `json:"header"`
			Extrinsics []string `json:"extrinsics"`
		} `json:"block"`
	}
	var refused *RPCError
	err := c.call(ctx, false, &told, "chain_getBlock", block)
	if errors.As(err, &refused) && (refused.Code == unknownBlock || refused.says("not found", "unknown block")) {
		return nil, nil
	}
	if err != nil || told == nil {
		return nil, err
	}
	if index >= len(told.Block.Extrinsics) {
		return &ledger.Burn{}, nil
	}
	p := point{hash: block}
	if _, err := fmt.Sscanf(told.Block.Header.Number, "0x%x", &p.number); err != nil {
		return nil, fmt.Errorf("%w: block number %q", ErrBadState, told.Block.Header.Number)
	}
	rt, err := c.executor(ctx, p)
	if err != nil {
		return nil, err
	}
	raw, err := unhex(told.Block.Extrinsics[index])
	if err != nil {
		return nil, err
	}
	x, err := rt.meta.ParseExtrinsic(raw)
	if err != nil {
		return &ledger.Burn{}, nil // unsigned
	}
	v, err := scale.DecodeAll(rt.meta.CallType, x.Call)
	if err != nil {
		return &ledger.Burn{}, nil
	}
	pallet, _ := v.(scale.Value)
	call, _ := pallet.Of.(scale.Value)
	out := &ledger.Burn{Call: pallet.Name + "." + call.Name, Signer: auth.EncodeSS58(x.Signer)}
	now, err := c.get(ctx, rt.meta, p, "Timestamp", "Now")
	if err != nil {
		return nil, err
	}
	ms, _ := now.(uint64)
	out.At = time.UnixMilli(int64(min(ms, 1<<53))).UTC()
	owner, err := c.get(ctx, rt.meta, p, "SubtensorModule", "Owner", hotkey)
	if err != nil {
		return nil, err
	}
	if out.Owner, _ = owner.(string); out.Owner == nobody {
		out.Owner = ""
	}
	in, err := c.outcome(ctx, p, scale.Hash(raw), index)
	var failure *ledger.Error
	switch {
	case errors.As(err, &failure):
		out.Failed = true
		return out, nil
	case err != nil:
		return nil, err
	}
	args, _ := call.Of.(scale.Map)
	netuid, _ := args["netuid"].(uint64)
	for _, e := range in.Events {
		if coldkey, of, amount, net, ok := burnOf(e); ok && net == netuid {
			out.Coldkey, out.Hotkey, out.Amount, out.Netuid = coldkey, of, int64(min(amount, 1<<62)), uint16(min(net, 65535))
			break
		}
	}
	return out, nil
}

// nobody is what the chain answers for the owner of a hotkey that has none.
var nobody = auth.EncodeSS58([32]byte{})

// burnOf reads an AlphaBurned or AlphaRecycled event, whose parts have had names in some runtimes.
func burnOf(e Event) (coldkey, hotkey string, amount, netuid uint64, ok bool) {
	if e.Pallet != "SubtensorModule" || e.Name != "AlphaBurned" && e.Name != "AlphaRecycled" {
		return "", "", 0, 0, false
	}
	var of [4]any
	switch data := e.Data.(type) {
	case []any:
		if len(data) < len(of) {
			return "", "", 0, 0, false
		}
		copy(of[:], data)
	case scale.Map:
		for i, names := range [4][]string{{"coldkey", "Coldkey"}, {"hotkey", "Hotkey"}, {"alpha", "amount", "Actual Alpha Decrease"}, {"netuid", "Netuid"}} {
			for _, n := range names {
				if v, found := data[n]; found {
					of[i] = v
				}
			}
		}
	}
	coldkey, _ = of[0].(string)
	hotkey, _ = of[1].(string)
	amount, _ = of[2].(uint64)
	netuid, isNet := of[3].(uint64)
	return coldkey, hotkey, amount, netuid, isNet && coldkey != ""
}
