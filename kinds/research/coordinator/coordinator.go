// Package research coordinates research arenas: tasks that miners claim,
// submissions, replay jobs of validators that speak the coordinator's wire, work
// items, the ledger of bests, idea rewards and reward packages. It sits on the
// engine: a task is an arena, a submission an engine submission, a replay a run
// on the ordinary lease path, a best a seat; what stands here is what the engine
// has no word for. Everything that follows from a submission or a result is
// written in the engine's own transaction.
package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/research/gitserve"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/surface"
)

// Member is what the ledger says of a hotkey.
type Member struct {
	Coldkey   string
	Stake     uint64 // rao
	Validator bool
}

// Config configures a Coordinator. Platform, Store, Blobs and Member are needed.
type Config struct {
	Platform *platform.Platform
	Store    *store.Store
	Blobs    blob.Store
	// Member looks a hotkey up on a subnet.
	Member func(ctx context.Context, arena string, netuid uint16, hotkey string) (Member, bool, error)
	// Signer attests records; nil: they are not attested.
	Signer auth.Signer
	// URL is where this server is reached, for the addresses of repositories; "" makes them relative.
	URL func() string
	Now func() time.Time // time.Now
	Log *slog.Logger

	// Planner lends a model to a pass of the planner; nil: there is none.
	Planner func(ctx context.Context, use func(*judge.Judge) error) error

	MinMinerStake uint64        // rao; 0: registration suffices
	MinClaim      time.Duration // least life of a claim; 4 h
	MaxClaim      time.Duration // 7 days
	MaxActive     int           // active claims of a hotkey on a task; 3
	LeaseSlack    time.Duration // a job's lease beyond its time budget; 10 min
	MaxJobs       int           // jobs of one scan; 16
	// Template is what arenas that are made by Create have besides their task:
	// subnet, licence, incentive, policy.
	Template agon.Arena
}

// Coordinator is safe for concurrent use.
type Coordinator struct {
	cfg Config

	mu    sync.RWMutex
	byID  map[string]*task // guarded by mu; a task does not change
	slugs map[string]*task // by lower-case slug
	arena map[string]*task
}

// task is an open task with what is derived from its tree.
type task struct {
	id      string
	arena   string
	netuid  uint16
	digest  agon.Digest
	pub     kr.Task
	private kr.Private
	created time.Time
	base    *surface.Tree
	sha     string // of the served repository's commit
	repo    *gitserve.Repo
	same    string // a patch that changes nothing (basePatch); "" where there is none
	ownOnly bool   // the wire's validators cannot replay it as it should be
}

// New makes a coordinator; Attach it to its platform's configuration before.
func New(cfg Config) (*Coordinator, error) {
	c := &Coordinator{byID: map[string]*task{}, slugs: map[string]*task{}, arena: map[string]*task{}}
	return c, c.Open(cfg)
}

// Open gives a coordinator that was made by Hooks its configuration.
func (c *Coordinator) Open(cfg Config) error {
	if cfg.Platform == nil || cfg.Store == nil || cfg.Blobs == nil || cfg.Member == nil {
		return errors.New("research config: Platform, Store, Blobs and Member are needed")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&cfg.MinClaim, 4*time.Hour)
	def(&cfg.MaxClaim, 7*24*time.Hour)
	def(&cfg.LeaseSlack, 10*time.Minute)
	if cfg.MaxActive <= 0 {
		cfg.MaxActive = 3
	}
	if cfg.MaxJobs <= 0 {
		cfg.MaxJobs = 16
	}
	if cfg.URL == nil {
		cfg.URL = func() string { return "" }
	}
	if cfg.Template.Licence == "" {
		cfg.Template.Licence = "MIT"
	}
	c.cfg = cfg
	return nil
}

// NewClosed makes a coordinator for a platform's configuration (platform.Config.Coordinators),
// before there is a platform. Open completes it; until then no task is open.
func NewClosed() *Coordinator {
	c := &Coordinator{byID: map[string]*task{}, slugs: map[string]*task{}, arena: map[string]*task{}}
	c.cfg.Now = time.Now
	return c
}

