package validator

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
)

var _ kind.Watcher = (*env)(nil)

// Watch implements kind.Watcher.
func (e *env) Watch(ctx context.Context, taskKey string, d kind.Dialect, listen ...string) (kind.Watched, error) {
	tap := &tap{rec: e.rec}
	policy := e.agentPolicy(taskKey, d.Names)
	policy.NonceField = d.NonceField
	s, err := e.session(ctx, policy, tap)
	if err != nil {
		return kind.Watched{}, err
	}
	return kind.Watched{Doors: doorsTo(s, listen), Seal: func() ([]agon.Event, error) {
		if err := s.Close(); err != nil {
			e.note(agon.FaultValidator, "closing a gateway session: "+err.Error())
			return nil, fmt.Errorf("close gateway session: %w", err)
		}
		return tap.events(), nil
	}}, nil
}

// tap records a session's events and keeps them for the kind.
type tap struct {
	rec *recorder

	mu  sync.Mutex
	all []agon.Event // guarded by mu
}

// Record implements gateway.Recorder.
func (t *tap) Record(typ, taskKey string, data any) {
	ev := t.rec.add(typ, taskKey, data)
	t.mu.Lock()
	t.all = append(t.all, ev)
	t.mu.Unlock()
}

func (t *tap) events() []agon.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.all)
}
