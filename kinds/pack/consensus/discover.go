package consensus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/ncd"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
)

// candidate is a miner's pack, ready to be played.
type candidate struct {
	hotkey string
	uid    uint16
	block  uint64
	url    string
	pack   *packfile.Pack
}

// preEvalPrefix begins the reason of packs that Admit refused. They are asked
// about again after Reevaluate.
const preEvalPrefix = "pre_eval_rejected:"

// tell passes on what became of a pack.
func (n *Node) tell(c candidate, e Evaluation, stage, detail string) {
	if n.cfg.Told != nil {
		n.cfg.Told(Report{
			Miner: c.hotkey, UID: c.uid, Block: n.status.Block, Window: n.status.Window.Number, Hash: c.pack.Hash, URL: c.url, Evaluation: e, Stage: stage, Detail: detail,
		})
	}
}

// text is a commitment's text.
func text(c ledger.Commitment) string {
	var b []byte
	for _, f := range c.Fields {
		if f.Type == ledger.FieldRaw || f.Type == ledger.FieldBigRaw {
			b = append(b, f.Data...)
		}
	}
	return string(b)
}

// holding is the time for which a hotkey has had a pack committed.
type holding struct {
	hotkey      string
	first, last uint64 // blocks: of its first commitment, and until which it stood
}

// holdings are what a hotkey has committed, by pack. Where the ledger does not tell,
// the present commitment's block makes a miner late, never early.
func (n *Node) holdings(ctx context.Context, c ledger.Commitment, now uint64) map[string]holding {
	list, err := n.cfg.Ledger.History(ctx, n.cfg.Netuid, c.Hotkey, 0)
	if err != nil || len(list) == 0 {
		if c.Block == 0 {
			c.Block = math.MaxInt64
		}
		list = []ledger.Commitment{c}
	}
	out := map[string]holding{}
	for i, x := range list {
		p, ok := packfile.ParseCommitment(text(x))
		if !ok {
			continue
		}
		h, had := out[p.Hash]
		if !had {
			h = holding{hotkey: c.Hotkey, first: x.Block}
		}
		if h.last = now; i+1 < len(list) {
			h.last = list[i+1].Block
		}
		out[p.Hash] = h
	}
	return out
}

// lockWindows is for how many windows a pack stays its first miner's after that miner
// has committed another.
const lockWindows = 7

// owner finds who holds a pack against a hotkey that committed it at a block: the
// miner who had it first, and not too long ago. false: nobody does.
func (n *Node) owner(all map[string][]holding, hash, hotkey string, block, now uint64) (holding, bool) {
	for _, h := range all[hash] {
		if h.hotkey != hotkey && h.first < block && n.cfg.Clock(int64(now)).Number-n.cfg.Clock(int64(h.last)).Number <= lockWindows {
			return h, true
		}
	}
	return holding{}, false
}

// discover reads the miners' commitments, fetches and checks what they point
// to, and drops copies.
func (n *Node) discover(ctx context.Context, m *ledger.Metagraph) ([]candidate, map[string]Sighting, error) {
	commits, err := n.cfg.Ledger.Commitments(ctx, n.cfg.Netuid)
	if err != nil {
		return nil, nil, fmt.Errorf("read commitments: %w", err)
	}
	n.note(m, commits)
	var list []candidate
	seen := map[string]Sighting{}
	n.status.Excluded = []Excluded{}
	exclude := func(hotkey, format string, args ...any) {
		n.status.Excluded = append(n.status.Excluded, Excluded{Miner: hotkey, Reason: fmt.Sprintf(format, args...)})
	}
	type found struct {
		had    map[string]holding
		c      ledger.Commitment
		neuron ledger.Neuron
		at     packfile.Commitment
	}
	var all []found
	for _, c := range commits {
		neuron, ok := m.Neuron(c.Hotkey)
		if !ok || neuron.Permit || slices.Contains(n.cfg.Blacklist, neuron.Coldkey) {
			continue // validators point to payloads; nobody plays for them
		}
		if at, ok := packfile.ParseCommitment(text(c)); ok {
			all = append(all, found{n.holdings(ctx, c, m.Block), c, neuron, at})
		}
	}
	held := map[string][]holding{}
	for _, f := range all {
		for hash, h := range f.had {
			if hash != f.at.Hash { // of those that stand now the earliest wins, below
				held[hash] = append(held[hash], h)
			}
		}
	}
	places := make([]packfile.Commitment, len(all))
	for i, f := range all {
		places[i] = f.at
	}
	packs, errs := n.fetchAll(ctx, m.Block, places)
	for i, f := range all {
		c, neuron, at, p := f.c, f.neuron, f.at, packs[i]
		switch err := errs[i]; {
		case errors.Is(err, errNotAsked):
			continue
		case err != nil:
			exclude(c.Hotkey, "pack_fetch: %v", err)
			continue
		}
		if issues := p.Issues(n.cfg.Schema); len(issues) > 0 {
			exclude(c.Hotkey, "schema_validation: %s", issues[0])
			continue
		}
		block := c.Block
		if h, ok := f.had[at.Hash]; ok {
			block = h.first
		}
		if h, ok := n.owner(held, at.Hash, c.Hotkey, block, m.Block); ok {
			n.status.Excluded = append(n.status.Excluded, Excluded{Miner: c.Hotkey, Of: h.hotkey, Similarity: 1, Reason: fmt.Sprintf("pack_owned: another miner committed it first, at block %d", h.first)})
			continue
		}
		seen[c.Hotkey] = Sighting{at.Hash, block}
		list = append(list, candidate{c.Hotkey, neuron.UID, block, at.URL, p})
	}
	return n.unique(list), seen, nil
}

