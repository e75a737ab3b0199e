package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/copycat"
	"github.com/agon-arena/agon/incentive"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/pack"
)

// ErrProvider is wrapped by an evaluation that a model's provider spoilt.
var ErrProvider = errors.New("the provider failed")

// Evaluation is what a validator made of a pack.
type Evaluation struct {
	Cost      float64 `json:"cost"` // dollars an episode, over those played
	Qualified bool    `json:"qualified"`
	// Reason is set where the pack may not take part at all.
	Reason string `json:"reason,omitempty"`
	Block  uint64 `json:"block"` // when
}

// NodeConfig is what a validator without a platform is made of. Ledger, Store,
// Fetch, Evaluate, Hotkey and Dir are needed.
type NodeConfig struct {
	Ledger ledger.Ledger // signs with Hotkey's key
	Netuid uint16
	Hotkey string
	Store  Store
	// Fetch reads what a miner's URL names.
	Fetch func(ctx context.Context, url string) ([]byte, error)
	// Evaluate plays a pack. An error says that it could not: ErrProvider where
	// the provider is to blame. It is never the miner's.
	Evaluate func(ctx context.Context, hotkey string, p *pack.Pack) (Evaluation, error)
	// Exclude says why a pack may not be played at all; "" lets it.
	Exclude func(p *pack.Pack) string

	Window        pack.WindowRule
	Software      string  // version of scenarios and harness, for payloads
	Dir           string  // state
	MinStake      float64 // alpha; 0 means MinStake
	MinValidators int     // that must agree; 0 means 2, or all where there are fewer
	PlainMean     bool    // costs are averaged without trimming, as others of such arenas do
	Burn          float64 // share of the reward that is burned; the arena's default is 0.5
	Reevaluate    uint64  // blocks after which a pack is played again; 0: a window
	WeightsEvery  uint64  // blocks after which weights are set again; 0: 360
	Blacklist     []string
	Now           func() time.Time
	Log           *slog.Logger
}

// state is what a node must not forget. It is written whole after each step.
type state struct {
	Scoring     int64                 `json:"scoring_version"`
	Winner      string                `json:"winner_hotkey,omitempty"`
	WinnerPack  string                `json:"winner_pack_hash,omitempty"`
	WinnerCost  float64               `json:"winner_cost,omitempty"`
	WinnerUID   uint16                `json:"winner_uid,omitempty"`
	Evaluations map[string]Evaluation `json:"evaluations"` // by pack hash
	Published   int64                 `json:"published_window"`
	Aggregated  int64                 `json:"aggregated_window"`
	WeightsAt   uint64                `json:"weights_at"`
	WeightsDue  bool                  `json:"weights_due"` // what was decided does not stand on the ledger yet
}

// Status is what a node last saw and did, for people.
type Status struct {
	Hotkey   string        `json:"hotkey"`
	Block    uint64        `json:"block"`
	Window   pack.Window   `json:"window"`
	Packs    int           `json:"packs"` // of this window that may be played
	Judged   int           `json:"judged"`
	Fault    agon.Fault    `json:"fault"` // why nothing was judged in this window, if it was not the packs'
	Reason   string        `json:"reason,omitempty"`
	Excluded []Excluded    `json:"excluded"`
	Filter   Counts        `json:"filter"`
	Rejected []Rejected    `json:"rejected"` // pointers that led to no payload that counts
	Outvoted []Outvote     `json:"outvoted"`
	Winner   string        `json:"winner,omitempty"`
	Cost     float64       `json:"winner_cost,omitempty"`
	Weights  []agon.Weight `json:"weights"`
	Agreed   int64         `json:"agreed_window"` // of the last aggregation; -1: none yet
}

// Excluded is a miner whose pack is not played.
type Excluded struct {
	Miner      string  `json:"miner"`
	Reason     string  `json:"reason"`
	Similarity float64 `json:"similarity,omitempty"`
}

// Rejected is a validator whose payload does not count.
type Rejected struct {
	Validator string `json:"validator"`
	Reason    string `json:"reason"`
}

