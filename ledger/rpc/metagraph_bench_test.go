package rpc

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/ledgertest"
)

// BenchmarkFullMetagraph answers what SDK 10.5's metagraph(lite=False) asks of
// the node: the neurons with weights and bonds, and the selective metagraph, of
// 256 neurons of which 64 weigh all.
func BenchmarkFullMetagraph(b *testing.B) {
	l, s := newServer(b)
	ctx := b.Context()
	all := ledger.Weights{UIDs: []uint16{0}, Values: []uint16{1}}
	for i := 1; i < 256; i++ {
		if _, err := l.Register(ctx, 1, ledgertest.Key(b, fmt.Sprint(i)), ledgertest.Key(b, "cold")); err != nil {
			b.Fatal(err)
		}
		all.UIDs, all.Values = append(all.UIDs, uint16(i)), append(all.Values, uint16(i*251))
	}
	if _, err := l.Step(ctx, 1); err != nil {
		b.Fatal(err)
	}
	for i := 1; i <= 64; i++ {
		if err := l.SetValidator(ctx, 1, ledgertest.Key(b, fmt.Sprint(i)), true, 1e12); err != nil {
			b.Fatal(err)
		}
		if err := l.SetWeights(ctx, 1, ledgertest.Key(b, fmt.Sprint(i)), all); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := l.Step(ctx, 20); err != nil { // an epoch: bonds
		b.Fatal(err)
	}
	call := func(name, args string) int {
		params := []json.RawMessage{json.RawMessage(`"` + name + `"`), json.RawMessage(`"` + args + `"`)}
		v, err := s.methods["state_call"](ctx, params)
		if err != nil {
			b.Fatal(err)
		}
		text, err := json.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		return len(text)
	}
	for b.Loop() {
		if n := call("NeuronInfoRuntimeApi_get_neurons", "0x0100"); n < 64*256*8 {
			b.Fatalf("%d characters", n)
		}
		if n := call("SubnetInfoRuntimeApi_get_metagraph", "0x0100"); n < 256*64 {
			b.Fatalf("%d characters", n)
		}
	}
}
