package research_test

import (
	"testing"

	"github.com/agon-arena/agon/kinds/research/coordinator"
)

// A task that asks for a GPU is replayed and fought out on cards alone, and its record says
// on which. The cards are fake ones, the boxes, the server and the duel real.
func TestDuelOnCards(t *testing.T) {
	q := openNeeding(t, "[environment]\ngpus = 1\ngpu_types = [\"1000\"]\n")
	for _, name := range []string{"bare", "first", "second"} {
		q.register(name, true)
	}
	for _, name := range []string{"first", "second"} {
		q.start(name, "AGON_TEST_CARDS=1", "AGON_DRIVER=runc", "AGON_GPU_LOCKS="+t.TempDir())
	}
	q.start("bare", "AGON_DRIVER=runc")
	for number, x := range []float64{60, 50} {
		id := q.submit([]string{"alice", "bob"}[number], q.task.ID, x)
		q.until("it is decided", func() bool { return q.submission(id).Best != nil })
		if s := q.submission(id); !s.Best.Took {
			t.Fatalf("%v: %+v", x, s.Best)
		}
	}
	var records []coordinator.Record
	q.get("/api/v1/tasks/"+q.task.ID+"/records", &records)
	if len(records) != 2 || coordinator.VerifyRecord(records[0]) != nil {
		t.Fatalf("%+v", records)
	}
	duels := 0
	for _, r := range records {
		for _, x := range r.Replays {
			if x.Duel {
				duels++
			}
			if x.Hardware != "1 x Fake 1000" || q.keys[x.Validator].Name == "bare" {
				t.Errorf("record %d: measured by %s on %q", r.Number, q.keys[x.Validator].Name, x.Hardware)
			}
		}
	}
	if duels == 0 {
		t.Error("nothing was decided by a duel")
	}
}
