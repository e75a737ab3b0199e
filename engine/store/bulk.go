package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
)

// Result is an attempt with what was played and what it left, as the log says it.
type Result struct {
	Attempt
	Of       agon.RunSpec // without its policy
	Policy   agon.Digest  // of the run
	Scores   []agon.Score // of the run
	Receipts []agon.Receipt
}

// resultsAtOnce bounds the attempts that one statement names.
const resultsAtOnce = 200

// Results returns the attempts named RUN/ATTEMPT, by that name; those that are
// not there are left out. It reads many in a few statements.
func (t *Tx) Results(ids []string) (map[string]*Result, error) {
	out := make(map[string]*Result, len(ids))
	if len(ids) > 0 {
		if err := t.byIndex(); err != nil {
			return nil, err
		}
	}
	for len(ids) > 0 {
		n := min(len(ids), resultsAtOnce)
		if err := t.results(ids[:n], out); err != nil {
			return nil, err
		}
		ids = ids[n:]
	}
	return out, nil
}

// eachIn calls do with the ids of runs, as many at once as a statement has placeholders:
// one text for all sizes stays prepared.
func eachIn(runs []Run, do func(ids []any) error) error {
	for part := range slices.Chunk(runs, resultsAtOnce) {
		ids := make([]any, resultsAtOnce)
		for i := range ids {
			ids[i] = part[min(i, len(part)-1)].RunSpec.Run
		}
		if err := do(ids); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tx) results(ids []string, out map[string]*Result) error {
	want := make(map[string]bool, len(ids))
	runs := make([]any, 0, resultsAtOnce)
	for _, id := range ids {
		run, _, _ := strings.Cut(id, "/")
		want[id] = true
		runs = append(runs, run)
	}
	for len(runs) < resultsAtOnce { // one text for all sizes: it stays prepared
		runs = append(runs, runs[0])
	}
	in := placeholders
	// The runs of one submission have the same tasks: their list is decoded once.
	var lastText string
	var last []agon.TaskRef
	attempts, err := many(t, func(r scanner) (*Result, error) {
		x := new(Result)
		var tasks, rival, title string
		var err error
		if x.Attempt, err = scanAttemptAnd(r, &tasks, &x.Of.Replica, &x.Of.Seed, &x.Policy, &rival, &title); err != nil {
			return nil, err
		}
		x.Of.Run, x.Of.Arena = x.Run, x.Arena
		if tasks != lastText {
			last = nil
			if err := json.Unmarshal([]byte(tasks), &last); err != nil {
				return nil, fmt.Errorf("decode tasks of run: %w", err)
			}
			lastText = tasks
		}
		x.Of.Tasks = slices.Clip(last)
		if title != "" {
			if err := json.Unmarshal([]byte(title), &x.Of.Title); err != nil {
				return nil, fmt.Errorf("decode title of run: %w", err)
			}
		}
		if rival != "" {
			if err := json.Unmarshal([]byte(rival), &x.Of.Rival); err != nil {
				return nil, fmt.Errorf("decode rival of run: %w", err)
			}
		}
		return x, nil
	}, `SELECT `+attemptColumns+`, r.tasks, r.replica, r.seed, r.policy, r.rival, r.title FROM attempts a JOIN runs r ON r.id = a.run
		WHERE a.run IN (`+in+`)`, runs...)
	if err != nil {
		return err
	}
	counted := map[string]*Result{}
	for _, x := range attempts {
		id := x.Run + "/" + strconv.Itoa(x.N)
		if !want[id] {
			continue
		}
		out[id] = x
		if x.Counted {
			counted[x.Run] = x
		}
	}
	scores, err := many(t, scanScore, `SELECT `+scoreColumns+` FROM scores s WHERE s.run IN (`+in+`) ORDER BY s.run, s.task`, runs...)
	if err != nil {
		return err
	}
	for _, s := range scores {
		if x := counted[s.Run]; x != nil {
			x.Scores = append(x.Scores, s)
		}
	}
	type receipt struct {
		id   string
		body agon.Receipt
	}
	receipts, err := many(t, func(r scanner) (x receipt, err error) {
		var run, body string
		var n int64
		if err := r.Scan(&run, &n, &body); err != nil {
			return x, err
		}
		x.id = fmt.Sprintf("%s/%d", run, n)
		x.body, err = decodeReceipt(body)
		return x, err
	}, `SELECT run, attempt, body FROM receipts WHERE run IN (`+in+`) ORDER BY run, attempt, id`, runs...)
	if err != nil {
		return err
	}
	for _, x := range receipts {
		if r := out[x.id]; r != nil && want[x.id] {
			r.Receipts = append(r.Receipts, x.body)
		}
	}
	archived, err := t.archivedOf(in, runs)
	for id := range want {
		r := out[id]
		if r == nil || err != nil || archived[r.Run] == nil {
			continue
		}
		r.Receipts, err = receiptsWith(archived[r.Run], r.N, r.Receipts)
	}
	return err
}

// placeholders are $1 to $200.
var placeholders = func() string {
	var b strings.Builder
	for i := range resultsAtOnce {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "$%d", i+1)
	}
	return b.String()
}()
