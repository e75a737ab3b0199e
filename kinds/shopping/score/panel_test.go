package score

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Three validators score the same 160 episodes, each by its own scorer. One
// has an encoder that is broken: it is flagged by what it got wrong, left out,
// and the result is that of the two others.
func TestPanelBrokenEncoder(t *testing.T) {
	g := readGolden(t)
	flat := map[string][]float32{}
	for title := range g.Titles {
		flat[title] = []float32{1, 1, 1} // every title is like every other
	}
	good := Config{Encoder: shop.Vectors{Model: "golden", Table: g.Titles}}
	for name, broken := range map[string]Config{
		"same vector for all": {Encoder: shop.Vectors{Model: "golden", Table: flat}},
		"no encoder, silent":  {DropTitles: true},
	} {
		t.Run(name, func(t *testing.T) {
			var reports []Report
			for i, cfg := range []Config{good, broken, good} {
				r := Report{fmt.Sprintf("v%d", i), map[string]Record{}}
				for n, c := range g.Cases {
					p, cat := g.problem(n)
					s, err := New(cfg).Score(context.Background(), p, cat, c.Output)
					if err != nil {
						t.Fatal(err)
					}
					r.Records[fmt.Sprintf("e%03d", n)] = RecordOf(s, c.Task)
				}
				reports = append(reports, r)
			}
			p, err := Agree(PanelRule{}, reports)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(p.Accepted, []string{"v0", "v2"}) || len(p.Flagged) != 1 || len(p.Undecided) != 0 {
				t.Fatalf("accepted %v, flagged %+v, undecided %v", p.Accepted, p.Flagged, p.Undecided)
			}
			f := p.Flagged[0]
			if f.Validator != "v1" || f.Differs == 0 || f.Compared != 160 || !slices.Contains(f.Fields, "title") || slices.Contains(f.Fields, "price") {
				t.Errorf("%+v", f)
			}
			if p.SuccessRate == nil || !near(*p.SuccessRate, 65./160) {
				t.Errorf("success rate %v", p.SuccessRate)
			}
		})
	}
}

func TestPanel(t *testing.T) {
	one := func(v string, success ...float64) Report {
		r := Report{v, map[string]Record{}}
		for i, s := range success {
			r.Records[fmt.Sprint(i)] = Record{"success": s}
		}
		return r
	}
	for name, c := range map[string]struct {
		reports             []Report
		rule                PanelRule
		accepted, undecided int
		rate                float64 // -1 = none
	}{
		"one alone decides nothing":    {[]Report{one("a", 1)}, PanelRule{}, 1, 1, -1},
		"two that differ":              {[]Report{one("a", 1, 0), one("b", 0, 0)}, PanelRule{}, 2, 1, 0},
		"two that agree":               {[]Report{one("a", 1), one("b", 1)}, PanelRule{}, 2, 0, 1},
		"two to one":                   {[]Report{one("a", 1), one("b", 1), one("c", 0)}, PanelRule{}, 2, 0, 1},
		"two to two":                   {[]Report{one("a", 1), one("b", 1), one("c", 0), one("d", 0)}, PanelRule{}, 4, 1, -1},
		"a slip is allowed":            {[]Report{one("a", 1, 1, 1), one("b", 1, 1, 1), one("c", 0, 1, 1)}, PanelRule{MaxShare: .4}, 3, 0, 1},
		"rounding":                     {[]Report{one("a", 1), one("b", 1+1e-12)}, PanelRule{}, 2, 0, 1},
		"an episode that one has only": {[]Report{one("a", 1, 1), one("b", 1)}, PanelRule{}, 2, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Agree(c.rule, c.reports)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Accepted) != c.accepted || len(p.Undecided) != c.undecided || (p.SuccessRate == nil) != (c.rate < 0) || (p.SuccessRate != nil && *p.SuccessRate != c.rate) {
				t.Errorf("%+v", p)
			}
		})
	}
	for _, bad := range [][]Report{nil, {one("a", 1), one("a", 1)}, {one("", 1)}} {
		if _, err := Agree(PanelRule{}, bad); err == nil {
			t.Errorf("%v passes", bad)
		}
	}
}

func TestPanelCalc(t *testing.T) {
	in := `{"reports":[{"validator":"a","records":{"e":{"success":1,"title":1}}},{"validator":"b","records":{"e":{"success":0,"title":0}}},{"validator":"c","records":{"e":{"success":1,"title":1}}}]}`
	var out bytes.Buffer
	if bad, err := calc.New(Rules()...).Run(PanelRuleName, strings.NewReader(in), &out); err != nil || bad != 0 {
		t.Fatalf("%v, %s", err, out.String())
	}
	var p Panel
	if err := json.Unmarshal(out.Bytes(), &p); err != nil || len(p.Flagged) != 1 || p.Flagged[0].Validator != "b" || *p.SuccessRate != 1 {
		t.Errorf("%s", out.String())
	}
}
