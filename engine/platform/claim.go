package platform

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/sandbox/datasets"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// maxWait bounds a long-poll.
const maxWait = 20 * time.Second

// maxLeasesOfRun bounds the leases of a run whatever the reasons were, so that
// even a platform that restarts for ever ends every run.
const maxLeasesOfRun = 12

// Claim takes the next run that the calling validator may play: retried runs
// first, then of the arena in which it holds the fewest leases, then of the one that
// it took a run of longest ago, so that one arena's long queue holds up no other, then
// the oldest submission's. It waits up to r.WaitMS (at most 20 s) and returns nil when nothing came. A claim whose caller has gone is given
// back at once.
func (p *Platform) Claim(ctx context.Context, c Caller, r client.ClaimRequest) (*client.Lease, error) {
	n, err := p.speak(c, r)
	if err != nil {
		return nil, err
	}
	l, err := p.ClaimFor(ctx, c, r, Terms{})
	if l != nil {
		l.Protocol = n
	}
	return l, err
}

// speak agrees with a validator on the version of the protocol. Foreign
// protocols have versions of their own.
func (p *Platform) speak(c Caller, r client.ClaimRequest) (int, error) {
	if c.Hotkey == "" {
		return 0, refuse(401, "unsigned", "a claim is signed by its validator")
	}
	return client.Agree(p.cfg.Protocols, r.Protocols)
}

// Terms are what a foreign protocol needs of a lease.
type Terms struct {
	// Hold is how long the lease lives without a heartbeat, where a protocol has
	// none; at most the run's longest hold.
	Hold time.Duration
	// HoldPair is added for each pair of a duel.
	HoldPair time.Duration
	// NoDuels leaves out runs against a rival.
	NoDuels bool
	// Stages and Submission leave out runs of others; empty: any may be taken.
	Stages     []string
	Submission string
	// Staff: the caller is the operator's own, whom a foreign protocol has let in; it
	// needs no permit. Its name begins with StaffName; Peers begins the names of those
	// who may take the same.
	Staff bool
	Peers string
}

// StaffName begins the names of validators that are the operator's own: no hotkey
// has a colon.
const StaffName = "staff:"

// Extend is a heartbeat of a lease on other terms: it lives for hold from now,
// never shorter than before and never beyond the run's longest hold. It tells
// until when, also for a lease that has ended.
func (p *Platform) Extend(ctx context.Context, c Caller, lease, token string, hold time.Duration) (until time.Time, err error) {
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		l, err := holder(ctx, tx, c, lease, token)
		if err != nil {
			return err
		}
		a, run := l.Attempt, l.Of
		if until = a.LeaseUntil; !a.Live() {
			return nil
		}
		a.SeenAt = p.now()
		if t := a.SeenAt.Add(hold); t.After(until) {
			until = t
		}
		if end := a.LeasedAt.Add(run.MaxHold); until.After(end) {
			until = end
		}
		a.LeaseUntil = until
		if err := tx.BeatAttempt(a); err != nil {
			return err
		}
		return tx.Touch(a.Run, run.State, run.State, until)
	})
	return until, err
}

