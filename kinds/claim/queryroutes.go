package claim

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/desearch"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/rounds"
	"github.com/agon-arena/agon/kinds/claim/wire"
	"github.com/agon-arena/agon/kinds/kit"
)

// platformRoutes are what both eras of the field's platform have, queryOnly what only the
// later one has. A server has those of one era (kinds/claim/harnyx.md).
var (
	platformRoutes = []string{"/v1/miners/", "/v1/miner-task-batches/", "/v1/validators/register", "/v1/weights", "/v1/monitoring/", "/v1/feeds/", "/v1/repo-search/"}
	queryOnly      = []string{"/v2/miner-task-work/", "/v1/platform-tool-proxy/", "/v1/miner-config"}
)

// wireQueries are an arena's tasks as validators of the query era take them.
func wireQueries(ctx context.Context, source blob.Store, list []agon.TaskRef, work string) ([]wire.QueryTask, error) {
	var out []wire.QueryTask
	err := eachTask(ctx, source, list, work, func(t *task.Task) error {
		q, r, err := play.LoadQuery(t)
		if err != nil {
			return err
		}
		w := wire.QueryTask{TaskID: q.TaskID, Query: json.RawMessage(q.Query), BudgetUSD: float64(q.Budget) / 1e6, Reference: wire.QueryReference{Text: r.Text, Note: r.Note}}
		for _, c := range r.Citations {
			var n *wire.CitedNote
			if c != nil {
				n = &wire.CitedNote{URL: c.URL, Note: c.Note, Title: c.Title}
			}
			w.Reference.Citations = append(w.Reference.Citations, n)
		}
		out = append(out, w)
		return nil
	})
	return out, err
}

// queryRoutes mounts the platform of the query era for an arena of queries.
func queryRoutes(s *kit.Server, arena string) (http.Handler, error) {
	docs, err := documents(s.Options, rounds.NewCorpus(time.Now))
	if err != nil {
		return nil, err
	}
	conf, err := toolConfig(s.Options, docs, nil, "")
	if err != nil {
		return nil, err
	}
	a, err := s.Platform.FullArena(context.Background(), arena)
	if err != nil {
		return nil, err
	}
	tasks := func(ctx context.Context, keep func(agon.TaskRef) bool) ([]wire.QueryTask, error) {
		a, err := s.Platform.FullArena(ctx, arena)
		if err != nil {
			return nil, err
		}
		list := slices.DeleteFunc(slices.Clone(a.Tasks), func(t agon.TaskRef) bool { return !keep(t) })
		return wireQueries(ctx, s.Blobs, list, s.Data.Path("harnyx-query", "trees"))
	}
	kept, err := s.Platform.Documents(context.Background(), "harnyx-query", s.Data.Path("harnyx-query"))
	if err != nil {
		return nil, err
	}
	host := tools.New(conf)
	p, h, err := wire.NewPlatform(wire.PlatformConfig{
		Driver: driver(s, &a.Arena), Draining: s.Platform.Draining(), Arenas: s.Platform, Arena: arena, Dir: s.Data.Path("harnyx-query"), Documents: kept, Log: s.Options.Log, Items: conf.Items, Repo: newLazyRepo(s.Options),
		Verifier: verifier(s, arena),
		Hidden: func(ctx context.Context) (map[string]bool, error) {
			list, err := tasks(ctx, func(t agon.TaskRef) bool { return t.Hidden })
			out := make(map[string]bool, len(list))
			for _, t := range list {
				out[t.TaskID] = true
			}
			return out, err
		},
		Work: &wire.Work{
			Queries: func(ctx context.Context) ([]wire.QueryTask, error) {
				return tasks(ctx, func(agon.TaskRef) bool { return true })
			},
			Tools: host, Providers: kit.Providers(s.Options.Getenv), Search: keyedSearch(s.Options.Getenv),
		},
	})
	if err != nil {
		return nil, err
	}
	s.Background(func(ctx context.Context) {
		defer host.Stop()
		p.Run(ctx)
	})
	return h, nil
}

// keyedSearch searches at DeSearch with a miner's key where the operator has named its
// address. The other providers of search are answered by the server's own search.
func keyedSearch(getenv func(string) string) func(provider, key string) tools.Search {
	base := getenv("AGON_DESEARCH_URL")
	if base == "" {
		return nil
	}
	return func(provider, key string) tools.Search {
		if provider != "desearch" {
			return nil
		}
		d, err := desearch.New(desearch.Config{BaseURL: base, Key: key})
		if err != nil {
			return nil // the server's own search answers
		}
		return d
	}
}
