package research_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/kinds/research/coordinator"
)

const demoResearchFile = `id = "demo-research"
kind = "research"
title = "Research: smaller sorting networks"
netuid = 4
sets = ["sortnet"]
samples = true
submissions_per_coldkey = 50
`

// The demo shows what it is meant to show: an improvement takes the seat, an
// honest patch with a claim too good is accepted and told so, a cheat is
// rejected with its reason, and one that is refused never gets in.
func TestDemoResearch(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	arena := filepath.Join(dir, "arena.toml")
	if err := os.WriteFile(arena, []byte(demoResearchFile), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(filepath.Join(dir, "data"))
	o.Once, o.Arenas = true, []string{arena}
	var url string
	o.Ready = func(at string) { url = at }
	var once sync.Once
	subs, records := map[string]coordinator.Submission{}, []coordinator.Record(nil)
	o.Decided = func(*client.Overview) {
		once.Do(func() {
			var tasks []coordinator.TaskView
			var list []coordinator.Submission
			read(t, url+"/api/v1/tasks", &tasks)
			read(t, url+"/api/v1/submissions?task_id="+tasks[0].ID, &list)
			read(t, url+"/api/v1/tasks/"+tasks[0].ID+"/records", &records)
			for _, s := range list {
				subs[s.Summary[:min(len(s.Summary), 14)]] = s
			}
		})
	}
	ov, err := roles.Up(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(subs) != 3 || len(ov.Arenas) != 1 || len(ov.Arenas[0].Decisions) != 3 {
		t.Fatalf("%d submissions: %+v", len(subs), subs)
	}
	best, over, cheat := subs["odd-even merge"], subs["transposition "], subs["four comparato"]
	if best.Status != "accepted" || best.Best == nil || !best.Best.Took || ov.Arenas[0].Champion == nil || *ov.Arenas[0].Champion != best.ID {
		t.Errorf("the improvement: %+v", best)
	}
	if over.Status != "accepted" || over.OverClaim == nil || *over.OverClaim < 1 || over.Best == nil || over.Best.Took {
		t.Errorf("the over-claim: %+v", over)
	}
	if cheat.Status != "rejected" || cheat.Reason == "" || cheat.Best == nil || cheat.Best.Took {
		t.Errorf("the cheat: %+v", cheat)
	}
	if len(records) != 1 || records[0].Submission != best.ID || len(records[0].Replays) != 2 || coordinator.VerifyRecord(records[0]) != nil {
		t.Errorf("the ledger: %+v", records)
	}
	if n := ov.Runs.ByFault[agon.FaultPlatform] + ov.Runs.ByFault[agon.FaultValidator]; n != 0 {
		t.Errorf("%d faults of ours", n)
	}
}

func read(t *testing.T, url string, v any) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(v); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %d %v", url, resp.StatusCode, err)
	}
}
