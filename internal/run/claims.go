package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/cli"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/judge"
	"github.com/agon-arena/agon/kind"
	"github.com/agon-arena/agon/kind/claim"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/supply"
	"github.com/agon-arena/agon/task"
	"github.com/agon-arena/agon/tools/index"
	"github.com/agon-arena/agon/validator"
	"github.com/agon-arena/agon/wire/harnyx"
)

// noModel refuses what needs a real model where none is configured.
func noModel(o Options, what string) error {
	if o.Getenv("AGON_LLM_BASE_URL") != "" {
		return nil
	}
	return &agon.Error{
		Code: "no_model", Status: 422, Message: what + " needs a model, and none is configured",
		Mend: "set AGON_LLM_BASE_URL, AGON_LLM_API_KEY and AGON_LLM_MODEL",
	}
}

// judgeSession opens a gateway session that the operator pays, and a judge on it.
func judgeSession(ctx context.Context, gw *gateway.Gateway, run, task, model string, budget agon.Micros) (*judge.Judge, gateway.Session, error) {
	p := gateway.Policy{
		Run: run, Attempt: 1, Task: task, Payer: "platform", Models: []string{"*"}, Dialects: []string{gateway.DialectOpenAI},
		Budget: agon.Budget{Micros: budget, Calls: 1 << 20},
	}
	if model != "" {
		p.Models = []string{model}
	}
	s, err := gw.Open(ctx, p, nil)
	if err != nil {
		return nil, nil, err
	}
	j, err := judge.New(judge.Config{Session: s, Model: model, Timeout: 5 * time.Minute})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return j, s, nil
}

// calibrate is `agon judge calibrate`.
func calibrate(ctx context.Context, c cli.JudgeCalibrateOptions) (*judge.Calibration, error) {
	o := options(c.Common, "")
	cases, err := judge.ShippedCases()
	if c.File != "" {
		var f *os.File
		if f, err = os.Open(c.File); err != nil {
			return nil, &agon.Error{Code: "not_found", Status: 404, Field: "file", Message: err.Error()}
		}
		cases, err = judge.ReadCases(f)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return nil, &agon.Error{Code: "bad_cases", Status: 422, Field: "file", Message: err.Error(), Mend: "agon judge calibrate --help shows the form"}
	}
	if err := noModel(o, "a judge"); err != nil {
		return nil, err
	}
	work, err := tempdir.Make("judge")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	gw, err := newGateway(ctx, o, work)
	if err != nil {
		return nil, err
	}
	defer gw.Stop()
	j, s, err := judgeSession(ctx, gw, "calibrate", "support", c.Model, c.Budget)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	got, err := j.Calibrate(ctx, cases, func(done, total int) { o.say("%d of %d cases", done, total) })
	if errors.Is(err, judge.ErrBudget) {
		return nil, &agon.Error{Code: "budget_exceeded", Status: 422, Field: "budget", Message: "the budget does not carry all cases", Mend: "give more with --budget"}
	}
	return got, err
}

// readItems reads a feed: an address, a file or a folder.
func readItems(ctx context.Context, feed string) ([]supply.Item, error) {
	if strings.HasPrefix(feed, "http://") || strings.HasPrefix(feed, "https://") {
		return supply.Fetch(ctx, nil, feed)
	}
	st, err := os.Stat(feed)
	if err != nil {
		return nil, fmt.Errorf("read feed: %w", err)
	}
	if st.IsDir() {
		return supply.ReadFolder(os.DirFS(feed))
	}
	b, err := readBounded(feed, supply.MaxFeed)
	if err != nil {
		return nil, err
	}
	return supply.ReadFeed(b)
}

// generateClaims is `agon task generate claims`.
func generateClaims(ctx context.Context, c cli.ClaimsGenerateOptions) (*supply.Report, error) {
	return makeClaims(ctx, options(c.Common, c.Driver), c)
}

