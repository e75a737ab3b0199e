package roles

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/metrics"
)

// Serve runs the platform, the embedded ledger and /v1 without playing.
func Serve(ctx context.Context, o kit.Options) error {
	untrace, err := o.Trace(ctx, "serve")
	if err != nil {
		return err
	}
	defer untrace()
	if o.Store != "" {
		return serveShared(ctx, o)
	}
	s, err := openArenas(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	o.Sayf("the operator's key is wallet %q below %s", "operator", s.Data.Path("wallets"))
	if err := s.permitDemos(ctx); err != nil {
		return err
	}
	defer roomy(o.Getenv)()
	if o.Ready != nil {
		o.Ready(s.URL())
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-s.done:
		return err
	}
}

// permitDemos gives the wallet `validator` a permit in the demo arenas, as `agon up`
// does, so that `agon validator` can play them at once, and says the command. Whoever
// names arenas with --arena says himself who validates.
func (s *server) permitDemos(ctx context.Context) error {
	if len(s.Options.Arenas) > 0 {
		s.Options.Sayf("runs wait for validators: agon validator --url %s", s.URL())
		return nil
	}
	wallets := s.Data.Path("wallets")
	val, err := kit.LoadParty(wallets, "validator")
	if err != nil {
		return err
	}
	for _, f := range s.Options.Kits.Demos() {
		if err := s.EnsureSubnet(ctx, f.Arena(), val); err != nil {
			return err
		}
	}
	s.Options.Sayf("runs wait for a validator; from a second terminal: agon validator --url %s --wallet.name validator --wallet.path %s", s.URL(), wallets)
	return nil
}

// Open is Serve for a program that goes on: the platform is served when Open
// returns, until stop is called.
func Open(ctx context.Context, o kit.Options) (s *kit.Server, stop func(), err error) {
	n, err := openArenas(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	return &n.Server, n.close, nil
}

// openArenas opens a server and the arenas that are configured, without samples.
func openArenas(ctx context.Context, o kit.Options) (*server, error) {
	return openArenasAt(ctx, o, seat{})
}

// openArenasAt is openArenas with what is open already, which it closes on error.
func openArenasAt(ctx context.Context, o kit.Options, at seat) (*server, error) {
	files, err := arenaFiles(o)
	if err != nil {
		return nil, errors.Join(err, at.close())
	}
	s, err := openServerAt(ctx, o, o.Kinds(""), at)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		f.Samples = false
		if err := s.openArena(ctx, f, nil); err != nil {
			s.close()
			return nil, err
		}
	}
	s.gate.open.Store(true)
	return s, nil
}

// Validator plays for the platform that c speaks to, signing with key, which
// must hold a validator permit there. Data holds its caches only.
func Validator(ctx context.Context, o kit.Options, c *client.Client, key auth.Signer, arenas []string) error {
	untrace, err := o.Trace(ctx, "validator")
	if err != nil {
		return err
	}
	defer untrace()
	speaks, err := protocolsFor(ctx, c)
	if err != nil {
		return err
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return err
	}
	watch, err := watched(o)
	if err != nil {
		return err
	}
	defer watch.end()
	d = watch.Driver(d)
	i := d.Info()
	o.Sayf("boxes: %s %s", i.Name, i.Version)
	dir := filepath.Join(o.Data, "validator-"+key.SS58())
	ledgers, err := validatorLedgers(o, c.URL(), key)
	if err != nil {
		return err
	}
	setter := newWeights(o, c, ledgers, dir, 10*time.Second)
	source, err := kit.RemoteSource(c, dir)
	if err != nil {
		return err
	}
	p, err := kit.NewPlayer(ctx, o, d, root, o.Kinds(root), source, filepath.Join(dir, "trees"))
	if err != nil {
		return err
	}
	defer p.Close()
	doors := &gateways{own: p.Own, key: key, over: o.Over}
	defer doors.close()
	p.Gateway = doors
	parallel := o.Parallel
	if parallel <= 0 {
		parallel = runtime.NumCPU()
	}
	o.Sayf("validator %s plays for %s, %d at once", key.SS58(), c.URL(), parallel)
	var wg sync.WaitGroup
	idle := func() { o.Sayf("waiting for work: no run is queued for it") }
	wg.Go(func() {
		newValidator(o, p, c, speaks, arenas, parallel, filepath.Join(dir, "outbox"), idle, watch).Run(ctx)
	})
	wg.Go(func() { setter.Run(ctx, nil) })
	wg.Wait()
	if err := ctx.Err(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// watch is what a validator counts, served where Options.Metrics names an address.
type watch struct {
	*metrics.Validator
	end func()
}

func watched(o kit.Options) (*watch, error) {
	w := &watch{metrics.NewValidator(time.Now), func() {}}
	if o.Metrics == "" {
		return w, nil
	}
	ln, err := listen(o.Metrics, "metrics")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", w.Handler())
	srv := newServer(mux)
	go func() { _ = srv.Serve(o.TLS.Listener(ln, false)) }() // until end closes it
	w.end = func() { _ = srv.Close() }
	o.Sayf("metrics on %s://%s/metrics", o.TLS.Scheme(), ln.Addr())
	return w, nil
}

// protocolsFor is what a validator says it speaks to a platform, nil to one that
// does not ask. It is an error where the two do not understand each other: found
// out before any box is made.
func protocolsFor(ctx context.Context, c *client.Client) (*client.Protocols, error) {
	info, err := c.Server(ctx)
	if err != nil {
		return nil, err
	}
	spoken := client.Spoken()
	if _, err := client.Agree(info.Protocols, &spoken); err != nil {
		return nil, err
	}
	if info.Protocols == nil {
		return nil, nil
	}
	return &spoken, nil
}
