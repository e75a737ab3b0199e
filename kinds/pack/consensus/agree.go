package consensus

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/cost"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
)

// payload is what this validator measured. A window in which it judged nothing
// has none: an empty one would be a vote.
func (n *Node) payload(window int64, list []candidate, seen map[string]Sighting) *Payload {
	p := Payload{
		Protocol: Protocol, Scoring: Scoring, Window: window, Validator: n.cfg.Hotkey, Software: n.cfg.Software, Spec: n.cfg.Spec, Timestamp: n.cfg.Now().Unix(),
		Costs: map[string]float64{}, Qualified: map[string]bool{}, Disqualified: map[string]string{}, Sightings: seen,
	}
	for _, c := range list {
		e, ok := n.st.Evaluations[c.pack.Hash]
		switch {
		case !ok:
		case e.Reason != "":
			p.Disqualified[c.hotkey] = e.Reason
		default:
			p.Costs[c.hotkey], p.Qualified[c.hotkey] = e.Cost, e.Qualified
		}
	}
	if len(p.Costs) == 0 {
		return nil
	}
	return &p
}

// seal promises what this validator measured: the digest of the payload's bytes
// goes on the ledger, the bytes stay here until everybody has promised theirs. They
// are on disk first: a validator that is killed in between shows the same ones.
func (n *Node) seal(ctx context.Context, window int64, list []candidate, seen map[string]Sighting) error {
	if n.st.SealedOf < window {
		p := n.payload(window, list, seen)
		if p == nil {
			return nil
		}
		p.Nonce = rand.Text()
		n.st.Sealed, n.st.SealedOf, n.st.SealedAt = p.Canonical(), window, false
		if err := n.save(); err != nil {
			return err
		}
	}
	text := packfile.Pointer{Protocol: Protocol, Window: window, Scoring: Scoring, Address: string(agon.Sum(n.st.Sealed))}.Seal()
	if _, err := n.cfg.Ledger.Commit(ctx, n.cfg.Netuid, n.cfg.Hotkey, ledger.Raw([]byte(text))); err != nil {
		return fmt.Errorf("commit the promise of a payload: %w", err)
	}
	n.st.SealedAt = true
	return nil
}

// publish stores what this validator measured, or what it has promised to show, and
// points to it.
func (n *Node) publish(ctx context.Context, window int64, list []candidate, seen map[string]Sighting) error {
	var b []byte
	if n.cfg.Sealed {
		if n.st.SealedOf != window || !n.st.SealedAt {
			return nil // nothing was promised: what it shows now would not count
		}
		b = n.st.Sealed
	} else if p := n.payload(window, list, seen); p != nil {
		b = p.Canonical()
	}
	if b == nil {
		return nil
	}
	address, err := n.cfg.Store.Put(ctx, b)
	if err != nil {
		return err
	}
	pointer, err := packfile.Pointer{Protocol: Protocol, Window: window, Scoring: Scoring, Address: address}.Write()
	if err != nil {
		return err
	}
	if _, err := n.cfg.Ledger.Commit(ctx, n.cfg.Netuid, n.cfg.Hotkey, ledger.Raw([]byte(pointer))); err != nil {
		return fmt.Errorf("commit pointer: %w", err)
	}
	n.st.Published, n.status.Published, n.st.Sealed = window, window, nil
	return nil
}

// aggregate decides a window by the payloads that were pointed to before its
// pointers are read. Where nothing passes, or too little stake has spoken,
// everything stays.
func (n *Node) aggregate(ctx context.Context, m *ledger.Metagraph, window int64) error {
	g, err := n.gather(ctx, m, window)
	if err != nil {
		return err
	}
	if w := n.cfg.Clock(int64(m.Block)); g.unread > 0 && !n.cfg.LivePointers && w.Number == window && w.Into < w.Remaining {
		// One that decides without a payload which others could read freezes another cost than they.
		g.short = fmt.Sprintf("%d payloads could not be read; they are asked for again until half of the phase has passed", g.unread)
	}
	n.status.Rejected, n.status.Filter, n.status.Short, n.status.Quorum, n.status.Spec = g.rejected, g.filter, g.short, g.quorum, g.spec
	n.cfg.Log.Info(g.filter.String())
	if len(g.kept) == 0 || g.short != "" {
		if g.short != "" {
			n.cfg.Log.Info("nothing is decided", "window", window, "why", g.short)
		}
		return nil // the winner stays; the next step asks again
	}
	kept, agreed := g.kept, g.agreed
	owner, copies := Owners(kept)
	n.status.Outvoted = []Outvote{}
	for _, s := range kept {
		if about := Outvoted(s, agreed); len(about) > 0 {
			n.status.Outvoted = append(n.status.Outvoted, Outvote{s.Hotkey, about})
			n.cfg.Log.Warn("a validator is outvoted", "validator", s.Hotkey, "miners", about)
		}
	}
	hashOf := map[string]string{}
	for hash, miner := range owner {
		hashOf[miner] = hash
	}
	var contenders []cost.Contender
	for _, name := range slices.Sorted(maps.Keys(agreed)) {
		r := agreed[name]
		neuron, ok := m.Neuron(name)
		if _, copied := copies[name]; copied || !ok || neuron.Permit {
			continue
		}
		contenders = append(contenders, cost.Contender{Key: name, Cost: r.Cost, Qualified: r.Qualified, Block: sighted(kept, name)})
	}
	var holder *cost.Holder
	if n.st.Winner != "" {
		holder = &cost.Holder{Key: n.st.Winner, Cost: n.st.WinnerCost}
		if now, told := hashOf[n.st.Winner]; told && n.st.WinnerPack != "" && now != n.st.WinnerPack {
			// The cost is that of the pack that won. Who has put another in its place stands with that one's.
			holder.Key = ""
		}
	}
	winner, frozen := cost.Protect(contenders, holder)
	if winner != nil {
		if winner.Key != n.st.Winner || frozen != n.st.WinnerCost {
			n.st.Spread = spreadOf(kept, winner.Key, frozen)
		}
		neuron, _ := m.Neuron(winner.Key)
		n.st.Winner, n.st.WinnerCost, n.st.WinnerUID, n.st.WinnerPack = winner.Key, frozen, neuron.UID, hashOf[winner.Key]
	}
	n.st.Aggregated = max(n.st.Aggregated, window)
	n.share(m.Block, agreed, contenders)
	n.status.Winner, n.status.WinnerPack, n.status.Cost, n.status.Spread, n.status.Agreed = n.st.Winner, n.st.WinnerPack, n.st.WinnerCost, n.st.Spread, window
	n.st.WeightsDue = true
	return nil
}

