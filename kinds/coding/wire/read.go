package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds/coding/ridges"
)

const (
	pageSize = 200
	maxPages = 250 // of pageSize submissions: what a list is made of
	// firstSet is the number of an arena's first set: lower ones were never served.
	firstSet = 7
	topCount = 50
)

// setDoc is one set of an arena's tasks.
type setDoc struct {
	ID      int       `json:"id"`
	Tasks   string    `json:"tasks"` // digest of the list
	Created time.Time `json:"created_at"`
}

// allSets returns the sets of the arena, the oldest first; a new one begins when the tasks change.
func (b *Backend) allSets(ctx context.Context) ([]setDoc, error) {
	a, err := b.cfg.Platform.FullArena(ctx, b.cfg.Arena)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range a.Tasks {
		names = append(names, string(t.Digest))
	}
	slices.Sort(names)
	now := agon.Sum([]byte(strings.Join(names, "\n"))).Hex()
	b.books.setsMu.Lock()
	defer b.books.setsMu.Unlock()
	var list []setDoc
	if _, err := b.dir.Get("sets", &list); err != nil {
		return nil, err
	}
	if n := len(list); n > 0 && list[n-1].Tasks == now {
		return list, nil
	}
	next := setDoc{ID: firstSet + len(list), Tasks: now, Created: b.cfg.Now().UTC()}
	if len(list) == 0 {
		next.Created = a.CreatedAt
	}
	list = append(list, next)
	return list, b.dir.Put("sets", list)
}

func (b *Backend) latest(ctx context.Context) (setDoc, error) {
	list, err := b.allSets(ctx)
	if err != nil {
		return setDoc{}, err
	}
	return list[len(list)-1], nil
}

// setAt is the set in which a submission was entered.
func setAt(list []setDoc, at time.Time) int {
	id := list[0].ID
	for _, s := range list {
		if !at.Before(s.Created) {
			id = s.ID
		}
	}
	return id
}

// agentRow is an agent as the lists are made of it.
type agentRow struct {
	sub     client.Submission
	public  map[string]any
	status  string
	set     int
	version int
	score   *float64
	cost    *float64
	seat    float64 // share of the reward
	taken   *agon.Decision
	out     bool // banned
	review  string
}

// books are the lists that readers ask for. They are made anew when something
// has changed, at most as often as making them takes a tenth of the time; who asks
// meanwhile gets the last ones.
type books struct {
	setsMu sync.Mutex // of the document of sets

	mu      sync.Mutex
	rows    []*agentRow // by admission; guarded by mu
	sets    []setDoc    // guarded by mu
	at      time.Time   // guarded by mu
	took    time.Duration
	dirty   bool
	making  chan struct{}      // closed when the books are made; nil: nobody makes them
	encoded map[string][]byte  // answers by what was asked; guarded by mu
	facts   map[string]factRow // of decided submissions, which do not change; guarded by mu

	stats   map[string]*problem // guarded by mu
	statsAt time.Time           // guarded by mu
}

type factRow struct {
	validators []string
	seconds    *float64
}

func (k *books) stale() {
	k.mu.Lock()
	k.dirty = true
	k.mu.Unlock()
}

// freshFor is how long books are good where nobody says that they changed.
const freshFor = 2 * time.Second

