package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
)

// Run is a run with what the queue needs to know of it.
type Run struct {
	agon.Run
	N            int64 // order of creation
	SubSeq       int64 // Seq of its submission: the queue's order
	PolicyDigest agon.Digest
	MaxHold      time.Duration // the longest one attempt may hold it, heartbeats or not
	Retries      int           // faults of ours that counted against it
	// Group, where it is not empty, keeps a validator from taking two runs of it
	// within a submission.
	Group string
}

// StageGroup is the group of a stage's runs of one task: they go to different validators.
func StageGroup(stage, task string) string { return "stage " + stage + " " + task }

// StageOf is the stage whose group it is, also where a canary plays it again; "" for other groups.
func StageOf(group string) string {
	if id := CanaryOf(group); id != "" {
		group = strings.TrimPrefix(group, CanaryGroup(id)+" ")
	}
	rest, ok := strings.CutPrefix(group, "stage ")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, " ")
	return name
}

// held and live are written as the partial indexes are, or these are not used.
// Not with IN: SQLite would fill a table with its list for each index of each row that changes.
const (
	held = `(state = 'leased' OR state = 'playing' OR state = 'judging')`
	live = `(state = 'queued' OR state = 'leased' OR state = 'playing' OR state = 'judging')`
)

const runColumns = `r.n, r.id, r.arena, r.submission, r.sub_seq, r.tasks, r.replica, r.seed, r.policy, r.max_hold_us,
	r.state, r.attempts, r.retries, r.fault, r.reason, r.deadline, r.created_at, r.ended_at, r.grp, r.rival, r.title, r.again, p.body`

const runFrom = ` FROM runs r JOIN policies p ON p.digest = r.policy `

// runRow is a row of runColumns on its way to a Run.
type runRow struct {
	Run
	tasks, policy, rival, title    string
	hold, deadline, created, ended int64
	again                          int64 // as waitUntil writes it
}

// into is where the columns go.
func (x *runRow) into() []any {
	return []any{
		&x.N, &x.RunSpec.Run, &x.Arena, &x.Submission, &x.SubSeq, &x.tasks, &x.Replica, &x.Seed, &x.PolicyDigest,
		&x.hold, &x.State, &x.Attempts, &x.Retries, &x.Fault, &x.Reason, &x.deadline, &x.created, &x.ended, &x.Group, &x.rival, &x.title, &x.again, &x.policy,
	}
}

// runOf decodes a row.
func (t *Tx) runOf(x *runRow) (_ Run, err error) {
	x.MaxHold = time.Duration(x.hold) * time.Microsecond
	x.Deadline, x.CreatedAt, x.EndedAt = fromMicros(x.deadline), fromMicros(x.created), fromMicros(x.ended)
	if x.State == agon.RunQueued && x.again > lostOnce {
		x.RetryAt = fromMicros(x.again)
	}
	x.Stage, x.Aside = StageOf(x.Group), aside(x.Group)
	if err := json.Unmarshal([]byte(x.tasks), &x.Tasks); err != nil {
		return x.Run, fmt.Errorf("decode tasks of run: %w", err)
	}
	if x.Policy, err = t.s.policies.decode(x.policy); err != nil {
		return x.Run, fmt.Errorf("decode policy of run: %w", err)
	}
	if x.rival != "" {
		if err := json.Unmarshal([]byte(x.rival), &x.Rival); err != nil {
			return x.Run, fmt.Errorf("decode rival of run: %w", err)
		}
	}
	if x.title != "" {
		if err := json.Unmarshal([]byte(x.title), &x.Title); err != nil {
			return x.Run, fmt.Errorf("decode title of run: %w", err)
		}
	}
	return x.Run, nil
}

func (t *Tx) scanRun(r scanner) (Run, error) {
	var x runRow
	if err := r.Scan(x.into()...); err != nil {
		return x.Run, err
	}
	return t.runOf(&x)
}

