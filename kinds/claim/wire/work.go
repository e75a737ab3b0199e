package wire

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/internal/sealed"
)

// In the query era validators pull work: a task at a time, then the answers that are
// to be compared. The platform keeps the attempts, their order and their deadlines; a
// validator remembers nothing.

// Work makes a platform one of the query era. Queries and Tools are needed.
type Work struct {
	// Queries are the arena's tasks now.
	Queries func(ctx context.Context) ([]QueryTask, error)
	// Tools answers the calls of scripts, which come by way of their validators.
	Tools *tools.Host
	// Providers are the addresses of models by provider, without /v1; a call goes there
	// with the key that the script's miner has left here.
	Providers map[string]string
	// Search makes the search of a provider with a miner's key; nil: the host's for all.
	Search func(provider, key string) tools.Search
	// Ceiling is the champion's part of the emission at most; default 0.2.
	Ceiling float64
	// Hold is how long a validator without work is kept waiting for some; default 10 s.
	// Forget is how long an attempt is kept for a validator that no longer tells of it;
	// default 1 min.
	Hold, Forget time.Duration
	// Calls bounds the calls of an attempt, those that are refused included; default
	// 10,000. Held bounds the answers of a validator in a batch that wait to be
	// compared, in bytes; default 128 MiB.
	Calls, Held int
}

func (w *Work) defaults() {
	if w.Ceiling <= 0 {
		w.Ceiling = 0.2
	}
	if w.Hold <= 0 {
		w.Hold = 10 * time.Second
	}
	if w.Forget <= 0 {
		w.Forget = time.Minute
	}
	if w.Calls <= 0 {
		w.Calls = 10_000
	}
	if w.Held <= 0 {
		w.Held = 128 << 20
	}
}

// QueryTask is one task of a batch of the query era.
type QueryTask struct {
	TaskID    string          `json:"task_id"`
	Query     json.RawMessage `json:"query"` // {text, output_schema?}
	Reference QueryReference  `json:"reference_answer"`
	BudgetUSD float64         `json:"budget_usd"`
}

// QueryReference is the answer that a script's is compared with.
type QueryReference struct {
	Text      string       `json:"text"`
	Note      string       `json:"note,omitempty"`
	Citations []*CitedNote `json:"citations,omitempty"`
}

// CitedNote is a source of a reference.
type CitedNote struct {
	URL   string `json:"url"`
	Note  string `json:"note,omitempty"`
	Title string `json:"title,omitempty"`
}

func (t QueryTask) budget() agon.Micros { return agon.Micros(t.BudgetUSD*1e6 + 0.5) }

// QueryEntrypoint is what scripts of this era register.
const QueryEntrypoint = "query"

// States of a cell.
const (
	cellOpen     = ""
	cellAssigned = "assigned"
	cellExecuted = "executed" // the answer is here and is to be compared
	cellDone     = "done"
	cellRefused  = "refused" // the validator's fault: what it says of the batch does not count
)

// cell is a script on a task at one validator.
type cell struct {
	Validator string          `json:"validator"` // hotkey
	Artifact  string          `json:"artifact"`
	Task      string          `json:"task"`
	Attempt   int             `json:"attempt"` // the present one, from 1
	Most      int             `json:"most"`
	State     string          `json:"state"`
	Session   string          `json:"session,omitempty"`   // the validator's, of this attempt
	Execution json.RawMessage `json:"execution,omitempty"` // as it came
	Executed  string          `json:"executed,omitempty"`  // hash of it
	// Ended are hashes of what ended each attempt.
	Ended map[int]string `json:"ended,omitempty"`
	Spent agon.Micros    `json:"spent"` // at the proxy, in this attempt
	Grade *grade         `json:"grade,omitempty"`
	Code  string         `json:"code,omitempty"` // of a refused one

	at     time.Time // when it was last handed out, or told of
	scored time.Time // when it was last handed out for comparison
}

type cellKey struct{ validator, artifact, task string }

func (c *cell) key() cellKey { return cellKey{c.Validator, c.Artifact, c.Task} }

// board is the work of a running batch.
type board struct {
	batch Batch
	cells map[cellKey]*cell
	order []cellKey
	tasks map[string]QueryTask
	of    map[string]Candidate // by artifact
	ready bool                 // votes are in: work is handed out
}