// Outvote is a validator that said something else than the rest.
type Outvote struct {
	Validator string   `json:"validator"`
	Miners    []string `json:"miners"`
}

// Node is one validator without a platform. One goroutine calls Step.
type Node struct {
	cfg     NodeConfig
	st      state
	status  Status
	started bool
	packs   map[string]*pack.Pack // by hash: content that was checked
	retry   map[string]uint64     // by hash: the block from which it is tried again
}

// NewNode reads the state that an earlier process left.
func NewNode(c NodeConfig) (*Node, error) {
	if c.Ledger == nil || c.Store == nil || c.Fetch == nil || c.Evaluate == nil || c.Hotkey == "" || c.Dir == "" {
		return nil, errors.New("node: ledger, store, fetch, evaluate, hotkey and dir are needed")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Reevaluate == 0 {
		c.Reevaluate = uint64(pack.WindowBlocks)
		if c.Window.Blocks > 0 {
			c.Reevaluate = uint64(c.Window.Blocks)
		}
	}
	if c.WeightsEvery == 0 {
		c.WeightsEvery = 360
	}
	if !(c.Burn >= 0 && c.Burn <= 1) {
		return nil, fmt.Errorf("node: burn %v is not a share", c.Burn)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make state: %w", err)
	}
	n := &Node{cfg: c, packs: map[string]*pack.Pack{}, retry: map[string]uint64{}}
	n.reset()
	b, err := os.ReadFile(n.path())
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("read state: %w", err)
	default:
		if err := json.Unmarshal(b, &n.st); err != nil {
			return nil, fmt.Errorf("read state %s: %w", n.path(), err)
		}
		if n.st.Scoring != Scoring {
			n.reset() // scores of another version say nothing here
		}
	}
	if n.st.Evaluations == nil {
		n.st.Evaluations = map[string]Evaluation{}
	}
	n.status = Status{Hotkey: c.Hotkey, Agreed: -1, Excluded: []Excluded{}, Rejected: []Rejected{}, Outvoted: []Outvote{}, Weights: []agon.Weight{}}
	return n, nil
}

func (n *Node) reset() {
	n.st = state{Scoring: Scoring, Published: -1, Aggregated: -1, Evaluations: map[string]Evaluation{}}
}

func (n *Node) path() string { return filepath.Join(n.cfg.Dir, "state.json") }

// Status is a copy of what the node last saw.
func (n *Node) Status() Status { return n.status }

// Step does what the present block asks for. Errors are the ledger's or this
// machine's; the next step tries again.
func (n *Node) Step(ctx context.Context) error {
	m, err := n.cfg.Ledger.Metagraph(ctx, n.cfg.Netuid)
	if err != nil {
		return fmt.Errorf("read metagraph: %w", err)
	}
	w := n.cfg.Window.At(int64(m.Block))
	if w.Number != n.status.Window.Number {
		n.status.Fault, n.status.Reason = "", ""
	}
	n.status.Block, n.status.Window = m.Block, w
	if !n.started {
		// What the others agreed on while this one was away.
		if n.st.Winner == "" {
			if err := n.aggregate(ctx, m, -1); err != nil {
				n.cfg.Log.Warn("starting aggregation", "err", err)
			}
		}
		n.started = true
	}
	entries, sightings, err := n.discover(ctx, m)
	if err != nil {
		return err
	}
	if w.Phase != pack.PhaseAggregation {
		if err := n.evaluate(ctx, m.Block, entries); err != nil {
			return err
		}
	}
	if w.Phase == pack.PhasePropagation && n.st.Published < w.Number {
		if err := n.publish(ctx, w.Number, entries, sightings); err != nil {
			n.cfg.Log.Warn("publishing the payload", "err", err)
		}
	}
	if w.Phase == pack.PhaseAggregation && n.st.Aggregated < w.Number {
		if err := n.aggregate(ctx, m, w.Number); err != nil {
			n.cfg.Log.Warn("aggregating", "err", err)
		}
	}
	if n.st.WeightsDue || n.st.WeightsAt == 0 || m.Block >= n.st.WeightsAt+n.cfg.WeightsEvery {
		if err := n.setWeights(ctx, m); err != nil {
			n.cfg.Log.Warn("setting weights", "err", err)
		}
	}
	return n.save()
}

