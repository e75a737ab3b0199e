package wire

import (
	"context"
	"encoding/json"
	"math"
	"testing"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
)

// One of three validators gives each entry 0.06 more than the others do.
func TestVarianceOf(t *testing.T) {
	out := varianceOf(map[string]map[string]float64{"a": {"x": .5, "y": .5, "z": .56}, "b": {"x": .2, "y": .2, "z": .26}, "alone": {"x": .9}})
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Pairs   int     `json:"n_pairs"`
		Mean    float64 `json:"mean_spread"`
		Max     float64 `json:"max_spread"`
		Buckets []struct {
			Count int `json:"count"`
		} `json:"spread_buckets"`
		Validators []struct {
			Hotkey string  `json:"validator_hotkey"`
			Pairs  int     `json:"pairs_evaluated"`
			Delta  float64 `json:"mean_delta_vs_peers"`
			Dev    float64 `json:"std_dev"`
			Score  float64 `json:"mean_score"`
		} `json:"validators"`
	}
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
	if got.Pairs != 2 || !near(got.Mean, .06) || !near(got.Max, .06) || got.Buckets[3].Count != 2 || got.Buckets[4].Count != 0 || len(got.Validators) != 3 {
		t.Errorf("%s", b)
	}
	for _, v := range got.Validators {
		want := map[string]float64{"x": -.03, "y": -.03, "z": .06}[v.Hotkey]
		if v.Pairs != 2 || !near(v.Delta, want) || !near(v.Dev, 0) {
			t.Errorf("%+v", v)
		}
	}
}

// counting counts the lists of runs that are read.
type counting struct {
	Platform
	lists int
}

func (c *counting) Runs(ctx context.Context, by platform.Caller, arena, submission, state, cursor string, limit int) (*client.Page[client.Run], error) {
	c.lists++
	return c.Platform.Runs(ctx, by, arena, submission, state, cursor, limit)
}

// A crowd that asks how far validators are apart costs one look at the runs.
func TestVarianceOnce(t *testing.T) {
	w := newWorld(t)
	w.submit('a', "My agent", goodAgent)
	for _, n := range []int{2, 3} {
		run, _ := w.play('v', n)
		w.must('v', "POST", "/v1/validator/evaluation-runs/"+text(t, run, "eval_run_id")+"/complete", `{"terminal_status":"SUCCESS","validator_score":1}`, 200, "")
	}
	c := w.cfg
	p := &counting{Platform: c.Platform}
	c.Platform = p
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	w.h = h
	race, _ := w.must(0, "GET", "/v1/public/races/current", "", 200, "")["race"].(map[string]any)
	at := "/v1/public/races/" + text(t, race, "race_id") + "/validator-variance"
	w.must(0, "GET", at, "", 200, "")
	first := p.lists
	if first == 0 {
		t.Fatal("no run was read")
	}
	for range 5 {
		w.must(0, "GET", at, "", 200, "")
	}
	if p.lists != first {
		t.Errorf("%d lists of runs were read, then %d", first, p.lists)
	}
}
