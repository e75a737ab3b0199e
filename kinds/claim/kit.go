// Package claim judges scripts by what the sources say of claims.
package claim

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/claim/commands"
	"github.com/agon-arena/agon/kinds/claim/data"
	"github.com/agon-arena/agon/kinds/claim/likeness"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/query"
	"github.com/agon-arena/agon/kinds/claim/roster"
	"github.com/agon-arena/agon/kinds/claim/rounds"
	"github.com/agon-arena/agon/kinds/claim/show"
	"github.com/agon-arena/agon/kinds/claim/signin"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
)

// calcExamples are inputs that the rules of the kind answer, a line each.
//
//go:embed libraries/*.txt
var libraries embed.FS

//go:embed calc.jsonl
var calcExamples []byte

// guess is what a verdict drawn by lot scores on a claim with two verdicts and no
// support, with a margin for sets in which one verdict is more frequent: it holds
// an empty seat.
const guess = 0.3

func demoPairs() map[string]float64 {
	n := kit.DemoPairs()
	n[incentive.NumBaseline] = guess
	return n
}

// Kit makes the claim kind for one process.
func Kit() kit.Kit {
	corpus, open := rounds.NewCorpus(time.Now), &rounds.Open{}
	return kit.Kit{
		Libraries: libraries,
		Page:      page(open),
		EntryName: "agent.py",
		Kind:      play.Name,
		Baseline:  guess,
		Data:      data.FS,
		CheckTask: play.CheckTask,
		New:       newClaim,
		Exams:     []judge.Exam{likeness.Exam()},
		// A bound for each task as the kind's judges set it.
		Judge: func(tasks int) *agon.Judging {
			n := int64(max(tasks, 1))
			return &agon.Judging{Models: []string{"*"}, Budget: agon.Budget{Micros: 50_000 * agon.Micros(n), Calls: 6 * n}}
		},
		Demo: func() kit.ArenaFile {
			f := kit.ArenaFile{
				ID: "demo-claim", Kind: play.Name, Title: "Claims: judge them by what the sources say", Netuid: 2, Licence: "MIT",
				Incentive: incentive.PairedRule, IncentiveNumbers: demoPairs(), Sets: []string{"demo"}, Samples: true, SubmissionsPerColdkey: 50,
				Judge: &kit.JudgeFile{Demo: true},
			}
			// The money of a whole run at the gateway; what one claim may spend stands in its task.
			f.Policy.Budget = agon.Budget{Micros: 2_000_000, Calls: 2000}
			f.Policy.Agent.MemoryBytes = 512 << 20
			f.Defaults()
			return f
		},
		Sets:    []string{"demo"},
		Samples: []kit.Sample{{Name: "constant"}, {Name: "lexical"}, {Name: "search-llm", Model: true}},
		ToolHost: func(o kit.Options, docs any, d sandbox.Driver, rootfs string, gw *gateway.Gateway) (*validator.ToolHost, func(), error) {
			own, ok := docs.(tools.Search)
			if !ok {
				var err error
				if own, err = documents(o, corpus); err != nil {
					return nil, nil, err
				}
			}
			return openToolHost(o, own, d, rootfs, gw, time.Now)
		},
		Script: func() []byte { return kit.SampleScript(data.FS, "search-llm") },
		Feeds:  true,
		Show: &kit.Show{Script: show.Script, Run: func(ctx context.Context, s *kit.Server, open func(context.Context, kit.ArenaFile) error) error {
			docs, err := fs.Sub(data.FS, "tasks/documents")
			if err != nil {
				return fmt.Errorf("open documents: %w", err)
			}
			return show.Run(ctx, s, docs, show.Rounds, open)
		}},
		Supply: func(s *kit.Server, f kit.ArenaFile, _ *agon.Arena) (platform.Supply, error) {
			if f.Supply == nil || f.Supply.From != agon.SupplyFeed {
				return nil, nil
			}
			x, err := rounds.New(s, kit.Kit{Kind: play.Name}, f, corpus)
			if err != nil {
				return nil, err
			}
			open.Add(x)
			return x, nil
		},
		Incentives: map[string]incentive.Rule{roster.ArenaRule: roster.TopThree()},
		Commands:   commands.Of,
		Calc:       calc.WithExamples(slices.Concat(roster.Rules(), play.Rules(), query.Rules(), signin.Rules()), calcExamples),
		// The routes of the seed's platform (kinds/claim/harnyx.md).
		Routes: platformRoutes,
		Serve: func(_ context.Context, s *kit.Server, a agon.Arena) (http.Handler, error) {
			return harnyxRoutes(s, a.ID, corpus)
		},
	}
}

// newClaim makes the claim kind: a keyed gateway judges by model, a scripted
// one has no opinion of its own, so words are compared instead.
func newClaim(p kit.Parts) kind.Kind {
	c := play.Config{Rootfs: p.Rootfs}
	if p.Keyed {
		c.Judge = play.ModelJudge{Models: p.Judges, Panel: p.Panel}
	}
	return play.New(c)
}

// documents are those that scripts search: what AGON_CORPUS names, what the rounds of
// this process are made of, or else what comes with agon.
func documents(o kit.Options, corpus *rounds.Corpus) (tools.Search, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := rounds.Own(ctx, o, corpus); err != nil {
		return nil, err
	}
	if !corpus.Empty() {
		return corpus, nil
	}
	return shippedDocs(time.Now)
}

// shippedDocs are the documents that come with agon for scripts to search.
func shippedDocs(now func() time.Time) (tools.Search, error) {
	sub, err := fs.Sub(data.FS, "tasks/documents")
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
func openToolHost(o kit.Options, docs tools.Search, d sandbox.Driver, rootfs string, gw *gateway.Gateway, now func() time.Time) (_ *validator.ToolHost, stop func(), err error) {
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
		for _, m := range list { // what is there is served by itself, at its own price
			th.Alias[m] = m
		}
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
