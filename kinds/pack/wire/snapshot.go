package wire

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/kinds/pack/cost"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
	"github.com/agon-arena/agon/ledger"
)

// snapshot is one look at the arena, from which every public answer is made.
// It never changes.
type snapshot struct {
	at        time.Time
	took      time.Duration
	arena     *client.Arena
	graph     *ledger.Metagraph
	blockTime time.Duration
	neurons   map[string]ledger.Neuron // by hotkey
	entries   []*entry                 // newest first
	byID      map[string]*entry
	byMiner   map[string][]*entry // newest first
	decisions []agon.Decision     // oldest first
	players   []store.ValidatorStat
	reports   []*report // of all validators, newest first
	roster    []byte    // GET /api/validators, encoded
	usage     usage     // of all decided runs
}

// usage is what models took.
type usage struct {
	Reports, Calls, Tokens int64
	Micros                 agon.Micros
}

// memory is what snapshots need not read again.
type memory struct {
	packs    map[string]packFacts    // by submission
	attempts map[string]attemptFacts // by run, state and attempts
	used     map[string]usage        // by run
}

type attemptFacts struct {
	validator string
	evidence  agon.Digest
	at        time.Time
	n         int
}

func newMemory() memory {
	return memory{packs: map[string]packFacts{}, attempts: map[string]attemptFacts{}, used: map[string]usage{}}
}

// look returns a snapshot that is fresh enough. Only one is made at a time;
// meanwhile others get the one before, unless it is much too old.
func (b *Backend) look(ctx context.Context) (*snapshot, error) {
	s := b.last.Load()
	fresh := b.cfg.Fresh
	if s != nil { // a big arena is looked at less often
		fresh = max(fresh, min(20*s.took, slowest))
	}
	if s != nil && !b.stale.Load() && b.cfg.Now().Sub(s.at) < fresh {
		return s, nil
	}
	if s != nil && !b.stale.Load() && b.cfg.Now().Sub(s.at) < 10*fresh {
		if !b.building.TryLock() {
			return s, nil
		}
	} else {
		b.building.Lock()
		if again := b.last.Load(); again != s && !b.stale.Load() { // made while we waited
			b.building.Unlock()
			return again, nil
		}
	}
	defer b.building.Unlock()
	b.stale.Store(false)
	next, err := b.build(context.WithoutCancel(ctx))
	if err != nil {
		b.stale.Store(true)
		return nil, err
	}
	b.last.Store(next)
	return next, nil
}

// build reads everything. The caller holds b.building.
func (b *Backend) build(ctx context.Context) (*snapshot, error) {
	begin := time.Now() //nolint:forbidigo // a duration, not a time of day
	s := &snapshot{at: b.cfg.Now(), blockTime: b.cfg.BlockTime, neurons: map[string]ledger.Neuron{}, byID: map[string]*entry{}, byMiner: map[string][]*entry{}}
	var err error
	if s.arena, err = b.cfg.Platform.Arena(ctx, b.cfg.Arena); err != nil {
		return nil, err
	}
	if s.graph, err = b.cfg.Metagraph(ctx); err != nil {
		return nil, fmt.Errorf("read the metagraph: %w", err)
	}
	for _, n := range s.graph.Neurons {
		s.neurons[n.Hotkey] = n
	}
	if s.decisions, err = b.cfg.Platform.Decisions(ctx, b.cfg.Arena, 1000); err != nil {
		return nil, err
	}
	if s.players, err = b.cfg.Platform.Validators(ctx, b.cfg.Arena); err != nil {
		return nil, err
	}
	if err := b.readEntries(ctx, s); err != nil {
		return nil, err
	}
	if err := b.readRuns(ctx, s); err != nil {
		return nil, err
	}
	for _, e := range s.entries {
		e.report(s)
	}
	for _, r := range b.posts.reports() {
		b.mergePosted(s, r)
	}
	for _, e := range s.entries {
		s.reports = append(s.reports, e.reports...)
	}
	slices.SortStableFunc(s.reports, func(x, y *report) int {
		return cmp.Or(y.at.Compare(x.at), cmp.Compare(y.seq, x.seq), cmp.Compare(x.validator, y.validator))
	})
	b.readUsage(ctx, s)
	s.roster = encode(map[string]any{"validators": b.validatorRows(s)})
	s.took = time.Since(begin)
	return s, nil
}

