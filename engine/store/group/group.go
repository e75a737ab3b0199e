// Package group lets one writer commit the writes of many callers together: a
// commit waits for the disk once, however many writes it holds.
package group

import (
	"context"
	"errors"
	"sync"

	"github.com/agon-arena/agon/engine/store"
)

// max bounds how many writes share one commit, so that none waits long for the
// work of others.
const max = 128

// ErrClosed is returned after Close.
var ErrClosed = errors.New("store is closed")

// Func is the body of one write.
type Func = func(context.Context, store.Querier) error

// Job is one write on its way. Err may be read after Queue.Write has returned.
type Job struct {
	ctx  context.Context
	fn   Func
	pan  any // what fn panicked with, raised again in the caller
	done chan struct{}

	Err error // owned by the writer until the job is done
}

// Run runs the job once and reports whether it failed. It may be run again.
func (j *Job) Run(q store.Querier) (failed bool) {
	j.Err = nil // of the run before
	func() {
		defer func() { j.pan = recover() }()
		j.Err = j.fn(j.ctx, q)
	}()
	return j.Err != nil || j.pan != nil
}

// Queue hands jobs to its writer in groups: whatever waits when the writer is
// free. Safe for concurrent use.
type Queue struct {
	commit func([]*Job) error
	jobs   chan *Job
	quit   chan struct{} // closed by Close
	done   chan struct{} // closed when the writer has ended
	once   sync.Once
}

// New starts a writer. commit runs the jobs of a group and commits those that
// did not fail; an error is that of all. It is called by one goroutine. End the
// writer with Close.
func New(commit func([]*Job) error) *Queue {
	q := &Queue{commit: commit, jobs: make(chan *Job, max), quit: make(chan struct{}), done: make(chan struct{})}
	go q.loop()
	return q
}

// Closing is closed when Close has been called.
func (q *Queue) Closing() <-chan struct{} { return q.quit }

// Waiting is how many jobs the writer has not taken yet.
func (q *Queue) Waiting() int { return len(q.jobs) }

// Close ends the writer after the group under way. It may be called again.
func (q *Queue) Close() {
	q.once.Do(func() { close(q.quit) })
	<-q.done
}

// Write hands fn to the writer and waits for its commit. A caller that gives
// up while fn runs does not know whether it was kept; callers' statements are
// idempotent for that reason.
func (q *Queue) Write(ctx context.Context, fn Func) error {
	// A cancelled context would interrupt a statement in the middle, which rolls
	// back the whole group: fn runs to its end.
	j := &Job{ctx: context.WithoutCancel(ctx), fn: fn, done: make(chan struct{})}
	select {
	case <-q.quit:
		return ErrClosed
	default:
	}
	select {
	case q.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-q.quit:
		return ErrClosed
	}
	select {
	case <-j.done:
	case <-q.done:
		select {
		case <-j.done:
		default:
			return ErrClosed
		}
	}
	if j.pan != nil {
		panic(j.pan)
	}
	return j.Err
}

func (q *Queue) loop() {
	defer close(q.done)
	for {
		select {
		case <-q.quit:
			return
		case j := <-q.jobs:
			group := []*Job{j}
			for more := true; more && len(group) < max; {
				select {
				case j := <-q.jobs:
					group = append(group, j)
				default:
					more = false
				}
			}
			err := q.commit(group)
			for _, j := range group { // nobody hears of a write before its commit
				if err != nil {
					j.Err = err
				}
				close(j.done)
			}
		}
	}
}
