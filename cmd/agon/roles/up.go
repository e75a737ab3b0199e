package roles

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ui/cli/progress"
)

// Up runs everything in one process: platform, ledger, gateway, one validator, and
// as many more as the rules of an arena ask for (reinforce).
// With Once it returns when every submission is decided, with the outcome;
// else when ctx ends.
func Up(ctx context.Context, o kit.Options) (*client.Overview, error) {
	files, err := arenaFiles(o)
	if err != nil {
		return nil, err
	}
	untrace, err := o.Trace(ctx, "up")
	if err != nil {
		return nil, err
	}
	defer untrace()
	// No sandbox, no play: found out before anything is opened.
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	o.Sayf("boxes: %s %s (%s)", d.Info().Name, d.Info().Version, strings.Join(d.Info().Limits, ", "))
	ks := o.Kinds(root)
	if o.Registration == "" && loopback(o.Listen) {
		o.Registration, o.LocalMetrics = local.RegistrationOpen, true // a demo: who reaches it has this machine
	}
	s, err := openServer(ctx, o, ks)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.openNear(); err != nil {
		return nil, err
	}

	val, err := kit.LoadParty(s.Data.Path("wallets"), "validator")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := s.openArena(ctx, f, val); err != nil {
			return nil, err
		}
	}

	s.gate.open.Store(true)

	// What this validator held when the process before was killed is lost for
	// certain: it is queued again at once, not when its lease runs out.
	if n, err := s.Platform.Abandon(ctx, val.Hotkey.SS58(), "restart"); err != nil {
		return nil, err
	} else if n > 0 {
		o.Sayf("%d runs were under way when agon last ended: they are played again", n)
	}
	valClient, err := client.New(s.Near(), val.Hotkey)
	if err != nil {
		return nil, err
	}
	source, err := kit.RemoteSource(valClient, s.Data.Path("validator"))
	if err != nil {
		return nil, err
	}
	p, err := kit.NewPlayer(ctx, o, d, root, ks, source, s.Data.Path("validator", "trees"))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	doors := &gateways{own: p.Own, key: val.Hotkey, over: o.Over}
	defer doors.close()
	p.Gateway = doors

	if o.Ready != nil {
		o.Ready(s.URL())
	}
	for _, f := range files {
		if f.Samples {
			if err := s.enterSamples(ctx, f); err != nil {
				return nil, err
			}
		}
	}

	// Everything below ends with this context, in this order: the loop first,
	// then the weights, so that the last seat still reaches the ledger.
	var wg, aside sync.WaitGroup
	defer aside.Wait()
	work, stop := context.WithCancel(ctx)
	defer stop()
	for _, f := range files {
		if k, _ := o.Kits.Of(f.Kind); f.Samples && f.Ledger == "" && k.Beside != nil {
			b, err := k.Beside(ctx, &s.Server, f, d, root)
			if err != nil {
				stop()
				return nil, fmt.Errorf("play %s without a platform: %w", f.ID, err)
			}
			aside.Go(func() {
				defer b.Close()
				b.Run(work, o.Once)
			})
		}
	}
	parallel := o.Parallel
	if parallel <= 0 {
		parallel = runtime.NumCPU()
	}
	spoken := client.Spoken()
	more, err := s.reinforce(ctx, files, d, root, ks, parallel)
	if err != nil {
		stop()
		return nil, err
	}
	defer more.close()
	loop := newValidator(o, p, valClient, &spoken, nil, more.share(parallel), s.Data.Path("validator", "outbox"), nil, nil)
	wg.Go(func() { loop.Run(work) })
	for _, l := range more.loops {
		wg.Go(func() { l.Run(work) })
	}
	wake := make(chan struct{}, 1)
	// Who runs this process wrote the arenas' files: what they name is trusted.
	setter := newWeights(o, valClient, &weightLedgers{key: val.Hotkey, over: o.Over, own: s.Near(), trust: func(string) bool { return true }, relays: strings.Fields(o.Getenv("AGON_DRAND_RELAYS"))}, s.Data.Path("validator"), time.Second)
	wg.Go(func() { setter.Run(work, wake) })

	if len(o.Arenas) == 0 && !o.Once && o.Getenv("AGON_LLM_BASE_URL") == "" && o.Getenv("AGON_LLM_SCRIPT") == "" {
		s.later = func() { s.goOn(val) }
	}
	err = s.watch(work, wake)
	if o.Once && err == nil {
		aside.Wait() // each of its phases is tried a few times, and no more
	}
	stop()
	wg.Wait()
	if err != nil && !errors.Is(err, errStopped) {
		return nil, err
	}
	if !o.Once || errors.Is(err, errStopped) {
		return nil, ctx.Err()
	}
	ov, err := s.Platform.Overview(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	ov.BoxDriver, ov.Corpus = d.Info().Name, s.corpus
	return ov, nil
}

