package consensus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
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
	At     int64  `json:"at"`    // when, in Unix seconds
	// Scenarios are what was played, in that order.
	Scenarios []Scenario `json:"scenarios,omitempty"`
	// Logs are the files of an archive of it; nobody needs them later.
	Logs map[string][]byte `json:"-"`
}

// Scenario is the result of one scenario.
type Scenario struct {
	Name      string  `json:"name"`
	Cost      float64 `json:"cost"` // dollars; 0: not measured
	Score     float64 `json:"score"`
	Weight    float64 `json:"weight"`
	Qualified bool    `json:"qualified"`
}

// NodeConfig is what a validator without a platform is made of. Ledger, Store,
// Fetch, Evaluate, Hotkey and Dir are needed.
type NodeConfig struct {
	Ledger ledger.Ledger // signs with Hotkey's key
	Netuid uint16
	Hotkey string
	// VersionKey is the version of the weights (agon.Arena.WeightsVersion).
	VersionKey uint64
	Store      Store
	// Fetch reads what a miner's URL names.
	Fetch func(ctx context.Context, url string) ([]byte, error)
	// FetchPayload reads what a validator's URL names, up to MaxPayload; nil: Fetch.
	FetchPayload func(ctx context.Context, url string) ([]byte, error)
	// Evaluate plays a pack. An error says that it could not: ErrProvider where
	// the provider is to blame. It is never the miner's.
	Evaluate func(ctx context.Context, hotkey string, p *packfile.Pack) (Evaluation, error)
	// Admit asks somebody else whether a pack may be played; "" lets it. Optional.
	Admit func(ctx context.Context, miner, hash, url string) (refused string)
	// Told is given what became of each pack that was looked at. Optional.
	Told func(Report)
	// Near says why a later pack is a copy of an earlier one that compression distance
	// does not show as one; "" where it is none. Optional.
	Near func(earlier, later *packfile.Pack) string
	// Exclude says why a pack may not be played at all; "" lets it.
	Exclude func(p *packfile.Pack) string

	Window packfile.WindowRule
	// Clock says where a block stands instead of Window: a demo does not wait for days.
	Clock func(block int64) packfile.Window
	// LivePointers says that Clock does not follow from the block alone: pointers count
	// whenever they are read.
	LivePointers  bool
	Schema        string  // of packs; "" means packfile.SchemaAny
	Tasks         string  // names what is played and how it is judged: evaluations by others are not used again
	Software      string  // version of scenarios and harness, for payloads
	Spec          int64   // number of the set of scenarios, for payloads; 0: they say none
	Dir           string  // state
	MinStake      float64 // alpha; 0 means MinStake
	MinValidators int     // that must agree; 0 means 2, or 1 where only one has stake enough
	// Sealed lets only those payloads count that their validators promised on the ledger,
	// by their digest, before any was shown: who copies figures has promised nothing, or others.
	Sealed     bool
	PlainMean  bool    // costs are averaged instead of their median taken, as others of such arenas do
	Burn       float64 // share of the reward that is burned; the arena's default is 0.5
	Reevaluate uint64  // blocks after which a pack is looked at again; 0: a window
	// CacheTTL is for how long a looked-at pack is not played again; 0: CacheTTL, below 0: it always is.
	CacheTTL time.Duration
	// Bootstrap pays the three cheapest 70, 20 and 10 per cent while fewer than
	// incentive.BootstrapSize miners are active, as the document of such arenas says and no code does.
	Bootstrap bool
	Inactive  uint64 // blocks after which a miner that no payload names is not active; 0: 14,400
	// Unpaid burns everything: the winner is agreed on and shown, for its model was a script.
	Unpaid       bool
	WeightsEvery uint64 // blocks after which weights are set again; 0: 360
	Blacklist    []string
	Now          func() time.Time
	Log          *slog.Logger
}

// Defaults of NodeConfig.
const (
	CacheTTL       = 7 * 24 * time.Hour
	InactiveBlocks = 14_400
	// MinSealed is the least number of blocks of a window in which payloads are sealed.
	MinSealed = 20
)

