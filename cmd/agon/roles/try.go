package roles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/blob"
	blobfs "github.com/agon-arena/agon/blob/fs"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/sandbox/tempdir"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/progress"
)

// maxTryFile bounds the file that is tried; the kind has its own, lower limit.
const maxTryFile = 16 << 20

// Trial is what is tried on what.
type Trial struct {
	File  string   // or directory, or archive
	Arena string   // of the server at URL, or a shipped demo
	Tasks []string // only these; none means all that are public
	URL   string
	// Set, where it is not nil, is the set period, which has ended, whose tasks are played.
	Set *int64
}

// Try plays a file on an arena's public tasks with the validator's own Player,
// on this machine, without charging an account.
func Try(ctx context.Context, o kit.Options, x Trial) (*cli.TryResult, error) {
	file, only, url := x.File, x.Tasks, x.URL
	work, err := tempdir.Make("try")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	entry, err := kit.Unpacked(work, file)
	if err != nil {
		return nil, err
	}
	list, err := tryTasks(o, only, work)
	if err != nil {
		return nil, err
	}
	d, root, err := kit.OpenDriver(ctx, o)
	if err != nil {
		return nil, err
	}
	blobs, err := blobfs.Open(filepath.Join(work, "blobs"), blobfs.Options{})
	if err != nil {
		return nil, err
	}
	var a *agon.Arena
	var source blob.Store
	var refs []agon.TaskRef
	if len(list) > 0 {
		a, source, refs, err = tryHere(ctx, o, list, blobs, work)
	} else if a, source, err = tryArena(ctx, o, x, blobs, work); err == nil {
		refs, err = chooseTasks(a, only)
	}
	if err != nil {
		return nil, err
	}
	ks := o.Kinds(root)
	k, ok := ks[a.Kind]
	if !ok {
		return nil, &agon.Error{Code: "unknown_kind", Status: 422, Message: "this agon does not play " + a.Kind}
	}
	own, _ := o.Kits.Of(a.Kind)
	if i := own.InsteadOfTry; i != nil {
		return nil, &agon.Error{Code: "other_command", Status: 422, Field: "arena", Message: i.Why, Mend: i.Mend}
	}
	files, err := tryFiles(own, entry)
	if err != nil {
		return nil, err
	}
	findings, err := k.Check(ctx, a, blob.FS(files))
	if err != nil {
		return nil, err
	}
	for _, f := range findings {
		if f.Warning {
			o.Sayf("warning: %s", f.Message)
		}
	}
	findings = slices.DeleteFunc(findings, func(f agon.Finding) bool { return f.Warning })
	if len(findings) > 0 {
		return nil, &agon.Error{Code: findings[0].Code, Status: 422, Field: findings[0].Field, Limit: findings[0].Limit, Message: findings[0].Message, Findings: findings, Mend: "correct it: the arena would refuse it, too; `agon agent new " + a.Kind + " DIR` writes one that it takes"}
	}
	digest, err := blob.PutFiles(ctx, blobs, files, blob.TreeLimits{})
	if err != nil {
		return nil, err
	}
	p, err := kit.NewPlayer(ctx, o, d, root, ks, source, filepath.Join(work, "trees"))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if o.Getenv("AGON_LLM_BASE_URL") != "" {
		o.Sayf("a real model is configured: this can cost at most $%.2f", float64(gateway.UpperBound(a.Policy.Budget, len(refs)))/1e6)
	}

	sub := agon.Submission{ID: "try", Arena: a.ID, Name: filepath.Base(file), Digest: digest, Licence: a.Licence}
	specs, err := tryRuns(k, *a, sub, refs, nil)
	if err != nil {
		return nil, err
	}
	if len(specs) == 0 {
		return nil, errors.New("plan: there is nothing to play")
	}
	res := &cli.TryResult{Arena: a.ID, Rehearsal: a.Rehearsal, Total: len(refs)}
	parallel := o.Parallel
	if parallel <= 0 {
		parallel = runtime.NumCPU()
	}
	var mu sync.Mutex // guards done
	done := 0
	var played []*validator.Attempt // of specs, in their order
	var over []agon.Run             // what the kind's next plan is made of
	for len(played) < len(specs) {  // a stage of the plan each time
		stage := specs[len(played):]
		now := make([]*validator.Attempt, len(stage)) // each goroutine owns one
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(parallel)
		for i, spec := range stage {
			g.Go(func() error {
				if gctx.Err() != nil {
					return gctx.Err()
				}
				now[i] = p.Play(gctx, validator.Job{Run: spec, Attempt: 1, Arena: *a, Submission: sub})
				mu.Lock()
				defer mu.Unlock()
				done += len(spec.Tasks)
				o.Show(progress.State{Label: "trying", Total: len(refs), Done: min(done, len(refs))})
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
		for i, att := range now {
			r := agon.Run{RunSpec: stage[i], Submission: sub.ID, State: agon.RunScored, Fault: att.Fault, Attempts: 1, Scores: att.Scores}
			if att.Fault.Ours() {
				r.State = agon.RunFailed
			}
			over = append(over, r)
		}
		played = append(played, now...)
		more, err := tryRuns(k, *a, sub, refs, over)
		if err != nil {
			return nil, err
		}
		specs = append(specs, more...)
	}
	if res.Log, err = newTry(o); err != nil {
		return nil, err
	}
	for i, att := range played {
		res.CostMicros += att.Cost
		res.BoxMS += att.BoxTime.Milliseconds()
		res.Scripted = res.Scripted || slices.ContainsFunc(att.Receipts, agon.Receipt.Scripted)
		at, printed, err := keepRun(res.Log, specs[i].Run, att)
		if err != nil {
			return nil, err
		}
		rows := tryRows(specs[i], att)
		for j := range rows {
			rows[j].Log = at
			if att.Fault == agon.FaultAgent || len(refs) == 1 {
				rows[j].Output = strings.ToValidUTF8(printed, "\uFFFD")
			}
		}
		res.Runs = append(res.Runs, rows...)
	}
	res.Summed()
	for _, r := range res.Runs {
		if r.Score == nil {
			return res, &agon.Error{Code: "failed_here", Status: 503, Fault: agon.FaultValidator, Message: "a run failed on our side: " + r.Task + ": " + r.Detail, Mend: "try it again; agon doctor may say more"}
		}
	}
	res.Sum()
	if len(list) == 0 {
		res.Entry = tryEntry(ctx, o.Over, a.ID, url)
	}
	if len(refs) == len(a.Tasks) && len(list) == 0 {
		res.Champion = tryChampion(ctx, o, a, sub, res, x)
	}
	return res, nil
}

// tryTasks loads the tasks that are named by their directories; none where they
// are names of an arena's.
func tryTasks(o kit.Options, only []string, work string) ([]*task.Task, error) {
	dirs := slices.DeleteFunc(slices.Clone(only), func(name string) bool { return !cli.TaskDir(name) })
	if len(dirs) == 0 {
		return nil, nil
	}
	if len(dirs) < len(only) {
		return nil, &agon.Error{Code: "bad_flag", Status: 422, Field: "task", Message: "--task: some are directories and some are not", Mend: "name directories, or an arena's tasks"}
	}
	for i := range dirs {
		var err error
		if dirs[i], err = kit.Unpacked(work, dirs[i]); err != nil {
			return nil, err
		}
	}
	list, err := o.Kits.TasksIn(dirs)
	if err != nil {
		return nil, err
	}
	for _, t := range list[1:] {
		if t.Config.Agon.Kind != list[0].Config.Agon.Kind {
			return nil, &agon.Error{Code: "bad_flag", Status: 422, Field: "task", Message: fmt.Sprintf("--task: %s is a task of the kind %s, %s of %s", list[0].Key, list[0].Config.Agon.Kind, t.Key, t.Config.Agon.Kind), Mend: "try those of one kind at a time"}
		}
	}
	return list, nil
}

// tryHere is an arena of tasks on this machine, by the rules of the kind's demo.
func tryHere(ctx context.Context, o kit.Options, list []*task.Task, blobs blob.Store, work string) (*agon.Arena, blob.Store, []agon.TaskRef, error) {
	own, _ := o.Kits.Of(list[0].Config.Agon.Kind)
	if own.Demo == nil { // its policy has the limits of the boxes
		return nil, nil, nil, &agon.Error{Code: "wrong_kind", Status: 422, Field: "task", Message: list[0].Key + " is of a kind that ships no arena", Mend: "name an arena with --arena"}
	}
	f := own.Demo()
	a := f.Arena()
	for _, t := range list {
		ref, err := kit.PutTask(ctx, blobs, t, work)
		if err != nil {
			return nil, nil, nil, err
		}
		a.Tasks = append(a.Tasks, ref)
	}
	return &a, blobs, a.Tasks, nil
}

// tryFiles are what is tried: a file, or the one of a directory that the kind enters.
func tryFiles(own kit.Kit, file string) ([]blob.File, error) {
	if fi, err := os.Stat(file); err == nil && fi.IsDir() {
		if fi, err := os.Lstat(filepath.Join(file, "agon.toml")); err == nil && fi.Mode().IsRegular() {
			return tryDir(file)
		}
	}
	if fi, err := os.Stat(file); err == nil && fi.IsDir() && own.EntryName != "" {
		file = filepath.Join(file, own.EntryName)
	}
	b, err := kit.ReadFile(file, maxTryFile)
	if err != nil {
		return nil, err
	}
	return []blob.File{{Path: own.Entry(file), Content: b}}, nil
}

// tryDir are the files of a directory that says itself how it is started.
func tryDir(dir string) ([]blob.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var out []blob.File
	total := 0
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || p == ".":
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "__pycache__"):
			return fs.SkipDir
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return &agon.Error{Code: "not_regular", Status: 422, Field: "file", Message: p + " is not a regular file", Mend: "only regular files may be entered"}
		}
		b, err := kit.ReadFile(filepath.Join(dir, filepath.FromSlash(p)), maxTryFile)
		if err != nil {
			return err
		}
		if total += len(b); total > maxTryFile {
			return &agon.Error{Code: "too_large", Status: 422, Field: "file", Limit: fmt.Sprintf("%d bytes", maxTryFile), Message: dir + " is too large", Mend: "leave out what the agent does not need"}
		}
		out = append(out, blob.File{Path: p, Content: b})
		return nil
	})
	return out, err
}

