package wire

import (
	"context"
	"fmt"
	"strings"

	"github.com/agon-arena/agon/ledger"
)

// chain is a ledger that was paid on.
type chain struct {
	have  int64
	burns map[string]*ledger.Burn
	err   error
}

func (c *chain) Burnable(context.Context, uint16, string, string) (int64, error) {
	return c.have, c.err
}

func (c *chain) Burned(_ context.Context, block string, index int, _ string) (*ledger.Burn, error) {
	if c.err != nil {
		return nil, c.err
	}
	b := c.burns[fmt.Sprintf("%s:%d", block, index)]
	if b == nil && strings.HasPrefix(block, "0xempty") {
		return &ledger.Burn{}, nil
	}
	return b, nil
}