// InsertRun queues a run. Its policy must be stored.
func (t *Tx) InsertRun(x Run) error {
	tasks, err := json.Marshal(x.Tasks)
	if err != nil {
		return fmt.Errorf("encode tasks of run: %w", err)
	}
	rival := []byte(nil)
	if x.Rival != nil {
		if rival, err = json.Marshal(x.Rival); err != nil {
			return fmt.Errorf("encode rival of run: %w", err)
		}
	}
	title := []byte(nil)
	if x.Title != nil {
		if title, err = json.Marshal(x.Title); err != nil {
			return fmt.Errorf("encode title of run: %w", err)
		}
	}
	err = t.put(`INSERT INTO runs
		(id, arena, submission, sub_seq, tasks, replica, seed, policy, driver, max_hold_us, state, deadline, created_at, grp, rival, title)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 'queued', $11, $12, $13, $14, $15)`,
		x.RunSpec.Run, x.Arena, x.Submission, x.SubSeq, string(tasks), int64(x.Replica), x.Seed, string(x.PolicyDigest),
		x.Policy.Driver, x.MaxHold.Microseconds(), micros(x.Deadline), micros(x.CreatedAt), x.Group, string(rival), string(title))
	return err
}

// liveOf is live of the table's name in a query.
func liveOf(table string) string { return strings.ReplaceAll(live, "state", table+".state") }

// Run returns one run without its scores, or ErrNotFound.
func (t *Tx) Run(id string) (Run, error) {
	return one(t, t.scanRun, `SELECT `+runColumns+runFrom+`WHERE r.id = $1`, id)
}

// RunFilter selects runs; empty fields select all.
type RunFilter struct {
	Arena, Submission, State string
	Before                   int64 // N below this; 0: from the newest
	Limit                    int
}

// Runs returns runs without scores, newest first.
func (t *Tx) Runs(f RunFilter) ([]Run, error) {
	q, args := `SELECT `+runColumns+runFrom+`WHERE 1 = 1`, []any(nil)
	add := func(cond string, v any) {
		args = append(args, v)
		q += fmt.Sprintf(" AND %s $%d", cond, len(args))
	}
	if f.Arena != "" {
		add("r.arena =", f.Arena)
	}
	if f.Submission != "" {
		add("r.submission =", f.Submission)
	}
	if f.State != "" {
		add("r.state =", f.State)
	}
	if f.Before > 0 {
		add("r.n <", f.Before)
	}
	args = append(args, f.Limit)
	return many(t, t.scanRun, q+fmt.Sprintf(" ORDER BY r.n DESC LIMIT $%d", len(args)), args...)
}

// RunsOf returns the runs of a submission by creation, with the scores that count, without
// halves of pairs (Halves).
func (t *Tx) RunsOf(submission string) ([]Run, error) {
	if t.runsOf == nil || t.runsOf.submission != submission {
		runs, err := t.runsWhere(`r.submission = $1`+noHalf, submission)
		if err != nil {
			return nil, err
		}
		t.runsOf = &runsOf{submission: submission, runs: runs}
	}
	out := slices.Clone(t.runsOf.runs)
	for i := range out {
		out[i].Scores = slices.Clone(out[i].Scores)
	}
	return out, nil
}

// runsOf are the runs of the submission that a transaction asked for last: a
// decision asks for them again and again.
type runsOf struct {
	submission string
	runs       []Run
}

// changesRuns reports whether a statement may change what RunsOf returns.
func changesRuns(query string) bool {
	for _, table := range []string{"runs", "scores", "rulings", "policies"} {
		if strings.Contains(query, " "+table+" ") || strings.Contains(query, " "+table+"\n") {
			return true
		}
	}
	return false
}

// runsWhere returns the runs of a condition by creation, with the scores that count.
func (t *Tx) runsWhere(where string, args ...any) ([]Run, error) {
	runs, err := many(t, t.scanRun, `SELECT `+runColumns+runFrom+`WHERE `+where+` ORDER BY r.n`, args...)
	if err != nil {
		return nil, err
	}
	scores, err := many(t, scanScore, `SELECT `+scoreColumns+` FROM scores s JOIN runs r ON r.id = s.run
		WHERE `+where+` ORDER BY r.n, s.task`, args...)
	if err != nil {
		return nil, err
	}
	byRun := map[string][]agon.Score{}
	for _, s := range scores {
		byRun[s.Run] = append(byRun[s.Run], s)
	}
	if err := t.ruled(byRun, where, args...); err != nil {
		return nil, err
	}
	for i := range runs {
		runs[i].Scores = byRun[runs[i].RunSpec.Run]
	}
	return runs, nil
}

