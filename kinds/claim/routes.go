package claim

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/roster"
	"github.com/agon-arena/agon/kinds/claim/rounds"
	"github.com/agon-arena/agon/kinds/claim/signin"
	"github.com/agon-arena/agon/kinds/claim/wire"
	"github.com/agon-arena/agon/kinds/kit"
)

// eachTask reads tasks by way of a cache of trees in work.
func eachTask(ctx context.Context, source blob.Store, list []agon.TaskRef, work string, read func(*task.Task) error) error {
	trees := &validator.TreeCache{Dir: work, Source: source}
	for _, ref := range list {
		dir, err := trees.Tree(ctx, ref.Digest)
		if err != nil {
			return err
		}
		t, err := task.LoadDir(dir, ref.Key)
		if err != nil {
			return err
		}
		if err := read(t); err != nil {
			return err
		}
	}
	return nil
}

// wireClaims are an arena's tasks as foreign validators take them.
func wireClaims(ctx context.Context, source blob.Store, a *agon.Arena, work string) ([]wire.Claim, error) {
	var out []wire.Claim
	err := eachTask(ctx, source, a.Tasks, work, func(t *task.Task) error {
		c, r, err := play.LoadTask(t)
		if err != nil {
			return err
		}
		w := wire.Claim{
			ClaimID: c.ClaimID, Text: c.Payload.ClaimText, BudgetUSD: float64(c.Budget) / 1e6,
			Rubric:    wire.Rubric{Title: c.Payload.RubricTitle, Description: c.Payload.RubricDescription},
			Reference: wire.Reference{Verdict: r.Verdict, Justification: r.Justification, Citations: []wire.Citation{}, Spans: []wire.Span{}},
		}
		for _, v := range c.Payload.VerdictOptions {
			w.Rubric.Options = append(w.Rubric.Options, wire.Option(v))
		}
		for _, x := range r.Citations {
			w.Reference.Citations = append(w.Reference.Citations, wire.Citation{URL: x.URL, Note: x.Note})
		}
		for _, x := range r.Spans {
			w.Reference.Spans = append(w.Reference.Spans, wire.Span(x))
		}
		if x := c.Payload.Context; x != nil {
			w.Context = &wire.Context{FeedID: x.FeedID, EnqueueSeq: x.EnqueueSeq}
		}
		out = append(out, w)
		return nil
	})
	return out, err
}

// harnyxRoutes mounts the seed's endpoints of a claim arena: their paths do
// not meet those of /v1.
func harnyxRoutes(s *kit.Server, arena string, corpus *rounds.Corpus) (http.Handler, error) {
	docs, err := documents(s.Options, corpus)
	if err != nil {
		return nil, err
	}
	items, err := feeds(s.Options, docs, time.Now)
	if err != nil {
		return nil, err
	}
	a, err := s.Platform.FullArena(context.Background(), arena)
	if err != nil {
		return nil, err
	}
	kept, err := s.Platform.Documents(context.Background(), "harnyx", s.Data.Path("harnyx"))
	if err != nil {
		return nil, err
	}
	p, h, err := wire.NewPlatform(wire.PlatformConfig{
		Driver: driver(s, &a.Arena), Draining: s.Platform.Draining(),
		Keys: func(ctx context.Context) (map[string]string, error) {
			a, err := s.Platform.FullArena(ctx, arena)
			if err != nil {
				return nil, err
			}
			list, err := wireClaims(ctx, s.Blobs, &a.Arena, s.Data.Path("harnyx", "trees"))
			out := make(map[string]string, len(list))
			for i, c := range list { // in the order of the tasks
				out[a.Tasks[i].Key] = c.ClaimID
			}
			return out, err
		},
		Items: items, Repo: newLazyRepo(s.Options),
		Arenas: s.Platform, Arena: arena, Dir: s.Data.Path("harnyx"), Documents: kept, Log: s.Options.Log,
		Verifier: verifier(s, arena),
		Claims: func(ctx context.Context) ([]wire.Claim, error) {
			a, err := s.Platform.FullArena(ctx, arena)
			if err != nil {
				return nil, err
			}
			return wireClaims(ctx, s.Blobs, &a.Arena, s.Data.Path("harnyx", "trees"))
		},
		Hidden: func(ctx context.Context) (map[string]bool, error) {
			a, err := s.Platform.FullArena(ctx, arena)
			if err != nil {
				return nil, err
			}
			only := a.Arena
			only.Tasks = slices.DeleteFunc(slices.Clone(a.Tasks), func(t agon.TaskRef) bool { return !t.Hidden })
			list, err := wireClaims(ctx, s.Blobs, &only, s.Data.Path("harnyx", "trees"))
			out := make(map[string]bool, len(list))
			for _, c := range list {
				out[c.ClaimID] = true
			}
			return out, err
		},
	})
	if err != nil {
		return nil, err
	}
	s.Background(p.Run)
	return h, nil
}

// asks are what validators only ask by POST.
var asks = []string{"/v2/miner-task-work/tasks", "/v2/miner-task-work/scoreable-executions", "/v1/feeds/", "/v1/repo-search/"}

// verifier checks the requests of an arena's miners and validators. Their form signs no
// time, so a request that changes something is taken once, unless AGON_STRICT_SIGNATURES is 0;
// 1 takes also those once that only ask.
func verifier(s *kit.Server, arena string) *dialect.Verifier {
	strict := s.Options.Getenv("AGON_STRICT_SIGNATURES")
	c := signin.Caster{Asks: asks}
	if strict != "" {
		c.Asks = nil
	}
	return &dialect.Verifier{Dialects: []dialect.Dialect{c}, Now: time.Now, Replay: s.Replay(), Members: s.Members(arena), Strict: strict != "0"}
}

// driver pushes batches as the operator, who owns the subnet on the embedded ledger;
// a subnet that is somebody else's has validators that refuse them.
func driver(s *kit.Server, a *agon.Arena) wire.Driver {
	d := wire.Driver{Private: local(s.Options.Listen)}
	if s.Operator != nil {
		d.Key = s.Operator.Hotkey
	}
	if a.Incentive == roster.ArenaRule {
		for i := range d.Split {
			d.Split[i] = a.IncentiveNumbers["share_"+strconv.Itoa(i+1)]
		}
		d.Margin, d.SameColdkey = a.IncentiveNumbers["margin"], a.IncentiveNumbers["same_coldkey"] != 0
	}
	for key, at := range map[string]*time.Duration{"AGON_BATCH_GRACE": &d.Grace, "AGON_BATCH_DEADLINE": &d.Deadline} {
		if x, err := time.ParseDuration(s.Options.Getenv(key)); err == nil && x > 0 {
			*at = x
		}
	}
	return d
}

// local reports whether an address to listen on is reached from this machine only.
func local(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