// openArena makes sure of an arena, its subnet and the demo's registrations.
func (s *server) openArena(ctx context.Context, f kit.ArenaFile, val *kit.Party) error {
	a := f.Arena()
	supply, err := f.SupplyOf(&s.Server, &a)
	if err != nil {
		return err
	}
	if a.Tasks, err = kit.ArenaTasks(ctx, s.Options, f, s.Blobs, s.Data.Path("tmp")); err != nil && (supply == nil || len(f.Sets) > 0) {
		return err
	}
	if supply != nil {
		s.Platform.SetSupply(a.ID, supply)
	}
	a.Stages = f.StagesOf(a.Tasks)
	if a.Retired, err = kit.RetiredTasks(ctx, s.Options, f, s.Blobs, s.Data.Path("tmp")); err != nil {
		return err
	}
	if old, err := s.Platform.Arena(ctx, a.ID); err == nil {
		f.KeepRule(&a, old.Arena)
	}
	if err := s.EnsureSubnet(ctx, a, val); err != nil {
		return err
	}
	k, _ := s.Options.Kits.Of(a.Kind)
	if k.Prepare != nil && supply == nil { // else when it has its set
		if err := k.Prepare(ctx, &s.Server, &a); err != nil {
			return err
		}
	}
	if err := s.Platform.EnsureArena(ctx, a); err != nil {
		return err
	}
	opened, err := s.Platform.FullArena(ctx, a.ID)
	if err != nil {
		return err
	}
	a = opened.Arena // hidden tasks have other names there
	s.Options.Sayf("arena %s: %s", a.ID, plain.Count(len(a.Tasks), "task"))
	if k.Opened != nil {
		if err := k.Opened(ctx, &s.Server, &a); err != nil {
			return err
		}
	}
	return s.openForeign(ctx, a)
}

// goOn plays what the kinds show once the demos are decided.
func (s *server) goOn(val *kit.Party) {
	for _, k := range s.Options.Kits {
		if k.Show == nil {
			continue
		}
		s.background(func(ctx context.Context) {
			err := k.Show.Run(ctx, &s.Server, func(ctx context.Context, f kit.ArenaFile) error {
				return s.openArena(ctx, f.Complete(s.Options.Kits), val)
			})
			if err != nil && ctx.Err() == nil {
				s.Options.Log.Warn("what is shown after the demos ended", "kind", k.Kind, "error", err)
			}
		})
	}
}

