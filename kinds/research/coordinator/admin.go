package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	kr "github.com/agon-arena/agon/kinds/research/play"
)

// MaxCreate bounds the body of a new task, in bytes.
const MaxCreate = 8 << 20

// URL is where this server is reached.
func (c *Coordinator) URL() string { return c.cfg.URL() }

// NewTask is what an admin creates: a task's fields, and its repository as
// texts by path or as a tree that was put before.
type NewTask struct {
	kr.Task
	RepositoryURL string            `json:"repository_url"`
	Env           map[string]string `json:"validator_benchmark_env"`
	Files         map[string]string `json:"files"`
	Tree          agon.Digest       `json:"tree"`
}

// Published of a hotkey in a day, at most.
const maxPublished = 20

// CreateBy is Create by a hotkey that an open arena names among its publishers: the task
// gets that arena's subnet and rules. A publisher gives the files themselves, since a tree
// may be another's secret.
func (c *Coordinator) CreateBy(ctx context.Context, hotkey string, n NewTask) (*TaskView, error) {
	a, ok, err := c.template(ctx, hotkey)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, refuse(403, "not_a_publisher", "no task here names %s among its publishers: the operator writes publishers = [\"HOTKEY\"] into an arena", hotkey)
	}
	if n.Tree != "" {
		return nil, refuse(422, "bad_tree", "a publisher gives the repository as files, not as a tree").with("field", "tree")
	}
	if err := c.countPublished(ctx, hotkey); err != nil {
		return nil, err
	}
	a.Publishers = nil // else who publishes goes on by its own tasks when the operator's no longer name it
	v, err := c.create(ctx, n, a)
	if err == nil {
		c.cfg.Log.InfoContext(ctx, "a publisher has opened a task", "hotkey", hotkey, "task", v.Slug, "by arena", a.ID)
	}
	return v, err
}

// countPublished counts a try of a publisher, in the store: another server over it, or this one
// after a restart, counts on. It returns a *Refusal where there were too many.
func (c *Coordinator) countPublished(ctx context.Context, hotkey string) error {
	owner := "publish/" + hotkey
	return c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableHits, store.DocFilter{Owner: owner, Limit: maxPublished}) // newest first
		if err != nil {
			return err
		}
		now, last := c.now(), int64(0)
		recent := 0
		for _, r := range rows {
			last = max(last, r.N)
			if now.Sub(r.At) < 24*time.Hour {
				recent++
			}
		}
		if recent >= maxPublished {
			return refuse(429, "too_many_tasks", "%d tasks of %s in 24 hours: no more today", maxPublished, hotkey)
		}
		return tx.InsertDoc(tableHits, store.Doc{ID: fmt.Sprintf("%s/%d", owner, last), Owner: owner, Status: "published", At: now, Body: []byte("{}")})
	})
}

// Create opens a new task by the operator's word: an arena of its own.
func (c *Coordinator) Create(ctx context.Context, n NewTask) (*TaskView, error) {
	a, _, err := c.template(ctx, "")
	if err != nil {
		return nil, err
	}
	return c.create(ctx, n, a)
}

