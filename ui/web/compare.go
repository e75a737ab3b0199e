package web

import (
	"cmp"
	"context"
	"fmt"
	"hash/maphash"
	"math"
	"net/http"
	"slices"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/internal/plain"
)

// Two runs of one task side by side, aligned by their calls; and two submissions,
// by the tasks that they solve.

// What a comparison of runs reads and shows at most.
const (
	readActs   = 400     // calls of each run
	shownRows  = 30      // rows of calls that differ
	alignBlock = 1 << 10 // bytes of a block of a step
)

// compared is one of two runs.
type compared struct {
	Run  *client.Run
	Sub  *client.Submission
	Row  runRow
	Cost agon.Micros
	Acts []Step // its calls, in order
	More bool   // it has more
}

// alignedRow is a stretch of equal calls, or one call of each, either of which
// may be missing.
type alignedRow struct {
	Same        []Step // of the first run; empty: the calls differ
	Left, Right *Step
	Parting     bool // the first that differs
}

// sideBySide shows two runs of one task, aligned by their calls.
func (s *server) sideBySide(q *request) error {
	var two [2]*compared
	for i, id := range []string{q.PathValue("id"), q.PathValue("other")} {
		r, err := s.cfg.Platform.Run(q.Context(), q.caller, id)
		if err != nil {
			return err
		}
		sub, err := s.cfg.Platform.Submission(q.Context(), q.caller, r.Submission)
		if err != nil {
			return err
		}
		two[i] = &compared{Run: r, Sub: sub, Row: rowOf(*r)}
		if err := s.acts(q.Context(), q, two[i]); err != nil {
			return err
		}
	}
	rows, more := align(two[0].Acts, two[1].Acts)
	data := struct {
		base
		Two     [2]*compared
		Summary string
		Rows    []alignedRow
		More    int // rows that are left out
	}{q.base(two[0].Sub.Name+" and "+two[1].Sub.Name, two[0].Run.Arena), two, partings(two[0], two[1]), rows, more}
	return s.render(q, http.StatusOK, "compare", data)
}

// acts reads the calls of a run's attempt that counts, which say what its agent chose to do.
func (s *server) acts(ctx context.Context, q *request, c *compared) error {
	attempt := len(c.Run.List)
	for i, a := range c.Run.List {
		if a.Counted {
			attempt = i + 1
		}
	}
	if attempt == 0 {
		return nil
	}
	c.Cost = c.Run.List[attempt-1].CostMicros
	seq := int64(0)
	for read := 0; read < maxSearch; read += 500 {
		evs, err := s.cfg.Platform.Events(ctx, q.caller, c.Run.Run.Run, attempt, seq, 500)
		if err != nil {
			return err
		}
		for _, e := range evs {
			if e.Attempt != attempt {
				return nil
			}
			if seq = e.Seq; e.Type != agon.EventModel && e.Type != agon.EventTool {
				continue
			}
			if len(c.Acts) == readActs {
				c.More = true
				return nil
			}
			c.Acts = append(c.Acts, stepOf(e, alignBlock))
		}
		if len(evs) < 500 {
			return nil
		}
	}
	c.More = true
	return nil
}

// same tells that two calls asked for and got the same, whatever they cost. Of
// calls that may not be read nobody can say so.
func same(a, b Step) bool {
	if a.Withheld || b.Withheld || a.Title != b.Title || len(a.Blocks) != len(b.Blocks) {
		return false
	}
	for i := range a.Blocks {
		if a.Blocks[i].Text != b.Blocks[i].Text {
			return false
		}
	}
	return true
}

// alignSeed makes the sums of calls; equal sums are compared in full.
var alignSeed = maphash.MakeSeed()

func sumOf(s Step) uint64 {
	var h maphash.Hash
	h.SetSeed(alignSeed)
	_, _ = h.WriteString(s.Title) // it never fails
	for _, b := range s.Blocks {
		_, _ = h.WriteString("\x00" + b.Text)
	}
	return h.Sum64()
}