// AnyLive reports whether a run of a submission has not ended, but for faults that others play again.
func (t *Tx) AnyLive(submission string) (bool, error) {
	n, err := one(t, scanInt, `SELECT CASE WHEN EXISTS (SELECT 1 FROM runs r WHERE submission = $1
		AND `+live+noReplay+`) THEN 1 ELSE 0 END`, submission)
	return n > 0, err
}

// Waiting counts the queued and the held runs of an arena; a submission that
// waits for its block counts as one that is queued.
func (t *Tx) Waiting(arena string) (queued, holding int64, err error) {
	queued, err = one(t, scanInt, `SELECT count(*) FROM runs WHERE arena = $1 AND state = 'queued'`, arena)
	if err != nil {
		return 0, 0, err
	}
	// Their runs are not there yet.
	waiting, err := one(t, scanInt, `SELECT count(*) FROM submissions WHERE beacon_rule = 'block' AND beacon = '' AND arena = $1 AND state = 'queued'`, arena)
	if err != nil {
		return 0, 0, err
	}
	queued += waiting
	holding, err = one(t, scanInt, `SELECT count(*) FROM attempts WHERE arena = $1 AND `+held, arena)
	return queued, holding, err
}

// AnyQueued reports whether one of the arenas has a queued run. It is cheap,
// so that an idle long-poll costs no write.
func (t *Tx) AnyQueued(arenas []string) (bool, error) {
	for _, a := range arenas {
		n, err := one(t, scanInt, `SELECT CASE WHEN EXISTS
			(SELECT 1 FROM runs WHERE arena = $1 AND state = 'queued') THEN 1 ELSE 0 END`, a)
		if err != nil || n > 0 {
			return n > 0, err
		}
	}
	return false, nil
}

// Claimant is who asks for work.
type Claimant struct {
	Validator string
	Coldkey   string // its owner; empty: not known
	Driver    string
	SeenSince time.Time // others count as serving an arena if seen after this
	Now       time.Time // runs that may not be taken before a later time are left out
	// KeptFor is how long a run is left to the validator that keeps what it had come to.
	KeptFor   time.Duration
	NoDuels   bool  // leave out runs against a rival
	MaxLeases int64 // that it may hold in the arena: who holds so many is offered nothing; 0: no limit
	// Stages and Submission leave out runs of others; empty: all may be taken.
	Stages     []string
	Submission string
	// Peers begins the names of those who may take what this one may, where it is one
	// of the operator's own; their names have a colon, and hotkeys have none.
	Peers string
	// Without are digests, 64 hex digits, of images that c does not have: tasks that
	// name one are left out.
	Without []string
	// GPUs are those of its machine: runs of tasks that need others are left out.
	GPUs []agon.GPU
}

// stageName is what names of stages and peers are made of: they are written into statements.
var stageName = lazyregexp.New(`^[a-z0-9:_-]{0,40}$`)

// among narrows the queue to what c asks for, and peers are who else may take it.
func (c Claimant) among() (queue, peers string, err error) {
	peers = ` AND s.validator NOT LIKE '%:%'`
	if c.Peers != "" {
		peers = ` AND s.validator LIKE '` + c.Peers + `%'`
	}
	for _, s := range append(slices.Clone(c.Stages), c.Peers, c.Submission) {
		if !stageName().MatchString(s) {
			return "", "", fmt.Errorf("claim: %.60q is not the name of a stage, submission or peer", s)
		}
	}
	if len(c.Stages) > 0 {
		var any []string
		for _, s := range c.Stages {
			head := StageGroup(s, "")
			again := len(canaryGroup) + idLen + 2 // counted from 1, after "canary ID "
			any = append(any, fmt.Sprintf(`substr(r.grp, 1, %d) = '%s'`, len(head), head),
				fmt.Sprintf(`(substr(r.grp, 1, %d) = '%s' AND substr(r.grp, %d, %d) = '%s')`, len(canaryGroup), canaryGroup, again, len(head), head))
		}
		queue += ` AND (` + strings.Join(any, " OR ") + `)`
	}
	if c.Submission != "" {
		queue += ` AND r.submission = '` + c.Submission + `'`
	}
	without, err := c.without()
	return queue + without, peers, err
}

