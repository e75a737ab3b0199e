package ledger

import "testing"

// Vectors of the chain's own SDK, and blocks at the edges of an epoch.
func TestRevealBlock(t *testing.T) {
	for _, x := range []struct {
		name               string
		model              Model
		netuid, tempo      uint16
		last, pending, cur uint64
		index, since       uint64
		period             uint64
		block, epoch       uint64
		bad                bool
	}{
		{name: "next epoch", last: 10, tempo: 50, cur: 10, since: 10, period: 1, block: 60},
		{name: "put off", last: 80, pending: 95, tempo: 20, cur: 91, since: 80, period: 1, block: 95},
		{name: "middle", last: 100, tempo: 50, cur: 120, since: 100, period: 1, block: 150, epoch: 0},
		{name: "no tempo", last: 10, cur: 10, period: 1, bad: true},
		{name: "the commit's block begins an epoch", last: 10, tempo: 50, cur: 59, since: 10, period: 1, block: 110, epoch: 1},
		{name: "three epochs", last: 10, tempo: 50, cur: 10, since: 10, period: 3, block: 160},
		{name: "index counts on", last: 10, tempo: 50, cur: 20, since: 10, index: 7, period: 2, block: 110, epoch: 7},
		{name: "an endless period", last: 10, tempo: 50, cur: 20, period: 1 << 40, bad: true},
		// (block + netuid + 1) / (tempo + 1): block 101 of subnet 3 is in epoch 1 of 100 blocks, which epoch 2 follows at 196.
		{name: "modulo", model: Modulo, netuid: 3, tempo: 99, cur: 100, period: 1, block: 196, epoch: 1},
		{name: "modulo, last block", model: Modulo, netuid: 3, tempo: 99, cur: 194, period: 1, block: 196, epoch: 1},
		{name: "modulo, first block", model: Modulo, netuid: 3, tempo: 99, cur: 195, period: 1, block: 296, epoch: 2},
	} {
		m := &Metagraph{Netuid: x.netuid, Block: x.cur, Epoch: Epoch{LastBlock: x.last, PendingAt: x.pending, Index: x.index, Since: x.since}}
		m.Hyper.Model, m.Hyper.Tempo, m.Hyper.RevealPeriod = x.model, x.tempo, x.period
		if x.model == "" {
			m.Hyper.Model = Dynamic
		}
		block, epoch, err := m.RevealBlock()
		if block != x.block || epoch != x.epoch || (err != nil) != x.bad {
			t.Errorf("%s: block %d, epoch %d, %v; want %d, %d", x.name, block, epoch, err, x.block, x.epoch)
		}
	}
}