func (b *Backend) readEntries(ctx context.Context, s *snapshot) error {
	cursor := ""
	for len(s.entries) < maxEntries {
		page, err := b.cfg.Platform.Submissions(ctx, anybody, b.cfg.Arena, "", cursor, 200)
		if err != nil {
			return err
		}
		for _, x := range page.Items {
			e := &entry{Submission: x}
			if e.pack, err = b.packOf(ctx, x); err != nil {
				return err
			}
			s.entries = append(s.entries, e)
			s.byID[x.ID] = e
			s.byMiner[x.Miner] = append(s.byMiner[x.Miner], e)
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
	return nil
}

// packOf reads what a pack is called. The hash is not a secret: miners commit it
// on the ledger before anybody may read the pack.
func (b *Backend) packOf(ctx context.Context, x client.Submission) (packFacts, error) {
	if f, ok := b.memory.packs[x.ID]; ok {
		return f, nil
	}
	files, err := b.cfg.Platform.SubmissionFiles(ctx, operator, x.ID)
	if err != nil {
		return packFacts{}, fmt.Errorf("read the pack of %s: %w", x.ID, err)
	}
	var f packFacts
	for _, file := range files {
		if file.Path != kindpack.File {
			continue
		}
		if p, err := packfile.Read(file.Content); err == nil {
			meta := p.Value.Get("metadata")
			f = packFacts{Hash: p.Hash, Name: plain(meta.Get("pack_name").Str, 80), Version: plain(meta.Get("pack_version").Str, 40)}
		}
	}
	if len(b.memory.packs) > 4*maxEntries {
		clear(b.memory.packs) // they are read again
	}
	b.memory.packs[x.ID] = f
	return f, nil
}

func (b *Backend) readRuns(ctx context.Context, s *snapshot) error {
	cursor := ""
	for n := 0; n < maxRuns; {
		page, err := b.cfg.Platform.Runs(ctx, anybody, b.cfg.Arena, "", "", cursor, 200)
		if err != nil {
			return err
		}
		for _, r := range page.Items {
			n++
			e := s.byID[r.Submission]
			if e == nil || len(r.Tasks) != 1 {
				continue
			}
			p := play{Run: r, scenario: s.scenarioName(r.Tasks[0]), at: r.EndedAt}
			if r.Attempts > 0 {
				a, err := b.attemptOf(ctx, e, r)
				if err != nil {
					return err
				}
				p.validator, p.evidence, p.n = a.validator, a.evidence, a.n
				if !a.at.IsZero() {
					p.at = a.at
				}
			}
			e.plays = append(e.plays, p)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	order := map[string]int{}
	for i, t := range s.arena.Tasks {
		order[t.Key] = i
	}
	for _, e := range s.entries {
		slices.SortStableFunc(e.plays, func(x, y play) int {
			return cmp.Or(cmp.Compare(order[x.Tasks[0].Key], order[y.Tasks[0].Key]), x.CreatedAt.Compare(y.CreatedAt))
		})
	}
	return nil
}

// attemptOf says who played a run. What a final run of a decided submission
// shows does not change any more.
func (b *Backend) attemptOf(ctx context.Context, e *entry, r client.Run) (attemptFacts, error) {
	key := fmt.Sprintf("%s %s %s %d", r.RunSpec.Run, e.State, r.State, r.Attempts)
	if a, ok := b.memory.attempts[key]; ok {
		return a, nil
	}
	full, err := b.cfg.Platform.Run(ctx, anybody, r.RunSpec.Run)
	if err != nil {
		return attemptFacts{}, err
	}
	var a attemptFacts
	for _, x := range full.List {
		if a.validator == "" || x.Counted || !slices.ContainsFunc(full.List, func(o agon.Attempt) bool { return o.Counted }) {
			a = attemptFacts{validator: x.Validator, evidence: x.Evidence, at: x.EndedAt, n: x.N}
		}
		if x.Counted {
			break
		}
	}
	if r.State.Final() {
		if len(b.memory.attempts) > 4*maxRuns {
			clear(b.memory.attempts)
		}
		b.memory.attempts[key] = a
	}
	return a, nil
}

// scenarioName is a task as scenarios are called. One that is hidden has a number only.
func (s *snapshot) scenarioName(t agon.TaskRef) string {
	for i, now := range s.arena.Tasks {
		if now.Key == t.Key && now.Hidden {
			return fmt.Sprintf("hidden_%d", i+1)
		}
	}
	name := t.Key[strings.LastIndexByte(t.Key, '/')+1:]
	return strings.ReplaceAll(name, "-", "_")
}

// block is the height at a time: blocks come evenly, back from the newest.
func (s *snapshot) block(t time.Time) int64 {
	now := int64(s.graph.Block)
	if s.blockTime <= 0 || t.IsZero() {
		return now
	}
	return max(0, now-int64(s.at.Sub(t)/s.blockTime))
}

// timeOf is about when a block was made.
func (s *snapshot) timeOf(block uint64) time.Time {
	if s.blockTime <= 0 || block == 0 || block > s.graph.Block {
		return time.Time{}
	}
	return s.at.Add(-time.Duration(min(s.graph.Block-block, 1<<40/uint64(s.blockTime/time.Millisecond+1))) * s.blockTime)
}

func (s *snapshot) uid(hotkey string) *uint16 {
	if n, ok := s.neurons[hotkey]; ok {
		return &n.UID
	}
	return nil
}

// share is what a submission earns, 0 to 1.
func (s *snapshot) share(submission string) float64 {
	for _, p := range s.arena.Seats {
		if p.Submission == submission {
			return p.Share
		}
	}
	return 0
}

func (s *snapshot) seated() *entry {
	if len(s.arena.Seats) == 0 {
		return nil
	}
	return s.byID[s.arena.Seats[0].Submission]
}

// current is a miner's pack of today: the one that sits, else the newest that was
// played to the end, else the newest.
func (s *snapshot) current(hotkey string) *entry {
	list := s.byMiner[hotkey]
	for _, p := range s.arena.Seats {
		if e := s.byID[p.Submission]; e != nil && e.Miner == hotkey {
			return e
		}
	}
	for _, e := range list {
		if e.State == agon.SubmissionScored {
			return e
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// find returns a miner's newest entry of a pack; any miner's where hotkey is empty.
func (s *snapshot) find(hotkey, hash string) *entry {
	list := s.entries
	if hotkey != "" {
		list = s.byMiner[hotkey]
	}
	for _, e := range list {
		if e.pack.Hash == hash && hash != "" {
			return e
		}
	}
	return nil
}

// ranking lists the miners' current packs: the qualified first, by what the
// arena's rule goes by, then the earlier.
func (s *snapshot) ranking() []*entry {
	var out []*entry
	for m := range s.byMiner {
		if e := s.current(m); e != nil && e.State == agon.SubmissionScored && !e.Scripted {
			out = append(out, e)
		}
	}
	byCost := s.arena.Incentive == cost.ArenaRule
	slices.SortFunc(out, func(x, y *entry) int {
		if c := cmp.Compare(bit(y.status() == "passed"), bit(x.status() == "passed")); c != 0 {
			return c
		}
		if cx, cy := x.meanCost(), y.meanCost(); byCost && cx != nil && cy != nil && *cx != *cy {
			return cmp.Compare(*cx, *cy)
		}
		return cmp.Or(cmp.Compare(value(y.Score), value(x.Score)), cmp.Compare(x.Seq, y.Seq))
	})
	return out
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func value(p *float64) float64 {
	if p == nil {
		return 0
	}
	return finite(*p)
}