// align lays two lists of calls side by side so that as many equal ones as can be
// stand beside each other, in order; more counts the rows that are left out.
func align(x, y []Step) (rows []alignedRow, more int) {
	n, m := len(x), len(y)
	sx, sy := make([]uint64, n), make([]uint64, m)
	for i := range x {
		sx[i] = sumOf(x[i])
	}
	for j := range y {
		sy[j] = sumOf(y[j])
	}
	equal := func(i, j int) bool { return sx[i] == sy[j] && same(x[i], y[j]) }
	// long[i][j] is how many equal calls x[i:] and y[j:] can have side by side.
	long := make([][]int16, n+1)
	for i := range long {
		long[i] = make([]int16, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if equal(i, j) {
				long[i][j] = long[i+1][j+1] + 1
			} else {
				long[i][j] = max(long[i+1][j], long[i][j+1])
			}
		}
	}
	parted := false
	var left, right []Step
	differ := func() { // what stands between equal calls, call beside call
		for k := range max(len(left), len(right)) {
			r := alignedRow{Parting: !parted}
			parted = true
			if k < len(left) {
				r.Left = &left[k]
			}
			if k < len(right) {
				r.Right = &right[k]
			}
			rows = append(rows, r)
		}
		left, right = nil, nil
	}
	for i, j := 0, 0; i < n || j < m; {
		switch {
		case i < n && j < m && equal(i, j):
			differ()
			if k := len(rows); k == 0 || len(rows[k-1].Same) == 0 {
				rows = append(rows, alignedRow{})
			}
			last := &rows[len(rows)-1]
			last.Same = append(last.Same, x[i])
			i, j = i+1, j+1
		case j == m || i < n && long[i+1][j] >= long[i][j+1]:
			left = append(left, x[i])
			i++
		default:
			right = append(right, y[j])
			j++
		}
	}
	differ()
	shown := 0
	for k, r := range rows {
		if len(r.Same) == 0 {
			if shown++; shown > shownRows {
				return rows[:k], len(rows) - k
			}
		}
	}
	return rows, 0
}

// partings says in a sentence how two runs differ: in score, in cost, and where they part.
func partings(a, b *compared) string {
	if a.Row.Task != b.Row.Task {
		return "These runs are of different tasks: their scores do not compare."
	}
	if a.Row.Value == nil || b.Row.Value == nil {
		return ""
	}
	x, y, gap := a.Sub.Name, b.Sub.Name, *a.Row.Value-*b.Row.Value
	if gap < 0 {
		x, y, gap = y, x, -gap
	}
	words := fmt.Sprintf("%s scored %s more than %s", x, showScore(gap), y)
	if gap == 0 {
		words = fmt.Sprintf("%s and %s scored the same", x, y)
	}
	return fmt.Sprintf("%s; %s made %s for %s, %s %s for %s.%s", words, a.Sub.Name, plain.Count(len(a.Acts), "call"), usd(a.Cost), b.Sub.Name, plain.Count(len(b.Acts), "call"), usd(b.Cost), parted(a, b))
}

// parted says with which call two runs part.
func parted(a, b *compared) string {
	x, y := a.Acts, b.Acts
	hidden := func(s Step) bool { return s.Withheld }
	if len(x)+len(y) == 0 || slices.ContainsFunc(x, hidden) || slices.ContainsFunc(y, hidden) {
		return "" // of what may not be read nobody can say so
	}
	n := 0
	for n < len(x) && n < len(y) && same(x[n], y[n]) {
		n++
	}
	then := func(c *compared) string {
		if n >= len(c.Acts) {
			return plain.Line(c.Sub.Name) + " makes no more calls"
		}
		return fmt.Sprintf("%s goes on with step %d (%s)", plain.Line(c.Sub.Name), c.Acts[n].Seq, c.Acts[n].Title)
	}
	if n == len(x) && n == len(y) {
		return " Their calls are the same."
	}
	head := " They part at the first call: "
	if n == 1 {
		head = " The first call is the same, then "
	} else if n > 1 {
		head = fmt.Sprintf(" Their first %s are the same, then ", plain.Count(n, "call"))
	}
	return head + then(a) + ", " + then(b) + "."
}

// versus is a comparison of two submissions on shared tasks: where one of their
// scores is of some of them only (hidden problems, say), on those alone. Each page
// that compares two says and counts the same by it.
type versus struct {
	score.Paired
	Own, Theirs map[string]float64 // values of the tasks that are compared
	Rest        int                // tasks that both have played and no score is of
	Idle        bool               // none that both have played is of a score
}

