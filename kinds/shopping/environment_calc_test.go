package shopping

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// The rewards and fields of a hundred episodes are those that `agon calc oro.score` says of
// the same answers: right ones, parts of them, what answers another problem, and what is nowhere.
func TestEnvironmentEqualsCalc(t *testing.T) {
	w := newEnvWorld(t)
	ctx := t.Context()
	index, _, err := w.env.floor.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	enc, err := w.env.floor.Encoder()
	if err != nil {
		t.Fatal(err)
	}
	rules := calc.New(score.Rules()...)
	r := rand.New(rand.NewPCG(3, 5))
	var answered []string // tasks that a product answers
	for _, tk := range w.env.Tasks() {
		if !strings.HasPrefix(w.answer[tk.Key], "none-") {
			answered = append(answered, tk.Key)
		}
	}
	ones := 0
	for i := range 100 {
		key := answered[i%len(answered)]
		ids := strings.Split(w.answer[key], ",")
		switch i / len(answered) % 4 {
		case 1: // a part
			ids = ids[:len(ids)-1]
		case 2: // what answers another problem, in a place
			other := strings.Split(w.answer[answered[r.IntN(len(answered))]], ",")
			ids[r.IntN(len(ids))] = other[0]
		case 3:
			ids = []string{"no-such-product"}
		}
		x, err := w.server.Sessions.Open(ctx, "", key, int64(i))
		if err != nil {
			t.Fatal(err)
		}
		args := fmt.Sprintf(`{"product_ids":%q}`, strings.Join(ids, ","))
		if len(ids) > 0 {
			if got, err := x.Call(ctx, "", "recommend_product", []byte(args)); err != nil || got.Refused {
				t.Fatalf("%s: %+v %v", args, got, err)
			}
		}
		got, err := x.Call(ctx, "", "terminate", []byte(`{}`))
		if err != nil || !got.Done {
			t.Fatalf("%+v %v", got, err)
		}
		_ = x.Close()

		var p shop.Problem
		if err := json.Unmarshal(w.env.whole[key], &p); err != nil {
			t.Fatal(err)
		}
		var whole struct{ Reward, Voucher json.RawMessage }
		if err := json.Unmarshal(w.env.whole[key], &whole); err != nil {
			t.Fatal(err)
		}
		titles, catalog := map[string][]float32{}, []*shop.Product{}
		add := func(text string) {
			if v, err := enc.Encode(ctx, []string{text}); err != nil {
				t.Fatal(err)
			} else if text != "" {
				titles[text] = v[0]
			}
		}
		for _, item := range p.Reward.Items {
			for _, c := range item.Title {
				add(c)
			}
		}
		for _, id := range append(ids, strings.Split(w.answer[key], ",")...) {
			if prod, err := index.Product(ctx, id); err != nil {
				t.Fatal(err)
			} else if prod != nil {
				catalog = append(catalog, prod)
				add(prod.Title)
			}
		}
		steps := `{"completion":{"message":{"tool_call":[{"name":"terminate","parameters":{}}]}}}`
		if len(ids) > 0 {
			steps = `{"completion":{"message":{"tool_call":[{"name":"recommend_product","parameters":` + args + `}]}}},` + steps
		}
		line, err := json.Marshal(map[string]any{"task": p.Category, "catalog": catalog, "reward": whole.Reward, "voucher": whole.Voucher, "output": json.RawMessage("[" + steps + "]"), "title_vectors": titles, "mode": "strict"})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if bad, err := rules.Run(score.ScoreRule, bytes.NewReader(append(line, '\n')), &out); err != nil || bad > 0 {
			t.Fatalf("%s: %s %v", key, out.String(), err)
		}
		var want struct {
			Expect  map[string]float64
			Success bool
		}
		if err := json.Unmarshal(out.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		delete(want.Expect, "format") // how a conversation is laid out is not seen here
		delete(want.Expect, "length")
		if (got.Reward == 1) != want.Success || !maps.Equal(got.Fields, want.Expect) {
			t.Errorf("%s, %s: the environment says %v %v, calc %v %v", key, args, got.Reward, got.Fields, want.Success, want.Expect)
		}
		ones += int(got.Reward)
	}
	if ones < 20 || ones > 80 {
		t.Errorf("%d of 100 earn 1: the test shows little", ones)
	}
}
