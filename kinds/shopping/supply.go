package shopping

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/problem"
	"github.com/agon-arena/agon/kinds/shopping/shop"
	"github.com/agon-arena/agon/sandbox/tempdir"
)

// bankSupply takes the sets of an arena's periods, its races, out of a bank of
// problems: they go back to it when their race has ended, or retire by its policy.
type bankSupply struct {
	*kit.Stock
	bank string // file

	mu sync.Mutex // held while the file is read and written
}

// raceSupply is the supply of an arena whose problems come out of a bank: one
// that names a file of `agon shop bank`, or whose rule has race_hours.
func raceSupply(s *kit.Server, banks *sync.Map, k func() kit.Kit, f kit.ArenaFile, a *agon.Arena) (platform.Supply, error) {
	bad := func(field, message, mend string) error {
		return &agon.Error{Code: "bad_arena_file", Status: 422, Field: field, Message: fmt.Sprintf("arena %s: %s", a.ID, message), Mend: mend}
	}
	var bank string
	n := play.Race().Of(a.IncentiveNumbers)
	hours := n[play.RaceHours]
	switch {
	case f.Supply != nil && f.Supply.From == agon.SupplyBank && strings.HasSuffix(f.Supply.Path, ".json"):
		bank = f.Supply.Path
	case f.Supply == nil && a.Incentive == play.RaceRule && hours > 0:
		if bank = s.Options.Getenv("AGON_SHOP_BANK"); bank == "" {
			return nil, bad("incentive_numbers", "race_hours wants a bank of problems", "make one with `agon shop bank new` and name it in AGON_SHOP_BANK")
		}
		if len(f.Hidden) > 0 {
			return nil, bad("hidden", "its races take their problems out of the bank", "name no hidden set where race_hours is set")
		}
		a.Supply = &agon.Supply{From: agon.SupplyBank, Tasks: int(n[play.RaceProblems])}
	default:
		return nil, nil
	}
	if a.Period == nil && hours > 0 {
		a.Period = &agon.Period{Hours: hours}
	}
	if whose, taken := banks.LoadOrStore(filepath.Clean(bank), a.ID); taken && whose != a.ID {
		return nil, bad("supply", fmt.Sprintf("the bank is that of %s", whose), "give each arena a bank of its own")
	}
	x := &bankSupply{Stock: &kit.Stock{Server: s, Kit: k(), File: kit.SupplyFile{From: agon.SupplyBank, Tasks: a.Supply.Tasks}}, bank: bank}
	return x, nil
}

// raceName begins the ids of the races of an arena's period.
func raceName(arena string, period int64) string { return fmt.Sprintf("%s-%d-", arena, period) }

// Draw implements platform.Supply. The bank is on disk before anybody can be given a problem of it.
func (x *bankSupply) Draw(ctx context.Context, r platform.SetRequest) ([]agon.TaskRef, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b, err := problem.LoadBank(x.bank)
	if err != nil {
		return nil, err
	}
	// The seed tells apart races of arenas that had this name on other servers.
	race, err := b.Open(fmt.Sprintf("%s%08x", raceName(r.Arena.ID, r.Period), uint32(r.Seed)), r.Tasks, time.Now().UTC()) //nolint:forbidigo // the bank is a file beside the server
	if err != nil {
		return nil, err
	}
	if err := b.Save(x.bank); err != nil {
		return nil, err
	}
	list, err := raceTasks(b, race.ID)
	if err != nil {
		return nil, err
	}
	out := make([]agon.TaskRef, 0, len(list))
	for _, t := range list {
		ref, err := kit.PutTask(ctx, x.Server.Blobs, t, x.Server.Data.Path("tmp"))
		if err != nil {
			return nil, err
		}
		out = append(out, ref)
	}
	return out, nil
}

// Ended implements platform.Supply: what the bank's policy calls used up retires.
func (x *bankSupply) Ended(_ context.Context, s platform.EndedSet) ([]agon.Digest, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b, err := problem.LoadBank(x.bank)
	if err != nil {
		return nil, err
	}
	race, err := b.LastRace(raceName(s.Arena, s.Period))
	if err != nil {
		return nil, err
	}
	list, err := raceTasks(b, race.ID)
	if err != nil {
		return nil, err
	}
	seen, digest := map[string][]string{}, map[string]agon.Digest{}
	for i, id := range race.Problems { // raceTasks has them in this order
		digest[id], seen[id] = list[i].Digest, s.Played[list[i].Digest]
	}
	retired, err := b.End(race.ID, seen)
	if err != nil {
		return nil, err
	}
	if err := b.Save(x.bank); err != nil {
		return nil, err
	}
	out := make([]agon.Digest, 0, len(retired))
	for _, id := range retired {
		out = append(out, digest[id])
	}
	x.Server.Options.Sayf("arena %s: %s has ended, %d of its problems retire", s.Arena, race.ID, len(out))
	return out, nil
}

// raceTasks are the tasks of a race, in the order of its problems. A problem has
// the same task in every race.
func raceTasks(b *problem.Bank, race string) ([]*task.Task, error) {
	list, err := b.Racing(race)
	if err != nil {
		return nil, err
	}
	var out []*task.Task
	for i := range list {
		t, err := tempTasks("bank-"+agon.Sum([]byte(list[i].ProblemID)).Hex()[:16], "hidden set of a bank", list[i:i+1])
		if err != nil {
			return nil, err
		}
		out = append(out, t...)
	}
	return out, nil
}

// tempTasks makes tasks of problems.
func tempTasks(set, source string, list []shop.Problem) ([]*task.Task, error) {
	tmp, err := tempdir.Make("shop")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	return writtenTasks(filepath.Join(tmp, "set"), set, source, list)
}

// generate makes the problems of a set by a seed, over the catalogue of this
// process; none of their answers is one of the public suite's.
func (f *shopFloor) generate(ctx context.Context, n int, seed int64) ([]*task.Task, error) {
	x, _, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	enc, err := f.Encoder()
	if err != nil {
		return nil, err
	}
	c := problem.DemoHidden(x, enc, uint64(seed), n)
	c.Label = fmt.Sprintf("set-%013x", seed)
	list, err := problem.Generate(ctx, c)
	if err != nil {
		return nil, err
	}
	return tempTasks("generated", "generated set", list)
}
