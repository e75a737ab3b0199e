package platform

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/engine/incentive"
)

// deedKind is a kind whose evidence says what was done, step after step.
type deedKind struct{ fakeKind }

func (k *deedKind) Deeds(read func(name string) ([]byte, error)) ([]string, error) {
	b, err := read("done")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(b)), err
}

// A copy in other words asks models otherwise and does the same: it is charged with the
// champion. It is not where most do the same, or too few others have played.
func TestDeedsAreClustered(t *testing.T) {
	alone := func(i int) func(string) string {
		return func(task string) string {
			return fmt.Sprintf("list %s-%d-a %s-%d-b %s-%d-c read", task, i, task, i, task, i)
		}
	}
	plain := func(string) string { return "list read read write" }
	begin := func(champion func(string) string) (f *fixture, attempt func(does func(string) string) float64) {
		own := lone()
		own[incentive.NumMaxPairs] = 20 // few plays are enough here
		f = pairedArena(t, 3, own)
		f.cfg.Kinds[f.arena.Kind] = &deedKind{}
		did, first, n := map[string]func(task string) string{}, "", 0
		attempt = func(does func(string) string) float64 {
			t.Helper()
			n++
			miner := fmt.Sprint("m", n)
			f.ledger.coldkey[miner] = fmt.Sprint("c", n)
			s, err := f.Submit(bg, Caller{Hotkey: miner}, "demo", pyRequest(agentText(n)))
			must(t, err)
			if first == "" {
				first = s.ID
			}
			did[s.ID] = does
			for l := f.claim(val1); l != nil; l = f.claim(val1) {
				value := 0.1
				if l.Submission.ID == first {
					value = 1
				}
				r := scored(l, value)
				task := l.Run.Tasks[0].Key
				r.Receipts = []agon.Receipt{{ID: l.ID, Task: task, RequestHash: agon.Sum([]byte(l.Submission.ID + task)), Outcome: "ok"}}
				r.Evidence, err = blob.PutFiles(bg, under{f, val1, l.ID}, []blob.File{{Path: "done", Content: []byte(did[l.Submission.ID](task))}}, blob.TreeLimits{})
				must(t, err)
				f.result(val1, l, r)
			}
			return f.decision(s.ID).Numbers["attempt"]
		}
		attempt(champion)
		if f.decision(first).Outcome != agon.TookSeat {
			t.Fatal("the first does not sit")
		}
		return f, attempt
	}
	f, attempt := begin(alone(0))
	for i := range 4 { // the first does as the champion, before enough others have played
		if got := attempt(alone(i)); got != 1 {
			t.Errorf("agent %d: attempt %v", i, got)
		}
	}
	if got := attempt(alone(0)); got != 2 {
		t.Errorf("the same deeds: attempt %v", got)
	}
	f.deeds.of = nil // as after a restart: the evidence is read again
	if got := attempt(alone(0)); got != 3 {
		t.Errorf("the same deeds, read again: attempt %v", got)
	}
	_, attempt = begin(plain)
	for range 4 {
		if got := attempt(plain); got != 1 {
			t.Errorf("what many do: attempt %v", got)
		}
	}
}
