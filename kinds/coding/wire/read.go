package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"sort"
	"strconv"
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
			if r.Stage != last || r.Half() {
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

var queueStages = map[string]string{"pre_screening": "pre_screening", "screener_1": "screening_1", "screener_2": "screening_2", "validator": "evaluating"}

// queue is GET /retrieval/queue.
func (b *Backend) queue(w http.ResponseWriter, r *http.Request) {
	stage, ok := query(w, r, "stage")
	if !ok {
		return
	}
	status, ok := queueStages[stage]
	if !ok {
		invalid(w, "enum", "Input should be 'pre_screening', 'screener_1', 'screener_2' or 'validator'", "query", "stage")
		return
	}
	b.list(w, r, "queue "+stage, func(rows []*agentRow, _ []setDoc) (any, error) {
		var out []*agentRow
		for _, x := range rows {
			if x.status == status && !x.out {
				out = append(out, x)
			}
		}
		return publics(out), nil
	})
}

// ofSet are the rows of a set.
func ofSet(rows []*agentRow, id int) []*agentRow {
	var out []*agentRow
	for _, r := range rows {
		if r.set == id {
			out = append(out, r)
		}
	}
	return out
}

// topAgents is GET /retrieval/top-agents.
func (b *Backend) topAgents(w http.ResponseWriter, r *http.Request) {
	b.list(w, r, "top", func(rows []*agentRow, sets []setDoc) (any, error) {
		top := ranked(ofSet(rows, sets[len(sets)-1].ID))
		return publics(top[:min(len(top), topCount)]), nil
	})
}

// agentByID is GET /retrieval/agent-by-id.
func (b *Backend) agentByID(w http.ResponseWriter, r *http.Request) {
	id, ok := queryID(w, r, "agent_id")
	if !ok {
		return
	}
	p, err := b.public(r.Context(), b.submissionOf(id))
	if err != nil {
		b.missing(w, "agent", err, "Agent with ID %s not found", id)
		return
	}
	reply(w, http.StatusOK, p)
}

// missing answers 404 with a text where the platform knows no such thing.
func (b *Backend) missing(w http.ResponseWriter, what string, err error, format string, args ...any) {
	var e *agon.Error
	if errors.As(err, &e) && e.Status == http.StatusNotFound {
		err = no(http.StatusNotFound, format, args...)
	}
	b.fail(w, what, err)
}

// agentByHotkey is GET /retrieval/agent-by-hotkey.
func (b *Backend) agentByHotkey(w http.ResponseWriter, r *http.Request) {
	hotkey, ok := query(w, r, "miner_hotkey")
	if !ok {
		return
	}
	rows, err := b.rowsOfMiner(r.Context(), hotkey)
	switch {
	case err != nil:
		b.fail(w, "agent", err)
	case len(rows) == 0:
		refuse(w, http.StatusNotFound, "Agent with miner hotkey %s not found", clip(hotkey, 80))
	default:
		reply(w, http.StatusOK, rows[len(rows)-1].public)
	}
}

// agentsByHotkey is GET /retrieval/all-agents-by-hotkey.
func (b *Backend) agentsByHotkey(w http.ResponseWriter, r *http.Request) {
	hotkey, ok := query(w, r, "miner_hotkey")
	if !ok {
		return
	}
	rows, err := b.rowsOfMiner(r.Context(), hotkey)
	if err != nil {
		b.fail(w, "agents", err)
		return
	}
	slices.Reverse(rows)
	reply(w, http.StatusOK, publics(rows))
}

// agentsByColdkey is GET /retrieval/agents-by-coldkey.
func (b *Backend) agentsByColdkey(w http.ResponseWriter, r *http.Request) {
	coldkey, ok := query(w, r, "miner_coldkey")
	if !ok {
		return
	}
	b.list(w, r, "coldkey "+clip(coldkey, 80), func(rows []*agentRow, _ []setDoc) (any, error) {
		out := map[string][]any{}
		for _, x := range slices.Backward(rows) {
			if x.sub.Coldkey == coldkey {
				out[x.sub.Miner] = append(out[x.sub.Miner], x.public)
			}
		}
		return out, nil
	})
}

// agentCode is GET /retrieval/agent-code.
func (b *Backend) agentCode(w http.ResponseWriter, r *http.Request) {
	id, ok := queryID(w, r, "agent_id")
	if !ok {
		return
	}
	sub := b.submissionOf(id)
	x, err := b.row(r.Context(), sub)
	if err != nil {
		b.missing(w, "code", err, "Agent with ID %s not found", id)
		return
	}
	if x.status != "finished" && x.status != "cancelled" {
		refuse(w, http.StatusForbidden, "Agent %s is still being screened or evaluated, or was refused", id)
		return
	}
	if x.score != nil {
		rows, _, err := b.read(r.Context())
		if err != nil {
			b.fail(w, "code", err)
			return
		}
		list := []ridges.Coded{{Score: x.score, Out: x.out}}
		for _, y := range ofSet(rows, x.set) {
			if y.sub.ID != sub && y.score != nil {
				list = append(list, ridges.Coded{Score: y.score, Out: y.out})
			}
		}
		if _, hidden := ridges.HiddenCode(list); hidden[0] {
			refuse(w, http.StatusForbidden, "Agent code is hidden for top agents")
			return
		}
	}
	// The table of rights has the last word: an arena may keep work private for longer.
	files, err := b.cfg.Platform.SubmissionFiles(r.Context(), public, sub)
	if err != nil {
		var e *agon.Error
		if errors.As(err, &e) && e.Status == http.StatusForbidden {
			refuse(w, http.StatusForbidden, "Agent code is not public yet")
			return
		}
		b.missing(w, "code", err, "Agent with ID %s not found", id)
		return
	}
	for _, f := range files {
		if f.Path == agentFile {
			reply(w, http.StatusOK, string(f.Content))
			return
		}
	}
	refuse(w, http.StatusNotFound, "Agent with ID %s has no %s", id, agentFile)
}

// topScores is GET /retrieval/top-scores-over-time: the best score by hour.
func (b *Backend) topScores(w http.ResponseWriter, r *http.Request) {
	b.list(w, r, "scores over time", func(rows []*agentRow, sets []setDoc) (any, error) {
		type point struct {
			Hour string  `json:"hour"`
			Top  float64 `json:"top_score"`
		}
		best := map[time.Time]float64{}
		for _, x := range ofSet(rows, sets[len(sets)-1].ID) {
			if x.score != nil && x.sub.Decision != nil {
				h := x.sub.Decision.At.UTC().Truncate(time.Hour)
				best[h] = max(best[h], *x.score)
			}
		}
		var hours []time.Time
		for h := range best {
			hours = append(hours, h)
		}
		slices.SortFunc(hours, time.Time.Compare)
		out, top := []point{}, 0.0
		for _, h := range hours {
			top = max(top, best[h])
			out = append(out, point{*stamp(h), top})
		}
		return out, nil
	})
}

// perfectlySolved is GET /retrieval/perfectly-solved-over-time.
func (b *Backend) perfectlySolved(w http.ResponseWriter, r *http.Request) {
	stats, err := b.problems(r.Context())
	if err != nil {
		b.fail(w, "problems", err)
		return
	}
	b.list(w, r, "solved over time", func(_ []*agentRow, sets []setDoc) (any, error) {
		total, family := 0, map[string]int{}
		for _, p := range stats {
			if p.runs > 0 && float64(p.solved) >= 0.9*float64(p.runs) {
				total++
				family[p.family]++
			}
		}
		times := []any{}
		for _, s := range sets {
			times = append(times, map[string]any{"set_id": s.ID, "created_at": stamp(s.Created)})
		}
		return map[string]any{
			"perfectly_solved_over_times": []any{map[string]any{"hour": stamp(b.cfg.Now().Truncate(time.Hour)), "total_solved": total, "by_family": family}},
			"problem_set_creation_times":  times,
		}, nil
	})
}

// leader is the approved agent that stands best.
func leader(rows []*agentRow) *agentRow {
	for _, r := range ranked(rows) {
		if r.taken != nil {
			return r
		}
	}
	return nil
}

// network is GET /retrieval/network-statistics.
func (b *Backend) network(w http.ResponseWriter, r *http.Request) {
	rows, sets, err := b.read(r.Context())
	if err != nil {
		b.fail(w, "network", err)
		return
	}
	out := map[string]any{"top_score": nil, "top_cost": nil, "perf_threshold": ridges.ScoreThreshold, "cost_threshold": ridges.CostThreshold, "last_approval": nil, "time_multiplier": 1.0}
	if l := leader(ofSet(rows, sets[len(sets)-1].ID)); l != nil {
		out["top_score"], out["top_cost"], out["last_approval"] = l.score, l.cost, stamp(l.taken.At)
		out["time_multiplier"] = ridges.TimeMultiplier(b.cfg.Now().Sub(l.taken.At).Hours())
	}
	reply(w, http.StatusOK, out)
}

// weights is GET /scoring/weights.
func (b *Backend) weights(w http.ResponseWriter, r *http.Request) {
	a, err := b.arena(r.Context())
	if err != nil {
		b.fail(w, "weights", err)
		return
	}
	out, sum := map[string]float64{}, 0.0
	for _, p := range a.Seats {
		m, ok, err := b.cfg.Verifier.Members.Member(r.Context(), p.Miner)
		if err != nil { // never a burn because a ledger was away
			b.fail(w, "weights", no(http.StatusServiceUnavailable, "The ledger does not answer"))
			return
		}
		if err := b.notBanned(m.Coldkey); !ok || err != nil || p.Share <= 0 {
			continue
		}
		out[p.Miner] += p.Share
		sum += p.Share
	}
	for k := range out {
		out[k] /= sum
	}
	if sum == 0 && b.cfg.Owner != "" {
		out[b.cfg.Owner] = 1
	}
	reply(w, http.StatusOK, out)
}

// screenerInfo is GET /scoring/screener-info.
func (b *Backend) screenerInfo(w http.ResponseWriter, r *http.Request) {
	rows, sets, err := b.read(r.Context())
	if err != nil {
		b.fail(w, "screeners", err)
		return
	}
	a, err := b.arena(r.Context())
	if err != nil {
		b.fail(w, "screeners", err)
		return
	}
	top, sum, n := 0.0, 0.0, 0.0
	for _, x := range ofSet(rows, sets[len(sets)-1].ID) {
		if x.score != nil {
			top, sum, n = max(top, *x.score), sum+*x.score, n+1
		}
	}
	out := map[string]any{
		"screener_1_threshold": 0.0, "screener_2_threshold": 0.0, "prune_threshold": 0.0, "incentive_performance_threshold": ridges.ScoreThreshold, "incentive_cost_threshold": ridges.CostThreshold,
		"screener_1_average_score": nil, "screener_2_average_score": nil, "validator_average_score": nil,
		"screener_1_average_wait_time": nil, "screener_2_average_wait_time": nil, "validator_average_wait_time": nil,
	}
	for _, s := range a.Stages {
		if _, ok := out[s.Name+"_threshold"]; ok {
			out[s.Name+"_threshold"] = s.Bar(top)
		}
	}
	if n > 0 {
		out["validator_average_score"] = sum / n
	}
	reply(w, http.StatusOK, out)
}

// latestSet is GET /scoring/latest-set-info.
func (b *Backend) latestSet(w http.ResponseWriter, r *http.Request) {
	s, err := b.latest(r.Context())
	if err != nil {
		b.fail(w, "set", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"latest_set_id": s.ID, "latest_set_created_at": stamp(s.Created)})
}

func (b *Backend) sets(w http.ResponseWriter, r *http.Request) {
	list, err := b.allSets(r.Context())
	if err != nil {
		b.fail(w, "sets", err)
		return
	}
	out := []any{}
	for _, s := range slices.Backward(list) {
		out = append(out, map[string]any{"id": s.ID, "created_at": stamp(s.Created), "competition_name": nil, "competition_start_date": nil, "competition_end_date": nil})
	}
	reply(w, http.StatusOK, out)
}

// setProblems is GET /evaluation-sets/all-latest-set-problems.
func (b *Backend) setProblems(w http.ResponseWriter, r *http.Request) {
	s, err := b.latest(r.Context())
	if err != nil {
		b.fail(w, "problems", err)
		return
	}
	a, err := b.arena(r.Context())
	if err != nil {
		b.fail(w, "problems", err)
		return
	}
	out := []any{}
	row := func(group, key string) {
		family, _, _ := strings.Cut(key, "/")
		out = append(out, map[string]any{
			"set_id": s.ID, "set_group": group, "problem_name": strings.ReplaceAll(key, "/", "__"), "benchmark_family": family, "problem_suite_name": family, "execution_spec": nil, "created_at": stamp(s.Created),
		})
	}
	for _, st := range a.Stages {
		for _, t := range st.Tasks {
			row(st.Name, t)
		}
	}
	if len(a.Stages) == 0 {
		for _, t := range a.Tasks {
			row("validator", t.Key)
		}
	}
	reply(w, http.StatusOK, out)
}

// setOf reads the set of a path; -1 is the latest. ok is false when it has answered.
func (b *Backend) setOf(w http.ResponseWriter, r *http.Request) (id int, ok bool) {
	list, err := b.allSets(r.Context())
	if err != nil {
		b.fail(w, "set", err)
		return 0, false
	}
	n, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		invalid(w, "int_parsing", "Input should be a valid integer, unable to parse string as an integer", "path", "set_id")
		return 0, false
	}
	if n == -1 {
		n = list[len(list)-1].ID
	}
	if !slices.ContainsFunc(list, func(s setDoc) bool { return s.ID == n }) {
		refuse(w, http.StatusNotFound, "Evaluation set %d not found", n)
		return 0, false
	}
	return n, true
}

