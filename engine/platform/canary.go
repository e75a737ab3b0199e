package platform

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
)

// Canaries are plays of decided submissions whose outcome is known: one, or two
// against each other on the same tasks and seed, as halves of a pair are. They
// come to validators through the same queue and with the same fields as other runs,
// each validator plays one, and nothing of the contest hangs on them. What a
// validator makes of them counts in its standing.

const (
	maxCanaryPlays   = 50
	maxCanaryRuns    = 2000 // of one canary, over all who play it
	maxCanaries      = 200  // that one list shows
	defaultTolerance = 0.05 // of scores, which are 0 to 1
)

// MakeCanary has a run of a decided submission, or it and its rival's on the same
// tasks, played once more by validators whose word is measured so; by the operator.
// Where the run is of a stage, all tasks of its stage are played, as an evaluation plays them.
func (p *Platform) MakeCanary(ctx context.Context, c Caller, run string, r client.CanaryRequest) (*agon.Canary, error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	if err := needReason(r.Reason); err != nil {
		return nil, err
	}
	if err := checkCanary(r); err != nil {
		return nil, err
	}
	var out agon.Canary
	queued := 0
	err := p.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		queued = 0
		mine, err := p.knownRun(tx, run)
		if err != nil {
			return err
		}
		a, err := tx.Arena(mine.Arena)
		if err != nil {
			return err
		}
		if a.Contest != nil {
			return refuse(409, "no_canary", "arena %s has canaries of its own: name another", a.ID)
		}
		sides, staged, err := p.canarySides(tx, a, mine, r.Rival)
		if err != nil {
			return err
		}
		tasks := len(sides[0].runs)
		if n := r.Validators * len(sides) * tasks; n > maxCanaryRuns {
			return badField("validators", "%d validators play %d runs of this stage: want at most %d runs", r.Validators, n, maxCanaryRuns)
		}
		out = agon.Canary{ID: newID(), Arena: a.ID, Submission: mine.Submission, Rival: r.Rival, Known: sides[0].known, Plays: r.Validators, At: p.now(), Actor: c.Hotkey, Reason: cut(r.Reason, maxReason), Hits: []agon.CanaryHit{}}
		if len(sides) > 1 {
			out.Known -= sides[1].known
		}
		if r.Known != nil {
			out.Known = *r.Known
		}
		// One task of a stage that is said otherwise must show in the mean of them all.
		out.Tolerance = math.Min(defaultTolerance, 0.5/float64(tasks))
		if r.Tolerance != nil {
			out.Tolerance = *r.Tolerance
		}
		if err := tx.InsertCanary(out); err != nil {
			return err
		}
		for range r.Validators {
			n, err := p.queueCanary(tx, a, out.ID, sides, staged)
			if queued += n; err != nil {
				return err
			}
		}
		return p.logAction(tx, c, "canary", mine.Submission, r.Reason, fmt.Sprintf("%d runs", queued))
	})
	if err != nil {
		return nil, err
	}
	p.news(queued)
	return &out, nil
}

// checkCanary checks the numbers of a request.
func checkCanary(r client.CanaryRequest) error {
	switch {
	case r.Tolerance != nil && !(*r.Tolerance >= 0 && *r.Tolerance < 1):
		return badField("tolerance", "%v: want 0 to less than 1", *r.Tolerance)
	case r.Known != nil && !(math.Abs(*r.Known) <= 1):
		return badField("known", "%v: want a score of 0 to 1, or a gain of -1 to 1", *r.Known)
	case r.Validators < 1 || r.Validators > maxCanaryPlays:
		return badField("validators", "%d validators: want 1 to %d", r.Validators, maxCanaryPlays)
	}
	return nil
}

// side is what a canary plays of one submission: one run, or one of each task of a stage.
type side struct {
	runs  []store.Run
	known float64 // the mean of their scores that count
}

// canarySides are what a canary plays: mine, and the rival's of a duel. staged says
// that they are played as their stage is. In arenas that seat by pairs a duel is of
// halves, which belong to no stage.
func (p *Platform) canarySides(tx *store.Tx, a agon.Arena, mine store.Run, rival string) (out []side, staged bool, err error) {
	rule, rerr := p.rule(a)
	staged = mine.Stage != "" && (rival == "" || rerr != nil || rule.Pairing == nil)
	of := func(r store.Run) (side, error) {
		if staged {
			return stageSide(tx, r)
		}
		return side{[]store.Run{r}, valueOf(r.Scores)}, nil
	}
	if staged { // an evaluation that had a task of it twice would show what it is
		for _, submission := range []string{mine.Submission, rival} {
			open, err := tx.StageCanary(submission, mine.Stage)
			if err != nil {
				return nil, staged, err
			}
			if open {
				return nil, staged, refuse(409, "canary_open", "a canary of stage %s of submission %s is under way: wait until it is played", mine.Stage, submission)
			}
		}
	}
	s, err := of(mine)
	if err != nil || rival == "" {
		return []side{s}, staged, err
	}
	runs, err := tx.RunsOf(rival)
	if err != nil {
		return nil, staged, err
	}
	i := slices.IndexFunc(runs, func(o store.Run) bool {
		return o.State == agon.RunScored && o.Arena == a.ID && o.Stage == mine.Stage && reflect.DeepEqual(o.Tasks, mine.Tasks)
	})
	if i < 0 {
		return nil, staged, badField("rival", "submission %s has no scored run on these tasks in arena %s", rival, a.ID)
	}
	other, err := p.knownRun(tx, runs[i].RunSpec.Run)
	if err != nil {
		return nil, staged, err
	}
	o, err := of(other)
	if err == nil && !slices.EqualFunc(s.runs, o.runs, func(x, y store.Run) bool { return reflect.DeepEqual(x.Tasks, y.Tasks) }) {
		err = badField("rival", "submission %s has no scored run of each task of stage %s", rival, mine.Stage)
	}
	return []side{s, o}, staged, err
}