func makeClaims(ctx context.Context, o Options, c cli.ClaimsGenerateOptions) (*supply.Report, error) {
	bad := func(field string, err error) error {
		return &agon.Error{Code: "bad_" + field, Status: 422, Field: field, Message: err.Error()}
	}
	items, err := itemsFor(ctx, c)
	if err != nil {
		return nil, bad("feed", err)
	}
	if _, err := os.Lstat(c.Out); err == nil {
		return nil, &agon.Error{Code: "exists", Status: 409, Field: "out", Message: c.Out + " is there already", Mend: "name another directory"}
	}
	log, err := supply.OpenLog(c.Log, c.Replay)
	if err != nil {
		return nil, bad("log", err)
	}
	defer log.Close()
	conf := supply.Config{
		Items: items, Log: log, Replay: c.Replay, Count: c.Count, Wrong: c.Wrong, Draws: c.Draws, Seed: c.Seed, Told: o.say,
	}
	var script []byte
	if c.Replay {
		conf.ChampionID = log.ChampionID()
	} else if c.Champion != "" {
		if script, err = readBounded(c.Champion, harnyx.MaxScript); err != nil {
			return nil, bad("champion", err)
		}
		conf.ChampionID = string(agon.Sum(script))
	}
	if !c.Replay {
		if err := noModel(o, "making claims"); err != nil {
			return nil, err
		}
		work, err := tempdir.Make("supply")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(work)
		var gw *gateway.Gateway
		if script == nil {
			if gw, err = newGateway(ctx, o, work); err != nil {
				return nil, err
			}
			defer gw.Stop()
		} else {
			ch, err := newChampion(ctx, o, work, script, items)
			if err != nil {
				return nil, err
			}
			defer ch.close()
			conf.Champion, gw = ch, ch.player.gateway
		}
		o.say("making claims can cost at most $%.2f for models, and what the champion spends", float64(c.Budget)/1e6)
		// Most of the money goes to the reference model: it answers every claim.
		for _, m := range []struct {
			task, model string
			share       agon.Micros
			to          **judge.Judge
		}{{"propose", c.Proposer, c.Budget / 4, &conf.Proposer}, {"reference", c.Reference, c.Budget - c.Budget/4, &conf.Reference}} {
			j, s, err := judgeSession(ctx, gw, "supply", m.task, m.model, m.share)
			if err != nil {
				return nil, err
			}
			defer s.Close()
			*m.to = j
		}
	}
	set, err := supply.Generate(ctx, conf)
	if err != nil {
		return nil, err
	}
	if set.Report.Complete {
		if err := supply.Write(c.Out, set); err != nil {
			return nil, err
		}
		o.say("%d claims are in %s", len(set.Tasks), c.Out)
	}
	return &set.Report, nil
}

// itemsFor takes the items of the run that the log began with, where there is
// one: a feed moves on while a making waits.
func itemsFor(ctx context.Context, c cli.ClaimsGenerateOptions) ([]supply.Item, error) {
	kept := c.Log + ".items"
	if b, err := os.ReadFile(kept); err == nil {
		var items []supply.Item
		if err := json.Unmarshal(b, &items); err != nil {
			return nil, fmt.Errorf("read %s: %w", kept, err)
		}
		return items, nil
	} else if !errors.Is(err, os.ErrNotExist) || c.Replay {
		return nil, err
	}
	items, err := readItems(ctx, c.Feed)
	if err != nil {
		return nil, err
	}
	if !c.AnyAge {
		items = supply.Fresh(items, time.Now())
	}
	if len(items) == 0 {
		return nil, errors.New("the feed has no item of the last 24 hours (--any-age takes older ones)")
	}
	b, err := json.Marshal(items)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(kept+".new", b, 0o600); err != nil {
		return nil, err
	}
	return items, os.Rename(kept+".new", kept)
}

// champion answers claims by playing a script in a box, as a validator does,
// with the items as what search finds.
type champion struct {
	player *player
	blobs  blob.Store
	sub    agon.Submission
	n      int
}