var imageDigest = lazyregexp.New(`^[0-9a-f]{64}$`)

// without leaves out the runs whose tasks name images that c does not have. The
// digest of a task is of other bytes, so that it is never taken for an image's.
func (c Claimant) without() (where string, err error) {
	for _, d := range c.Without {
		if !imageDigest().MatchString(d) {
			return "", fmt.Errorf("claim: %.80q is not the digest of an image", d)
		}
		where += ` AND r.tasks NOT LIKE '%` + d + `%'`
	}
	return where, nil
}

// Offer is a queued run with whose it is.
type Offer struct {
	Run
	Entered agon.Submission
	Held    int64 // leases that the claimant holds in the arena
}

const offerColumns = runColumns + `, s.seq, s.id, s.arena, s.miner, s.coldkey, s.netuid, s.name, s.digest, s.licence, s.state, s.scripted, s.created_at, ` + heldBy

// heldBy counts the leases of the validator $3 in the arena $1.
const heldBy = `(SELECT count(*) FROM attempts WHERE arena = $1 AND validator = $3 AND ` + held + `)`

const offerFrom = runFrom + `JOIN submissions s ON s.id = r.submission `

func (t *Tx) scanOffer(r scanner) (o Offer, err error) {
	var x runRow
	var scripted, created int64
	e := &o.Entered
	if err := r.Scan(append(x.into(), &e.Seq, &e.ID, &e.Arena, &e.Miner, &e.Coldkey, &e.Netuid, &e.Name, &e.Digest, &e.Licence,
		&e.State, &scripted, &created, &o.Held)...); err != nil {
		return o, err
	}
	e.Scripted, e.CreatedAt = scripted != 0, fromMicros(created)
	o.Run, err = t.runOf(&x)
	return o, err
}

