package roles

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/ledger/keeper"
	"github.com/agon-arena/agon/ledger/local"
)

// demoStake is what a validator of the embedded ledger stakes, in rao.
const demoStake = 1_000_000_000_000

// How the platform reads a ledger that is not its own.
const (
	graphFresh = 6 * time.Second  // half a block: younger is taken as it is
	graphRetry = 5 * time.Second  // a ledger that did not answer is left alone for so long
	graphStale = 20 * time.Minute // older is not an answer, however ill the ledger is
	graphWait  = 30 * time.Second // for one reading
)

// foreign are the ledgers that arenas name, each opened once. It is safe for concurrent use.
type foreign struct {
	now  func() time.Time
	over *certs.Client

	mu   sync.Mutex // guards open
	open map[string]*foreignLedger
}

func newForeign(now func() time.Time) *foreign {
	return &foreign{now: now, open: map[string]*foreignLedger{}}
}

// of gives the ledger of a name that the arena's file was checked for.
func (f *foreign) of(name string) *foreignLedger {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.open[name]
	if l == nil {
		l = &foreignLedger{name: name, now: f.now, nets: map[uint16]*snapshot{}}
		p, err := dial.Parse(name)
		if err != nil {
			l.bad = err // an arena of an older file
		} else {
			l.l = dial.NewLazy(p, dial.Config{Now: f.now, Over: f.over})
		}
		f.open[name] = l
	}
	return l
}

func (f *foreign) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, l := range f.open {
		if l.l != nil {
			errs = append(errs, l.l.Close())
		}
	}
	return errors.Join(errs...)
}

// foreignLedger reads metagraphs of a ledger elsewhere and keeps each for half
// a block, or until the ledger answers again.
type foreignLedger struct {
	name string
	bad  error // of the name
	l    *dial.Lazy
	now  func() time.Time

	mu   sync.Mutex // guards nets
	nets map[uint16]*snapshot
}

type snapshot struct {
	mu    sync.Mutex // held while the ledger is asked: once for all who wait
	graph *ledger.Metagraph
	at    time.Time // of graph
	err   error     // of the last asking
	asked time.Time
}

// Block implements kit.Hashed.
func (f *foreignLedger) Block(ctx context.Context) (uint64, error) {
	if f.bad != nil {
		return 0, f.bad
	}
	ctx, cancel := context.WithTimeout(ctx, graphWait)
	defer cancel()
	return f.l.Block(ctx)
}

// BlockHash implements kit.Hashed.
func (f *foreignLedger) BlockHash(ctx context.Context, number uint64) (string, error) {
	if f.bad != nil {
		return "", f.bad
	}
	ctx, cancel := context.WithTimeout(ctx, graphWait)
	defer cancel()
	return f.l.BlockHash(ctx, number)
}

// Metagraph implements graphs. What is returned is not to be changed.
func (f *foreignLedger) Metagraph(ctx context.Context, netuid uint16) (*ledger.Metagraph, error) {
	if f.bad != nil {
		return nil, f.bad
	}
	f.mu.Lock()
	s := f.nets[netuid]
	if s == nil {
		s = &snapshot{}
		f.nets[netuid] = s
	}
	f.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := f.now()
	if s.graph != nil && now.Sub(s.at) < graphFresh {
		return s.graph, nil
	}
	if s.err == nil || now.Sub(s.asked) >= graphRetry {
		// Not the caller's context: others wait for the same answer.
		ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), graphWait)
		g, err := f.l.Metagraph(ask, netuid)
		cancel()
		now = f.now()
		s.err, s.asked = err, now
		if err == nil {
			s.graph, s.at = g, now
		}
	}
	var refusal *ledger.Error
	switch {
	case s.err == nil:
	case errors.As(s.err, &refusal):
		return nil, s.err
	case s.graph == nil || now.Sub(s.at) > graphStale:
		return nil, &agon.Error{
			Code: "ledger_unavailable", Status: 503, Fault: agon.FaultLedger, Message: fmt.Sprintf("the ledger %s does not answer: %v", f.name, s.err), Mend: "try again later", Err: s.err,
		}
	}
	return s.graph, nil
}

