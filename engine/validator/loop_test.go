package validator_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

const (
	leaseFor = time.Minute
	beatFor  = 10 * time.Second
)

// platform gives one lease and answers heartbeats as it is asked to.
type platform struct {
	skew time.Duration // how far its clock is behind the validator's
	// beat answers the nth heartbeat, from 1; nil extends the lease.
	beat func(ctx context.Context, n int) error
	// lease is the name of its lease; "": "lease".
	lease string
	seed  int64

	mu      sync.Mutex
	given   bool            // guarded by mu
	beats   int             // guarded by mu
	heard   time.Time       // when it last answered; guarded by mu
	results []client.Result // guarded by mu
	at      []time.Time     // when results came; guarded by mu
}

func (p *platform) Claim(ctx context.Context, _ client.ClaimRequest) (*client.Lease, error) {
	p.mu.Lock()
	given := p.given
	if p.given = true; !given {
		p.heard = time.Now()
	}
	p.mu.Unlock()
	if given {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c := kindtest.FakeCase()
	c.Arena.Policy.Agent.WallMS = (24 * time.Hour).Milliseconds()
	return &client.Lease{
		ID: cmp.Or(p.lease, "lease"), Token: "token", Attempt: 1, Arena: c.Arena, Submission: c.Submission,
		Run:   agon.RunSpec{Run: "run-1", Arena: c.Arena.ID, Tasks: c.Arena.Tasks[:1], Policy: c.Arena.Policy, Seed: p.seed},
		Until: time.Now().Add(leaseFor - p.skew), HeartbeatMS: int(beatFor.Milliseconds()),
	}, nil
}

func (p *platform) Heartbeat(ctx context.Context, _ string, _ client.Heartbeat) (*client.HeartbeatReply, error) {
	p.mu.Lock()
	p.beats++
	n := p.beats
	p.mu.Unlock()
	if p.beat != nil {
		if err := p.beat(ctx, n); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	p.heard = time.Now()
	p.mu.Unlock()
	return &client.HeartbeatReply{Until: time.Now().Add(leaseFor - p.skew)}, nil
}

func (p *platform) Result(ctx context.Context, _ string, r client.Result) (*client.ResultReply, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results, p.at = append(p.results, r), append(p.at, time.Now())
	return &client.ResultReply{}, nil
}

func (p *platform) PutBlob(_ context.Context, _ string, b []byte) (agon.Digest, error) {
	return agon.Sum(b), nil
}

// noGateway opens sessions that nothing is called through.
type noGateway struct{ gateway.Session }

func (g noGateway) Open(context.Context, gateway.Policy, gateway.Recorder) (gateway.Session, error) {
	return g, nil
}

func (noGateway) BaseURL() string            { return "http://127.0.0.1:1" }
func (noGateway) Header() map[string]string  { return nil }
func (noGateway) Spent() agon.Micros         { return 0 }
func (noGateway) Receipts() []agon.Receipt   { return nil }
func (noGateway) Evidence() gateway.Evidence { return gateway.Evidence{} }
func (noGateway) Close() error               { return nil }

// serve plays the platform's one lease with an agent that takes as long as
// agent says, until a result came or stop ends it. It returns the driver.
func serve(ctx context.Context, p *platform, agent func(ctx context.Context)) *fake.Driver {
	c := kindtest.FakeCase()
	d := fake.New(fake.Config{Exec: func(ctx context.Context, b *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
		if cmd.Untrusted {
			agent(ctx)
		}
		return c.Behave(ctx, b, cmd)
	}})
	loop := validator.NewLoop(validator.LoopConfig{Platform: p, Player: &validator.Player{
		Driver: d, Gateway: noGateway{}, Kinds: map[string]kind.Kind{c.Kind.Name(): c.Kind}, Trees: c.Trees, Now: time.Now,
	}})
	loop.Run(ctx)
	return d
}

// A validator that hears nothing of its platform plays on for as long as its
// lease lives, and no longer: then another may have the run.
func TestSilentPlatform(t *testing.T) {
	refused := func(context.Context) error { return errors.New("connection refused") }
	hangs := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	broken := func(context.Context) error { return &agon.Error{Status: http.StatusInternalServerError} }
	for _, c := range []struct {
		name     string
		silence  func(ctx context.Context) error
		from, to int // heartbeats without an answer
		skew     time.Duration
		agent    time.Duration // how long the agent takes
		stops    time.Duration // after the last answer; 0: it plays to its end
	}{
		{"refused for ever", refused, 4, 1 << 30, 0, time.Hour, leaseFor},
		{"refused from the start", refused, 1, 1 << 30, 0, time.Hour, leaseFor},
		{"hanging for ever", hangs, 4, 1 << 30, 0, time.Hour, leaseFor},
		{"answering nothing but errors", broken, 4, 1 << 30, 0, time.Hour, leaseFor},
		{"silent for less than the lease", refused, 4, 8, 0, 10 * time.Minute, 0},
		{"never silent", refused, 0, 0, 0, time.Hour, 0},
		{"never silent, with a clock far behind", refused, 0, 0, time.Hour, time.Hour, 0},
		{"silent, with a clock far behind", refused, 4, 1 << 30, time.Hour, time.Hour, 2 * beatFor},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &platform{skew: c.skew, beat: func(ctx context.Context, n int) error {
					if n >= c.from && n < c.to {
						return c.silence(ctx)
					}
					return nil
				}}
				ctx, stop := context.WithCancel(t.Context())
				time.AfterFunc(3*time.Hour, stop) // long after everything
				start := time.Now()
				d := serve(ctx, p, func(ctx context.Context) {
					select {
					case <-ctx.Done():
					case <-time.After(c.agent):
					}
				})
				if len(p.results) != 1 {
					t.Fatalf("%d results", len(p.results))
				}
				r, at := p.results[0], p.at[0]
				if c.stops == 0 {
					if r.Fault != agon.FaultNone || len(r.Scores) != 1 || at.Sub(start) != c.agent {
						t.Errorf("fault %q (%s), scores %v after %v", r.Fault, r.Reason, r.Scores, at.Sub(start))
					}
					return
				}
				if r.Fault != agon.FaultValidator || r.Outcome != client.OutcomeGivenBack || len(r.Scores) != 0 {
					t.Errorf("result %+v", r)
				}
				if got := at.Sub(p.heard); got != c.stops {
					t.Errorf("played on for %v after the last answer, want %v", got, c.stops)
				}
				if n := d.Open(); n != 0 {
					t.Errorf("%d boxes are left open", n)
				}
			})
		})
	}
}

