package wire_test

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
)

// Rows 67-68: accepted is not best; the ledger of bests has lineage, the noise
// band, who verified, and a signature that holds offline.
func TestRecords(t *testing.T) {
	f := open(t)
	task := f.task()
	alice, bob := f.miner("alice"), f.miner("bob")
	v1, v2 := f.validator("v1"), f.validator("v2")
	enter := func(who string, x string, size, incumbent float64) coordinator.Submission {
		t.Helper()
		c := alice
		if who == "bob" {
			c = bob
		}
		s := f.submit(c, task.ID, patch(x))
		f.answer(v1, s.ID, "accepted", size)
		f.answer(v2, s.ID, "accepted", size)
		f.duels(incumbent, "v1", "v2")
		return f.submission(s.ID)
	}
	first := enter("alice", "2", 90, 100)
	worse := enter("bob", "3", 95, 90)
	second := enter("bob", "4", 80, 90)
	if !first.Best.Took || worse.Best.Took || worse.Status != "accepted" || !second.Best.Took || second.Best.Incumbent != first.ID {
		t.Fatalf("%+v %+v %+v", first.Best, worse.Best, second.Best)
	}
	var best coordinator.BestView
	f.get("/api/v1/tasks/"+task.ID+"/best", 200, &best)
	if best.SubmissionID != second.ID || best.Value != 80 {
		t.Errorf("%+v", best)
	}
	var list []coordinator.Record
	f.get("/api/v1/tasks/"+task.ID+"/records", 200, &list)
	if len(list) != 2 || list[0].Number != 2 || list[0].Parent == nil || *list[0].Parent != first.ID || *list[0].Delta != 10 || len(list[0].Replays) != 4 {
		t.Fatalf("%+v", list)
	}
	for _, r := range list {
		if err := coordinator.VerifyRecord(r); err != nil {
			t.Error(err)
		}
		r.Value--
		if coordinator.VerifyRecord(r) == nil {
			t.Error("a changed record verifies")
		}
	}
	forged := list[0]
	forged.Attestation = list[1].Attestation
	if coordinator.VerifyRecord(forged) == nil {
		t.Error("another record's signature verifies")
	}
	var d coordinator.Detail
	f.get("/api/v1/submissions/"+second.ID+"/detail", 200, &d)
	if len(d.Lineage) != 2 || d.Lineage[1].Submission != first.ID || d.Submission.Patch == nil {
		t.Errorf("lineage %+v", d.Lineage)
	}
	// Row 78: the whole of it as one line, without secrets.
	resp, err := http.Get(f.url + "/api/v1/submissions/" + second.ID + "/export.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, _ = b.ReadFrom(resp.Body)
	if strings.Count(b.String(), "\n") != 1 || !json.Valid(b.Bytes()) || strings.Contains(b.String(), "hidden-value") || !strings.Contains(b.String(), "agon-research-1") {
		t.Errorf("export: %s", b.String())
	}
	// Row 66: replayed again, the old verifications stay.
	before := len(d.Verifications)
	f.admin("POST", "/api/v1/submissions/"+second.ID+"/requeue", nil, 200, nil)
	v3, v4 := f.validator("v3"), f.validator("v4")
	f.answer(v3, second.ID, "accepted", 80)
	f.answer(v4, second.ID, "accepted", 80)
	f.get("/api/v1/submissions/"+second.ID+"/detail", 200, &d)
	if len(d.Verifications) != before+2 || d.Submission.Best == nil || !d.Submission.Best.Took {
		t.Errorf("%d verifications, best %+v", len(d.Verifications), d.Submission.Best)
	}

	// Rows 39-41, 70, 77: the snapshot, and epochs made of it.
	var snap coordinator.Snapshot
	f.get("/api/v1/reward-snapshot", 200, &snap)
	if snap.Count != 1 || snap.Competitions[0].Weight != 1 || math.Abs(snap.Competitions[0].Credits[f.key("bob").SS58()]+snap.Competitions[0].Credits[f.key("alice").SS58()]-1) > 1e-9 {
		t.Fatalf("%+v", snap)
	}
	f.epochs(task)
}

// Each member of a suite has a record of its own, whether or not its holder leads the whole suite. A later
// submission takes it only if it is better by more than the band.
func TestRecordsOfMembers(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["members"] = "part_" })
	alice, bob := f.miner("alice"), f.miner("bob")
	v1, v2 := f.validator("v1"), f.validator("v2")
	enter := func(c *miner.Client, x string, size float64, parts map[string]float64, incumbent float64) coordinator.Submission {
		t.Helper()
		s := f.submit(c, task.ID, patch(x))
		f.answer(v1, s.ID, "accepted", size, parts)
		f.answer(v2, s.ID, "accepted", size, parts)
		f.duels(incumbent, "v1", "v2")
		return f.submission(s.ID)
	}
	first := enter(alice, "2", 90, map[string]float64{"part_sort": 50, "part_sum": 40}, 100)
	worse := enter(bob, "3", 95, map[string]float64{"part_sort": 30, "part_sum": 65, "other": 1}, 90)
	enter(bob, "4", 94, map[string]float64{"part_sort": 30, "part_sum": 40}, 90)
	var list []coordinator.MemberRecord
	f.get("/api/v1/tasks/"+task.ID+"/members", 200, &list)
	if len(list) != 2 || list[0].Name != "sort" || list[0].Value != 30 || list[0].Submission != worse.ID || list[1].Submission != first.ID || worse.Best.Took {
		t.Errorf("%+v", list)
	}
}