func (c *Coordinator) create(ctx context.Context, n NewTask, a agon.Arena) (*TaskView, error) {
	t := n.Task
	if t.Repository == "" {
		t.Repository = n.RepositoryURL
	}
	if t.Baseline == 0 {
		t.Baseline = 1 // scores are relative to it; preflight measures a true one
	}
	t.Defaults()
	if err := errors.Join(t.Validate(), kr.Private{BenchmarkEnv: n.Env}.Validate()); err != nil {
		r := refuse(422, "invalid_task", "%s", strings.ReplaceAll(err.Error(), "\n", "; "))
		var fe *kr.FieldError
		if errors.As(err, &fe) {
			r.with("field", fe.Field).with("limit", fe.Limit)
		}
		return nil, r
	}
	c.mu.RLock()
	_, taken := c.slugs[t.Slug]
	c.mu.RUnlock()
	if taken {
		return nil, refuse(409, "duplicate_slug", "the slug %s belongs to another task", t.Slug).with("field", "slug")
	}
	files, err := c.base(ctx, n)
	if err != nil {
		return nil, err
	}
	t.Repository = "" // what is scored is the tree that is here, so it is served from here
	text, err := toml.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("write task: %w", err)
	}
	secret, err := toml.Marshal(kr.Private{BenchmarkEnv: n.Env})
	if err != nil {
		return nil, fmt.Errorf("write task: %w", err)
	}
	config, err := t.ConfigFile("research/" + t.Slug)
	if err != nil {
		return nil, err
	}
	files = append(files,
		blob.File{Path: "task.toml", Content: config},
		blob.File{Path: "instruction.md", Content: []byte(t.Brief)}, blob.File{Path: kr.OnboardFile, Content: []byte(t.Onboard)},
		blob.File{Path: kr.TaskFile, Content: text}, blob.File{Path: kr.PrivateFile, Content: secret})
	d, err := blob.PutFiles(ctx, c.cfg.Blobs, files, treeLimits)
	if err != nil {
		return nil, refuse(422, "bad_files", "%s", err)
	}
	a.ID, a.Kind, a.State, a.CreatedAt = t.Slug, kr.Name, agon.ArenaOpen, c.now()
	a.Tasks = []agon.TaskRef{{Key: "research/" + t.Slug, Digest: d, Hidden: true}}
	if err := c.Prepare(ctx, &a); err != nil {
		return nil, err
	}
	if err := c.cfg.Platform.EnsureArena(ctx, a); err != nil {
		return nil, err
	}
	if err := c.OpenTask(ctx, a); err != nil {
		return nil, err
	}
	return c.Task(ctx, c.taskOfArena(a.ID).id)
}

// template is what a new task's arena has besides the task: what the oldest
// open task's has, so that its miners and validators are on the same subnet; for a publisher,
// the oldest that names it. ok is false where none does.
func (c *Coordinator) template(ctx context.Context, publisher string) (a agon.Arena, ok bool, err error) {
	list := c.list()
	if len(list) == 0 && publisher == "" {
		return c.cfg.Template, true, nil
	}
	slices.SortStableFunc(list, func(a, b *task) int { return a.created.Compare(b.created) })
	for _, t := range list {
		err := c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
			a, err = tx.Arena(t.arena)
			return err
		})
		if err != nil {
			return a, false, err
		}
		if publisher == "" || a.State == agon.ArenaOpen && slices.Contains(a.Publishers, publisher) {
			a.Policy.Agent.WallMS = c.cfg.Template.Policy.Agent.WallMS
			return a, true, nil
		}
	}
	return agon.Arena{}, false, nil
}

// base is the repository of a new task, below kr.BaseDir.
func (c *Coordinator) base(ctx context.Context, n NewTask) ([]blob.File, error) {
	var files []blob.File
	switch {
	case n.Tree != "":
		list, err := blob.GetFiles(ctx, c.cfg.Blobs, n.Tree, treeLimits)
		if err != nil {
			return nil, refuse(422, "bad_tree", "tree: %s", err).with("field", "tree")
		}
		files = list
	case len(n.Files) > 0:
		for p, text := range n.Files {
			files = append(files, blob.File{Path: p, Content: []byte(text)})
		}
	default:
		return nil, refuse(422, "missing_repository", "give the repository as files {path: text}, or as the digest of a tree that was put before: foreign repositories are not cloned by the server").with("field", "files")
	}
	for i := range files {
		files[i].Path = kr.BaseDir + "/" + files[i].Path
	}
	return files, nil
}