// However long a run takes, its result is reported.
func TestLongRunIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &platform{}
		ctx, stop := context.WithTimeout(t.Context(), 12*time.Hour)
		defer stop()
		serve(ctx, p, func(context.Context) { time.Sleep(10 * time.Hour) })
		if len(p.results) != 1 || p.results[0].Fault != agon.FaultNone || len(p.results[0].Scores) != 1 {
			t.Errorf("results %+v", p.results)
		}
	})
}

// What the platform says about a lease is believed at once.
func TestLeaseLost(t *testing.T) {
	for _, status := range []int{http.StatusConflict, http.StatusNotFound} {
		synctest.Test(t, func(t *testing.T) {
			p := &platform{beat: func(_ context.Context, n int) error {
				if n == 4 {
					return &agon.Error{Status: status}
				}
				return nil
			}}
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			serve(ctx, p, func(ctx context.Context) { <-ctx.Done() })
			if len(p.results) != 1 || p.results[0].Outcome != client.OutcomeGivenBack || p.at[0].Sub(p.heard) != beatFor {
				t.Errorf("status %d: results %+v, %v after the last answer", status, p.results, p.at)
			}
		})
	}
}

// A validator that is stopped gives its lease back: that costs the run no
// retry, and it is free at once.
func TestStoppedValidatorGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &platform{}
		ctx, stop := context.WithCancel(t.Context())
		d := serve(ctx, p, func(ctx context.Context) {
			stop()
			<-ctx.Done()
		})
		if len(p.results) != 1 {
			t.Fatalf("%d results", len(p.results))
		}
		if r := p.results[0]; r.Token != "token" || r.Fault != agon.FaultValidator || r.Outcome != client.OutcomeGivenBack || len(r.Scores) != 0 {
			t.Errorf("result %+v", r)
		}
		if n := d.Open(); n != 0 {
			t.Errorf("%d boxes are left open", n)
		}
	})
}

// quiet is a platform that has work for the third claim only.
type quiet struct {
	platform
	claims int
	stop   func()
}

func (q *quiet) Claim(ctx context.Context, r client.ClaimRequest) (*client.Lease, error) {
	q.mu.Lock()
	q.claims++
	n := q.claims
	q.mu.Unlock()
	if (n == 1) != (r.WaitMS < 1000) {
		return nil, fmt.Errorf("claim %d waits %d ms", n, r.WaitMS)
	}
	switch {
	case n == 3:
		return q.platform.Claim(ctx, r)
	case n > 5:
		q.stop()
	}
	return nil, nil
}

// Without work a validator says so once, at once, and again after there was some.
func TestIdleIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p := &quiet{stop: stop}
		c := kindtest.FakeCase()
		told := []int{}
		loop := validator.NewLoop(validator.LoopConfig{Platform: p, Player: &validator.Player{
			Driver: fake.New(fake.Config{Exec: c.Behave}), Gateway: noGateway{}, Kinds: map[string]kind.Kind{c.Kind.Name(): c.Kind}, Trees: c.Trees, Now: time.Now,
		}, Idle: func() { told = append(told, p.claims) }})
		loop.Run(ctx)
		if want := []int{1, 4}; !slices.Equal(told, want) {
			t.Errorf("told after the claims %v, want %v", told, want)
		}
	})
}

// counts is a Watch.
type counts struct {
	mu                                sync.Mutex
	found, empty, failed, plays, most int // guarded by mu
}

func (c *counts) Claimed(_ time.Duration, found bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		c.failed++
	case found:
		c.found++
	default:
		c.empty++
	}
}

func (c *counts) Beat(error) {}

func (c *counts) Plays(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plays += n
	c.most = max(c.most, c.plays)
}

// Whoever watches a loop is told of every claim and of runs that begin and end, but not
// of what a stop cut off.
func TestWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p, w := &quiet{stop: stop}, &counts{}
		c := kindtest.FakeCase()
		validator.NewLoop(validator.LoopConfig{Platform: p, Player: &validator.Player{
			Driver: fake.New(fake.Config{Exec: c.Behave}), Gateway: noGateway{}, Kinds: map[string]kind.Kind{c.Kind.Name(): c.Kind}, Trees: c.Trees, Now: time.Now,
		}, Watch: w}).Run(ctx)
		if w.found != 1 || w.empty != 4 || w.failed != 0 || w.plays != 0 || w.most != 1 {
			t.Errorf("%d with work, %d without, %d failed; %d runs are left, %d at most", w.found, w.empty, w.failed, w.plays, w.most)
		}
	})
}
