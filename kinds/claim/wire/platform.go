package wire

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/internal/folder"
)

// PlatformConfig is what the platform's side is made of. Arenas, Arena, Verifier,
// Claims and Dir are needed.
type PlatformConfig struct {
	Arenas Arenas
	Arena  string // id of the claim arena behind the routes
	// Verifier checks dialect.Caster{} requests; its Members tell uids.
	Verifier *dialect.Verifier
	// Claims are the arena's tasks now, for a batch that brings no own.
	Claims func(ctx context.Context) ([]Claim, error)
	// Hidden are ids of claims that are hidden now: what they say and what is wanted
	// goes to validators alone, until they leave the arena. nil: none.
	Hidden func(ctx context.Context) (map[string]bool, error)
	Dir    string // batches and registrations
	// Documents has what would stand in Dir, but for keys; nil: Dir has it.
	Documents folder.Documents
	// Draining is closed where nobody may wait for work any more; nil: it never is.
	Draining <-chan struct{}
	// Items and Repo answer /v1/feeds and /v1/repo-search; nil: 503.
	Items tools.Items
	Repo  tools.Repo
	// Recent is how long a finished batch lets a validator ask for weights;
	// default 120 h. Zero batches let nobody ask, as in the original, unless
	// AnyTime is set.
	Recent  time.Duration
	AnyTime bool
	// Driver pushes batches to registered validators.
	Driver Driver
	// Keys are the claim ids of the arena's tasks by their keys; nil: rows of monitoring
	// are named by key.
	Keys func(ctx context.Context) (map[string]string, error)
	// Work makes it a platform of the query era; Claims is not needed then.
	Work *Work
	Now  func() time.Time
	Log  *slog.Logger
}

// Platform serves the platform's endpoints, those of the seed or of the query era.
type Platform struct {
	cfg    PlatformConfig
	dir    folder.Documents
	client *http.Client // that validators are asked with
	voters *http.Client // the same, with more patience

	mu      sync.Mutex
	known   map[string]bool      // tree digests entered in the arena; guarded by mu
	upto    int64                // Seq up to which known is complete; guarded by mu
	scripts map[string]Candidate // by submission id; guarded by mu

	freeze sync.Mutex // held while a batch is made
	config sync.Mutex // held while a miner's configuration changes
	work   workbench
	alive  liveness
}

// NewPlatform returns a handler of every platform route.
func NewPlatform(c PlatformConfig) (*Platform, http.Handler, error) {
	if c.Arenas == nil || c.Arena == "" || c.Verifier == nil || c.Claims == nil && c.Work == nil || c.Dir == "" {
		return nil, nil, errors.New("harnyx platform: Arenas, Arena, Verifier, Claims and Dir are needed")
	}
	if c.Recent <= 0 {
		c.Recent = 120 * time.Hour
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Driver.defaults()
	p := &Platform{cfg: c, dir: folder.Or(c.Documents, c.Dir), client: c.Driver.client(), known: map[string]bool{}, scripts: map[string]Candidate{}}
	if err := p.loadLive(); err != nil {
		return nil, nil, err
	}
	m := http.NewServeMux()
	if err := p.openWork(m); err != nil {
		return nil, nil, err
	}
	m.HandleFunc("POST /v1/miners/scripts", p.upload)
	m.HandleFunc("POST /v1/miner-task-batches/batch", p.createBatch)
	m.HandleFunc("GET /v1/miner-task-batches/batch/{id}", p.getBatch)
	m.HandleFunc("GET /v1/miner-task-batches/progress/{id}", p.progress)
	m.HandleFunc("GET /v1/miner-task-batches/{batch}/artifacts/{artifact}", p.artifact)
	m.HandleFunc("POST /v1/validators/register", p.register)
	m.HandleFunc("GET /v1/weights", p.weights)
	m.HandleFunc("GET /v1/monitoring/miner-task-batches", p.monitorList)
	m.HandleFunc("GET /v1/monitoring/miner-task-batches/{id}", p.monitorBatch)
	m.HandleFunc("GET /v1/monitoring/miner-task-batches/{id}/artifacts/{aid}/tasks", p.monitorTasks)
	m.HandleFunc("GET /v1/monitoring/miner-task-batches/{id}/artifacts/{aid}/tasks/{tid}/results", p.monitorResults)
	m.HandleFunc("GET /v1/monitoring/miner-scripts/{id}", p.monitorScript)
	p.searchRoutes(m)
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
	})
	return p, m, nil
}