// graphsOf is the ledger that an arena is on.
func (s *server) graphsOf(a agon.Arena) kit.Graphs {
	if a.Ledger == "" {
		return s.Ledger
	}
	return s.foreignLedgers.of(a.Ledger)
}

// ensureSubnet makes the subnet of an arena, owned by the operator, and
// registers the validator of this process, if there is one. On a ledger that is
// not ours nothing is changed: what is missing there is told.
func (s *server) ensureSubnet(ctx context.Context, a agon.Arena, val *kit.Party) error {
	if a.Ledger != "" {
		_, err := s.foreignLedgers.of(a.Ledger).Metagraph(ctx, a.Netuid)
		switch {
		case errors.Is(err, ledger.ErrSubnetNotExists):
			return &agon.Error{Code: "bad_arena_file", Status: 422, Field: "netuid", Message: fmt.Sprintf("arena %s: netuid: subnet %d does not exist on the ledger %s", a.ID, a.Netuid, a.Ledger)}
		case err != nil && ctx.Err() == nil:
			s.Options.Sayf("arena %s: %v; it is asked again", a.ID, err)
		case err == nil && val != nil:
			_, err = s.EnsureRegistered(ctx, a, val)
		}
		return kit.Err0(ctx, err)
	}
	err := s.Ledger.EnsureSubnet(ctx, a.Netuid, local.Subnet{OwnerHotkey: s.Operator.Hotkey.SS58(), OwnerColdkey: s.Operator.Coldkey})
	if err != nil {
		return fmt.Errorf("make subnet %d: %w", a.Netuid, err)
	}
	if err := s.ensurePrice(ctx, a.Netuid); err != nil {
		return fmt.Errorf("price registrations of subnet %d: %w", a.Netuid, err)
	}
	if err := s.ensureMechanism(ctx, a); err != nil {
		return err
	}
	if val == nil {
		return nil
	}
	if _, err := s.EnsureRegistered(ctx, a, val); err != nil {
		return err
	}
	if err := s.Ledger.SetValidator(ctx, a.Netuid, val.Hotkey.SS58(), true, demoStake); err != nil {
		return fmt.Errorf("give the validator its permit: %w", err)
	}
	return nil
}

// ensureMechanism gives a subnet of ours the mechanism that an arena is on.
func (s *server) ensureMechanism(ctx context.Context, a agon.Arena) error {
	m, err := s.Ledger.Metagraph(ctx, a.Netuid)
	if err != nil || int(a.Mechanism) <= len(m.Mechanisms) {
		return err
	}
	if err := s.Ledger.SetRule(ctx, a.Netuid, s.Operator.Coldkey, "mechanism_count", int64(a.Mechanism)+1); err != nil {
		return &agon.Error{Code: "bad_arena_file", Status: 422, Field: "mechanism", Message: fmt.Sprintf("arena %s: mechanism %d: %v", a.ID, a.Mechanism, err), Err: err}
	}
	return nil
}

// maxPrice bounds what a registration may come to cost, as a multiple of the least.
const maxPrice = 1000

// ensurePrice makes registrations of a subnet cost at least what was asked for.
// Each one raises the price by a quarter; it halves every six minutes of blocks.
func (s *server) ensurePrice(ctx context.Context, netuid uint16) error {
	if s.Options.Registration != local.RegistrationBurn {
		return nil
	}
	m, err := s.Ledger.Metagraph(ctx, netuid)
	if err != nil {
		return err
	}
	price := s.Options.RegistrationPrice
	if price == 0 {
		price = DefaultRegistrationPrice
	}
	h := m.Hyper
	if h.MinBurn == price {
		return nil
	}
	h.MinBurn, h.MaxBurn = price, maxPrice*price
	return s.Ledger.SetHyperparameters(ctx, netuid, h)
}