// enterSamples submits agon's own agents by their own miners, over HTTP like
// anybody. Entering them again changes nothing.
func (s *server) enterSamples(ctx context.Context, f kit.ArenaFile) error {
	keyed := s.Options.Getenv("AGON_LLM_BASE_URL") != ""
	k, ok := s.Options.Kits.Of(f.Kind)
	if !ok {
		return fmt.Errorf("enter samples: no kind %q", f.Kind)
	}
	if k.Enter != nil {
		return k.Enter(ctx, &s.Server, f)
	}
	for _, sa := range k.Samples {
		files, err := k.Files(sa.Name)
		if err != nil {
			return err
		}
		miner, err := kit.LoadParty(s.Data.Path("wallets"), "miner-"+sa.Name)
		if err != nil {
			return err
		}
		if ok, err := s.EnsureRegistered(ctx, f.Arena(), miner); err != nil {
			return err
		} else if !ok {
			continue
		}
		c, err := client.New(s.Near(), miner.Hotkey)
		if err != nil {
			return err
		}
		scripted := sa.Model && !keyed
		if sa.Model && keyed {
			a, err := s.Platform.Arena(ctx, f.ID)
			if err != nil {
				return err
			}
			bound := gateway.UpperBound(a.Policy.Budget, len(a.Tasks)*(1+a.Attempts))
			s.Options.Sayf("sample %s uses a real model: it can cost at most $%.2f", sa.Name, float64(bound)/1e6)
		}
		sub, err := c.Submit(ctx, f.ID, client.SubmitRequest{
			Name: sa.Name, Licence: f.Licence, Files: files,
		})
		if sa.Refused {
			if err == nil {
				return fmt.Errorf("enter sample %s: the gate that it should show let it in", sa.Name)
			}
			s.Options.Sayf("%s was refused: %v", sa.Name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("enter sample %s: %w", sa.Name, err)
		}
		if sub.Created {
			note := ""
			if scripted && sub.State == agon.SubmissionQueued {
				note = " (its model is a script: played, never seated)"
				if f.Rehearsal {
					note = " (its model is a script: a seat that it takes earns nothing)"
				}
			}
			s.Options.Sayf("entered %s as %s%s", sa.Name, sub.ID, note)
		}
	}
	return nil
}

// watch follows the play: progress, and a nudge for the weights at each
// decision. With Once it returns nil when no run is left to play, every
// complete submission is decided and the weights stand.
func (s *server) watch(ctx context.Context, wake chan<- struct{}) error {
	decided, told := -1, false
	var settledAt time.Time
	for {
		ov, err := s.Platform.Overview(ctx)
		if ctx.Err() != nil {
			return errStopped
		}
		if err != nil {
			return err
		}
		queued, playing, busy, err := s.unfinished(ctx)
		if ctx.Err() != nil {
			return errStopped
		}
		if err != nil {
			return err
		}
		done := ov.Runs.Scored + ov.Runs.Failed
		s.Options.Show(progress.State{Label: "playing" + busy, Total: done + queued + playing, Done: done, Running: playing, Failed: ov.Runs.Failed})
		n := 0
		for _, b := range ov.Arenas {
			n += len(b.Decisions)
		}
		if n != decided {
			decided = n
			select {
			case wake <- struct{}{}:
			default:
			}
		}
		if queued+playing == 0 && !told {
			if err := s.buildCorpus(ctx); err != nil {
				s.Options.Log.Warn("the corpus is not built", "error", err)
			}
			if s.Options.Decided != nil {
				s.Options.Decided(ov)
			}
			if s.later != nil {
				s.later()
				s.later = nil
			}
		}
		told = queued+playing == 0
		if s.Options.Once && queued+playing == 0 {
			if s.weightsStand(ctx, ov) {
				return nil
			}
			if settledAt.IsZero() {
				settledAt = time.Now()
			} else if time.Since(settledAt) > time.Minute {
				return &agon.Error{Code: "weights_not_set", Status: 503, Fault: agon.FaultLedger, Message: "all is decided, but the weights did not reach the ledger within a minute"}
			}
		}
		wctx, cancel := context.WithTimeout(ctx, time.Second)
		_ = s.Platform.Wait(wctx, "") // ends with news, after a second, or with ctx; each is looked at above
		cancel()
		select {
		case err := <-s.done:
			if errors.Is(err, http.ErrServerClosed) {
				return errStopped
			}
			return fmt.Errorf("serve /v1: %w", err)
		default:
		}
	}
}

// unfinished counts the runs that wait and those under way, and names the arenas that have some.
func (s *server) unfinished(ctx context.Context) (queued, playing int, busy string, err error) {
	list, err := s.Platform.Arenas(ctx)
	for _, a := range list {
		queued += a.Queued
		playing += a.Playing + a.Judging
		if a.Queued+a.Playing+a.Judging > 0 {
			busy += " " + a.ID
		}
	}
	return queued, playing, busy, err
}

// weightsStand reports whether the ledger shows what each arena wants.
func (s *server) weightsStand(ctx context.Context, ov *client.Overview) bool {
	for _, b := range ov.Arenas {
		t, err := s.Platform.Target(ctx, b.ID)
		if err != nil {
			return false
		}
		var have []uint16
		for _, w := range b.Weights {
			have = append(have, w.UID, w.Weight)
		}
		var want []uint16
		for i := range t.UIDs {
			want = append(want, t.UIDs[i], t.Values[i])
		}
		if !slices.Equal(have, want) {
			return false
		}
	}
	return true
}
