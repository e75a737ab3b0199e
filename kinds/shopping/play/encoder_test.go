package play

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/score"
	"github.com/agon-arena/agon/kinds/shopping/encode"
	shopscore "github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// flat is a broken encoder: to it all titles are alike.
type flat struct{}

func (flat) Name() string { return encode.NgramName }
func (flat) Encode(_ context.Context, titles []string) ([][]float32, error) {
	out := make([][]float32, len(titles))
	for i := range out {
		out[i] = []float32{1}
	}
	return out, nil
}

// titleTask adds a problem whose only constraint is a title; no product is its
// ground truth.
func (w *world) titleTask(title string) {
	w.t.Helper()
	w.task("find "+title, "999999")
	p := shop.Problem{
		ProblemID: fmt.Sprintf("00000000-0000-4000-8000-%012d", len(w.refs)), Query: "find " + title, Category: shop.CategoryProduct,
		Reward: shop.Reward{One: true, Items: []shop.Item{{ProductID: "999999", Title: []string{title}}}},
	}
	full, err := json.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	shown, err := json.Marshal(p.Public())
	if err != nil {
		w.t.Fatal(err)
	}
	w.refs[len(w.refs)-1].Digest = w.trees.Add(w.t, map[string]string{
		"task.toml": "version = \"1.0\"\n[agon]\nkind = \"shopping\"\n", "instruction.md": title, ProblemFile: string(shown), RewardFile: string(full),
	})
}

// Three validators judge the same episodes; the encoder of one is broken. The
// stated rule names it, and what is left is what the others say.
func TestBrokenEncoderIsFlagged(t *testing.T) {
	w := newWorld(t, "")
	for _, title := range []string{"red lamp", "green chair", "blue lamp", "red lamp", "wooden table", "garden chair green"} {
		w.titleTask(title)
	}
	rec := recordOf(t, len(w.refs)) // every episode recommends 100001, the red lamp
	spec := agon.RunSpec{Run: "r", Arena: "a", Tasks: w.refs, Policy: policy()}
	env, done := w.player.Env(spec)
	defer done()
	var opinions []score.Opinion
	values := map[string][]float64{}
	for name, enc := range map[string]shop.Encoder{"one": encode.Ngram{}, "two": encode.Ngram{}, "broken": flat{}} {
		k := New(Config{Grader: ShopGrader{Scorer: shopscore.New(shopscore.Config{Fix: shopscore.Strict, Encoder: enc}), Catalogue: w.shelf.products, Rules: "test"}})
		scores, err := k.Judge(context.Background(), env, spec, rec)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, s := range scores {
			o := score.Opinion{Validator: name, Item: s.Task}
			if s.Solved {
				o.Value = 1
			}
			opinions = append(opinions, o)
			values[name] = append(values[name], o.Value)
		}
	}
	for _, s := range score.Concord(opinions) {
		if s.Flagged != (s.Validator == "broken") {
			t.Errorf("%+v", s)
		}
		if s.Validator == "broken" && (s.Deviates != 4 || s.Items != 6 || s.Others != 0) {
			t.Errorf("%+v", s)
		}
	}
	if fmt.Sprint(values["one"]) != "[1 0 0 1 0 0]" || fmt.Sprint(values["two"]) != fmt.Sprint(values["one"]) {
		t.Errorf("%v", values)
	}
	// An encoder that is not there is an error of ours, never an easier problem.
	k := New(Config{Grader: ShopGrader{Scorer: shopscore.New(shopscore.Config{Fix: shopscore.Strict}), Catalogue: w.shelf.products, Rules: "test"}})
	if _, err := k.Judge(context.Background(), env, spec, rec); !errors.Is(err, shop.ErrNoEncoder) {
		t.Errorf("without an encoder: %v", err)
	}
}