// NextRun returns the queued run of an arena that c should take, or
// ErrNotFound: retried runs first, then by admission of the submission. A run
// that c has lost is left to a validator that has not had it, as long as one
// is seen in the arena; if all have had it, c still lets the others go first
// right after its own loss. Runs of a group go to different validators: one
// that holds, or has settled, a run of the group takes no other of it.
func (t *Tx) NextRun(arena string, c Claimant) (Offer, error) {
	queue, peers, err := c.among()
	if err != nil {
		return Offer{}, err
	}
	if len(c.GPUs) > 0 { // who has no card does not take what was lost
		peers += ` AND (s.gpus NOT IN ('', '[]', 'null') OR NOT ` + needsGPU + `)`
	}
	// What its last validator keeps for its return is that one's for a while, three times
	// at most: one that never returns a result does not hold a run for ever.
	const often = `(SELECT count(*) FROM attempts b WHERE b.run = r.id AND b.outcome = 'kept') > 3`
	const kept = `EXISTS (SELECT 1 FROM attempts a WHERE a.run = r.id AND a.n = r.attempts AND a.outcome = 'kept' AND a.ended_at > $7`
	mayTake := `(
		NOT EXISTS (SELECT 1 FROM attempts a WHERE a.run = r.id AND a.validator = $3)
		OR NOT EXISTS (SELECT 1 FROM seen s WHERE s.arena = r.arena AND s.validator <> $3 AND s.at > $5` + peers + ` AND (
			NOT EXISTS (SELECT 1 FROM attempts a WHERE a.run = r.id AND a.validator = s.validator)
			OR EXISTS (SELECT 1 FROM attempts a WHERE a.run = r.id AND a.n = r.attempts AND a.validator = $3))))`
	const apart = ` AND (r.grp = '' OR substr(r.grp, 1, 5) = 'pair ' OR substr(r.grp, 1, 7) = 'appeal ' OR NOT EXISTS (SELECT 1 FROM attempts a JOIN runs o ON o.id = a.run
		WHERE a.submission = r.submission AND a.validator = $3 AND o.grp = r.grp AND a.run <> r.id
		AND (a.counted = 1 OR a.state IN ('leased', 'playing', 'judging'))))`
	// A stream of pairs is one validator's while that is seen, and a validator has one of them.
	const stream = ` AND (substr(r.grp, 1, 5) <> 'pair ' OR (
		NOT EXISTS (SELECT 1 FROM pair_streams b WHERE b.grp = r.grp AND b.validator <> $3
			AND EXISTS (SELECT 1 FROM seen s WHERE s.arena = r.arena AND s.validator = b.validator AND s.at > $5))
		AND NOT EXISTS (SELECT 1 FROM pair_streams b WHERE b.challenger = substr(r.grp, 6, 36) AND b.validator = $3 AND b.grp <> r.grp)))`
	// What an appeal plays again goes to another validator than the one whose result counts.
	const other = ` AND (substr(r.grp, 1, 7) <> 'appeal ' OR NOT EXISTS (SELECT 1 FROM attempts a JOIN runs o ON o.id = a.run
		WHERE a.submission = r.submission AND a.validator = $3 AND a.counted = 1 AND o.grp <> r.grp AND o.tasks = r.tasks AND o.replica = r.replica))`
	// A fault of the agent is played again by strangers to who said so and to each other.
	replay := ` AND (substr(r.grp, 1, 6) <> 'again ' OR ` + replayer("$3", "$4") + `)`
	// Nobody plays what its own hotkey or coldkey entered, nor a duel with it.
	const foreign = ` AND s.miner <> $3 AND ($4 = '' OR s.coldkey <> $4) AND (r.rival = '' OR NOT EXISTS (SELECT 1 FROM submissions o
		WHERE o.arena = r.arena AND (o.miner = $3 OR ($4 <> '' AND o.coldkey = $4)) AND r.rival LIKE '%"' || o.id || '"%'))`
	without, more, err := t.withoutGPUs(`runs r WHERE r.arena = $1 AND r.state = 'queued'`, arena, c, 8)
	if err != nil {
		return Offer{}, err
	}
	plain := queue + without
	if c.NoDuels {
		plain += ` AND r.rival = ''`
	}
	// How many leases c holds is counted where a run is found, once.
	o, err := one(t, t.scanOffer, `SELECT `+offerColumns+offerFrom+`WHERE r.arena = $1 AND r.state = 'queued'
		AND (r.driver = '' OR r.driver = $2) AND (r.again = 0 OR r.again <= $6 AND (`+kept+` AND a.validator = $3) OR (NOT `+kept+`) OR `+often+`) AND `+mayTake+`))`+apart+stream+other+replay+foreign+plain+` ORDER BY r.again DESC, r.sub_seq, r.n LIMIT 1`,
		append([]any{arena, c.Driver, c.Validator, c.Coldkey, micros(c.SeenSince), max(lostOnce, micros(c.Now)), micros(c.Now.Add(-c.KeptFor))}, more...)...)
	if err == nil && c.MaxLeases > 0 && o.Held >= c.MaxLeases {
		return Offer{}, ErrNotFound
	}
	return o, err
}

// Overdue returns the ids of runs whose deadline has passed, oldest first.
func (t *Tx) Overdue(now time.Time, limit int) ([]string, error) {
	return many(t, scanString, `SELECT id FROM runs WHERE `+live+`
		AND deadline <= $1 ORDER BY deadline LIMIT $2`, micros(now), limit)
}

func scanString(r scanner) (s string, err error) { err = r.Scan(&s); return s, err }

// LeaseRun moves a queued run to leased: attempts grows by one. ErrNotFound if it is not queued.
func (t *Tx) LeaseRun(run string, deadline time.Time) error {
	return t.put1(`UPDATE runs SET state = 'leased', attempts = attempts + 1, deadline = $1 WHERE id = $2 AND state = 'queued'`,
		micros(deadline), run)
}

// MoveRun writes a run's state, deadline and last fault, guarded by the state
// it was read in: ErrNotFound if it has moved since.
func (t *Tx) MoveRun(run string, from agon.RunState, to Run) error {
	return t.put1(`UPDATE runs SET state = $1, deadline = $2, fault = $3, reason = $4, retries = $5, again = $6, ended_at = $7
		WHERE id = $8 AND state = $9`,
		string(to.State), micros(to.Deadline), string(to.Fault), plain.Storable(to.Reason), int64(to.Retries),
		againOf(to), micros(to.EndedAt), run, string(from))
}

// lostOnce stands in the column again of a queued run that was lost and may be taken
// at once. 0: it was never lost; more: when it may be taken, in microseconds.
const lostOnce = 1

