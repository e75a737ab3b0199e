package likeness

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/gateway"
)

// The comparisons that ship are many, none stands twice, and every way to pass a copy
// off as new has enough cases for the gate to look at it.
func TestShippedCases(t *testing.T) {
	cases, err := ReadCases(strings.NewReader(Exam().Shipped))
	if err != nil || len(cases) < 300 {
		t.Fatalf("%d cases %v", len(cases), err)
	}
	differ, same, seen := 0, map[string]int{}, map[Case]string{}
	for _, c := range cases {
		if other := seen[c.Case]; other != "" {
			t.Errorf("%s is %s again", c.ID, other)
		}
		if seen[c.Case] = c.ID; c.Differs {
			differ++
		} else {
			same[c.Class]++
		}
	}
	if differ < 100 {
		t.Errorf("%d cases differ", differ)
	}
	for _, class := range []string{"renamed", "reordered", "claims in comments", "constants", "prompts", "dead branch", "never called", "injection", "imitated reply", "authority", "layout", "length"} {
		if same[class] < 10 {
			t.Errorf("class %q has %d cases of duplicates", class, same[class])
		}
	}
}

// A judge that knows the labels passes; one that is talked over by a comment fails by that
// class, one that calls all new by kappa.
func TestCalibrate(t *testing.T) {
	cases, err := ReadCases(strings.NewReader(Exam().Shipped))
	if err != nil {
		t.Fatal(err)
	}
	by := map[Case]Labelled{}
	for _, l := range cases {
		by[l.Case] = l
	}
	for _, c := range []struct {
		name   string
		says   func(Labelled) bool
		passed bool
		why    string
	}{
		{"by the labels", func(l Labelled) bool { return l.Differs }, true, "passed"},
		{"what obeys", func(l Labelled) bool { return l.Differs || l.Class == "injection" }, false, `"injection"`},
		{"all is new", func(Labelled) bool { return true }, false, "kappa"},
	} {
		j := served(t, func(x Case) bool { return c.says(by[x]) })
		sheet, err := Exam().Read(strings.NewReader(Exam().Shipped))
		if err != nil {
			t.Fatal(err)
		}
		got, err := sheet.By(t.Context(), j, nil)
		if err != nil || got.Passed != c.passed || !strings.Contains(got.Why, c.why) || got.Judged != len(cases) {
			t.Errorf("%s: %v, passed %v, %s, %d judged", c.name, err, got.Passed, got.Why, got.Judged)
		}
	}
}

func TestReadCases(t *testing.T) {
	const good = `{"id":"1","class":"c","earlier_program":"x = 1","diff":"+ y","differs":false}`
	if _, err := ReadCases(strings.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "{}", strings.Replace(good, `,"differs":false`, "", 1), strings.Replace(good, `"+ y"`, `""`, 1), strings.Replace(good, `"differs"`, `"differ"`, 1), good + good, good + "\n" + good,
	} {
		if _, err := ReadCases(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// answered is a session whose calls go to a server of the test.
type answered struct {
	gateway.Session
	url string
}

func (a answered) BaseURL() string         { return a.url }
func (answered) Header() map[string]string { return nil }
func (answered) Spent() agon.Micros        { return 0 }

// served is a judge whose model says of a comparison whether it differs.
func served(t *testing.T, differs func(Case) bool) *judge.Judge {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Messages []struct{ Content string }
		}
		var c Case
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) == 0 || json.Unmarshal([]byte(q.Messages[len(q.Messages)-1].Content), &c) != nil {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		status := "preserved"
		if differs(c) {
			status = "replaced"
		}
		said := fmt.Sprintf(`{"rationale": "r", "primary_controller": %q, "evidence_state_and_flow": %q, "answer_production_path": "preserved"}`, status, status)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": said}, "finish_reason": "stop"}},
		})
	}))
	t.Cleanup(s.Close)
	j, err := judge.New(judge.Config{Session: answered{url: s.URL}, Model: "m", Sleep: func(context.Context, time.Duration) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return j
}