func newChampion(ctx context.Context, o Options, work string, script []byte, items []supply.Item) (*champion, error) {
	d, root, err := openDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	c := &champion{}
	if c.blobs, err = blobfs.Open(filepath.Join(work, "blobs"), blobfs.Options{}); err != nil {
		return nil, err
	}
	digest, err := blob.PutFiles(ctx, c.blobs, []blob.File{{Path: claim.AgentFile, Content: script}}, blob.TreeLimits{})
	if err != nil {
		return nil, err
	}
	c.sub = agon.Submission{ID: "champion", Arena: "supply", Name: "champion", Digest: digest}
	docs := make([]index.Doc, 0, len(items))
	for _, i := range items {
		docs = append(docs, index.Doc{ID: i.ID, URL: i.URL, Title: i.Title, Text: i.Text, At: i.At})
	}
	k := claim.New(claim.Config{Rootfs: root})
	ks := map[string]kind.Kind{k.Name(): k}
	if c.player, err = newPlayerOver(ctx, o, d, root, ks, c.blobs, filepath.Join(work, "trees"), index.New(docs, "feed", nil)); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *champion) close() { c.player.close() }

// Answer implements supply.Champion.
func (c *champion) Answer(ctx context.Context, cl claim.Claim) (int, bool, error) {
	c.n++
	ref := claim.Reference{Verdict: cl.Payload.VerdictOptions[0].Value, Justification: "not used", Citations: []claim.RefCitation{}, Spans: []claim.Span{}}
	_, pair, err := playPair(ctx, c.player, c.blobs, c.sub, fmt.Sprintf("champion-%d", c.n), 1, cl, ref)
	if err != nil || pair == nil || pair.Response == nil {
		return 0, false, err // a script without an answer got it wrong
	}
	return pair.Response.Verdict, true, nil
}

// playPair plays one script on one claim by the validator's own player. An
// error is our failure; pair is nil where the script left nothing.
func playPair(ctx context.Context, p *player, blobs blob.Store, sub agon.Submission, run string, attempt int, cl claim.Claim, ref claim.Reference) (*validator.Attempt, *claim.Pair, error) {
	dir, err := tempdir.Make("claim")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	set := filepath.Join(dir, "set")
	if err := supply.Write(set, &supply.Set{Tasks: []supply.Task{{Claim: cl, Reference: ref}}}); err != nil {
		return nil, nil, err
	}
	digest, err := blob.PutTree(ctx, blobs, filepath.Join(set, "claim-001"), blob.TreeLimits{})
	if err != nil {
		return nil, nil, err
	}
	att := p.Play(ctx, validator.Job{
		Run: agon.RunSpec{
			Run: run, Arena: sub.Arena, Tasks: []agon.TaskRef{{Key: "supply/claim", Digest: digest}},
			Policy: agon.Policy{Models: []string{"*"}, Budget: agon.Budget{Micros: cl.Budget, Calls: 200}},
		},
		Attempt: attempt, Arena: agon.Arena{ID: sub.Arena, Kind: claim.Name}, Submission: sub,
	})
	if att.Fault.Ours() {
		return nil, nil, fmt.Errorf("play %s: %s", run, att.Reason)
	}
	pairs, err := claim.DecodePairs(att.Files[claim.PairsFile])
	if err != nil || len(pairs) != 1 {
		return att, nil, nil //nolint:nilerror // what the script left is no evidence of ours
	}
	return att, &pairs[0], nil
}

// claimSandbox is `agon claim sandbox --serve`: the script in a box, unless
// bare says that something else is one.
func claimSandbox(ctx context.Context, o Options, bare bool, out io.Writer) error {
	c := claim.ServeConfig{
		Getenv: o.Getenv, Bare: bare,
		Ready: func(addr string) { o.say("the sandbox serves on http://%s", addr) },
		Log:   func(line string) { fmt.Fprintln(out, line) },
	}
	if !bare {
		d, root, err := openDriver(ctx, o)
		if err != nil {
			return err
		}
		c.Driver, c.Rootfs = d, root
	}
	return claim.Serve(ctx, c)
}

