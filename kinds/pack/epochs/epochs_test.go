package epochs

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

const alpha = 1e9

var at = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)

// field is an epoch of validators v0, v1 … of equal stake who gave these scores.
func field(id int64, before *Seat, scores ...float64) Epoch {
	e := Epoch{ID: id, Submission: fmt.Sprint("s", id), Miner: fmt.Sprint("m", id), Hash: fmt.Sprint("h", id), Start: uint64(1000 * id), End: uint64(1000*id + 150), Rule: Default(10), Before: before, Members: map[string]uint64{}}
	for i, s := range scores {
		v := fmt.Sprint("v", i)
		e.Members[v] = 20_000 * alpha
		if s >= 0 {
			e.Votes = append(e.Votes, Vote{Validator: v, Stake: 20_000 * alpha, Block: e.Start + 10, Score: s, Qualified: s > 0})
		}
	}
	return e
}

func end(e Epoch) Epoch {
	e = Finalise(e)
	e.Ended, e.Finalized = e.End, at.Add(time.Duration(e.ID)*time.Minute)
	return e
}

func TestFinalise(t *testing.T) {
	sits := &Seat{Miner: "m0", Hash: "h0", Score: 5, Since: 0}
	for _, c := range []struct {
		name      string
		e         Epoch
		outcome   string
		score     float64
		qualified bool
	}{
		{"nobody sits", field(1, nil, 2, 2, 2), Replaced, 2, true},
		{"nobody sits, not qualified", field(1, nil, 0, 0, 2), Held, 2, false},
		{"three hundredths above five are the bar", field(1, sits, 5.15, 5.15, 5.15), Held, 5.15, true},
		{"above it", field(1, sits, 5.151, 5.151, 5.151), Replaced, 5.151, true},
		{"one liar of four", field(1, sits, 1, 2, 3, 100), Held, 2.5, true},
		{"one liar of three says more than there is", field(1, nil, 4, 5, 100), Replaced, 6.333333, true}, // of at most 10
		{"half is not a majority", field(1, nil, 3, 3, 0, 0), Held, 3, false},
		{"two fifths of the stake are a quorum", field(1, nil, 3, 3, -1, -1, -1), Replaced, 3, true},
		{"less are none", field(1, nil, 3, -1, -1), Aborted, 0, false},
		{"nobody spoke", field(1, sits, -1, -1), Aborted, 0, false},
	} {
		got := Finalise(c.e)
		if got.Outcome != c.outcome || got.Score != c.score || got.Qualified != c.qualified {
			t.Errorf("%s: %s %v %v, want %s %v %v", c.name, got.Outcome, got.Score, got.Qualified, c.outcome, c.score, c.qualified)
		}
		if took := got.After != nil && got.After.Miner == "m1"; took != (c.outcome == Replaced) || !took && got.After != c.e.Before {
			t.Errorf("%s: the seat is %v", c.name, got.After)
		}
	}
	// One vote of each kind that does not count.
	e := field(1, nil, 4, 4, 4, 4, 4)
	e.Votes[0].Rejected, e.Votes[0].Detail = true, "missing_skill_md"
	e.Votes[1].Stake = 9_999 * alpha
	delete(e.Members, "v2")
	e.Inactive = []string{"v3"}
	got := Finalise(e)
	reasons := map[string]string{}
	for _, l := range got.Left {
		reasons[l.Validator] = l.Reason
	}
	if want := map[string]string{"v0": "rejected the pack: missing_skill_md", "v1": "too little stake", "v2": "not a validator when the epoch began", "v3": "inactive: it missed the epochs before"}; !reflect.DeepEqual(reasons, want) {
		t.Errorf("left out: %v", reasons)
	}
}

// The order of votes changes nothing, and no vote raises the score above the highest.
func TestFinaliseHoldsWhateverTheOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 300 {
		var scores []float64
		for range 1 + r.IntN(9) {
			scores = append(scores, r.Float64()*10-1)
		}
		e := field(1, &Seat{Score: r.Float64() * 10}, scores...)
		a := Finalise(e)
		r.Shuffle(len(e.Votes), func(i, j int) { e.Votes[i], e.Votes[j] = e.Votes[j], e.Votes[i] })
		b := Finalise(e)
		if a.Outcome != b.Outcome || a.Score != b.Score || a.Bar != b.Bar {
			t.Fatalf("%v: %s %v, then %s %v", scores, a.Outcome, a.Score, b.Outcome, b.Score)
		}
		if a.Score > max(0, slices.Max(scores))+1e-6 {
			t.Fatalf("%v give %v", scores, a.Score)
		}
	}
}

