package rounds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/supply"
	"github.com/agon-arena/agon/kinds/kit"
)

// defaultBudget is what the models of a round may cost.
const defaultBudget agon.Micros = 5_000_000

// Supply draws the set of each period from a feed. What a draw asked and was told is
// kept in a folder of the period, so that a draw that was stopped goes on.
type Supply struct {
	*kit.Stock
	Arena  string
	Feed   string  // address, file or folder
	Corpus *Corpus // grows with what the rounds are made of
	// Demo lets the scripted model make claims where no other is configured.
	Demo bool

	mu   sync.Mutex
	jobs map[int64]*job   // draws that go on aside, by period; guarded by mu
	read map[string]Round // reports that were read, by folder; guarded by mu
}

type job struct {
	done chan struct{}
	err  error // once done is closed
}

// New returns the supply of an arena over a feed, whose documents scripts can search.
func New(s *kit.Server, k kit.Kit, f kit.ArenaFile, c *Corpus) (*Supply, error) {
	x := &Supply{
		Stock: &kit.Stock{Server: s, Kit: k, File: *f.Supply}, Arena: f.ID, Feed: f.Supply.Path, Corpus: c, Demo: f.Samples || f.Judge != nil && f.Judge.Demo && s.Options.Getenv("AGON_LLM_SCRIPT") != "", jobs: map[int64]*job{}, read: map[string]Round{},
	}
	if err := x.roles(); err != nil {
		return nil, err
	}
	if own := s.Options.Getenv("AGON_CORPUS"); database(own) && own != x.Feed {
		return nil, &agon.Error{
			Code: "bad_corpus", Status: 422, Field: "AGON_CORPUS", Message: "scripts would search the database alone, where the texts of the rounds are not",
			Mend: "name the same database in [supply] path, or a folder in AGON_CORPUS",
		}
	}
	if err := c.Without(x.root()); err != nil {
		return nil, err
	}
	if x.standing() {
		if err := c.Add(context.Background(), x.Feed); err != nil {
			return nil, &agon.Error{Code: "bad_feed", Status: 422, Field: "supply.path", Message: err.Error()}
		}
		return x, nil
	}
	// What the rounds of before were made of is searched on.
	list, err := x.earlier("")
	if err != nil {
		return nil, err
	}
	for _, u := range list {
		c.AddItems(u.items)
	}
	return x, nil
}

// standing reports whether the feed is a folder or a database: its documents stay, of
// whatever age.
func (x *Supply) standing() bool {
	st, err := os.Stat(x.Feed)
	return err == nil && (st.IsDir() || database(x.Feed))
}

// roles refuses models that would mark their own work.
func (x *Supply) roles() error {
	o := x.Server.Options
	if p := o.Parts(""); !p.Keyed {
		if x.Demo {
			return nil
		}
		return kit.NoModel(o, "a round of claims")
	}
	judges := o.Models(kit.RoleJudge)
	ref := o.Models(kit.RoleReference)
	if len(judges) == 0 || len(ref) == 0 || !slices.Contains(judges, ref[0]) || o.Getenv("AGON_SAME_MODEL") != "" {
		return nil
	}
	return &agon.Error{
		Code: "same_model", Status: 422, Field: "supply", Message: fmt.Sprintf("%s would write the references and judge by them", ref[0]),
		Mend: "name another model in AGON_REFERENCE_MODEL, or set AGON_SAME_MODEL=1 if there is but one",
	}
}

// DrawFrom implements platform.LateSupply: the second half of the period before.
func (x *Supply) DrawFrom(opens, closes time.Time) time.Time {
	return closes.Add(-min(closes.Sub(opens)/2, 12*time.Hour))
}

// root holds a folder for each round.
func (x *Supply) root() string { return Folder(x.Server.Data.Path(), x.Arena) }

// dir is the folder of a period's round. The seed tells it from that of an arena
// which had the name before.
func (x *Supply) dir(r platform.SetRequest) string {
	return filepath.Join(x.root(), fmt.Sprintf("%06d-%08x", r.Period, uint32(r.Seed)))
}

