package platform

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/engine/store"
)

// A hidden task shows as an id and a commitment; both stay over restarts of its
// arena, and the commitment is opened when the task is listed openly.
func TestHiddenTasksAreCommitted(t *testing.T) {
	f := newFixture(t, 3)
	f.arena.Tasks[0].Hidden, f.arena.Tasks[1].Hidden = true, true
	f.arena.ID = "fresh"
	names := []string{f.arena.Tasks[0].Key, f.arena.Tasks[1].Key}
	must(t, f.EnsureArena(bg, f.arena))
	a, err := f.Arena(bg, "fresh")
	must(t, err)
	if len(a.Hidden) != 2 || a.Tasks[2].Key != f.arena.Tasks[2].Key {
		t.Fatalf("%d commitments, tasks %+v", len(a.Hidden), a.Tasks)
	}
	b, err := json.Marshal(a)
	must(t, err)
	for i, n := range names {
		if !strings.HasPrefix(a.Tasks[i].Key, hiddenSet) || a.Tasks[i].Digest != "" || strings.Contains(string(b), `"`+n+`"`) || strings.Contains(string(b), f.arena.Tasks[i].Digest.Hex()) {
			t.Errorf("hidden task %d shows as %+v in %s", i, a.Tasks[i], b)
		}
	}
	for _, h := range a.Hidden {
		if h.Salt != "" || h.Digest != "" || h.Name != "" || h.RetiredAt != nil || h.Commitment == "" {
			t.Errorf("it is open: %+v", h)
		}
	}
	if f.arena.Tasks[0].Key != names[0] {
		t.Error("the caller's arena was changed")
	}
	// A restart changes neither id nor commitment.
	must(t, f.EnsureArena(bg, f.arena))
	again, err := f.Arena(bg, "fresh")
	must(t, err)
	if again.Tasks[0].Key != a.Tasks[0].Key || again.Hidden[0].Commitment != a.Hidden[0].Commitment {
		t.Errorf("after a restart %+v, before %+v", again.Tasks[0], a.Tasks[0])
	}
	// Only the operator reads names and digests.
	for _, c := range []Caller{{}, {Hotkey: miner1}, {Hotkey: val1}, {Hotkey: operator, Operator: true}} {
		list, err := f.ArenaTasks(bg, c, "fresh")
		must(t, err)
		if open := list[0].Digest != "" && list[0].Committed.Name == names[0] && list[0].Committed.Salt != ""; open != c.Operator {
			t.Errorf("as %+v: %+v %+v", c, list[0], list[0].Committed)
		}
	}
	got, err := f.TaskNames(bg, "fresh")
	must(t, err)
	if got[a.Tasks[1].Key] != names[1] {
		t.Errorf("names %v", got)
	}

	// One is listed openly, the other is retired without being played.
	id := a.Tasks[1].Key
	f.arena.Tasks[0].Hidden = false
	f.arena.Retired = []agon.TaskRef{{Key: names[1], Digest: f.arena.Tasks[1].Digest}}
	f.arena.Tasks = append(f.arena.Tasks[:1:1], f.arena.Tasks[2])
	f.clock.add(time.Hour)
	must(t, f.EnsureArena(bg, f.arena))
	a, err = f.Arena(bg, "fresh")
	must(t, err)
	for _, h := range a.Hidden {
		c, err := seeds.TaskCommitment(h.Salt, h.Digest)
		if err != nil || c != h.Commitment || h.RetiredAt == nil || h.Name == "" {
			t.Errorf("%+v does not open: %v", h, err)
		}
	}
	if len(a.Hidden) != 2 || a.Retired[0].Key != id || a.Tasks[0].Key != names[0] {
		t.Errorf("%+v, retired %+v, tasks %+v", a.Hidden, a.Retired, a.Tasks)
	}
	// Everybody reads what has retired.
	if _, err := f.Blob(bg, Caller{}, f.arena.Retired[0].Digest); err != nil {
		t.Errorf("a retired task: %v", err)
	}
	// What opens is in the log, once each.
	for typ, want := range map[string]int{store.FactTask: 2, store.FactRetired: 2} {
		n := 0
		must(t, f.cfg.Store.Read(bg, func(tx *store.Tx) error {
			for _, h := range a.Hidden {
				suffix := ""
				if typ == store.FactRetired {
					suffix = "/opened"
				}
				x, err := tx.Note("fresh/" + h.Task + suffix)
				if err != nil {
					return err
				}
				if opened := strings.Contains(string(x.Body), h.Salt); opened != (typ == store.FactRetired) {
					t.Errorf("%s says %s", typ, x.Body)
				}
				n++
			}
			return nil
		}))
		if n != want {
			t.Errorf("%d notes %s, want %d", n, typ, want)
		}
	}
}

