package roles

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/kit"
)

// arenaFiles returns the arenas to open: those of the files named, else the demos.
func arenaFiles(o kit.Options) ([]kit.ArenaFile, error) {
	if len(o.Arenas) == 0 {
		return o.Kits.Demos(), nil
	}
	var out []kit.ArenaFile
	from := map[string]string{}
	for _, path := range o.Arenas {
		f, err := kit.LoadArenaFile(path, o.Kits)
		if err != nil {
			return nil, err
		}
		if other, ok := from[f.ID]; ok {
			return nil, &agon.Error{Code: "duplicate", Status: 422, Field: "arena", Message: fmt.Sprintf("%s and %s have the same id, %s", other, path, f.ID), Mend: "give one of them another id"}
		}
		from[f.ID] = path
		out = append(out, f)
	}
	return out, nil
}

// openForeign opens the dialect of an arena's kind, if it has one that is not open yet.
func (s *server) openForeign(ctx context.Context, a agon.Arena) error {
	k, ok := s.Options.Kits.Of(a.Kind)
	if !ok || k.Serve == nil {
		return nil
	}
	at := s.foreign[k.Kind]
	if at == nil || at.Load() != nil {
		return nil
	}
	h, err := k.Serve(ctx, &s.Server, a)
	if err != nil {
		return err
	}
	at.Store(&h)
	return nil
}

// answers reports whether an open arena's dialect has this very path.
func (s *server) answers(path string) bool {
	for _, k := range s.Options.Kits {
		if at := s.foreign[k.Kind]; at != nil && at.Load() != nil && slices.Contains(k.Routes, path) {
			return true
		}
	}
	return false
}

// waits reports whether a path is one of a dialect whose clients leave at a 503.
func (s *server) waits(path string) bool {
	for _, k := range s.Options.Kits {
		if !k.Waits || k.Serve == nil {
			continue
		}
		for _, p := range k.Routes {
			if path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p) {
				return true
			}
		}
	}
	return false
}

// routeForeign makes room for the dialects of all kinds on mux. Until an arena
// of a kind is open, its routes are not found. Kinds that are eras of one foreign
// protocol share routes: the first of them that has an open arena has these.
func (s *server) routeForeign(mux *http.ServeMux) {
	boxes := map[string]firstOpen{}
	for _, k := range s.Options.Kits {
		if k.Serve == nil {
			continue
		}
		at := &handlerBox{}
		s.foreign[k.Kind] = at
		for _, p := range k.Routes {
			boxes[p] = append(boxes[p], at)
		}
	}
	for p, list := range boxes {
		mux.Handle(p, list)
	}
}

// firstOpen are the dialects that have a pattern, in the order of kinds.
type firstOpen []*handlerBox

func (f firstOpen) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, at := range f {
		if at.Load() != nil {
			at.ServeHTTP(w, r)
			return
		}
	}
	http.NotFound(w, r)
}