// Draw implements platform.Supply.
func (x *Supply) Draw(ctx context.Context, r platform.SetRequest) ([]agon.TaskRef, error) {
	dir := x.dir(r)
	if _, err := os.Stat(filepath.Join(dir, "set")); err == nil {
		return x.put(ctx, dir, r)
	}
	x.mu.Lock()
	j := x.jobs[r.Period]
	if j == nil {
		j = &job{done: make(chan struct{})}
		x.jobs[r.Period] = j
		run := func(ctx context.Context) {
			defer close(j.done)
			j.err = x.make(ctx, dir, r)
		}
		if r.Needed {
			x.mu.Unlock()
			run(ctx)
			x.mu.Lock()
		} else {
			x.Server.Background(run)
		}
	}
	x.mu.Unlock()
	if r.Needed {
		select {
		case <-j.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case <-j.done:
	default:
		return nil, platform.ErrDrawing
	}
	x.mu.Lock()
	delete(x.jobs, r.Period)
	x.mu.Unlock()
	if j.err != nil {
		return nil, j.err
	}
	return x.put(ctx, dir, r)
}

// put stores the tasks of a round that is made.
func (x *Supply) put(ctx context.Context, dir string, r platform.SetRequest) ([]agon.TaskRef, error) {
	list, _, err := kit.LoadSet(x.Server.Options, play.Name, filepath.Join(dir, "set"))
	if err != nil {
		return nil, err
	}
	u, err := readUsed(dir)
	if err != nil {
		return nil, err
	}
	x.Corpus.AddItems(u.items)
	out := make([]agon.TaskRef, 0, len(list))
	for _, t := range list {
		ref, err := kit.PutTask(ctx, x.Server.Blobs, t, x.Server.Data.Path("tmp"))
		if err != nil {
			return nil, err
		}
		ref.Key = fmt.Sprintf("round-%d/%s", r.Period, ref.Key[strings.LastIndexByte(ref.Key, '/')+1:])
		out = append(out, ref)
	}
	return out, nil
}

// make makes the round of a request in dir.
func (x *Supply) make(ctx context.Context, dir string, r platform.SetRequest) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make a round: %w", err)
	}
	before, err := x.earlier(filepath.Base(dir))
	if err != nil {
		return err
	}
	items, err := x.items(ctx, dir, before)
	if err != nil {
		return err
	}
	script, err := x.champion(ctx, dir)
	if err != nil {
		return err
	}
	o := x.Server.Options
	m := Making{
		Items: items, Log: filepath.Join(dir, "log"), Script: script, Count: r.Tasks, Seed: uint64(r.Seed), Budget: budget(o), Audit: true,
		Search: NewCorpus(x.Corpus.now),
	}
	if err := m.Search.Without(x.root()); err != nil {
		return err
	}
	for _, u := range before {
		m.Avoid = append(m.Avoid, u.Claims...)
		m.Search.AddItems(u.items)
	}
	m.Search.AddItems(items)
	m.Seq = int64(m.Search.Len()) // all that was published when the claim was made
	if database(x.Feed) {
		if err := m.Search.Add(ctx, x.Feed); err != nil {
			return err
		}
		m.Seq = 1 << 53 // of rowids
	}
	o.Sayf("arena %s: the round of period %d is drawn from %d texts", x.Arena, r.Period, len(items))
	set, err := Make(ctx, o, m)
	if err != nil {
		return err
	}
	if rep := set.Report; rep.Claims < r.Tasks {
		return &agon.Error{
			Code: "round_short", Status: 409, Field: "supply", Limit: fmt.Sprintf("%d claims a round", r.Tasks),
			Message: fmt.Sprintf("the round of period %d has %d claims of %d: %s", r.Period, rep.Claims, r.Tasks, rep.Why),
			Mend:    "wait until more is published, name another feed, or give more in AGON_ROUND_BUDGET",
		}
	}
	o.Sayf("arena %s: the round of period %d is drawn: %d claims, of which the champion gets %.0f %% wrong (%d drawn)", x.Arena, r.Period, set.Report.Claims, 100*set.Report.Wrong, set.Report.Draws)
	if !set.Report.Complete {
		o.Sayf("arena %s: that is less than the %.0f %% which were wanted: %s", x.Arena, 100*set.Report.Target, set.Report.Why)
	}
	u := used{Claims: []string{}, Items: []string{}}
	for _, t := range set.Tasks {
		u.Claims = append(u.Claims, t.Claim.Payload.ClaimText)
		if !slices.Contains(u.Items, t.Item) {
			u.Items = append(u.Items, t.Item)
		}
	}
	if err := keep(filepath.Join(dir, "used.json"), u); err != nil {
		return err
	}
	return supply.Write(filepath.Join(dir, "set"), set)
}