// Bounds of fetching. A server that does not answer holds up nobody but itself,
// and is asked again later each time.
const (
	fetchers    = 256
	fetchTime   = 30 * time.Second // for one pack, or one payload
	firstSilent = 25               // blocks until a URL that failed is asked again: five minutes
	mostSilent  = 400              // at the most, after further failures
)

// silence is an address that gave nothing.
type silence struct {
	err   error
	until uint64 // the block from which it is asked again
	after uint64
}

// silences remembers which addresses gave nothing.
type silences[K comparable] map[K]silence

// mute is why an address is not asked at a block; nil: it is asked.
func (s silences[K]) mute(at K, block uint64) error {
	if x, ok := s[at]; ok && block < x.until {
		return x.err
	}
	return nil
}

// failed notes a failure: the address is asked again after first blocks, later twice
// as many, never more than most.
func (s silences[K]) failed(at K, err error, block, first, most uint64) {
	if len(s) > 10_000 {
		clear(s)
	}
	after := first
	if old, ok := s[at]; ok {
		after = min(2*old.after, most)
	}
	s[at] = silence{err, block + after, after}
}

// errNotAsked says that a pack is not here and was not asked for.
var errNotAsked = errors.New("not asked")

// fetchAll gets what commitments name, many at once. While payloads are read nothing is
// played, so no server is asked: a step waits for one sort of them at most.
func (n *Node) fetchAll(ctx context.Context, block uint64, list []packfile.Commitment) ([]*packfile.Pack, []error) {
	packs, errs := make([]*packfile.Pack, len(list)), make([]error, len(list))
	asked := make([]bool, len(list))
	get := newCrowd(ctx, fetchers)
	reads := n.cfg.Clock(int64(block)).Phase == packfile.PhaseAggregation
	for i, at := range list {
		if p, ok := n.packs[at.Hash]; ok {
			packs[i] = p
			continue
		}
		if errs[i] = n.silent.mute(at, block); errs[i] != nil {
			continue
		}
		if reads {
			errs[i] = errNotAsked
			continue
		}
		asked[i] = true
		get.ask(func(ctx context.Context) { packs[i], errs[i] = n.fetch(ctx, at) })
	}
	get.Wait()
	if len(n.packs)+len(list) > 10_000 {
		clear(n.packs)
	}
	for i, at := range list {
		switch {
		case errs[i] == nil:
			n.packs[at.Hash] = packs[i]
			delete(n.silent, at)
		case asked[i] && ctx.Err() == nil:
			n.silent.failed(at, errs[i], block, firstSilent, mostSilent)
		}
	}
	return packs, errs
}

func (n *Node) fetch(ctx context.Context, at packfile.Commitment) (*packfile.Pack, error) {
	b, err := n.cfg.Fetch(ctx, at.URL)
	if err != nil {
		return nil, err
	}
	p, err := packfile.Read(b)
	if err != nil {
		return nil, err
	}
	if p.Hash != at.Hash {
		return nil, fmt.Errorf("the pack has hash %s, not the one that was committed", p.Hash)
	}
	return p, nil
}

// unique drops copies, and what may not be played at all.
func (n *Node) unique(list []candidate) []candidate {
	entries := make([]ncd.Entry, len(list))
	for i, c := range list {
		t, ok := c.pack.Policy()
		entries[i] = ncd.Entry{Key: c.hotkey, Hash: c.pack.Hash, Block: c.block, Text: t, Bare: !ok}
	}
	k := ncd.NewComparer()
	defer k.Close()
	copies := k.Exclude(entries, ncd.NCDThreshold)
	whys := n.nearer(list, copies)
	var out []candidate
	for _, c := range list {
		if x, ok := copies[c.hotkey]; ok {
			why := whys[c.hotkey]
			if why == "" {
				why = fmt.Sprintf("NCD: policy too similar to earlier commitment (original hotkey %.8s…)", x.Of)
			}
			n.status.Excluded = append(n.status.Excluded, Excluded{c.hotkey, why, x.Similarity, x.Of})
			if key := [2]string{c.hotkey, c.pack.Hash}; !n.told[key] {
				if len(n.told) > 10_000 {
					clear(n.told)
				}
				n.told[key] = true
				n.tell(c, Evaluation{}, "integrity_check", why)
			}
			continue
		}
		out = append(out, c)
	}
	n.status.Packs = len(out)
	return out
}

