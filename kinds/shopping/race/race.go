// Package race holds the parts of a race: a qualifying suite that everybody can
// read, then problems that nobody has seen. The law of the bar is package play's.
// It is pure.
package race

import (
	"errors"
	"math"
	"slices"

	"github.com/agon-arena/agon/engine/incentive"
)

// Progress is how far a submission is through a list of problems.
type Progress struct {
	Total  int     // problems of the list
	Played int     // of them with a result
	Sum    float64 // of the results, each 0..1
}

// Score is the mean over the whole list: what was not played counts as missed.
func (p Progress) Score() float64 {
	if p.Total == 0 {
		return 0
	}
	return p.Sum / float64(p.Total)
}

// Bound is the most that Score can still become: full marks for everything
// that is open. It never grows while results come in.
func (p Progress) Bound() float64 {
	if p.Total == 0 {
		return 0
	}
	return (p.Sum + float64(p.Total-p.Played)) / float64(p.Total)
}

// Stage is where a submission stands in a race.
type Stage string

// Stages of a submission. Each but the first two is an end.
const (
	StageQualifying Stage = "qualifying"
	StageRacing     Stage = "racing"
	StageFailed     Stage = "not_qualified" // below the qualifying score
	StageEliminated Stage = "eliminated"    // stopped: it could not win any more
	StageFinished   Stage = "finished"      // every hidden problem has a result
)

// Limits decide a submission's stage.
type Limits struct {
	Qualify float64  // the qualifying score
	Least   *float64 // the lowest bar that could ever be asked; nil: nobody leads
}

// Stage tells where a submission with these results stands. Results only come
// in, so a stage only moves forward, and none is left once it is final.
func (l Limits) Stage(public, hidden Progress) Stage {
	switch {
	case public.Played < public.Total:
		return StageQualifying
	case public.Total > 0 && public.Score() < l.Qualify:
		return StageFailed
	case hidden.Played == hidden.Total:
		return StageFinished
	case l.Least != nil && hidden.Bound() < *l.Least-incentive.Tolerance:
		return StageEliminated
	}
	return StageRacing
}

// State is a race as everybody sees it.
type State string

// States of a race.
const (
	Qualifying State = "QUALIFYING_OPEN" // entries are taken, nobody has raced
	Running    State = "RACE_RUNNING"    // a hidden problem has been given to somebody
	Complete   State = "RACE_COMPLETE"   // its hidden problems are retired; nothing of it changes
)

// States are the transitions of a race: forward only.
var States = map[State][]State{
	Qualifying: {Running, Complete},
	Running:    {Complete},
	Complete:   nil,
}

// ShowsHidden reports whether the hidden problems of a race may be read by
// everybody.
func (s State) ShowsHidden() bool { return s == Complete }

// Gap compares how often a submission solves what everybody can read with how
// often it solves what nobody has seen.
type Gap struct {
	Public float64 `json:"public"` // share solved
	Hidden float64 `json:"hidden"`
	Gap    float64 `json:"gap"` // public − hidden
	SE     float64 `json:"se"`  // standard error of the gap, of two binomials
	Alarm  bool    `json:"alarm"`
}

// Numbers of the alarm.
const (
	GapLeast = 0.2 // share: smaller gaps are no reason to look
	GapZ     = 2.0 // standard errors: nor are those that chance makes
)

// Memorised tells whether the gap asks for a look: at least GapLeast, and more
// than GapZ standard errors. Both lists need results, else there is no alarm.
// The error of a share is taken around the pooled share with one success and
// one failure added, so that full marks on few problems are not certainty.
func Memorised(publicSolved, publicTotal, hiddenSolved, hiddenTotal int) (Gap, error) {
	if publicSolved < 0 || hiddenSolved < 0 || publicSolved > publicTotal || hiddenSolved > hiddenTotal {
		return Gap{}, errors.New("solved problems: want from 0 to the total")
	}
	if publicTotal == 0 || hiddenTotal == 0 {
		return Gap{}, nil
	}
	n, m := float64(publicTotal), float64(hiddenTotal)
	g := Gap{Public: float64(publicSolved) / n, Hidden: float64(hiddenSolved) / m}
	pool := (float64(publicSolved+hiddenSolved) + 1) / (n + m + 2)
	g.Gap, g.SE = g.Public-g.Hidden, math.Sqrt(pool*(1-pool)*(1/n+1/m))
	g.Alarm = g.Gap >= GapLeast-incentive.Tolerance && g.Gap > GapZ*g.SE
	return g, nil
}

// Noise is the measured standard error of a score over tasks that were played
// several times: what a second play of the same files would differ by. ok is
// false where nothing was played twice.
func Noise(plays []incentive.Play) (se float64, ok bool) {
	byTask := map[string][]float64{}
	for _, p := range plays {
		byTask[p.Task] = append(byTask[p.Task], p.Value)
	}
	names := make([]string, 0, len(byTask))
	for k := range byTask {
		names = append(names, k)
	}
	slices.Sort(names) // sums of floats depend on the order
	var sum float64
	for _, name := range names {
		v := byTask[name]
		if len(v) < 2 {
			continue
		}
		ok = true
		var mean, ss float64
		for _, x := range v {
			mean += x
		}
		mean /= float64(len(v))
		for _, x := range v {
			ss += (x - mean) * (x - mean)
		}
		sum += ss / float64(len(v)-1) / float64(len(v))
	}
	if !ok {
		return 0, false
	}
	return math.Sqrt(sum) / float64(len(byTask)), true
}
