package consensus

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/pack/packfile"
)

// What was played is not played again for a week, unless other scenarios or
// another judge are in force; what a provider spoilt is tried again at once.
func TestEvaluationsAreCached(t *testing.T) {
	w := newWorld(t, 40_000)
	tasks := "six scenarios"
	w.conf = func(c *NodeConfig) { c.CacheTTL, c.Tasks = 0, tasks }
	played := 0
	w.eval[0] = func(p *packfile.Pack) (Evaluation, error) {
		played++
		return Evaluation{Cost: w.costs[p.Hash], Qualified: true}, nil
	}
	w.start(0)
	w.to(5)
	w.commit(0, policyA, 1)
	step := func(window uint64, want int, what string) {
		t.Helper()
		w.window(window, 0)
		if played != want {
			t.Errorf("%s: played %d times, want %d", what, played, want)
		}
	}
	step(0, 1, "new")
	w.now = w.now.Add(6 * 24 * time.Hour)
	step(3, 1, "six days and three windows later")
	w.start(0)
	step(4, 1, "after a restart")
	w.now = w.now.Add(25 * time.Hour)
	step(5, 2, "after a week")
	step(6, 2, "and then not for a week")
	tasks = "seven scenarios"
	w.start(0)
	step(7, 3, "with other scenarios")

	// A whole cycle that fails leaves nothing in the cache.
	ok := w.eval[0]
	w.now = w.now.Add(8 * 24 * time.Hour)
	w.eval[0] = func(*packfile.Pack) (Evaluation, error) { return Evaluation{}, fmt.Errorf("%w: 402", ErrProvider) }
	step(9, 3, "spoilt")
	w.agree(w.miners[0], 0)
	w.eval[0] = ok
	step(10, 4, "after the provider was paid")
}

// While few are active the three cheapest are paid; who is in no payload any
// more is not active, and is again when it is.
func TestBootstrap(t *testing.T) {
	w := newWorld(t, 40_000)
	w.conf = func(c *NodeConfig) { c.Bootstrap, c.Burn, c.Inactive = true, 0, 150 }
	w.start(0)
	w.to(5)
	for i, cost := range []float64{3, 1, 2, 4} {
		w.commit(i, fmt.Sprintf("%s %d %s", []string{policyA, policyB, "Answer from what the tools say.", "Ask first, then act; and never twice."}[i], i, []string{"", "", "", "Be brief."}[i]), cost)
	}
	w.window(0, 0)
	paid := func(want ...uint16) {
		t.Helper()
		m, err := w.l.Metagraph(t.Context(), testNet)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]uint16{}
		for _, row := range m.Weights {
			for i, uid := range row.UIDs {
				got[m.Neurons[uid].Hotkey] = row.Values[i]
			}
		}
		for i, v := range want {
			if got[w.miners[i]] != v {
				t.Errorf("miner %d is paid %d, want %d", i, got[w.miners[i]], v)
			}
		}
	}
	// 10, 70, 20 per cent and nothing, as the ledger scales them: the largest is 65535.
	paid(9363, 65535, 18724, 0)
	if s := w.nodes[0].Status(); s.Active != 4 {
		t.Errorf("active %d", s.Active)
	}
	gone := w.urls
	w.urls = map[string][]byte{}
	for url, b := range gone {
		if p, err := packfile.Read(b); err == nil && w.costs[p.Hash] != 1 {
			w.urls[url] = b
		}
	}
	w.start(0) // it has forgotten what the addresses held
	w.window(2, 0)
	paid(18724, 0, 65535, 9363)
	if s := w.nodes[0].Status(); s.Active != 3 {
		t.Errorf("active %d", s.Active)
	}
	w.urls = gone
	w.start(0)
	w.window(4, 0)
	paid(9363, 65535, 18724, 0)
}

// What another refuses is not played and is told, until it is let in; copies
// are told once.
func TestAdmitAndTold(t *testing.T) {
	w := newWorld(t, 40_000)
	refuse := map[string]string{}
	var told []Report
	w.conf = func(c *NodeConfig) {
		c.CacheTTL = 0
		c.Admit = func(_ context.Context, _, hash, _ string) string { return refuse[hash] }
		c.Told = func(r Report) { told = append(told, r) }
	}
	played := 0
	w.eval[0] = func(p *packfile.Pack) (Evaluation, error) {
		played++
		return Evaluation{Cost: w.costs[p.Hash], Qualified: true}, nil
	}
	w.start(0)
	w.to(5)
	a := w.commit(0, policyA, 1)
	w.to(6)
	w.commit(1, policyA+" Be brief.", 0.1)
	b := w.commit(2, policyB, 2)
	refuse[a.Hash] = "hardcoded"
	w.window(0, 0)
	w.agree(w.miners[2], 0)
	by := map[string][]Report{}
	for _, r := range told {
		by[r.Miner] = append(by[r.Miner], r)
	}
	if r := by[w.miners[0]]; len(r) != 1 || r[0].Stage != "integrity_check" || r[0].Detail != "pre-eval rejected: hardcoded" || r[0].Hash != a.Hash {
		t.Errorf("refused: %+v", r)
	}
	if r := by[w.miners[1]]; len(r) != 1 || r[0].Stage != "integrity_check" || !strings.HasPrefix(r[0].Detail, "NCD: ") {
		t.Errorf("a copy: %+v", r)
	}
	if r := by[w.miners[2]]; len(r) != 1 || r[0].Stage != "" || !r[0].Evaluation.Qualified || r[0].Hash != b.Hash || r[0].URL == "" {
		t.Errorf("played: %+v", r)
	}
	if x := w.nodes[0].Status().Excluded; len(x) != 2 || played != 1 {
		t.Errorf("excluded %+v, played %d times", x, played)
	}
	delete(refuse, a.Hash)
	w.window(2, 0)
	w.agree(w.miners[0], 0)
	if played != 2 {
		t.Errorf("played %d times", played)
	}
}