// nearer adds to copies those that only Near sees, and says of each why.
func (n *Node) nearer(list []candidate, copies map[string]ncd.Copy) map[string]string {
	if n.cfg.Near == nil {
		return nil
	}
	order := slices.Clone(list)
	slices.SortStableFunc(order, func(a, b candidate) int { return cmp.Compare(a.block, b.block) })
	if len(n.near)+len(list)*len(list)/2 > 1_000_000 {
		clear(n.near)
	}
	whys := map[string]string{}
	var kept []candidate
next:
	for _, c := range order {
		if _, copied := copies[c.hotkey]; copied {
			continue
		}
		for _, old := range kept {
			key := [2]string{old.pack.Hash, c.pack.Hash}
			why, ok := n.near[key]
			if !ok {
				why = n.cfg.Near(old.pack, c.pack)
				n.near[key] = why
			}
			if why != "" {
				copies[c.hotkey], whys[c.hotkey] = ncd.Copy{Of: old.hotkey}, why
				continue next
			}
		}
		kept = append(kept, c)
	}
	return whys
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// retryAfter is how many blocks a pack waits after it could not be played: five minutes.
const retryAfter = 25

// evaluate plays what is new or due again. What a provider spoils keeps the
// evaluation it had, and failures are never remembered as evaluations: nobody
// is kept out because a provider was.
func (n *Node) evaluate(ctx context.Context, block uint64, list []candidate) error {
	tried, good, spoilt := 0, 0, 0
	var last error
	now := n.cfg.Now().Unix()
	n.status.Judged = 0
	for _, c := range list {
		old, ok := n.st.Evaluations[c.pack.Hash]
		cached := n.cfg.CacheTTL > 0 && !strings.HasPrefix(old.Reason, preEvalPrefix)
		if ok && (block < old.Block+n.cfg.Reevaluate || cached && now-old.At < int64(n.cfg.CacheTTL/time.Second)) || block < n.retry[c.pack.Hash] {
			if ok {
				n.status.Judged++
			}
			continue
		}
		if n.cfg.Admit != nil {
			if why := n.cfg.Admit(ctx, c.hotkey, c.pack.Hash, c.url); why != "" {
				n.st.Evaluations[c.pack.Hash] = Evaluation{Reason: preEvalPrefix + why, Block: block, At: now}
				n.status.Judged++
				stage := "pack_fetch"
				if why == "hardcoded" {
					stage = "integrity_check"
				}
				n.tell(c, Evaluation{}, stage, "pre-eval rejected: "+why)
				continue
			}
		}
		if n.cfg.Exclude != nil {
			if why := n.cfg.Exclude(c.pack); why != "" {
				n.st.Evaluations[c.pack.Hash] = Evaluation{Reason: why, Block: block, At: now}
				n.status.Judged++
				n.tell(c, Evaluation{}, "integrity_check", why)
				continue
			}
		}
		tried++
		e, err := n.cfg.Evaluate(ctx, c.hotkey, c.pack)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			last = err
			n.retry[c.pack.Hash] = block + retryAfter
			if errors.Is(err, ErrProvider) {
				spoilt++
			}
			n.cfg.Log.Warn("evaluating a pack", "pack", c.pack.Hash, "err", err)
			continue
		}
		good++
		n.status.LastEval = n.cfg.Now()
		e.Block, e.At = block, now
		n.st.Evaluations[c.pack.Hash] = e
		if e.Reason == "" {
			n.tell(c, e, "", "")
		} else {
			n.tell(c, e, "integrity_check", e.Reason)
		}
		delete(n.retry, c.pack.Hash)
		n.status.Judged++
	}
	switch {
	case good > 0:
		n.status.Fault, n.status.Reason = "", ""
	case tried == 0: // nothing new is known
	case spoilt > 0:
		n.status.Fault, n.status.Reason = agon.FaultProvider, last.Error()
	default:
		n.status.Fault, n.status.Reason = agon.FaultValidator, last.Error()
	}
	return nil
}

// disqualified lists those whose pack was looked at and may not take part.
func (n *Node) disqualified(list []candidate) {
	for _, c := range list {
		if e, ok := n.st.Evaluations[c.pack.Hash]; ok && e.Reason != "" {
			n.status.Excluded = append(n.status.Excluded, Excluded{Miner: c.hotkey, Reason: e.Reason})
		}
	}
	slices.SortFunc(n.status.Excluded, func(a, b Excluded) int { return compare(a.Miner, b.Miner) })
}
