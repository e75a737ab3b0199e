package validator

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// Targets answers what the incentive rules want.
type Targets interface {
	Arenas(ctx context.Context) ([]client.Arena, error)
	Target(ctx context.Context, arena string) (*client.Target, error)
}

// Chain is what a weight setter needs of a ledger.
type Chain interface {
	Ledger(ctx context.Context, netuid uint16) (*client.Metagraph, error)
	SetWeights(ctx context.Context, netuid uint16, r client.SetWeightsRequest) error
}

// Weights keeps the ledger's weights at what the arenas want.
type Weights struct {
	Targets Targets
	Chain   Chain
	Hotkey  string // of this validator
	Every   time.Duration
	Log     *slog.Logger

	last map[uint16][]uint16 // values last set by netuid, alternating uid, value; owned by Run
}

// Run sets weights whenever the target of a subnet differs from what stands,
// until ctx ends. wake makes it look at once.
func (w *Weights) Run(ctx context.Context, wake <-chan struct{}) {
	w.last = map[uint16][]uint16{}
	for {
		pause := w.Every
		if w.once(ctx) {
			pause = min(pause, 2*time.Second)
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		case <-wake:
			t.Stop()
		}
	}
}

func (w *Weights) once(ctx context.Context) (early bool) {
	arenas, err := w.Targets.Arenas(ctx)
	if err != nil {
		w.warn(ctx, "listing arenas", err)
		return false
	}
	for _, a := range arenas {
		t, err := w.Targets.Target(ctx, a.ID)
		if err != nil {
			w.warn(ctx, "asking for weights", err)
			continue
		}
		if len(t.UIDs) == 0 {
			continue
		}
		flat := make([]uint16, 0, 2*len(t.UIDs))
		for i := range t.UIDs {
			flat = append(flat, t.UIDs[i], t.Values[i])
		}
		if slices.Equal(w.last[t.Netuid], flat) {
			continue
		}
		// After a restart the ledger knows what we set before.
		if w.last[t.Netuid] == nil {
			if m, err := w.Chain.Ledger(ctx, t.Netuid); err == nil && sameWeights(m.Weights, t) && setter(m, w.Hotkey) {
				w.last[t.Netuid] = flat
				continue
			}
		}
		if err := w.Chain.SetWeights(ctx, t.Netuid, client.SetWeightsRequest{UIDs: t.UIDs, Values: t.Values}); err != nil {
			if client.IsCode(err, tooFast) {
				early = true // not wrong, only too soon
				continue
			}
			w.warn(ctx, "setting weights", err)
			continue
		}
		w.last[t.Netuid] = flat
		w.Log.Info("weights set", "netuid", t.Netuid, "uids", t.UIDs, "values", t.Values)
	}
	return early
}

// tooFast is the ledger's word for weights that come before the rate limit allows.
const tooFast = "SettingWeightsTooFast"

func (w *Weights) warn(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		w.Log.Warn(what, "err", err, "fault", agon.FaultLedger)
	}
}

func sameWeights(have []agon.Weight, t *client.Target) bool {
	if len(have) != len(t.UIDs) {
		return false
	}
	for i, h := range have {
		if h.UID != t.UIDs[i] || h.Weight != t.Values[i] {
			return false
		}
	}
	return true
}

func setter(m *client.Metagraph, hotkey string) bool {
	return slices.ContainsFunc(m.Neurons, func(n client.Neuron) bool { return n.Hotkey == hotkey && n.LastUpdate > 0 })
}
