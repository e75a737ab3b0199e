package wire_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/wire"
)

// planner lends a scripted model to the coordinator, over a real gateway.
func planner(t *testing.T, rules ...map[string]any) func(*coordinator.Config, *wire.Config) {
	t.Helper()
	b, err := json.Marshal(map[string]any{"version": 1, "rule": rules, "fallback": "I do not know."})
	if err != nil {
		t.Fatal(err)
	}
	script, err := scripted.Parse(b, "json")
	if err != nil {
		t.Fatal(err)
	}
	gw, err := gateway.New(gateway.Config{Upstreams: []provider.Upstream{scripted.New(script)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := gw.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { gw.Stop() })
	return func(c *coordinator.Config, w *wire.Config) {
		w.Log = slog.New(slog.DiscardHandler)
		c.Planner = func(ctx context.Context, use func(*judge.Judge) error) error {
			s, err := gw.Open(ctx, gateway.Policy{
				Run: "plan", Attempt: 1, Payer: "platform", Models: []string{"*"}, Dialects: []string{gateway.DialectOpenAI}, Budget: agon.Budget{Micros: 1 << 30, Calls: 100},
			}, nil)
			if err != nil {
				return err
			}
			defer s.Close()
			j, err := judge.New(judge.Config{Session: s, Attempts: 1})
			if err != nil {
				return err
			}
			return use(j)
		}
	}
}

// Row 37, the pass by a model: what it proposes becomes open items once; what
// is not in the form becomes nothing.
func TestPlanByModel(t *testing.T) {
	const path = "/api/v1/planner/run-agentic"
	plan := func(items ...map[string]any) string {
		b, err := json.Marshal(map[string]any{"items": items})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	item := map[string]any{"kind": "explore", "title": "Fewer letters", "instructions": "Shorten the alphabet.", "priority": 7, "base_submission_id": ""}
	with := func(k string, v any) map[string]any {
		out := map[string]any{k: v}
		for n, x := range item {
			if n != k {
				out[n] = x
			}
		}
		return out
	}
	f := open(t, planner(t,
		map[string]any{"last": "Bad kind.", "content": plan(with("kind", "delete"))},
		map[string]any{"last": "Two lines.", "content": plan(with("title", "a\nb"))},
		map[string]any{"last": "Urgent.", "content": plan(with("priority", 31))},
		map[string]any{"last": "Stranger.", "content": plan(with("base_submission_id", "nobody"))},
		map[string]any{"last": "Nothing.", "content": plan()},
		map[string]any{"last": "Make it smaller.", "content": plan(item, with("title", "Second"), item)},
	))
	for i, brief := range []string{"Bad kind.", "Two lines.", "Urgent.", "Stranger.", "Nothing."} {
		task := f.task(func(m map[string]any) { m["slug"], m["brief"] = "bad-"+string(rune('a'+i)), brief })
		f.admin("POST", path, map[string]string{"task_id": task.ID}, 502, nil)
		var list []coordinator.WorkItem
		f.get("/api/v1/work-items?task_id="+task.ID, 200, &list)
		if len(list) != 0 {
			t.Errorf("%s: %+v", brief, list)
		}
	}
	task := f.task()
	f.admin("POST", path, nil, 422, nil)
	f.admin("POST", path, map[string]string{"task_id": "none"}, 404, nil)
	f.get(strings.Replace(path, "/run-agentic", "/none", 1), 404, nil)
	var made struct {
		Created []coordinator.WorkItem `json:"created"`
	}
	f.admin("POST", path, map[string]string{"task_id": task.ID}, 200, &made)
	if len(made.Created) != 2 || made.Created[0].Title != "Fewer letters" || made.Created[0].Priority != 7 || made.Created[0].Status != "open" {
		t.Fatalf("%+v", made.Created)
	}
	f.admin("POST", path, map[string]string{"task_id": task.ID}, 200, &made)
	if len(made.Created) != 0 {
		t.Errorf("the same plan again made %d items", len(made.Created))
	}
	if cl, _, err := f.miner("alice").Claim(t.Context(), "", made0(f, task.ID), ""); err != nil || cl.WorkItem == nil {
		t.Errorf("%+v %v", cl, err)
	}
	none := open(t)
	task = none.task()
	var no map[string]map[string]any
	none.admin("POST", path, map[string]string{"task_id": task.ID}, 503, &no)
	if no["detail"]["error"] != "no_planner_model" {
		t.Errorf("%v", no)
	}
}

// made0 is the first open item of a task.
func made0(f *fixture, task string) string {
	var list []coordinator.WorkItem
	f.get("/api/v1/work-items?status=open&task_id="+task, 200, &list)
	if len(list) == 0 {
		f.t.Fatal("no open item")
	}
	return list[0].ID
}
