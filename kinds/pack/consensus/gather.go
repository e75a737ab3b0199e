package consensus

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"

	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
)

const (
	// activeWindows is for how many windows after its last pointer a validator is
	// active: its stake is part of what a quorum is of.
	activeWindows = 7
	// maxCatchUp bounds how many past windows are decided again after an absence. The seat and its
	// frozen cost follow from all of them: a validator that begins later may come to another seat.
	maxCatchUp = 1024
)

// gathered is what validators said of a window.
type gathered struct {
	kept     []Submission
	filter   Counts
	rejected []Rejected
	agreed   map[string]Result
	quorum   float64 // share of the active stake that passed
	spec     int64   // number of the set of scenarios that it is about
	short    string  // why nothing may be decided
	unread   int     // payloads of validators with stake enough that another try may get
}

// pointer is a validator's word on the ledger, and when it was given.
type pointer struct {
	at    packfile.Pointer
	block uint64
	seal  bool // a promise of a payload, not yet where it is
}

// promise is a seal that was seen when it was made.
type promise struct {
	Window  int64  `json:"window"`
	Address string `json:"address"`
	Block   uint64 `json:"block"`
}

// note keeps the first seal of a window that each validator makes, for ledgers that
// remember one commitment only.
func (n *Node) note(m *ledger.Metagraph, commits []ledger.Commitment) {
	if !n.cfg.Sealed {
		return
	}
	for _, c := range commits {
		at, ok := packfile.ParseSeal(text(c))
		neuron, known := m.Neuron(c.Hotkey)
		if !ok || !known || !neuron.Permit || at.Scoring != Scoring || at.Window != n.cfg.Clock(int64(c.Block)).Number || n.cfg.Clock(int64(c.Block)).Shows() {
			continue
		}
		if old, ok := n.st.Promises[c.Hotkey]; ok && old.Window >= at.Window {
			continue
		}
		if n.st.Promises == nil {
			n.st.Promises = map[string]promise{}
		}
		n.st.Promises[c.Hotkey] = promise{at.Window, at.Address, c.Block}
	}
}

// shows is the first block at which sealed payloads of a window may be seen: seals
// count that stood before it.
func (n *Node) shows(window int64, now uint64) uint64 {
	return uint64(sort.Search(int(now)+1, func(i int) bool {
		w := n.cfg.Clock(int64(i))
		return w.Number > window || w.Number == window && w.Shows()
	}))
}

