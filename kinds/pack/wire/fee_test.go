package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
)

// paidChain knows extrinsics by block and index.
type paidChain struct {
	ledger.Burns
	of   map[string]ledger.Burn
	down bool
}

func (c *paidChain) Burned(_ context.Context, block string, index int, _ string) (*ledger.Burn, error) {
	if c.down {
		return nil, errors.New("no answer")
	}
	if b, ok := c.of[fmt.Sprintf("%s-%d", block, index)]; ok {
		return &b, nil
	}
	return nil, nil
}

func TestFee(t *testing.T) {
	w := newWorld(t)
	const path, purpose = "/api/v2/miners/submit", "trajectoryrl-miner-submit"
	const fee = 50_000_000_000
	paid := func(edit func(*ledger.Burn)) ledger.Burn {
		b := ledger.Burn{
			At: w.now().Add(-time.Hour), Call: "SubtensorModule.recycle_alpha", Signer: "cold-a", Owner: "cold-a",
			Coldkey: "cold-a", Hotkey: w.ss58('a'), Netuid: 11, Amount: fee,
		}
		edit(&b)
		return b
	}
	chain := &paidChain{of: map[string]ledger.Burn{
		"7-2":  paid(func(*ledger.Burn) {}),
		"7-3":  paid(func(b *ledger.Burn) { b.Call = "SubtensorModule.burn_alpha" }),
		"7-4":  paid(func(b *ledger.Burn) { b.Failed = true }),
		"7-5":  paid(func(b *ledger.Burn) { b.Signer = "cold-b" }),
		"7-6":  paid(func(b *ledger.Burn) { b.Hotkey = w.ss58('b') }),
		"7-7":  paid(func(b *ledger.Burn) { b.Netuid = 12 }),
		"7-8":  paid(func(b *ledger.Burn) { b.Amount = fee - 1 }),
		"7-9":  paid(func(b *ledger.Burn) { b.At = w.now().Add(-25 * time.Hour) }),
		"7-10": {},
		"7-11": paid(func(b *ledger.Burn) { b.At = w.now().Add(time.Hour) }),
		"7-12": paid(func(b *ledger.Burn) { b.Owner = "" }),
		"8-1":  paid(func(b *ledger.Burn) { b.Amount = 2 * fee }),
	}}
	w.cfg.Fee, w.cfg.Chain = fee, chain
	w.open()
	p := packfile.Build(packfile.BuildOptions{Policy: "Answer in five lines and never send mail.", Name: "short"})
	send := func(p *packfile.Pack, block, index any) (int, map[string]any) {
		return w.post('a', path, purpose, map[string]any{"pack_hash": p.Hash, "pack_content": string(p.Canonical), "recycle_block": block, "recycle_extrinsic_index": index})
	}
	const missing = "recycle receipt missing, malformed, or already consumed"
	for _, c := range []struct {
		block, index any
		want         string
	}{
		{nil, nil, missing},
		{7, nil, missing},
		{"7a", 2, missing},
		{-7, 2, missing},
		{7.5, 2, missing},
		{5e9, 2, missing},
		{[]int{7}, 2, missing},
		{6, 1, "there is no block 6"},
		{7, 3, "is SubtensorModule.burn_alpha, want SubtensorModule.recycle_alpha"},
		{7, 4, "failed"},
		{7, 5, "not signed by the coldkey"},
		{7, 6, "of another hotkey"},
		{7, 7, "of subnet 12, want 11"},
		{7, 8, "recycled 49999999999 rao of alpha, an entry costs 50000000000"},
		{7, 9, "older than 24h"},
		{7, 10, "no signed extrinsic 10"},
		{7, 11, "of the future"},
		{7, 12, "nobody owned"},
	} {
		if status, got := send(p, c.block, c.index); status != 400 || !strings.Contains(fmt.Sprint(got["error"]), c.want) || got["success"] != false {
			t.Errorf("%v-%v: %d %v, want %q", c.block, c.index, status, got, c.want)
		}
	}
	// A ledger that does not answer, and a pack that is refused, leave the receipt as it is.
	chain.down = true
	if status, got := send(p, 7, 2); status != 500 {
		t.Errorf("no answer: %d %v", status, got)
	}
	chain.down = false
	bad := packfile.New(packfile.Of(map[string]any{"schema_version": 1, "files": map[string]any{"AGENTS.md": "x"}}))
	if status, got := send(bad, 7, 2); status != 400 || !strings.Contains(fmt.Sprint(got["error"]), "tool_policy") {
		t.Errorf("a refused pack: %d %v", status, got)
	}
	status, got := send(p, "7", "2")
	if status != 200 || got["success"] != true {
		t.Fatalf("paid: %d %v", status, got)
	}
	id := got["submission_id"]

	// It pays once, before and after the wait, over a restart, and without its note.
	other := packfile.Build(packfile.BuildOptions{Policy: "Say what is missing, then stop.", Name: "second"})
	if status, got = send(other, 7, 2); status != 400 || got["error"] != missing {
		t.Errorf("again at once: %d %v", status, got)
	}
	w.skip(cooldown)
	w.open()
	if status, got = send(other, 7, 2); status != 400 || got["error"] != missing {
		t.Errorf("again later: %d %v", status, got)
	}
	must(t, w.cfg.Documents.Remove(feeFile("recycle:7-2")))
	if status, got = send(other, 7, 2); status != 409 || !strings.Contains(fmt.Sprint(got["error"]), "paid for another submission") {
		t.Errorf("again without its note: %d %v", status, got)
	}
	// What is in the arena already costs nothing again.
	if status, got = send(p, 8, 1); status != 200 || got["submission_id"] != id {
		t.Errorf("the same pack: %d %v", status, got)
	}
	if status, got = send(other, 8, 1); status != 200 || got["submission_id"] == id {
		t.Errorf("a second entry: %d %v", status, got)
	}
}
