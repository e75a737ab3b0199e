package platform

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Bounds of what a page of the API shows at once.
const (
	maxBoard = 1000
	// maxBanded is how many lines of a board, the first, have intervals and say why a score is 0.
	maxBanded = 100
	maxPage   = 500
	defPage   = 50
)

var arenaID = lazyregexp.New(`^[a-z0-9][a-z0-9-]{0,119}$`)

// defaultMaxLeases stands in for an arena's zero.
const defaultMaxLeases = 16

// EnsureArena makes an arena or brings its tasks, policy and rules up to date.
// State and CreatedAt of an arena that exists stay as they are. The trees of
// its tasks must be in the blob store. Runs already planned keep the tasks and
// the policy they were planned with.
func (p *Platform) EnsureArena(ctx context.Context, a agon.Arena) error {
	if a.Supply != nil && arenaID().MatchString(a.ID) {
		if err := checkPeriod(a); err != nil {
			return fmt.Errorf("arena %q: %w", a.ID, err)
		}
		if err := p.supply(ctx, &a); err != nil {
			return fmt.Errorf("arena %q: %w", a.ID, err)
		}
	}
	if err := p.checkArena(&a); err != nil {
		return fmt.Errorf("arena %q: %w", a.ID, err)
	}
	var refs []store.BlobRef
	for _, t := range a.Tasks {
		m, err := blob.GetManifest(ctx, p.cfg.Blobs, t.Digest, blob.TreeLimits{})
		if err != nil {
			return fmt.Errorf("arena %q: task %q: %w", a.ID, t.Key, err)
		}
		refs = append(refs, treeRefs(t.Digest, m, store.BlobRef{What: store.RefTask, Owner: a.ID + "/" + t.Key, Hidden: t.Hidden})...)
	}
	for _, t := range a.Retired {
		m, err := blob.GetManifest(ctx, p.cfg.Blobs, t.Digest, blob.TreeLimits{})
		if err != nil {
			return fmt.Errorf("arena %q: retired task %q: %w", a.ID, t.Key, err)
		}
		refs = append(refs, treeRefs(t.Digest, m, store.BlobRef{What: store.RefTask, Owner: a.ID + "/" + t.Key})...)
	}
	if a.Embargo > 0 {
		p.embargoes.Store(true)
	}
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		now, was := a, (*agon.Arena)(nil)
		now.Tasks, now.Retired, now.Stages = slices.Clone(a.Tasks), slices.Clone(a.Retired), slices.Clone(a.Stages)
		old, err := tx.Arena(a.ID)
		switch {
		case err == nil:
			was = &old
			if old.Kind != a.Kind || old.Netuid != a.Netuid {
				return fmt.Errorf("arena %q: kind and netuid cannot change (have %s on %d)", a.ID, old.Kind, old.Netuid)
			}
			now.State, now.CreatedAt = old.State, old.CreatedAt
			keepGatewayKeys(&now, old)
		case errors.Is(err, store.ErrNotFound):
			if now.CreatedAt.IsZero() {
				now.CreatedAt = p.now()
			}
		default:
			return err
		}
		for _, r := range refs {
			if err := tx.AddRef(r); err != nil {
				return err
			}
		}
		if err := p.cover(tx, &now, was); err != nil {
			return err
		}
		if err := tx.PutArena(now); err != nil {
			return err
		}
		_, err = p.period(tx, now)
		return err
	})
	if err != nil {
		return err
	}
	if a.Supply != nil {
		if err := p.rotateArena(ctx, a.ID, p.supplyOf(a.ID)); err != nil {
			return fmt.Errorf("arena %q: %w", a.ID, err)
		}
	}
	return p.findOpened(ctx)
}