func (c *Coordinator) now() time.Time { return c.cfg.Now().UTC().Truncate(time.Microsecond) }

// clock tells the time.
type clock func() time.Time

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// encode writes a row's body. Its types always encode, unless a number is not finite.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode row: %w", err)
	}
	return b, nil
}

func decode[T any](d store.Doc) (v T, err error) {
	if err := json.Unmarshal(d.Body, &v); err != nil {
		return v, fmt.Errorf("decode row %s: %w", d.ID, err)
	}
	return v, nil
}

// Prepare sets what an arena's engine needs to know of its one task: the
// contest, and limits from the time budget. Call it before the arena is opened.
func (c *Coordinator) Prepare(ctx context.Context, a *agon.Arena) error {
	return Prepare(ctx, c.cfg.Blobs, a)
}

// Prepare is Coordinator.Prepare with the blobs of the task's tree.
func Prepare(ctx context.Context, blobs blob.Store, a *agon.Arena) error {
	if len(a.Tasks) != 1 {
		return fmt.Errorf("arena %s: a research arena has one task, not %d", a.ID, len(a.Tasks))
	}
	files, err := blob.GetFiles(ctx, blobs, a.Tasks[0].Digest, treeLimits)
	if err != nil {
		return fmt.Errorf("arena %s: %w", a.ID, err)
	}
	t, _, err := kr.LoadTask(taskFS(files))
	if err != nil {
		return fmt.Errorf("arena %s: %w", a.ID, err)
	}
	rules := t.Rules
	a.Contest = &rules
	a.Title = t.Title
	a.Policy.Agent.WallMS = max(a.Policy.Agent.WallMS, int64(t.TimeBudgetSeconds)*1000)
	return nil
}

var fullSHA = lazyregexp.New(`^[0-9a-f]{40}$`)

var treeLimits = blob.TreeLimits{FileBytes: 64 << 20, Bytes: gitserve.MaxBytes}

// taskFS is the part of a task's tree that is not its repository.
func taskFS(files []blob.File) fs.FS {
	var out []blob.File
	for _, f := range files {
		if !strings.HasPrefix(f.Path, kr.BaseDir+"/") && f.Mode != blob.ModeLink {
			out = append(out, f)
		}
	}
	return blob.FS(out)
}

// OpenTask makes sure that the task of an arena is open: its row, its
// repository, its base tree. Opening it again with another tree replaces what
// is served; claims and submissions stay.
func (c *Coordinator) OpenTask(ctx context.Context, a agon.Arena) error {
	if len(a.Tasks) != 1 {
		return fmt.Errorf("arena %s: a research arena has one task, not %d", a.ID, len(a.Tasks))
	}
	c.mu.RLock()
	old := c.arena[a.ID]
	c.mu.RUnlock()
	if old != nil && old.digest == a.Tasks[0].Digest {
		return nil
	}
	t, err := c.load(ctx, a)
	if err != nil {
		return fmt.Errorf("open task of arena %s: %w", a.ID, err)
	}
	err = c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableTasks, store.DocFilter{Oldest: true})
		if err != nil {
			return err
		}
		for _, r := range rows {
			switch {
			case r.Ref == a.ID:
				t.id, t.created = r.ID, r.At
				return nil
			case r.Owner == t.pub.Slug:
				return refuse(409, "duplicate_slug", "the slug %s belongs to another task", t.pub.Slug)
			}
		}
		t.id, t.created = uuid.NewString(), c.now()
		return tx.InsertDoc(tableTasks, store.Doc{ID: t.id, Task: t.id, Owner: t.pub.Slug, Ref: a.ID, Status: "open", At: t.created, Body: []byte("{}")})
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byID[t.id], c.slugs[t.pub.Slug], c.arena[a.ID] = t, t, t
	return nil
}