// stageSide is a scored run of each task of the stage that a run is of, by task.
func stageSide(tx *store.Tx, one store.Run) (s side, err error) {
	runs, known, stopped, err := stageValues(tx, one.Submission, one.Stage)
	switch {
	case err != nil:
		return s, err
	case stopped != "":
		return s, refuse(409, "not_final", "task %s of stage %s was not played to its end by anybody: take a submission that was", stopped, one.Stage)
	}
	s.runs = runs
	for _, v := range known {
		s.known += v / float64(len(known))
	}
	return s, nil
}

// stageValues are the scored runs of a submission at a stage, the first of each task, and what is known
// of each task: the middle of what its evaluations came to, so that one liar among them does not say it.
// stopped is a task that nobody has played to its end.
func stageValues(tx *store.Tx, submission, stage string) (runs []store.Run, known map[string]float64, stopped string, err error) {
	all, err := tx.RunsOf(submission)
	if err != nil {
		return nil, nil, "", err
	}
	values := map[string][]float64{}
	for _, r := range all {
		if r.Stage != stage || r.State != agon.RunScored {
			continue
		}
		task := r.Tasks[0].Key
		if slices.ContainsFunc(r.Scores, score.Unplayed) {
			stopped = task
			continue
		}
		if values[task] = append(values[task], valueOf(r.Scores)); len(values[task]) == 1 {
			runs = append(runs, r)
		}
	}
	if len(values[stopped]) > 0 {
		stopped = ""
	}
	slices.SortFunc(runs, func(x, y store.Run) int { return strings.Compare(x.Tasks[0].Key, y.Tasks[0].Key) })
	known = map[string]float64{}
	for task, v := range values {
		slices.Sort(v)
		known[task] = v[(len(v)-1)/2]
	}
	return runs, known, stopped, nil
}

// knownRun returns a scored run of a decided submission, with the scores that count.
func (p *Platform) knownRun(tx *store.Tx, id string) (store.Run, error) {
	r, err := tx.Run(id)
	if err != nil {
		return r, found(err, "run", id)
	}
	e, err := tx.Entry(r.Submission)
	if err != nil {
		return r, err
	}
	if e.State != agon.SubmissionScored || r.State != agon.RunScored || r.Title != nil {
		return r, refuse(409, "not_final", "run %s is %s, of a submission that is %s: a canary's outcome is known", id, r.State, e.State)
	}
	runs, err := tx.RunsOf(r.Submission)
	if err != nil {
		return r, err
	}
	i := slices.IndexFunc(runs, func(o store.Run) bool { return o.RunSpec.Run == id })
	if i < 0 {
		err := refuse(409, "not_final", "run %s is not one of those that its submission is scored by", id)
		if len(runs) > 0 {
			err.Mend = "take run " + runs[0].RunSpec.Run + ", or another whose page has a score that counts"
		}
		return r, err
	}
	return runs[i], nil
}

func valueOf(list []agon.Score) float64 {
	sum := 0.0
	for _, s := range list {
		sum += s.Value
	}
	return sum / math.Max(1, float64(len(list)))
}

// queueCanary queues what one validator plays of a canary.
func (p *Platform) queueCanary(tx *store.Tx, a agon.Arena, id string, sides []side, staged bool) (queued int, err error) {
	entries := make([]store.Entry, len(sides))
	for i, s := range sides {
		if entries[i], err = tx.Entry(s.runs[0].Submission); err != nil {
			return 0, err
		}
	}
	if staged {
		for i, s := range sides {
			for _, r := range s.runs {
				n, err := p.queueIn(tx, a, entries[i], []agon.RunSpec{again(r)}, store.CanaryStageGroup(id, r.Stage, r.Tasks[0].Key))
				if queued += n; err != nil {
					return queued, err
				}
			}
		}
		return queued, nil
	}
	spec := again(sides[0].runs[0])
	if len(sides) == 1 {
		return p.queueIn(tx, a, entries[0], []agon.RunSpec{spec}, store.CanaryGroup(id))
	}
	if spec.Seed, err = p.seedOf(tx, a, &entries[0], seeds.TaskOf(a, spec), 1); err != nil {
		return 0, err
	}
	for i, half := range []string{agon.SideChallenger, agon.SideIncumbent} {
		o := entries[1-i]
		spec.Rival = &agon.Rival{Submission: o.ID, Digest: o.Digest, Round: 1, Side: half}
		n, err := p.queueIn(tx, a, entries[i], []agon.RunSpec{spec}, store.CanaryGroup(id))
		if queued += n; err != nil {
			return queued, err
		}
	}
	return queued, nil
}

