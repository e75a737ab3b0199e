package platform

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// agentText is a script of its own for each seed, long enough to be compared.
func agentText(seed int) string {
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "def step_%d_%d(x):\n    value = call_%d(x.field_%d, key_%d=%q)\n    return value.part_%d + x[%q]\n", seed, i, i, seed*31+i, seed, fmt.Sprint("w", seed, i), seed*7+i, fmt.Sprint("k", seed*13+i))
	}
	return b.String()
}

func pyRequest(text string) client.SubmitRequest {
	return client.SubmitRequest{Name: "a", Licence: "MIT", Files: []client.File{{Path: "agent.py", Content: []byte(text)}}}
}

// Copies by other coldkeys are charged as attempts of one; who is unlike is not.
func TestClusterIsChargedAsOne(t *testing.T) {
	f := pairedArena(t, 3, lone())
	for i := range 6 {
		f.ledger.coldkey[fmt.Sprint("m", i)] = fmt.Sprint("c", i)
	}
	enter := func(miner, text string) string {
		t.Helper()
		s, err := f.Submit(bg, Caller{Hotkey: miner}, "demo", pyRequest(text))
		must(t, err)
		return s.ID
	}
	one := func(string, *client.Lease) float64 { return 1 }
	first := enter("m0", agentText(1))
	f.rounds([]string{val1}, one)
	var ids []string
	for i := 1; i <= 3; i++ {
		text := strings.ReplaceAll(agentText(1), "value", fmt.Sprint("v", i)) + fmt.Sprintf("if False:\n    z = %d\n", i)
		ids = append(ids, enter(fmt.Sprint("m", i), text))
		f.rounds([]string{val1}, one)
	}
	other := enter("m4", agentText(2))
	f.rounds([]string{val1}, one)
	if n := f.decision(first).Numbers["attempt"]; n != 1 {
		t.Errorf("the first is attempt %v", n)
	}
	for i, id := range ids {
		if n := f.decision(id).Numbers["attempt"]; n != float64(i+2) {
			t.Errorf("copy %d by another coldkey is attempt %v", i+1, n)
		}
		s, err := f.Submission(bg, Caller{Hotkey: fmt.Sprint("m", i+1)}, id)
		must(t, err)
		if !strings.Contains(fmt.Sprint(s.Findings), FindingCluster) || !strings.Contains(fmt.Sprint(s.Findings), first) && i == 0 {
			t.Errorf("findings %+v", s.Findings)
		}
	}
	if n := f.decision(other).Numbers["attempt"]; n != 1 {
		t.Errorf("an agent of its own is attempt %v", n)
	}
	// The index is read again from the store.
	f.clusters.of = nil
	late := enter("m5", agentText(2)+"# more\nq = 1\n")
	f.rounds([]string{val1}, one)
	if n := f.decision(late).Numbers["attempt"]; n != 2 {
		t.Errorf("after a restart a copy is attempt %v", n)
	}
}

// Files that look different but ask models the same on the same tasks are of
// one cluster with the champion.
func TestBehaviourIsClustered(t *testing.T) {
	f := pairedArena(t, 6, lone())
	play := func(says func(id, task string) string) {
		for {
			l := f.claim(val1)
			if l == nil {
				return
			}
			r := scored(l, 1)
			task := l.Run.Tasks[0].Key
			r.Receipts = []agon.Receipt{{ID: l.ID, Task: task, RequestHash: agon.Sum([]byte(says(l.Submission.ID, task))), Outcome: "ok"}}
			f.result(val1, l, r)
		}
	}
	a := f.submit(miner1, agentText(1))
	play(func(_, task string) string { return "q" + task })
	if f.decision(a.ID).Outcome != agon.TookSeat {
		t.Fatal("the first does not sit")
	}
	b := f.submit(miner2, agentText(2))
	play(func(_, task string) string { return "q" + task })
	if n := f.decision(b.ID).Numbers["attempt"]; n != 2 {
		t.Errorf("the same requests: attempt %v", n)
	}
	f.ledger.coldkey["m3"] = "c3"
	s, err := f.Submit(bg, Caller{Hotkey: "m3"}, "demo", pyRequest(agentText(3)))
	must(t, err)
	play(func(id, task string) string { return id + task })
	if n := f.decision(s.ID).Numbers["attempt"]; n != 1 {
		t.Errorf("requests of its own: attempt %v", n)
	}
	f.read(func(tx *store.Tx) error {
		c, err := tx.ClusterOf(b.ID)
		if c != a.ID {
			t.Errorf("cluster %s of %s", c, a.ID)
		}
		return err
	})
}

