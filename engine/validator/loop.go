package validator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/folder"
)

// Platform is what the loop needs of the platform; *client.Client is one.
type Platform interface {
	// Claim waits up to the request's WaitMS; nil without an error means that nothing came.
	Claim(ctx context.Context, r client.ClaimRequest) (*client.Lease, error)
	Heartbeat(ctx context.Context, lease string, h client.Heartbeat) (*client.HeartbeatReply, error)
	// Result may be repeated: the platform answers the same result alike.
	Result(ctx context.Context, lease string, r client.Result) (*client.ResultReply, error)
	// PutBlob stores bytes that may be evidence of a lease.
	PutBlob(ctx context.Context, lease string, b []byte) (agon.Digest, error)
}

// LoopConfig configures a Loop.
type LoopConfig struct {
	Platform Platform
	Player   *Player
	// Arenas to serve; empty means all whose kind Player has.
	Arenas []string
	// Parallel is how many runs are played at once (≥ 1).
	Parallel int
	Log      *slog.Logger
	// Protocols are the versions that claims name; nil: none, for a platform that
	// knows version 1 only.
	Protocols *client.Protocols
	// Images has the images that tasks name; nil: tasks with one are claimed as they come.
	Images Images
	// Backoff is the pause after an error of the platform; after more in a row it doubles,
	// to five minutes (default 2 s).
	Backoff time.Duration
	// Outbox is a directory of this validator's own for results on their way: what a
	// process that was killed had played, the next one sends. Empty: none is kept.
	Outbox string
	// Traced is called for each lease when all about it is done; optional.
	Traced func(ctx context.Context, l *client.Lease, a *Attempt, from time.Time)
	// Begun is called as a lease begins; what it returns is the play's context, and Traced's. Optional.
	Begun func(ctx context.Context, l *client.Lease, from time.Time) context.Context
	// Idle is called once when there is no work, and again when there was some in
	// between; optional. Several workers may call it, never at once.
	Idle func()
	// Watch counts what the loop does; optional.
	Watch Watch
}

// Watch is told what a loop does, by several workers at once.
type Watch interface {
	// Claimed says how a claim was answered, and how long that took, with the wait for work.
	Claimed(took time.Duration, found bool, err error)
	// Beat says how a heartbeat was answered.
	Beat(err error)
	// Plays says that a run begins (1) or ends (-1).
	Plays(n int)
}

// unwatched is the Watch of a loop that nobody counts.
type unwatched struct{}

func (unwatched) Claimed(time.Duration, bool, error) {}
func (unwatched) Beat(error)                         {}
func (unwatched) Plays(int)                          {}

// Loop leases and plays until it is stopped.
type Loop struct {
	cfg LoopConfig

	images *warmer // nil without Images, or where the platform names none
	out    *outbox // nil without Outbox
	gpus   offer

	mu   sync.Mutex
	busy int  // workers that play; guarded by mu
	idle bool // Idle was told, and nothing came since; guarded by mu
	shut bool // it was said that this hotkey has no permit, and nothing was served since; guarded by mu
}