func (p *Platform) checkArena(a *agon.Arena) error {
	if !arenaID().MatchString(a.ID) {
		return errors.New("id: want lower-case letters, digits and dashes, at most 120")
	}
	if p.cfg.Kinds[a.Kind] == nil {
		return fmt.Errorf("unknown kind %q", a.Kind)
	}
	if err := kind.CheckOptions(p.cfg.Kinds[a.Kind], a.Options); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	rule, ok := p.cfg.Incentives[a.Incentive]
	if !ok || rule.Decide == nil {
		return fmt.Errorf("unknown incentive %q", a.Incentive)
	}
	if err := rule.CheckNumbers(a.IncentiveNumbers); err != nil {
		return fmt.Errorf("incentive_numbers: %w", err)
	}
	if len(a.Tasks) == 0 {
		return errors.New("no tasks")
	}
	if err := checkPeriod(*a); err != nil {
		return err
	}
	if a.Evidence != "" && a.Evidence != agon.EvidenceRequired && a.Evidence != agon.EvidenceForeign {
		return fmt.Errorf("evidence: %q is neither %s nor %s", a.Evidence, agon.EvidenceRequired, agon.EvidenceForeign)
	}
	if s := a.RejudgeShare(); !(s >= 0 && s <= 1) {
		return fmt.Errorf("rejudge: %v: want 0 to 1", s)
	}
	if a.RejudgePerDay < 0 {
		return fmt.Errorf("rejudge_per_day: %d: want 0 (the default) or more", a.RejudgePerDay)
	}
	if err := p.checkCharges(a, rule); err != nil {
		return err
	}
	if len(a.Publishers) > agon.MostPublishers {
		return fmt.Errorf("publishers: %d: want at most %d", len(a.Publishers), agon.MostPublishers)
	}
	for _, h := range a.Publishers {
		if _, err := auth.ParseSS58(h); err != nil {
			return fmt.Errorf("publishers: %.80q is not a hotkey: %w", h, err)
		}
	}
	if a.Embargo < 0 || a.Embargo > agon.MostEmbargo {
		return fmt.Errorf("embargo_hours: %d: want 0 to %d", a.Embargo, agon.MostEmbargo)
	}
	if !agon.IsNearCopies(a.NearCopies) {
		return fmt.Errorf("near_copies: %q: want %s, %s or %s", a.NearCopies, agon.NearCopiesCharge, agon.NearCopiesExclude, agon.NearCopiesShare)
	}
	keys, contents := map[string]bool{}, map[agon.Digest]string{}
	for _, t := range slices.Concat(a.Tasks, a.Retired) {
		if t.Key == "" || keys[t.Key] {
			return fmt.Errorf("task %q: keys must be there and differ", t.Key)
		}
		keys[t.Key] = true
		if err := t.Digest.Validate(); err != nil {
			return fmt.Errorf("task %q: %w", t.Key, err)
		}
		if other := contents[t.Digest]; other != "" {
			return fmt.Errorf("tasks %q and %q: their content is the same", other, t.Key)
		}
		contents[t.Digest] = t.Key
	}
	if err := checkStages(a, keys); err != nil {
		return err
	}
	if a.State == "" {
		a.State = agon.ArenaOpen
	}
	if a.Attempts < 0 { // 0 is not a retry; what an arena file leaves open is filled in where it is read
		return fmt.Errorf("attempts: %d retries: want 0 or more", a.Attempts)
	}
	if a.MaxLeases <= 0 {
		a.MaxLeases = defaultMaxLeases
	}
	return nil
}

// checkStages checks the stages of an arena whose tasks have these keys.
func checkStages(a *agon.Arena, keys map[string]bool) error {
	if len(a.Stages) > 0 && (a.Contest != nil || a.Replicas > 1) {
		return errors.New("stages: an arena with them has neither replicas nor a contest: a stage says how many play it")
	}
	names := map[string]bool{}
	for _, s := range a.Stages {
		switch {
		case !agon.StageName.MatchString(s.Name) || names[s.Name]:
			return fmt.Errorf("stages: %q: names are 1 to 30 of a-z, 0-9 and _, and differ", s.Name)
		case len(s.Tasks) == 0:
			return fmt.Errorf("stages: %s has no tasks", s.Name)
		case !(s.Threshold >= 0 && s.Threshold <= 1) || !(s.OfTop >= 0 && s.OfTop <= 1):
			return fmt.Errorf("stages: %s: threshold and of_top are from 0 to 1", s.Name)
		case s.Evaluations < 0 || s.Evaluations > 9:
			return fmt.Errorf("stages: %s: evaluations are 0 to 9", s.Name)
		}
		names[s.Name] = true
		for _, t := range s.Tasks {
			if !keys[t] {
				return fmt.Errorf("stages: %s: the arena has no task %q", s.Name, t)
			}
		}
	}
	return nil
}

