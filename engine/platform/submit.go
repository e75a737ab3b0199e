package platform

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
)

// maxName bounds the name of a submission, in bytes.
const maxName = 80

// Submit passes a submission through the gates and queues its runs. Files are
// durable before the row that names them; the row, its runs and everything
// that refers to them are one transaction. A refusal stores nothing.
func (p *Platform) Submit(ctx context.Context, c Caller, arena string, r client.SubmitRequest) (*client.Submission, error) {
	return p.Enter(ctx, c, arena, r, nil)
}

// Enter is Submit with more to do in the same transaction: also runs where the
// submission is new, before its runs are queued, and refuses it by an error.
func (p *Platform) Enter(ctx context.Context, c Caller, arena string, r client.SubmitRequest, also func(*store.Tx, store.Entry) error) (*client.Submission, error) {
	if c.Hotkey == "" {
		return nil, refuse(401, "unsigned", "a submission is signed by its miner")
	}
	a, err := p.openArena(ctx, arena)
	if err != nil {
		return nil, err
	}
	if a.Contest != nil && also == nil {
		e := refuse(409, "use_coordinator", "arena %s is entered through its coordinator, by a claim", a.ID)
		if c, ok := p.cfg.Coordinators[a.Kind].(Entrance); ok {
			e.Mend = c.Entrance()
		}
		return nil, e
	}
	tree, err := p.checkFiles(r)
	if err != nil {
		return nil, err
	}
	files := tree.Files
	coldkey, ok, err := p.ledgerOf(a).Registered(ctx, a.Netuid, c.Hotkey)
	if err != nil {
		return nil, ledgerError(err)
	}
	if !ok {
		e := refuse(403, "unregistered", "hotkey %s is not registered on netuid %d", c.Hotkey, a.Netuid)
		e.Mend = fmt.Sprintf("register the hotkey first: agon ledger register --netuid %d", a.Netuid)
		return nil, e
	}
	if r.Licence != a.Licence {
		e := refuse(422, "licence", "arena %s takes submissions under %s only", a.ID, a.Licence)
		e.Field, e.Limit, e.Mend = "licence", a.Licence, "agree to it: leave --licence out, or give --licence "+a.Licence
		return nil, e
	}
	findings, err := p.checkKind(ctx, a, files)
	if err != nil {
		return nil, err
	}
	beacon, err := p.beaconFor(ctx, a) // of a block that comes after all that the miner has chosen
	if err != nil {
		return nil, err
	}
	structure, err := p.structure(a, files)
	if err != nil {
		return nil, err
	}
	entry := store.Entry{Findings: findings, Structure: structure, Submission: agon.Submission{
		ID: newID(), Arena: a.ID, Miner: c.Hotkey, Coldkey: coldkey, Netuid: a.Netuid, Name: r.Name, Digest: tree.Digest,
		Licence: r.Licence, State: agon.SubmissionQueued, CreatedAt: p.now(), Beacon: &beacon,
	}}
	if entry.Name == "" {
		entry.Name = "unnamed"
	}
	// Look before what is dear; the transaction looks again.
	var old *store.Entry
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		old, err = p.lastGates(tx, a, entry)
		return err
	})
	if err != nil {
		return nil, err
	}
	var like *sketched
	if old == nil {
		var done func()
		if like, done, err = p.compare(ctx, a, &entry, files); err != nil {
			return nil, err
		}
		defer done()
		if err := tree.Put(ctx, p.cfg.Blobs); err != nil {
			return nil, fmt.Errorf("store submission: %w", err)
		}
	}
	queued := 0
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) (err error) {
		queued = 0
		if old, err = p.lastGates(tx, a, entry); err != nil {
			return err
		}
		if old != nil {
			if err := feeStands(tx, old.ID); err != nil {
				return err
			}
			queued, err = p.revive(tx, a, old)
			return err
		}
		if queued, err = p.admit(tx, a, &entry, tree, also); err != nil || like == nil {
			return err
		}
		return p.join(tx, a, &entry, like)
	})
	if err != nil {
		return nil, err
	}
	if like != nil && old == nil {
		like.index.Add(entry.ID, like.sketch)
	}
	if queued > 0 {
		p.waiters.news(queued)
		p.hub.changed("")
	}
	id := entry.ID
	if old != nil {
		id = old.ID
	}
	s, err := p.Submission(ctx, c, id)
	if err != nil {
		return nil, err
	}
	s.Created = old == nil
	return s, nil
}