// workbench is what the platform keeps of running batches. Its lock orders all
// changes of cells.
type workbench struct {
	mu     sync.Mutex
	boards map[string]*board // by batch; guarded by mu
	news   chan struct{}     // closed when there is new work; guarded by mu
	grants map[[32]byte]*grant
	of     map[attemptOf]*grant // guarded by mu, as grants are
	secret sealed.Key
	ended  chan struct{} // closed when Run ends
}

func (p *Platform) pulls() bool { return p.cfg.Work != nil }

func cellName(batch string, k cellKey) string {
	return "cell-" + batch + "-" + sha([]byte(k.validator + "\n" + k.artifact + "\n" + k.task))[:24]
}

// openBoard takes over a running batch; the caller holds the workbench's lock.
func (p *Platform) openBoard(b Batch, d *drive) (*board, error) {
	if x := p.work.boards[b.BatchID]; x != nil {
		return x, nil
	}
	x := &board{batch: b, cells: map[cellKey]*cell{}, tasks: map[string]QueryTask{}, of: map[string]Candidate{}, ready: d.Compared}
	for _, t := range b.Tasks {
		x.tasks[t.TaskID] = t
	}
	for _, v := range d.Deliveries {
		for _, c := range b.Candidates {
			x.of[c.ArtifactID] = c
			for _, t := range b.Tasks {
				k := cellKey{v.Hotkey, c.ArtifactID, t.TaskID}
				x.order = append(x.order, k)
				x.cells[k] = &cell{Validator: k.validator, Artifact: k.artifact, Task: k.task, Attempt: 1, Most: 1 + c.Retries}
			}
		}
	}
	if err := folder.Load(p.dir, "cell-"+b.BatchID+"-", func(_ string, c *cell) {
		if x.cells[c.key()] != nil {
			x.cells[c.key()] = c
		}
	}); err != nil {
		return nil, err
	}
	p.work.boards[b.BatchID] = x
	p.announce()
	return x, nil
}

// announce wakes those who wait for work; the caller holds the lock.
func (p *Platform) announce() {
	close(p.work.news)
	p.work.news = make(chan struct{})
}

func (p *Platform) keep(b *board, c *cell) error {
	return p.dir.Put(cellName(b.batch.BatchID, c.key()), c)
}

// assignment is the token of an attempt: nobody but us can make it, and we need not
// keep it.
func (p *Platform) assignment(batch string, c *cell) string {
	return p.seal("assignment", batch, c.Validator, c.Artifact, c.Task, fmt.Sprint(c.Attempt))
}

func (p *Platform) seal(words ...string) string {
	m := hmac.New(sha256.New, p.work.secret)
	_, _ = m.Write([]byte(strings.Join(words, "\n"))) // a hash does not fail
	return hex.EncodeToString(m.Sum(nil))
}

// identity is an attempt as validators name it.
type identity struct {
	BatchID    string  `json:"batch_id"`
	ArtifactID string  `json:"artifact_id"`
	TaskID     string  `json:"task_id"`
	Attempt    int     `json:"attempt_number"`
	Session    *string `json:"validator_session_id"`
}

// worker checks that a request is of a registered validator. ok is false when it has answered.
func (p *Platform) worker(w http.ResponseWriter, r *http.Request, limit int64, v any) (hotkey string, ok bool) {
	id, body, ok := p.validator(w, r, limit)
	if !ok {
		return "", false
	}
	if known, err := p.seen(id.Hotkey); err != nil {
		p.broken(w, "read registration", err)
		return "", false
	} else if !known {
		refuse(w, http.StatusForbidden, "validator_not_registered", "register with POST /v1/validators/register first")
		return "", false
	}
	p.hear(id.Hotkey, true)
	return id.Hotkey, decode(w, body, false, v)
}

const (
	maxSlots     = 256
	maxScoreable = 20
	maxWork      = 64 << 20
)

