package platform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/incentive"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
)

// levelled is an arena whose sets of four tasks have a level from 1 to 3.
func levelled(t *testing.T, s *shelf, change ...func(*Config, *agon.Arena)) *fixture {
	t.Helper()
	f := suppliedFixture(t, s, change...)
	f.arena.Supply = &agon.Supply{From: agon.SupplyGenerator, Tasks: 4, Difficulty: &agon.Difficulty{Least: 1, Most: 3, First: 2, Target: 0.5}}
	return f
}

// half lets the second half of the present period begin, when the next set is drawn; turn
// lets the next period begin.
func (f *fixture) half() {
	f.clock.add(12 * time.Hour)
	must(f.t, f.rotate(bg))
}

func (f *fixture) turn() {
	f.clock.add(12 * time.Hour)
	must(f.t, f.rotate(bg))
}

// logged is what the log says of the difficulty of a period's set.
func (f *fixture) logged(period int64) (d agon.SetDifficulty) {
	f.t.Helper()
	f.read(func(tx *store.Tx) error {
		x, err := tx.Note(fmt.Sprintf("turning/%d/set", period))
		if err != nil {
			return err
		}
		var set client.Set
		if err := json.Unmarshal(x.Body, &set); err != nil {
			return err
		}
		if set.Difficulty == nil {
			f.t.Fatalf("the log says nothing of the difficulty of set %d: %s", period, x.Body)
		}
		d = *set.Difficulty
		return nil
	})
	return d
}

// solves scores a lease: the tasks of a set whose numbers are below n are solved.
func (f *fixture) solves(l *client.Lease, n int) float64 {
	for i, k := range f.keys() {
		if l.Run.Tasks[0].Key == k && i >= n {
			return 0
		}
	}
	return 1
}

// The level of the next set follows what who sits reached on the present one, within
// bounds; everybody computes it from the log.
func TestDifficultyFollowsTheChampion(t *testing.T) {
	s := &shelf{have: 60, uses: 1}
	f := levelled(t, s)
	must(t, f.EnsureArena(bg, f.arena))
	if len(s.asked) != 1 || s.asked[0].Level != 2 || len(s.asked[0].TaskSeeds) != 4 {
		t.Fatalf("the first set: %+v", s.asked)
	}
	champion := f.send(miner1, "champion")
	solved := 4
	play := func() {
		f.playAll(val1, func(l *client.Lease) float64 { return f.solves(l, solved) })
	}
	play()
	must(t, f.rotate(bg))
	if len(s.asked) != 1 {
		t.Fatal("the next set is drawn before the first half of a period is over")
	}
	for i, c := range []struct {
		solved int // of the next period's set, by who sits; -1: nobody plays there
		level  int
	}{
		{3, 3},  // the whole of set 0 was solved
		{2, 3},  // 3 of 4 are more than 0.6, but 3 is the most
		{1, 3},  // 2 of 4 are the target
		{0, 2},  // 1 of 4 is less than 0.4
		{0, 1},  // nothing
		{-1, 1}, // 1 is the least
		{4, 1},  // nobody was played
		{0, 2},
	} {
		n := int64(i + 1)
		f.half()
		d := f.logged(n)
		if d.Level != c.level || s.asked[len(s.asked)-1].Level != c.level {
			t.Errorf("period %d: level %d, asked for %d, want %d (%+v)", n, d.Level, s.asked[len(s.asked)-1].Level, c.level, d.Reached)
		}
		if before := f.logged(n - 1).Level; d.Before != before {
			t.Errorf("period %d follows level %d, the set before has %d", n, d.Before, before)
		}
		if i == 6 {
			if d.Reached != nil {
				t.Errorf("nobody was played on set %d: %+v", n-1, d.Reached)
			}
		} else if r := d.Reached; r == nil || r.Submission != champion.ID || r.Solved != solved || r.Tasks != 4 || r.Period != n-1 || r.Level != d.Before {
			t.Errorf("period %d: %+v, want %d solved", n, r, solved)
		}
		body, err := json.Marshal(d)
		must(t, err)
		var out bytes.Buffer
		if bad, err := calc.New(seeds.Rules()...).Run("set.difficulty", bytes.NewReader(body), &out); bad > 0 || err != nil || !strings.Contains(out.String(), fmt.Sprintf(`"level":%d`, d.Level)) {
			t.Errorf("agon calc says %s of %s: %v", &out, body, err)
		}
		f.turn()
		if solved = c.solved; solved >= 0 {
			play()
		}
	}
	list, err := f.Seeds(bg, "turning")
	must(t, err)
	if len(list) < 2 || list[1].Difficulty == nil || list[1].Difficulty.Rule.Target != 0.5 {
		t.Errorf("the periods show %+v", list)
	}
}