// compare passes a submission through the gates that read others: the kind's, and that of
// copies. What they compare with must not change before the submission is in: the caller
// calls done then.
func (p *Platform) compare(ctx context.Context, a agon.Arena, e *store.Entry, files []blob.File) (like *sketched, done func(), err error) {
	rule, err := p.rule(a)
	if err != nil {
		return nil, nil, err
	}
	_, gated := p.cfg.Kinds[a.Kind].(kind.Gater)
	charged := rule.Pairing != nil || nearCopies(a)
	if !gated && !charged {
		return nil, func() {}, nil
	}
	done = p.entering.hold(a.ID)
	if err = p.gate(ctx, a, e, files); err == nil && charged {
		err = p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
			if like, err = p.sketch(tx, a, files); err != nil {
				return err
			}
			return p.nearCopy(tx, a, e, like)
		})
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return like, done, nil
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func (p *Platform) openArena(ctx context.Context, id string) (a agon.Arena, err error) {
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		if a, err = tx.Arena(id); err != nil {
			return noArena(tx, err, id)
		}
		return nil
	})
	if err != nil {
		return a, err
	}
	if a.State != agon.ArenaOpen {
		e := refuse(409, "arena_"+string(a.State), "arena %s is %s and takes no submissions", a.ID, a.State)
		e.Mend = "wait until it opens, or choose another: agon arena list"
		return a, e
	}
	return a, nil
}

func (p *Platform) submitLimits() blob.TreeLimits {
	return blob.TreeLimits{Files: p.cfg.MaxFiles, FileBytes: p.cfg.MaxFileBytes, Bytes: p.cfg.MaxSubmitBytes}
}

func filesError(err error) error {
	e := refuse(422, "bad_files", "%s", err)
	e.Field = "files"
	if errors.Is(err, blob.ErrTooLarge) {
		e.Status, e.Code = 413, "too_large"
	}
	return e
}

// checkFiles is the size gate, and that names are what they seem.
func (p *Platform) checkFiles(r client.SubmitRequest) (*blob.Sealed, error) {
	tooLarge := func(field string, limit int64, format string, args ...any) error {
		e := refuse(413, "too_large", format, args...)
		e.Field, e.Limit = field, strconv.FormatInt(limit, 10)+" bytes"
		return e
	}
	if len(r.Files) > p.cfg.MaxFiles {
		e := refuse(413, "too_large", "%d files are too many", len(r.Files))
		e.Field, e.Limit = "files", strconv.Itoa(p.cfg.MaxFiles)+" files"
		return nil, e
	}
	var total int64
	files := make([]blob.File, 0, len(r.Files))
	for _, f := range r.Files {
		n := int64(len(f.Content))
		if n > p.cfg.MaxFileBytes {
			return nil, tooLarge(cut(f.Path, 80), p.cfg.MaxFileBytes, "file %q has %d bytes", cut(f.Path, 80), n)
		}
		if total += n; total > p.cfg.MaxSubmitBytes {
			return nil, tooLarge("files", p.cfg.MaxSubmitBytes, "the files together are too large")
		}
		files = append(files, blob.File{Path: f.Path, Content: f.Content})
	}
	if len(files) == 0 {
		e := refuse(422, "no_files", "a submission has at least one file")
		e.Field = "files"
		return nil, e
	}
	if !plainLine(r.Name) || len(r.Name) > maxName {
		e := refuse(422, "bad_name", "the name is one line of printable text")
		e.Field, e.Limit = "name", strconv.Itoa(maxName)+" bytes"
		return nil, e
	}
	tree, err := blob.Seal(files, p.submitLimits())
	if err != nil {
		return nil, filesError(fmt.Errorf("sum tree: %w", err))
	}
	return tree, nil
}

