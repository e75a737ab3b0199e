package trajrl

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/incentive"
	kindpack "github.com/agon-arena/agon/kind/pack"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/pack"
	"github.com/agon-arena/agon/store"
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

// entry is a submission with what was played of it.
type entry struct {
	client.Submission
	pack    packFacts
	plays   []play    // in the arena's order of tasks
	reports []*report // one per validator, oldest first
}

// packFacts are what a pack says of itself.
type packFacts struct {
	Hash          string // canonical; empty: no pack that can be read
	Name, Version string
}

// play is one run, and who played it.
type play struct {
	client.Run
	scenario  string
	validator string // of the attempt that counts, else of the last
	evidence  agon.Digest
	at        time.Time
	n         int // the attempt
}

// scenario is the result of one scenario at one validator.
type scenario struct {
	Name      string   `json:"name"`
	Cost      *float64 `json:"cost"`
	Score     float64  `json:"score"`
	Qualified bool     `json:"qualified"`
	weight    float64
}

// report is what one validator says of one pack.
type report struct {
	validator, miner, hash string
	scenarios              []scenario
	qualified              bool
	cost                   *float64
	score, weight          float64
	rejected               bool
	stage, detail          *string
	at                     time.Time
	block                  int64
	model                  *string
	posted                 bool // reported over the wire, not played by lease
	seq                    int64
}

// usage is what models took.
type usage struct {
	Reports, Calls, Tokens int64
	Micros                 agon.Micros
}

