package agon

import (
	"fmt"
	"math"
	"time"
)

// Supply is where the sets of an arena come from: for every set period so many
// tasks, hidden until it has ended, and committed to before it begins.
type Supply struct {
	From  string `json:"from" toml:"from"`   // one of Supplies
	Tasks int    `json:"tasks" toml:"tasks"` // of a set
	// Uses is in how many periods a task of a bank serves before it is published;
	// 0: DefaultUses. Tasks of the other supplies serve once.
	Uses int `json:"uses,omitempty" toml:"uses"`
	// Beacon is what sets are drawn by besides the period's secret: "", nothing, or BeaconDrand.
	Beacon string `json:"beacon,omitempty" toml:"beacon"`
	// Entries is on which set a submission is played: "", that of the period in which it came,
	// or EntriesNext.
	Entries string `json:"entries,omitempty" toml:"entries"`
	// Difficulty says how hard the sets are that a generator makes; nil: as the kind likes.
	Difficulty *Difficulty `json:"difficulty,omitempty" toml:"difficulty"`
}

// EntriesNext: a submission waits for the next period and is played on its set. Validators read
// the tasks of a set to play them; what they tell a miner is of no use to an entry that came before.
const EntriesNext = "next"

// BeaconDrand: a set is drawn by the period's secret and a round of drand's quicknet that
// comes DrandOffset after the commitment of the secret, so that the operator
// does not know the set when the secret is committed to.
const (
	BeaconDrand = "drand"
	DrandOffset = 30 * time.Second
)

// Supplies.
const (
	SupplyDirectory = "directory" // a folder of tasks, each of which serves once
	SupplyGenerator = "generator" // the kind makes them from a seed that nobody knows before
	SupplyBank      = "bank"      // tasks that may come again, those first that were seen least
	SupplyFeed      = "feed"      // the kind makes them of what was published lately
)

// Supplies are the places that the sets of an arena may come from.
func Supplies() []string { return []string{SupplyDirectory, SupplyGenerator, SupplyBank, SupplyFeed} }

// DefaultUses is in how many periods a task of a bank serves.
const DefaultUses = 3

// MostSetTasks bounds the tasks of a set.
const MostSetTasks = 400

// Difficulty is how hard the sets of an arena are: a level of the kind's generator, which
// follows what the champion reached. The first set has the level First. A later set has the
// level of the set before it, and one more where the champion solved more than Target and Band
// of that set, one less where it solved less than Target without Band.
type Difficulty struct {
	Least  int      `json:"least" toml:"least"`
	Most   int      `json:"most" toml:"most"`
	First  int      `json:"first,omitempty" toml:"first"` // 0: Least
	Target float64  `json:"target" toml:"target"`         // share of a set's tasks, above 0 and below 1
	Band   *float64 `json:"band,omitempty" toml:"band"`   // nil: DefaultBand
}

// DefaultBand is the band of a Difficulty that names none.
const DefaultBand = 0.1

// Reached is how much of a set the champion solved: the best of those who sit, of whom a task
// is solved that more than half of their counted plays on it solved.
type Reached struct {
	Period     int64  `json:"period"`
	Level      int    `json:"level"` // of its set
	Submission string `json:"submission"`
	Solved     int    `json:"solved"`
	Tasks      int    `json:"tasks"` // of the set
}

// SetDifficulty is the level of a period's set and what it follows from: by Rule, from the
// Level of the set before and what the champion Reached there; nil: it was not played on it.
type SetDifficulty struct {
	Level   int        `json:"level"`
	Rule    Difficulty `json:"rule"`
	Before  int        `json:"before,omitempty" doc:"the level of the set before"`
	Reached *Reached   `json:"reached,omitempty" doc:"what the champion solved of the set before; absent: nobody who sits was played on it"`
}

// Sentence says the level and what it follows from.
func (x SetDifficulty) Sentence() string {
	s := fmt.Sprintf("level %d of %d to %d", x.Level, x.Rule.Least, x.Rule.Most)
	switch r := x.Reached; {
	case x.Before == 0:
		return s + ", the first"
	case r == nil:
		return s + fmt.Sprintf(", as level %d before: no champion was played there", x.Before)
	default:
		return s + fmt.Sprintf(": the champion solved %d of %d at level %d, where %.0f %% are the target", r.Solved, r.Tasks, x.Before, 100*x.Rule.Target)
	}
}

// parts are target and band in millionths, in which every machine compares the same.
func (d Difficulty) parts() (target, band int64) {
	of := func(x float64) int64 { return int64(math.Round(x * 1e6)) }
	if d.Band == nil {
		return of(d.Target), of(DefaultBand)
	}
	return of(d.Target), of(*d.Band)
}

// Start is the level of the first set.
func (d Difficulty) Start() int {
	if d.First == 0 {
		return d.Least
	}
	return d.First
}

// Next is the level of the set after one of a level, of whose tasks so many were solved. With
// no tasks (no champion was played on it) the level stays. The result is within the bounds in any
// case: an arena may have other ones by now.
func (d Difficulty) Next(level, solved, tasks int) int {
	target, band := d.parts()
	switch n := int64(solved) * 1e6; {
	case tasks <= 0:
	case n > (target+band)*int64(tasks):
		level++
	case n < (target-band)*int64(tasks):
		level--
	}
	return min(max(level, d.Least), d.Most)
}

// Mistake names the field of a difficulty that is wrong for a generator of so many levels,
// and says how; "": none is.
func (d Difficulty) Mistake(levels int) (field, message string) {
	target, band := d.parts()
	switch {
	case d.Least < 1 || d.Least > levels:
		return "least", fmt.Sprintf("%d: want 1 to %d", d.Least, levels)
	case d.Most < d.Least || d.Most > levels:
		return "most", fmt.Sprintf("%d: want %d (least) to %d", d.Most, d.Least, levels)
	case d.First != 0 && (d.First < d.Least || d.First > d.Most):
		return "first", fmt.Sprintf("%d: want %d to %d, or leave it out", d.First, d.Least, d.Most)
	case !(d.Target > 0 && d.Target < 1):
		return "target", fmt.Sprintf("%v: want a share of the set's tasks above 0 and below 1", d.Target)
	case d.Band != nil && !(*d.Band >= 0 && *d.Band < 1):
		return "band", fmt.Sprintf("%v: want 0 or more and below 1", *d.Band)
	case target+band >= 1e6:
		return "target", fmt.Sprintf("%v and the band %v: a set that is solved whole would not raise the level", d.Target, float64(band)/1e6)
	case target-band <= 0:
		return "target", fmt.Sprintf("%v without the band %v: a set of which nothing is solved would not lower the level", d.Target, float64(band)/1e6)
	}
	return "", ""
}
