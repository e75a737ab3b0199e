package consensus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
)

const (
	// activeWindows is for how many windows after its last pointer a validator is
	// active: its stake is part of what a quorum is of.
	activeWindows = 7
	// maxCatchUp bounds how many past windows are decided again after an absence.
	maxCatchUp = 64
)

// gathered is what validators said of a window.
type gathered struct {
	kept     []Submission
	filter   Counts
	rejected []Rejected
	agreed   map[string]Result
	quorum   float64 // share of the active stake that passed
	short    string  // why nothing may be decided
}

// pointer is a validator's word on the ledger, and when it was given.
type pointer struct {
	at    packfile.Pointer
	block uint64
}

// closes is the first block at which a window's pointers are read; false where
// it has not come yet. Later pointers do not count, so that everybody who reads,
// whenever that is, reads the same.
func (n *Node) closes(window int64, now uint64) (uint64, bool) {
	if n.cfg.LivePointers {
		w := n.cfg.Clock(int64(now))
		return now, w.Number > window || w.Number == window && w.Phase == packfile.PhaseAggregation
	}
	b := sort.Search(int(now)+1, func(i int) bool {
		w := n.cfg.Clock(int64(i))
		return w.Number > window || w.Number == window && w.Phase == packfile.PhaseAggregation
	})
	return uint64(b), b <= int(now)
}

// pointers are those of one validator, oldest first.
func (n *Node) pointers(ctx context.Context, c ledger.Commitment) []pointer {
	list, err := n.cfg.Ledger.History(ctx, n.cfg.Netuid, c.Hotkey, 0)
	if err != nil || len(list) == 0 {
		list = []ledger.Commitment{c} // the ledger remembers no more
	}
	var out []pointer
	for _, x := range list {
		if at, ok := packfile.ParsePointer(text(x)); ok && at.Scoring == Scoring {
			out = append(out, pointer{at, x.Block})
		}
	}
	return out
}

// validators are those that may be heard, with their pointers.
func (n *Node) validators(ctx context.Context, m *ledger.Metagraph) (map[string][]pointer, error) {
	commits, err := n.cfg.Ledger.Commitments(ctx, n.cfg.Netuid)
	if err != nil {
		return nil, fmt.Errorf("read pointers: %w", err)
	}
	out := map[string][]pointer{}
	for _, c := range commits {
		if neuron, ok := m.Neuron(c.Hotkey); ok && neuron.Permit {
			if list := n.pointers(ctx, c); len(list) > 0 {
				out[c.Hotkey] = list
			}
		}
	}
	return out, nil
}

// gather reads what was said of a window before its pointers are read.
func (n *Node) gather(ctx context.Context, m *ledger.Metagraph, window int64) (*gathered, error) {
	end, closed := n.closes(window, m.Block)
	if !closed {
		return nil, fmt.Errorf("window %d: its pointers are not read yet", window)
	}
	all, err := n.validators(ctx, m)
	if err != nil {
		return nil, err
	}
	minStake := n.cfg.MinStake
	if minStake == 0 {
		minStake = MinStake
	}
	g := &gathered{rejected: []Rejected{}}
	active := 0.0
	var list []Submission
	for _, hotkey := range slices.Sorted(maps.Keys(all)) {
		neuron, _ := m.Neuron(hotkey)
		stake := float64(neuron.Stake) / 1e9
		reject := func(format string, args ...any) {
			g.rejected = append(g.rejected, Rejected{hotkey, fmt.Sprintf(format, args...)})
		}
		var first *pointer
		late := uint64(0)
		addresses := map[string]bool{}
		last := int64(-1)
		for _, p := range all[hotkey] {
			if p.block <= end && p.at.Window <= window {
				last = max(last, p.at.Window)
			}
			switch {
			case p.at.Window != window:
			case p.block > end:
				late = p.block
			default:
				if first == nil {
					first = &p
				}
				addresses[p.at.Address] = true
			}
		}
		if last >= 0 && last > window-activeWindows && stake >= minStake {
			active += stake
		}
		if first == nil {
			newest := all[hotkey][len(all[hotkey])-1]
			switch {
			case late > 0:
				reject("its pointer of window %d was committed at block %d, after block %d", window, late, end)
			case newest.at.Window > n.cfg.Clock(int64(m.Block)).Number:
				reject("its pointer is of window %d, which has not come", newest.at.Window)
			default:
				reject("its pointer is of window %d", newest.at.Window)
			}
			continue
		}
		if len(addresses) > 1 {
			reject("equivocates: it pointed to %d payloads of window %d; the first counts", len(addresses), window)
		}
		s, err := n.read(ctx, first.at.Address)
		if err != nil {
			reject("%v", err)
			continue
		}
		s.Hotkey, s.Stake = hotkey, stake
		list = append(list, s)
	}
	var dropped []Rejected
	g.kept, g.filter, dropped = filter(list, Expect{Window: window, Software: n.cfg.Software, MinStake: n.cfg.MinStake})
	g.rejected = append(g.rejected, dropped...)
	sum := 0.0
	for _, s := range g.kept {
		sum += s.Stake
	}
	if active > 0 {
		g.quorum = sum / active
	}
	least := n.cfg.MinValidators
	if least == 0 {
		least = min(2, voters(m, minStake))
	}
	switch {
	case len(g.kept) == 0:
	case active > 0 && !(g.quorum > 0.5):
		g.short = fmt.Sprintf("%.0f %% of the active stake have spoken, more than half must", 100*g.quorum)
	case len(g.kept) < least:
		g.short = fmt.Sprintf("%d validators have spoken, %d must", len(g.kept), least)
	}
	g.agreed = Aggregate(g.kept, least, !n.cfg.PlainMean)
	return g, nil
}

// voters counts who may be heard at all. An owner without stake is not a validator.
func voters(m *ledger.Metagraph, minStake float64) int {
	k := 0
	for _, x := range m.Neurons {
		if x.Permit && x.Stake > 0 && float64(x.Stake)/1e9 >= minStake {
			k++
		}
	}
	return k
}

// catchUp decides the windows that ended while this validator was away, in
// order, as those did who were there: the seat and its frozen cost come from the
// ledger's pointers alone.
func (n *Node) catchUp(ctx context.Context, m *ledger.Metagraph, until int64) error {
	from := max(n.st.Aggregated, n.caught) + 1
	if from > until {
		return nil
	}
	all, err := n.validators(ctx, m)
	if err != nil {
		return err
	}
	windows := map[int64]bool{}
	for _, list := range all {
		for _, p := range list {
			if p.at.Window >= from && p.at.Window <= until {
				windows[p.at.Window] = true
			}
		}
	}
	list := slices.Sorted(maps.Keys(windows))
	for _, w := range list[max(0, len(list)-maxCatchUp):] {
		if _, closed := n.closes(w, m.Block); !closed {
			continue
		}
		if err := n.aggregate(ctx, m, w); err != nil {
			return err
		}
	}
	n.caught = until
	return nil
}