// tryRuns are the runs that the arena would queue for s on refs after those that
// are over; each task is tried once, whatever the arena's rule would repeat.
func tryRuns(k kind.Kind, a agon.Arena, s agon.Submission, refs []agon.TaskRef, over []agon.Run) ([]agon.RunSpec, error) {
	a.Tasks = refs
	if len(over) > 0 && !slices.ContainsFunc(refs, func(t agon.TaskRef) bool { return !playedTask(over, t.Key) }) {
		return nil, nil
	}
	plan, err := k.Plan(agon.View{Arena: a, Submission: s, Runs: over})
	if err != nil {
		return nil, fmt.Errorf("plan: %w", err)
	}
	plan.Runs = slices.DeleteFunc(plan.Runs, func(r agon.RunSpec) bool {
		return slices.ContainsFunc(r.Tasks, func(t agon.TaskRef) bool { return playedTask(over, t.Key) })
	})
	for i := range plan.Runs {
		r := &plan.Runs[i]
		r.Run, r.Arena = fmt.Sprintf("try-%d", len(over)+i+1), a.ID
		if reflect.ValueOf(r.Policy).IsZero() {
			r.Policy = a.Policy
		}
		r.Seed = platform.TrySeed(a.ID, s.Digest, *r)
	}
	return plan.Runs, nil
}