// treeRefs makes one reference for a manifest and each of its files.
func treeRefs(d agon.Digest, m blob.Manifest, r store.BlobRef) []store.BlobRef {
	r.Digest = d
	refs := []store.BlobRef{r}
	for _, e := range m.Files {
		r.Digest = e.Digest
		refs = append(refs, r)
	}
	return refs
}

// SetArenaState opens, pauses, holds or closes an arena. Paused and closed arenas
// admit nothing; what is queued is still played. A held arena plays nothing
// either: its runs under way go back into the queue, at no retry of theirs, and
// queued ones outlast the hold. The reason may be empty.
func (p *Platform) SetArenaState(ctx context.Context, c Caller, id string, s agon.ArenaState, reason string) error {
	if err := operatorOnly(c); err != nil {
		return err
	}
	if reason != "" {
		if err := needReason(reason); err != nil {
			return err
		}
	}
	if !slices.Contains([]agon.ArenaState{agon.ArenaOpen, agon.ArenaPaused, agon.ArenaHeld, agon.ArenaClosed}, s) {
		e := refuse(422, "bad_state", "unknown arena state %q", cut(string(s), 40))
		e.Field, e.Mend = "state", "use open, paused, held or closed"
		return e
	}
	var back []string
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		a, err := tx.Arena(id)
		if err != nil {
			return noArena(tx, err, id)
		}
		was := a.State
		a.State = s
		if err := tx.PutArena(a); err != nil {
			return err
		}
		if back, err = p.holdQueue(tx, a, was); err != nil {
			return err
		}
		return p.logAction(tx, c, "state", id, reason, string(was)+" to "+string(s))
	})
	if err != nil {
		return err
	}
	for _, run := range back {
		p.hub.changed(run)
	}
	p.waiters.news(1)
	return nil
}

func operatorOnly(c Caller) error {
	if c.Operator {
		return nil
	}
	if c.Hotkey == "" {
		return refuse(401, "unsigned", "this needs the operator's signature")
	}
	e := refuse(403, "not_operator", "only the operator may do this")
	e.Mend = "sign with the operator's key: add --wallet.name operator --wallet.path DATA/wallets, where DATA is the server's data directory"
	return e
}

// Arenas returns all arenas by creation, without the digests of hidden tasks.
func (p *Platform) Arenas(ctx context.Context) ([]client.Arena, error) {
	out := []client.Arena{}
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		list, err := tx.Arenas()
		if err != nil {
			return err
		}
		for _, a := range list {
			x, err := p.arenaView(tx, a)
			if err != nil {
				return err
			}
			x.Tasks = openDigests(x.Tasks)
			out = append(out, x)
		}
		return nil
	})
	return out, err
}

// Arena returns one arena, without the digests of hidden tasks.
func (p *Platform) Arena(ctx context.Context, id string) (*client.Arena, error) {
	a, err := p.FullArena(ctx, id)
	if err == nil {
		a.Tasks = openDigests(a.Tasks)
	}
	return a, err
}

// openDigests leaves out the digests, images and data sets of hidden tasks: leases carry them, and
// nobody else needs the name of what only validators may read.
func openDigests(tasks []agon.TaskRef) []agon.TaskRef {
	out := slices.Clone(tasks)
	for i := range out {
		if out[i].Hidden {
			out[i].Digest, out[i].Image, out[i].Datasets, out[i].GPU = "", "", nil, nil
		}
	}
	return out
}

