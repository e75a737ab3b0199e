package validator

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
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
	Ledger  keeper.Ledger
	Hotkey  string // of this validator
	Dir     string // where keepers keep their files; it exists
	// Every is how often the ledger is looked at.
	Every time.Duration
	Log   *slog.Logger

	keepers map[uint16]*keeper.Keeper // owned by Run
}

// weightsVersion is the version of the judging that weights come from; a
// subnet's owner may demand it.
const weightsVersion = 1

// Run gives weights until ctx ends. wake makes it look at once.
func (w *Weights) Run(ctx context.Context, wake <-chan struct{}) {
	w.keepers = map[uint16]*keeper.Keeper{}
	t := time.NewTicker(w.Every)
	defer t.Stop()
	for {
		if err := w.once(ctx); err != nil && ctx.Err() == nil {
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

func (w *Weights) once(ctx context.Context) error {
	arenas, err := w.Targets.Arenas(ctx)
	if err != nil {
		return fmt.Errorf("list arenas: %w", err)
	}
	byNet := map[uint16][]string{}
	for _, a := range arenas {
		byNet[a.Netuid] = append(byNet[a.Netuid], a.ID)
	}
	for netuid, ids := range byNet {
		k := w.keepers[netuid]
		if k == nil {
			k, err = keeper.Open(keeper.Config{
				Ledger: w.Ledger, Netuid: netuid, Hotkey: w.Hotkey, VersionKey: weightsVersion,
				Path: filepath.Join(w.Dir, fmt.Sprintf("weights-%d.json", netuid)),
			})
			if err != nil {
				return fmt.Errorf("open the keeper of subnet %d: %w", netuid, err)
			}
			w.keepers[netuid] = k
		}
		rep, err := k.Tick(ctx, func(*ledger.Metagraph) ([]uint16, []uint16, error) { return w.want(ctx, ids) })
		if err != nil {
			return fmt.Errorf("subnet %d: %w", netuid, err)
		}
		for _, act := range rep.Actions {
			w.Log.Info("weights", "netuid", netuid, "action", act, "block", rep.Block)
		}
	}
	return nil
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
