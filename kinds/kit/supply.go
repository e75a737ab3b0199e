package kit

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/task"
)

// SupplyFile says in an arena file where the sets of its periods come from.
type SupplyFile struct {
	From  string `toml:"from"`
	Path  string `toml:"path"` // of a directory or a bank; of a feed its address, file or folder
	Tasks int    `toml:"tasks"`
	Uses  int    `toml:"uses"`
	// Beacon, Entries and Difficulty are agon.Supply's.
	Beacon     string           `toml:"beacon"`
	Entries    string           `toml:"entries"`
	Difficulty *agon.Difficulty `toml:"difficulty"`
}

// GenerateRequest asks a kind's generator for a set.
type GenerateRequest struct {
	Tasks int     // how many
	Seed  int64   // of the set
	Seeds []int64 // one for each task, of which none tells another
	Level int     // of difficulty, 1 to Kit.Levels; 0: as the kind likes
}

// mistakes says what is wrong with the supply of a kind's arena.
func (x *SupplyFile) mistakes(k Kit, no func(field, format string, args ...any)) {
	switch x.From {
	case agon.SupplyDirectory, agon.SupplyBank:
		if x.Path == "" {
			no("supply.path", "name the folder, or the bank")
		} else if !strings.ContainsRune(x.Path, os.PathSeparator) {
			no("supply.path", "%.60q: a folder is named with a slash: ./%s", x.Path, x.Path)
		}
	case agon.SupplyGenerator:
		if k.Generate == nil {
			no("supply.from", "the kind %s has no generator: name a directory or a bank", k.Kind)
		}
		if x.Path != "" {
			no("supply.path", "a generator has none")
		}
	case agon.SupplyFeed:
		if !k.Feeds {
			no("supply.from", "the kind %s makes no tasks of what is published: name a directory or a bank", k.Kind)
		}
		if x.Path == "" {
			no("supply.path", "name the feed: an address, a file or a folder of documents")
		}
	default:
		no("supply.from", "%.40q is not one of %s", x.From, strings.Join(agon.Supplies(), ", "))
	}
	if x.Tasks < 1 || x.Tasks > agon.MostSetTasks {
		no("supply.tasks", "%d: want 1 to %d tasks a set", x.Tasks, agon.MostSetTasks)
	}
	if d := x.Difficulty; d != nil {
		if x.From != agon.SupplyGenerator || k.Generate == nil || k.Levels == 0 {
			no("supply.difficulty", "only the tasks of a generator with levels have one, and this is no such supply")
		} else if field, message := d.Mistake(k.Levels); field != "" {
			no("supply.difficulty."+field, "%s", message)
		}
	}
	if x.Beacon != "" && x.Beacon != agon.BeaconDrand {
		no("supply.beacon", "%.40q: want %q, or leave it out", x.Beacon, agon.BeaconDrand)
	}
	if x.Entries != "" && x.Entries != agon.EntriesNext {
		no("supply.entries", "%.40q: want %q, or leave it out", x.Entries, agon.EntriesNext)
	}
	if x.Uses < 0 || x.Uses > 1000 || x.Uses > 0 && x.From != agon.SupplyBank {
		no("supply.uses", "%d: want 0 (the default, %d) to 1000, for a bank", x.Uses, agon.DefaultUses)
	}
}

// Supply is the supply of an arena file for its arena, which it may complete; nil: it has none.
func (f ArenaFile) SupplyOf(s *Server, a *agon.Arena) (platform.Supply, error) {
	k, ok := s.Options.Kits.Of(f.Kind)
	if ok && k.Supply != nil {
		own, err := k.Supply(s, f, a)
		if own != nil || err != nil {
			return own, err
		}
	}
	if f.Supply == nil {
		return nil, nil
	}
	return &Stock{Server: s, Kit: k, File: *f.Supply}, nil
}

// Stock is the supply that any kind can have: a folder of tasks, which are drawn
// once or, as a bank, several times, or the kind's generator.
type Stock struct {
	Server *Server
	Kit    Kit
	File   SupplyFile
}

