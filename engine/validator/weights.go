package validator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/keeper"
)

// Targets answers what the incentive rules want.
type Targets interface {
	Arenas(ctx context.Context) ([]client.Arena, error)
	Target(ctx context.Context, arena string) (*client.Target, error)
}

// Weights gives this validator's weights on every mechanism of a subnet that its
// arenas use: once in each tempo, never twice (package keeper).
type Weights struct {
	Targets Targets
	// Ledgers opens the ledger that arenas name (agon.Arena.Ledger; "" is the
	// platform's own). It is asked again after an error.
	Ledgers func(name string) (keeper.Ledger, error)
	Hotkey  string // of this validator
	Dir     string // where keepers keep their files; it exists
	// Every is how often the ledger is looked at.
	Every time.Duration
	// Timeout bounds one call that changes a ledger: a chain takes some blocks to
	// make an extrinsic final. 0 = ten minutes.
	Timeout time.Duration
	Log     *slog.Logger

	nets map[place]*net // owned by Run
	// unopened is the last error of each subnet whose keeper could not be
	// opened, so that it is logged once and not at every look; owned by Run.
	unopened map[place]string
}

// place is a mechanism of a subnet of a ledger.
type place struct {
	ledger    string
	netuid    uint16
	mechanism uint8
}

func placeOf(a *client.Arena) place { return place{a.Ledger, a.Netuid, a.Mechanism} }

// net is one subnet whose weights are kept. While busy holds a token, only the
// goroutine that put it there uses the rest.
type net struct {
	busy   chan struct{}
	ledger keeper.Ledger
	keeper *keeper.Keeper // nil until the ledger said which chain it is
	held   string         // why no weights are wanted, as it was last logged; "": they are
}

// version is the version key of the weights of a subnet: the highest that its
// arenas name, for it is one vector and the subnet takes any key that is high enough.
func version(arenas []client.Arena, at place) uint64 {
	key := uint64(agon.DefaultWeightsVersion)
	for i := range arenas {
		if placeOf(&arenas[i]) == at {
			key = max(key, arenas[i].WeightsVersion)
		}
	}
	return key
}

// Run gives weights until ctx ends. wake makes it look at once. A ledger that
// does not answer keeps nobody from the others.
func (w *Weights) Run(ctx context.Context, wake <-chan struct{}) {
	w.nets, w.unopened = map[place]*net{}, map[place]string{}
	var wg sync.WaitGroup
	defer wg.Wait()
	t := time.NewTicker(w.Every)
	defer t.Stop()
	for {
		if err := w.look(ctx, &wg); err != nil && ctx.Err() == nil {
			w.Log.Warn("giving weights", "err", err, "fault", agon.FaultLedger)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-wake:
		}
	}
}

// look starts a look at every subnet that is not being looked at.
func (w *Weights) look(ctx context.Context, wg *sync.WaitGroup) error {
	arenas, err := w.Targets.Arenas(ctx)
	if err != nil {
		return fmt.Errorf("list arenas: %w", err)
	}
	by := map[place][]string{}
	for i := range arenas {
		at := placeOf(&arenas[i])
		by[at] = append(by[at], arenas[i].ID)
	}
	// An error is kept for as long as its subnet has an arena.
	maps.DeleteFunc(w.unopened, func(at place, _ string) bool { return by[at] == nil })
	var errs []error
	for at, ids := range by {
		n := w.nets[at]
		if n == nil {
			l, err := w.Ledgers(at.ledger)
			if err != nil {
				if w.unopened[at] != err.Error() {
					w.unopened[at] = err.Error()
					errs = append(errs, fmt.Errorf("arenas %s: %w", strings.Join(ids, ", "), err))
				}
				continue
			}
			delete(w.unopened, at)
			n = &net{busy: make(chan struct{}, 1), ledger: l}
			w.nets[at] = n
		}
		select {
		case n.busy <- struct{}{}:
		default:
			continue // the last look is under way
		}
		wg.Go(func() {
			defer func() { <-n.busy }()
			if err := w.tick(ctx, at, n, ids, version(arenas, at)); err != nil && ctx.Err() == nil {
				w.Log.Warn("giving weights", "ledger", at.ledger, "netuid", at.netuid, "mechanism", at.mechanism, "err", err, "fault", agon.FaultLedger)
			}
		})
	}
	return errors.Join(errs...)
}