// Which says which tasks are compared.
func (v versus) Which() string {
	shared := plain.Count(v.Tasks, "task") + " that both played"
	switch {
	case v.Idle:
		return shared + ", though no task counts for the scores of both"
	case v.Rest == 0:
		return shared
	}
	other := plain.Count(v.Rest, "other")
	if v.Rest == 1 {
		return shared + " and that count for the scores (" + other + " does not)"
	}
	return shared + " and that count for the scores (" + other + " do not)"
}

// versusOf compares x with y, whose values are among those given.
func versusOf(a agon.Arena, x, y *client.Submission, values map[string]map[string]float64) versus {
	own, theirs := values[x.ID], values[y.ID]
	all := versus{Paired: score.Compare(own, theirs), Own: own, Theirs: theirs}
	some := all
	if of := platform.Counted(a, x.Score, x.Total, own); of != nil {
		some.Own = of
	}
	if of := platform.Counted(a, y.Score, y.Total, theirs); of != nil {
		some.Theirs = of
	}
	if some.Paired = score.Compare(some.Own, some.Theirs); some.Tasks == 0 {
		all.Idle = all.Tasks > 0
		return all
	}
	some.Rest = all.Tasks - some.Tasks
	return some
}

// taskPair is a task that two submissions have played.
type taskPair struct {
	Task string
	A, B float64
	Flip string // who alone has full marks: "a", "b" or nobody
}

// shownPairs bounds the tasks of a comparison of submissions.
const shownPairs = 200

// submissionsBeside shows two submissions by the tasks that both have played.
func (s *server) submissionsBeside(q *request) error {
	ctx := q.Context()
	var two [2]*client.Submission
	for i, id := range []string{q.PathValue("id"), q.PathValue("other")} {
		sub, err := s.cfg.Platform.Submission(ctx, q.caller, id)
		if err != nil {
			return err
		}
		two[i] = sub
	}
	if two[0].Arena != two[1].Arena {
		return &agon.Error{Code: "not_found", Status: 404, Message: "These submissions are of different arenas: there is nothing to compare."}
	}
	values, err := s.cfg.Platform.Values(ctx, []string{two[0].ID, two[1].ID})
	if err != nil {
		return err
	}
	a, err := s.cfg.Platform.Arena(ctx, two[0].Arena)
	if err != nil {
		return err
	}
	v := versusOf(a.Arena, two[0], two[1], values)
	pairs := pairsOf(v.Own, v.Theirs)
	data := struct {
		base
		Two     [2]*client.Submission
		Paired  versus
		Pairs   []taskPair
		Flips   [2]int // tasks that only the first, or the second, has full marks on
		LeftOut int
	}{base: q.base(two[0].Name+" and "+two[1].Name, two[0].Arena), Two: two, Paired: v}
	for _, p := range pairs {
		switch p.Flip {
		case "a":
			data.Flips[0]++
		case "b":
			data.Flips[1]++
		}
	}
	data.LeftOut = max(0, len(pairs)-shownPairs)
	data.Pairs = pairs[:len(pairs)-data.LeftOut]
	return s.render(q, http.StatusOK, "beside", data)
}

// pairsOf are the tasks on which two submissions differ: those that flip first,
// then by how much.
func pairsOf(a, b map[string]float64) []taskPair {
	var out []taskPair
	for task, x := range a {
		y, ok := b[task]
		if !ok || x == y {
			continue
		}
		p := taskPair{Task: task, A: x, B: y}
		switch {
		case x >= 1 && y < 1:
			p.Flip = "a"
		case y >= 1 && x < 1:
			p.Flip = "b"
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(p, r taskPair) int {
		flips := func(t taskPair) int {
			if t.Flip != "" {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(flips(p), flips(r)), cmp.Compare(math.Abs(r.A-r.B), math.Abs(p.A-p.B)), cmp.Compare(p.Task, r.Task))
	})
	return out
}

// runsBeside leads to the runs of two submissions on a task, side by side.
func (s *server) runsBeside(q *request) error {
	var ids [2]string
	for i, sub := range []string{q.PathValue("id"), q.PathValue("other")} {
		r, err := s.runOn(q, sub, q.URL.Query().Get("task"))
		if err != nil {
			return err
		}
		ids[i] = r
	}
	http.Redirect(q.w, q.Request, "/runs/"+ids[0]+"/with/"+ids[1]+"#part", http.StatusSeeOther)
	return nil
}