// operator reads what the platform itself needs to hand out.
var operator = platform.Caller{Operator: true}

var anybody platform.Caller

// asValidator is what every route but the upload and monitoring asks for.
var asValidator = dialect.Need{Registered: true, Validator: true}

// broken answers an error of ours, or the platform's refusal.
func (p *Platform) broken(w http.ResponseWriter, what string, err error) {
	var e *agon.Error
	if errors.As(err, &e) && e.Status < 500 {
		refuse(w, e.Status, e.Code, "%s", e.Message)
		return
	}
	p.cfg.Log.Error("request failed", "what", what, "err", err)
	refuse(w, http.StatusInternalServerError, "internal_server_error", "internal error")
}

const scriptName = "agent.py"

// upload is POST /v1/miners/scripts.
func (p *Platform) upload(w http.ResponseWriter, r *http.Request) {
	id, body, ok := signed(w, r, p.cfg.Verifier, dialect.Need{Registered: true}, int64(2*p.maxScript()))
	if !ok {
		return
	}
	var in struct {
		Script *string `json:"script_b64"`
		SHA256 *string `json:"sha256"`
	}
	if !decode(w, body, true, &in) {
		return
	}
	if in.Script == nil {
		invalid(w, "missing", "Field required", "script_b64")
		return
	}
	if in.SHA256 == nil {
		invalid(w, "missing", "Field required", "sha256")
		return
	}
	script, err := base64.StdEncoding.Strict().DecodeString(*in.Script)
	switch {
	case err != nil:
		refuse(w, http.StatusUnprocessableEntity, "invalid_script_payload", "script_b64 is not Base64")
		return
	case len(script) == 0 || len(script) > p.maxScript():
		refuse(w, http.StatusUnprocessableEntity, "invalid_script_payload", "the script has %d bytes, want 1 to %d", len(script), p.maxScript())
		return
	case !utf8.Valid(script):
		refuse(w, http.StatusUnprocessableEntity, "invalid_script_payload", "the script is not UTF-8")
		return
	}
	hash := sha(script)
	if !strings.EqualFold(*in.SHA256, hash) {
		refuse(w, http.StatusUnprocessableEntity, "sha_mismatch", "sha256 is not that of the script")
		return
	}
	// One at a time: whether the bytes are known is looked up and changed together.
	p.mu.Lock()
	defer p.mu.Unlock()
	arena, err := p.cfg.Arenas.Arena(r.Context(), p.cfg.Arena)
	if err != nil {
		p.broken(w, "upload", err)
		return
	}
	files := []blob.File{{Path: scriptName, Content: script}}
	tree, err := blob.SumFiles(files, blob.TreeLimits{})
	if err == nil {
		err = p.learn(r.Context())
	}
	if err != nil {
		p.broken(w, "upload", err)
		return
	}
	if p.known[string(tree)] {
		refuse(w, http.StatusConflict, "duplicate_script", "this script was entered before")
		return
	}
	s, err := p.cfg.Arenas.Submit(r.Context(), platform.Caller{Hotkey: id.Hotkey}, p.cfg.Arena, client.SubmitRequest{
		Name: "script", Licence: arena.Licence, Files: []client.File{{Path: scriptName, Content: script}},
	})
	if err != nil {
		var e *agon.Error
		switch {
		case errors.As(err, &e) && e.Status == http.StatusConflict && strings.Contains(e.Code, "duplicate"):
			refuse(w, http.StatusConflict, "duplicate_script", "%s", e.Message)
		case errors.As(err, &e) && (e.Status == http.StatusUnprocessableEntity || e.Status == http.StatusRequestEntityTooLarge):
			refuse(w, http.StatusUnprocessableEntity, "invalid_script_payload", "%s", e.Message)
		default:
			p.broken(w, "upload", err)
		}
		return
	}
	if !s.Created {
		refuse(w, http.StatusConflict, "duplicate_script", "this script was entered before")
		return
	}
	p.known[string(tree)] = true
	p.scripts[s.ID] = Candidate{ArtifactID: s.ID, ContentHash: hash, SizeBytes: len(script)}
	reply(w, http.StatusOK, map[string]any{
		"uid": int(id.Member.UID), "artifact_id": s.ID, "content_hash": hash, "size_bytes": len(script), "submitted_at": s.CreatedAt.UTC().Format(time.RFC3339Nano),
	})
}

