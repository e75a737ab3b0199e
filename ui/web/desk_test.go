package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

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

// A desk says how often its key may still enter, and when it may again.
func TestQuotas(t *testing.T) {
	now := time.Unix(10_000_000, 0)
	arena := func(id string, cap, pause int) client.Arena {
		return client.Arena{Arena: agon.Arena{ID: id, State: agon.ArenaOpen, SubmissionsPerColdkey: cap, CooldownSeconds: pause}}
	}
	sub := func(arena string, ago time.Duration) client.Submission {
		return client.Submission{Submission: agon.Submission{Arena: arena, CreatedAt: now.Add(-ago)}}
	}
	closed := arena("closed", 1, 1)
	closed.State = agon.ArenaClosed
	got := quotas([]client.Arena{arena("free", 0, 0), arena("capped", 2, 0), arena("paused", 5, 600), closed}, []client.Submission{
		sub("capped", time.Hour), sub("capped", 20*time.Hour), sub("capped", 30*time.Hour), sub("paused", time.Minute), sub("free", time.Minute),
	}, now)
	want := []quota{{Arena: "capped", Used: 2, Of: 2, Next: now.Add(4 * time.Hour)}, {Arena: "paused", Used: 1, Of: 5, Next: now.Add(9 * time.Minute)}}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The feed of a miner has the decisions on its submissions, and nobody else's.
func TestMinerFeed(t *testing.T) {
	f := newFixture(t, agon.TaskRef{Key: "small/one"})
	f.submit(miner, "mine & <b>", "x = 1")
	f.submit(rival, "theirs", "x = 2")
	for l := f.claim(); l != nil; l = f.claim() {
		f.score(l, 1, "")
	}
	status, feed := f.get(f.browser(""), "/miners/"+miner+"/feed.atom")
	if status != 200 || !strings.Contains(feed, "mine &amp; &lt;b&gt; in demo") || strings.Contains(feed, "theirs") {
		t.Errorf("%d %s", status, feed)
	}
	if status, desk := f.get(f.browser(miner), "/desk"); status != 200 || !strings.Contains(desk, `href="/miners/`+miner+`/feed.atom"`) {
		t.Errorf("%d: the desk does not lead to the feed", status)
	}
}
