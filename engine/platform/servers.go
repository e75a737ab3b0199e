package platform

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon/engine/store"
)

// Several servers may stand on one store. One leads: it sweeps, decides, turns
// sets and writes the log (Start). The others hand out leases, take heartbeats
// and show runs (Follow). They tell each other what changed, so that a waiter
// at one is woken by what happens at another. Words of news:
//
//	run ID         a run changed; ID is empty for any
//	work N, judge N   N pieces of work turned up
//	free V, idle V    a validator has room for a lease, for a judging
const (
	newsRun   = "run "
	newsWork  = "work "
	newsFree  = "free "
	newsJudge = "judge "
	newsIdle  = "idle "
)

// lookEvery is how often a server looks without news: news may be lost when a
// server dies between a commit and its word.
const lookEvery = 2 * time.Second

// Share makes the platform tell other servers of its store what changes, and
// hear from them until ctx ends. Call it before the platform is used; run the
// function that it returns.
func (p *Platform) Share(c store.Cluster) (hear func(ctx context.Context)) {
	p.hub.tell = func(run string) { c.Tell(newsRun + run) }
	tell := func(work, free string) func(int, string) {
		return func(n int, validator string) {
			if validator != "" {
				c.Tell(free + validator)
			} else {
				c.Tell(work + strconv.Itoa(n))
			}
		}
	}
	p.waiters.tell, p.judges.tell = tell(newsWork, newsFree), tell(newsJudge, newsIdle)
	return func(ctx context.Context) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			t := time.NewTicker(lookEvery)
			defer t.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-t.C:
					p.waiters.heard(1)
					p.judges.heard(1)
				}
			}
		}()
		c.Hear(ctx, p.heard)
		<-done
	}
}

// heard takes a word of another server. Words that are not known come from a
// newer version, and are no more than a reason to look.
func (p *Platform) heard(news string) {
	if run, ok := strings.CutPrefix(news, newsRun); ok {
		p.hub.heard(run)
		return
	}
	if v, ok := strings.CutPrefix(news, newsFree); ok {
		p.waiters.freedThere(v)
		return
	}
	if v, ok := strings.CutPrefix(news, newsIdle); ok {
		p.judges.freedThere(v)
		return
	}
	for word, line := range map[string]*waiters{newsWork: &p.waiters, newsJudge: &p.judges} {
		if s, ok := strings.CutPrefix(news, word); ok {
			if n, err := strconv.Atoi(s); err == nil && n > 0 {
				line.heard(n)
			}
			return
		}
	}
	p.hub.all()
	p.waiters.heard(1)
	p.judges.heard(1)
}

// Follow is Start for a server that does not lead: nothing moves on its own
// here. What it remembers of rights is made stricter or read again until ctx
// ends: an arena may get an embargo, and tasks open, at the leader.
func (p *Platform) Follow(ctx context.Context) error {
	p.embargoes.Store(true) // each reader's arena is looked at
	if err := p.findOpened(ctx); err != nil {
		return fmt.Errorf("follow: %w", err)
	}
	go func() {
		t := time.NewTicker(lookEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			if err := p.findOpened(ctx); err != nil && ctx.Err() == nil {
				p.cfg.Log.WarnContext(ctx, "read which tasks are open", "err", err)
			}
		}
	}()
	return nil
}

// Drain ends the waiting of claims with "nothing now": whoever asks again is
// sent to another server. Leases go on. It may be called again.
func (p *Platform) Drain() { p.drain() }

// Draining is closed by Drain, for what waits elsewhere.
func (p *Platform) Draining() <-chan struct{} { return p.draining }
