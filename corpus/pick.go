package corpus

import (
	"bytes"
	"cmp"
	"container/heap"
	"fmt"
	"math"
	"slices"

	"github.com/agon-arena/agon"
)

// byWeight is a heap of candidates, the heaviest on top; of two that weigh the
// same, the one with the smaller id.
type byWeight []weighed

type weighed struct {
	now float64 // its weight when it was last looked at; it only falls
	i   int     // in the mixer's list
	id  [16]byte
}

func (h byWeight) Len() int { return len(h) }

func (h byWeight) Less(a, b int) bool {
	return h[a].now > h[b].now || h[a].now == h[b].now && bytes.Compare(h[a].id[:], h[b].id[:]) < 0
}
func (h byWeight) Swap(a, b int) { h[a], h[b] = h[b], h[a] }
func (h *byWeight) Push(x any)   { *h = append(*h, x.(weighed)) } //nolint:forcetypeassert // of package heap only
func (h *byWeight) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// choose takes rows until there are as many as asked. A share of the mix depends
// on how large the mix is: where caps leave fewer rows than were counted with, it
// is chosen again for so many.
func (m *mixer) choose() ([]candidate, error) {
	n := len(m.list)
	if m.cfg.Rows > 0 {
		n = min(n, m.cfg.Rows)
	}
	for {
		perKey := n
		if m.cfg.MaxShare < 1 {
			perKey = int(m.cfg.MaxShare * float64(n))
		}
		if m.cfg.PerColdkey > 0 {
			perKey = min(perKey, m.cfg.PerColdkey)
		}
		taken, left := m.pick(n, perKey)
		if len(taken) == 0 {
			mend := "the licence, opt-in and caps that you asked for leave none; agon corpus stats says what there is"
			if m.b.report.Rejected[RejectScripted] > 0 {
				mend = "the stand-in script made the rows, and they are left out: with --scripted they are taken, to try it"
			}
			if s := m.cfg.MaxShare; s < 1 && len(m.list) > 0 {
				mend = fmt.Sprintf("one coldkey may have %g of the mix: that takes rows of %d coldkeys at least; agon corpus stats says what there is", s, int(math.Ceil(1/s)))
			}
			return nil, &agon.Error{Code: "nothing_left", Status: 422, Field: "dir", Message: "no row is left", Mend: mend}
		}
		if len(taken) == n || m.cfg.MaxShare == 1 || m.fair(taken) {
			for why, k := range left {
				m.b.report.Rejected[why] += k
			}
			return taken, nil
		}
		n = len(taken)
	}
}

// fair reports that no coldkey has more than its share of the rows.
func (m *mixer) fair(taken []candidate) bool {
	of := map[name]int{}
	for _, c := range taken {
		if of[c.payer]++; float64(of[c.payer]) > m.cfg.MaxShare*float64(len(taken)) && m.b.names.all[c.payer] != "" {
			return false
		}
	}
	return true
}

// pick takes n rows at most, always the one that weighs most beside those taken
// before, and counts why others were not. A row nobody is credited for is not capped.
func (m *mixer) pick(n, perKey int) (taken []candidate, left map[string]int) {
	left = map[string]int{}
	h := make(byWeight, len(m.list))
	for i, c := range m.list {
		h[i] = weighed{c.weight, i, c.id}
	}
	heap.Init(&h)
	clusters, shapes, miners, payers := map[name]int{}, map[name]int{}, map[name]int{}, map[name]int{}
	for len(h) > 0 && len(taken) < n {
		top := h[0]
		c := m.list[top.i]
		now := c.weight * math.Pow(float64(1+clusters[c.cluster])*float64(1+shapes[c.shape]), -*m.cfg.Diversity/2)
		if now < top.now {
			h[0].now = now
			heap.Fix(&h, 0)
			continue
		}
		heap.Pop(&h)
		switch {
		case m.cfg.PerMiner > 0 && m.b.names.all[c.miner] != "" && miners[c.miner] >= m.cfg.PerMiner:
			left[RejectMinerCap]++
			continue
		case m.b.names.all[c.payer] != "" && payers[c.payer] >= perKey:
			left[RejectColdkeyCap]++
			continue
		}
		clusters[c.cluster]++
		shapes[c.shape]++
		miners[c.miner]++
		payers[c.payer]++
		c.weight = now
		taken = append(taken, c)
	}
	if len(h) > 0 {
		left[RejectNotNeeded] = len(h)
	}
	// Clusters stand together in a corpus, their best rows first.
	slices.SortFunc(taken, func(x, y candidate) int {
		return cmp.Or(cmp.Compare(m.b.names.all[x.cluster], m.b.names.all[y.cluster]), -boolCmp(x.solved, y.solved), -boolCmp(x.agentic, y.agentic), bytes.Compare(x.id[:], y.id[:]))
	})
	return taken, left
}
