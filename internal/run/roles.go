package run

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
)

// Serve runs the platform, the embedded ledger and /v1 without playing.
func Serve(ctx context.Context, o Options) error {
	o.floor()
	files, err := arenaFiles(o)
	if err != nil {
		return err
	}
	untrace, err := o.trace(ctx, "serve")
	if err != nil {
		return err
	}
	defer untrace()
	s, err := openServer(ctx, o, kinds(o, ""))
	if err != nil {
		return err
	}
	defer s.close()
	for _, f := range files {
		f.Samples = false
		if err := s.openArena(ctx, f, nil); err != nil {
			return err
		}
	}
	o.say("the operator's key is wallet %q below %s", "operator", s.data.Path("wallets"))
	defer roomy(o.Getenv)()
	if o.Ready != nil {
		o.Ready(s.url())
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-s.done:
		return err
	}
}

// Validator plays for the platform that c speaks to, signing with key, which
// must hold a validator permit there. Data holds its caches only.
func Validator(ctx context.Context, o Options, c *client.Client, key auth.Signer, arenas []string) error {
	o.floor()
	untrace, err := o.trace(ctx, "validator")
	if err != nil {
		return err
	}
	defer untrace()
	d, root, err := openDriver(ctx, o)
	if err != nil {
		return err
	}
	i := d.Info()
	o.say("boxes: %s %s", i.Name, i.Version)
	dir := filepath.Join(o.Data, "validator-"+key.SS58())
	ledgers, err := validatorLedgers(o, c.URL(), key)
	if err != nil {
		return err
	}
	setter := newWeights(o, c, ledgers, dir, 10*time.Second)
	source, err := remoteSource(c, dir)
	if err != nil {
		return err
	}
	p, err := newPlayer(ctx, o, d, root, kinds(o, root), source, filepath.Join(dir, "trees"))
	if err != nil {
		return err
	}
	defer p.close()
	p.Gateway = &gateways{own: p.gateway, key: key}
	parallel := o.Parallel
	if parallel <= 0 {
		parallel = runtime.NumCPU()
	}
	o.say("validator %s plays for %s, %d at once", key.SS58(), c.URL(), parallel)
	var wg sync.WaitGroup
	wg.Go(func() { newValidator(o, p, c, arenas, parallel).Run(ctx) })
	wg.Go(func() { setter.Run(ctx, nil) })
	wg.Wait()
	if err := ctx.Err(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