// again is a run as it is planned, to be played once more.
func again(r store.Run) agon.RunSpec {
	return agon.RunSpec{Tasks: r.Tasks, Replica: r.Replica, Policy: r.Policy, Seed: r.Seed}
}

// endCanary notes what a validator made of a canary, once it has played all of it.
func (p *Platform) endCanary(tx *store.Tx, run store.Run) error {
	if run.State != agon.RunScored {
		return nil // lost through us
	}
	c, err := tx.Canary(store.CanaryOf(run.Group))
	if err != nil {
		return err
	}
	attempts, err := tx.Attempts(run.RunSpec.Run)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(attempts, func(t store.Attempt) bool { return t.Counted })
	if i < 0 {
		return fmt.Errorf("canary %s was scored by no attempt", run.RunSpec.Run)
	}
	plays, err := tx.CanaryPlays(c.ID, attempts[i].Validator)
	if err != nil {
		return err
	}
	runs, err := tx.CanaryRuns(c.ID)
	if err != nil {
		return err
	}
	if int64(len(plays))*int64(c.Plays) != runs {
		return nil // it has not played all of it yet
	}
	h := agon.CanaryHit{Canary: c.ID, Arena: c.Arena, Validator: attempts[i].Validator, Known: c.Known, At: p.now()}
	var mine, theirs []agon.Score
	for _, x := range plays {
		if x.Submission == c.Submission {
			h.Run, mine = cmp.Or(h.Run, x.Run), append(mine, agon.Score{Value: x.Value})
		} else {
			theirs = append(theirs, agon.Score{Value: x.Value})
		}
	}
	h.Observed = valueOf(mine) - valueOf(theirs)
	moved, err := movedTasks(tx, c, run, plays)
	if err != nil {
		return err
	}
	h.Missed = max(math.Abs(h.Observed-h.Known), moved) > c.Tolerance+1e-9
	return tx.HitCanary(h)
}

// movedTasks is how far the tasks of a canary in a stage lie from what is known of them, in the mean:
// a task said better and one said worse do not make up for each other. It is 0 where the operator
// has said what is known, or a later judging has: then the mean of all is what can be compared.
func movedTasks(tx *store.Tx, c agon.Canary, run store.Run, plays []store.CanaryPlay) (moved float64, err error) {
	stage := store.StageOf(run.Group)
	if stage == "" {
		return 0, nil
	}
	known, mean := map[string]map[string]float64{}, 0.0
	for i, submission := range []string{c.Submission, c.Rival} {
		if submission == "" {
			continue
		}
		if _, known[submission], _, err = stageValues(tx, submission, stage); err != nil {
			return 0, err
		}
		for _, v := range known[submission] {
			mean += []float64{1, -1}[i] * v / float64(len(known[submission]))
		}
	}
	if math.Abs(mean-c.Known) > 1e-9 {
		return 0, nil
	}
	for _, x := range plays {
		k, ok := known[x.Submission][x.Task]
		if !ok {
			return 0, nil
		}
		moved += math.Abs(x.Value - k)
	}
	return moved * float64(len(known)) / float64(max(1, len(plays))), nil
}

// Canaries lists those of an arena with what validators made of them; for the operator.
func (p *Platform) Canaries(ctx context.Context, c Caller, arena string) (out []agon.Canary, err error) {
	if err := operatorOnly(c); err != nil {
		return nil, err
	}
	err = p.cfg.Store.Read(ctx, func(tx *store.Tx) error {
		if _, err := tx.Arena(arena); err != nil {
			return noArena(tx, err, arena)
		}
		if out, err = tx.Canaries(arena, maxCanaries); err != nil {
			return err
		}
		for i := range out {
			if out[i].Hits, err = tx.HitsOf(out[i].ID); err != nil {
				return err
			}
			if out[i].Hits == nil {
				out[i].Hits = []agon.CanaryHit{}
			}
		}
		return nil
	})
	if out == nil {
		out = []agon.Canary{}
	}
	return out, err
}

// canariesOf adds the canaries of a validator to what is known of its word.
func (p *Platform) canariesOf(tx *store.Tx, validator string, w *score.Word) error {
	played, missed, err := tx.CountCanaries(validator, p.now().Add(-standingFor))
	w.Canaries += played
	w.Missed += missed
	return err
}

// missedCases are the canaries that a validator got wrong, as cases against it.
func (p *Platform) missedCases(tx *store.Tx, validator string) (out []client.Case, err error) {
	list, err := tx.MissedBy(validator, p.now().Add(-standingFor), maxCases)
	for _, h := range list {
		known, seen := h.Known, h.Observed
		out = append(out, client.Case{Run: h.Run, Arena: h.Arena, Role: "canary", At: h.At, URL: "/v1/runs/" + h.Run, Known: &known, Observed: &seen})
	}
	return out, err
}