// save writes state and status: temporary file, fsync, rename.
func (n *Node) save() error {
	b, err := json.MarshalIndent(n.st, "", " ")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	s, err := json.MarshalIndent(n.status, "", " ")
	if err != nil {
		return fmt.Errorf("encode status: %w", err)
	}
	return errors.Join(writeAtomic(n.path(), b), writeAtomic(filepath.Join(n.cfg.Dir, "status.json"), s))
}

// candidate is a miner's pack, ready to be played.
type candidate struct {
	hotkey string
	block  uint64
	pack   *pack.Pack
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

// firstBlock is when a hotkey first committed a pack. Where the ledger does not
// tell, the present commitment's block makes a miner late, never early.
func (n *Node) firstBlock(ctx context.Context, c ledger.Commitment, hash string) uint64 {
	list, err := n.cfg.Ledger.History(ctx, n.cfg.Netuid, c.Hotkey, 0)
	if err == nil {
		for _, old := range list {
			if p, ok := pack.ParseCommitment(text(old)); ok && p.Hash == hash {
				return old.Block
			}
		}
	}
	if c.Block > 0 {
		return c.Block
	}
	return math.MaxInt64
}

// discover reads the miners' commitments, fetches and checks what they point
// to, and drops copies.
func (n *Node) discover(ctx context.Context, m *ledger.Metagraph) ([]candidate, map[string]Sighting, error) {
	commits, err := n.cfg.Ledger.Commitments(ctx, n.cfg.Netuid)
	if err != nil {
		return nil, nil, fmt.Errorf("read commitments: %w", err)
	}
	var list []candidate
	seen := map[string]Sighting{}
	n.status.Excluded = []Excluded{}
	exclude := func(hotkey, format string, args ...any) {
		n.status.Excluded = append(n.status.Excluded, Excluded{Miner: hotkey, Reason: fmt.Sprintf(format, args...)})
	}
	for _, c := range commits {
		neuron, ok := m.Neuron(c.Hotkey)
		if !ok || neuron.Permit || slices.Contains(n.cfg.Blacklist, neuron.Coldkey) {
			continue // validators point to payloads; nobody plays for them
		}
		at, ok := pack.ParseCommitment(text(c))
		if !ok {
			continue
		}
		p, err := n.fetch(ctx, at)
		if err != nil {
			exclude(c.Hotkey, "pack_fetch: %v", err)
			continue
		}
		if issues := p.Issues(pack.SchemaOPP); len(issues) > 0 {
			exclude(c.Hotkey, "schema_validation: %s", issues[0])
			continue
		}
		block := n.firstBlock(ctx, c, at.Hash)
		seen[c.Hotkey] = Sighting{at.Hash, block}
		list = append(list, candidate{c.Hotkey, block, p})
	}
	return n.unique(list), seen, nil
}

func (n *Node) fetch(ctx context.Context, at pack.Commitment) (*pack.Pack, error) {
	if p, ok := n.packs[at.Hash]; ok {
		return p, nil
	}
	b, err := n.cfg.Fetch(ctx, at.URL)
	if err != nil {
		return nil, err
	}
	p, err := pack.Read(b)
	if err != nil {
		return nil, err
	}
	if p.Hash != at.Hash {
		return nil, fmt.Errorf("the pack has hash %s, not the one that was committed", p.Hash)
	}
	if len(n.packs) > 10_000 {
		clear(n.packs)
	}
	n.packs[at.Hash] = p
	return p, nil
}

// unique drops copies, and what may not be played at all.
func (n *Node) unique(list []candidate) []candidate {
	entries := make([]copycat.Entry, len(list))
	for i, c := range list {
		t, ok := c.pack.Policy()
		entries[i] = copycat.Entry{Key: c.hotkey, Hash: c.pack.Hash, Block: c.block, Text: t, Bare: !ok}
	}
	k := copycat.NewComparer()
	defer k.Close()
	copies := k.Exclude(entries, copycat.NCDThreshold)
	var out []candidate
	for _, c := range list {
		if x, ok := copies[c.hotkey]; ok {
			n.status.Excluded = append(n.status.Excluded, Excluded{c.hotkey, fmt.Sprintf("NCD: policy too similar to earlier commitment (original hotkey %.8s…)", x.Of), x.Similarity})
			continue
		}
		out = append(out, c)
	}
	slices.SortFunc(n.status.Excluded, func(a, b Excluded) int { return compare(a.Miner, b.Miner) })
	n.status.Packs = len(out)
	return out
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
// evaluation it had.
func (n *Node) evaluate(ctx context.Context, block uint64, list []candidate) error {
	tried, good, spoilt := 0, 0, 0
	var last error
	n.status.Judged = 0
	for _, c := range list {
		old, ok := n.st.Evaluations[c.pack.Hash]
		if ok && block < old.Block+n.cfg.Reevaluate || block < n.retry[c.pack.Hash] {
			if ok {
				n.status.Judged++
			}
			continue
		}
		if n.cfg.Exclude != nil {
			if why := n.cfg.Exclude(c.pack); why != "" {
				n.st.Evaluations[c.pack.Hash] = Evaluation{Reason: why, Block: block}
				n.status.Judged++
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
		e.Block = block
		n.st.Evaluations[c.pack.Hash] = e
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

// publish stores what this validator measured and points to it. A window in
// which it judged nothing has no payload: an empty one would be a vote.
func (n *Node) publish(ctx context.Context, window int64, list []candidate, seen map[string]Sighting) error {
	p := Payload{
		Protocol: Protocol, Scoring: Scoring, Window: window, Validator: n.cfg.Hotkey, Software: n.cfg.Software, Timestamp: n.cfg.Now().Unix(),
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
	b := p.Canonical()
	address, err := n.cfg.Store.Put(ctx, b)
	if err != nil {
		return err
	}
	pointer, err := pack.Pointer{Protocol: Protocol, Window: window, Scoring: Scoring, Address: address}.Write()
	if err != nil {
		return err
	}
	if _, err := n.cfg.Ledger.Commit(ctx, n.cfg.Netuid, n.cfg.Hotkey, ledger.Raw([]byte(pointer))); err != nil {
		return fmt.Errorf("commit pointer: %w", err)
	}
	n.st.Published = window
	return nil
}

// aggregate reads the payloads of a window (below 0: the newest that any
// pointer names), and decides. Where nothing passes, everything stays.
func (n *Node) aggregate(ctx context.Context, m *ledger.Metagraph, window int64) error {
	commits, err := n.cfg.Ledger.Commitments(ctx, n.cfg.Netuid)
	if err != nil {
		return fmt.Errorf("read pointers: %w", err)
	}
	type pointed struct {
		neuron ledger.Neuron
		at     pack.Pointer
	}
	var pointers []pointed
	newest := int64(-1)
	for _, c := range commits {
		neuron, ok := m.Neuron(c.Hotkey)
		at, parses := pack.ParsePointer(text(c))
		if !ok || !neuron.Permit || !parses || at.Scoring != Scoring {
			continue
		}
		pointers = append(pointers, pointed{neuron, at})
		newest = max(newest, at.Window)
	}
	counts := window >= 0
	if !counts {
		if window = newest; window < 0 {
			return nil
		}
	}
	var list []Submission
	n.status.Rejected = []Rejected{}
	for _, p := range pointers {
		if p.at.Window != window {
			n.status.Rejected = append(n.status.Rejected, Rejected{p.neuron.Hotkey, fmt.Sprintf("its pointer is of window %d", p.at.Window)})
			continue
		}
		s, err := n.read(ctx, p.at.Address)
		if err != nil {
			n.status.Rejected = append(n.status.Rejected, Rejected{p.neuron.Hotkey, err.Error()})
			continue
		}
		s.Hotkey, s.Stake = p.neuron.Hotkey, float64(p.neuron.Stake)/1e9
		list = append(list, s)
	}
	kept, filter := Filter(list, Expect{Window: window, Software: n.cfg.Software, MinStake: n.cfg.MinStake})
	n.status.Filter = filter
	n.cfg.Log.Info(filter.String())
	if len(kept) == 0 {
		return nil // the winner stays; the next step asks again
	}
	least := n.cfg.MinValidators
	if least == 0 {
		least = min(2, len(kept))
	}
	agreed := Aggregate(kept, least, !n.cfg.PlainMean)
	owner, copies := Owners(kept)
	n.status.Outvoted = []Outvote{}
	for _, s := range kept {
		if about := Outvoted(s, agreed); len(about) > 0 {
			n.status.Outvoted = append(n.status.Outvoted, Outvote{s.Hotkey, about})
		}
	}
	hashOf := map[string]string{}
	for hash, miner := range owner {
		hashOf[miner] = hash
	}
	var contenders []incentive.Contender
	for _, name := range slices.Sorted(maps.Keys(agreed)) {
		r := agreed[name]
		neuron, ok := m.Neuron(name)
		if _, copied := copies[name]; copied || !ok || neuron.Permit {
			continue
		}
		contenders = append(contenders, incentive.Contender{Key: name, Cost: r.Cost, Qualified: r.Qualified, Block: sighted(kept, name)})
	}
	var holder *incentive.Holder
	if n.st.Winner != "" {
		holder = &incentive.Holder{Key: n.st.Winner, Cost: n.st.WinnerCost}
	}
	winner, frozen := incentive.Protect(contenders, holder)
	if winner != nil {
		neuron, _ := m.Neuron(winner.Key)
		n.st.Winner, n.st.WinnerCost, n.st.WinnerUID, n.st.WinnerPack = winner.Key, frozen, neuron.UID, hashOf[winner.Key]
	}
	if counts {
		n.st.Aggregated = window
	}
	n.status.Winner, n.status.Cost, n.status.Agreed = n.st.Winner, n.st.WinnerCost, window
	n.st.WeightsDue = true
	return nil
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

// read gets a payload by its address and checks its bytes.
func (n *Node) read(ctx context.Context, address string) (Submission, error) {
	cid, url := pack.DualAddress(address)
	var b []byte
	var source string
	var err error
	if cid != "" {
		b, source, err = n.cfg.Store.Get(ctx, cid)
	}
	if (cid == "" || err != nil) && url != "" {
		b, err = n.cfg.Fetch(ctx, url)
		source = "url"
	}
	if err != nil {
		return Submission{}, fmt.Errorf("payload %.100s: %w", address, err)
	}
	// A bare URL names no bytes: what it gives is not believed.
	s := Submission{Source: source, Intact: cid != "" && Verify(cid, b)}
	if s.Payload, err = Parse(b); err != nil {
		return Submission{}, err
	}
	return s, nil
}

// setWeights gives the winner its share and burns the rest. Without a winner
// the owner's own row is copied, or everything burned.
func (n *Node) setWeights(ctx context.Context, m *ledger.Metagraph) error {
	burn, hasOwner := m.BurnUID()
	w := ledger.Weights{}
	add := func(uid uint16, share float64) {
		if v := uint16(math.Round(share * math.MaxUint16)); v > 0 {
			w.UIDs, w.Values = append(w.UIDs, uid), append(w.Values, v)
		}
	}
	winner, seated := m.Neuron(n.st.Winner)
	switch {
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
		return nil
	}
	if err := n.cfg.Ledger.SetWeights(ctx, n.cfg.Netuid, n.cfg.Hotkey, w); err != nil {
		return fmt.Errorf("set weights: %w", err)
	}
	n.st.WeightsAt, n.st.WeightsDue = m.Block, false
	n.status.Weights = []agon.Weight{}
	for i, uid := range w.UIDs {
		if int(uid) < len(m.Neurons) {
			n.status.Weights = append(n.status.Weights, agon.Weight{UID: uid, Hotkey: m.Neurons[uid].Hotkey, Weight: w.Values[i]})
		}
	}
	return nil
}
