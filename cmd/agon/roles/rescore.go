package roles

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
)

// rescore is `agon judge rescore`.
func rescore(ctx context.Context, kits kit.List, c cli.RescoreOptions) (_ *cli.Rescore, err error) {
	o := kits.Options(c.Common, "")
	a, err := c.Client.Arena(ctx, c.Arena)
	if err != nil {
		return nil, err
	}
	k, err := rescorer(o, a.Kind, c.Scorer, c.Panel)
	if err != nil {
		return nil, err
	}
	work, err := tempdir.Make("rescore")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	source, err := kit.RemoteSource(c.Client, work)
	if err != nil {
		return nil, err
	}
	gw, err := kit.NewBriefGateway(ctx, o)
	if err != nil {
		return nil, err
	}
	defer gw.Stop()
	ids, err := storedRuns(ctx, c.Client, a.ID, c.Submission)
	if err != nil {
		return nil, err
	}
	data := c.Config.Get(config.Data)
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("keep scores: %w", err)
	}
	out := &cli.Rescore{Arena: a.ID, Scorer: k.Scorer(), At: time.Now().UTC(), Kept: filepath.Join(data, cli.RescoresFile)}
	f, err := os.OpenFile(out.Kept, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("keep scores: %w", err)
	}
	defer func() {
		if cerr := errors.Join(f.Sync(), f.Close()); err == nil && cerr != nil {
			err = fmt.Errorf("keep scores: %w", cerr)
		}
	}()
	m := &meter{gw: gw, left: c.Budget}
	x := rescoring{
		plays: c.Client, source: source, kind: a.Kind, out: out, keep: f, parallel: c.Parallel,
		player: &validator.Player{Driver: boxless{}, Gateway: m, Kinds: map[string]kind.Kind{a.Kind: k}, Now: time.Now, CheckTask: kits.CheckTask, Trees: &validator.TreeCache{Dir: filepath.Join(work, "trees"), Source: source, Log: o.Log}},
		told: func(done int) {
			if done%100 == 0 || done == len(ids) {
				o.Sayf("%d of %d plays", done, len(ids))
			}
		},
	}
	err = x.all(ctx, ids)
	out.CostMicros = m.spent
	switch {
	case errors.Is(err, judge.ErrBudget):
		return nil, &agon.Error{Code: "budget_exceeded", Status: 422, Field: "budget", Message: fmt.Sprintf("the budget carried %d of %d plays; what was scored is kept in %s", out.Runs, len(ids), out.Kept), Mend: "give more with --budget"}
	case err != nil:
		return nil, err
	case out.Runs == 0:
		return nil, &agon.Error{Code: "no_evidence", Status: 404, Message: fmt.Sprintf("no play of arena %s can be read (%d were looked at)", a.ID, len(ids)), Mend: "evidence is public once a submission is decided; the server's operator reads all"}
	}
	return out, nil
}

// words is the scorer that compares words.
const words = "words"

