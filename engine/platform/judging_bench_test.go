package platform

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

// BenchmarkJudgedAgain plays submissions of 20 tasks at an arena that judges the
// default share again. It tells which part of the runs was judged again, what one
// judging costs the platform beside one play (claim and result of each, medians of
// processor time), and so by how much the plays cost more. What the second
// validator does in boxes is the judging of the first once more.
func BenchmarkJudgedAgain(b *testing.B) {
	const tasks = 20
	f := strangers(b, tasks, agon.DefaultRejudge, func(_ *Config, a *agon.Arena) { a.SubmissionsPerColdkey = 0 })
	var plays, judgings []time.Duration
	for n := 0; b.Loop(); n++ {
		f.judgeClaim(val2) // seen: only then is anything drawn for it
		f.submit(miner1, fmt.Sprintf("code %d", n))
		for range tasks {
			plays = append(plays, processor(b, func() { f.play(val1, 0) }))
		}
		for more := true; more; {
			used := processor(b, func() {
				l := f.judgeClaim(val2)
				if more = l != nil; more {
					f.judgeAs(val2, l, 0)
				}
			})
			if more {
				judgings = append(judgings, used)
			}
		}
		f.clock.add(25 * time.Hour) // a day's budget of judgings
	}
	if len(judgings) == 0 {
		b.Fatal("nothing was judged again: too few submissions for the share")
	}
	slices.Sort(plays)
	slices.Sort(judgings)
	part := float64(len(judgings)) / float64(len(plays))
	each := float64(judgings[len(judgings)/2]) / float64(plays[len(plays)/2])
	b.ReportMetric(100*part, "%-judged-again")
	b.ReportMetric(each, "judging/play")
	b.ReportMetric(100*part*each, "%-more")
}
