package api_test

import (
	"context"
	"strings"

	"github.com/agon-arena/agon/client"
)

// hostileLedger knows two miners and four validators, of which the last belongs
// to the first's coldkey.
type hostileLedger map[string]string // hotkey: coldkey

func (l hostileLedger) Registered(_ context.Context, _ uint16, hk string) (string, bool, error) {
	c, ok := l[hk]
	return strings.TrimPrefix(c, "v:"), ok, nil
}

func (l hostileLedger) IsValidator(_ context.Context, _ uint16, hk string) (bool, error) {
	return strings.HasPrefix(l[hk], "v:"), nil
}

func (hostileLedger) Metagraph(context.Context, uint16) (*client.Metagraph, error) {
	return &client.Metagraph{Netuid: 1}, nil
}

func (hostileLedger) Fund(context.Context, client.FundRequest) (*client.Balance, error) {
	return nil, nil
}

func (hostileLedger) Register(context.Context, uint16, string, client.RegisterRequest) (uint16, error) {
	return 0, nil
}

func (hostileLedger) SetWeights(context.Context, uint16, string, client.SetWeightsRequest) error {
	return nil
}