// checkKind asks the kind; it returns the warnings.
func (p *Platform) checkKind(ctx context.Context, a agon.Arena, files []blob.File) ([]agon.Finding, error) {
	k := p.cfg.Kinds[a.Kind]
	if k == nil {
		return nil, fmt.Errorf("arena %s: unknown kind %q", a.ID, a.Kind)
	}
	findings, err := k.Check(ctx, &a, blob.FS(files))
	if err != nil {
		return nil, fmt.Errorf("check submission: %w", err)
	}
	i := slices.IndexFunc(findings, func(f agon.Finding) bool { return !f.Warning })
	if i < 0 {
		return findings, nil
	}
	e := refuse(422, findings[i].Code, "%s", findings[i].Message)
	e.Field, e.Limit, e.Findings = findings[i].Field, findings[i].Limit, findings
	return nil, e
}

// structure asks the kind what files do, if it can tell.
func (p *Platform) structure(a agon.Arena, files []blob.File) (string, error) {
	k, ok := p.cfg.Kinds[a.Kind].(kind.Copier)
	if !ok {
		return "", nil
	}
	s, err := k.Structure(blob.FS(files))
	if err != nil {
		e := refuse(422, "structure", "what the files do cannot be told: %s", cut(err.Error(), 300))
		e.Field = "files"
		return "", e
	}
	return s, nil
}

// lastGates looks for the same bytes, or others that do the same, and counts
// the coldkey's entries. It returns the submission that the same miner made of
// these bytes before, if any: sending again is not entering again, so no cap applies.
func (p *Platform) lastGates(tx *store.Tx, a agon.Arena, e store.Entry) (*store.Entry, error) {
	old, err := tx.EntryByDigest(a.ID, e.Digest)
	switch {
	case err == nil && old.Miner == e.Miner:
		return &old, nil
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return nil, err
	}
	if a.CooldownSeconds > 0 {
		last, cerr := tx.LastEntryOf(a.ID, e.Miner)
		if cerr != nil {
			return nil, cerr
		}
		if left := last.Add(time.Duration(a.CooldownSeconds) * time.Second).Sub(e.CreatedAt); left > 0 && !last.IsZero() {
			x := refuse(429, "cooldown", "hotkey %s entered at %s: its next entry may come in %d seconds", e.Miner, last.UTC().Format(time.RFC3339), int64(left.Seconds())+1)
			x.Limit = strconv.Itoa(a.CooldownSeconds) + " seconds between entries of a hotkey"
			x.Mend = "wait, and try changes with agon try first"
			return nil, x
		}
	}
	if a.SubmissionsPerColdkey > 0 {
		n, cerr := tx.CountColdkey(a.ID, e.Coldkey, e.CreatedAt.Add(-24*time.Hour))
		if cerr != nil {
			return nil, cerr
		}
		if n >= int64(a.SubmissionsPerColdkey) {
			x := refuse(429, "coldkey_cap", "coldkey %s has entered %d submissions in the last 24 hours", e.Coldkey, n)
			x.Limit = strconv.Itoa(a.SubmissionsPerColdkey) + " a day and coldkey"
			x.Mend = "wait, and try changes with agon try first"
			return nil, x
		}
	}
	if err == nil {
		x := refuse(409, "duplicate", "another miner entered the same files before")
		public, err := p.isPublic(tx, old.Submission)
		if err != nil {
			return nil, err
		}
		if public {
			x.Message = fmt.Sprintf("miner %s entered the same files before, as submission %s", old.Miner, old.ID)
		}
		return nil, x
	}
	first, err := tx.EntryByStructure(a.ID, e.Structure)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	public, err := p.isPublic(tx, first.Submission)
	if err != nil {
		return nil, err
	}
	x := refuse(409, "duplicate_structure", "an earlier submission does the same; names, layout and padding are not a difference")
	switch {
	case first.Miner == e.Miner:
		x.Message = fmt.Sprintf("your submission %s does the same; names, layout and padding are not a difference", first.ID)
		x.Mend = "change what the agent does; the same bytes may be sent again"
	case public:
		x.Message = fmt.Sprintf("submission %s of miner %s does the same; names, layout and padding are not a difference", first.ID, first.Miner)
	}
	return nil, x
}