// learn takes over the submissions that came since it was last called. The caller holds mu.
func (p *Platform) learn(ctx context.Context) error {
	cursor, top := "", p.upto
	for {
		page, err := p.cfg.Arenas.Submissions(ctx, operator, p.cfg.Arena, "", cursor, 200)
		if err != nil {
			return err
		}
		for _, s := range page.Items {
			if s.Seq <= p.upto {
				p.upto = top
				return nil
			}
			p.known[string(s.Digest)] = true
			top = max(top, s.Seq)
		}
		if cursor = page.Next; cursor == "" {
			p.upto = top
			return nil
		}
	}
}

// candidates are the newest submission of every registered hotkey up to cutoff,
// and the champion's, even where its miner has a newer one. What is older than since is
// left out, unless it sits.
func (p *Platform) candidates(ctx context.Context, since, cutoff time.Time) ([]Candidate, error) {
	var out []Candidate
	seen := map[string]bool{}
	cursor := ""
	for {
		page, err := p.cfg.Arenas.Submissions(ctx, operator, p.cfg.Arena, "", cursor, 200)
		if err != nil {
			return nil, err
		}
		for _, s := range page.Items {
			if seen[s.Miner] || s.CreatedAt.After(cutoff) || !since.IsZero() && !s.CreatedAt.After(since) || s.State == agon.SubmissionRefused || s.State == agon.SubmissionExcluded {
				continue
			}
			uid, ok, err := p.uid(ctx, s.Miner)
			if err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			seen[s.Miner] = true
			c, err := p.candidate(ctx, s.ID)
			if err != nil {
				return nil, err
			}
			c.UID = uid
			if err := p.dress(&c, s.Miner); err != nil {
				return nil, err
			}
			out = append(out, c)
		}
		if cursor = page.Next; cursor == "" || len(out) >= maxCandidates {
			break
		}
	}
	sits, err := p.sitting(ctx)
	if err != nil {
		return nil, err
	}
	for _, ch := range sits {
		if slices.ContainsFunc(out, func(c Candidate) bool { return c.ArtifactID == ch.ArtifactID }) {
			continue
		}
		uid, ok, err := p.uid(ctx, ch.Hotkey)
		if err != nil {
			return nil, err
		}
		if ok {
			c, err := p.candidate(ctx, ch.ArtifactID)
			if err != nil {
				return nil, err
			}
			c.UID = uid
			if err := p.dress(&c, ch.Hotkey); err != nil {
				return nil, err
			}
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Candidate) int { return a.UID - b.UID })
	return out, nil
}

// candidate tells hash and size of a submission's script.
func (p *Platform) candidate(ctx context.Context, id string) (Candidate, error) {
	p.mu.Lock()
	c, ok := p.scripts[id]
	p.mu.Unlock()
	if ok {
		return c, nil
	}
	b, err := p.script(ctx, operator, id)
	if err != nil {
		return Candidate{}, err
	}
	c = Candidate{ArtifactID: id, ContentHash: sha(b), SizeBytes: len(b)}
	p.mu.Lock()
	p.scripts[id] = c
	p.mu.Unlock()
	return c, nil
}

func (p *Platform) script(ctx context.Context, c platform.Caller, id string) ([]byte, error) {
	files, err := p.cfg.Arenas.SubmissionFiles(ctx, c, id)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.Path == scriptName {
			return f.Content, nil
		}
	}
	return nil, &agon.Error{Code: "not_found", Status: http.StatusNotFound, Message: "the submission has no script"}
}

func (p *Platform) uid(ctx context.Context, hotkey string) (int, bool, error) {
	if p.cfg.Verifier.Members == nil {
		return 0, false, nil
	}
	m, ok, err := p.cfg.Verifier.Members.Member(ctx, hotkey)
	return int(m.UID), ok, err
}