// DefaultRegistrationPrice is the least price of a registration that costs something, in rao: 1 TAO.
const DefaultRegistrationPrice = 1_000_000_000

// ensureRegistered registers a demo Party unless it is. On a ledger that is not
// ours registering may cost money: it is left to people, and false is returned.
func (s *server) ensureRegistered(ctx context.Context, a agon.Arena, p *kit.Party) (bool, error) {
	_, ok, err := kit.Chain{Ledger: s.Graphs(a)}.Registered(ctx, a.Netuid, p.Hotkey.SS58())
	if err != nil || ok {
		return ok, err
	}
	if a.Ledger != "" {
		s.Options.Sayf("%s (%s) is not registered on subnet %d of the ledger %s: `agon ledger register --ledger %s --netuid %d`, wallet %q below %s",
			p.Name, p.Hotkey.SS58(), a.Netuid, a.Ledger, a.Ledger, a.Netuid, p.Name, s.Data.Path("wallets"))
		return false, nil
	}
	if m, err := s.Ledger.Metagraph(ctx, a.Netuid); err != nil {
		return false, err
	} else if m.Burn > 0 { // the operator's own parties are given the price
		if err := s.Ledger.Fund(ctx, p.Coldkey, 2*m.Burn); err != nil {
			return false, fmt.Errorf("fund %s: %w", p.Name, err)
		}
	}
	if _, err := s.Ledger.Register(ctx, a.Netuid, p.Hotkey.SS58(), p.Coldkey); err != nil {
		return false, fmt.Errorf("register %s: %w", p.Name, err)
	}
	return true, nil
}

// weightLedgers opens the ledgers on which a validator gives its weights.
type weightLedgers struct {
	key auth.Signer
	own string // where the platform's own ledger, or the one of AGON_LEDGER, is
	// trust says whether an address that an arena names may be signed for. Who
	// answers there says itself which chain it is and what a call means, so that a
	// signature for it may be one for another chain.
	trust func(name string) bool
	// relays are drand's HTTP relays (AGON_DRAND_RELAYS).
	relays []string
	over   *certs.Client
}

func (w *weightLedgers) open(name string) (keeper.Ledger, error) {
	at := name
	if name == "" {
		at = w.own
	}
	p, err := dial.Parse(at)
	if err != nil {
		return nil, err
	}
	if name != "" && !p.Network && !w.trust(name) {
		return nil, &agon.Error{
			Code: "ledger_not_trusted", Status: 403, Field: "ledger", Message: "the arena names the ledger " + name + ", which this validator was not told to sign for",
			Mend: "put it into AGON_LEDGERS (names with blanks between them) if you trust who serves it",
		}
	}
	signer := func(address string) (auth.Signer, error) {
		if address != w.key.SS58() {
			return nil, fmt.Errorf("no key of %s is here", address)
		}
		return w.key, nil
	}
	return dial.NewLazy(p, dial.Config{Signer: signer, Relays: w.relays, Over: w.over}), nil
}

// validatorLedgers reads AGON_LEDGER, where arenas that name no ledger are (the
// platform serves it where the variable is empty or local), and AGON_LEDGERS,
// the addresses that arenas may name.
func validatorLedgers(o kit.Options, platform string, key auth.Signer) (*weightLedgers, error) {
	own := o.Getenv("AGON_LEDGER")
	p, err := dial.Parse(own)
	if err != nil {
		return nil, fmt.Errorf("AGON_LEDGER: %w", err)
	}
	if p.Own() {
		own = platform
	}
	trusted := map[string]bool{p.Name: true}
	for _, name := range strings.Fields(o.Getenv("AGON_LEDGERS")) {
		if _, err := dial.Parse(name); err != nil {
			return nil, fmt.Errorf("AGON_LEDGERS: %w", err)
		}
		trusted[name] = true
	}
	return &weightLedgers{over: o.Over, key: key, own: own, trust: func(name string) bool { return trusted[name] }, relays: strings.Fields(o.Getenv("AGON_DRAND_RELAYS"))}, nil
}