// admit stores a submission, what its files are, and its first runs.
func (p *Platform) admit(tx *store.Tx, a agon.Arena, e *store.Entry, tree *blob.Sealed, also func(*store.Tx, store.Entry) error) (queued int, err error) {
	period, err := p.period(tx, a)
	if err != nil {
		return 0, err
	}
	b := *e.Beacon // the transaction may run twice
	b.Period, e.Beacon = period.N, &b
	if a.Supply != nil && a.Supply.Entries == agon.EntriesNext && b.Rule == agon.BeaconBlock {
		b.Period++ // it waits until that period's set is played (opening)
	}
	if opening, err := p.opening(tx, a, b.Period); err != nil {
		return 0, err
	} else if opening && b.Rule == agon.BeaconBlock {
		b.Hash = "" // who sits comes first: it begins then (awaitBeacons)
	}
	if *e, err = tx.InsertEntry(*e); err != nil {
		return 0, err
	}
	if also != nil {
		if err := also(tx, *e); err != nil {
			return 0, err
		}
	}
	if e.State == agon.SubmissionQueued { // else a gate has excluded it
		if err := p.hold(tx, a, *e); err != nil {
			return 0, err
		}
	}
	ref := store.BlobRef{Digest: e.Digest, What: store.RefCode, Owner: e.ID}
	if err := tx.AddRef(ref); err != nil {
		return 0, err
	}
	for _, ref.Digest = range tree.Sums {
		if err := tx.AddRef(ref); err != nil {
			return 0, err
		}
	}
	if e.State != agon.SubmissionQueued {
		return 0, nil // a gate has excluded it
	}
	if entries, _ := p.vets(a); entries {
		return 0, p.askVetting(tx, *e, store.VetEntry) // it begins when somebody has passed it (vetted)
	}
	if b.Rule != agon.BeaconNone && b.Hash == "" {
		return 0, nil // it begins when the block is there (awaitBeacons)
	}
	return p.first(tx, a, *e)
}

// first queues what is played of a submission first.
func (p *Platform) first(tx *store.Tx, a agon.Arena, e store.Entry) (int, error) {
	plan, err := p.plan(tx, a, e, nil)
	if err != nil {
		return 0, err
	}
	if len(plan.Runs) == 0 {
		return 0, fmt.Errorf("plan submission: nothing to play: %s", plan.Why)
	}
	return p.queue(tx, a, e, plan.Runs)
}