// rescorer makes a kind whose judge is the named one.
func rescorer(o kit.Options, name, scorer string, panel int) (kind.Kind, error) {
	own, ok := o.Kits.Of(name)
	if !ok {
		return nil, fmt.Errorf("this agon does not know the kind %s", name)
	}
	bad := func(mend, format string, args ...any) error {
		return &agon.Error{Code: "bad_flag", Status: 422, Field: "scorer", Message: "--scorer: " + fmt.Sprintf(format, args...), Mend: mend}
	}
	if _, errs := own.New(kit.Parts{}).(kind.Gauged); !errs {
		return nil, bad("judge one play anew: agon run regrade", "the judge of the kind %s is not a model", name)
	}
	p := kit.Parts{Options: o, Panel: panel}
	want := ""
	if scorer != words {
		p.Judges = kit.ModelNames(scorer)
		if strings.Contains(scorer, "+") {
			want = scorer
			if p.Judges = judge.ScorerModels(scorer); p.Judges == nil { // with the kind's own part before it
				_, rest, _ := strings.Cut(scorer, "+")
				p.Judges = judge.ScorerModels(rest)
			} else if i := strings.Index(scorer, "+"); strings.Contains(scorer[:i], "-") {
				p.Judges = judge.ScorerModels(scorer[i+1:])
			}
			if i := strings.LastIndex(scorer, "+panel-"); i >= 0 {
				_, _ = fmt.Sscan(scorer[i+len("+panel-"):], &p.Panel)
			}
		}
		if len(p.Judges) == 0 {
			return nil, bad(`name a model, or "words"`, "%.100q names no model", scorer)
		}
		p.Keyed = true
		if !slices.Equal(p.Judges, []string{agon.Script}) && o.Getenv("AGON_LLM_CASSETTE") == "" {
			if err := kit.NoModel(o, "this scorer"); err != nil {
				return nil, err
			}
		}
	}
	if p.Panel > max(len(p.Judges), 1) {
		return nil, bad("name more models", "a panel of %d needs as many models, %d are named", p.Panel, len(p.Judges))
	}
	k := own.New(p)
	if want != "" && k.Scorer() != want && !strings.HasSuffix(k.Scorer(), "+"+want) {
		return nil, bad("leave the prompt out and name the models", "this agon judges by %s, not by %.150q", k.Scorer(), scorer)
	}
	return k, nil
}

// storedRuns are the scored runs of an arena, the oldest first.
func storedRuns(ctx context.Context, c *client.Client, arena, submission string) ([]string, error) {
	var out []string
	for o := (client.ListOptions{Limit: 200}); ; {
		page, err := c.Runs(ctx, arena, submission, string(agon.RunScored), o)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Items {
			if r.Fault == agon.FaultNone {
				out = append(out, r.RunSpec.Run)
			}
		}
		if o.Cursor = page.Next; o.Cursor == "" {
			slices.Reverse(out)
			return out, nil
		}
	}
}

// plays are stored plays; *client.Client is them.
type plays interface {
	Run(ctx context.Context, id string) (*client.Run, error)
}

// rescoring scores stored plays anew, several at a time.
type rescoring struct {
	plays    plays
	source   blob.Store
	player   *validator.Player
	kind     string
	keep     io.Writer
	parallel int
	told     func(done int)

	mu   sync.Mutex
	out  *cli.Rescore                 // guarded by mu
	by   map[string]*cli.RescoreEntry // guarded by mu
	done int                          // guarded by mu
	err  error                        // guarded by mu: the first
}