// share counts who is active, and pays more than the winner while few are, where the arena wants that.
func (n *Node) share(block uint64, agreed map[string]Result, list []cost.Contender) {
	for name := range agreed {
		n.st.Seen[name] = block
	}
	for name, at := range n.st.Seen {
		if block > at+n.cfg.Inactive {
			delete(n.st.Seen, name)
		}
	}
	n.status.Active, n.st.Shares = len(n.st.Seen), nil
	if n.cfg.Bootstrap && n.status.Active < cost.BootstrapSize {
		n.st.Shares = cost.PayByCost(slices.DeleteFunc(list, func(c cost.Contender) bool { return !(c.Cost > 0) }), n.st.Winner, n.status.Active)
	}
}

// sighted is the median block at which validators first saw a miner's pack.
func sighted(list []Submission, miner string) uint64 {
	var blocks []uint64
	for _, s := range list {
		if at, ok := s.Payload.Sightings[miner]; ok {
			blocks = append(blocks, at.Block)
		}
	}
	if len(blocks) == 0 {
		return math.MaxInt64
	}
	slices.Sort(blocks)
	return blocks[(len(blocks)-1)/2]
}

// row is what the weights ought to be: the winner has its share and the rest
// burns. Without a winner it is the owner's own row, or everything burns; false
// where there is nobody to give anything to.
func (n *Node) row(m *ledger.Metagraph) (ledger.Weights, bool) {
	burn, hasOwner := m.BurnUID()
	w := ledger.Weights{VersionKey: n.cfg.VersionKey}
	add := func(uid uint16, share float64) {
		if v := uint16(math.Round(share * math.MaxUint16)); v > 0 {
			w.UIDs, w.Values = append(w.UIDs, uid), append(w.Values, v)
		}
	}
	winner, seated := m.Neuron(n.st.Winner)
	switch {
	case n.cfg.Unpaid && hasOwner:
		add(burn, 1)
	case len(n.st.Shares) > 0 && hasOwner:
		burned := n.cfg.Burn
		for _, name := range slices.Sorted(maps.Keys(n.st.Shares)) {
			paid := n.st.Shares[name] * (1 - n.cfg.Burn)
			if neuron, ok := m.Neuron(name); ok && neuron.UID != burn {
				add(neuron.UID, paid)
			} else {
				burned += paid
			}
		}
		add(burn, burned)
	case n.st.Winner != "" && seated && (winner.UID == burn && hasOwner || !hasOwner):
		add(winner.UID, 1)
	case n.st.Winner != "" && seated:
		add(winner.UID, 1-n.cfg.Burn)
		add(burn, n.cfg.Burn)
	case hasOwner:
		for _, row := range m.Weights {
			if row.UID == burn {
				w.UIDs, w.Values = row.UIDs, row.Values
			}
		}
		if len(w.UIDs) == 0 {
			add(burn, 1)
		}
	default:
		return w, false
	}
	return w, true
}

// shown is a row for people.
func shown(m *ledger.Metagraph, w ledger.Weights) []agon.Weight {
	out := []agon.Weight{}
	for i, uid := range w.UIDs {
		if int(uid) < len(m.Neurons) {
			out = append(out, agon.Weight{UID: uid, Hotkey: m.Neurons[uid].Hotkey, Weight: w.Values[i]})
		}
	}
	return out
}

// setWeights puts the row on the ledger.
func (n *Node) setWeights(ctx context.Context, m *ledger.Metagraph) error {
	w, ok := n.row(m)
	if !ok {
		return nil
	}
	if err := n.cfg.Ledger.SetWeights(ctx, n.cfg.Netuid, n.cfg.Hotkey, w); err != nil {
		return fmt.Errorf("set weights: %w", err)
	}
	n.st.WeightsAt, n.st.WeightsDue, n.status.LastWeights = m.Block, false, n.cfg.Now()
	n.status.Weights = shown(m, w)
	return nil
}
