package kittest

import (
	"context"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/client"
)

// Subnet is who is registered, by hotkey: the ledger of a wire's test. Every netuid
// has the same.
type Subnet map[string]dialect.Member

// Member implements dialect.Registry.
func (n Subnet) Member(_ context.Context, hotkey string) (dialect.Member, bool, error) {
	m, ok := n[hotkey]
	return m, ok, nil
}

// Registered returns a hotkey's coldkey.
func (n Subnet) Registered(_ context.Context, _ uint16, hotkey string) (string, bool, error) {
	m, ok := n[hotkey]
	return m.Coldkey, ok, nil
}

// IsValidator tells whether a hotkey has a permit.
func (n Subnet) IsValidator(_ context.Context, _ uint16, hotkey string) (bool, error) {
	return n[hotkey].Validator, nil
}

// Metagraph has the members in no order, without stake.
func (n Subnet) Metagraph(context.Context, uint16) (*client.Metagraph, error) {
	g := &client.Metagraph{}
	for _, m := range n {
		g.Neurons = append(g.Neurons, client.Neuron{UID: m.UID, Hotkey: m.Hotkey})
	}
	return g, nil
}