// workTasks is POST /v2/miner-task-work/tasks. A validator for which there is nothing
// waits for a while.
func (p *Platform) workTasks(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Target    int64      `json:"target_concurrency"`
		Artifacts int64      `json:"max_active_artifacts"`
		Active    []identity `json:"active_attempts"`
	}
	hotkey, ok := p.worker(w, r, 4<<20, &in)
	if !ok || !between(w, in.Target, 1, maxSlots, "target_concurrency") || !between(w, in.Artifacts, 1, maxSlots, "max_active_artifacts") {
		return
	}
	until := time.NewTimer(p.cfg.Work.Hold)
	defer until.Stop()
	for {
		p.work.mu.Lock()
		list, news := p.assign(hotkey, int(in.Target), int(in.Artifacts), in.Active), p.work.news
		p.work.mu.Unlock()
		over := len(list) > 0 || len(in.Active) > 0 // who has work asks again with what it has then
		if !over {
			select {
			case <-news:
				continue
			case <-until.C:
			case <-p.work.ended:
			case <-p.cfg.Draining:
			case <-r.Context().Done():
			}
		}
		if list == nil {
			list = []any{}
		}
		reply(w, http.StatusOK, map[string]any{"server_time": p.now(), "tasks": list})
		return
	}
}

func (p *Platform) now() string { return p.cfg.Now().UTC().Format(time.RFC3339Nano) }

// assign hands out attempts to a validator that has some under way; the caller holds
// the lock.
func (p *Platform) assign(hotkey string, target, most int, active []identity) []any {
	now := p.cfg.Now()
	has, artifacts := map[[3]string]bool{}, map[[2]string]bool{}
	for _, a := range active {
		has[[3]string{a.BatchID, a.ArtifactID, a.TaskID}] = true
		artifacts[[2]string{a.BatchID, a.ArtifactID}] = true
	}
	free := target - len(active)
	var out []any
	for _, id := range slices.Sorted(maps.Keys(p.work.boards)) {
		b := p.work.boards[id]
		if !b.ready || b.refused(hotkey) != "" {
			continue
		}
		for _, k := range b.order {
			c := b.cells[k]
			if k.validator != hotkey || c.State != cellOpen && c.State != cellAssigned {
				continue
			}
			if has[[3]string{id, k.artifact, k.task}] {
				c.State, c.at = cellAssigned, now // also where we were started anew
				continue
			}
			group := [2]string{id, k.artifact}
			switch {
			case c.State == cellAssigned && now.Sub(c.at) < p.cfg.Work.Forget:
				continue // it was just handed out
			case free <= 0, !artifacts[group] && len(artifacts) >= most:
				continue
			}
			p.close(id, c)
			artifacts[group] = true
			c.State, c.at, c.Session = cellAssigned, now, ""
			free--
			out = append(out, map[string]any{
				"batch_id": id, "artifact": b.of[k.artifact], "task": b.tasks[k.task], "attempt_number": c.Attempt, "max_attempts": c.Most, "assignment_token": p.assignment(id, c),
			})
		}
	}
	return out
}

// refused says why a validator's part of a batch does not count; "": it may.
func (b *board) refused(hotkey string) string {
	for k, c := range b.cells {
		if k.validator == hotkey && c.State == cellRefused {
			return c.Code
		}
	}
	return ""
}

// tally reads how far a validator is, and keeps its grades once it has all.
func (p *Platform) tally(b Batch, v *delivery) error {
	p.work.mu.Lock()
	defer p.work.mu.Unlock()
	x := p.work.boards[b.BatchID]
	if x == nil {
		return nil
	}
	var list []grade
	for _, k := range x.order {
		switch c := x.cells[k]; {
		case k.validator != v.Hotkey:
		case c.State == cellRefused:
			v.State, v.Error = deliveryRefused, c.Code
			return nil
		case c.State == cellDone && c.Grade != nil:
			list = append(list, *c.Grade)
		case c.State != cellOpen && v.State == deliveryWaiting:
			v.State = deliveryAccepted
		}
	}
	if len(list) > v.Completed {
		v.Completed, v.At = len(list), p.cfg.Now().UTC()
	}
	if len(list) < total(x.batch) {
		return nil
	}
	if err := p.dir.Put(gradesName(b.BatchID, v.Hotkey), list); err != nil {
		return err
	}
	v.State = deliveryGraded
	return nil
}

// closeBoard forgets a batch that is over.
func (p *Platform) closeBoard(b Batch) {
	p.work.mu.Lock()
	defer p.work.mu.Unlock()
	x := p.work.boards[b.BatchID]
	if x == nil {
		return
	}
	delete(p.work.boards, b.BatchID)
	for k, c := range x.cells {
		p.close(b.BatchID, c)
		_ = p.dir.Remove(cellName(b.BatchID, k)) // its grades are kept elsewhere; what stays is swept with the folder
	}
}