// state is what a node must not forget. It is written whole after each step.
type state struct {
	Scoring     int64                 `json:"scoring_version"`
	Winner      string                `json:"winner_hotkey,omitempty"`
	WinnerPack  string                `json:"winner_pack_hash,omitempty"`
	WinnerCost  float64               `json:"winner_cost,omitempty"`
	Spread      *Spread               `json:"winner_spread,omitempty"` // of WinnerCost, when it was frozen
	WinnerUID   uint16                `json:"winner_uid,omitempty"`
	Tasks       string                `json:"tasks,omitempty"`    // NodeConfig.Tasks of the evaluations
	Evaluations map[string]Evaluation `json:"evaluations"`        // by pack hash
	Seen        map[string]uint64     `json:"seen"`               // by miner: the block at which a payload last gave it a cost
	Shares      map[string]float64    `json:"shares,omitempty"`   // by miner, where more than the winner are paid
	Sealed      []byte                `json:"sealed,omitempty"`   // a payload that was promised and not shown yet
	SealedOf    int64                 `json:"sealed_window"`      // of the last such promise
	SealedAt    bool                  `json:"sealed_stands"`      // it stands on the ledger
	Promises    map[string]promise    `json:"promises,omitempty"` // by validator: seen when they were made, for ledgers that forget
	Published   int64                 `json:"published_window"`
	Aggregated  int64                 `json:"aggregated_window"`
	WeightsAt   uint64                `json:"weights_at"`
	WeightsDue  bool                  `json:"weights_due"` // what was decided does not stand on the ledger yet
}

// Status is what a node last saw and did, for people.
type Status struct {
	Hotkey   string          `json:"hotkey"`
	Block    uint64          `json:"block"`
	Window   packfile.Window `json:"window"`
	Packs    int             `json:"packs"` // of this window that may be played
	Judged   int             `json:"judged"`
	Active   int             `json:"active"` // miners that payloads have named of late
	Fault    agon.Fault      `json:"fault"`  // why nothing was judged in this window, if it was not the packs'
	Reason   string          `json:"reason,omitempty"`
	Excluded []Excluded      `json:"excluded"`
	Filter   Counts          `json:"filter"`
	Rejected []Rejected      `json:"rejected"` // pointers that led to no payload that counts
	Outvoted []Outvote       `json:"outvoted"`
	// Quorum is the share of the active stake whose payloads passed; Short is why it decided nothing.
	Quorum float64 `json:"quorum"`
	// Spec is the number of the set of scenarios that was decided about; 0: nobody said one.
	Spec    int64         `json:"spec,omitempty"`
	Short   string        `json:"short,omitempty"`
	Winner  string        `json:"winner,omitempty"`
	Cost    float64       `json:"winner_cost,omitempty"`
	Spread  *Spread       `json:"winner_spread,omitempty"` // of the cost, when it was frozen
	Weights []agon.Weight `json:"weights"`
	// LastEval and LastWeights are when a pack was last played, and weights last set; zero: not by this process.
	LastEval    time.Time `json:"last_eval_at,omitzero"`
	LastWeights time.Time `json:"last_set_weights_at,omitzero"`
	WinnerPack  string    `json:"winner_pack_hash,omitempty"`
	Published   int64     `json:"published_window"` // of the last payload; -1: none yet
	Agreed      int64     `json:"agreed_window"`    // of the last aggregation; -1: none yet
}