func (b *Backend) leaderboard(w http.ResponseWriter, r *http.Request) {
	id, ok := b.setOf(w, r)
	if !ok {
		return
	}
	b.list(w, r, "leaderboard "+strconv.Itoa(id), func(rows []*agentRow, _ []setDoc) (any, error) { return publics(ranked(ofSet(rows, id))), nil })
}

func (b *Backend) approved(w http.ResponseWriter, r *http.Request) {
	id, ok := b.setOf(w, r)
	if !ok {
		return
	}
	b.list(w, r, "approved "+strconv.Itoa(id), func(rows []*agentRow, _ []setDoc) (any, error) {
		return publics(slices.DeleteFunc(ranked(ofSet(rows, id)), func(x *agentRow) bool { return x.taken == nil })), nil
	})
}

func round(v float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(v*p) / p
}

// set is GET /evaluation-sets/{id}.
func (b *Backend) set(w http.ResponseWriter, r *http.Request) {
	id, ok := b.setOf(w, r)
	if !ok {
		return
	}
	b.list(w, r, "set "+strconv.Itoa(id), func(all []*agentRow, _ []setDoc) (any, error) {
		rows := ofSet(all, id)
		miners := map[string]bool{}
		count := map[string]int{"total": len(rows)}
		for _, x := range rows {
			miners[x.sub.Miner] = true
			order := map[string]int{"failed_pre_screening": 0, "screening_1": 1, "failed_screening_1": 1, "screening_2": 2, "failed_screening_2": 2, "evaluating": 3, "cancelled": 3, "finished": 4}[x.status]
			for i, st := range []string{"pre_screening", "screener_1", "screener_2", "validator"} {
				if order > i {
					count[st]++
				}
			}
			if x.taken != nil {
				count["approved_emission"]++
			}
		}
		rate := func(n int) float64 {
			if len(rows) == 0 {
				return 0
			}
			return round(float64(n)/float64(len(rows)), 4)
		}
		pipeline := []any{}
		for _, st := range []string{"total", "pre_screening", "screener_1", "screener_2", "validator", "approved_emission"} {
			pipeline = append(pipeline, map[string]any{"stage": st, "count": count[st], "pass_rate": rate(count[st])})
		}
		best, top := ranked(rows), map[string]any(nil)
		scores := map[string]any{"best": nil, "average": nil}
		thresholds := []any{}
		sum, cost, seconds, timed := 0.0, 0.0, 0.0, 0.0
		above := map[int]int{}
		var cheapest, fastest *agentRow
		for _, x := range best {
			sum, cost = sum+*x.score, cost+*x.cost
			for _, t := range []int{50, 75, 90} {
				if *x.score*100 >= float64(t) {
					above[t]++
				}
			}
			if s, ok := x.public["average_runtime_seconds"].(*float64); ok && s != nil {
				seconds, timed = seconds+*s, timed+1
				if fastest == nil || *s < *fastest.public["average_runtime_seconds"].(*float64) { //nolint:forcetypeassert // looked at above
					fastest = x
				}
			}
			if cheapest == nil || *x.cost < *cheapest.cost {
				cheapest = x
			}
		}
		for _, t := range []int{50, 75, 90} {
			thresholds = append(thresholds, map[string]any{"threshold": t, "agents_above": above[t]})
		}
		efficiency := map[string]any{"lowest_average_cost_usd_top_agents": nil, "lowest_average_runtime_seconds_top_agents": nil, "average_agent_cost_usd": nil, "average_agent_runtime_seconds": nil}
		if n := float64(len(best)); n > 0 {
			scores["best"], scores["average"] = *best[0].score, sum/n
			efficiency["average_agent_cost_usd"] = round(cost/n, 4)
			efficiency["lowest_average_cost_usd_top_agents"] = map[string]any{"agent_id": cheapest.public["agent_id"], "value": round(*cheapest.cost, 4)}
			top = map[string]any{"agent_id": best[0].public["agent_id"], "name": best[0].sub.Name, "version_num": best[0].version, "final_score": round(*best[0].score, 4), "emission": best[0].public["emission"]}
		}
		if timed > 0 {
			efficiency["average_agent_runtime_seconds"] = round(seconds/timed, 4)
			efficiency["lowest_average_runtime_seconds_top_agents"] = map[string]any{"agent_id": fastest.public["agent_id"], "value": round(*fastest.public["average_runtime_seconds"].(*float64), 4)} //nolint:forcetypeassert // looked at above
		}
		scores["benchmark_thresholds"] = thresholds
		var before any
		if prev := ranked(ofSet(all, id-1)); len(prev) > 0 && len(best) > 0 {
			n := 0
			for _, x := range best {
				if *x.score > *prev[0].score {
					n++
				}
			}
			before = map[string]any{"top_score_delta": withSign(*best[0].score - *prev[0].score), "agents_beating_previous_best": n}
		}
		failed := 0
		for _, x := range rows {
			if x.status == "failed_pre_screening" {
				failed++
			}
		}
		return map[string]any{
			"id": id, "competition_name": nil, "competition_start_date": nil, "competition_end_date": nil,
			"submissions": map[string]any{"total_agents": len(rows), "unique_miners": len(miners), "hardcoded_rejection_rate": rate(failed), "approved_emission_count": count["approved_emission"], "pipeline": pipeline},
			"scores":      scores, "vs_previous_set": before, "top_agent": top, "efficiency": efficiency,
		}, nil
	})
}

