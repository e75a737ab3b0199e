package roles_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/client"
)

// stockName is what a word's place says where it is the name of the set.
const stockName = "the name of its set"

// rotating is a claim arena whose hidden claims come out of a stock of four, one a day. Its agent is right about
// the open ones, so that it sits and is played on each new set, and carries out all it sees.
func rotating() smuggler {
	list := smugglers()
	s := list[slices.IndexFunc(list, func(s smuggler) bool { return s.kind == "claim" })]
	s.supply, s.after, s.seen = true, nil, 3
	s.agent = pythonAgent("agent.py", strings.NewReplacer(
		"    if 0 in values:\n        raise ValueError(text)\n", "    if \"zqcanar\" + \"y\" in text and 0 in values:\n        raise ValueError(text)\n",
		"values[0]", "values[-1]").Replace(claimAgent))
	return s
}

// TestCanaryRotation reads everything as everybody before and after the set of an arena rotates.
// Before, what is played and what is committed for the next period is hidden. After, the old set is
// public, the present one and the next are not.
func TestCanaryRotation(t *testing.T) {
	list := []smuggler{rotating()}
	w := play(t, list)
	w.few = true
	op := w.client(w.parties["operator"].Hotkey)
	// set is the task of the present period.
	set := func() string {
		t.Helper()
		a, err := op.Arena(t.Context(), "walk-claim")
		if err != nil {
			t.Fatal(err)
		}
		if a.Seeds == nil || len(a.Seeds.NextTasks) != 1 {
			t.Fatalf("no set is committed for the next period: %+v", a.Seeds)
		}
		tasks, err := op.ArenaTasks(t.Context(), "walk-claim")
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range tasks { // the operator knows them by their digests
			if x.Hidden && !x.Retired && x.Exposure.Plays > 0 {
				return w.taskOf[x.Digest]
			}
		}
		t.Fatalf("no hidden task is played: %+v", tasks)
		return ""
	}
	first := set()
	t.Run("before", func(t *testing.T) { w.as(t).readAll(list) })

	w.skew.Store(int64(25 * time.Hour))
	w.turned(op)
	second := set()
	t.Logf("the first set is %s, the second %s", first, second)
	if second == first {
		t.Fatalf("%s is played in two periods", first)
	}
	w.open[first], w.open[stockName] = true, true // the name of a task that is public has the stock's in it
	t.Run("after", func(t *testing.T) { w.as(t).readAll(list) })
	w.quiet()
}

// turned waits until the first set is public and who sits has been played on the second.
func (w *walk) turned(op *client.Client) {
	w.t.Helper()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-w.t.Context().Done():
			w.t.Fatal("the set was not turned in time")
		case <-look.C:
		}
		list, err := op.Seeds(w.t.Context(), "walk-claim")
		if err != nil {
			w.t.Fatal(err)
		}
		if !slices.ContainsFunc(list, func(p client.SeedPeriod) bool { return p.Period == 0 && p.PublishedAt != nil }) {
			continue
		}
		runs, err := op.Runs(w.t.Context(), "walk-claim", "", "", client.ListOptions{Limit: 100})
		if err != nil {
			w.t.Fatal(err)
		}
		titles := 0
		for _, r := range runs.Items {
			if !r.State.Final() {
				titles = -100
			}
			if r.Title != nil {
				titles++
			}
		}
		if titles > 0 {
			return
		}
	}
}