// Resume opens the tasks of every research arena that the store holds: those
// that an admin created, and those that results may still come for.
func (c *Coordinator) Resume(ctx context.Context) error {
	var list []agon.Arena
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		list, err = tx.Arenas()
		return err
	})
	if err != nil {
		return err
	}
	for _, a := range list {
		if a.Kind == kr.Name && len(a.Tasks) == 1 {
			if err := c.OpenTask(ctx, a); err != nil {
				if ctx.Err() != nil {
					return err
				}
				c.cfg.Log.ErrorContext(ctx, "open research task", "arena", a.ID, "err", err) // one broken tree keeps no other arena closed
			}
		}
	}
	return nil
}

// load reads what is derived from a task's tree.
func (c *Coordinator) load(ctx context.Context, a agon.Arena) (*task, error) {
	files, err := blob.GetFiles(ctx, c.cfg.Blobs, a.Tasks[0].Digest, treeLimits)
	if err != nil {
		return nil, err
	}
	t := &task{arena: a.ID, netuid: a.Netuid, digest: a.Tasks[0].Digest}
	if t.pub, t.private, err = kr.LoadTask(taskFS(files)); err != nil {
		return nil, err
	}
	t.ownOnly = t.pub.Isolate || t.pub.Image != "" || len(t.pub.Datasets) > 0 || slices.ContainsFunc(files, func(f blob.File) bool { return strings.HasPrefix(f.Path, kr.HiddenDir+"/") })
	if t.pub.Repository != "" { // validators clone it, in a box; nothing of it is here
		if fullSHA().MatchString(t.pub.BaseRef) {
			t.sha = t.pub.BaseRef
		}
		return t, nil
	}
	var served []gitserve.File
	base := map[string]surface.File{}
	for _, f := range files {
		p, ok := strings.CutPrefix(f.Path, kr.BaseDir+"/")
		if !ok {
			continue
		}
		mode, m := gitserve.ModeFile, uint32(surface.ModeFile)
		switch f.Mode {
		case blob.ModeExec:
			mode, m = gitserve.ModeExec, surface.ModeExec
		case blob.ModeLink:
			mode, m = gitserve.ModeLink, surface.ModeLink
		}
		served = append(served, gitserve.File{Path: p, Mode: mode, Content: f.Content})
		base[p] = surface.Bytes(m, f.Content)
	}
	branch := t.pub.BaseRef
	if t.repo, err = gitserve.Build(served, branch); err != nil {
		return nil, err
	}
	t.base, t.sha = surface.NewTree(base), t.repo.Commit()
	t.same = basePatch(t.base, t.pub.Rule())
	return t, nil
}

// taskOf finds an open task by id.
func (c *Coordinator) taskOf(id string) (*task, error) {
	if t := c.taskOfID(id); t != nil {
		return t, nil
	}
	return nil, notFound("task", id)
}

// taskOfID is taskOf; nil where there is none.
func (c *Coordinator) taskOfID(id string) *task {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.byID[id]
}

func (c *Coordinator) list() []*task {
	c.mu.RLock()
	defer c.mu.RUnlock()
	out := make([]*task, 0, len(c.byID))
	for _, t := range c.byID {
		out = append(out, t)
	}
	return out
}

// Repo returns the repository of a task by slug.
func (c *Coordinator) Repo(slug string) (*gitserve.Repo, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if t := c.slugs[strings.ToLower(slug)]; t != nil && t.pub.Repository == "" {
		return t.repo, true
	}
	return nil, false
}

// stateOf maps an arena's state to a task's.
func stateOf(s agon.ArenaState) string {
	switch s {
	case agon.ArenaPaused, agon.ArenaHeld:
		return StatePaused
	case agon.ArenaClosed:
		return StateClosed
	}
	return StateLive
}

func (c *Coordinator) view(t *task, a agon.Arena) TaskView {
	v := TaskView{ID: t.id, Task: t.pub, BaseSHA: t.sha, State: stateOf(a.State), Arena: t.arena, CreatedAt: Time{t.created}}
	v.Active = v.State == StateLive
	if a.Contest != nil {
		v.Rules = *a.Contest // an operator may ask for more or fewer replays than the task does
	}
	if v.Repository == "" {
		v.Repository = c.cfg.URL() + "/git/" + t.pub.Slug + ".git"
	}
	v.RepositoryURL = v.Repository
	return v
}
