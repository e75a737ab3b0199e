package copycat

import "slices"

// Bounds of the measure by deeds.
const (
	// LeastOthers is how many unrelated submissions must have played a task before
	// anything is said of it: all good work on an easy task looks the same.
	LeastOthers = 3
	// LeastTelling is how many tasks must tell two submissions apart from the others.
	LeastTelling = 3
	// telling is how many pairs of steps that are not common both must have in a task, else it tells nothing.
	telling = 3
	// sameDeeds is the share of the smaller one's that both must have done: a step more hides no copy.
	sameDeeds = 0.8
)

// Deeds compares what two submissions did on the tasks that both have played, by
// pairs of one step and the next; others are what unrelated submissions did there.
// A pair that more than a quarter of the others has as well says nothing. It returns
// on how many tasks the rest tells anything, and the share of these on which the two
// did the same. A step is a call of a tool with its arguments and what came of it: the
// same policy in other words has the same steps.
func Deeds(a, b map[string][]string, others []map[string][]string) (same float64, tasks int) {
	n := 0
	for task, x := range a {
		y := b[task]
		if len(x) == 0 || len(y) == 0 {
			continue
		}
		common, played := map[[2]string]int{}, 0
		for _, o := range others {
			if len(o[task]) == 0 {
				continue
			}
			played++
			for p := range steps(o[task]) {
				common[p]++
			}
		}
		if played < LeastOthers {
			continue
		}
		left, right := rare(x, common, played), rare(y, common, played)
		few := min(len(left), len(right))
		if few < telling {
			continue
		}
		both := 0
		for p := range left {
			if right[p] {
				both++
			}
		}
		tasks++
		if float64(both) >= sameDeeds*float64(few) {
			n++
		}
	}
	if tasks == 0 {
		return 0, 0
	}
	return float64(n) / float64(tasks), tasks
}

// rare are the pairs of a sequence that at most a quarter of the others has as well.
func rare(list []string, common map[[2]string]int, played int) map[[2]string]bool {
	out := steps(list)
	for p := range out {
		if common[p]*4 > played {
			delete(out, p)
		}
	}
	return out
}

// steps are the pairs of a sequence, with its beginning and its end.
func steps(list []string) map[[2]string]bool {
	out := make(map[[2]string]bool, len(list)+1)
	last := ""
	for _, s := range slices.Concat(list, []string{""}) {
		out[[2]string{last, s}] = true
		last = s
	}
	return out
}