// FullArena returns one arena as it is stored; for the platform's own process.
func (p *Platform) FullArena(ctx context.Context, id string) (*client.Arena, error) {
	var out client.Arena
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		a, err := tx.Arena(id)
		if err != nil {
			return noArena(tx, err, id)
		}
		out, err = p.arenaView(tx, a)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// fairness says how luck and copies fare in an arena; a kind that decides by
// tests of its own has none of the rules' rates.
func (p *Platform) fairness(a agon.Arena) string {
	if p.decider(a) != nil {
		return ""
	}
	payer := incentive.PaidByValidators
	switch {
	case a.PairsPaidBy == agon.PaidByChallenger:
		payer = incentive.PaidByChallenger
	case a.Policy.Gateway != "":
		payer = incentive.PaidByOperator
	}
	s := p.cfg.Incentives[a.Incentive].Fairness(a.IncentiveNumbers, payer)
	if a.EntryFee > 0 {
		s = strings.TrimSpace(s + " An entry costs " + usd(a.EntryFee) + " from the purse of its coldkey.")
	}
	return s
}

func (p *Platform) arenaView(tx *store.Tx, a agon.Arena) (client.Arena, error) {
	places, burned, err := p.places(tx, a)
	if err != nil {
		return client.Arena{}, err
	}
	out := client.Arena{Arena: a, Seats: places, Burned: burned, Fairness: p.fairness(a), TierTest: p.tierTest(a)}
	if out.Seeds, err = p.seedsOf(tx, a); err != nil {
		return out, err
	}
	if out.Hidden, err = hiddenOf(tx, a); err != nil {
		return out, err
	}
	if out.Judge, err = p.JudgeStanding(a); err != nil {
		return out, err
	}
	if len(places) > 0 {
		out.Champion = &places[0].Seat
	}
	if out.Pays, err = p.pays(tx, a, places, burned); err != nil {
		return out, err
	}
	q, h, err := tx.Waiting(a.ID)
	if err != nil {
		return out, err
	}
	out.Queued, out.Playing = int(q), int(h)
	j, err := tx.CountJudgings(a.ID)
	out.Judging = int(j)
	return out, err
}

// Board returns the leaderboard of an arena: at most 1,000 submissions as
// Standings ranks them, and the last 1,000 decisions.
func (p *Platform) Board(ctx context.Context, arena string) (*client.Board, error) {
	var a agon.Arena
	b := &client.Board{Submissions: []client.BoardRow{}, Weights: []agon.Weight{}, Decisions: []client.BoardDecision{}}
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if a, err = tx.Arena(arena); err != nil {
			return noArena(tx, err, arena)
		}
		b.ID, b.Kind, b.Fairness = a.ID, a.Kind, p.fairness(a)
		if b.Seats, b.Burned, err = p.places(tx, a); err != nil {
			return err
		}
		if b.Pays, err = p.pays(tx, a, b.Seats, b.Burned); err != nil {
			return err
		}
		if len(b.Seats) > 0 {
			b.Champion = &b.Seats[0].Submission
		}
		if b.Appeals, err = appealsOf(tx, arena); err != nil {
			return err
		}
		list, err := p.rankedFrom(tx, a, 0, maxBoard)
		if err != nil {
			return err
		}
		first := list[:min(len(list), maxBanded)]
		values, err := valuesOf(tx, idsOf(first))
		if err != nil {
			return err
		}
		zeros, err := zerosOf(tx, first)
		if err != nil {
			return err
		}
		numbers := map[string]map[string]float64{}
		decisions, err := tx.Decisions(arena, maxBoard)
		if err != nil {
			return err
		}
		for _, d := range decisions {
			numbers[d.Challenger] = d.Numbers
		}
		var scored []ranked
		for _, e := range list {
			qualified, excluded := verdictOf(e)
			row := client.BoardRow{
				ID: e.ID, Name: e.Name, Miner: e.Miner, Score: e.Score, Solved: e.Solved, Total: e.Total,
				CostMicros: e.CostMicros, State: e.State, Scripted: e.Scripted, Qualified: qualified, ExcludedReason: excluded, Zero: zeros[e.ID],
			}
			band, _ := BandOf(a, e.Score, e.Total, values[e.ID])
			if band != nil {
				row.Low, row.High = &band.Low, &band.High
			}
			if e.Score != nil && len(scored) < maxBanded {
				r := rankedOf(a, e.Score, e.Total, values[e.ID])
				r.numbers = numbers[e.ID]
				scored = append(scored, r)
			}
			b.Submissions = append(b.Submissions, row)
		}
		for i, t := range p.tiers(a, scored) {
			b.Submissions[i].Tier, b.TierTest = t, p.tierTest(a)
		}
		for _, d := range decisions {
			b.Decisions = append(b.Decisions, client.BoardDecision{
				Challenger: d.Challenger, Incumbent: d.Incumbent, Bar: d.Bar, Score: d.Score,
				Outcome: d.Outcome, Rule: d.Rule, Numbers: d.Numbers, Sentence: incentive.Say(p.cfg.Incentives, d),
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	g, err := p.ledgerOf(a).Metagraph(ctx, a.Netuid)
	if err != nil {
		return nil, ledgerError(err)
	}
	b.Weights = scaleWeights(g.Weights)
	if p.cfg.Agreement != nil {
		b.Agreement = p.cfg.Agreement(arena)
	}
	return b, nil
}

func idsOf(list []store.Entry) []string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = e.ID
	}
	return out
}

// scaleWeights makes the largest weight 65535 and leaves zeros out.
func scaleWeights(in []agon.Weight) []agon.Weight {
	out := []agon.Weight{}
	var top uint16
	for _, w := range in {
		top = max(top, w.Weight)
	}
	for _, w := range in {
		if w.Weight > 0 && top < math.MaxUint16 {
			w.Weight = uint16((uint64(w.Weight)*math.MaxUint16*2/uint64(top) + 1) / 2)
		}
		if w.Weight > 0 {
			out = append(out, w)
		}
	}
	return out
}

func ledgerError(err error) error {
	return &agon.Error{
		Status: 503, Code: "ledger", Message: "the ledger does not answer", Mend: "try again", Fault: agon.FaultLedger, Err: err,
	}
}

// Overview returns the boards of all arenas and the counts of all runs.
func (p *Platform) Overview(ctx context.Context) (*client.Overview, error) {
	o := &client.Overview{Arenas: []client.Board{}, Runs: client.RunCounts{ByFault: map[agon.Fault]int{}}}
	for _, f := range agon.Faults {
		o.Runs.ByFault[f] = 0
	}
	var arenas []agon.Arena
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if arenas, err = tx.Arenas(); err != nil {
			return err
		}
		if o.BoxDriver, err = tx.LastDriver(); err != nil {
			return err
		}
		counters, err := tx.Counters(store.ScopeArena, "")
		if err != nil {
			return err
		}
		for _, c := range counters {
			switch c.Key {
			case string(agon.RunScored):
				o.Runs.Scored += int(c.N)
			case string(agon.RunFailed):
				o.Runs.Failed += int(c.N)
			default:
				for _, f := range agon.Faults {
					if c.Key == faultKey(f) {
						o.Runs.ByFault[f] += int(c.N)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, a := range arenas {
		b, err := p.Board(ctx, a.ID)
		if err != nil {
			return nil, err
		}
		o.Arenas = append(o.Arenas, *b)
	}
	return o, nil
}

func faultKey(f agon.Fault) string { return "fault." + string(f) }

// FaultCounts returns the faults of ours by validator and by provider: what
// each has cost.
func (p *Platform) FaultCounts(ctx context.Context) ([]store.Counter, error) {
	var out []store.Counter
	err := p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		for _, s := range []string{store.ScopeValidator, store.ScopeProvider} {
			c, err := tx.Counters(s, "")
			if err != nil {
				return err
			}
			out = append(out, c...)
		}
		return nil
	})
	return out, err
}
