package validator

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/folder"
)

const (
	// outboxFor is how long a result is kept that the platform has not answered.
	outboxFor = 24 * time.Hour
	// outboxEvery is how often results of earlier are offered again.
	outboxEvery = time.Minute
	// outboxBytes bounds a result that is kept: what is larger is offered once only.
	outboxBytes = 64 << 20
)

// outbox keeps each result on disk from the end of its play until the platform has
// answered it, so that a validator that is killed in between has not played for
// nothing: the next one on the same directory sends it. The platform takes it as
// long as the lease runs, and as evidence afterwards.
type outbox struct {
	dir folder.Folder

	mu  sync.Mutex
	own map[string]bool // what this process is sending; guarded by mu
}

// letter is a result on its way, by its lease. It holds the lease's token.
type letter struct {
	Run     string            `json:"run"`
	Attempt int               `json:"attempt"`
	Result  client.Result     `json:"result"`
	Files   map[string][]byte `json:"files"`
	Events  []agon.Event      `json:"events"` // those that had not been sent
	At      time.Time         `json:"at"`
}

func (m *letter) size() (n int) {
	for _, b := range m.Files {
		n += len(b)
	}
	for _, e := range m.Events {
		n += len(e.Data) + eventOverhead
	}
	return n
}

// keep writes a letter down before it is sent.
func (o *outbox) keep(lease string, m *letter) error {
	o.mu.Lock()
	o.own[lease] = true
	o.mu.Unlock()
	if m.size() > outboxBytes {
		return nil
	}
	return o.dir.Put(lease, m)
}

// done drops a letter that was answered, or leaves it for another time.
func (o *outbox) done(lease string, answered bool) error {
	o.mu.Lock()
	delete(o.own, lease)
	o.mu.Unlock()
	if !answered {
		return nil
	}
	return o.dir.Remove(lease)
}

// left are the leases whose letters nobody in this process is sending.
func (o *outbox) left() ([]string, error) {
	names, err := o.dir.Names("")
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.DeleteFunc(names, func(n string) bool { return o.own[n] }), err
}

// deliver offers what is left until ctx ends.
func (l *Loop) deliver(ctx context.Context) {
	for ctx.Err() == nil {
		names, err := l.out.left()
		if err != nil {
			l.cfg.Log.Warn("read results of earlier", "err", err)
		}
		for _, lease := range names {
			if ctx.Err() != nil {
				return
			}
			l.deliverOne(ctx, lease)
		}
		select {
		case <-ctx.Done():
		case <-time.After(outboxEvery):
		}
	}
}

func (l *Loop) deliverOne(ctx context.Context, lease string) {
	log := l.cfg.Log.With("lease", lease)
	var m letter
	ok, err := l.out.dir.Get(lease, &m)
	answered := true
	switch {
	case err != nil:
		log.Warn("a result of earlier cannot be read, and is dropped", "err", err)
	case !ok:
	case l.cfg.Player.Now().Sub(m.At) > outboxFor:
		log.Warn("a result of earlier was not answered in time, and is dropped", "run", m.Run)
	default:
		rec := &recorder{run: m.Run, attempt: m.Attempt, now: l.cfg.Player.Now, kept: m.Events}
		err := l.reportOnce(ctx, lease, m.Files, rec, &m.Result)
		if answered = err == nil || final(err); answered {
			log.Info("a result of earlier was sent", "run", m.Run, "err", err)
		}
	}
	if err := l.out.done(lease, answered); err != nil {
		log.Warn("drop a result of earlier", "err", err)
	}
}

// final reports whether an error of the platform says that another try is of no use.
func final(err error) bool {
	var e *agon.Error
	return errors.As(err, &e) && e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests
}

// send keeps a result, offers it until it is answered or ctx ends, and drops it.
func (l *Loop) send(ctx context.Context, lease *client.Lease, a *Attempt, rec *recorder, log *slog.Logger) {
	res := client.Result{
		Token: lease.Token, Fault: a.Fault, Reason: a.Reason, Outcome: a.Outcome, Scores: a.Scores,
		Driver: a.Driver, Cost: a.Cost, BoxMS: a.BoxTime.Milliseconds(), Receipts: a.Receipts, Statement: a.Statement,
	}
	if a.Observed.Interrupted {
		res.Outcome = client.OutcomeGivenBack // costs the run no retry
		if a.Kept {
			res.Outcome = client.OutcomeKept
		}
	}
	files := a.Files
	if len(files) == 0 && a.Fault == agon.FaultNone {
		// An agent that did nothing leaves nothing: the tree says so.
		files = map[string][]byte{"outcome": []byte(a.Outcome + "\n")}
	}
	if l.out != nil {
		m := &letter{Run: lease.Run.Run, Attempt: lease.Attempt, Result: res, Files: files, Events: rec.rest(), At: l.cfg.Player.Now().UTC()}
		if err := l.out.keep(lease.ID, m); err != nil {
			log.Warn("keep a result", "err", err) // it is sent all the same
		}
	}
	answered := l.report(ctx, lease.ID, files, rec, &res, log)
	if l.out != nil {
		if err := l.out.done(lease.ID, answered); err != nil {
			log.Warn("drop a result that was sent", "err", err)
		}
	}
}