// Excluded is a miner whose pack is not played.
type Excluded struct {
	Miner      string  `json:"miner"`
	Reason     string  `json:"reason"`
	Similarity float64 `json:"similarity,omitempty"`
	Of         string  `json:"of,omitempty"` // hotkey of the earlier pack that it is a copy of
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
	cfg    NodeConfig
	st     state
	status Status
	caught int64                         // the newest past window that was looked at after an absence
	silent silences[packfile.Commitment] // URLs that gave no pack
	unread silences[string]              // addresses that gave no payload
	ahead  map[string]Submission         // by address: payloads of past windows that are being decided
	said   map[string][]pointer          // what validators pointed to, while windows are caught up on
	packs  map[string]*packfile.Pack     // by hash: content that was checked
	retry  map[string]uint64             // by hash: the block from which it is tried again
	near   map[[2]string]string          // what Near said, by hashes of earlier and later
	told   map[[2]string]bool            // miner and hash of copies that were told
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
		c.Reevaluate = uint64(packfile.WindowBlocks)
		if c.Window.Blocks > 0 {
			c.Reevaluate = uint64(c.Window.Blocks)
		}
	}
	if c.WeightsEvery == 0 {
		c.WeightsEvery = 360
	}
	if c.CacheTTL == 0 {
		c.CacheTTL = CacheTTL
	}
	if c.Inactive == 0 {
		c.Inactive = InactiveBlocks
	}
	if c.Schema == "" {
		c.Schema = packfile.SchemaAny
	}
	if c.FetchPayload == nil {
		c.FetchPayload = c.Fetch
	}
	if c.Sealed && !c.LivePointers && c.Window.Blocks > 0 && c.Window.Blocks < MinSealed {
		return nil, fmt.Errorf("node: payloads cannot be sealed in windows of %d blocks, want %d", c.Window.Blocks, MinSealed)
	}
	if c.Clock == nil {
		c.Clock = c.Window.At
	}
	if !(c.Burn >= 0 && c.Burn <= 1) {
		return nil, fmt.Errorf("node: burn %v is not a share", c.Burn)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make state: %w", err)
	}
	n := &Node{cfg: c, caught: -1, silent: silences[packfile.Commitment]{}, unread: silences[string]{}, packs: map[string]*packfile.Pack{}, retry: map[string]uint64{}, near: map[[2]string]string{}, told: map[[2]string]bool{}}
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
	if n.st.Evaluations == nil || n.st.Tasks != c.Tasks {
		n.st.Evaluations = map[string]Evaluation{} // of other scenarios, or judged otherwise
	}
	if n.st.Seen == nil {
		n.st.Seen = map[string]uint64{}
	}
	n.st.Tasks = c.Tasks
	n.status = Status{
		Hotkey: c.Hotkey, Winner: n.st.Winner, WinnerPack: n.st.WinnerPack, Cost: n.st.WinnerCost, Spread: n.st.Spread, Published: n.st.Published, Agreed: n.st.Aggregated,
		Excluded: []Excluded{}, Rejected: []Rejected{}, Outvoted: []Outvote{}, Weights: []agon.Weight{},
	}
	return n, nil
}

func (n *Node) reset() {
	n.st = state{Scoring: Scoring, Published: -1, Aggregated: -1, SealedOf: -1}
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
	w := n.cfg.Clock(int64(m.Block))
	if w.Number != n.status.Window.Number {
		n.status.Fault, n.status.Reason = "", ""
	}
	n.status.Block, n.status.Window = m.Block, w
	// What the others agreed on while this one was away.
	if err := n.catchUp(ctx, m, w.Number-1); err != nil {
		n.cfg.Log.Warn("aggregating past windows", "err", err)
	}
	entries, sightings, err := n.discover(ctx, m)
	if err != nil {
		return err
	}
	if w.Phase != packfile.PhaseAggregation {
		if err := n.evaluate(ctx, m.Block, entries); err != nil {
			return err
		}
	}
	n.disqualified(entries)
	if n.cfg.Sealed && w.Phase == packfile.PhasePropagation && !w.Shows() && (n.st.SealedOf < w.Number || !n.st.SealedAt) {
		if err := n.seal(ctx, w.Number, entries, sightings); err != nil {
			n.cfg.Log.Warn("sealing the payload", "err", err)
		}
	}
	if w.Phase == packfile.PhasePropagation && n.st.Published < w.Number && (!n.cfg.Sealed || w.Shows()) {
		if err := n.publish(ctx, w.Number, entries, sightings); err != nil {
			n.cfg.Log.Warn("publishing the payload", "err", err)
		}
	}
	if w.Phase == packfile.PhaseAggregation && n.st.Aggregated < w.Number {
		if err := n.aggregate(ctx, m, w.Number); err != nil {
			n.cfg.Log.Warn("aggregating", "err", err)
		}
	}
	if n.st.WeightsDue || n.st.WeightsAt == 0 || m.Block >= n.st.WeightsAt+n.cfg.WeightsEvery {
		err := n.setWeights(ctx, m)
		switch {
		case errors.Is(err, ledger.ErrSettingWeightsTooFast): // merely early: they stay due, and a later block takes them
			n.cfg.Log.Debug("weights wait for their block", "err", err)
		case err != nil:
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
