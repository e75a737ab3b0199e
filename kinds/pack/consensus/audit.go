package consensus

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
)

// Audited is a window as anybody can work it out from the ledger and the stores.
type Audited struct {
	Window int64   `json:"window"`
	Block  uint64  `json:"block"`
	Reads  uint64  `json:"reads_at"` // the block at which pointers are read
	Winner string  `json:"winner,omitempty"`
	Pack   string  `json:"winner_pack_hash,omitempty"`
	Cost   float64 `json:"winner_cost,omitempty"`
	Spread *Spread `json:"winner_spread,omitempty"` // of the cost, when it was frozen
	// Weights are what an honest validator gives after the window.
	Weights []agon.Weight `json:"weights"`
	// Agreed says that whoever has set weights since gives these.
	Agreed   bool         `json:"agreed"`
	Rows     []AuditedRow `json:"rows"`
	Rejected []Rejected   `json:"rejected"`
	Quorum   float64      `json:"quorum"`
	Short    string       `json:"short,omitempty"`
	Filter   Counts       `json:"filter"`
	// Alike are validators whose measured costs are the same to the last bit: at
	// most one of them has played. Under a script they are, and none is listed.
	Alike []Alike `json:"alike"`
}

// Alike are validators with one and the same figures.
type Alike struct {
	Validators []string `json:"validators"`
	Packs      int      `json:"packs"` // whose costs are the same
}

// alikeFrom is how many packs must have the same costs: one may be chance, where
// a pack fails at once.
const alikeFrom = 2

// alike finds the payloads whose costs were copied. Who changes each figure a
// little is not found.
func alike(list []Submission) []Alike {
	by := map[string][]string{}
	packs := map[string]int{}
	for _, s := range list {
		var key strings.Builder
		n := 0
		for _, miner := range slices.Sorted(maps.Keys(s.Payload.Costs)) {
			if c := s.Payload.Costs[miner]; c > 0 {
				fmt.Fprintf(&key, "%s %x;", miner, math.Float64bits(c))
				n++
			}
		}
		if n >= alikeFrom {
			by[key.String()] = append(by[key.String()], s.Hotkey)
			packs[key.String()] = n
		}
	}
	out := []Alike{}
	for _, key := range slices.Sorted(maps.Keys(by)) {
		if v := by[key]; len(v) > 1 {
			slices.Sort(v)
			out = append(out, Alike{v, packs[key]})
		}
	}
	return out
}

// AuditedRow is what a validator has published.
type AuditedRow struct {
	Validator string        `json:"validator"`
	UID       uint16        `json:"uid"`
	Block     uint64        `json:"block"` // of its weights
	Weights   []agon.Weight `json:"weights"`
	// State is "agrees", "differs", or "older": not set since the window's pointers are read.
	State string `json:"state"`
}

// tolerance is by how much a published weight may be off through rounding, of 65535.
const tolerance = 2

// Audit works out the weights of a window (below 0: the newest whose pointers
// are read) on a machine that knows nothing, and compares what stands on the
// ledger. Of c it needs ledger, store and what decides; it writes nothing but a
// directory that it removes.
func Audit(ctx context.Context, c NodeConfig, window int64) (*Audited, error) {
	dir, err := os.MkdirTemp("", "agon-audit-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c.Dir, c.Hotkey = dir, "nobody"
	c.Fetch = func(context.Context, string) ([]byte, error) { return nil, fmt.Errorf("an audit fetches no packs") }
	c.Evaluate = func(context.Context, string, *packfile.Pack) (Evaluation, error) {
		return Evaluation{}, fmt.Errorf("an audit plays nothing")
	}
	n, err := NewNode(c)
	if err != nil {
		return nil, err
	}
	m, err := c.Ledger.Metagraph(ctx, c.Netuid)
	if err != nil {
		return nil, fmt.Errorf("read metagraph: %w", err)
	}
	now := n.cfg.Clock(int64(m.Block))
	newest := now.Number
	if now.Phase != packfile.PhaseAggregation {
		newest--
	}
	if window < 0 {
		window = newest
	}
	if window > newest || window < 0 {
		return nil, &agon.Error{Code: "too_early", Status: 409, Field: "window", Message: fmt.Sprintf("the pointers of window %d are not read yet: the ledger is at block %d, in window %d", window, m.Block, now.Number)}
	}
	if err := n.catchUp(ctx, m, window); err != nil {
		return nil, err
	}
	g, err := n.gather(ctx, m, window)
	if err != nil {
		return nil, err
	}
	out := &Audited{
		Window: window, Block: m.Block, Winner: n.st.Winner, Pack: n.st.WinnerPack, Cost: n.st.WinnerCost, Spread: n.st.Spread, Weights: []agon.Weight{}, Agreed: true, Rows: []AuditedRow{},
		Rejected: g.rejected, Quorum: g.quorum, Short: g.short, Filter: g.filter, Alike: []Alike{},
	}
	if !n.cfg.Unpaid { // a script costs everybody the same
		out.Alike = alike(g.kept)
	}
	out.Reads, _ = n.closes(window, m.Block)
	for _, s := range g.kept {
		if about := Outvoted(s, g.agreed); len(about) > 0 && g.short == "" {
			out.Rejected = append(out.Rejected, Rejected{s.Hotkey, "outvoted about " + strings.Join(about, ", ")})
		}
	}
	slices.SortStableFunc(out.Rejected, func(a, b Rejected) int { return compare(a.Validator, b.Validator) })
	want, ok := n.row(m)
	if ok {
		out.Weights = shown(m, want)
	}
	until := m.Block + 1 // weights that follow a later window are not this one's
	if end, closed := n.closes(window+1, m.Block); closed {
		until = end
	}
	for _, row := range m.Weights {
		if int(row.UID) >= len(m.Neurons) || !m.Neurons[row.UID].Permit {
			continue
		}
		r := AuditedRow{Validator: m.Neurons[row.UID].Hotkey, UID: row.UID, Block: row.Block, Weights: shown(m, ledger.Weights{UIDs: row.UIDs, Values: row.Values}), State: "agrees"}
		switch {
		case row.Block < out.Reads:
			r.State = "older"
		case row.Block >= until:
			r.State = "later"
		case !sameRow(want, row):
			r.State, out.Agreed = "differs", false
		}
		out.Rows = append(out.Rows, r)
	}
	return out, nil
}

// sameRow compares a row with one that the ledger has scaled up.
func sameRow(want ledger.Weights, row ledger.WeightRow) bool {
	top := uint16(0)
	for _, v := range want.Values {
		top = max(top, v)
	}
	due := map[uint16]int{}
	for i, uid := range want.UIDs {
		due[uid] = int(float64(want.Values[i])/float64(top)*65535 + 0.5)
	}
	got := 0
	for i, uid := range row.UIDs {
		if row.Values[i] == 0 {
			continue
		}
		got++
		v, ok := due[uid]
		if d := int(row.Values[i]) - v; !ok || d > tolerance || d < -tolerance {
			return false
		}
	}
	return got == len(due)
}
