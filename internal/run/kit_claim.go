package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/incentive"
	"github.com/agon-arena/agon/kind"
	"github.com/agon-arena/agon/kind/claim"
	"github.com/agon-arena/agon/samples"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/tasks"
	"github.com/agon-arena/agon/tools"
	"github.com/agon-arena/agon/tools/index"
	"github.com/agon-arena/agon/validator"
)

func claimKit() kit {
	return kit{
		name:  claim.Name,
		build: newClaim,
		demo: func() ArenaFile {
			f := ArenaFile{
				ID: "demo-claim", Kind: claim.Name, Title: "Claims: judge them by what the sources say", Netuid: 2, Licence: "MIT",
				Incentive: incentive.RosterArenaRule, Sets: []string{"demo"}, Samples: true, SubmissionsPerColdkey: 50,
			}
			// The money of a whole run at the gateway; what one claim may spend stands in its task.
			f.Policy.Budget = agon.Budget{Micros: 2_000_000, Calls: 2000}
			f.Policy.Agent.MemoryBytes = 512 << 20
			f.defaults()
			return f
		},
		sets:       []string{"demo"},
		samples:    []sample{{name: "constant"}, {name: "lexical"}, {name: "search-llm", model: true}},
		script:     samples.ClaimScript,
		incentives: map[string]incentive.Rule{incentive.RosterArenaRule: incentive.Roster()},
		// The routes of the seed's platform (docs/harnyx.md).
		routes: []string{"/v1/miners/", "/v1/miner-task-batches/", "/v1/validators/register", "/v1/weights", "/v1/monitoring/", "/v1/feeds/", "/v1/repo-search/"},
		serve: func(_ context.Context, s *server, a agon.Arena) (http.Handler, error) {
			return s.harnyxRoutes(a.ID)
		},
	}
}

// newClaim makes the claim kind: a keyed gateway judges by model, a scripted
// one has no opinion of its own, so words are compared instead.
func newClaim(p parts) kind.Kind {
	c := claim.Config{Rootfs: p.rootfs}
	if p.keyed {
		c.Judge = claim.ModelJudge{Model: p.model}
	}
	return claim.New(c)
}

// shippedDocs are the documents that come with agon for scripts to search.
func shippedDocs(now func() time.Time) (tools.Search, error) {
	sub, err := fs.Sub(tasks.FS, "claim/documents")
	if err != nil {
		return nil, fmt.Errorf("open documents: %w", err)
	}
	docs, err := index.Load(sub, "documents", now)
	if err != nil {
		return nil, fmt.Errorf("read documents: %w", err)
	}
	return docs, nil
}

// openToolHost serves the tools of claim scripts on loopback: search over docs
// or at the configured provider, repositories in boxes of d, models through
// gw. stop ends it.
func openToolHost(o Options, docs tools.Search, d sandbox.Driver, rootfs string, gw *gateway.Gateway, now func() time.Time) (_ *validator.ToolHost, stop func(), err error) {
	conf, err := toolConfig(o, docs, d, rootfs)
	if err != nil {
		return nil, nil, err
	}
	conf.Now, conf.Books = now, gw.Books()
	host := tools.New(conf)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen for tools: %w", err)
	}
	srv := &http.Server{Handler: host, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			_ = ln.Close()
		}
	}()
	th := &validator.ToolHost{Host: host, URL: "http://" + ln.Addr().String()}
	// Claim arenas name the models of their contract; the gateway serves what it has.
	if list := gw.Models(); len(list) > 0 {
		th.Alias = map[string]string{"*": list[0]}
	}
	return th, func() {
		host.Stop()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if srv.Shutdown(ctx) != nil {
			_ = srv.Close()
		}
		<-done
	}, nil
}