// Who sits makes the next set no easier by losing the plays on the new set that nothing
// hangs on: the pairs in which it defends its seat count too.
func TestDifficultyIsNotThrownAway(t *testing.T) {
	s := &shelf{have: 60, uses: 1}
	f := levelled(t, s, func(c *Config, _ *agon.Arena) {
		c.Incentives[incentive.PairedRule] = incentive.Paired()
		c.Kinds["script"] = &scriptKind{}
	})
	f.arena.Incentive, f.arena.MaxLeases, f.arena.IncentiveNumbers = incentive.PairedRule, 4, lone()
	must(t, f.EnsureArena(bg, f.arena))
	champion := f.send(miner1, "champion")
	f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 1 })
	if d := f.decision(champion.ID); d.Outcome != agon.TookSeat {
		t.Fatalf("%+v", d)
	}
	f.half()
	f.turn()
	f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 0 })
	for i := range 4 { // their pairs draw tasks: of so many, each task has several
		challenger := f.send(miner2, fmt.Sprint("challenger ", i))
		f.rounds([]string{val1}, func(_ string, l *client.Lease) float64 {
			if l.Submission.ID == champion.ID || !l.Run.Half() {
				return 1
			}
			return 0
		})
		if d := f.decision(challenger.ID); d.Outcome != agon.KeptSeat || d.Numbers["pairs"] < 12 {
			t.Fatalf("%+v", d)
		}
	}
	f.half()
	if d := f.logged(2); d.Before != 3 || d.Level != 3 || d.Reached == nil || d.Reached.Solved < 2 {
		t.Errorf("%+v %+v", d, d.Reached)
	}
}

// Periods that pass while nothing runs have no set; the next one follows the last that had one.
func TestDifficultyOutlivesAGap(t *testing.T) {
	s := &shelf{have: 60, uses: 1}
	f := levelled(t, s)
	must(t, f.EnsureArena(bg, f.arena))
	f.send(miner1, "champion")
	f.playAll(val1, func(*client.Lease) float64 { return 1 })
	f.clock.add(10 * 24 * time.Hour)
	must(t, f.EnsureArena(bg, f.arena))
	f.read(func(tx *store.Tx) error {
		list, err := tx.Periods("turning", 2)
		if now := list[len(list)-1]; err != nil || now.N < 2 || now.Difficulty == nil || now.Difficulty.Level != 3 || now.Difficulty.Before != 2 || now.Difficulty.Reached == nil || now.Difficulty.Reached.Period != 0 {
			t.Errorf("%d: %+v %v", now.N, now.Difficulty, err)
		}
		return err
	})
}

// A set that blocks count is drawn in the second half of its blocks.
func TestDifficultyByBlocks(t *testing.T) {
	s := &shelf{have: 60, uses: 1}
	l := &blocks{newest: 100}
	f := levelled(t, s)
	l.Ledger, f.cfg.Ledger = f.cfg.Ledger, l
	f.arena.Period = &agon.Period{Blocks: 50}
	must(t, f.EnsureArena(bg, f.arena))
	for i, block := range []uint64{124, 125} {
		l.newest = block
		must(t, f.rotate(bg))
		if len(s.asked) != 1+i {
			t.Errorf("block %d: %d sets are drawn, want %d", block, len(s.asked), 1+i)
		}
	}
}

// What is wrong with the difficulty of an arena is said with its field.
func TestBadDifficulty(t *testing.T) {
	f := levelled(t, &shelf{have: 9, uses: 1})
	band := func(x float64) *float64 { return &x }
	for want, d := range map[string]agon.Difficulty{
		"difficulty.least: 0":                   {Most: 3, Target: 0.5},
		"difficulty.most: 1":                    {Least: 2, Most: 1, Target: 0.5},
		"difficulty.first: 4":                   {Least: 1, Most: 3, First: 4, Target: 0.5},
		"difficulty.target: 1":                  {Least: 1, Most: 3, Target: 1},
		"difficulty.target: 0:":                 {Least: 1, Most: 3},
		"difficulty.band: -1":                   {Least: 1, Most: 3, Target: 0.5, Band: band(-1)},
		"a set that is solved whole":            {Least: 1, Most: 3, Target: 0.9},
		"a set of which nothing is solved":      {Least: 1, Most: 3, Target: 0.3, Band: band(0.3)},
		"only what a generator makes has level": {Least: 1, Most: 3, Target: 0.5},
	} {
		a := f.arena
		x := *a.Supply
		x.Difficulty = &d
		if strings.HasPrefix(want, "only") {
			x.From = agon.SupplyDirectory
		}
		a.Supply = &x
		if err := f.EnsureArena(bg, a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
