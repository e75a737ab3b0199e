package roles

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ui/cli"
)

// gateways opens sessions where a run's policy wants them: at this process's
// own gateway, or at the platform's.
type gateways struct {
	own  *gateway.Gateway
	key  auth.Signer
	over *certs.Client // how gateways elsewhere are reached

	mu     sync.Mutex
	remote map[string]*gateway.Remote // by URL; guarded by mu
	left   []*gateway.Remote          // replaced when a gateway's key changed; guarded by mu
}

// Open implements validator.Gateway.
func (g *gateways) Open(ctx context.Context, p gateway.Policy, rec gateway.Recorder) (gateway.Session, error) {
	if p.At == "" {
		return g.own.Open(ctx, p, rec)
	}
	r, err := g.dial(ctx, p.At, p.Key)
	if err != nil {
		return nil, fmt.Errorf("open gateway session: %w", err)
	}
	return r.Open(ctx, p, rec)
}

// SealAt implements validator.Sealer.
func (g *gateways) SealAt(ctx context.Context, at, key, run string, attempt int) (*agon.Statement, error) {
	if at == "" {
		return g.own.Seal(ctx, run, attempt)
	}
	r, err := g.dial(ctx, at, key)
	if err != nil {
		return nil, fmt.Errorf("close attempt: %w", err)
	}
	return r.Seal(ctx, run, attempt)
}

// dial reaches the gateway at url, which must sign with key or with one that
// key has named as its follower. Its key may have changed since it was asked last.
func (g *gateways) dial(ctx context.Context, url, key string) (*gateway.Remote, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.remote[url]; r != nil && r.Info().Signs(key) {
		return r, nil
	}
	r, err := gateway.Dial(ctx, url, g.key, time.Now, g.over)
	if err != nil {
		return nil, err
	}
	if !r.Info().Signs(key) {
		_ = r.Close() // it has no session
		return nil, fmt.Errorf("%s signs as %s, the arena wants %s, which has named no follower", url, r.Info().Signer, key)
	}
	if g.remote == nil {
		g.remote = map[string]*gateway.Remote{}
	}
	if old := g.remote[url]; old != nil {
		g.left = append(g.left, old) // its sessions go on
	}
	g.remote[url] = r
	return r, nil
}

// close ends the ways to gateways elsewhere, after their sessions.
func (g *gateways) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range slices.Concat(slices.Collect(maps.Values(g.remote)), g.left) {
		_ = r.Close() // nothing is left to lose
	}
}

// gatewayRole is `agon gateway`.
func gatewayRole(ctx context.Context, kits kit.List, c cli.GatewayOptions) error {
	o := kits.Options(c.Common, "")
	untrace, err := o.Trace(ctx, "gateway")
	if err != nil {
		return err
	}
	defer untrace()
	d, err := kit.OpenData(filepath.Join(o.Data, "gateway"))
	if err != nil {
		return err
	}
	defer d.Close()
	gw, err := kit.NewGateway(ctx, o, d.Dir)
	if err != nil {
		return err
	}
	defer gw.Stop()
	seen, err := sqlite.Open(ctx, d.Path("nonces.db"))
	if err != nil {
		return err
	}
	defer seen.Close()
	holders := leaseholders{platform: c.Platform, allow: c.Allow, kits: kits}
	control := gateway.NewControl(gateway.ControlConfig{
		Gateway: gw, Log: o.Log, Authorize: holders.authorize, Seal: holders.maySeal, Called: o.Traces.Called(),
		Verifier: &auth.Verifier{Audience: d.Audience, Now: time.Now, Replay: &nonceGuard{store: seen, now: time.Now}},
	})
	defer control.Close()
	srv := &http.Server{Handler: o.Traces.Handler(control), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	ln, err := listen(o.Listen, "listen")
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(o.TLS.Listener(ln, false)) }() // ends with Close below
	defer srv.Close()
	defer roomy(o.Getenv)()
	c.Ready(o.TLS.Scheme()+"://"+ln.Addr().String(), gw.Signer())
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-done:
		return err
	}
}

// nonceGuard is an auth.ReplayGuard that survives a restart.
type nonceGuard struct {
	store *store.Store
	now   func() time.Time

	mu     sync.Mutex
	purged time.Time // guarded by mu
}

// Seen implements auth.ReplayGuard.
func (g *nonceGuard) Seen(ctx context.Context, scheme, hotkey, nonce string, until time.Time) (fresh bool, err error) {
	now := g.now()
	g.mu.Lock()
	purge := now.Sub(g.purged) > time.Minute
	if purge {
		g.purged = now
	}
	g.mu.Unlock()
	err = g.store.Write(ctx, func(tx *store.Tx) error {
		if purge {
			if _, err := tx.PurgeNonces(now, 10_000); err != nil {
				return err
			}
		}
		fresh, err = tx.UseNonce(scheme, hotkey, nonce, until)
		return err
	})
	return fresh, err
}