// uses is in how many periods a task of the stock serves.
func (x *Stock) uses() int {
	if x.File.From != agon.SupplyBank {
		return 1
	}
	return cmp.Or(x.File.Uses, agon.DefaultUses)
}

// Draw implements platform.Supply.
func (x *Stock) Draw(ctx context.Context, r platform.SetRequest) ([]agon.TaskRef, error) {
	o := x.Server.Options
	var list []*task.Task
	var err error
	if x.File.From == agon.SupplyGenerator {
		if list, err = x.Kit.Generate(ctx, o, GenerateRequest{Tasks: r.Tasks, Seed: r.Seed, Seeds: r.TaskSeeds, Level: r.Level}); err != nil {
			return nil, fmt.Errorf("generate a set: %w", err)
		}
	} else {
		if list, _, err = LoadSet(o, x.Kit.Kind, x.File.Path); err != nil {
			return nil, err
		}
		if list, err = x.pick(r, list); err != nil {
			return nil, err
		}
	}
	out := make([]agon.TaskRef, 0, len(list))
	for _, t := range list {
		ref, err := PutTask(ctx, x.Server.Blobs, t, x.Server.Data.Path("tmp"))
		if err != nil {
			return nil, err
		}
		out = append(out, ref)
	}
	return out, nil
}

// pick takes the tasks that were used and seen least, of equal ones by lot.
func (x *Stock) pick(r platform.SetRequest, list []*task.Task) ([]*task.Task, error) {
	once := &Distinct{madeFrom: x.Kit.MadeFrom}
	var left []*task.Task
	for _, t := range list {
		if err := once.Add("supply", t, true); err != nil {
			return nil, err
		}
		if !r.Shown[t.Digest] && r.Uses[t.Digest] < x.uses() {
			left = append(left, t)
		}
	}
	if len(left) < r.Tasks {
		return nil, &agon.Error{
			Code: "supply_short", Status: 409, Field: "supply", Limit: fmt.Sprintf("%d tasks a set", r.Tasks),
			Message: fmt.Sprintf("the supply has %d tasks left for period %d, where the set needs %d (it has %d in all)", len(left), r.Period, r.Tasks, len(list)),
			Mend:    "put new tasks into the folder of the supply; the present set and the next are drawn before the first period begins",
		}
	}
	lot := func(t *task.Task) int64 {
		return seeds.Derive("set-draw", strconv.FormatInt(r.Seed, 10), string(t.Digest))
	}
	slices.SortFunc(left, func(a, b *task.Task) int {
		return cmp.Or(cmp.Compare(r.Uses[a.Digest], r.Uses[b.Digest]), cmp.Compare(r.Seen[a.Digest], r.Seen[b.Digest]), cmp.Compare(lot(a), lot(b)))
	})
	return left[:r.Tasks], nil
}

// Complete implements platform.Supply.
func (x *Stock) Complete(ctx context.Context, a *agon.Arena) error {
	return completeSet(ctx, x.Server, x.Kit, a)
}

func completeSet(ctx context.Context, s *Server, k Kit, a *agon.Arena) error {
	if k.Prepare == nil {
		return nil
	}
	return k.Prepare(ctx, s, a)
}

// Opened implements platform.Supply.
func (x *Stock) Opened(ctx context.Context, a agon.Arena) error {
	x.Server.Options.Sayf("arena %s: a new set of %d tasks is played", a.ID, x.File.Tasks)
	if x.Kit.Opened == nil {
		return nil
	}
	return x.Kit.Opened(ctx, x.Server, &a)
}

// Ended implements platform.Supply.
func (x *Stock) Ended(_ context.Context, s platform.EndedSet) (used []agon.Digest, err error) {
	for _, t := range s.Tasks {
		if s.Uses[t.Digest] >= x.uses() {
			used = append(used, t.Digest)
		}
	}
	return used, nil
}