// Where an arena says so, a near-copy shares what it earns with the public work
// that it was made of, and so does what its miner makes of it.
func TestNearCopiesShare(t *testing.T) {
	f := pairedArena(t, 3, lone())
	f.arena.NearCopies = agon.NearCopiesShare
	must(t, f.EnsureArena(bg, f.arena))
	for i := range 3 {
		f.ledger.coldkey[fmt.Sprint("m", i)] = fmt.Sprint("c", i)
	}
	skill := map[string]float64{}
	enter := func(miner, text string, is float64) *client.Submission {
		t.Helper()
		s, err := f.Submit(bg, Caller{Hotkey: miner}, "demo", pyRequest(text))
		must(t, err)
		skill[s.ID] = is
		f.rounds([]string{val1}, func(_ string, l *client.Lease) float64 { return skill[l.Submission.ID] })
		s, err = f.Submission(bg, Caller{Hotkey: miner}, s.ID)
		must(t, err)
		return s
	}
	copied := func(i int) string {
		return strings.ReplaceAll(agentText(1), "value", fmt.Sprint("v", i)) + fmt.Sprintf("if False:\n    z = %d\n", i)
	}
	first := enter("m0", agentText(1), 0.3)
	for i, is := range []float64{0.7, 1} {
		s := enter("m1", copied(i), is)
		b, err := f.Board(bg, "demo")
		must(t, err)
		if len(b.Seats) != 1 || b.Seats[0].Submission != s.ID || b.Seats[0].Share != 0.5 || b.Seats[0].Parent == nil || *b.Seats[0].Parent != (client.Parent{
			Submission: first.ID, Miner: "m0", Name: first.Name, Share: 0.5,
		}) {
			t.Fatalf("copy %d: %+v, %+v", i, b.Seats, s.Findings)
		}
		if !strings.Contains(b.Pays, "50 %") || !strings.Contains(b.Pays, "nearly is") {
			t.Errorf("pays: %q", b.Pays)
		}
	}
	if s := enter("m2", agentText(2), 1); slices.ContainsFunc(s.Findings, isCopyOfAnother) {
		t.Errorf("work of its own: %+v", s.Findings)
	}
}

// Where an arena says so, a near-copy of another coldkey's public work is kept
// out; one of work that nobody could read is charged, and so is one's own.
func TestNearCopiesAreExcluded(t *testing.T) {
	f := pairedArena(t, 3, lone())
	f.arena.NearCopies, f.arena.Embargo = agon.NearCopiesExclude, 24
	must(t, f.EnsureArena(bg, f.arena))
	for i := range 4 {
		f.ledger.coldkey[fmt.Sprint("m", i)] = fmt.Sprint("c", i)
	}
	copied := func(i int) string {
		return strings.ReplaceAll(agentText(1), "value", fmt.Sprint("v", i)) + fmt.Sprintf("if False:\n    z = %d\n", i)
	}
	enter := func(miner, text string) *client.Submission {
		t.Helper()
		s, err := f.Submit(bg, Caller{Hotkey: miner}, "demo", pyRequest(text))
		must(t, err)
		f.rounds([]string{val1}, func(string, *client.Lease) float64 { return 1 })
		s, err = f.Submission(bg, Caller{Hotkey: miner}, s.ID)
		must(t, err)
		return s
	}
	first := enter("m0", agentText(1))
	if s := enter("m1", copied(1)); s.State != agon.SubmissionScored || strings.Contains(fmt.Sprint(s.Findings), first.ID) {
		t.Errorf("a copy of what is under embargo: %s, %+v", s.State, s.Findings)
	}
	f.clock.add(25 * time.Hour)
	late := enter("m2", copied(2))
	if late.State != agon.SubmissionExcluded || !strings.Contains(late.ExcludedReason, "which is public") {
		t.Errorf("a copy of public work: %s, %q", late.State, late.ExcludedReason)
	}
	if s := enter("m2", copied(4)); s.State != agon.SubmissionExcluded || !strings.Contains(s.ExcludedReason, first.ID) {
		t.Errorf("an edit of one's own copy: %s, %q", s.State, s.ExcludedReason)
	}
	if s := enter("m0", copied(3)); s.State != agon.SubmissionScored {
		t.Errorf("one's own work: %s", s.State)
	}
	if s := enter("m3", agentText(2)); s.State != agon.SubmissionScored {
		t.Errorf("work of its own: %s", s.State)
	}
}