// plan asks the kind what to play next.
func (p *Platform) plan(tx *store.Tx, a agon.Arena, e store.Entry, runs []store.Run) (agon.Plan, error) {
	k := p.cfg.Kinds[a.Kind]
	if k == nil {
		return agon.Plan{}, fmt.Errorf("unknown kind %q", a.Kind)
	}
	a, err := p.inPeriod(tx, a, e)
	if err != nil {
		return agon.Plan{}, err
	}
	_, seats, err := p.seats(tx, a)
	if err != nil {
		return agon.Plan{}, err
	}
	v := agon.View{Arena: a, Submission: e.Submission}
	for _, s := range seats {
		v.Seats = append(v.Seats, seatOf(a.ID, s))
	}
	if len(v.Seats) > 0 {
		v.Champion = &v.Seats[0]
	}
	if runs, _, err = agreed(tx, a, runs); err != nil {
		return agon.Plan{}, err
	}
	for _, r := range runs {
		v.Runs = append(v.Runs, r.Run)
	}
	if err := p.contest(tx, a, e, runs, &v); err != nil {
		return agon.Plan{}, err
	}
	if len(a.Stages) > 0 {
		if v.Top, err = tx.TopScore(a.ID); err != nil {
			return agon.Plan{}, err
		}
	}
	plan, err := k.Plan(v)
	if err != nil {
		return agon.Plan{}, fmt.Errorf("plan submission: %w", err)
	}
	plan.Runs = replicate(a, plan.Runs)
	if len(plan.Runs)+len(runs) > p.cfg.MaxRuns {
		return agon.Plan{}, fmt.Errorf("plan submission: over %d runs", p.cfg.MaxRuns)
	}
	return plan, nil
}

// queue stores planned runs.
func (p *Platform) queue(tx *store.Tx, a agon.Arena, e store.Entry, specs []agon.RunSpec) (int, error) {
	return p.queueIn(tx, a, e, specs, "")
}

// queueIn is queue into a group of pairs or of an appeal, whose runs bring their seeds.
func (p *Platform) queueIn(tx *store.Tx, a agon.Arena, e store.Entry, specs []agon.RunSpec, own string) (int, error) {
	now := p.now()
	wait, _ := agon.StateDeadline(agon.RunQueued, p.cfg.Lease, p.cfg.QueueFor)
	if store.PairChallenger(own) != "" {
		wait = min(wait, pairWait)
	}
	for _, s := range specs {
		if len(s.Tasks) == 0 {
			return 0, errors.New("plan submission: a run without tasks")
		}
		if reflect.ValueOf(s.Policy).IsZero() {
			s.Policy = a.Policy
		}
		pd, err := PolicyDigest(s.Policy)
		if err != nil {
			return 0, err
		}
		if err := tx.PutPolicy(pd, s.Policy); err != nil {
			return 0, err
		}
		s.Run, s.Arena = newID(), a.ID
		group := own
		if own == "" {
			round := int64(0)
			if s.Rival != nil {
				round = int64(s.Rival.Round)
			}
			if s.Seed, err = p.seedOf(tx, a, &e, seeds.TaskOf(a, s), round); err != nil {
				return 0, err
			}
			group = groupOf(a, s)
		}
		err = tx.InsertRun(store.Run{
			Run:    agon.Run{RunSpec: s, Submission: e.ID, Deadline: now.Add(wait), CreatedAt: now},
			SubSeq: e.Seq, PolicyDigest: pd, MaxHold: p.maxHold(s), Group: group,
		})
		if err != nil {
			return 0, fmt.Errorf("queue run: %w", err)
		}
	}
	return len(specs), nil
}

// TrySeed is the seed of a try, which no arena's secret goes into.
func TrySeed(arena string, d agon.Digest, s agon.RunSpec) int64 {
	parts := []string{arena, string(d), strconv.Itoa(s.Replica)}
	for _, t := range s.Tasks {
		parts = append(parts, t.Key, string(t.Digest))
	}
	return seeds.Derive("run", parts...)
}

// maxHold bounds one attempt: a holder that heartbeats for ever would
// otherwise keep a run for ever.
func (p *Platform) maxHold(s agon.RunSpec) time.Duration {
	perTask := time.Duration(max(s.Policy.Agent.WallMS, 0)+max(s.Policy.Grader.WallMS, 0)) * time.Millisecond
	if s.Rival != nil && !s.Half() {
		perTask *= time.Duration(2 * max(s.Rival.Pairs, 1)) // each pair plays both sides
	}
	return max(p.cfg.MaxHold, 4*perTask*time.Duration(len(s.Tasks)))
}
