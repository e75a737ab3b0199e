package validator

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/indexes"
)

var _ kind.Registrar = (*env)(nil)

// maxFetched bounds the files of an attempt that are kept in mind.
const maxFetched = 5000

// Registries implements kind.Registrar.
func (e *env) Registries(_ context.Context, names ...string) (kind.Registries, error) {
	if err := e.ended(); err != nil {
		return kind.Registries{}, err
	}
	var mu sync.Mutex // guards files
	var files []kind.Fetched
	s, err := indexes.Serve(indexes.Config{Names: names, Got: func(f indexes.File) {
		mu.Lock()
		defer mu.Unlock()
		if len(files) < maxFetched {
			files = append(files, kind.Fetched{Registry: f.Registry, Path: f.Path, Bytes: f.Bytes, Digest: agon.Digest(agon.DigestPrefix + f.SHA256)})
		}
	}})
	if err != nil {
		e.note(agon.FaultValidator, "serving package registries: "+err.Error())
		return kind.Registries{}, fmt.Errorf("serve package registries: %w", err)
	}
	e.mu.Lock()
	closed := e.closed
	if !closed {
		e.trees = append(e.trees, func() { _ = s.Close() })
	}
	e.mu.Unlock()
	if closed {
		_ = s.Close()
		return kind.Registries{}, errEnded
	}
	return kind.Registries{
		Door: sandbox.Door{Listen: indexes.Door, Target: s.URL},
		Env:  s.Env("/nonexistent"),
		Check: func(ctx context.Context) error {
			err := s.Check(ctx)
			if err != nil && ctx.Err() == nil {
				e.note(agon.FaultValidator, err.Error())
			}
			return err
		},
		Fetched: func() []kind.Fetched {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(files)
		},
	}, nil
}