func playedTask(over []agon.Run, key string) bool {
	return slices.ContainsFunc(over, func(r agon.Run) bool {
		return slices.ContainsFunc(r.Tasks, func(t agon.TaskRef) bool { return t.Key == key })
	})
}

// tryRows tells how each task of a run went.
func tryRows(spec agon.RunSpec, att *validator.Attempt) []cli.TryRun {
	rows := make([]cli.TryRun, len(spec.Tasks))
	for i, t := range spec.Tasks {
		r := cli.TryRun{Task: t.Key, State: agon.RunScored, Fault: att.Fault, MS: att.Wall.Milliseconds() / int64(len(spec.Tasks)), Detail: att.Outcome}
		if att.Detail != "" {
			r.Detail += ": " + att.Detail
		}
		j := slices.IndexFunc(att.Scores, func(s agon.Score) bool { return s.Task == t.Key })
		switch {
		case att.Fault.Ours() || j < 0:
			r.State, r.Detail = agon.RunFailed, att.Reason
		default:
			s := att.Scores[j]
			r.Score, r.Solved = &s.Value, s.Solved
			if s.Detail != "" {
				r.Detail = s.Detail
			}
		}
		rows[i] = r
	}
	return rows
}

// reader reads a server without a key.
func reader(url string, over *certs.Client) (*client.Client, error) {
	c, err := client.New(url, nil)
	if err != nil {
		return nil, err
	}
	return c, c.Through(over)
}

