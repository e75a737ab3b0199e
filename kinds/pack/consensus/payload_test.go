package consensus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/agon-arena/agon/calc"
)

func TestGolden(t *testing.T) {
	b, err := os.ReadFile("testdata/trajectoryrl.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Payload struct{ Serialized, Hash string } `json:"consensus_payload"`
		Cost    []map[string]json.RawMessage      `json:"consensus_cost_v1"`
	}
	if err := json.Unmarshal(b, &v); err != nil || len(v.Cost) != 4 {
		t.Fatal(err)
	}
	reg := calc.New(Rules()...)
	run := func(rule, in string) map[string]any {
		t.Helper()
		var out bytes.Buffer
		var got map[string]any
		if bad, err := reg.Run(rule, strings.NewReader(in), &out); err != nil || bad > 0 || json.Unmarshal(out.Bytes(), &got) != nil {
			t.Fatalf("%s: %v %s", rule, err, out.String())
		}
		return got
	}
	got := run("trajectoryrl.consensus_payload", `{"payload":`+v.Payload.Serialized+`}`)
	if got["serialized"] != v.Payload.Serialized || got["hash"] != v.Payload.Hash {
		t.Errorf("got %v", got)
	}
	for _, row := range v.Cost {
		var line bytes.Buffer
		if err := json.Compact(&line, row["votes"]); err != nil {
			t.Fatal(err)
		}
		got := run("trajectoryrl.consensus_cost_v1", `{"votes":`+line.String()+`}`)
		for _, f := range []string{"cost", "qualified"} {
			var want any
			if err := json.Unmarshal(row[f], &want); err != nil || !reflect.DeepEqual(got[f], want) {
				t.Errorf("%s: %s is %v, want %v", row["name"], f, got[f], want)
			}
		}
	}
}

func sound() Payload {
	return Payload{
		Protocol: 1, Window: 7, Validator: "v", Software: "1.2.0", Scoring: 2, Timestamp: 5,
		Costs: map[string]float64{"m": 0.5}, Qualified: map[string]bool{"m": true}, Disqualified: map[string]string{"x": "integrity_failed"},
	}
}