// open makes the keeper of a subnet. Its file is that of the chain, wherever the
// chain was reached: the list of nodes may change.
func (w *Weights) open(ctx context.Context, at place, n *net) error {
	cfg := keeper.Config{Ledger: n.ledger, Netuid: at.netuid, Mechanism: at.mechanism, Hotkey: w.Hotkey, SendTimeout: w.Timeout}
	name := fmt.Sprintf("weights-%d.json", at.netuid)
	if at.ledger != "" {
		sum := sha256.Sum256([]byte(at.ledger))
		name = fmt.Sprintf("weights-%d-%x.json", at.netuid, sum[:8])
	}
	if at.mechanism > 0 {
		name = fmt.Sprintf("mechanism-%d-%s", at.mechanism, name)
	}
	cfg.Path = filepath.Join(w.Dir, name)
	if g, ok := n.ledger.(genesis); ok {
		ctx, cancel := context.WithTimeout(ctx, genesisTimeout)
		defer cancel()
		switch hash, err := g.Genesis(ctx); {
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil:
			return fmt.Errorf("ask which chain subnet %d is on: %w", at.netuid, err)
		default:
			cfg.Genesis, cfg.Old, cfg.Path = hash, cfg.Path, filepath.Join(w.Dir, keeper.File(hash, at.netuid, at.mechanism, w.Hotkey))
		}
	}
	k, err := keeper.Open(cfg)
	if err != nil {
		return fmt.Errorf("open the keeper of subnet %d: %w", at.netuid, err)
	}
	n.keeper = k
	return nil
}

// genesis is a ledger that is a chain, or finds out whether it is.
type genesis interface {
	// Genesis is the hash of block 0; errors.ErrUnsupported: there is none.
	Genesis(ctx context.Context) (string, error)
}

// genesisTimeout bounds the question which chain a ledger is.
const genesisTimeout = 30 * time.Second

func (w *Weights) tick(ctx context.Context, at place, n *net, ids []string, version uint64) error {
	if n.keeper == nil {
		if err := w.open(ctx, at, n); err != nil {
			return err
		}
	}
	n.keeper.SetVersion(version)
	rep, err := n.keeper.Tick(ctx, func(m *ledger.Metagraph) ([]uint16, []uint16, error) {
		uids, values, held, err := w.want(ctx, m, ids)
		if held != n.held && err == nil {
			if n.held = held; held != "" {
				w.Log.Info("weights", "ledger", at.ledger, "netuid", at.netuid, "note", held)
			}
		}
		return uids, values, err
	})
	for _, note := range rep.Notes {
		w.Log.Info("weights", "ledger", at.ledger, "netuid", at.netuid, "note", note)
	}
	for _, act := range rep.Actions {
		w.Log.Info("weights", "ledger", at.ledger, "netuid", at.netuid, "action", act, "block", rep.Block)
	}
	return err
}

// want joins what the arenas of one subnet want. Each arena has the same part
// of the subnet's weight, whatever its own numbers sum up to. The part of an
// arena that wants nobody to have it goes to the subnet's owner, where the
// ledger burns it. Where the owner is not registered the whole subnet waits, and
// held says why: without a weight for that part, the ledger would spread it over
// the other arenas.
func (w *Weights) want(ctx context.Context, m *ledger.Metagraph, arenas []string) (uids, values []uint16, held string, err error) {
	slices.Sort(arenas) // sums of floats depend on the order
	dense := make([]float64, ledger.MaxUID+1)
	for _, id := range arenas {
		t, err := w.Targets.Target(ctx, id)
		if err != nil {
			return nil, nil, "", fmt.Errorf("ask what %s wants: %w", id, err)
		}
		if len(t.UIDs) != len(t.Values) {
			return nil, nil, "", fmt.Errorf("ask what %s wants: %d uids with %d values", id, len(t.UIDs), len(t.Values))
		}
		if len(arenas) == 1 {
			return t.UIDs, t.Values, "", nil
		}
		sum := 0.0
		for _, v := range t.Values {
			sum += float64(v)
		}
		if sum == 0 {
			owner, ok := m.BurnUID()
			if !ok {
				return nil, nil, fmt.Sprintf("no weights: the part of arena %s must be burned and the owner of subnet %d is not registered", id, m.Netuid), nil
			}
			dense[owner]++
			continue
		}
		for i, u := range t.UIDs {
			dense[u] += float64(t.Values[i]) / sum
		}
	}
	uids, values, err = ledger.NormalizeWeights(dense)
	return uids, values, "", err
}