// A vote above the highest possible score gives no seat that honest scores could not take back.
func TestNoScoreBeyondTheMost(t *testing.T) {
	lied := end(field(1, nil, 2, 2, 100))
	if lied.After == nil || lied.After.Score > 5 {
		t.Fatalf("%+v", lied.After)
	}
	if honest := end(field(2, lied.After, 8, 8, 8)); honest.Outcome != Replaced {
		t.Errorf("8 of 10 against %v: %s at the bar %v", lied.After.Score, honest.Outcome, honest.Bar)
	}
}

func TestDue(t *testing.T) {
	e := field(1, nil, 3, 3)
	for block, want := range map[uint64]bool{1000: false, 1029: false, 1030: true, 1150: true} {
		if e.Due(block) != want {
			t.Errorf("all have spoken at %d: %v", block, !want)
		}
	}
	e = field(1, nil, 3, -1)
	if e.Due(1149) || !e.Due(1150) {
		t.Error("one is missing: it must stay open until its end")
	}
	e.Inactive = []string{"v1"}
	if !e.Due(1030) {
		t.Error("who is inactive is waited for")
	}
	if empty := field(1, nil); empty.Due(1149) || !empty.Due(1150) {
		t.Error("an epoch that nobody is called to ends at its end")
	}
}

// Who misses three epochs does not count, and counts again after one vote.
func TestInactive(t *testing.T) {
	var past []Epoch
	step := func(scores ...float64) []string {
		e := field(int64(len(past)+1), nil, scores...)
		e.Inactive = Inactive(e.Members, past, e.Rule)
		past = append(past, end(e))
		return e.Inactive
	}
	for i, want := range [][]string{nil, nil, nil, {"v1"}, {"v1"}} {
		if got := step(3, -1); !slices.Equal(got, want) {
			t.Fatalf("epoch %d: %v, want %v", i+1, got, want)
		}
	}
	step(3, 3) // it speaks, which does not count yet
	if last := past[len(past)-1]; len(last.Left) != 1 || last.Reported != 1 {
		t.Errorf("its vote while inactive: %+v", last)
	}
	if got := step(3, 3); got != nil {
		t.Errorf("after it spoke: %v", got)
	}
}

func TestNext(t *testing.T) {
	rows := []Row{{Miner: "a", Open: true, Done: true}, {Miner: "a", Open: true}, {Miner: "b"}, {Miner: "a", Open: true}, {Miner: "b", Open: true}}
	if got := Next(rows); !slices.Equal(got, []bool{false, true, false, false, true}) {
		t.Errorf("eligible %v", got)
	}
}

// A history is worked out again; each thing that is tampered with raises an alarm.
func TestAudit(t *testing.T) {
	history := func() []Epoch {
		a := end(field(1, nil, 3, 3, 3))
		b := end(field(2, a.After, 2, 2, 2))
		c := end(field(3, b.After, 8, 8, 8))
		return []Epoch{c, a, b}
	}
	sound := history()
	p := Published{Winner: sound[0].After, At: sound[0].Finalized}
	if got := Audit(sound, p, at.Add(time.Hour)); !got.Agreed || got.Stale || got.Winner.Miner != "m3" || got.Epochs != 3 {
		t.Fatalf("sound: %+v", got)
	}
	if got := Audit(sound, p, at.Add(25*time.Hour)); !got.Stale {
		t.Error("a day later it is not stale")
	}
	if got := Audit(nil, Published{}, at); !got.Agreed || !got.Stale || got.Winner != nil {
		t.Errorf("nothing: %+v", got)
	}
	for name, f := range map[string]func([]Epoch, *Published){
		"a score":             func(l []Epoch, _ *Published) { l[0].Votes[0].Score, l[0].Votes[1].Score = 1, 1 },
		"the consensus":       func(l []Epoch, _ *Published) { l[2].Score = 9 },
		"an outcome":          func(l []Epoch, _ *Published) { l[2].Outcome = Replaced },
		"the winner":          func(_ []Epoch, p *Published) { p.Winner = &Seat{Miner: "m2", Hash: "h2", Score: 8} },
		"the winner's score":  func(_ []Epoch, p *Published) { p.Winner = &Seat{Miner: "m3", Hash: "h3", Score: 8.1} },
		"a vote twice":        func(l []Epoch, _ *Published) { l[0].Votes = append(l[0].Votes, l[0].Votes[0]) },
		"who is inactive":     func(l []Epoch, _ *Published) { l[0].Inactive = []string{"v0"} },
		"the seat before":     func(l []Epoch, _ *Published) { l[0].Before = &Seat{Miner: "x"} },
		"no winner published": func(_ []Epoch, p *Published) { p.Winner = nil },
	} {
		list, pub := history(), p
		f(list, &pub)
		if got := Audit(list, pub, at.Add(time.Hour)); got.Agreed || len(got.Alarms) == 0 {
			t.Errorf("%s was tampered with: no alarm", name)
		}
	}
}