// A name that stood outside before there were ids is kept, since results stand
// under it; two tasks of one content, and one that is played and retired, are refused.
func TestHiddenTaskNames(t *testing.T) {
	f := newFixture(t, 2)
	name := f.arena.Tasks[0].Key
	f.arena.Tasks[0].Hidden = true // it was open
	must(t, f.EnsureArena(bg, f.arena))
	a, err := f.Arena(bg, f.arena.ID)
	must(t, err)
	if a.Tasks[0].Key != name || len(a.Hidden) != 1 {
		t.Errorf("%+v, %d commitments", a.Tasks[0], len(a.Hidden))
	}
	twice := f.arena
	twice.Tasks = append([]agon.TaskRef{{Key: "small/other", Digest: twice.Tasks[0].Digest, Hidden: true}}, twice.Tasks...)
	if err := f.EnsureArena(bg, twice); err == nil || !strings.Contains(err.Error(), `tasks "small/other" and "`+name+`": their content is the same`) {
		t.Errorf("two tasks of one content: %v", err)
	}
	twice.Tasks = f.arena.Tasks
	twice.Retired = []agon.TaskRef{{Key: "old/one", Digest: twice.Tasks[0].Digest}}
	if err := f.EnsureArena(bg, twice); err == nil || !strings.Contains(err.Error(), "their content is the same") {
		t.Errorf("a task that is played and retired: %v", err)
	}
}

// What is given out of a task is counted: leases, miners, days; a lost lease counts too.
func TestExposure(t *testing.T) {
	f := newFixture(t, 2)
	look := func() (plays, miners, days int64) {
		t.Helper()
		list, err := f.ArenaTasks(bg, Caller{}, f.arena.ID)
		must(t, err)
		e := list[0].Exposure
		return e.Plays, e.Miners, e.Days
	}
	if p, m, d := look(); p+m+d != 0 {
		t.Errorf("before anything: %d %d %d", p, m, d)
	}
	play := func(miner, code string) {
		t.Helper()
		f.submit(miner, code)
		for range 2 {
			l := f.claim(val1)
			f.result(val1, l, scored(l, 1))
		}
	}
	play(miner1, "one")
	play(miner1, "two")
	if p, m, d := look(); p != 2 || m != 1 || d != 1 {
		t.Errorf("two plays of one miner: %d %d %d", p, m, d)
	}
	f.clock.add(49 * time.Hour)
	play(miner2, "three")
	if p, m, d := look(); p != 3 || m != 2 || d != 3 {
		t.Errorf("three plays of two miners on the third day: %d %d %d", p, m, d)
	}
	f.submit(miner2, "four")
	l := f.claim(val1)
	lost := scored(l, 0)
	lost.Fault, lost.Reason, lost.Scores = agon.FaultProvider, "down", nil
	f.result(val1, l, lost)
	list, err := f.ArenaTasks(bg, Caller{}, f.arena.ID)
	must(t, err)
	if sum := list[0].Exposure.Plays + list[1].Exposure.Plays; sum != 7 {
		t.Errorf("%d plays of both tasks, want 7", sum)
	}
}

// What another validator made of a hidden task's result is words of a judge, too:
// they go to those who may read the task, and before the decision to its parties.
func TestJudgingsOfHiddenTasks(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		f := strangers(t, 1, 1)
		f.arena.Tasks[0].Hidden = hidden
		must(t, f.EnsureArena(bg, f.arena))
		f.submit(miner1, "x")
		f.judgeClaim(val2) // it serves
		l := f.play(val1, 1)
		j := f.judgeClaim(val2)
		if j == nil {
			t.Fatal("nothing to judge")
		}
		r := judged(j, 1)
		r.Scores[0].Detail, r.Scores[0].Metrics = "the secret answer", map[string]float64{"secret": 1}
		_, err := f.JudgingResult(bg, Caller{Hotkey: val2}, j.ID, r)
		must(t, err)
		for name, c := range map[string]Caller{"public": {}, "miner": {Hotkey: miner1}, "rival": {Hotkey: miner2}, "player": {Hotkey: val1}, "stranger": {Hotkey: val3}, "operator": {Hotkey: operator, Operator: true}} {
			list, err := f.Judgings(bg, c, l.Run.Run)
			must(t, err)
			if len(list) == 0 || len(list[0].Scores) != 1 || list[0].Scores[0].Value != 1 {
				t.Fatalf("hidden %v as %s: %+v", hidden, name, list)
			}
			s := list[0].Scores[0]
			got, want := s.Detail != "" || s.Metrics != nil, !hidden || name == "player" || name == "operator"
			if got != want {
				t.Errorf("hidden %v: the judge's words are told to %s: %v, want %v", hidden, name, got, want)
			}
		}
	}
}
