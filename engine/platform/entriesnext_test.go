package platform

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/store"
)

// Validators read the tasks of a set to play them. Where entries are for the next period,
// a miner whom one tells the answers has nothing of them: its entry is played on another set.
func TestEntriesForTheNextPeriod(t *testing.T) {
	s := &shelf{have: 20, uses: 1}
	l := &blocks{newest: 10}
	f := suppliedFixture(t, s)
	f.arena.Supply.Entries = agon.EntriesNext
	l.Ledger, f.cfg.Ledger = f.cfg.Ledger, l
	must(t, f.EnsureArena(bg, f.arena))
	next := func() { // the block after what was done last
		l.newest++
		must(t, f.rotate(bg))
		must(t, f.awaitBeacons(bg))
	}
	turn := func() {
		f.clock.add(24 * time.Hour)
		must(t, f.rotate(bg))
		next()
	}
	var answers []string // that the validators know
	play := func() (played map[string][]string) {
		played = map[string][]string{}
		f.playAll(val1, func(l *client.Lease) float64 {
			key := l.Run.Tasks[0].Key
			if strings.HasPrefix(key, hiddenSet) {
				played[l.Submission.ID] = append(played[l.Submission.ID], key)
			}
			if l.Submission.Name == "informed" && slices.Contains(answers, key) {
				return 1
			}
			return 0.5
		})
		return played
	}
	send := func(miner, name string) *client.Submission {
		r := request(name)
		r.Name = name
		x, err := f.Submit(bg, Caller{Hotkey: miner}, "turning", r)
		must(t, err)
		next()
		return x
	}
	waiting := func() (n int) {
		f.read(func(tx *store.Tx) error {
			list, err := tx.AwaitBeacons(f.clock.Now(), 10)
			n = len(list)
			return err
		})
		return n
	}
	next()
	honest := send(miner1, "honest")
	if got := play(); len(got) != 0 || waiting() != 0 {
		t.Fatalf("played before its period: %v; %d are asked for", got, waiting())
	}
	turn()
	second := f.keys()
	got := play()
	if list := got[honest.ID]; len(list) != 2 || !slices.Contains(second, list[0]) {
		t.Fatalf("played %v, the set is %v", got, second)
	}
	if x, err := f.Submission(bg, Caller{}, honest.ID); err != nil || x.Decision == nil || x.Decision.Outcome != agon.TookSeat {
		t.Fatalf("%+v %v", x, err)
	}
	answers = second
	informed := send(miner2, "informed")
	if got := play(); len(got[informed.ID]) != 0 {
		t.Errorf("played on the set that its miner may know: %v", got)
	}
	turn()
	play() // who sits is played on the new set first
	next()
	got = play()
	if list := got[informed.ID]; len(list) != 2 || slices.ContainsFunc(list, func(key string) bool { return slices.Contains(second, key) }) {
		t.Errorf("played %v; the set before was %v", got, second)
	}
	if x, err := f.Submission(bg, Caller{}, informed.ID); err != nil || x.Decision == nil || x.Decision.Outcome != agon.KeptSeat {
		t.Errorf("%+v %v", x, err)
	}
	f.arena.Supply.Entries = "later"
	if err := f.EnsureArena(bg, f.arena); err == nil || !strings.Contains(err.Error(), "entries") {
		t.Errorf("entries of another time: %v", err)
	}
}