func withSign(v float64) string {
	s := strconv.FormatFloat(round(v, 2), 'f', 2, 64)
	if v >= 0 {
		s = "+" + s
	}
	return s
}

// setOverview is GET /evaluation-sets/{id}/overview.
func (b *Backend) setOverview(w http.ResponseWriter, r *http.Request) {
	id, ok := b.setOf(w, r)
	if !ok {
		return
	}
	b.list(w, r, "overview "+strconv.Itoa(id), func(all []*agentRow, _ []setDoc) (any, error) {
		rows := ofSet(all, id)
		buckets := func(in []float64) []any {
			var n [10]int
			for _, v := range in {
				n[min(max(int(v*10), 0), 9)]++
			}
			out := []any{}
			for i, c := range n {
				out = append(out, map[string]any{"min_score": round(float64(i)/10, 4), "max_score": round(float64(i+1)/10, 4), "agents": c})
			}
			return out
		}
		var scores []float64
		pre := map[string]int{"approved": 0, "rejected": 0, "unresolved": 0}
		for _, x := range rows {
			switch x.status {
			case "failed_pre_screening":
				pre["rejected"]++
			case "pre_screening", "pre_screening_needs_review":
				pre["unresolved"]++
			default:
				pre["approved"]++
			}
			if x.score != nil {
				scores = append(scores, *x.score)
			}
		}
		by := slices.DeleteFunc(slices.Clone(rows), func(x *agentRow) bool { return x.score == nil || x.sub.Decision == nil })
		sort.SliceStable(by, func(i, j int) bool { return by[i].sub.Decision.At.Before(by[j].sub.Decision.At) })
		gains, top := []any{}, -1.0
		for _, x := range by {
			if *x.score > top {
				top = *x.score
				gains = append(gains, map[string]any{"date": stamp(x.sub.Decision.At), "score": round(top, 4), "cost": x.cost, "agent_id": x.public["agent_id"]})
			}
		}
		return map[string]any{
			"set_id":                   id,
			"performance_distribution": map[string]any{"pre_screening": pre, "screener_1": buckets(nil), "screener_2": buckets(nil), "validator": buckets(scores)},
			"performance_improvement":  gains,
		}, nil
	})
}

// pendingWork is GET /scaling/pending-work.
func (b *Backend) pendingWork(w http.ResponseWriter, r *http.Request) {
	rows, _, err := b.read(r.Context())
	if err != nil {
		b.fail(w, "pending work", err)
		return
	}
	out := map[string]int{}
	for _, n := range []string{"1", "2"} {
		for _, f := range []string{"pending", "connected", "busy", "idle"} {
			out["screener_"+n+"_"+f] = 0
		}
	}
	for _, x := range rows {
		if n, ok := strings.CutPrefix(x.status, "screening_"); ok && !x.out {
			out["screener_"+n+"_pending"]++
		}
	}
	b.mu.Lock()
	for _, s := range b.sessions {
		if s.Screener == "" {
			continue
		}
		out["screener_"+s.Screener+"_connected"]++
		if s.Evaluation != "" {
			out["screener_"+s.Screener+"_busy"]++
		} else {
			out["screener_"+s.Screener+"_idle"]++
		}
	}
	b.mu.Unlock()
	reply(w, http.StatusOK, out)
}