// ClaimFor is Claim on other terms.
func (p *Platform) ClaimFor(ctx context.Context, c Caller, r client.ClaimRequest, terms Terms) (*client.Lease, error) {
	if terms.Staff != strings.HasPrefix(c.Hotkey, StaffName) {
		return nil, refuse(403, "not_staff", "%.60q is not a name of the operator's own", c.Hotkey)
	}
	arenas, err := p.claimable(ctx, c, r, terms.Staff)
	if err != nil {
		return nil, err
	}
	if err := p.believed(ctx, c.Hotkey); err != nil {
		return nil, err
	}
	owners := map[place]string{}
	if !terms.Staff {
		if owners, err = p.ownersOf(ctx, c, arenas); err != nil {
			return nil, err
		}
	}
	p.noteSeen(ctx, c.Hotkey, r.Driver, r.Version, gpuText(r.GPUs), arenas...)
	if !terms.Staff {
		p.noteJudge(ctx, c.Hotkey, arenas, owners, false)
	}
	me := p.waiters.join(c.Hotkey) // before looking, so that no news is missed
	defer p.waiters.leave(me)
	any := len(arenas) > 0 && p.busy.Load()
	if !any {
		any, err = p.anyQueued(ctx, arenas)
	}
	timer := time.NewTimer(min(max(time.Duration(r.WaitMS)*time.Millisecond, 0), maxWait))
	defer timer.Stop()
	for ; ; any, err = p.anyQueued(ctx, arenas) {
		if err != nil {
			return nil, err
		}
		if any {
			lease, more, err := p.tryClaim(ctx, c, r, arenas, owners, terms)
			if lease != nil || err != nil {
				return lease, err
			}
			if more {
				p.waiters.pass() // there is work, but not for this one
			}
		}
		select {
		case <-me.ch:
		case <-timer.C:
			return nil, nil
		case <-p.draining:
			return nil, nil // the next server has what comes
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ownersOf is the caller's coldkey on the ledgers of arenas.
func (p *Platform) ownersOf(ctx context.Context, c Caller, arenas []agon.Arena) (map[place]string, error) {
	owners := map[place]string{}
	for _, a := range arenas {
		at := placeOf(a)
		if _, known := owners[at]; known {
			continue
		}
		var err error
		if owners[at], err = p.permits.owned(ctx, p.ledgerOf(a), at, c.Hotkey, p.now()); err != nil {
			return nil, ledgerError(err)
		}
	}
	return owners, nil
}

// claimable returns the arenas that the caller asks for and may serve.
func (p *Platform) claimable(ctx context.Context, c Caller, r client.ClaimRequest, staff bool) (out []agon.Arena, err error) {
	if c.Hotkey == "" {
		return nil, refuse(401, "unsigned", "a claim is signed by its validator")
	}
	if len(r.Arenas) > 100 || len(r.Kinds) > 100 || len(r.Driver) > 80 {
		return nil, refuse(422, "bad_claim", "a claim names at most 100 arenas, 100 kinds and a driver of 80 bytes")
	}
	if len(r.MissingImages) > client.MaxMissingImages {
		return nil, refuse(422, "bad_claim", "missing_images: %d, at most %d", len(r.MissingImages), client.MaxMissingImages)
	}
	if err := agon.CheckGPUs(r.GPUs); err != nil {
		return nil, refuse(422, "bad_claim", "gpus%s", err)
	}
	for _, ref := range r.MissingImages {
		if len(ref) > 500 || !rootfs.Pinned(ref) {
			return nil, refuse(422, "bad_claim", "missing_images: %.100q is not an image with its digest", ref)
		}
	}
	list, err := p.cfg.Store.Arenas(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range r.Arenas {
		if !slices.ContainsFunc(list, func(a agon.Arena) bool { return a.ID == id }) {
			return nil, notFound("arena", id)
		}
	}
	permits := map[place]bool{}
	refused := false
	for _, a := range list {
		if (len(r.Arenas) > 0 && !slices.Contains(r.Arenas, a.ID)) || !slices.Contains(r.Kinds, a.Kind) {
			continue
		}
		if g, err := p.gauge(a); err != nil || g != nil && g.below {
			continue // calibrations that cannot be read are said where seats are decided; other arenas play on
		}
		at := placeOf(a)
		ok, known := permits[at]
		if staff {
			ok, known = true, true
		}
		if !known {
			if ok, err = p.permits.ask(ctx, p.ledgerOf(a), at, c.Hotkey, p.now()); err != nil {
				return nil, ledgerError(err)
			}
			permits[at] = ok
		}
		if ok {
			out = append(out, a)
		} else {
			refused = true
		}
	}
	if len(out) == 0 && refused {
		e := refuse(403, "no_permit", "hotkey %s holds no validator permit here", c.Hotkey)
		e.Mend = "stake as docs/ledger.md says, or have the operator run: agon ledger register --validator --hotkey " + c.Hotkey + " --coldkey COLDKEY --arena ARENA --wallet.name operator"
		return nil, e
	}
	return out, nil
}

// NeededImages are the images that the tasks of the arenas stand on which the caller
// serves, and their data sets (dataset:…), hidden ones too, each once and in order of its name.
func (p *Platform) NeededImages(ctx context.Context, c Caller, r client.ClaimRequest) (*client.NeededImages, error) {
	if _, err := p.speak(c, r); err != nil {
		return nil, err
	}
	arenas, err := p.claimable(ctx, c, r, false)
	if err != nil {
		return nil, err
	}
	tasks := map[string]int{}
	for _, a := range arenas {
		for _, t := range a.Tasks {
			if t.Image != "" {
				tasks[t.Image]++
			}
			for _, d := range t.Datasets {
				tasks[datasets.Prefix+d]++
			}
		}
	}
	out := &client.NeededImages{Images: []client.NeededImage{}}
	for _, ref := range slices.Sorted(maps.Keys(tasks)) {
		out.Images = append(out.Images, client.NeededImage{Image: ref, Tasks: tasks[ref]})
	}
	return out, nil
}

// imageDigests are the digests of images that references name, without sha256:.
func imageDigests(refs []string) []string {
	out := make([]string, 0, len(refs))
	for _, ref := range refs {
		out = append(out, ref[strings.LastIndexByte(ref, ':')+1:])
	}
	return out
}

func ids(arenas []agon.Arena) []string {
	out := make([]string, len(arenas))
	for i, a := range arenas {
		out[i] = a.ID
	}
	return out
}

// anyQueued reports whether one of arenas has a queued run. It is a read, so
// that an idle long-poll costs no write.
func (p *Platform) anyQueued(ctx context.Context, arenas []agon.Arena) (any bool, err error) {
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		any, err = tx.AnyQueued(ids(arenas))
		return err
	})
	return any, err
}

// noteSeen remembers that a validator serves arenas, with what it says of itself; gpus
// is from gpuText, or "": it says nothing of them. It writes rarely.
func (p *Platform) noteSeen(ctx context.Context, validator, driver, version, gpus string, arenas ...agon.Arena) {
	now := p.now()
	var due []string
	for _, a := range arenas {
		if p.seen.due(a.ID, validator, gpus, now, p.cfg.SeenFor/4) {
			due = append(due, a.ID)
		}
	}
	if len(due) == 0 {
		return
	}
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		for _, id := range due {
			if err := tx.SawValidator(id, validator, driver, version, gpus, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		// Worth no refusal: the run at stake is only offered to its loser earlier.
		p.cfg.Log.WarnContext(ctx, "note validator", "validator", validator, "err", err)
	}
}

// tryClaim takes a run if there is one. more says that runs wait which this
// validator may not have now.
func (p *Platform) tryClaim(ctx context.Context, c Caller, r client.ClaimRequest, arenas []agon.Arena, owners map[place]string, terms Terms) (l *client.Lease, more bool, err error) {
	token := hex.EncodeToString(randomBytes(32))
	id := newID()
	err = p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		l = nil
		if err := ctx.Err(); err != nil {
			return err // the caller left while the claim was in line
		}
		run, arena, err := p.nextRun(tx, store.Claimant{Validator: c.Hotkey, Driver: r.Driver, NoDuels: terms.NoDuels, Stages: terms.Stages, Submission: terms.Submission, Peers: terms.Peers, Without: imageDigests(r.MissingImages), GPUs: r.GPUs}, arenas, owners)
		if err != nil {
			return err
		}
		if err := deferred(ctx).use(tx); err != nil {
			return err
		}
		if err := agon.CheckTransition(run.State, agon.RunLeased, agon.ByScheduler); err != nil {
			return err
		}
		now := p.now()
		d, _ := agon.StateDeadline(agon.RunLeased, p.cfg.Lease, p.cfg.QueueFor)
		hold := terms.Hold
		if run.Rival != nil {
			hold += time.Duration(run.Rival.Pairs) * terms.HoldPair
		}
		until := now.Add(min(max(d, hold), run.MaxHold))
		if err := tx.LeaseRun(run.RunSpec.Run, until); err != nil {
			return err
		}
		err = tx.InsertAttempt(store.Attempt{
			Attempt: agon.Attempt{Run: run.RunSpec.Run, N: run.Attempts + 1, Validator: c.Hotkey, LeasedAt: now, LeaseUntil: until},
			Lease:   id, TokenHash: tokenHash(token), Arena: arena.ID, Submission: run.Submission, SeenAt: now,
		})
		if err != nil {
			return err
		}
		if run.Half() {
			if err := tx.BindStream(run.Group, c.Hotkey, now); err != nil {
				return err
			}
		}
		e := run.Entered
		if e.State == agon.SubmissionQueued {
			if err := tx.StartEntry(run.Submission); err != nil {
				return err
			}
		}
		e.State = agon.SubmissionPlaying // also where it is decided: a lease does not say that it is a canary's
		if slices.ContainsFunc(arena.GatewayKeys, func(k agon.RetiredKey) bool { return k.Key == run.Policy.GatewayKey }) {
			run.Policy.GatewayKey = arena.Policy.GatewayKey // it was planned before the key changed
		}
		arena.Tasks = run.Tasks // no others concern who plays it
		l = &client.Lease{
			ID: id, Token: token, Run: run.RunSpec, Attempt: run.Attempts + 1, Arena: arena, Submission: e,
			Until: until, HeartbeatMS: int(p.cfg.Heartbeat.Milliseconds()),
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		p.busy.Store(false)
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	p.busy.Store(true)
	p.turns.took(l.Arena.ID, c.Hotkey)
	deferred(ctx).kept()
	p.hub.changed(l.Run.Run)
	if ctx.Err() != nil {
		p.giveBack(context.WithoutCancel(ctx), l)
		return nil, false, ctx.Err()
	}
	return l, false, nil
}

// nextRun chooses among arenas, within the validator's cap in each.
func (p *Platform) nextRun(tx *store.Tx, claimant store.Claimant, arenas []agon.Arena, owners map[place]string) (best store.Offer, arena agon.Arena, err error) {
	if arenas, err = unheld(tx, arenas); err != nil {
		return best, arena, err
	}
	claimant.Now = p.now()
	claimant.SeenSince, claimant.KeptFor = claimant.Now.Add(-p.cfg.SeenFor), client.KeptFor
	err = store.ErrNotFound
	var turn uint64 // of arena
	for _, a := range arenas {
		claimant.Coldkey, claimant.MaxLeases = owners[placeOf(a)], int64(a.MaxLeases)
		x, nerr := tx.NextRun(a.ID, claimant)
		if errors.Is(nerr, store.ErrNotFound) {
			continue
		}
		if nerr != nil {
			return best, arena, nerr
		}
		last := p.turns.last(a.ID, claimant.Validator)
		if err != nil || before(x.Run, best.Run, x.Held-best.Held, cmp.Compare(last, turn)) {
			best, arena, turn, err = x, a, last, nil
		}
	}
	return best, arena, err
}

// before is the order of the queue across arenas; more is how many more leases
// the claimant holds in a's arena than in b's, later is 1 where it took a run of a's
// arena after one of b's.
func before(a, b store.Run, more int64, later int) bool {
	if (a.Attempts > 0) != (b.Attempts > 0) {
		return a.Attempts > 0
	}
	if more != 0 {
		return more < 0
	}
	if later != 0 {
		return later < 0
	}
	if a.SubSeq != b.SubSeq {
		return a.SubSeq < b.SubSeq
	}
	return a.N < b.N
}

func tokenHash(token string) string {
	h := sha256.Sum256([]byte("agon-lease-v1\n" + token))
	return hex.EncodeToString(h[:])
}

// giveBack returns a lease that never reached its claimant. Nobody has seen
// its token, so nothing can have been played under it.
func (p *Platform) giveBack(ctx context.Context, l *client.Lease) {
	queued := false
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		a, err := tx.AttemptByLease(l.ID)
		if err != nil || !a.Live() {
			return err
		}
		run, err := tx.Run(a.Run)
		if err != nil {
			return err
		}
		a.State = store.AttemptExpired
		queued, err = p.lose(tx, run, a, agon.FaultPlatform, "the claimant left before it had the lease", false)
		return err
	})
	if err != nil {
		// The sweeper will find it.
		p.cfg.Log.WarnContext(ctx, "give lease back", "lease", l.ID, "err", err)
		return
	}
	if queued {
		p.waiters.news(1)
	}
	p.hub.changed(l.Run.Run)
}
