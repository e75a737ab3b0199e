package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/merkle"
)

// Emission roots: who is paid, once, by what policy; the evidence verifies alone
// and every change of it is found.
func TestEmissions(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["rules"] = map[string]any{"agree": 1, "replays": 2} })
	v := f.validator("v1")
	enter := func(name, x, address string) coordinator.Submission {
		t.Helper()
		c := f.miner(name)
		e := entry(f.claim(c, task.ID).ID, patch(x))
		if address != "" {
			e["reward_address"] = address
		}
		status, b := f.post(c, "/api/v1/submissions", e)
		var s coordinator.Submission
		if status != 200 || json.Unmarshal([]byte(b), &s) != nil {
			t.Fatalf("%d %s", status, b)
		}
		f.answer(v, s.ID, "accepted", 90)
		f.duels(100, "v1")
		return s
	}
	address := func(n string) string { return "0x" + strings.Repeat("0", 40-len(n)) + n }
	a, b := enter("alice", "2", address("aA")), enter("bob", "3", address("bb"))
	enter("carol", "4", "")
	enter("dave", "5", "0x1234")
	const lanes = "/api/v1/sota/subnets"
	for field, bad := range map[string]map[string]any{
		"subnet_id": {"subnet_id": "No Lane"}, "policy": {"subnet_id": "x", "policy": map[string]any{"version": 2}},
		"task_ids": {"subnet_id": "x", "task_ids": []string{"none"}}, "policy.epoch_amount_units": {"subnet_id": "x", "policy": map[string]any{"epoch_amount_units": "-1"}},
	} {
		var no map[string]map[string]any
		f.admin("POST", lanes, bad, 422, &no)
		if no["detail"]["field"] != field {
			t.Errorf("%s: %v", field, no)
		}
	}
	lane := map[string]any{"subnet_id": "sota-local", "title": "A lane", "task_ids": []string{task.ID}, "policy": map[string]any{"epoch_amount_units": "2000000000000000001"}}
	var l coordinator.Lane
	f.admin("POST", lanes, lane, 200, &l)
	f.admin("POST", lanes, lane, 409, nil)
	if l.Lane.String() != "0x94644ecd920aaa5da091cc262bf91fa5289a6b6c6dd42a132fcdbfe95cc21e70" || l.Policy.Source != "accepted_submissions" {
		t.Errorf("%+v", l)
	}
	f.get(lanes+"/sota-local/epochs/7/evidence", 404, nil)
	f.get(lanes+"/none/epochs/7/evidence", 404, nil)
	f.get(lanes+"/sota-local/epochs/x/evidence", 422, nil)
	var e, again merkle.Emission
	f.admin("POST", lanes+"/sota-local/epochs/7/root", map[string]bool{"include_proofs": true}, 200, &e)
	if err := e.Verify(); err != nil {
		t.Fatal(err)
	}
	if len(e.Proofs) != 2 || e.Root.Total != "2000000000000000000" || e.Bundle.Claims[0].Amount != "1000000000000000000" || e.Bundle.Claims[0].Address != address("aa") ||
		e.Bundle.Why[0].Evidence.Submission != a.ID || e.Bundle.Why[1].Evidence.Submission != b.ID || e.Bundle.Why[0].Evidence.Consensus.AcceptedCount != 1 {
		t.Errorf("%+v", e)
	}
	f.admin("POST", lanes+"/"+l.Lane.String()+"/epochs/7/root", nil, 200, &again)
	if again.Root != e.Root || again.Proofs != nil {
		t.Errorf("published again: %+v", again.Root)
	}
	f.admin("POST", lanes+"/sota-local/epochs/8/root", nil, 409, nil) // all are paid
	enter("erin", "6", address("ee"))
	f.admin("POST", lanes+"/sota-local/epochs/8/root", nil, 200, &again)
	if again.Root.LeafCount != 1 || again.Root.Total != "2000000000000000001" || again.Bundle.Claims[0].Address != address("ee") {
		t.Errorf("%+v", again)
	}
	var roots []merkle.EmissionRoot
	f.get("/api/v1/sota/emission-roots?subnet_id=sota-local", 200, &roots)
	if len(roots) != 2 || roots[1] != e.Root {
		t.Errorf("%+v", roots)
	}
	f.get("/api/v1/sota/emission-roots?subnet_id=other", 200, &roots)
	if len(roots) != 0 {
		t.Errorf("%+v", roots)
	}
	for i, tamper := range []func(*merkle.Emission){
		func(e *merkle.Emission) { e.Bundle.Claims[0].Amount = "1000000000000000001" }, func(e *merkle.Emission) { e.Bundle.Claims[1].Address = address("cc") },
		func(e *merkle.Emission) { e.Root.Root[0] ^= 1 }, func(e *merkle.Emission) { e.Root.Total = "1" }, func(e *merkle.Emission) { e.Bundle.Why[0].Leaf[0] ^= 1 },
		func(e *merkle.Emission) { e.Bundle.Why[0].Evidence.Consensus.AcceptedCount = 9 }, func(e *merkle.Emission) { e.Bundle.Epoch++ },
		func(e *merkle.Emission) { e.Bundle.Subnet.ID = "other" }, func(e *merkle.Emission) { e.Proofs[0][0][0] ^= 1 }, func(e *merkle.Emission) { e.Proofs = e.Proofs[:1] },
		func(e *merkle.Emission) { e.Bundle.Claims = e.Bundle.Claims[:1]; e.Bundle.Why = e.Bundle.Why[:1] }, func(e *merkle.Emission) { e.Bundle.Merkle.Odd = "duplicate" },
		func(e *merkle.Emission) { e.Bundle.Claims[0].Amount = "x" }, func(e *merkle.Emission) { e.Root.CreatedAt = "yesterday" }, func(e *merkle.Emission) { e.Bundle.Claims[0].Reward[5] ^= 1 },
	} {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var bad merkle.Emission
		if err := json.Unmarshal(raw, &bad); err != nil {
			t.Fatal(err)
		}
		if err := bad.Verify(); err != nil {
			t.Fatalf("after a round through JSON: %v", err)
		}
		tamper(&bad)
		if bad.Verify() == nil {
			t.Errorf("tampering %d passes", i)
		}
	}
}

// Row 74: the OpenAPI document has every route with its true security: what it
// says needs a signature or the admin answers 401 without, what is public does not.
func TestOpenAPIIsTrue(t *testing.T) {
	f := open(t)
	f.task()
	var doc struct {
		Paths map[string]map[string]struct {
			Security []map[string]any `json:"security"`
		} `json:"paths"`
	}
	f.get("/api/v1/openapi.json", 200, &doc)
	n := 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			n++
			at := strings.NewReplacer("{id}", "0", "{hotkey}", "x", "{lane}", "x", "{n}", "0").Replace(path)
			status := f.bare(strings.ToUpper(method), at)
			closed := len(op.Security) == 1
			if closed != (status == 401) {
				t.Errorf("%s %s: security %v, and it answers %d", method, path, op.Security, status)
			}
		}
	}
	if n < 60 {
		t.Errorf("%d routes", n)
	}
}

// bare sends a request without any credentials and returns its status.
func (f *fixture) bare(method, path string) int {
	f.t.Helper()
	status, err := bareStatus(method, f.url+path)
	if err != nil {
		f.t.Fatal(fmt.Errorf("%s %s: %w", method, path, err))
	}
	return status
}
