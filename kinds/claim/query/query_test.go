package query

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func p(v float64) *float64 { return &v }

func equal(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestScoreMargin(t *testing.T) {
	for _, c := range []struct {
		n      int
		i, c   float64
		passes bool
	}{
		{10, 5, 5.999, false},
		{10, 5, 6, true},
		{10, 3.000004, 4.000004, true},
		{30, 15, 17.999, false},
		{30, 15, 18, true},
		{30, 13.000002, 16.000002, true},
		{10, 9.5, 10, true},
		{10, 10, 10, false},
		{2, 1, 1.2, true}, // whatever they cost
	} {
		s, err := Rulebook{}.Decide(c.n, &Standing{Total: c.i, Cost: p(1), ElapsedMS: p(1)}, Standing{Total: c.c, Cost: p(9)})
		if err != nil || (s.Rules[0].Status == Passed) != c.passes || (s.Winner == "challenger") != c.passes {
			t.Errorf("%+v: %+v %v", c, s, err)
		}
		if a := *s.Rules[0].RequiredAbsolute; !equal(a, min(.1, (float64(c.n)-c.i)/float64(c.n))) {
			t.Errorf("%+v: absolute %v", c, a)
		}
	}
}

func TestEfficiency(t *testing.T) {
	inc := Standing{Total: 1, Cost: p(100), ElapsedMS: p(10_000)}
	status := func(b Rulebook, i, c Standing) (cost, runtime string) {
		t.Helper()
		s, err := b.Decide(1, &i, c)
		if err != nil {
			t.Fatal(err)
		}
		return s.Rules[1].Status, s.Rules[2].Status
	}
	for _, c := range []struct {
		cost float64
		ms   *float64
		want string
	}{{90.001, p(10_000), Failed}, {90, p(10_000), Passed}, {80, p(7_000), Passed}, {80, p(10_000.000001), Passed}, {80, p(11_000), Failed}, {80, nil, Unavailable}} {
		if got, _ := status(Rulebook{}, inc, Standing{Total: 1, Cost: p(c.cost), ElapsedMS: c.ms}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	for _, c := range []struct {
		from, to float64
		want     string
	}{{20_000, 19_000, Failed}, {20_000, 18_000, Passed}, {5_000, 4_500, Failed}, {5_000, 4_000, Passed}} {
		if _, got := status(Rulebook{}, Standing{Total: 1, Cost: p(10), ElapsedMS: &c.from}, Standing{Total: 1, Cost: p(10), ElapsedMS: &c.to}); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	s, err := Rulebook{}.Decide(1, &Standing{Total: 1, Cost: p(10), ElapsedMS: p(5000)}, Standing{Total: 1, Cost: p(8), ElapsedMS: p(4000)})
	if err != nil || s.Rule != CostReduction || s.Rules[0].Status != Failed || s.Rules[1].Status != Passed || s.Rules[2].Status != Passed {
		t.Errorf("both better: %+v %v", s, err)
	}
	s, _ = Rulebook{Historical: true, Version: 7}.Decide(1, &Standing{Total: .8, Cost: p(100), ElapsedMS: p(20_000)}, Standing{Total: .9, Cost: p(85), ElapsedMS: p(17_000)})
	if s.Winner != "incumbent" {
		t.Errorf("historical: %+v", s)
	}
	worse := Standing{Total: 1, Cost: p(70), ElapsedMS: p(30_000)}
	held := Standing{Total: 1, Cost: p(100), ElapsedMS: p(20_000)}
	if s, _ = (Rulebook{Version: 7}).Decide(1, &held, worse); s.Winner != "incumbent" {
		t.Errorf("replay: %+v", s)
	}
	if s, _ = (Rulebook{Version: 7, Historical: true}).Decide(1, &held, worse); s.Winner != "challenger" {
		t.Errorf("before runtime had to hold: %+v", s)
	}
}

func TestChampion(t *testing.T) {
	s, _ := Rulebook{}.Decide(2, &Standing{}, Standing{Total: .8})
	if s.Winner != "challenger" || s.Rule != PositiveScore || s.Rules[1].Status != NotApplicable {
		t.Errorf("%+v", s)
	}
	if s, _ = (Rulebook{}).Decide(2, &Standing{}, Standing{}); s.Winner != "none" {
		t.Errorf("%+v", s)
	}
	o, err := Rulebook{}.Champion(10, &Standing{ID: "inc", Hotkey: "h", Total: 5}, []Standing{
		{ID: "b", Hotkey: "x", SubmittedAt: "2026-01-02", Total: 7}, {ID: "a", Hotkey: "y", SubmittedAt: "2026-01-01", Total: 6.5}, {ID: "own", Hotkey: "h", SubmittedAt: "2026-01-09", Total: 6},
	})
	if err != nil || fmt.Sprint(o.Lineage) != "[inc own b]" || *o.Champion != "b" || !equal(o.Score, .7) {
		t.Errorf("%+v %v", o, err)
	}
	if o, _ = (Rulebook{}).Champion(10, &Standing{ID: "inc"}, []Standing{{ID: "a"}}); o.Champion != nil || o.Score != 0 {
		t.Errorf("nobody scored: %+v", o)
	}
	if got := MainOrder([]string{"inc", "A", "B"}, []string{"inc", "A", "B", "X"}); fmt.Sprint(got) != "[B A inc X]" {
		t.Error(got)
	}
	if got := MainOrder(nil, []string{"inc", "A", "B"}); fmt.Sprint(got) != "[B A inc]" {
		t.Error(got)
	}
}

func same(t *testing.T, got, want Weights) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
	for k, v := range want {
		if !equal(got[k], v) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestEmission(t *testing.T) {
	two := Weights{"7": .6, "8": .4}
	w, _ := Cap(two, .5, .2)
	same(t, w, Weights{"0": .9, "7": .06, "8": .04})
	w, _ = Cap(two, .5, 0)
	same(t, w, Weights{"0": 1, "7": 0, "8": 0})
	w, _ = Cap(Weights{"0": .8, "7": .6, "8": .4}, 1, .2)
	same(t, w, Weights{"0": .8, "7": .12, "8": .08})
	for _, c := range []struct {
		w          Weights
		score, max float64
	}{{Weights{}, 1, .2}, {Weights{"0": 1}, 1, .2}, {Weights{"7": 0}, 1, .2}, {two, 1.1, .2}, {two, -1, .2}, {two, math.NaN(), .2}, {two, 1, 2}, {two, 1, math.NaN()}, {Weights{"x": 1}, 1, .2}} {
		if w, err := Cap(c.w, c.score, c.max); err == nil {
			t.Errorf("%+v gives %v", c, w)
		}
	}
	for i, want := range []float64{.5, .25, .125, .125} {
		if got, _ := MaxFraction(i+1, .5, 9); got != want {
			t.Errorf("count %d: %v", i+1, got)
		}
	}
	for i, want := range []float64{.2, .2, .125} {
		if got, _ := MaxFraction(i+1, .2, 0); got != want {
			t.Errorf("count %d: %v", i+1, got)
		}
	}
	var all []string
	for i := range 251 {
		all = append(all, fmt.Sprint(i))
	}
	if w, _ := Flat(all, .004); len(w) != 250 || w["0"] != .004 || w["250"] != 0 {
		t.Errorf("%d are paid", len(w))
	}
	if w, _ := Flat(all[:3], .01); len(w) != 3 {
		t.Error(w)
	}
	if w, _ := Flat(all[:4], .3); len(w) != 3 {
		t.Error(w)
	}
	w, _ = Compose(Weights{"10": .1}, Weights{"11": .004, "12": .004})
	same(t, w, Weights{"0": .892, "10": .1, "11": .004, "12": .004})
	w, _ = Compose(Weights{"10": .1}, Weights{"10": .004})
	same(t, w, Weights{"0": .896, "10": .104})
	if _, err := Compose(Weights{"1": .998}, Weights{"2": .004}); err == nil {
		t.Error("more than all")
	}
	a, d := Fill([]Share{{ID: "champion", Weight: .992}, {ID: "m1", Weight: .004}, {ID: "m2", Weight: .004}, {ID: "m3", Weight: .004}, {ID: "g", Weight: .004}})
	if len(a) != 3 || len(d) != 2 || a[2].ID != "m2" {
		t.Errorf("%v %v", a, d)
	}
}

// shares renders what names are paid in thousandths.
func shares(list []Share) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%s%.0f", s.Hotkey+s.ID, 1000*s.Weight))
	}
	return strings.Join(out, " ")
}

func entries(scores ...float64) (out []Scored) {
	for i, s := range scores {
		out = append(out, Scored{Hotkey: string(rune('a' + i)), Score: s})
	}
	return out
}

func TestTiers(t *testing.T) {
	for _, c := range []struct {
		list []Scored
		unit float64
		want string
	}{
		{entries(1, .9, .8, .7, .6, .5, .4, .3, .2, .1), .01, "a20 b10 c10 d10 e10"},
		{entries(1, 1, .9, .8, .7, .7, .6, .5, .4, .3), .01, "a20 b20 c10 d10 e10 f10"},
		{entries(1, .5, 0), .01, "a20 b10"},
		{entries(1, .5, 0, 0, 0, 0, 0, 0, 0, 0), .01, "a20 b10"},
		{entries(1, 1, 1), .34, "a680"},
		{[]Scored{{Hotkey: "a", Score: 1, Class: Novel}, {Hotkey: "b", Score: .5, Class: NearDuplicate}, {Hotkey: "c"}}, .008, "a4 b2"},
	} {
		got, err := Tiered(c.list, c.unit)
		if err != nil || shares(got) != c.want {
			t.Errorf("%s, want %s: %v", shares(got), c.want, err)
		}
	}
	if _, err := Tiered([]Scored{{Hotkey: "a", Score: 1, Class: NotableChange}}, .01); err == nil {
		t.Error("notable_change is paid")
	}
	parts, _ := Split(.8, []float64{1, 3, 25})
	for i, want := range []float64{.8 / 29, 2.4 / 29, 20.0 / 29} {
		if !equal(parts[i], want) {
			t.Error(parts)
		}
	}
	if list, _ := EqualSplit(.7, []string{"a", "b", "a", "c"}); len(list) != 3 || !equal(list[2].Weight, .7/3) {
		t.Error(list)
	}
	var ten []Scored
	for i := range 10 {
		class := NearDuplicate
		switch i {
		case 0, 9:
			class = Novel
		case 1:
			class = NotableChange
		}
		ten = append(ten, Scored{ID: fmt.Sprint("artifact", i+1), Score: 1 - float64(i)/10, Class: class, Main: i == 9})
	}
	by := func(version int) map[string]float64 {
		out := map[string]float64{}
		for _, s := range StageWeights(ten, version) {
			out[s.ID] = s.Weight
		}
		return out
	}
	if w := by(7); w["artifact1"] != 10 || w["artifact2"] != 3 || w["artifact10"] != 25 || w["artifact6"] != 0 {
		t.Error(w)
	}
	if w := by(9); w["artifact10"] != 50 {
		t.Error(w)
	}
}

func TestSimilarity(t *testing.T) {
	for votes, want := range map[string]string{
		"novel novel duplicate": "pass novel", "novel duplicate": "pass near_duplicate", "duplicate near_duplicate notable_change novel": "pass near_duplicate",
		"notable_change novel": "pass notable_change", "": "undecided", "duplicate duplicate novel": "fail", "not_duplicate novel": "pass",
	} {
		v, err := Vote(strings.Fields(votes))
		got := v.Outcome
		if v.Class != nil {
			got += " " + *v.Class
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, want %s, %v", votes, got, want, err)
		}
	}
	for parts, want := range map[[3]string]string{
		{preserved, preserved, preserved}: Duplicate, {preserved, localized, localized}: NearDuplicate, {replaced, replaced, replaced}: Novel,
		{replaced, preserved, replaced}: NotableChange, {sameRoot, preserved, preserved}: NotableChange, {"", preserved, preserved}: "",
	} {
		if got, _ := ClassOf(parts[0], parts[1], parts[2]); got != want {
			t.Errorf("%v: %s", parts, got)
		}
	}
}

func TestContract(t *testing.T) {
	long := strings.Repeat("x", MaxChars+1)
	for in, want := range map[string]string{
		`{"text":" "}`:                      "",
		`{"text":"q","x":1}`:                "",
		`{"text":"q"}`:                      "text",
		`{"text":"q","output_schema":null}`: "text",
		`{"text":"q","output_schema":{}}`:   "structured",
		`{"text":"q","output_schema":[]}`:   "",
		`{"text":"q","text":"r"}`:           "",
		`{"text":1}`:                        "",
		`{"text":"q","output_schema":{"$schema":"http://json-schema.org/draft-07/schema#"}}`:                      "",
		`{"text":"q","output_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema"}}`:                 "structured",
		`{"text":"q","output_schema":{"$ref":"http://x/y"}}`:                                                      "",
		`{"text":"q","output_schema":{"$ref":"#/$defs/a"}}`:                                                       "",
		`{"text":"q","output_schema":{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}}`:                       "structured",
		`{"text":"q","output_schema":{"$ref":"#/prefixItems/01","prefixItems":[true,true]}}`:                      "",
		`{"text":"q","output_schema":{"const":{"$ref":"http://x/y"}}}`:                                            "structured",
		`{"text":"q","output_schema":{"properties":{"a":{"$id":"urn:a","$ref":"#/$defs/b","$defs":{"b":true}}}}}`: "structured",
		`{"text":"q","output_schema":{"properties":{"a":{"$id":"urn:a","$ref":"#/$defs/b"}},"$defs":{"b":true}}}`: "",
		`{"text":"q","output_schema":{"$dynamicRef":"#n","$defs":{"a":{"$dynamicAnchor":"n"}}}}`:                  "structured",
		`{"text":"q","output_schema":{"title":"` + long + `"}}`:                                                   "",
		`{"text":"q","output_schema":` + strings.Repeat(`{"not":`, 300) + `{}` + strings.Repeat(`}`, 300) + `}`:   "",
	} {
		q, err := ParseQuery([]byte(in))
		if (err == nil) != (want != "") || err == nil && q.Mode() != want {
			t.Errorf("%.100s: %s %v", in, q.Mode(), err)
		}
	}
	cite := func(n, slices int) string {
		one := `{"receipt_id":"r","result_id":"x","slices":[` + strings.TrimSuffix(strings.Repeat(`{"start":0,"end":1},`, slices), ",") + `]}`
		return `{"text":"a","citations":[` + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + `]}`
	}
	for in, ok := range map[string]bool{
		`{"text":"a","citations":null}`: true, `{"text":"a","citations":[null]}`: false, `{"text":"a","note":" "}`: false, `{"text":"a","note":null}`: true,
		`{"text":"x` + strings.Repeat(" ", MaxChars) + `"}`: false, `{"text":"` + long[:MaxChars] + `"}`: true, `{"text":"` + long + `"}`: false,
		`{"text":"a","output":1}`: false, `{}`: false, `{"output":null}`: false, `{"output":0}`: true, `{"output":{"b":[1]}}`: true, `{"text":"a","y":1}`: false, `{"text":5}`: false,
		cite(200, 1): true, cite(201, 0): false, cite(200, 2): true, cite(100, 5): false, cite(1, 400): true, cite(1, 401): false,
		`{"text":"a","citations":[{"receipt_id":"r","result_id":"x","slices":[{"start":5,"end":5}]}]}`: false, `[]`: false, ``: false,
	} {
		if _, err := ParseResponse([]byte(in)); (err == nil) != ok {
			t.Errorf("%.100s: %v", in, err)
		}
	}
}

func TestBenchmarks(t *testing.T) {
	for _, c := range []struct {
		list []Criterion
		want float64
		bad  bool
	}{
		{[]Criterion{{ID: "a", Weight: 10, Verdict: "MET"}, {ID: "b", Weight: -5, Verdict: "UNMET"}}, 1, false},
		{[]Criterion{{ID: "a", Weight: 10, Verdict: "MET"}, {ID: "b", Weight: -5, Verdict: "MET"}}, .5, false},
		{[]Criterion{{ID: "b", Weight: -5, Verdict: "MET"}}, 0, true},
		{[]Criterion{{ID: "a", Weight: 1, Verdict: "MET"}, {ID: "a", Weight: 1, Verdict: "MET"}}, 0, true},
		{[]Criterion{{ID: "a", Verdict: "MET"}}, 0, true},
	} {
		if got, err := Rubric(c.list); got != c.want || (err != nil) != c.bad {
			t.Errorf("%+v: %v %v", c.list, got, err)
		}
	}
	a, _ := Panel("v1", "s", 100)
	b, _ := Panel("v1", "s", 100)
	if len(a) != 20 || !slices.Equal(a, b) || !slices.IsSorted(a) {
		t.Error(a)
	}
	if c, _ := Panel("v2", "s", 100); slices.Equal(a, c) {
		t.Error("another version asks the same")
	}
	if few, _ := Panel("v1", "s", 3); fmt.Sprint(few) != "[0 1 2]" {
		t.Error(few)
	}
	ids := BenchmarkIDs("draco", "b", "v", "s", []int{0, 1})
	if len(ids.Tasks) != 2 || ids.Tasks[0] == ids.Tasks[1] || ids.Run[14] != '5' || ids.Batch == ids.Run {
		t.Errorf("%+v", ids)
	}
	for in, want := range map[[2]string]float64{{"first", "second"}: 1, {"second", "first"}: 0, {"first", "first"}: .5, {"second", "second"}: .5} {
		if got, err := Pairwise(in[0], in[1]); err != nil || got != want {
			t.Errorf("%v: %v %v", in, got, err)
		}
	}
}

func TestBudget(t *testing.T) {
	a, err := Charge(EraSeed, .003, 0, []float64{.0025, .0025})
	if err != nil || a.Receipts != 1 || fmt.Sprint(a.Calls) != "[ok refused]" || !equal(a.Remaining, .0005) {
		t.Errorf("%+v %v", a, err)
	}
	if a, _ = Charge(EraSeed, .005, 0, []float64{.0025, .0025}); a.Receipts != 2 {
		t.Errorf("equality: %+v", a)
	}
	a, _ = Charge(EraHead, .005, 0, []float64{.0025, .0025, .001})
	if a.Status != "exhausted" || a.Receipts != 3 || fmt.Sprint(a.Calls) != "[ok budget_exceeded ok]" || a.Remaining != 0 {
		t.Errorf("%+v", a)
	}
	for _, c := range []struct {
		transport string
		status    int
		code      string
		want      string
	}{
		{"", 408, "tool_timeout", "tool_timeout"},
		{"read_timeout", 0, "", "tool_timeout"},
		{"reset", 0, "", "platform_interrupted"},
		{"", 500, "what", "platform_error"},
		{"", 500, "", "platform_error"},
		{"connect", 0, "", "platform_tool_proxy_execution_failed"},
		{"", 409, "duplicate_call", "duplicate_call"},
	} {
		if got, err := ProxyError(c.transport, c.status, c.code); err != nil || got != c.want {
			t.Errorf("%+v: %s %v", c, got, err)
		}
	}
	for _, c := range []struct {
		code         string
		attempt, of  int
		session      bool
		owner, ended string
	}{
		{"miner_response_invalid", 1, 3, true, "miner", "task_result"},
		{"timeout_miner_owned", 1, 2, true, "miner", ""},
		{"timeout_miner_owned", 2, 2, true, "miner", "task_result"},
		{"artifact_hash_mismatch", 1, 2, false, "validator", "delivery_failure"},
		{"unexpected_validator_failure", 1, 2, true, "validator", ""},
		{"unexpected_validator_failure", 2, 2, true, "validator", "attempt_failure"},
		{"unexpected_validator_failure", 1, 2, false, "validator", "delivery_failure"},
	} {
		b, err := Failure(c.code, c.attempt, c.of, c.session)
		ended := ""
		if b.Effect != nil {
			ended = *b.Effect
		}
		if err != nil || b.Owner != c.owner || ended != c.ended {
			t.Errorf("%+v: %+v %v", c, b, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"text":"q","output_schema":{"$ref":"#/a/0","a":[true]}}`)
	f.Add(`{"text":"a","citations":[{"receipt_id":"r","result_id":"x","slices":[{"start":0,"end":1}]}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		if q, err := ParseQuery([]byte(s)); err == nil && (strings.TrimSpace(q.Text) == "" || q.Schema != nil && !json.Valid(q.Schema)) {
			t.Fatalf("%q passed as %+v", s, q)
		}
		if r, err := ParseResponse([]byte(s)); err == nil && (r.Text == nil) == (r.Output == nil) {
			t.Fatalf("%q passed as %+v", s, r)
		}
	})
}