// all scores the runs anew. What was scored is kept also where it ends early.
func (x *rescoring) all(ctx context.Context, ids []string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	x.by = map[string]*cli.RescoreEntry{}
	next := make(chan string)
	var wg sync.WaitGroup
	for range x.parallel {
		wg.Go(func() {
			for id := range next {
				if err := x.one(ctx, id); err != nil {
					x.mu.Lock()
					x.err = cmp.Or(x.err, err)
					x.mu.Unlock()
					stop()
				}
			}
		})
	}
	for _, id := range ids {
		select {
		case next <- id:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	x.out.Submissions = make([]cli.RescoreEntry, 0, len(x.by))
	for _, e := range x.by {
		x.out.Stored, x.out.Rescored = x.out.Stored+e.Stored, x.out.Rescored+e.Rescored
		e.Stored, e.Rescored = e.Stored/float64(e.Pairs), e.Rescored/float64(e.Pairs)
		x.out.Submissions = append(x.out.Submissions, *e)
	}
	if n := float64(x.out.Pairs); n > 0 {
		x.out.Stored, x.out.Rescored = x.out.Stored/n, x.out.Rescored/n
	}
	slices.SortFunc(x.out.Submissions, func(p, q cli.RescoreEntry) int {
		return cmp.Or(cmp.Compare(q.Rescored, p.Rescored), strings.Compare(p.ID, q.ID))
	})
	return cmp.Or(x.err, ctx.Err())
}

// one scores one run anew.
func (x *rescoring) one(ctx context.Context, id string) error {
	r, err := x.plays.Run(ctx, id)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(r.List, func(t agon.Attempt) bool { return t.Counted })
	var files []blob.File
	if i >= 0 && r.List[i].Evidence != "" {
		files, err = blob.GetFiles(ctx, x.source, r.List[i].Evidence, blob.TreeLimits{Files: 2000, Bytes: 64 << 20})
	}
	var scores []agon.Score
	if len(files) > 0 && err == nil {
		rec := agon.Record{Outcome: agon.OutcomeOK, Files: map[string][]byte{}}
		for _, f := range files {
			rec.Files[f.Path] = f.Content
		}
		spec := r.RunSpec
		spec.Policy.Gateway, spec.Policy.GatewayKey = "", "" // this machine's own meters
		scores, err = x.player.Judge(ctx, x.kind, spec, r.List[i].N, rec)
	}
	if errors.Is(err, judge.ErrBudget) || ctx.Err() != nil {
		return cmp.Or(err, ctx.Err())
	}
	none := errors.Is(err, judge.ErrNoVerdict)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done++
	if x.told != nil {
		x.told(x.done)
	}
	switch {
	case none:
		x.out.Runs++
		x.out.Unscored += len(r.Tasks)
		return nil
	case err != nil || scores == nil:
		x.out.Skipped++
		return nil
	}
	x.out.Runs++
	return x.compare(r, r.List[i].N, scores)
}

// compare books both scores of each pair. mu is held.
func (x *rescoring) compare(r *client.Run, attempt int, scores []agon.Score) error {
	w := bufio.NewWriter(x.keep)
	enc := json.NewEncoder(w)
	for _, s := range scores {
		i := slices.IndexFunc(r.Scores, func(t agon.Score) bool { return t.Task == s.Task })
		if i < 0 {
			continue
		}
		was := r.Scores[i]
		if err := enc.Encode(cli.RescoredPair{At: x.out.At, Arena: x.out.Arena, Submission: r.Submission, Run: r.RunSpec.Run, Attempt: attempt, Stored: was, Rescored: s}); err != nil {
			return fmt.Errorf("keep scores: %w", err)
		}
		if s.Metrics[score.MetricUnscored] > 0 || was.Metrics[score.MetricUnscored] > 0 {
			x.out.Unscored++
			continue
		}
		e := x.by[r.Submission]
		if e == nil {
			e = &cli.RescoreEntry{ID: r.Submission, Name: r.Name}
			x.by[r.Submission] = e
		}
		e.Pairs++
		x.out.Pairs++
		e.Stored += was.Value
		e.Rescored += s.Value
		if was.Value == s.Value && was.Solved == s.Solved {
			x.out.Same++
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("keep scores: %w", err)
	}
	return nil
}

// boxless is the driver of a machine that starts no box.
type boxless struct{}

func (boxless) Info() agon.Driver { return agon.Driver{Name: "none"} }

func (boxless) Start(context.Context, sandbox.Spec) (sandbox.Box, error) {
	return nil, errors.New("no box is started here: agon run regrade judges in one")
}

// meter bounds what all sessions of a gateway spend together.
type meter struct {
	gw *gateway.Gateway

	mu          sync.Mutex
	left, spent agon.Micros // guarded by mu
}

// Open implements validator.Gateway.
func (m *meter) Open(ctx context.Context, p gateway.Policy, r gateway.Recorder) (gateway.Session, error) {
	m.mu.Lock()
	left := m.left
	m.mu.Unlock()
	if left <= 0 {
		return nil, judge.ErrBudget
	}
	p.Budget.Micros = min(p.Budget.Micros, left)
	s, err := m.gw.Open(ctx, p, r)
	if err != nil {
		return nil, err
	}
	return &metered{Session: s, m: m}, nil
}

type metered struct {
	gateway.Session
	m    *meter
	once sync.Once
}

// Close ends the session and books what it spent.
func (s *metered) Close() error {
	err := s.Session.Close()
	s.once.Do(func() {
		s.m.mu.Lock()
		defer s.m.mu.Unlock()
		s.m.left -= s.Spent()
		s.m.spent += s.Spent()
	})
	return err
}
