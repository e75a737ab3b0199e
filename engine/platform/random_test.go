package platform

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// player makes random moves and remembers every lease it ever got.
type player struct {
	*fixture
	r      *rand.Rand
	leases []heldLease
	n      int // submissions so far
}

type heldLease struct {
	*client.Lease
	by   string
	sent *client.Result // what it has reported
	got  *client.ResultReply
}

// refused lets through only refusals that a rule makes.
func (p *player) refused(err error) {
	p.t.Helper()
	var e *agon.Error
	if err != nil && !errors.As(err, &e) {
		p.t.Fatalf("not a refusal: %v", err)
	}
}

func (p *player) pick() *heldLease {
	if len(p.leases) == 0 {
		return nil
	}
	return &p.leases[p.r.IntN(len(p.leases))]
}

func (p *player) step() string {
	p.t.Helper()
	validators := []string{val1, val2, val3}
	switch k := p.r.IntN(100); {
	case k < 6:
		p.n++
		content := fmt.Sprint("agent ", p.r.IntN(p.n+1)) // sometimes the same again
		r := request(content)
		_, err := p.Submit(bg, Caller{Hotkey: []string{miner1, miner2}[p.r.IntN(2)]}, "demo", r)
		p.refused(err)
		return "submit " + content
	case k < 40:
		v := validators[p.r.IntN(3)]
		l, err := p.Claim(bg, Caller{Hotkey: v}, client.ClaimRequest{Kinds: []string{"fake"}, Driver: "runc"})
		p.refused(err)
		if l != nil {
			p.leases = append(p.leases, heldLease{Lease: l, by: v})
		}
		return "lease"
	case k < 55:
		if l := p.pick(); l != nil {
			s := []agon.RunState{"", agon.RunPlaying, agon.RunJudging, agon.RunScored}[p.r.IntN(4)]
			_, err := p.Heartbeat(bg, Caller{Hotkey: l.by}, l.ID, client.Heartbeat{
				Token: l.Token, State: s, Events: []agon.Event{{Seq: 1 + p.r.Int64N(5), Type: agon.EventNote}},
			})
			p.refused(err)
		}
		return "heartbeat"
	case k < 80:
		if l := p.pick(); l != nil {
			p.report(l)
		}
		return "result"
	case k < 94:
		p.clock.add(time.Duration(p.r.IntN(70)) * time.Second)
		must(p.t, p.Sweep(bg))
		return "time"
	case k < 96:
		page, err := p.Runs(bg, Caller{}, "demo", "", "", "", 0)
		must(p.t, err)
		if len(page.Items) > 0 {
			p.refused(p.CancelRun(bg, Caller{Operator: true}, page.Items[p.r.IntN(len(page.Items))].RunSpec.Run, ""))
		}
		return "cancel"
	case k < 98:
		_, err := p.Abandon(bg, validators[p.r.IntN(3)], "restart")
		must(p.t, err)
		return "abandon"
	default:
		must(p.t, p.cfg.Store.Close())
		p.clock.add(time.Duration(p.r.IntN(100)) * time.Second)
		p.open(p.cfg.Blobs)
		must(p.t, p.renewLeases(bg, p.started))
		return "restart"
	}
}

// report sends a random result, or the one that was sent before: that must be
// answered alike.
func (p *player) report(l *heldLease) {
	p.t.Helper()
	if l.sent != nil && p.r.IntN(2) == 0 {
		got, err := p.Platform.Result(bg, Caller{Hotkey: l.by}, l.ID, *l.sent)
		if err != nil || *got != *l.got {
			p.t.Fatalf("the same result: %+v, %v; the first time %+v", got, err, l.got)
		}
		return
	}
	r := scored(l.Lease, float64(p.r.IntN(5))/4)
	if p.r.IntN(8) == 0 {
		r.Receipts = []agon.Receipt{{ID: l.Lease.ID, Provider: agon.Script, Outcome: "ok"}}
	}
	if p.r.IntN(2) == 0 {
		r.Fault = agon.Faults[p.r.IntN(len(agon.Faults))]
	}
	got, err := p.Platform.Result(bg, Caller{Hotkey: l.by}, l.ID, r)
	p.refused(err)
	if err == nil && l.sent == nil {
		l.sent, l.got = &r, got
	}
}

// TestRandomInterleavings plays random moves of miners, validators, operator,
// time and restarts; whatever happens the invariants hold, and in the end every
// run has ended and every submission is decided or says why not.
func TestRandomInterleavings(t *testing.T) {
	rounds, steps := 6, 120
	if n, err := strconv.Atoi(os.Getenv("AGON_TEST_ROUNDS")); err == nil {
		rounds = n // a longer walk than every run of the tests needs
	}
	for seed := range rounds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			p := &player{fixture: newFixture(t, 2, func(_ *Config, a *agon.Arena) { a.MaxLeases = 3 }), r: rand.New(rand.NewPCG(uint64(seed), 1))}
			p.kind.replicas = 1 + seed%2
			for i := range steps {
				what := p.step()
				if i%10 == 0 || what == "restart" {
					checkInvariants(t, p.cfg.Store)
				}
				if t.Failed() {
					t.Fatalf("after step %d: %s", i, what)
				}
			}
			p.drain()
		})
	}
}

// drain lets honest validators finish what is left.
func (p *player) drain() {
	p.t.Helper()
	for range 1000 {
		for _, v := range []string{val1, val2, val3} {
			p.playAll(v, func(*client.Lease) float64 { return 0.5 })
		}
		p.clock.add(2 * time.Minute)
		must(p.t, p.Sweep(bg))
		o, err := p.Arena(bg, "demo")
		must(p.t, err)
		if o.Queued+o.Playing == 0 {
			break
		}
	}
	checkInvariants(p.t, p.cfg.Store)
	page, err := p.Submissions(bg, Caller{}, "demo", "", "", maxPage)
	must(p.t, err)
	for _, s := range page.Items {
		if s.State != agon.SubmissionScored && s.State != agon.SubmissionExcluded {
			p.t.Errorf("submission %s ends as %s", s.ID, s.State)
		}
	}
}
