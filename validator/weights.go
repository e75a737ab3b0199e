package validator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
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

// Weights gives this validator's weights on every subnet that its arenas use:
// once in each tempo, never twice (package keeper).
type Weights struct {
	Targets Targets
	// Ledgers opens the ledger that arenas name (agon.Arena.Ledger; "" is the
	// platform's own). It is asked again after an error.
	Ledgers func(name string) (keeper.Ledger, error)
	Hotkey  string // of this validator
	Dir     string // where keepers keep their files; it exists
	// Every is how often the ledger is looked at.
	Every time.Duration
	// Timeout bounds one call of a named ledger: a chain takes some blocks to make
	// an extrinsic final. 0 = five minutes.
	Timeout time.Duration
	Log     *slog.Logger

	nets map[place]*net // owned by Run
	told map[string]bool
}

// place is a subnet of a ledger.
type place struct {
	ledger string
	netuid uint16
}

// net is one subnet whose weights are kept. Only its own goroutine uses keeper
// while busy holds a token.
type net struct {
	keeper *keeper.Keeper
	busy   chan struct{}
}

// weightsVersion is the version of the judging that weights come from; a
// subnet's owner may demand it.
const weightsVersion = 1

// Run gives weights until ctx ends. wake makes it look at once. A ledger that
// does not answer keeps nobody from the others.
func (w *Weights) Run(ctx context.Context, wake <-chan struct{}) {
	w.nets, w.told = map[place]*net{}, map[string]bool{}
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
	for _, a := range arenas {
		at := place{a.Ledger, a.Netuid}
		by[at] = append(by[at], a.ID)
	}
	var errs []error
	for at, ids := range by {
		n := w.nets[at]
		if n == nil {
			if n, err = w.open(at); err != nil {
				if key := fmt.Sprint(at, err); !w.told[key] { // once: it is looked at every few seconds
					w.told[key] = true
					errs = append(errs, fmt.Errorf("arenas %s: %w", strings.Join(ids, ", "), err))
				}
				continue
			}
			w.nets[at] = n
		}
		select {
		case n.busy <- struct{}{}:
		default:
			continue // the last look is under way
		}
		wg.Go(func() {
			defer func() { <-n.busy }()
			if err := w.tick(ctx, at, n.keeper, ids); err != nil && ctx.Err() == nil {
				w.Log.Warn("giving weights", "ledger", at.ledger, "netuid", at.netuid, "err", err, "fault", agon.FaultLedger)
			}
		})
	}
	return errors.Join(errs...)
}

// open makes the keeper of a subnet.
func (w *Weights) open(at place) (*net, error) {
	l, err := w.Ledgers(at.ledger)
	if err != nil {
		return nil, err
	}
	cfg := keeper.Config{Ledger: l, Netuid: at.netuid, Hotkey: w.Hotkey, VersionKey: weightsVersion, Path: filepath.Join(w.Dir, fmt.Sprintf("weights-%d.json", at.netuid))}
	if at.ledger != "" {
		sum := sha256.Sum256([]byte(at.ledger))
		cfg.Path = filepath.Join(w.Dir, fmt.Sprintf("weights-%d-%x.json", at.netuid, sum[:8]))
		if cfg.Timeout = w.Timeout; cfg.Timeout == 0 {
			cfg.Timeout = 5 * time.Minute
		}
	}
	k, err := keeper.Open(cfg)
	if err != nil {
		return nil, fmt.Errorf("open the keeper of subnet %d: %w", at.netuid, err)
	}
	return &net{k, make(chan struct{}, 1)}, nil
}

func (w *Weights) tick(ctx context.Context, at place, k *keeper.Keeper, ids []string) error {
	rep, err := k.Tick(ctx, func(*ledger.Metagraph) ([]uint16, []uint16, error) { return w.want(ctx, ids) })
	for _, note := range rep.Notes {
		w.Log.Info("weights", "ledger", at.ledger, "netuid", at.netuid, "note", note)
	}
	for _, act := range rep.Actions {
		w.Log.Info("weights", "ledger", at.ledger, "netuid", at.netuid, "action", act, "block", rep.Block)
	}
	return err
}

// want joins what the arenas of one subnet want. Arenas that share a subnet
// share its weight in equal parts.
func (w *Weights) want(ctx context.Context, arenas []string) (uids, values []uint16, err error) {
	slices.Sort(arenas)
	shares := map[uint16]float64{}
	for _, id := range arenas {
		t, err := w.Targets.Target(ctx, id)
		if err != nil {
			return nil, nil, fmt.Errorf("ask what %s wants: %w", id, err)
		}
		if len(arenas) == 1 {
			return t.UIDs, t.Values, nil
		}
		sum := 0.0
		for _, v := range t.Values {
			sum += float64(v)
		}
		for i, u := range t.UIDs {
			if sum > 0 {
				shares[u] += float64(t.Values[i]) / sum
			}
		}
	}
	var top uint16
	for u := range shares {
		top = max(top, u)
	}
	dense := make([]float64, int(top)+1)
	for u, s := range shares {
		dense[u] = s
	}
	return ledger.NormalizeWeights(dense)
}