// unsealed says why a payload that was shown does not count; "" where it was
// promised in time, or need not be.
func (n *Node) unsealed(s Submission, seal *pointer, opens uint64) string {
	switch {
	case !n.cfg.Sealed || !s.Intact || s.Payload.Validator != s.Hotkey: // what is not its own is told by the filters
	case seal == nil:
		return fmt.Sprintf("may be copied: it had promised no payload before block %d, when others showed theirs", opens)
	case seal.at.Address != string(s.Sum):
		return fmt.Sprintf("may be copied: its payload is not the one that it promised at block %d", seal.block)
	}
	return ""
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
	var out []pointer
	if err != nil || len(list) == 0 {
		list = []ledger.Commitment{c} // the ledger remembers no more
		if p, ok := n.st.Promises[c.Hotkey]; ok {
			out = append(out, pointer{packfile.Pointer{Protocol: Protocol, Window: p.Window, Scoring: Scoring, Address: p.Address}, p.Block, true})
		}
	}
	for _, x := range list {
		if at, ok := packfile.ParsePointer(text(x)); ok && at.Scoring == Scoring {
			out = append(out, pointer{at, x.Block, false})
		} else if at, ok := packfile.ParseSeal(text(x)); ok && n.cfg.Sealed && at.Scoring == Scoring {
			out = append(out, pointer{at, x.Block, true})
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

// words are what one validator has said, sorted out for one window.
type words struct {
	first, seal         *pointer // to a payload, and its promise
	newest              *pointer // of any window
	late                uint64   // block of a pointer that came after pointers are read; 0: none
	addresses, promised map[string]bool
	last                int64 // the newest window, up to this one, that it pointed in time; -1: none
}

// sortOut reads one validator's pointers, oldest first. Promises count before block
// opens, pointers up to block end.
func sortOut(list []pointer, window int64, opens, end uint64) words {
	d := words{addresses: map[string]bool{}, promised: map[string]bool{}, last: -1}
	for _, p := range list {
		if p.seal {
			if p.at.Window == window && p.block < opens {
				if d.seal == nil {
					d.seal = &p
				}
				d.promised[p.at.Address] = true
			}
			continue
		}
		d.newest = &p
		if p.block <= end && p.at.Window <= window {
			d.last = max(d.last, p.at.Window)
		}
		switch {
		case p.at.Window != window:
		case p.block > end:
			d.late = p.block
		default:
			if d.first == nil {
				d.first = &p
			}
			d.addresses[p.at.Address] = true
		}
	}
	return d
}

// silentFor says why a validator that pointed to no payload of a window in time does not
// count; "": it has said nothing yet.
func (n *Node) silentFor(d words, window int64, now, end uint64) string {
	switch {
	case d.seal != nil:
		return fmt.Sprintf("it promised a payload of window %d at block %d and showed none", window, d.seal.block)
	case d.late > 0:
		return fmt.Sprintf("its pointer of window %d was committed at block %d, after block %d", window, d.late, end)
	case d.newest == nil: // it has only promised, for a later window
		return ""
	case d.newest.at.Window > n.cfg.Clock(int64(now)).Number:
		return fmt.Sprintf("its pointer is of window %d, which has not come", d.newest.at.Window)
	default:
		return fmt.Sprintf("its pointer is of window %d", d.newest.at.Window)
	}
}

// gather reads what was said of a window before its pointers are read.
func (n *Node) gather(ctx context.Context, m *ledger.Metagraph, window int64) (_ *gathered, err error) {
	end, closed := n.closes(window, m.Block)
	if !closed {
		return nil, fmt.Errorf("window %d: its pointers are not read yet", window)
	}
	all := n.said // read once for all windows that are caught up on
	if all == nil {
		if all, err = n.validators(ctx, m); err != nil {
			return nil, err
		}
	}
	minStake := n.minStake()
	g := &gathered{rejected: []Rejected{}}
	active := 0.0
	opens := n.shows(window, m.Block)
	weak := 0 // that have too little stake to be heard
	var heard []spoken
	for _, hotkey := range slices.Sorted(maps.Keys(all)) {
		neuron, _ := m.Neuron(hotkey)
		stake := float64(neuron.Stake) / 1e9
		d := sortOut(all[hotkey], window, opens, end)
		if d.last >= 0 && d.last > window-activeWindows && stake >= minStake {
			active += stake
		}
		switch {
		case d.first != nil && !(stake >= minStake): // nothing of it is read: it costs time and memory, and counts for nothing
			g.rejected = append(g.rejected, Rejected{hotkey, fmt.Sprintf("its stake is %.0f, want %.0f", stake, minStake)})
			weak++
		case d.first != nil:
			heard = append(heard, spoken{d, hotkey, stake})
		default:
			if why := n.silentFor(d, window, m.Block, end); why != "" {
				g.rejected = append(g.rejected, Rejected{hotkey, why})
			}
		}
	}
	var list []Submission
	read, errs := n.readAll(ctx, m.Block, heard, readers, math.MaxInt64)
	for i, d := range heard {
		reject := func(format string, args ...any) {
			g.rejected = append(g.rejected, Rejected{d.hotkey, fmt.Sprintf(format, args...)})
		}
		if len(d.addresses) > 1 {
			reject("equivocates: it pointed to %d payloads of window %d; the first counts", len(d.addresses), window)
		}
		if err := errs[i]; err != nil {
			reject("%v", err)
			if passing(err) {
				g.unread++
			}
			continue
		}
		s := read[i]
		s.Hotkey, s.Stake = d.hotkey, d.stake
		if len(d.promised) > 1 {
			reject("equivocates: it promised %d payloads of window %d; the first counts", len(d.promised), window)
		}
		if why := n.unsealed(s, d.seal, opens); why != "" {
			reject("%s", why)
			g.filter.Sealed++
			continue
		}
		list = append(list, s)
	}
	var dropped []Rejected
	sealed := g.filter.Sealed
	g.kept, g.filter, dropped = filter(list, Expect{Window: window, Software: n.cfg.Software, MinStake: n.cfg.MinStake})
	g.filter.In, g.filter.Sealed, g.filter.Stake = g.filter.In+sealed+weak, sealed, g.filter.Stake+weak
	g.rejected = append(g.rejected, dropped...)
	// Costs of other scenarios are other costs: what is decided is decided about one set.
	spec, one := target(g.kept)
	if one {
		g.kept, dropped = ofSpec(g.kept, spec, &g.filter)
		g.rejected = append(g.rejected, dropped...)
	}
	g.spec = spec
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
	case !one:
		g.short = "no set of scenarios has been played by more than half of the stake"
	case active > 0 && !(g.quorum > 0.5):
		g.short = fmt.Sprintf("%.0f %% of the active stake have spoken, more than half must", 100*g.quorum)
	case len(g.kept) < least:
		g.short = fmt.Sprintf("%d validators have spoken, %d must", len(g.kept), least)
	}
	g.agreed = Aggregate(g.kept, least, !n.cfg.PlainMean)
	return g, nil
}

// minStake is how much stake a validator must have to be heard.
func (n *Node) minStake() float64 {
	if n.cfg.MinStake == 0 {
		return MinStake
	}
	return n.cfg.MinStake
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
			if !p.seal && p.at.Window >= from && p.at.Window <= until {
				windows[p.at.Window] = true
			}
		}
	}
	list := slices.DeleteFunc(slices.Sorted(maps.Keys(windows)), func(w int64) bool {
		_, closed := n.closes(w, m.Block)
		return !closed
	})
	if len(list) > maxCatchUp {
		n.cfg.Log.Warn("only the newest windows are decided again: the seat may be another than that of validators who were there", "windows", len(list), "most", maxCatchUp)
	}
	n.said = all
	defer func() { n.said, n.ahead = nil, nil }()
	for some := range slices.Chunk(list[max(0, len(list)-maxCatchUp):], aheadWindows) {
		n.readAhead(ctx, m, all, some)
		for _, w := range some {
			if err := n.aggregate(ctx, m, w); err != nil {
				return err
			}
		}
	}
	n.caught = until
	return nil
}