// memory is what snapshots need not read again.
type memory struct {
	packs    map[agon.Digest]packFacts
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
	return memory{packs: map[agon.Digest]packFacts{}, attempts: map[string]attemptFacts{}, used: map[string]usage{}}
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
	begin := time.Now() // a duration, not a time of day
	s := &snapshot{at: b.cfg.Now(), blockTime: b.cfg.BlockTime, neurons: map[string]ledger.Neuron{}, byID: map[string]*entry{}, byMiner: map[string][]*entry{}}
	var err error
	if s.arena, err = b.cfg.API.Arena(ctx, b.cfg.Arena); err != nil {
		return nil, err
	}
	if s.graph, err = b.cfg.Metagraph(ctx); err != nil {
		return nil, fmt.Errorf("read the metagraph: %w", err)
	}
	for _, n := range s.graph.Neurons {
		s.neurons[n.Hotkey] = n
	}
	if s.decisions, err = b.cfg.Views.Decisions(ctx, b.cfg.Arena, 1000); err != nil {
		return nil, err
	}
	if s.players, err = b.cfg.Views.Validators(ctx, b.cfg.Arena); err != nil {
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
		page, err := b.cfg.API.Submissions(ctx, anybody, b.cfg.Arena, "", cursor, 200)
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

// packOf reads what a pack is called. The hash is no secret: miners commit it
// on the ledger before anybody may read the pack.
func (b *Backend) packOf(ctx context.Context, x client.Submission) (packFacts, error) {
	if f, ok := b.memory.packs[x.Digest]; ok {
		return f, nil
	}
	files, err := b.cfg.API.SubmissionFiles(ctx, operator, x.ID)
	if err != nil {
		return packFacts{}, fmt.Errorf("read the pack of %s: %w", x.ID, err)
	}
	var f packFacts
	for _, file := range files {
		if file.Path != kindpack.File {
			continue
		}
		if p, err := pack.Read(file.Content); err == nil {
			meta := p.Value.Get("metadata")
			f = packFacts{Hash: p.Hash, Name: plain(meta.Get("pack_name").Str, 80), Version: plain(meta.Get("pack_version").Str, 40)}
		}
	}
	if len(b.memory.packs) > 4*maxEntries {
		clear(b.memory.packs) // they are read again
	}
	b.memory.packs[x.Digest] = f
	return f, nil
}

func (b *Backend) readRuns(ctx context.Context, s *snapshot) error {
	cursor := ""
	for n := 0; n < maxRuns; {
		page, err := b.cfg.API.Runs(ctx, anybody, b.cfg.Arena, "", "", cursor, 200)
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
	full, err := b.cfg.API.Run(ctx, anybody, r.RunSpec.Run)
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

// cost is what the agent's models cost in one run, in dollars: as judged where
// that may be read, else as the attempt was billed; nil where nobody measured it.
func (p *play) cost() *float64 {
	for _, sc := range p.Scores {
		if v, ok := sc.Metrics[incentive.CostMetric]; ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			usd := v / 1e6
			return &usd
		}
	}
	return nil
}

func (p *play) result() (scenario, bool) {
	if p.State != agon.RunScored || len(p.Scores) == 0 {
		return scenario{}, false
	}
	sc := p.Scores[0]
	weight := 1.0
	if w := sc.Metrics[kindpack.MetricWeight]; w > 0 && !math.IsInf(w, 0) {
		weight = w
	}
	return scenario{Name: p.scenario, Cost: p.cost(), Score: finite(sc.Value), Qualified: sc.Solved, weight: weight}, true
}

func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// report groups what was played by the validators that played it.
func (e *entry) report(s *snapshot) {
	by := map[string]*report{}
	for i := range e.plays {
		p := &e.plays[i]
		sc, ok := p.result()
		if !ok || p.validator == "" {
			continue
		}
		r := by[p.validator]
		if r == nil {
			r = &report{validator: p.validator, miner: e.Miner, hash: e.pack.Hash, seq: e.Seq}
			by[p.validator] = r
			e.reports = append(e.reports, r)
		}
		// Replicas of a scenario at one validator: the first stands.
		if !slices.ContainsFunc(r.scenarios, func(o scenario) bool { return o.Name == sc.Name }) {
			r.scenarios = append(r.scenarios, sc)
		}
		if p.at.After(r.at) {
			r.at = p.at
		}
	}
	for _, r := range e.reports {
		r.sum()
		// Scenarios are dealt out to validators: who played only what went well
		// does not vouch for the rest.
		r.qualified = r.qualified && (e.open() || e.status() == "passed")
		r.weight = s.share(e.ID)
		r.block = s.block(r.at)
		if stage, detail, ok := e.rejection(); ok {
			r.rejected, r.stage, r.detail = true, &stage, &detail
		}
	}
	slices.SortFunc(e.reports, func(x, y *report) int { return cmp.Or(x.at.Compare(y.at), cmp.Compare(x.validator, y.validator)) })
}

// sum works out the totals as validators report them: cost and score weighted
// by scenario, qualified when every scenario that was played is.
func (r *report) sum() {
	var weight, cost, costed, passed float64
	r.qualified = len(r.scenarios) > 0
	for _, sc := range r.scenarios {
		weight += sc.weight
		if sc.Qualified {
			passed += sc.weight
		} else {
			r.qualified = false
		}
		if sc.Cost != nil {
			cost, costed = cost+sc.weight**sc.Cost, costed+sc.weight
		}
	}
	if weight > 0 {
		r.score = passed / weight
	}
	if costed > 0 {
		mean := cost / costed
		r.cost = &mean
	}
}

// rejection says why a pack was not played to the end: only what a gate or the
// integrity judge refused is one.
func (e *entry) rejection() (stage, detail string, ok bool) {
	if e.State != agon.SubmissionRefused && e.State != agon.SubmissionExcluded {
		return "", "", false
	}
	stage = "integrity_check"
	if f := e.blocking(); f != nil {
		switch f.Code {
		case "incomplete":
			return "", "", false // through faults of ours
		case "schema", "no_pack", "bad_file":
			stage = "schema_validation"
		}
	}
	return stage, e.reason(), true
}

func (e *entry) blocking() *agon.Finding {
	for i := range e.Findings {
		if !e.Findings[i].Warning {
			return &e.Findings[i]
		}
	}
	return nil
}

// reason says why an entry failed; empty where it did not.
func (e *entry) reason() string {
	if e.ExcludedReason != "" {
		return plain(e.ExcludedReason, 400)
	}
	if e.status() != "failed" {
		return ""
	}
	for i := range e.plays {
		p := &e.plays[i]
		if sc, ok := p.result(); ok && !sc.Qualified {
			return plain(sc.Name+" is not qualified: "+cmp.Or(p.Scores[0].Detail, "see the log"), 400)
		}
	}
	return "no scenario was qualified"
}

// status is passed, failed or pending.
func (e *entry) status() string {
	switch e.State {
	case agon.SubmissionScored:
		if e.Qualified != nil && *e.Qualified {
			return "passed"
		}
		return "failed"
	case agon.SubmissionRefused, agon.SubmissionExcluded:
		return "failed"
	}
	return "pending"
}

func (e *entry) open() bool { return e.status() == "pending" }

// endedAt is when an entry was decided, or refused.
func (e *entry) endedAt() time.Time {
	switch {
	case e.Decision != nil:
		return e.Decision.At
	case e.open():
		return time.Time{}
	}
	at := e.CreatedAt
	for _, p := range e.plays {
		if p.EndedAt.After(at) {
			at = p.EndedAt
		}
	}
	return at
}

// meanCost is the plain mean of the scenarios' costs: what a pack is ranked by.
func (e *entry) meanCost() *float64 {
	sum, n := 0.0, 0
	for i := range e.plays {
		if sc, ok := e.plays[i].result(); ok && sc.Cost != nil {
			sum, n = sum+*sc.Cost, n+1
		}
	}
	if n == 0 {
		return nil
	}
	sum /= float64(n)
	return &sum
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
	byCost := s.arena.Incentive == incentive.CostArenaRule
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

// divergent says whether two validators judged one scenario differently.
func (e *entry) divergent() bool {
	first := map[string]bool{}
	for _, r := range e.reports {
		for _, sc := range r.scenarios {
			if was, ok := first[sc.Name]; ok && was != sc.Qualified {
				return true
			}
			first[sc.Name] = sc.Qualified
		}
	}
	return false
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

// maxEvidence is how many episodes one snapshot reads; the next goes on.
const maxEvidence = 25

// readUsage sums what the models of decided runs took, from their evidence.
func (b *Backend) readUsage(ctx context.Context, s *snapshot) {
	left := maxEvidence
	for _, e := range s.entries {
		for i := range e.plays {
			p := &e.plays[i]
			if p.State != agon.RunScored {
				continue
			}
			s.usage.Reports++
			u, ok := b.memory.used[p.RunSpec.Run]
			if !ok && e.State == agon.SubmissionScored && left > 0 {
				left--
				ep, err := b.episode(ctx, p)
				var withheld *agon.Error
				if err != nil && !errors.As(err, &withheld) && !errors.Is(err, blob.ErrNotFound) {
					continue // it is read at the next look
				}
				u = usage{Calls: int64(ep.Cost.Calls), Tokens: ep.Cost.Input + ep.Cost.Output, Micros: ep.Cost.Micros}
				if len(b.memory.used) > 4*maxRuns {
					clear(b.memory.used)
				}
				b.memory.used[p.RunSpec.Run] = u
			}
			s.usage.Calls, s.usage.Tokens, s.usage.Micros = s.usage.Calls+u.Calls, s.usage.Tokens+u.Tokens, s.usage.Micros+u.Micros
		}
	}
}

func (b *Backend) episode(ctx context.Context, p *play) (kindpack.Episode, error) {
	var ep kindpack.Episode
	if p.evidence == "" {
		return ep, blob.ErrNotFound
	}
	m, err := blob.GetManifest(ctx, publicBlobs{b}, p.evidence, evidenceLimits)
	if err != nil {
		return ep, err
	}
	for _, f := range m.Files {
		if f.Path != kindpack.FileEpisode {
			continue
		}
		c, err := publicBlobs{b}.Get(ctx, f.Digest)
		if err != nil {
			return ep, err
		}
		if err := json.Unmarshal(c, &ep); err != nil {
			return ep, fmt.Errorf("read episode of %s: %w", p.RunSpec.Run, err)
		}
	}
	return ep, nil
}

// evidenceLimits bound what an attempt left, as it is read here.
var evidenceLimits = blob.TreeLimits{Files: 100, FileBytes: 8 << 20, Bytes: 32 << 20}

// evidence returns the files that an attempt left, if the public may read them.
func (b *Backend) evidence(ctx context.Context, d agon.Digest) (map[string][]byte, error) {
	if d == "" {
		return nil, blob.ErrNotFound
	}
	list, err := blob.GetFiles(ctx, publicBlobs{b}, d, evidenceLimits)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, f := range list {
		out[f.Path] = f.Content
	}
	return out, nil
}

// publicBlobs reads what anybody may read.
type publicBlobs struct{ b *Backend }

func (p publicBlobs) Get(ctx context.Context, d agon.Digest) ([]byte, error) {
	return p.b.cfg.API.Blob(ctx, anybody, d)
}

func (p publicBlobs) Put(context.Context, []byte) (agon.Digest, error) {
	return "", fmt.Errorf("store blob: this is for reading")
}

func (p publicBlobs) Has(ctx context.Context, d agon.Digest) (bool, error) {
	_, err := p.Get(ctx, d)
	return err == nil, nil
}