// NewLoop returns a loop; Run starts it.
func NewLoop(cfg LoopConfig) *Loop {
	if cfg.Parallel < 1 {
		cfg.Parallel = 1
	}
	if cfg.Backoff <= 0 {
		cfg.Backoff = 2 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Watch == nil {
		cfg.Watch = unwatched{}
	}
	l := &Loop{cfg: cfg}
	if cfg.Outbox != "" {
		l.out = &outbox{dir: folder.Folder(cfg.Outbox), own: map[string]bool{}}
	}
	if p, ok := cfg.Platform.(Needs); ok && cfg.Images != nil {
		l.images = &warmer{needs: p, images: cfg.Images, log: cfg.Log, now: cfg.Player.Now, ready: make(chan struct{}), failed: map[string]time.Time{}, refused: l.refused}
	}
	return l
}

// Run serves until ctx ends, and returns when every worker has stopped.
func (l *Loop) Run(ctx context.Context) {
	var wg sync.WaitGroup
	if l.images != nil {
		wg.Go(func() { l.images.run(ctx, l.request()) })
	}
	if l.out != nil {
		wg.Go(func() { l.deliver(ctx) })
	}
	for range l.cfg.Parallel {
		wg.Go(func() { l.work(ctx) })
	}
	if j, ok := l.cfg.Platform.(Judges); ok {
		wg.Go(func() { l.judges(ctx, j) })
	}
	wg.Wait()
}

// request is what claims of this validator say.
func (l *Loop) request() client.ClaimRequest {
	kinds := slices.Sorted(maps.Keys(l.cfg.Player.Kinds))
	return client.ClaimRequest{Arenas: l.cfg.Arenas, Kinds: kinds, Driver: l.cfg.Player.Driver.Info().Name, WaitMS: 15_000, Version: agon.Version, Protocols: l.cfg.Protocols}
}

func (l *Loop) work(ctx context.Context) {
	req := l.request()
	wait := req.WaitMS
	req.WaitMS = 1 // the first answer comes at once, so that nobody wonders whether it works
	errs := backoff{first: l.cfg.Backoff}
	for ctx.Err() == nil {
		req.MissingImages = l.images.missing(ctx)
		req.GPUs = l.gpus.now(ctx, l.cfg.Player, l.cfg.Log)
		asked := l.cfg.Player.Now()
		lease, err := l.cfg.Platform.Claim(ctx, req)
		if ctx.Err() == nil {
			l.cfg.Watch.Claimed(l.cfg.Player.Now().Sub(asked), lease != nil, err)
		}
		req.WaitMS = wait
		if err != nil {
			if ctx.Err() == nil {
				d := errs.after(err)
				l.refused("claiming a run", err, "again", d)
				l.pause(ctx, d)
			}
			continue
		}
		errs.answered()
		l.served()
		if lease == nil {
			l.rests()
			continue
		}
		l.plays(1)
		l.serve(ctx, lease)
		l.plays(-1)
	}
}

// plays notes that a worker begins (1) or ends (-1) a lease.
func (l *Loop) plays(n int) {
	l.cfg.Watch.Plays(n)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy += n
	l.idle = false
}

// rests notes that a worker found no work.
func (l *Loop) rests() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy == 0 && !l.idle && l.cfg.Idle != nil {
		l.idle = true
		l.cfg.Idle()
	}
}

// refused logs why the platform did not answer. Every worker hears at every claim that
// this hotkey has no permit: that is said once, with what to do.
func (l *Loop) refused(what string, err error, more ...any) {
	e := (*agon.Error)(nil)
	if !errors.As(err, &e) || e.Code != "no_permit" {
		l.cfg.Log.Warn(what, append([]any{"err", err}, more...)...)
		return
	}
	l.mu.Lock()
	said := l.shut
	l.shut = true
	l.mu.Unlock()
	if !said {
		l.cfg.Log.Warn("no work until this hotkey has a validator permit", "err", e.Message, "fix", e.Mend)
	}
}

// served notes that the platform serves this hotkey.
func (l *Loop) served() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = false
}

func (l *Loop) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// eventBatch and batchBytes bound the events of one request: a platform takes
// 48 MiB, and data can grow when it is encoded again.
const (
	eventBatch = 200
	batchBytes = 8 << 20
)

// reportFor is how long a result is offered to a platform that does not take it.
const reportFor = 10 * time.Minute

// serve plays one lease to its end.
func (l *Loop) serve(ctx context.Context, lease *client.Lease) {
	log := l.cfg.Log.With("run", lease.Run.Run, "attempt", lease.Attempt)
	from := l.cfg.Player.Now()
	if l.cfg.Begun != nil {
		ctx = l.cfg.Begun(ctx, lease, from)
	}
	playCtx, stop := context.WithCancel(ctx)
	defer stop()
	rec := &recorder{run: lease.Run.Run, attempt: lease.Attempt, now: l.cfg.Player.Now}

	// The beat goroutine owns heartbeats: it is told of states through a
	// channel so that a slow platform never delays the play.
	states := make(chan agon.RunState, 4)
	done := make(chan struct{})
	var beat sync.WaitGroup
	beat.Go(func() { l.beat(playCtx, stop, done, states, lease, rec, log) })

	a := l.cfg.Player.play(playCtx, Job{
		Run: lease.Run, Attempt: lease.Attempt, Arena: lease.Arena, Submission: lease.Submission,
		OnState: func(s agon.RunState) {
			select {
			case states <- s:
			default:
			}
		},
	}, rec)
	close(done)
	beat.Wait()

	// A stopped validator still reports, so that the run is free at once; it has a few seconds for it.
	reportCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	if ctx.Err() == nil {
		cancel()
		reportCtx, cancel = context.WithTimeout(ctx, reportFor)
	}
	defer cancel()
	l.send(reportCtx, lease, a, rec, log)
	if l.cfg.Traced != nil {
		l.cfg.Traced(ctx, lease, a, from)
	}
}

