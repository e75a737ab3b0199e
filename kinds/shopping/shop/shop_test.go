package shop

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestPriceBound(t *testing.T) {
	for in, c := range map[string]struct {
		holds []float64
		fails []float64
	}{
		`{"less than":[null,5]}`:    {[]float64{0, 5}, []float64{5.01}},
		`{"greater than":[5,null]}`: {[]float64{5, 99}, []float64{4.99}},
		`{"between":[5,7]}`:         {[]float64{5, 6, 7}, []float64{4.9, 7.1}},
	} {
		var b PriceBound
		if err := json.Unmarshal([]byte(in), &b); err != nil {
			t.Fatal(err)
		}
		for _, p := range c.holds {
			if !b.Holds(p) {
				t.Errorf("%s: %v does not hold", in, p)
			}
		}
		for _, p := range c.fails {
			if b.Holds(p) {
				t.Errorf("%s: %v holds", in, p)
			}
		}
		if out, err := json.Marshal(b); err != nil || string(out) != in {
			t.Errorf("%s is written as %s, %v", in, out, err)
		}
	}
	for _, in := range []string{`{}`, `{"between":[5]}`, `{"between":[5,null]}`, `{"less than":[5,null]}`, `{"about":[1,2]}`, `{"between":[1,2],"less than":[null,2]}`, `[1,2]`, `{"between":["1",2]}`} {
		var b PriceBound
		if err := json.Unmarshal([]byte(in), &b); err == nil {
			t.Errorf("%s is read as %+v", in, b)
		}
	}
}

// An agent is told five fields and nothing of the answer.
func TestPublic(t *testing.T) {
	face := 3.0
	p := Problem{
		ProblemID: "id", Query: "q", Category: CategoryVoucher, Reward: Reward{Items: []Item{{ProductID: "secret", Title: []string{"secret title"}}}},
		Voucher: &Voucher{FaceValue: &face}, TitleVectors: map[string][]float32{"secret title": {1}},
	}
	b, err := json.Marshal(p.Public())
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil || len(m) != 5 || strings.Contains(string(b), "secret") {
		t.Errorf("%s", b)
	}
}

func TestCosine(t *testing.T) {
	for _, c := range []struct {
		a, b []float32
		want float64
		ok   bool
	}{
		{[]float32{1, 0}, []float32{2, 0}, 1, true},
		{[]float32{1, 0}, []float32{0, 1}, 0, true},
		{[]float32{1, 0}, []float32{-1, 0}, -1, true},
		{[]float32{0, 0}, []float32{1, 0}, 0, true},
		{[]float32{1}, []float32{1, 0}, 0, false},
		{nil, nil, 0, false},
	} {
		if got, err := Cosine(c.a, c.b); (err == nil) != c.ok || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v, %v: %v, %v", c.a, c.b, got, err)
		}
	}
}

// broken answers with too few vectors.
type broken struct{ err error }

func (broken) Name() string { return "broken" }

func TestVectors(t *testing.T) {
	v := Vectors{Model: "m", Table: map[string][]float32{"a": {1}}}
	if got, err := v.Encode(t.Context(), []string{"a", "a"}); err != nil || got[1][0] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := v.Encode(t.Context(), []string{"b"}); !errors.Is(err, ErrNoEncoder) {
		t.Errorf("%v", err)
	}
	down := errors.New("down")
	for _, e := range []broken{{}, {down}} {
		v.Next = e
		if _, err := v.Encode(t.Context(), []string{"b", "a"}); err == nil || (e.err != nil && !errors.Is(err, down)) {
			t.Errorf("%v", err)
		}
	}
}

func (b broken) Encode(context.Context, []string) ([][]float32, error) { return nil, b.err }