// registered are the hotkeys of the validators that have registered.
func (p *Platform) registered() ([]string, error) {
	out := []string{}
	err := folder.Load(p.dir, "validator-", func(_ string, reg registration) { out = append(out, reg.Hotkey) })
	return out, err
}

// mayRead reports whether a validator may read a batch, or answers. A batch is of
// the validators that were registered when it was frozen, and of who froze it;
// others read it when none of its claims is hidden any more.
func (p *Platform) mayRead(w http.ResponseWriter, r *http.Request, hotkey string, b Batch) bool {
	_, withheld, err := p.open(r.Context(), b)
	if err != nil {
		p.broken(w, "read batch", err)
		return false
	}
	if withheld == 0 {
		return true
	}
	var who []string
	if was, err := p.dir.Get(assignedName(b.BatchID), &who); err != nil {
		p.broken(w, "read batch", err)
		return false
	} else if !was { // frozen before this was kept
		if who, err = p.registered(); err != nil {
			p.broken(w, "read batch", err)
			return false
		}
	}
	if slices.Contains(who, hotkey) {
		return true
	}
	refuse(w, http.StatusForbidden, "batch_not_assigned", "batch %s is of the validators that were registered when it was made: register with POST /v1/validators/register for the next one", b.BatchID)
	return false
}

// batch reads a batch, or answers.
func (p *Platform) batch(w http.ResponseWriter, r *http.Request, id string) (Batch, bool) {
	var b Batch
	u, err := uuid.Parse(id)
	ok := false
	if err == nil {
		ok, err = p.dir.Get(batchName(u.String()), &b)
		if err != nil {
			p.broken(w, "read batch", err)
			return b, false
		}
	}
	if !ok {
		refuse(w, http.StatusNotFound, "batch_not_found", "no such batch")
		return b, false
	}
	return p.shown(r.Context(), b), true
}

func (p *Platform) getBatch(w http.ResponseWriter, r *http.Request) {
	caller, _, ok := p.validator(w, r, 1<<10)
	if !ok {
		return
	}
	if b, ok := p.batch(w, r, r.PathValue("id")); ok && p.mayRead(w, r, caller.Hotkey, b) {
		reply(w, http.StatusOK, b)
	}
}

func (p *Platform) progress(w http.ResponseWriter, r *http.Request) {
	if _, _, ok := p.validator(w, r, 1<<10); !ok {
		return
	}
	if b, ok := p.batch(w, r, r.PathValue("id")); ok {
		reply(w, http.StatusOK, map[string]any{"batch_id": b.BatchID, "status": b.Status, "created_at": b.CreatedAt, "cutoff_at": b.CutoffAt, "candidate_count": len(b.Candidates)})
	}
}

func (p *Platform) artifact(w http.ResponseWriter, r *http.Request) {
	caller, _, ok := p.validator(w, r, 1<<10)
	if !ok {
		return
	}
	b, ok := p.batch(w, r, r.PathValue("batch"))
	if !ok || !p.mayRead(w, r, caller.Hotkey, b) {
		return
	}
	// Only scripts of this batch: a validator may not read what is queued for later.
	if !slices.ContainsFunc(b.Candidates, func(c Candidate) bool { return c.ArtifactID == r.PathValue("artifact") }) {
		refuse(w, http.StatusNotFound, "artifact_not_found", "the batch has no such artifact")
		return
	}
	script, err := p.script(r.Context(), operator, r.PathValue("artifact"))
	if err != nil {
		p.broken(w, "read artifact", err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(script)
}

// batches lists all, newest first.
func (p *Platform) batches(ctx context.Context) ([]Batch, error) {
	names, err := p.dir.Names("batch-")
	if err != nil {
		return nil, err
	}
	out := make([]Batch, 0, len(names))
	for _, n := range names {
		var b Batch
		if ok, err := p.dir.Get(n, &b); err != nil {
			return nil, err
		} else if ok {
			out = append(out, p.shown(ctx, b))
		}
	}
	slices.SortFunc(out, func(a, b Batch) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.BatchID, a.BatchID)
	})
	return out, nil
}

func sha(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