// budget is AGON_ROUND_BUDGET, in dollars.
func budget(o kit.Options) agon.Micros {
	if d, err := strconv.ParseFloat(o.Getenv("AGON_ROUND_BUDGET"), 64); err == nil && d > 0 && d <= 10_000 {
		return agon.Micros(d * 1e6)
	}
	return defaultBudget
}

// champion is the script that sits, as it was when the making of dir began; nil: the seat is empty.
func (x *Supply) champion(ctx context.Context, dir string) ([]byte, error) {
	kept := filepath.Join(dir, "champion.py")
	if b, err := os.ReadFile(kept); err == nil || !errors.Is(err, os.ErrNotExist) {
		if len(b) == 0 {
			return nil, err
		}
		return b, err
	}
	var script []byte
	a, err := x.Server.Platform.Arena(ctx, x.Arena)
	var no *agon.Error
	switch {
	case errors.As(err, &no) && no.Status == 404: // the first round
	case err != nil:
		return nil, err
	case a.Champion != nil && a.Champion.Submission != "":
		files, err := x.Server.Platform.SubmissionFiles(ctx, platform.Caller{Operator: true}, a.Champion.Submission)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if f.Path == play.AgentFile {
				script = f.Content
			}
		}
		if _, _, err := kit.OpenDriver(ctx, x.Server.Options); err != nil {
			x.Server.Options.Sayf("arena %s: no box plays here, so that who sits is not asked: every claim counts as hard (%v)", x.Arena, err)
			script = nil
		}
	}
	return script, write(kept, script)
}

// items are the texts that a round is made of, as they were when its making began:
// what was not asked about before comes first.
func (x *Supply) items(ctx context.Context, dir string, before []used) ([]supply.Item, error) {
	kept := filepath.Join(dir, "items.json")
	var items []supply.Item
	b, err := os.ReadFile(kept)
	if err == nil {
		if err := json.Unmarshal(b, &items); err != nil {
			return nil, fmt.Errorf("read %s: %w", kept, err)
		}
		return items, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if items, err = Read(ctx, x.Feed); err != nil {
		return nil, err
	}
	if !x.standing() {
		items = supply.Fresh(items, time.Now()) //nolint:forbidigo // the age of what a feed has published
	}
	gone, err := readForgotten(x.root())
	if err != nil {
		return nil, err
	}
	items = gone.without(items)
	known := map[string]bool{}
	for _, u := range before {
		for _, id := range u.Items {
			known[id] = true
		}
	}
	fresh := slices.DeleteFunc(slices.Clone(items), func(i supply.Item) bool { return known[i.ID] })
	if len(fresh) == 0 {
		return nil, &agon.Error{
			Code: "nothing_new", Status: 409, Field: "supply", Message: fmt.Sprintf("the feed has %d texts, and none that no round has asked about", len(items)),
			Mend: "add documents to it, or wait until more is published",
		}
	}
	return fresh, keep(kept, fresh)
}

// used is what a round has asked.
type used struct {
	Claims []string `json:"claims"`
	Items  []string `json:"items"` // ids of those that claims were made of

	items []supply.Item
}

// earlier are the rounds that are made, without the one of folder except, oldest first.
func (x *Supply) earlier(except string) ([]used, error) {
	list, err := os.ReadDir(x.root())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []used
	for _, e := range list {
		if e.Name() == except || !e.IsDir() {
			continue
		}
		u, err := readUsed(filepath.Join(x.root(), e.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // it is being made
		}
		if err != nil {
			return nil, err
		}
		out = append(out, u)
	}
	return out, nil
}

func readUsed(dir string) (u used, err error) {
	b, err := os.ReadFile(filepath.Join(dir, "used.json"))
	if err == nil {
		err = json.Unmarshal(b, &u)
	}
	if err != nil {
		return u, fmt.Errorf("read round: %w", err)
	}
	if b, err = os.ReadFile(filepath.Join(dir, "items.json")); errors.Is(err, os.ErrNotExist) {
		return u, nil // its texts were deleted
	}
	if err == nil {
		err = json.Unmarshal(b, &u.items)
	}
	if err != nil {
		return u, fmt.Errorf("read round: %w", err)
	}
	return u, nil
}

func keep(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return write(name, b)
}

// write replaces a file whole.
func write(name string, b []byte) error {
	if err := os.WriteFile(name+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