func TestParse(t *testing.T) {
	want := sound()
	got, err := Parse(want.Canonical())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v %+v", err, got)
	}
	text := string(want.Canonical())
	old := strings.NewReplacer("clawbench_version", "software_version", `"scoring_version":2,`, "", `"disqualified":{"x":"integrity_failed"},`, "").Replace(text)
	if got, err := Parse([]byte(old)); err != nil || got.Scoring != 1 || got.Software != "1.2.0" || len(got.Disqualified) != 0 {
		t.Errorf("the older form: %v %+v", err, got)
	}
	for name, s := range map[string]string{
		"NaN":         strings.Replace(text, "0.5", "NaN", 1),
		"infinite":    strings.Replace(text, "0.5", "1e999", 1),
		"huge":        strings.Replace(text, "0.5", strings.Repeat("9", 400), 1),
		"negative":    strings.Replace(text, "0.5", "-0.5", 1),
		"text cost":   strings.Replace(text, "0.5", `"0.5"`, 1),
		"word":        strings.Replace(text, "true", `"true"`, 1),
		"no window":   strings.Replace(text, "window_number", "w", 1),
		"huge window": strings.Replace(text, `"window_number":7`, `"window_number":1`+strings.Repeat("0", 30), 1),
		"float":       strings.Replace(text, `"window_number":7`, `"window_number":7.0`, 1),
		"list":        "[]", "nothing": "", "half": text[:40],
		"no hotkey":  strings.Replace(text, `"validator_hotkey":"v"`, `"validator_hotkey":""`, 1),
		"no costs":   strings.Replace(text, `"costs"`, `"c"`, 1),
		"large":      text + strings.Repeat(" ", MaxPayload),
		"long key":   strings.Replace(text, `"m":0.5`, `"`+strings.Repeat("m", 300)+`":0.5`, 1),
		"deep":       strings.Repeat("[", 5000),
		"no version": strings.Replace(text, "clawbench_version", "v", 1),
	} {
		if _, err := Parse([]byte(s)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestFilter(t *testing.T) {
	mk := func(change func(*Submission)) Submission {
		s := Submission{Hotkey: "v", Stake: 20_000, Payload: sound(), Intact: true}
		change(&s)
		return s
	}
	list := []Submission{
		mk(func(*Submission) {}),
		mk(func(s *Submission) { s.Payload.Protocol = 2 }),
		mk(func(s *Submission) { s.Payload.Window = 6 }),
		mk(func(s *Submission) { s.Stake = 9_999 }),
		mk(func(s *Submission) { s.Intact = false }),
		mk(func(s *Submission) { s.Payload.Software = "2.0.0" }),
		mk(func(s *Submission) { s.Payload.Scoring = 1 }),
		mk(func(s *Submission) { s.Payload.Costs = map[string]float64{"m": 0} }),
		mk(func(s *Submission) { s.Hotkey = "another" }),
	}
	kept, c := Filter(list, Expect{Window: 7, Software: "1.0.0"})
	if want := "Filter: 9 in → 1 passed | protocol=1 window=1 stake=1 integrity=1 version=1 scoring=1 zero=1 writer=1"; len(kept) != 1 || c.String() != want {
		t.Errorf("got %s", c)
	}
	// Where nobody saw a cost, nobody is dropped for it.
	if kept, c := Filter(list[7:8], Expect{Window: 7, Software: "1"}); len(kept) != 1 || c.Zero != 0 {
		t.Errorf("got %s", c)
	}
}

// A validator cannot carry a miner that the others do not list.
func TestAggregateClosedWorld(t *testing.T) {
	p := func(v string, stake float64, cost float64) Submission {
		x := sound()
		x.Costs, x.Qualified = map[string]float64{"m": cost}, map[string]bool{"m": true}
		return Submission{Hotkey: v, Stake: stake, Payload: x, Intact: true}
	}
	liar := p("liar", 30, 100)
	liar.Payload.Costs["own"], liar.Payload.Qualified["own"] = 0.001, true
	got := Aggregate([]Submission{p("a", 40, 1), p("b", 30, 1), liar}, 2, false)
	if got["own"].Qualified || !got["m"].Qualified {
		t.Errorf("got %+v", got)
	}
	if out := Outvoted(liar, got); strings.Join(out, " ") != "m own" {
		t.Errorf("outvoted about %v", out)
	}
	if one := Aggregate([]Submission{p("a", 90, 1), {Hotkey: "b", Stake: 10, Payload: Payload{}}}, 2, true); one["m"].Qualified {
		t.Error("one validator alone decided where two must")
	}
}

// A miner qualifies by more than half of the stake that reports, and its cost
// is the stake-weighted median.
func TestAggregateBounds(t *testing.T) {
	// v has stake and says cost; below 0 it does not call the miner qualified.
	type v struct{ stake, cost float64 }
	for _, c := range []struct {
		name      string
		least     int
		middle    bool
		votes     []v
		qualified bool
		cost      float64
	}{
		{"half of the stake is too little", 0, true, []v{{50, 1}, {50, -1}}, false, 1},
		{"a little more is enough", 0, true, []v{{50.001, 1}, {49.999, -1}}, true, 1},
		{"enough stake, too few validators", 2, true, []v{{90, 1}, {10, -1}}, false, 1},
		{"as many validators as must agree", 2, true, []v{{45, 1}, {45, 1}, {10, -1}}, true, 1},
		{"far ends move nothing", 0, true, []v{{10, 2}, {20, 4}, {10, 8}}, true, 4},
		{"a fifth above and nearly half of the stake moves nothing", 0, true, []v{{51, 4}, {49, 4.8}}, true, 4},
		{"of halves the lower", 0, true, []v{{20, 4}, {20, 6}}, true, 4},
		{"three times the median moves nothing", 0, true, []v{{30, 4}, {10, 12}}, true, 4},
		{"a third of the median moves nothing", 0, true, []v{{30, 3}, {10, 1}}, true, 3},
		{"the plain mean takes everything", 0, false, []v{{30, 4}, {10, 12}}, true, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var list []Submission
			for i, x := range c.votes {
				p := sound()
				p.Costs, p.Qualified = map[string]float64{"m": max(x.cost, 0)}, map[string]bool{"m": x.cost >= 0}
				list = append(list, Submission{Hotkey: fmt.Sprint(i), Stake: x.stake, Payload: p, Intact: true})
			}
			got := Aggregate(list, c.least, c.middle)["m"]
			if got.Qualified != c.qualified || math.Abs(got.Cost-c.cost) > 1e-12 {
				t.Errorf("qualified %t at %v, want %t at %v", got.Qualified, got.Cost, c.qualified, c.cost)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sound().Canonical())
	f.Add([]byte(`{"costs":{"a":NaN}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse(b)
		if err != nil {
			return
		}
		again, err := Parse(p.Canonical())
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%v: %+v, then %+v", err, p, again)
		}
	})
}

func BenchmarkAggregate64x256(b *testing.B) {
	list := make([]Submission, 64)
	raw := make([][]byte, 64)
	for i := range list {
		p := sound()
		p.Validator = fmt.Sprint(i)
		for j := range 256 {
			p.Costs[fmt.Sprint("miner", j)], p.Qualified[fmt.Sprint("miner", j)] = float64(j)+1, j%3 > 0
		}
		raw[i] = p.Canonical()
	}
	for b.Loop() {
		for i := range raw {
			p, err := Parse(raw[i])
			if err != nil {
				b.Fatal(err)
			}
			list[i] = Submission{Hotkey: p.Validator, Stake: 20_000, Payload: p, Intact: true}
		}
		kept, _ := Filter(list, Expect{Window: 7, Software: "1"})
		if len(Aggregate(kept, 2, true)) != 257 {
			b.Fatal("lost some")
		}
	}
}
