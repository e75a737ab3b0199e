package shopping

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/problem"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// raceClock opens and closes the races of one arena: their problems come out
// of a bank, and go back to it or retire. One goroutine at a time uses it.
type raceClock struct {
	s        *kit.Server
	bank     string // file
	schedule problem.Schedule
	arena    agon.Arena // without hidden tasks
	closes   time.Time  // the race that is open; zero: none is
}

// raceNumbers are the clock's numbers of an arena; hours 0: it has none.
func raceNumbers(a agon.Arena) (hours float64, problems int) {
	n := play.Race().Of(a.IncentiveNumbers)
	return n[play.RaceHours], int(n[play.RaceProblems])
}

// prepareRace gives an arena with race_hours the problems of the race that is
// open now, and keeps its clock in races. The bank is the one of AGON_SHOP_BANK.
func prepareRace(ctx context.Context, s *kit.Server, races map[string]*raceClock, a *agon.Arena, now time.Time) error {
	hours, problems := raceNumbers(*a)
	if a.Incentive != play.RaceRule || hours == 0 {
		return nil
	}
	bad := func(field, message, mend string) error {
		return &agon.Error{Code: "bad_arena_file", Status: 422, Field: field, Message: fmt.Sprintf("arena %s: %s", a.ID, message), Mend: mend}
	}
	bank := s.Options.Getenv("AGON_SHOP_BANK")
	if bank == "" {
		return bad("incentive_numbers", "race_hours wants a bank of problems", "make one with `agon shop bank new` and name it in AGON_SHOP_BANK")
	}
	if slices.ContainsFunc(a.Tasks, func(t agon.TaskRef) bool { return t.Hidden }) {
		return bad("hidden", "its races take their problems out of the bank", "name no hidden set where race_hours is set")
	}
	for id := range races {
		if id != a.ID {
			return bad("incentive_numbers", "the bank is that of "+id, "run one arena with race_hours in a process")
		}
	}
	c := &raceClock{s: s, bank: bank, schedule: problem.Schedule{Every: time.Duration(hours * float64(time.Hour)), Count: problems}, arena: *a}
	if err := c.turn(ctx, now, a); err != nil {
		return err
	}
	races[a.ID] = c
	return nil
}

// turn brings the bank to now and a to the race that is open. The bank is on
// disk before anybody can be given a problem of it.
func (c *raceClock) turn(ctx context.Context, now time.Time, a *agon.Arena) error {
	b, err := problem.LoadBank(c.bank)
	if err != nil {
		return err
	}
	t, err := b.Turn(now, c.schedule, func(r problem.Race) (map[string][]string, error) { return c.played(ctx, b, r) })
	if t.Closed != "" {
		c.s.Options.Sayf("arena %s: %s is closed, %d of its problems retire", c.arena.ID, t.Closed, len(t.Retired))
	}
	if err != nil && !problem.Exhausted(err) {
		return err
	}
	if t.Changed {
		if err := b.Save(c.bank); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	list, err := raceTasks(b, t.Race.ID)
	if err != nil {
		return err
	}
	a.Tasks = slices.Clone(c.arena.Tasks)
	for _, x := range list {
		ref, err := kit.PutTask(ctx, c.s.Blobs, x, c.s.Data.Path("tmp"))
		if err != nil {
			return err
		}
		ref.Hidden = true
		a.Tasks = append(a.Tasks, ref)
	}
	c.closes = t.Race.Closes
	return nil
}

// advance does at the end of a race what its opening did at the start. Where the
// bank has no problem left the arena is paused: nothing may decide a race but
// problems that nobody knows.
func (c *raceClock) advance(ctx context.Context, now time.Time) error {
	a := c.arena
	err := c.turn(ctx, now, &a)
	if problem.Exhausted(err) {
		c.s.Options.Sayf("arena %s: the bank has no hidden problem left: paused. `agon shop bank add`, start again and open the arena", a.ID)
		c.closes = time.Time{}
		return c.s.Platform.SetArenaState(ctx, platform.Caller{Hotkey: c.s.Operator.Hotkey.SS58(), Operator: true}, a.ID, agon.ArenaPaused, "the bank has no hidden problem left")
	}
	if err != nil {
		return err
	}
	return c.s.Platform.EnsureArena(ctx, a)
}

// played tells which problems of a race a submission's runs have been given to
// a validator.
func (c *raceClock) played(ctx context.Context, b *problem.Bank, r problem.Race) (map[string][]string, error) {
	tasks, err := b.Tasks(r.ID)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, t := range tasks {
		ids[r.ID+"/"+t.Name] = t.Problem.ProblemID
	}
	names, err := c.s.Platform.TaskNames(ctx, c.arena.ID)
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for cursor := ""; ; {
		page, err := c.s.Platform.Runs(ctx, platform.Caller{}, c.arena.ID, "", "", cursor, 200)
		if err != nil {
			return nil, err
		}
		for _, x := range page.Items {
			for _, t := range x.Tasks {
				if id, ok := ids[names[t.Key]]; ok && x.Attempts > 0 && !slices.Contains(out[x.Submission], id) {
					out[x.Submission] = append(out[x.Submission], id)
				}
			}
		}
		if n := len(page.Items); page.Next == "" || n == 0 || page.Items[n-1].CreatedAt.Before(r.Opened) {
			return out, nil
		}
		cursor = page.Next
	}
}

// raceTasks are the tasks of a race, named after it: every race has its own.
func raceTasks(b *problem.Bank, race string) ([]*task.Task, error) {
	list, err := b.Racing(race)
	if err != nil {
		return nil, err
	}
	tmp, err := tempdir.Make("shop")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	return writtenTasks(filepath.Join(tmp, "set"), race, "hidden set of race "+race, list)
}

// run turns the clock until ctx ends or the bank is empty. What fails is said
// and tried again.
func (c *raceClock) run(ctx context.Context) {
	retry := time.Duration(0)
	for !c.closes.IsZero() {
		// At most a minute at a time: a machine that slept wakes to the right race.
		wait := time.NewTimer(min(max(time.Until(c.closes), retry), time.Minute))
		select {
		case <-ctx.Done():
			wait.Stop()
			return
		case <-wait.C:
		}
		now := time.Now()
		if now.Before(c.closes) {
			continue
		}
		retry = 0
		if err := c.advance(ctx, now); err != nil && ctx.Err() == nil {
			c.s.Options.Log.Error("turn a race's clock", "arena", c.arena.ID, "error", err)
			retry = 30 * time.Second
		}
	}
}