// read returns the books.
func (b *Backend) read(ctx context.Context) ([]*agentRow, []setDoc, error) {
	k := &b.books
	for {
		k.mu.Lock()
		age := b.cfg.Now().Sub(k.at)
		good := k.rows != nil && (age < max(10*k.took, 0) || !k.dirty && age < freshFor)
		if good || k.rows != nil && k.making != nil {
			rows, sets := k.rows, k.sets
			k.mu.Unlock()
			return rows, sets, nil
		}
		if k.making == nil {
			done := make(chan struct{})
			k.making = done
			old := k.rows
			k.dirty = false
			k.mu.Unlock()
			if old == nil || k.took < 50*time.Millisecond {
				rows, sets, err := b.make(ctx)
				b.made(rows, sets, err)
				close(done)
				return rows, sets, err
			}
			go func() {
				defer close(done)
				b.made(b.make(context.WithoutCancel(ctx)))
			}()
			continue
		}
		wait := k.making
		k.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (b *Backend) made(rows []*agentRow, sets []setDoc, err error) {
	k := &b.books
	k.mu.Lock()
	defer k.mu.Unlock()
	k.making = nil
	if err != nil {
		b.cfg.Log.Error("make the lists", "err", err)
		k.dirty = true
		return
	}
	k.rows, k.sets, k.at, k.encoded = rows, sets, b.cfg.Now(), map[string][]byte{}
}

// make reads the arena's submissions.
func (b *Backend) make(ctx context.Context) ([]*agentRow, []setDoc, error) {
	began := time.Now() //nolint:forbidigo // how long it takes is real time
	sets, err := b.allSets(ctx)
	if err != nil {
		return nil, nil, err
	}
	a, err := b.arena(ctx)
	if err != nil {
		return nil, nil, err
	}
	var list []client.Submission
	cursor := ""
	for range maxPages {
		page, err := b.cfg.Platform.Submissions(ctx, operator, b.cfg.Arena, "", cursor, pageSize)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, page.Items...)
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	slices.Reverse(list)
	rows, err := b.rowsOf(ctx, a, sets, list)
	if err != nil {
		return nil, nil, err
	}
	b.books.mu.Lock()
	b.books.took = time.Since(began)
	b.books.mu.Unlock()
	return rows, sets, nil
}

// rowsOf makes the rows of submissions, the oldest first: all of the arena, or all of a miner.
func (b *Backend) rowsOf(ctx context.Context, a *client.Arena, sets []setDoc, list []client.Submission) ([]*agentRow, error) {
	versions := map[string]int{}
	byID := map[string]*agentRow{}
	var rows []*agentRow
	for _, s := range list {
		r := &agentRow{sub: s, version: versions[s.Miner], set: setAt(sets, s.CreatedAt)}
		versions[s.Miner]++
		var err error
		if r.status, err = b.statusOf(ctx, a, s); err != nil {
			return nil, err
		}
		if r.review, err = b.seatReview(ctx, a, s); err != nil {
			return nil, err
		}
		if s.State == agon.SubmissionScored && s.Score != nil {
			v, c := *s.Score, float64(s.CostMicros)/1e6
			r.score, r.cost = &v, &c
			if s.Decision != nil && s.Decision.Outcome == agon.TookSeat {
				r.taken = s.Decision
			}
		}
		for _, p := range a.Seats {
			if p.Submission == s.ID {
				r.seat = p.Share
			}
		}
		b.mu.Lock()
		_, r.out = b.flags.Coldkey[s.Coldkey]
		b.mu.Unlock()
		byID[s.ID] = r
		rows = append(rows, r)
	}
	ranks := map[int]int{}
	for _, r := range ranked(rows) {
		ranks[r.set]++
		if err := b.fill(ctx, r, ranks[r.set], byID); err != nil {
			return nil, err
		}
	}
	for _, r := range rows {
		if r.public == nil {
			if err := b.fill(ctx, r, 0, byID); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// ranked are the rows with a score: by score, then cost, then age.
func ranked(rows []*agentRow) []*agentRow {
	var out []*agentRow
	for _, r := range rows {
		if r.score != nil && !r.out {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(x, y *agentRow) int {
		return ridges.Standing{Score: *x.score, Cost: x.cost, Created: x.sub.CreatedAt.UnixMicro()}.Before(ridges.Standing{Score: *y.score, Cost: y.cost, Created: y.sub.CreatedAt.UnixMicro()})
	})
	return out
}

// fact tells who played what counts of a decided submission, and how long it took.
func (b *Backend) fact(ctx context.Context, id string) (factRow, error) {
	b.books.mu.Lock()
	f, ok := b.books.facts[id]
	b.books.mu.Unlock()
	if ok {
		return f, nil
	}
	a, err := b.arena(ctx)
	if err != nil {
		return f, err
	}
	last := ""
	if n := len(a.Stages); n > 0 {
		last = a.Stages[n-1].Name
	}
	var sum, n float64
	cursor := ""
	for range maxPages {
		page, err := b.cfg.Platform.Runs(ctx, operator, b.cfg.Arena, id, string(agon.RunScored), cursor, pageSize)
		if err != nil {
			return f, err
		}
		for _, r := range page.Items {
			if r.Stage != last || r.Aside {
				continue
			}
			full, err := b.cfg.Platform.Run(ctx, operator, r.RunSpec.Run)
			if err != nil {
				return f, err
			}
			for _, at := range full.List {
				if at.Counted {
					f.validators = append(f.validators, strings.TrimPrefix(at.Validator, "staff:"))
					sum, n = sum+float64(at.BoxMS)/1000, n+1
				}
			}
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	slices.Sort(f.validators)
	f.validators = slices.Compact(f.validators)
	if n > 0 {
		v := sum / n
		f.seconds = &v
	}
	b.books.mu.Lock()
	defer b.books.mu.Unlock()
	if b.books.facts == nil {
		b.books.facts = map[string]factRow{}
	}
	b.books.facts[id] = f
	return f, nil
}

// competitionFields are those of competition_state that also stand at the top.
var competitionFields = []string{
	"set_id", "approved", "approval_review_status", "rank", "final_score", "validator_count", "validator_hotkeys", "average_cost_usd", "average_runtime_seconds",
	"disqualified", "approved_at", "performance_delta", "cost_delta", "relative_improvement_units", "time_multiplier", "initial_reward_score", "baseline_agent_id",
	"baseline_agent_name", "baseline_agent_version_num",
}

// fill makes the public form of a row.
func (b *Backend) fill(ctx context.Context, r *agentRow, rank int, byID map[string]*agentRow) error {
	id := b.agentID(r.sub.ID)
	st := map[string]any{}
	for _, f := range competitionFields {
		st[f] = nil
	}
	st["set_id"], st["approved"], st["status"] = r.set, false, r.status
	if r.status == "finished" {
		switch st["status"], st["approval_review_status"] = "didnt_qualify", null(r.review); r.review {
		case "rejected":
			st["status"] = "rejected"
		case "pending", "processing", "under_review":
			st["status"] = "under_review"
		}
	}
	if r.score != nil {
		f, err := b.fact(ctx, r.sub.ID)
		if err != nil {
			return err
		}
		st["final_score"], st["average_cost_usd"], st["average_runtime_seconds"] = r.score, r.cost, f.seconds
		st["validator_count"], st["validator_hotkeys"], st["disqualified"] = len(f.validators), append([]string{}, f.validators...), r.out
		if rank > 0 {
			st["rank"] = rank
		}
	}
	if d := r.taken; d != nil {
		st["approved"], st["status"], st["approval_review_status"], st["approved_at"] = true, "approved", "approved", stamp(d.At)
		for to, from := range map[string]string{"performance_delta": "performance_delta", "cost_delta": "cost_delta", "relative_improvement_units": "units", "time_multiplier": "time_multiplier", "initial_reward_score": "reward"} {
			if v, ok := d.Numbers[from]; ok {
				st[to] = v
			}
		}
		if st["performance_delta"] == nil && st["cost_delta"] == nil && st["relative_improvement_units"] != nil {
			st["status"] = "baseline"
		}
		if l := byID[d.Incumbent]; l != nil {
			st["baseline_agent_id"], st["baseline_agent_name"], st["baseline_agent_version_num"] = b.agentID(l.sub.ID), l.sub.Name, l.version
		}
	}
	p := map[string]any{
		"agent_id": id, "id": id, "miner_hotkey": r.sub.Miner, "name": r.sub.Name, "version_num": r.version, "status": r.status, "created_at": stamp(r.sub.CreatedAt),
		"emission": nil, "reward_weight": nil, "competition_state": st,
	}
	if r.seat > 0 {
		p["emission"], p["reward_weight"] = r.seat, r.seat
	}
	for _, f := range competitionFields {
		p[f] = st[f]
	}
	r.public = p
	return nil
}

// public is the public form of one submission, as it is now.
func (b *Backend) public(ctx context.Context, id string) (map[string]any, error) {
	r, err := b.row(ctx, id)
	if err != nil {
		return nil, err
	}
	return r.public, nil
}

// row is one submission as it is now; its rank is that of the books.
func (b *Backend) row(ctx context.Context, id string) (*agentRow, error) {
	s, err := b.cfg.Platform.Submission(ctx, operator, id)
	if err != nil {
		return nil, err
	}
	if s.Arena != b.cfg.Arena {
		return nil, no(http.StatusNotFound, "Agent with ID %s not found", id)
	}
	rows, err := b.rowsOfMiner(ctx, s.Miner)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(rows, func(r *agentRow) bool { return r.sub.ID == id })
	if i < 0 {
		return nil, no(http.StatusNotFound, "Agent with ID %s not found", id)
	}
	return rows[i], nil
}

// rowsOfMiner are a miner's agents as they are now, the oldest first.
func (b *Backend) rowsOfMiner(ctx context.Context, hotkey string) ([]*agentRow, error) {
	list, err := b.of(ctx, hotkey)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	slices.Reverse(list)
	sets, err := b.allSets(ctx)
	if err != nil {
		return nil, err
	}
	a, err := b.arena(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := b.rowsOf(ctx, a, sets, list)
	if err != nil {
		return nil, err
	}
	b.books.mu.Lock()
	known := b.books.rows
	b.books.mu.Unlock()
	ranks := map[string]any{}
	for _, k := range known {
		ranks[k.sub.ID] = k.public["rank"]
	}
	for _, r := range rows {
		if rank, ok := ranks[r.sub.ID]; ok && r.score != nil {
			r.public["rank"] = rank
			r.public["competition_state"].(map[string]any)["rank"] = rank //nolint:forcetypeassert // fill makes it
		}
	}
	return rows, nil
}

func publics(rows []*agentRow) []any {
	out := []any{}
	for _, r := range rows {
		out = append(out, r.public)
	}
	return out
}

// list answers with a list of the books, whose bytes are kept while the books are.
func (b *Backend) list(w http.ResponseWriter, r *http.Request, key string, of func(rows []*agentRow, sets []setDoc) (any, error)) {
	rows, sets, err := b.read(r.Context())
	if err != nil {
		b.fail(w, key, err)
		return
	}
	k := &b.books
	k.mu.Lock()
	same := len(k.rows) == len(rows) && (len(rows) == 0 || k.rows[0] == rows[0])
	text, ok := k.encoded[key]
	k.mu.Unlock()
	if ok && same {
		raw(w, http.StatusOK, text)
		return
	}
	v, err := of(rows, sets)
	if err != nil {
		b.fail(w, key, err)
		return
	}
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		b.fail(w, key, err)
		return
	}
	text = bytes.TrimRight(buf.Bytes(), "\n")
	k.mu.Lock()
	if same && len(k.encoded) < 1000 {
		k.encoded[key] = text
	}
	k.mu.Unlock()
	raw(w, http.StatusOK, text)
}
