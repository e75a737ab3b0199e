package commands

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	shopscore "github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// answering is an envelope whose agent recommends ids and ends.
func answering(problem, status, query, ids string) string {
	return fmt.Sprintf(`{"problem_id":%q,"status":%q,"dialogue":[{"completion":{"message":{"think":"t","tool_call":[`+
		`{"name":"recommend_product","parameters":{"product_ids":%q}},{"name":"terminate","parameters":{}}]}},"extra_info":{"query":%q,"timestamp":5}}]}`, problem, status, ids, query) + "\n"
}

func TestScoreOutput(t *testing.T) {
	var problems []shop.Problem
	raw := `[{"problem_id":"p1","query":"q1","category":"Product","reward":{"product_id":"A","price":[{"between":[1,3]}]}},
		{"problem_id":"p2","query":"q2","category":"Product","reward":{"product_id":"B","price":[{"between":[1,3]}]}},
		{"problem_id":"s1","query":"q3","category":"Shop","reward":[{"product_id":"A"},{"product_id":"B"}]}]`
	if err := json.Unmarshal([]byte(raw), &problems); err != nil {
		t.Fatal(err)
	}
	cat := shopscore.Products{"A": {ProductID: "A", ShopID: "s", Price: 2}, "B": {ProductID: "B", ShopID: "s", Price: 9}}
	run := func(in string) ([]scoredCategory, error) {
		return scoreOutput(t.Context(), strings.NewReader(in), problems, shopscore.New(shopscore.Config{}), cat, nil)
	}
	// p1 right, its second envelope does not count; p2 timed out; the shop's is found by its query.
	list, err := run(answering("p1", "SUCCESS", "q1", "A") + "\n" + answering("p1", "SUCCESS", "q1", "B") +
		`{"problem_id":"p2","status":"TIMED_OUT","dialogue":null}` + "\n" + answering("", "SUCCESS", "q3", "A,B"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"category":"Product","ground_truth_rate":0.5,"success_rate":0.5,"format_score":0.5,"field_matching":0.5,"total_problems":2,"successful_problems":1,"scored_problems":1},` +
		`{"category":"Shop","ground_truth_rate":1,"success_rate":1,"format_score":1,"field_matching":1,"total_problems":1,"successful_problems":1,"scored_problems":1},` +
		`{"category":"all","ground_truth_rate":0.6666666666666666,"success_rate":0.6666666666666666,"format_score":0.6666666666666666,"field_matching":0.6666666666666666,"total_problems":3,"successful_problems":2,"scored_problems":2}]`
	if !bytes.Equal(got, []byte(want)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for in, code := range map[string]string{"{\n": "bad_output", answering("p9", "SUCCESS", "q9", "A"): "not_found"} {
		var e *agon.Error
		if _, err := run(in); !errors.As(err, &e) || e.Code != code || e.Field != "line 1" {
			t.Errorf("%q: %v, want %s on line 1", in, err, code)
		}
	}
}

// Of an output file with wrong lines, torn, too long or of no problem, the rest is scored,
// and each of these is named.
func TestScoreSkipsWrongLines(t *testing.T) {
	var problems []shop.Problem
	raw := `[{"problem_id":"p1","query":"q1","category":"Product","reward":{"product_id":"A"}},{"problem_id":"p2","query":"q2","category":"Product","reward":{"product_id":"B"}},
		{"problem_id":"p3","query":"q3","category":"Product","reward":{"product_id":"A"}}]`
	if err := json.Unmarshal([]byte(raw), &problems); err != nil {
		t.Fatal(err)
	}
	cat := shopscore.Products{"A": {ProductID: "A"}, "B": {ProductID: "B"}}
	in := answering("p1", "SUCCESS", "q1", "A") + `{"problem_id":"p2","status":` + "\n" + answering("p9", "SUCCESS", "q9", "A") +
		`{"problem_id":"p2","status":"SUCCESS","dialogue":"` + strings.Repeat("x", maxEnvelope) + "\"}\n\n" + strings.TrimSpace(answering("p3", "SUCCESS", "q3", "A"))
	var wrong []string
	list, err := scoreOutput(t.Context(), strings.NewReader(in), problems, shopscore.New(shopscore.Config{}), cat, func(err error) {
		var e *agon.Error
		if !errors.As(err, &e) {
			t.Error(err)
			return
		}
		wrong = append(wrong, e.Field+" "+e.Code)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(wrong, ", "), "line 2 bad_output, line 3 not_found, line 4 too_large"; got != want {
		t.Errorf("named %s, want %s", got, want)
	}
	if all := list[len(list)-1]; all.SuccessfulProblems != 2 || all.TotalProblems != 3 || all.ScoredProblems != 2 {
		t.Errorf("%+v", all)
	}
}