// wireClaims are an arena's tasks as foreign validators take them.
func wireClaims(ctx context.Context, source blob.Store, a *agon.Arena, work string) ([]harnyx.Claim, error) {
	trees := &validator.TreeCache{Dir: work, Source: source}
	var out []harnyx.Claim
	for _, ref := range a.Tasks {
		dir, err := trees.Tree(ctx, ref.Digest)
		if err != nil {
			return nil, err
		}
		t, err := task.LoadDir(dir, ref.Key)
		if err != nil {
			return nil, err
		}
		c, r, err := claim.LoadTask(t)
		if err != nil {
			return nil, err
		}
		w := harnyx.Claim{
			ClaimID: c.ClaimID, Text: c.Payload.ClaimText, BudgetUSD: float64(c.Budget) / 1e6,
			Rubric:    harnyx.Rubric{Title: c.Payload.RubricTitle, Description: c.Payload.RubricDescription},
			Reference: harnyx.Reference{Verdict: r.Verdict, Justification: r.Justification, Citations: []harnyx.Citation{}, Spans: []harnyx.Span{}},
		}
		for _, v := range c.Payload.VerdictOptions {
			w.Rubric.Options = append(w.Rubric.Options, harnyx.Option(v))
		}
		for _, x := range r.Citations {
			w.Reference.Citations = append(w.Reference.Citations, harnyx.Citation{URL: x.URL, Note: x.Note})
		}
		for _, x := range r.Spans {
			w.Reference.Spans = append(w.Reference.Spans, harnyx.Span(x))
		}
		if x := c.Payload.Context; x != nil {
			w.Context = &harnyx.Context{FeedID: x.FeedID, EnqueueSeq: x.EnqueueSeq}
		}
		out = append(out, w)
	}
	return out, nil
}

// harnyxRoutes mounts the seed's endpoints of a claim arena: their paths do
// not meet those of /v1.
func (s *server) harnyxRoutes(arena string) (http.Handler, error) {
	docs, err := shippedDocs(time.Now)
	if err != nil {
		return nil, err
	}
	items, err := feeds(s.o, docs, time.Now)
	if err != nil {
		return nil, err
	}
	_, h, err := harnyx.NewPlatform(harnyx.PlatformConfig{
		Items: items, Repo: newLazyRepo(s.o),
		API: s.platform, Arena: arena, Dir: s.data.Path("harnyx"), Log: s.o.Log,
		Verifier: &dialect.Verifier{
			Dialects: []dialect.Dialect{dialect.Caster{}}, Now: time.Now, Replay: replay{s.platform}, Members: members{s, arena},
			Strict: s.o.Getenv("AGON_STRICT_SIGNATURES") != "",
		},
		Claims: func(ctx context.Context) ([]harnyx.Claim, error) {
			a, err := s.platform.Arena(ctx, arena)
			if err != nil {
				return nil, err
			}
			return wireClaims(ctx, s.blobs, &a.Arena, s.data.Path("harnyx", "trees"))
		},
	})
	return h, err
}

// members tells who is on an arena's subnet, from the embedded ledger.
type members struct {
	s     *server
	arena string
}

func (m members) Member(ctx context.Context, hotkey string) (dialect.Member, bool, error) {
	a, err := m.s.platform.Arena(ctx, m.arena)
	if err != nil {
		return dialect.Member{}, false, err
	}
	g, err := chain{m.s.graphsOf(a.Arena)}.Metagraph(ctx, a.Netuid)
	if err != nil {
		return dialect.Member{}, false, err
	}
	for _, n := range g.Neurons {
		if n.Hotkey == hotkey {
			return dialect.Member{Hotkey: n.Hotkey, Coldkey: n.Coldkey, UID: n.UID, Validator: n.Validator, Stake: n.Stake}, true, nil
		}
	}
	return dialect.Member{}, false, nil
}
