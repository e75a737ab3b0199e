package web

import (
	"net/http"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// A desk shows its own key's work, and nobody else's.
func TestDesk(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"})
	f.submit("miner", "theirs<b>", "a")
	f.score(f.claim(), 1, "")
	f.submit("rival", "mine", "b")
	f.score(f.claim(), 0.75, "")

	if code, page := f.get(f.browser(""), "/desk"); code != http.StatusUnauthorized || !strings.Contains(page, "agon web login") {
		t.Errorf("a stranger's desk: %d %s", code, page)
	}
	_, page := f.get(f.browser("rival"), "/desk")
	for _, want := range []string{">mine</a>", "What to try next", "Nearly there:", "small/one", "0.7500 against 1.0000", "1 submission in the last day", "does better on 1 task"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the desk: %s", want, page)
		}
	}
	if strings.Contains(page, "theirs") || strings.Contains(page, "As a validator") {
		t.Errorf("a miner's desk shows another's work: %s", page)
	}
	if _, page = f.get(f.browser("miner"), "/desk"); strings.Contains(page, ">mine</a>") || strings.Contains(page, "does better") || !strings.Contains(page, "earns 100 %") {
		t.Errorf("the champion's desk: %s", page)
	}
	_, page = f.get(f.browser(player), "/desk")
	for _, want := range []string{"As a validator", "Your word counts", "/arenas/demo/validators", "7.7.7", "You have entered nothing yet"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the validator's desk: %s", want, page)
		}
	}
}

func TestGaps(t *testing.T) {
	own, champion := map[string]float64{}, map[string]float64{}
	for i, v := range []float64{0, 0.2, 0.5, 0.9, 0.99, 1} {
		own[string(rune('a'+i))], champion[string(rune('a'+i))] = v, 0.9
	}
	n := gaps(own, champion)
	names := func(list []taskGap) (out string) {
		for _, g := range list {
			out += g.Task
		}
		return out
	}
	if names(n.Hair) != "edc" || names(n.Behind) != "abc" || n.Lost != 3 {
		t.Errorf("nearly there %q, behind %q of %d", names(n.Hair), names(n.Behind), n.Lost)
	}
	var slow []client.Run
	for range deskTasks + 3 {
		slow = append(slow, client.Run{Run: agon.Run{Fault: agon.FaultAgent, Reason: "timeout"}, List: []agon.Attempt{{CostMicros: 5}}})
	}
	out, costly := dear(slow)
	if len(out) != deskTasks || len(costly) != 3 || costly[0].Share != 1/float64(len(slow)) {
		t.Errorf("%d slow, %d costly, %v", len(out), len(costly), costly)
	}
	if p := placeOf([]store.ValidatorStat{{Validator: "a", Version: "1"}, {Validator: "b", Version: "2"}}, "b"); p == nil || p.Versions != "1 (1)" {
		t.Errorf("place %+v", p)
	}
}