// OpenJob finds the job that a validator holds of a submission.
func (c *Coordinator) OpenJob(ctx context.Context, hotkey, submission string) (string, error) {
	s, err := c.stored(ctx, submission)
	if err != nil {
		return "", err
	}
	t, err := c.taskOf(s.TaskID)
	if err != nil {
		return "", err
	}
	if m := t.pub.CompetitionMode; m == kr.ModePeer || m == kr.ModeSelfValidation {
		return "", refuse(409, "peer_evaluated", "task %s is %s: peers evaluate it, not validators", t.pub.Slug, m)
	}
	var id string
	err = c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableJobs, store.DocFilter{Ref: submission, Owner: hotkey, Limit: 1})
		if err == nil && len(rows) == 0 {
			return refuse(409, "no_open_job", "you hold no job of submission %s: take one from the worklist", submission)
		}
		if err == nil {
			id = rows[0].ID
		}
		return err
	})
	return id, err
}

// ValidatorView is how a validator stands.
type ValidatorView struct {
	Hotkey   string  `json:"hotkey"`
	Canaries int     `json:"canaries"`
	Missed   int     `json:"missed"`
	Trust    float64 `json:"trust"`
	Last     Time    `json:"last_canary_at"`
}

// Validators lists the validators that have replayed a canary, by hotkey.
func (c *Coordinator) Validators(ctx context.Context) ([]ValidatorView, error) {
	by := map[string]*ValidatorView{}
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		rows, err := tx.Docs(tableHits, store.DocFilter{Status: "hit", Limit: 10_000})
		if err != nil {
			return err
		}
		for _, r := range rows {
			h, err := decode[Hit](r)
			if err != nil {
				return err
			}
			v := by[h.Validator]
			if v == nil {
				v = &ValidatorView{Hotkey: h.Validator, Last: h.At}
				if v.Trust, err = validatorTrust(tx, agon.Contest{}, h.Validator); err != nil {
					return err
				}
				by[h.Validator] = v
			}
			v.Canaries++
			if !h.Within {
				v.Missed++
			}
		}
		return nil
	})
	out := []ValidatorView{}
	for _, v := range by {
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b ValidatorView) int { return strings.Compare(a.Hotkey, b.Hotkey) })
	return out, err
}

// MakeCanary marks a pending submission as one whose score is known. It wins
// nothing, and what each validator says of it is held against its trust.
func (c *Coordinator) MakeCanary(ctx context.Context, n Canary) (*Canary, error) {
	if !slices.Contains([]string{kr.StatusAccepted, kr.StatusRejected, kr.StatusError}, n.Verdict) {
		return nil, refuse(422, "bad_verdict", "verdict: want accepted, rejected or error").with("field", "verdict")
	}
	n.At = Time{c.now()}
	err := c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		row, err := tx.Doc(tableSubmissions, n.Submission)
		if errors.Is(err, store.ErrNotFound) {
			return notFound("submission", n.Submission)
		}
		if err != nil {
			return err
		}
		if row.Status != kr.StatusPending {
			return refuse(409, "already_final", "submission %s is %s: a canary is marked before it is decided", n.Submission, row.Status)
		}
		body, err := encode(n)
		if err != nil {
			return err
		}
		err = tx.InsertDoc(tableCanaries, store.Doc{ID: n.Submission, Task: row.Task, Owner: row.Owner, Status: "canary", At: n.At.Time, Body: body})
		if errors.Is(err, store.ErrConflict) {
			return refuse(409, "already_canary", "submission %s is a canary", n.Submission)
		}
		return err
	})
	return &n, err
}

// Requeue has a final submission replayed again. Old verifications stay.
func (c *Coordinator) Requeue(ctx context.Context, id string) (*Submission, error) {
	s, err := c.stored(ctx, id)
	if err != nil {
		return nil, err
	}
	if _, err := c.cfg.Platform.Reopen(ctx, platform.Caller{Operator: true}, id); err != nil {
		return nil, err
	}
	if s.Best == nil { // decided ones keep their status until the replays say otherwise
		from := s.Status
		s.Status, s.Reason, s.UpdatedAt = kr.StatusPending, "replayed again", Time{c.now()}
		err := c.cfg.Store.Write(ctx, func(tx *store.Tx) error { return setSubmission(tx, s, from) })
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
	return c.Submission(ctx, id)
}
