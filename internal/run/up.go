package run

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
	"github.com/agon-arena/agon/cli/progress"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/gateway"
)

// Up runs everything in one process: platform, ledger, gateway, one validator.
// With Once it returns when every submission is decided, with the outcome;
// else when ctx ends.
func Up(ctx context.Context, o Options) (*client.Overview, error) {
	o.floor()
	files, err := arenaFiles(o)
	if err != nil {
		return nil, err
	}
	untrace, err := o.trace(ctx, "up")
	if err != nil {
		return nil, err
	}
	defer untrace()
	// No sandbox, no play: found out before anything is opened.
	d, root, err := openDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	o.say("boxes: %s %s (%s)", d.Info().Name, d.Info().Version, strings.Join(d.Info().Limits, ", "))
	ks := kinds(o, root)
	s, err := openServer(ctx, o, ks)
	if err != nil {
		return nil, err
	}
	defer s.close()

	val, err := loadParty(s.data.Path("wallets"), "validator")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if err := s.openArena(ctx, f, val); err != nil {
			return nil, err
		}
	}

	// What this validator held when the process before was killed is lost for
	// certain: it is queued again at once, not when its lease runs out.
	if n, err := s.platform.Abandon(ctx, val.Hotkey.SS58(), "restart"); err != nil {
		return nil, err
	} else if n > 0 {
		o.say("%d runs were under way when agon last ended: they are played again", n)
	}
	valClient, err := client.New(s.url(), val.Hotkey)
	if err != nil {
		return nil, err
	}
	source, err := remoteSource(valClient, s.data.Path("validator"))
	if err != nil {
		return nil, err
	}
	p, err := newPlayer(ctx, o, d, root, ks, source, s.data.Path("validator", "trees"))
	if err != nil {
		return nil, err
	}
	defer p.close()
	p.Gateway = &gateways{own: p.gateway, key: val.Hotkey}

	if o.Ready != nil {
		o.Ready(s.url())
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
		if k, _ := kitOf(f.Kind); f.Samples && f.Ledger == "" && k.beside != nil {
			b, err := k.beside(ctx, s, f, d, root)
			if err != nil {
				stop()
				return nil, fmt.Errorf("play %s without a platform: %w", f.ID, err)
			}
			aside.Go(func() {
				defer b.close()
				b.run(work, o.Once)
			})
		}
	}
	parallel := o.Parallel
	if parallel <= 0 {
		parallel = runtime.NumCPU()
	}
	loop := newValidator(o, p, valClient, nil, parallel)
	wg.Go(func() { loop.Run(work) })
	wake := make(chan struct{}, 1)
	// Who runs this process wrote the arenas' files: what they name is trusted.
	setter := newWeights(o, valClient, &weightLedgers{key: val.Hotkey, own: s.url(), trust: func(string) bool { return true }, relays: strings.Fields(o.Getenv("AGON_DRAND_RELAYS"))}, s.data.Path("validator"), time.Second)
	wg.Go(func() { setter.Run(work, wake) })

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
	ov, err := s.platform.Overview(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	ov.BoxDriver, ov.Corpus = d.Info().Name, s.corpus
	return ov, nil
}

// openArena makes sure of an arena, its subnet and the demo's registrations.
func (s *server) openArena(ctx context.Context, f ArenaFile, val *party) error {
	refs, err := arenaTasks(ctx, s.o, f, s.blobs, s.data.Path("tmp"))
	if err != nil {
		return err
	}
	a := f.Arena()
	a.Tasks = refs
	if err := s.ensureSubnet(ctx, a, val); err != nil {
		return err
	}
	k, _ := kitOf(a.Kind)
	if k.prepare != nil {
		if err := k.prepare(ctx, s, &a); err != nil {
			return err
		}
	}
	if err := s.platform.EnsureArena(ctx, a); err != nil {
		return err
	}
	s.o.say("arena %s: %d tasks", a.ID, len(refs))
	if k.opened != nil {
		if err := k.opened(ctx, s, &a); err != nil {
			return err
		}
	}
	return s.openForeign(ctx, a)
}

// enterSamples submits agon's own agents by their own miners, over HTTP like
// anybody. Entering them again changes nothing.
func (s *server) enterSamples(ctx context.Context, f ArenaFile) error {
	keyed := s.o.Getenv("AGON_LLM_BASE_URL") != ""
	k, ok := kitOf(f.Kind)
	if !ok {
		return fmt.Errorf("enter samples: no kind %q", f.Kind)
	}
	if k.enter != nil {
		return k.enter(ctx, s, f)
	}
	for _, sa := range k.samples {
		files, err := sa.files(f.Kind)
		if err != nil {
			return err
		}
		miner, err := loadParty(s.data.Path("wallets"), "miner-"+sa.name)
		if err != nil {
			return err
		}
		if ok, err := s.ensureRegistered(ctx, f.Arena(), miner); err != nil {
			return err
		} else if !ok {
			continue
		}
		c, err := client.New(s.url(), miner.Hotkey)
		if err != nil {
			return err
		}
		scripted := sa.model && !keyed
		if sa.model && keyed {
			a, err := s.platform.Arena(ctx, f.ID)
			if err != nil {
				return err
			}
			bound := gateway.UpperBound(a.Policy.Budget, len(a.Tasks)*(1+a.Attempts))
			s.o.say("sample %s uses a real model: it can cost at most $%.2f", sa.name, float64(bound)/1e6)
		}
		sub, err := c.Submit(ctx, f.ID, client.SubmitRequest{
			Name: sa.name, Licence: f.Licence, Scripted: scripted, Files: files,
		})
		if sa.refused {
			if err == nil {
				return fmt.Errorf("enter sample %s: the gate that it should show let it in", sa.name)
			}
			s.o.say("%s was refused: %v", sa.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("enter sample %s: %w", sa.name, err)
		}
		if sub.Created {
			note := ""
			if scripted {
				note = " (its model is a script: played, never seated)"
			}
			s.o.say("entered %s as %s%s", sa.name, sub.ID, note)
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
		ov, err := s.platform.Overview(ctx)
		if ctx.Err() != nil {
			return errStopped
		}
		if err != nil {
			return err
		}
		queued, playing, err := s.unfinished(ctx)
		if ctx.Err() != nil {
			return errStopped
		}
		if err != nil {
			return err
		}
		done := ov.Runs.Scored + ov.Runs.Failed
		s.o.progress(progress.State{Label: "playing", Total: done + queued + playing, Done: done, Running: playing, Failed: ov.Runs.Failed})
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
				s.o.Log.Warn("the corpus is not built", "error", err)
			}
			if s.o.Decided != nil {
				s.o.Decided(ov)
			}
		}
		told = queued+playing == 0
		if s.o.Once && queued+playing == 0 {
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
		_ = s.platform.Wait(wctx, "") // ends with news, after a second, or with ctx; each is looked at above
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

// unfinished counts the runs that wait and those under way.
func (s *server) unfinished(ctx context.Context) (queued, playing int, err error) {
	list, err := s.platform.Arenas(ctx)
	for _, a := range list {
		queued += a.Queued
		playing += a.Playing
	}
	return queued, playing, err
}

// weightsStand reports whether the ledger shows what each arena wants.
func (s *server) weightsStand(ctx context.Context, ov *client.Overview) bool {
	for _, b := range ov.Arenas {
		t, err := s.platform.Target(ctx, b.ID)
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