// beat sends heartbeats until done is closed or ctx ends. It stops the attempt
// when the lease is lost: the platform says so, or is silent until the lease's
// own time is over, from when on the run may be leased to another validator. The
// two clocks may differ, so that silence counts from two heartbeats on.
func (l *Loop) beat(ctx context.Context, stop func(), done <-chan struct{}, states <-chan agon.RunState, lease *client.Lease, rec *recorder, log *slog.Logger) {
	every := time.Duration(lease.HeartbeatMS) * time.Millisecond
	if every <= 0 {
		every = 10 * time.Second
	}
	now := l.cfg.Player.Now
	ends := func(until time.Time) time.Time {
		if floor := now().Add(2 * every); until.Before(floor) {
			return floor
		}
		return until
	}
	end := ends(lease.Until)
	over := time.NewTimer(end.Sub(now()))
	defer over.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	var state agon.RunState
	var silence error // of the last heartbeat that had no answer
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-over.C:
			log.Warn("lease ran out while the platform was silent", "err", silence)
			stop()
			return
		case state = <-states:
		case <-tick.C:
		}
		evs, _ := rec.unsent(eventBatch, batchBytes)
		hctx, cancel := context.WithTimeout(ctx, min(every, end.Sub(now())))
		r, err := l.cfg.Platform.Heartbeat(hctx, lease.ID, client.Heartbeat{Token: lease.Token, State: state, Events: evs})
		cancel()
		if ctx.Err() == nil {
			l.cfg.Watch.Beat(err)
		}
		if err != nil {
			if ae := (*agon.Error)(nil); errors.As(err, &ae) && (ae.Status == http.StatusConflict || ae.Status == http.StatusNotFound) {
				log.Warn("lease lost", "err", err)
				stop()
				return
			}
			silence = err
			continue
		}
		rec.ack(len(evs))
		state, end = "", ends(r.Until)
		over.Reset(end.Sub(now()))
		if r.Cancel {
			stop()
			return
		}
	}
}

// report sends the evidence and the result, repeating until it is answered or ctx
// ends, and tells which: the platform keeps late results as evidence.
func (l *Loop) report(ctx context.Context, lease string, files map[string][]byte, rec *recorder, res *client.Result, log *slog.Logger) (answered bool) {
	for try := 1; ; try++ {
		err := l.reportOnce(ctx, lease, files, rec, res)
		switch {
		case err == nil:
			return true
		case final(err) || ctx.Err() != nil:
			log.Warn("result not taken", "err", err, "tries", try)
			return final(err)
		}
		log.Warn("reporting a result", "err", err, "try", try)
		l.pause(ctx, l.cfg.Backoff) // a lease runs: its result is offered steadily
	}
}

func (l *Loop) reportOnce(ctx context.Context, lease string, files map[string][]byte, rec *recorder, res *client.Result) error {
	if res.Evidence == "" && len(files) > 0 {
		d, err := putFiles(ctx, l.cfg.Platform, lease, files)
		if err != nil {
			return fmt.Errorf("store evidence: %w", err)
		}
		res.Evidence = d
	}
	// Long logs go ahead in batches; the rest travels with the result.
	for {
		evs, more := rec.unsent(eventBatch, batchBytes)
		if !more {
			res.Events = evs
			break
		}
		if _, err := l.cfg.Platform.Heartbeat(ctx, lease, client.Heartbeat{Token: res.Token, Events: evs}); err != nil {
			ae := (*agon.Error)(nil)
			if !errors.As(err, &ae) {
				return err
			}
			res.Events = nil // the lease is lost: the result itself says the rest
			break
		}
		rec.ack(len(evs))
	}
	_, err := l.cfg.Platform.Result(ctx, lease, *res)
	return err
}

// putFiles stores small files as a tree at the platform and returns its digest.
func putFiles(ctx context.Context, p Platform, lease string, files map[string][]byte) (agon.Digest, error) {
	list := make([]blob.File, 0, len(files))
	for name, b := range files {
		list = append(list, blob.File{Path: name, Content: b})
	}
	return blob.PutFiles(ctx, upload{p, lease}, list, blob.TreeLimits{})
}

// upload is a write-only blob.Store at the platform.
type upload struct {
	p     Platform
	lease string
}

func (u upload) Put(ctx context.Context, b []byte) (agon.Digest, error) {
	return u.p.PutBlob(ctx, u.lease, b)
}

func (u upload) Get(context.Context, agon.Digest) ([]byte, error) { return nil, blob.ErrNotFound }

func (u upload) Has(context.Context, agon.Digest) (bool, error) { return false, nil }
