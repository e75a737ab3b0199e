package subtensor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/scale"
)

// Economy is what a subnet of the chain pays now and what its alpha costs. A
// runtime before alpha pays TAO.
func (c *Client) Economy(ctx context.Context, netuid uint16) (ledger.Economy, error) {
	e := ledger.Economy{Price: 1_000_000_000, BlockTime: 12 * time.Second}
	at, m, err := c.now(ctx)
	if err != nil {
		return e, err
	}
	if v, err := m.Constant("Aura", "SlotDuration"); err == nil {
		if ms := (values{"": v}).num(""); ms > 0 {
			e.BlockTime = time.Duration(ms) * time.Millisecond
		}
	}
	read := func(item string, keys ...any) (uint64, bool, error) {
		v, err := c.get(ctx, m, at, module, item, keys...)
		if errors.Is(err, scale.ErrUnknown) {
			return 0, false, nil
		}
		n, ok := v.(uint64)
		return n, ok, err
	}
	out, alpha, err := read("SubnetAlphaOutEmission", netuid)
	if err != nil {
		return e, err
	}
	if e.AlphaPerBlock = out; !alpha {
		if e.AlphaPerBlock, _, err = read("EmissionValues", netuid); err != nil {
			return e, err
		}
	}
	cut, _, err := read("SubnetOwnerCut")
	if err != nil {
		return e, err
	}
	e.OwnerCut = uint16(min(cut, 65535))
	divided, err := c.Mechanisms(ctx, netuid)
	if err != nil {
		return e, err
	}
	e.Divide(int(divided.Count), divided.Shares)
	if !alpha {
		return e, nil
	}
	e.Price, err = c.price(ctx, m, at, netuid, read)
	return e, err
}

// price is what an alpha costs, in rao: what the runtime says, else what the pool holds.
func (c *Client) price(ctx context.Context, m *scale.Metadata, at point, netuid uint16, read func(string, ...any) (uint64, bool, error)) (uint64, error) {
	x, err := m.Method("SwapRuntimeApi", "current_alpha_price")
	if err == nil {
		in, err := x.EncodeInputs(netuid)
		if err != nil {
			return 0, err
		}
		var text string
		if err := c.call(ctx, false, &text, "state_call", "SwapRuntimeApi_current_alpha_price", hexed(in), at.hash); err != nil {
			return 0, err
		}
		b, err := unhex(text)
		if err != nil {
			return 0, err
		}
		v, err := scale.DecodeAll(x.Output, b)
		if err != nil {
			return 0, fmt.Errorf("%w: price: %w", ErrBadState, err)
		}
		n, _ := v.(uint64)
		return n, nil
	}
	tao, _, err := read("SubnetTAO", netuid)
	if err != nil {
		return 0, err
	}
	alpha, _, err := read("SubnetAlphaIn", netuid)
	if err != nil || alpha == 0 {
		return 1_000_000_000, err
	}
	return uint64(float64(tao) / float64(alpha) * 1e9), nil
}
