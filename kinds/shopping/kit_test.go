package shopping

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/shopping/data"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/search"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

var writeShoppingScript = flag.Bool("write-shopping-script", false, "write the script of the shopping sample react anew")

// The script of the sample react is made of the demo's public problems: this
// test fails when they change and the script does not.
func TestShoppingScriptFitsTheDemo(t *testing.T) {
	o := kit.Options{Kits: kit.List{Kit()}, Cache: t.TempDir(), Getenv: func(string) string { return "" }}
	got := shoppingScript(t, o)
	if *writeShoppingScript {
		if err := os.WriteFile(filepath.Join("data", "samples", "react", "script.json"), got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(got, kit.SampleScript(data.FS, "react")) {
		t.Error("data/samples/react/script.json is not of this demo: go test ./kinds/shopping -run ShoppingScript -write-shopping-script")
	}
}

func publicProblems(t testing.TB, o kit.Options) []shop.Problem {
	t.Helper()
	list, _, err := kit.LoadSet(o, play.Name, publicSet)
	if err != nil {
		t.Fatal(err)
	}
	var out []shop.Problem
	for _, x := range list {
		dir := filepath.Join(t.TempDir(), "t")
		if err := task.Materialise(x, dir); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dir, play.RewardFile))
		if err != nil {
			t.Fatal(err)
		}
		var p shop.Problem
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func shoppingScript(t *testing.T, o kit.Options) []byte {
	t.Helper()
	ctx := context.Background()
	x, _, err := new(shopFloor).With(o).Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	type rule struct {
		Task    string `json:"task,omitempty"`
		TaskRE  string `json:"task_re,omitempty"`
		Content string `json:"content"`
	}
	tool := func(name string, args map[string]any) map[string]any {
		return map[string]any{"name": name, "parameters": args}
	}
	say := func(think string, calls ...map[string]any) string {
		b, err := json.Marshal(calls)
		if err != nil {
			t.Fatal(err)
		}
		return "<think>" + think + "</think>\n<tool_call>" + string(b) + "</tool_call>"
	}
	var rules []rule
	for _, p := range publicProblems(t, o) {
		if p.Unanswerable {
			rules = append(rules, rule{Task: p.Query, Content: say("Nothing in this catalogue is all of that at that price, so I recommend nothing.", tool("terminate", map[string]any{"status": "failure"}))})
			continue
		}
		var find []map[string]any
		var ids []string
		compare := ""
		for _, it := range p.Reward.Items {
			prod, err := x.Product(ctx, it.ProductID)
			if err != nil || prod == nil {
				t.Fatal(it.ProductID, err)
			}
			ids = append(ids, it.ProductID)
			find = append(find, tool("find_product", map[string]any{"q": prod.Title, "page": 1}))
			b, err := (&search.Service{Index: x, Strict: true}).Find(ctx, search.Args{"q": prod.Title, "page": "1"})
			if err != nil {
				t.Fatal(err)
			}
			var hits []struct {
				ID    string  `json:"product_id"`
				Price float64 `json:"price"`
			}
			if err := json.Unmarshal(b, &hits); err != nil {
				t.Fatal(err)
			}
			for _, h := range hits {
				if compare == "" && h.ID != it.ProductID && hits[0].ID == it.ProductID {
					compare = fmt.Sprintf("The results list %s at %v pesos and %s at %v pesos. I take %s rather than %s because its attributes are those that were asked for.", it.ProductID, prod.Price, h.ID, h.Price, it.ProductID, h.ID)
				}
			}
		}
		if compare == "" {
			compare = "The results show what was asked for."
		}
		rules = append(rules,
			rule{TaskRE: "(?s)" + regexp.QuoteMeta(p.Query) + ".*<obs>", Content: say(compare, tool("recommend_product", map[string]any{"product_ids": strings.Join(ids, ",")}), tool("terminate", map[string]any{"status": "success"}))},
			rule{Task: p.Query, Content: say("The user wants something particular. I search for each thing in its own words first, read what comes back, and then compare the candidates by price and attributes before I decide.", find...)})
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	err = enc.Encode(map[string]any{
		"version": 1, "for": "You are a shopping agent. Find the products that the user wishes for.",
		"fallback": say("I do not know this wish.", tool("terminate", map[string]any{"status": "failure"})), "rule": rules,
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// The samples pass their own gate.
func TestShoppingSamples(t *testing.T) {
	for _, s := range Kit().Samples {
		files, err := kit.SampleFiles(data.FS, s.Name)
		if err != nil || len(files) != 1 {
			t.Fatal(s.Name, len(files), err)
		}
		if f := play.CheckSource(files[play.AgentFile]); len(f) > 0 {
			t.Errorf("%s: %+v", s.Name, f)
		}
	}
}

// No hidden answer is a public one. The demo's are the same everywhere, unless an
// installation has a secret of its own.
func TestHiddenSets(t *testing.T) {
	base := kit.Options{Kits: kit.List{Kit()}, Cache: t.TempDir(), Getenv: func(string) string { return "" }}
	seen := map[string]string{}
	for _, set := range []string{publicSet, hiddenSet} {
		var first []string
		for round := range 2 {
			o := base
			o.Data = t.TempDir()
			if round == 1 {
				if err := os.WriteFile(filepath.Join(o.Data, "shopping.seed"), []byte("8 secret"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			list, _, err := kit.LoadSet(o, play.Name, set)
			if err != nil || len(list) != 12 {
				t.Fatal(set, len(list), err)
			}
			again, _, err := kit.LoadSet(o, play.Name, set)
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range list {
				if again[i].Digest != x.Digest {
					t.Fatalf("%s: the same installation made another problem", x.Key)
				}
				if where, ok := seen[string(x.Digest)]; ok && !(set == publicSet && round == 1) {
					t.Errorf("%s is also %s", x.Key, where)
				}
				seen[string(x.Digest)] = x.Key
				first = append(first, string(x.Digest))
			}
			if round == 1 && (first[0] == first[12]) != (set == publicSet) {
				t.Errorf("%s of two installations: same %t", set, first[0] == first[12])
			}
		}
	}
	if _, _, err := kit.LoadSet(base, play.Name, hiddenSet); err == nil {
		t.Error("hidden problems without an installation")
	}
}

func TestRaceSupplyRefuses(t *testing.T) {
	s, banks := &kit.Server{Options: kit.Options{Getenv: func(string) string { return "" }}}, &sync.Map{}
	ask := func(id string, hidden ...string) (platform.Supply, agon.Arena, error) {
		f := kit.ArenaFile{ID: id, Hidden: hidden}
		a := agon.Arena{ID: id, Incentive: play.RaceRule, IncentiveNumbers: map[string]float64{play.RaceHours: 2, play.RaceProblems: 5}}
		x, err := raceSupply(s, banks, func() kit.Kit { return kit.Kit{} }, f, &a)
		return x, a, err
	}
	var e *agon.Error
	if _, _, err := ask("a"); !errors.As(err, &e) || e.Field != "incentive_numbers" {
		t.Errorf("no bank: %v", err)
	}
	s.Options.Getenv = func(string) string { return "bank.json" }
	if _, _, err := ask("a", "set"); !errors.As(err, &e) || e.Field != "hidden" {
		t.Errorf("two sources: %v", err)
	}
	if x, a, err := ask("a"); err != nil || x == nil || a.Period.Hours != 2 || a.Supply.Tasks != 5 || a.Supply.From != agon.SupplyBank {
		t.Errorf("%+v %+v %v", a.Period, a.Supply, err)
	}
	if _, _, err := ask("b"); !errors.As(err, &e) || e.Field != "supply" {
		t.Errorf("one bank for two arenas: %v", err)
	}
	none := agon.Arena{ID: "c", Incentive: play.RaceRule}
	if x, err := raceSupply(s, banks, nil, kit.ArenaFile{}, &none); x != nil || err != nil || none.Supply != nil {
		t.Errorf("no clock: %v %v", x, err)
	}
	for _, hours := range []float64{-1, .001, 1e6} {
		if play.Race().CheckNumbers(map[string]float64{play.RaceHours: hours}) == nil {
			t.Errorf("%v hours pass", hours)
		}
	}
}