// leaseholders lets a validator open sessions for the runs that it holds. Money,
// models, fields and tools are the arena's word for agents and judges alike:
// what the validator asks for has no say in them.
type leaseholders struct {
	platform *client.Client
	allow    []string
	kits     kit.List
}

func notAuthorised(format string, args ...any) error {
	return &agon.Error{Code: "not_authorised", Status: http.StatusForbidden, Message: fmt.Sprintf(format, args...)}
}

func (l leaseholders) authorize(ctx context.Context, hotkey string, p gateway.Policy) (gateway.Policy, error) {
	switch p.Payer {
	case "", gateway.PayerRun, gateway.PayerJudge:
	default:
		return p, &agon.Error{Code: "bad_payer", Status: http.StatusUnprocessableEntity, Field: "Payer", Message: fmt.Sprintf("payer %.40q: want %s or %s", p.Payer, gateway.PayerRun, gateway.PayerJudge)}
	}
	if slices.Contains(l.allow, hotkey) {
		return p, nil
	}
	r, a, err := l.attempt(ctx, hotkey, p.Run, p.Attempt)
	if err != nil {
		return p, err
	}
	if !agon.RunState(a.State).Held() {
		return p, notAuthorised("%s does not hold attempt %d of this run", hotkey, p.Attempt)
	}
	if p.Task != "" && !slices.ContainsFunc(r.Tasks, func(t agon.TaskRef) bool { return t.Key == p.Task }) {
		return p, notAuthorised("task %.80q is not part of this run", p.Task)
	}
	if p.Payer != gateway.PayerJudge {
		if err := l.speaks(ctx, r.Arena, p.Dialects); err != nil {
			return p, err
		}
		p.Budget, p.Models, p.Aliases, p.Fields, p.Usage, p.Tools = r.Policy.Budget, r.Policy.Models, r.Policy.Aliases, r.Policy.Fields, r.Policy.Usage, r.Policy.Tools
		return p, nil
	}
	j := r.Policy.Judge
	if j == nil {
		arena, err := l.platform.Arena(ctx, r.Arena)
		if err != nil {
			return p, err
		}
		if k, ok := l.kits.Of(arena.Kind); ok && k.Judge != nil {
			j = k.Judge(len(r.Tasks))
		}
	}
	if j == nil {
		return p, notAuthorised("runs of this arena are judged without a model")
	}
	// One account for the whole attempt: a budget for each task would be as many budgets as names.
	p.Budget, p.Models, p.Aliases, p.Fields, p.Usage, p.Tools, p.Dialects, p.NonceField, p.Whole = j.Budget, j.Models, nil, nil, r.Policy.Usage, nil, []string{gateway.DialectOpenAI}, "", true
	return p, nil
}

// speaks refuses dialects that agents of the arena's kind do not speak: this
// gateway serves those of every kind.
func (l leaseholders) speaks(ctx context.Context, arena string, names []string) error {
	a, err := l.platform.Arena(ctx, arena)
	if err != nil {
		return err
	}
	k, ok := l.kits.Of(a.Kind)
	if !ok {
		return notAuthorised("this gateway does not know the kind of arena %s", arena)
	}
	may := k.Speaks()
	for _, d := range names {
		if !slices.Contains(may, d) {
			return notAuthorised("dialect %.40q: agents of this arena speak %s", d, strings.Join(may, ", "))
		}
	}
	return nil
}

// attempt finds an attempt that was hotkey's, and its run.
func (l leaseholders) attempt(ctx context.Context, hotkey, run string, attempt int) (*client.Run, *agon.Attempt, error) {
	if l.platform == nil {
		return nil, nil, notAuthorised("%s may open no session here", hotkey)
	}
	r, err := l.platform.Run(ctx, run)
	var e *agon.Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound {
		return nil, nil, notAuthorised("there is no such run")
	}
	if err != nil {
		return nil, nil, err
	}
	for i := range r.List {
		if a := &r.List[i]; a.N == attempt && a.Validator == hotkey {
			return r, a, nil
		}
	}
	return nil, nil, notAuthorised("attempt %d of this run is not of %s", attempt, hotkey)
}

// maySeal lets a validator close an attempt of its own, also one that it has lost.
func (l leaseholders) maySeal(ctx context.Context, hotkey, run string, attempt int) error {
	if slices.Contains(l.allow, hotkey) {
		return nil
	}
	_, _, err := l.attempt(ctx, hotkey, run, attempt)
	return err
}

// rotateGatewayKey gives the gateway of a data directory a new key. It must not run.
func rotateGatewayKey(o kit.Options) (*agon.Succession, error) {
	d, err := kit.OpenData(filepath.Join(o.Data, "gateway"))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	s, err := gateway.RotateKey(d.Dir, time.Now())
	return &s, err
}
