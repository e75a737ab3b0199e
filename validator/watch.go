package validator

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kind"
	"github.com/agon-arena/agon/sandbox"
)

var _ kind.Watcher = (*env)(nil)

// Watch implements kind.Watcher.
func (e *env) Watch(ctx context.Context, taskKey string, d kind.Dialect, listen ...string) (kind.Watched, error) {
	pol := e.job.Run.Policy
	tap := &tap{rec: e.rec}
	s, err := e.p.Gateway.Open(ctx, gateway.Policy{
		Run: e.job.Run.Run, Attempt: e.job.Attempt, Task: taskKey, Payer: "run",
		Models: pol.Models, Budget: pol.Budget, Dialects: slices.Clone(d.Names), NonceField: d.NonceField,
		Fields: pol.Fields, Tools: pol.Tools, At: pol.Gateway, Key: pol.GatewayKey,
	}, tap)
	if err != nil {
		e.note(agon.FaultValidator, "opening a gateway session: "+err.Error())
		return kind.Watched{}, fmt.Errorf("open gateway session: %w", err)
	}
	e.mu.Lock()
	e.sessions = append(e.sessions, s)
	e.mu.Unlock()
	w := kind.Watched{Seal: func() ([]agon.Event, error) {
		if err := s.Close(); err != nil {
			e.note(agon.FaultValidator, "closing a gateway session: "+err.Error())
			return nil, fmt.Errorf("close gateway session: %w", err)
		}
		return tap.events(), nil
	}}
	for _, l := range listen {
		w.Doors = append(w.Doors, sandbox.Door{Listen: l, Target: s.BaseURL(), Header: s.Header()})
	}
	return w, nil
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
