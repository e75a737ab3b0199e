package copycat

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// agent plays tasks: a few steps that the task asks of everybody, in its own
// order, with other looks in between.
func agent(seed uint64, tasks int) map[string][]string {
	out := map[string][]string{}
	for t := range tasks {
		r := rand.New(rand.NewPCG(seed, uint64(t)))
		need := []string{"mail list", "calendar", "tasks", "chat general", "read 1", "read 2", "notes"}
		r.Shuffle(len(need), func(i, j int) { need[i], need[j] = need[j], need[i] })
		for range r.IntN(3) {
			need = slices.Insert(need, r.IntN(len(need)), fmt.Sprintf("read %d", 3+r.IntN(6)))
		}
		out[fmt.Sprint("task", t)] = need
	}
	return out
}

// The same steps are a copy, unrelated agents are none, and what everybody does says nothing.
func TestDeeds(t *testing.T) {
	const tasks = 6
	var all []map[string][]string
	for i := range 24 {
		all = append(all, agent(uint64(i), tasks))
	}
	without := func(i, j int) (out []map[string][]string) {
		for k, a := range all {
			if k != i && k != j && len(out) < 8 {
				out = append(out, a)
			}
		}
		return out
	}
	for i := range all {
		for j := range i {
			if same, n := Deeds(all[i], all[j], without(i, j)); n >= LeastTelling && same >= 0.5 {
				t.Errorf("agents %d and %d: %v of %d tasks", i, j, same, n)
			}
		}
	}
	// A copy that looks something up once more in each task, and one with another order in one task.
	copied := map[string][]string{}
	for task, s := range all[0] {
		copied[task] = append(slices.Clone(s), "read 9")
	}
	if same, n := Deeds(all[0], copied, without(0, 0)); same < 0.8 || n != tasks {
		t.Errorf("a copy with one step more: %v of %d tasks", same, n)
	}
	copied = agent(0, tasks)
	slices.Reverse(copied["task0"])
	if same, n := Deeds(all[0], copied, without(0, 0)); same < 0.8 || n != tasks {
		t.Errorf("a copy that is another in one task: %v of %d tasks", same, n)
	}
	// Everybody does the same: nothing is said.
	easy := map[string][]string{}
	for i := range tasks {
		easy[fmt.Sprint("task", i)] = []string{"mail list", "calendar", "answer"}
	}
	if _, n := Deeds(easy, easy, []map[string][]string{easy, easy, easy}); n != 0 {
		t.Errorf("the work that all do the same way tells something on %d tasks", n)
	}
	// Too few others, or none that played it: nothing is known of what is common.
	if _, n := Deeds(all[0], all[0], all[1:3]); n != 0 {
		t.Errorf("with two others %d tasks tell something", n)
	}
	if same, n := Deeds(map[string][]string{"a": {"x"}}, map[string][]string{"b": {"x"}}, all); same != 0 || n != 0 {
		t.Errorf("other tasks: %v, %d", same, n)
	}
}