// tryEntry says how entries to an arena of the server at url fare and what they
// pay; "" where no server shows it.
func tryEntry(ctx context.Context, over *certs.Client, arena, url string) string {
	c, err := reader(url, over)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	x, err := c.Arena(ctx, arena)
	if err != nil {
		return ""
	}
	return x.Fairness
}

// tryChampion compares what was tried with who sits in the arena of the server
// at x.URL, by the arena's own rule; nil where no server shows it or nobody sits. On
// the set of a period that has ended it is what it scored there.
func tryChampion(ctx context.Context, o kit.Options, a *agon.Arena, s agon.Submission, res *cli.TryResult, x Trial) *cli.TryChampion {
	rule, ok := o.Kits.Incentives()[a.Incentive]
	c, err := reader(x.URL, o.Over)
	if err != nil || !ok || rule.Plays {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	b, err := c.Board(ctx, a.ID)
	if err != nil || len(b.Seats) == 0 {
		return nil
	}
	ch := incentive.Challenge{
		Arena: *a, Numbers: rule.Of(a.IncentiveNumbers), At: time.Now(),
		Challenger: incentive.Entry{Submission: s.ID, Score: *res.Score, Solved: res.Solved, Total: res.Total, Cost: res.CostMicros},
	}
	out := &cli.TryChampion{}
	for i, seat := range b.Seats {
		e := incentive.Entry{Submission: seat.Submission, Miner: seat.Miner, Score: seat.Score, At: seat.Since}
		for _, row := range b.Submissions {
			if row.ID != seat.Submission {
				continue
			}
			e.Cost = row.CostMicros
			if row.Solved != nil && row.Total != nil {
				e.Solved, e.Total = *row.Solved, *row.Total
			}
			if i == 0 {
				out.Name = row.Name
			}
		}
		ch.Seats = append(ch.Seats, e)
	}
	first := &ch.Seats[0]
	p := recordOf(ctx, c, a.ID, first.Submission, a.Tasks)
	if x.Set != nil {
		if p == nil || p.total < len(a.Tasks) {
			return nil // it was not played on the whole set
		}
		first.Score, first.Cost, first.Solved, first.Total = p.score, p.cost, p.solved, p.total
	}
	out.Submission, out.Score, out.CostMicros = first.Submission, first.Score, first.Cost
	if p != nil {
		out.BoxMS = &p.box
	}
	v := rule.Decide(ch)
	out.Rule, out.Bar, out.Takes = v.Rule, v.Bar, v.Takes
	if !(*res.Score > 0) {
		out.Rule, out.Takes, out.Sentence = incentive.ZeroRule, false, "it would be kept out: a score of 0 never takes a seat"
		return out
	}
	if rule.Pairing != nil && (v.Rule == "" || v.Rule == a.Incentive) {
		out.Rule = a.Incentive
		out.Sentence = "a seat moves by pairs of plays against the champion on the same tasks and seeds; they are played once you submit"
		return out
	}
	if v.Takes {
		out.Sentence = "it would take the seat: " + cli.ScoreText(res.Score) + " reaches the bar of " + cli.ScoreText(v.Bar)
		return out
	}
	kept := incentive.Say(o.Kits.Incentives(), agon.Decision{Challenger: s.ID, Incumbent: first.Submission, Rule: v.Rule, Score: *res.Score, Bar: v.Bar, Numbers: v.Numbers, Outcome: agon.KeptSeat})
	out.Sentence = "it would be kept out: " + strings.TrimPrefix(kept, "Kept out: ")
	return out
}

// played is what the counted attempts of a submission came to on some tasks.
type played struct {
	score         float64 // the mean over tasks of the mean of each
	solved, total int     // tasks
	cost          agon.Micros
	box           int64 // ms in boxes
}

// recordOf sums the runs of a submission with one of the tasks; nil where the server does not tell.
func recordOf(ctx context.Context, c *client.Client, arena, submission string, tasks []agon.TaskRef) *played {
	page, err := c.Runs(ctx, arena, submission, string(agon.RunScored), client.ListOptions{Limit: 200})
	if err != nil || page.Next != "" {
		return nil
	}
	var out played
	var sum cli.TryResult
	for _, r := range page.Items {
		if !slices.ContainsFunc(r.Tasks, func(t agon.TaskRef) bool {
			return slices.ContainsFunc(tasks, func(w agon.TaskRef) bool { return w.Key == t.Key })
		}) {
			continue
		}
		run, err := c.Run(ctx, r.RunSpec.Run)
		if err != nil {
			return nil
		}
		for _, at := range run.List {
			if at.Counted {
				out.box += at.BoxMS
				out.cost += at.CostMicros
			}
		}
		for _, v := range r.Scores {
			sum.Runs = append(sum.Runs, cli.TryRun{Task: v.Task, Score: &v.Value, Solved: v.Solved})
		}
	}
	sum.Summed()
	sum.Sum()
	out.total, out.solved = len(sum.Tasks), sum.Solved
	if sum.Score != nil {
		out.score = *sum.Score
	}
	return &out
}

// tryArena returns an arena to try on: a shipped demo without any server, else
// what the server at url shows.
func tryArena(ctx context.Context, o kit.Options, x Trial, blobs blob.Store, work string) (*agon.Arena, blob.Store, error) {
	for _, f := range o.Kits.Demos() {
		if f.ID != x.Arena || x.Set != nil {
			continue
		}
		refs, err := kit.ArenaTasks(ctx, o, f, blobs, work)
		if err != nil {
			return nil, nil, err
		}
		a := f.Arena()
		a.Tasks = refs
		return &a, blobs, nil
	}
	c, err := reader(x.URL, o.Over)
	if err != nil {
		return nil, nil, err
	}
	a, err := c.Arena(ctx, x.Arena)
	if err != nil {
		return nil, nil, err
	}
	a.Stages = nil // a try plays each task once
	if x.Set != nil {
		if a.Tasks, err = endedSet(ctx, c, x.Arena, *x.Set); err != nil {
			return nil, nil, err
		}
	}
	return &a.Arena, validator.RemoteBlobs{Local: blobs, Remote: c}, nil
}

// endedSet are the tasks of a set period that has ended, which are public.
func endedSet(ctx context.Context, c *client.Client, arena string, n int64) ([]agon.TaskRef, error) {
	periods, err := c.Seeds(ctx, arena)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(periods, func(p client.SeedPeriod) bool { return p.Period == n && p.PublishedAt != nil && len(p.Tasks) > 0 })
	if i < 0 {
		var have []string
		for _, p := range periods {
			if p.PublishedAt != nil && len(p.Tasks) > 0 {
				have = append(have, strconv.FormatInt(p.Period, 10))
			}
		}
		mend := "no period of it has ended yet: try its public tasks"
		if len(have) > 0 {
			mend = "these have ended: " + strings.Join(have, ", ")
		}
		return nil, &agon.Error{Code: "not_found", Status: 404, Field: "period", Message: fmt.Sprintf("the arena %s has published no set of the period %d", arena, n), Mend: mend}
	}
	list, err := c.ArenaTasks(ctx, arena)
	if err != nil {
		return nil, err
	}
	var out []agon.TaskRef
	for _, id := range periods[i].Tasks {
		j := slices.IndexFunc(list, func(t client.ArenaTask) bool { return t.Task == id && t.Digest != "" })
		if j < 0 {
			return nil, &agon.Error{Code: "not_found", Status: 404, Field: "period", Message: fmt.Sprintf("the task %s of the period %d is not public", id, n), Mend: "it is played again in a set that has not ended: try another period"}
		}
		out = append(out, agon.TaskRef{Key: id, Digest: list[j].Digest})
	}
	return out, nil
}

// chooseTasks returns the tasks to try: those named, or all public ones.
func chooseTasks(a *agon.Arena, only []string) ([]agon.TaskRef, error) {
	var out []agon.TaskRef
	for _, name := range only {
		i := slices.IndexFunc(a.Tasks, func(t agon.TaskRef) bool { return t.Key == name })
		if i < 0 {
			return nil, &agon.Error{Code: "not_found", Status: 404, Field: "task", Message: fmt.Sprintf("the arena %s has no task %q", a.ID, name), Mend: "agon task list shows them"}
		}
		if a.Tasks[i].Hidden {
			return nil, &agon.Error{Code: "hidden_task", Status: 422, Field: "task", Message: name + " is hidden: only validators may play it", Mend: "try the public tasks"}
		}
		out = append(out, a.Tasks[i])
	}
	if len(only) > 0 {
		return out, nil
	}
	for _, t := range a.Tasks {
		if !t.Hidden {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, &agon.Error{Code: "hidden_task", Status: 422, Field: "arena", Message: "all tasks of " + a.ID + " are hidden: there is nothing to try"}
	}
	return out, nil
}