func againOf(r Run) int64 {
	if r.State != agon.RunQueued || r.Attempts == 0 {
		return 0
	}
	if r.RetryAt.IsZero() {
		return lostOnce
	}
	return max(lostOnce, micros(r.RetryAt))
}

// Touch moves the deadline of a held run and its state.
func (t *Tx) Touch(run string, from, to agon.RunState, deadline time.Time) error {
	return t.put1(`UPDATE runs SET state = $1, deadline = $2 WHERE id = $3 AND state = $4`,
		string(to), micros(deadline), run, string(from))
}

// HeldRuns returns the runs of an arena that validators hold, by creation, without scores.
func (t *Tx) HeldRuns(arena string) ([]Run, error) {
	return many(t, t.scanRun, `SELECT `+runColumns+runFrom+`WHERE r.arena = $1 AND `+strings.ReplaceAll(held, "state", "r.state")+` ORDER BY r.n`, arena)
}

// DelayQueue sets the deadline of all that is queued in an arena, runs and judgings;
// halves of pairs get the deadline halves.
func (t *Tx) DelayQueue(arena string, deadline, halves time.Time) error {
	for _, q := range []struct {
		text string
		at   time.Time
	}{
		{`UPDATE runs SET deadline = $1 WHERE arena = $2 AND state = 'queued' AND rival = ''`, deadline},
		{`UPDATE runs SET deadline = $1 WHERE arena = $2 AND state = 'queued' AND rival <> ''`, halves},
		{`UPDATE judgings SET deadline = $1 WHERE arena = $2 AND state = 'queued'`, deadline},
	} {
		if _, err := t.exec(q.text, micros(q.at), arena); err != nil {
			return err
		}
	}
	return nil
}

const scoreColumns = `s.run, s.task, s.value, s.solved, s.metrics, s.scorer, s.detail`

func scanScore(r scanner) (s agon.Score, err error) {
	var solved int64
	var metrics string
	if err := r.Scan(&s.Run, &s.Task, &s.Value, &solved, &metrics, &s.Scorer, &s.Detail); err != nil {
		return s, err
	}
	s.Solved = solved != 0
	if err := json.Unmarshal([]byte(metrics), &s.Metrics); err != nil {
		return s, fmt.Errorf("decode metrics: %w", err)
	}
	return s, nil
}

// InsertScore stores the score of one task of a run under its key (design
// rule 6). ErrConflict if the run has a score for the task.
func (t *Tx) InsertScore(s agon.Score, attempt int, key agon.Digest) error {
	m, err := json.Marshal(s.Metrics)
	if err != nil {
		return fmt.Errorf("encode metrics: %w", err)
	}
	err = t.put(`INSERT INTO scores (run, task, attempt, score_key, value, solved, metrics, scorer, detail)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		s.Run, s.Task, int64(attempt), string(key), s.Value, bit(s.Solved), string(m), plain.Storable(s.Scorer), plain.Storable(s.Detail))
	return err
}

// Scores returns the scores of a run by task.
func (t *Tx) Scores(run string) ([]agon.Score, error) {
	return many(t, scanScore, `SELECT `+scoreColumns+` FROM scores s WHERE s.run = $1 ORDER BY s.task`, run)
}

// ScoreKeys returns the keys of a run's scores by task.
func (t *Tx) ScoreKeys(run string) (map[string]agon.Digest, error) {
	type kv struct {
		task string
		key  agon.Digest
	}
	list, err := many(t, func(r scanner) (x kv, err error) { err = r.Scan(&x.task, &x.key); return x, err },
		`SELECT task, score_key FROM scores WHERE run = $1`, run)
	out := make(map[string]agon.Digest, len(list))
	for _, x := range list {
		out[x.task] = x.key
	}
	return out, err
}

// AnyRetry reports whether a run that was lost before waits in any queue and may be taken now.
func (t *Tx) AnyRetry(now time.Time) (bool, error) {
	n, err := one(t, scanInt, `SELECT CASE WHEN EXISTS (SELECT 1 FROM arenas a WHERE EXISTS
		(SELECT 1 FROM runs r WHERE r.arena = a.id AND r.state = 'queued' AND r.again > 0 AND r.again <= $1)) THEN 1 ELSE 0 END`, max(lostOnce, micros(now)))
	return n > 0, err
}
