package score

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// goldenCase is one row of the vectors: what ORO's own scorer answered.
type goldenCase struct {
	Task    string             `json:"task"`
	Catalog []*shop.Product    `json:"catalog"`
	Reward  shop.Reward        `json:"reward"`
	Voucher *shop.Voucher      `json:"voucher"`
	Output  json.RawMessage    `json:"output"`
	Expect  map[string]float64 `json:"expect"`
	Success bool               `json:"success"`
}

type golden struct {
	Titles      map[string][]float32 `json:"title_vectors"`
	Cases       []goldenCase         `json:"cases"`
	Coefficient [][4]float64         `json:"coefficient"`
	Weights     []json.RawMessage    `json:"weights"`
}

func readGolden(t testing.TB) golden {
	t.Helper()
	b, err := os.ReadFile("testdata/oro.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Cases) != 160 || len(g.Coefficient) != 51 || len(g.Weights) != 30 {
		t.Fatalf("%d cases, %d coefficients, %d weights", len(g.Cases), len(g.Coefficient), len(g.Weights))
	}
	return g
}

func (g golden) problem(i int) (*shop.Problem, Products) {
	c := g.Cases[i]
	cat := Products{}
	for _, p := range c.Catalog {
		cat[p.ProductID] = p
	}
	return &shop.Problem{Category: c.Task, Reward: c.Reward, Voucher: c.Voucher}, cat
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9 }

func fields(t testing.TB, s *Score) map[string]float64 {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]float64
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestGoldenScores(t *testing.T) {
	g := readGolden(t)
	s := New(Config{Encoder: shop.Vectors{Model: "golden", Table: g.Titles}})
	var results []Result
	for i, c := range g.Cases {
		p, cat := g.problem(i)
		got, err := s.Score(context.Background(), p, cat, c.Output)
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		results = append(results, Result{c.Task, got})
		m := fields(t, got)
		if len(m) != len(c.Expect) {
			t.Errorf("case %d: fields %v, want %v", i, m, c.Expect)
		}
		for k, want := range c.Expect {
			if v, ok := m[k]; !ok || !near(v, want) {
				t.Errorf("case %d: %s = %v, want %v", i, k, v, want)
			}
		}
		if got.Success(c.Task) != c.Success {
			t.Errorf("case %d: success is %v", i, !c.Success)
		}
	}
	// The aggregate that ORO's scorer made of these cases in a suite of 340.
	a := Aggregate(340, results)
	want := Components{.22058823529411764, .19117647058823528, .4050245098039216, .32322712418300653, 340, 65, 160}
	if !near(a.GroundTruthRate, want.GroundTruthRate) || !near(a.SuccessRate, want.SuccessRate) || !near(a.FormatScore, want.FormatScore) ||
		!near(a.FieldMatching, want.FieldMatching) || a.SuccessfulProblems != 65 || a.ScoredProblems != 160 {
		t.Errorf("aggregate %+v, want %+v", a, want)
	}
}

func TestGoldenCoefficients(t *testing.T) {
	for _, row := range readGolden(t).Coefficient {
		if c := Coefficient(row[0]); !near(c, row[1]) {
			t.Errorf("q %v: %v, want %v", row[0], c, row[1])
		}
		if f := Final(19./30, row[0]); !near(f, row[2]) {
			t.Errorf("q %v at 19/30: %v, want %v", row[0], f, row[2])
		}
		if f := Final(7./30, row[0]); !near(f, row[3]) {
			t.Errorf("q %v at 7/30: %v, want %v", row[0], f, row[3])
		}
	}
}

// TestGoldenThroughCalc asks the command's own way in, in the file's shapes.
func TestGoldenThroughCalc(t *testing.T) {
	g := readGolden(t)
	reg := calc.New(Rules()...)
	ask := func(rule, in string, out any) {
		t.Helper()
		var b bytes.Buffer
		if n, err := reg.Run(rule, strings.NewReader(in), &b); err != nil || n != 0 {
			t.Fatalf("%s: %v, %s", rule, err, b.String())
		}
		if err := json.Unmarshal(b.Bytes(), out); err != nil {
			t.Fatal(err)
		}
	}
	for i, raw := range g.Weights {
		var in map[string]any
		if err := json.Unmarshal(raw, &in); err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(in["weights"])
		if err != nil {
			t.Fatal(err)
		}
		delete(in, "weights")
		line, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Weights json.RawMessage }
		if ask(WeightsRule, string(line), &got); !bytes.Equal(got.Weights, want) {
			t.Errorf("weights %d: %s, want %s", i, got.Weights, want)
		}
	}
	b, err := os.ReadFile("testdata/oro.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Titles json.RawMessage              `json:"title_vectors"`
		Cases  []map[string]json.RawMessage `json:"cases"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	for i, c := range file.Cases {
		want := c["expect"]
		delete(c, "expect")
		delete(c, "success")
		c["title_vectors"] = file.Titles
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Expect  map[string]float64
			Success *bool
		}
		ask(ScoreRule, string(line), &got)
		var expect map[string]float64
		if err := json.Unmarshal(want, &expect); err != nil {
			t.Fatal(err)
		}
		if got.Success == nil || *got.Success != g.Cases[i].Success || len(got.Expect) != len(expect) {
			t.Errorf("case %d: %+v", i, got)
		}
		for k, v := range expect {
			if !near(got.Expect[k], v) {
				t.Errorf("case %d: %s = %v, want %v", i, k, got.Expect[k], v)
			}
		}
	}
	var c struct{ Coef, Final float64 }
	if ask(CoefficientRule, `{"q":0.79,"rate":0.6333333333333333}`, &c); !near(c.Coef, .9912) || !near(c.Final, .6278) {
		t.Errorf("%+v", c)
	}
	var bar struct{ Bar float64 }
	if ask(ThresholdRule, `{"score":0.5,"set_at":1000,"now":1100,"law":{"initial":0.1,"floor":0.02,"half_life_s":100}}`, &bar); !near(bar.Bar, 0.56) {
		t.Errorf("%+v", bar)
	}
}

func BenchmarkScore(b *testing.B) {
	g := readGolden(b)
	s := New(Config{Encoder: shop.Vectors{Model: "golden", Table: g.Titles}})
	type one struct {
		p   *shop.Problem
		cat Products
		out []byte
	}
	var all []one
	for i, c := range g.Cases {
		p, cat := g.problem(i)
		all = append(all, one{p, cat, c.Output})
	}
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			o := all[i%len(all)]
			if _, err := s.Score(context.Background(), o.p, o.cat, o.out); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "episodes/s")
}
