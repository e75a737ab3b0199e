package problem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/data"
	"github.com/agon-arena/agon/kinds/shopping/encode"
	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/search"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

var demoIndex = sync.OnceValues(func() (*search.Index, error) {
	in := DemoCatalogue()
	defer in.Close()
	return search.Memory(context.Background(), in)
})

func generate(t *testing.T, c Config) []shop.Problem {
	t.Helper()
	x, err := demoIndex()
	if err != nil {
		t.Fatal(err)
	}
	c.Index, c.Encoder = x, encode.Ngram{}
	list, err := Generate(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestGenerate(t *testing.T) {
	c := Config{Seed: 9, Label: "a", Counts: Suite(15, true), Pools: 2}
	list := generate(t, c)
	bands, shops := map[string]int{}, map[string]bool{}
	ids := map[string]bool{}
	for _, p := range list {
		bands[p.Category+" "+p.Difficulty]++
		if ids[p.ProblemID] {
			t.Errorf("id %s twice", p.ProblemID)
		}
		ids[p.ProblemID] = true
		for _, it := range p.Reward.Items {
			if ids[it.ProductID] {
				t.Errorf("product %s is an answer twice", it.ProductID)
			}
			ids[it.ProductID] = true
			if strings.Contains(p.Query, it.ProductID) {
				t.Errorf("%q tells the answer", p.Query)
			}
		}
		x, err := demoIndex()
		if err != nil {
			t.Fatal(err)
		}
		if p.Category == shop.CategoryShop {
			one := map[string]bool{}
			for _, it := range p.Reward.Items {
				q, err := x.Product(t.Context(), it.ProductID)
				if err != nil || q == nil {
					t.Fatal(it.ProductID, err)
				}
				one[q.ShopID] = true
				shops[q.ShopID] = true
			}
			if len(one) != 1 || len(p.Reward.Items) < 2 {
				t.Errorf("%q: %d items of %d shops", p.Query, len(p.Reward.Items), len(one))
			}
		}
		if v := p.Voucher; (v != nil) != (p.Category == shop.CategoryVoucher) || (v != nil && !p.Unanswerable && v.Budget < v.PriceAfterVoucher) {
			t.Errorf("%q: %+v", p.Query, v)
		}
	}
	for _, category := range []string{shop.CategoryProduct, shop.CategoryShop, shop.CategoryVoucher} {
		if bands[category+" "+Easy] != 3 || bands[category+" "+Medium] != 1 || bands[category+" "+Hard] != 1 {
			t.Errorf("%v", bands)
		}
	}
	a, err := encodeAll(list)
	if err != nil {
		t.Fatal(err)
	}
	c.Counts = Suite(6, false)
	first, err := encodeAll(generate(t, c))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := encodeAll(generate(t, c)); err != nil || !bytes.Equal(first, b) {
		t.Error("the same seed gives other problems")
	}
	// Another pool shares no answer, whatever the seed.
	c.Pool, c.Label = 1, "b"
	for _, p := range generate(t, c) {
		if ids[p.ProblemID] {
			t.Errorf("problem %s is in both sets", p.ProblemID)
		}
		for _, it := range p.Reward.Items {
			if ids[it.ProductID] {
				t.Errorf("product %s is an answer of both sets", it.ProductID)
			}
		}
	}
	// What the suite is written as can be read again.
	var b bytes.Buffer
	if err := WriteSuite(&b, list); err != nil {
		t.Fatal(err)
	}
	again, err := ReadSuite(&b)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := encodeAll(again); err != nil || !bytes.Equal(a, c) {
		t.Errorf("a suite changes when it is read: %v", err)
	}
}

func encodeAll(list []shop.Problem) ([]byte, error) { return json.Marshal(list) }

// The committed suite is what the generator makes: whoever changes tables or
// rules makes it anew (the command stands in tasks/shopping/README.md).
func TestDemo(t *testing.T) {
	x, err := demoIndex()
	if err != nil {
		t.Fatal(err)
	}
	list, err := Generate(t.Context(), DemoSuite(x, encode.Ngram{}))
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		p := &list[i]
		name := fmt.Sprintf("%s-%s-%02d", strings.ToLower(p.Category), p.Difficulty, i+1)
		raw, err := data.FS.ReadFile("tasks/demo/" + name + "/" + rewardFile)
		if err != nil {
			t.Fatal(err)
		}
		want, err := marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(raw, want) {
			t.Errorf("%s differs from what the generator makes", name)
		}
	}
	public := map[string]bool{}
	for _, p := range list {
		for _, it := range p.Reward.Items {
			public[it.ProductID] = true
		}
	}
	hidden, err := Generate(t.Context(), DemoHidden(x, encode.Ngram{}, 77, 6))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewBank(Policy{}, list, hidden); err != nil {
		t.Errorf("suite and hidden problems do not go together: %v", err)
	}
	// Who answers hidden problems with the public answers gains nothing.
	var known []string
	for id := range public {
		known = append(known, id)
	}
	slices.Sort(known)
	for i := range hidden {
		answer := fmt.Appendf(nil, `[{"completion":{"message":{"think":"x","tool_call":[{"name":"recommend_product","parameters":{"product_ids":%q}}]}},"extra_info":{"timestamp":1}}]`, strings.Join(known, ","))
		s, err := score.New(score.Config{Fix: score.Strict, Encoder: encode.Ngram{}}).Score(t.Context(), &hidden[i], x, answer)
		if err != nil || s.Success(hidden[i].Category) {
			t.Errorf("%q is solved by public answers: %v", hidden[i].Query, err)
		}
	}
}

func TestOnly(t *testing.T) {
	c, err := Only(10, []string{"Product/easy", "Voucher"}, false)
	if err != nil || c.Total() != 10 || c[shop.CategoryProduct][Easy] != 5 || c[shop.CategoryVoucher][Easy] != 4 || c[shop.CategoryVoucher][Medium] != 1 {
		t.Errorf("%v %v", c, err)
	}
	for _, bad := range []string{"", "product", "Product/", "Product/simple", "/easy"} {
		if _, err := Only(1, []string{bad}, false); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	list := generate(t, Config{Seed: 3, Label: "only", Counts: Counts{shop.CategoryProduct: {Easy: 2}}})
	if len(list) != 2 || list[0].Category != shop.CategoryProduct || list[1].Difficulty != Easy {
		t.Errorf("%+v", list)
	}
}

func TestGenerateTooMany(t *testing.T) {
	list, err := catalogue.Products(catalogue.Options{Products: 60, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, p := range list {
		line, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	x, err := search.Memory(t.Context(), &b)
	if err != nil {
		t.Fatal(err)
	}
	var e *agon.Error
	if _, err := Generate(t.Context(), Config{Index: x, Encoder: encode.Ngram{}, Counts: Suite(300, true)}); !errors.As(err, &e) || e.Field != "count" {
		t.Errorf("%v", err)
	}
}

func TestWriteTasks(t *testing.T) {
	list := generate(t, Config{Seed: 9, Label: "a", Counts: Suite(6, false)})
	list[0].Difficulty = "../../evil \x01"
	dir := filepath.Join(t.TempDir(), "set")
	names, err := WriteTasks(dir, "a test", list)
	if err != nil || len(names) != 6 || names[0] != "product-evil-01" {
		t.Fatalf("%v, %v", names, err)
	}
	for i, name := range names {
		raw, err := os.ReadFile(filepath.Join(dir, name, rewardFile))
		if err != nil {
			t.Fatal(err)
		}
		var p shop.Problem
		if err := Parse(raw, &p); err != nil || p.ProblemID != list[i].ProblemID || (len(p.TitleVectors) == 0) != p.Unanswerable {
			t.Errorf("%s: %v", name, err)
		}
		shown, err := os.ReadFile(filepath.Join(dir, name, problemFile))
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(shown, &m); err != nil || len(m) != 5 || m["query"] != p.Query {
			t.Errorf("%s shows %v", name, m)
		}
	}
	if _, err := WriteTasks(dir, "a test", list); !errors.Is(err, fs.ErrExist) {
		t.Errorf("%v", err)
	}
}

// oro is a problem as ORO's suites hold it: no id, no name of the encoder.
const oro = `{"query":"a bag","category":"Product","difficulty":"easy","title":"Product 1","reward":{"product_id":"1","title":["bag"],"price":[{"between":[1,2.5]}],"service":["COD"],"sku_options":[{"size":"m"}],"attributes":[{"colour":["red","blue"]}]},"reward_title_embeddings":{"bag":[0.5,1]}}`

func TestReadSuite(t *testing.T) {
	list, err := ReadSuite(strings.NewReader("[" + oro + "," + strings.Replace(oro, "a bag", "a hat", 1) + "]"))
	if err != nil || len(list) != 2 || !isUUID(list[0].ProblemID) || list[0].ProblemID == list[1].ProblemID || *list[0].Reward.Items[0].Price[0].Hi != 2.5 || !list[0].Reward.One {
		t.Fatalf("%+v, %v", list, err)
	}
	change := func(old, with string) string { return "[" + strings.Replace(oro, old, with, 1) + "]" }
	for name, c := range map[string]struct{ in, field string }{
		"not a list":          {oro, "suite"},
		"empty":               {"[]", "suite"},
		"same id":             {`[{"problem_id":"00000000-0000-8000-8000-000000000000",` + oro[1:] + `,{"problem_id":"00000000-0000-8000-8000-000000000000",` + oro[1:] + `]`, "problem_id"},
		"bad id":              {`[{"problem_id":"7",` + oro[1:] + `]`, "problem_id"},
		"no query":            {change(`"a bag"`, `" "`), "query"},
		"NUL":                 {change(`a bag`, `a\u0000bag`), "query"},
		"long query":          {change(`a bag`, strings.Repeat("x", MaxQuery+1)), "query"},
		"unknown category":    {change(`"Product"`, `"Web"`), "category"},
		"a list for one":      {change(`"reward":{`, `"reward":[{"product_id":"1"},{"product_id":"2"}],"y":{`), "reward"},
		"unknown price":       {change(`between`, `about`), "problem"},
		"price without bound": {change(`[1,2.5]`, `[1,null]`), "problem"},
		"one bound":           {change(`[1,2.5]`, `[1]`), "problem"},
		"query is a number":   {change(`"a bag"`, `7`), "query"},
		"voucher missing":     {change(`"Product"`, `"Voucher"`), "reward"},
		"no product":          {change(`"product_id":"1"`, `"product_id":""`), "reward[0].product_id"},
	} {
		t.Run(name, func(t *testing.T) {
			var e *agon.Error
			if _, err := ReadSuite(strings.NewReader(c.in)); !errors.As(err, &e) || e.Field != c.field {
				t.Errorf("%v (%+v)", err, e)
			}
		})
	}
}

// A voucher that contradicts itself, or whose own answer does not fit its budget, is
// refused with its problem.
func TestContradictingVouchers(t *testing.T) {
	const good = `{"voucher_type":"platform","threshold":10,"discount_type":"fixed","face_value":5,"discount":null,"cap":null,"price_after_voucher":12,"budget":20}`
	suite := func(change ...string) string {
		one := func(query, voucher string) string {
			return `{"query":"` + query + `","category":"Voucher","difficulty":"easy","title":"t","reward":[{"product_id":"1"}],"voucher":` + voucher + `}`
		}
		return "[" + one("a", good) + "," + one("b", strings.NewReplacer(change...).Replace(good)) + "]"
	}
	if _, err := ReadSuite(strings.NewReader(suite())); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][]string{
		"both a face value and a discount": {`"discount":null`, `"discount":0.5`}, "a cap of a face value": {`"cap":null`, `"cap":3`},
		"a percentage with a face value": {`"fixed"`, `"percentage"`, `"discount":null`, `"discount":0.5`}, "a percentage without one": {`"fixed"`, `"percentage"`, `"face_value":5`, `"face_value":null`},
		"an answer over the budget": {`"price_after_voucher":12`, `"price_after_voucher":20.5`}, "a negative face value": {`"face_value":5`, `"face_value":-5`}, "a negative budget": {`20}`, `-20}`},
	} {
		var e *agon.Error
		if _, err := ReadSuite(strings.NewReader(suite(change...))); !errors.As(err, &e) || !strings.HasPrefix(e.Field, "voucher") || !strings.HasPrefix(e.Message, "problem 2: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBank(t *testing.T) {
	public := generate(t, Config{Seed: 1, Label: "public", Counts: Suite(6, false), Pools: 2})
	hidden := generate(t, Config{Seed: 2, Label: "hidden", Counts: Suite(12, false), Pools: 2, Pool: 1})
	b, err := NewBank(Policy{MaxExposures: 3, MaxRaces: 2}, public, hidden)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range hidden {
		if _, err := b.Shown(p.ProblemID); !errors.Is(err, ErrHidden) {
			t.Errorf("a hidden problem is shown: %v", err)
		}
	}
	first, err := b.Draw("r1", 6)
	if err != nil || b.Left() != 6 {
		t.Fatalf("%v, %d left", err, b.Left())
	}
	count := map[string]int{}
	for _, p := range first {
		count[p.Category]++
		if _, err := b.Shown(p.ProblemID); !errors.Is(err, ErrHidden) {
			t.Errorf("a racing problem is shown: %v", err)
		}
	}
	if count[shop.CategoryProduct] != 2 || count[shop.CategoryShop] != 2 || count[shop.CategoryVoucher] != 2 {
		t.Errorf("%v", count)
	}
	if len(b.Public()) != 6 || len(b.Suite()) != 6 {
		t.Errorf("%d public", len(b.Public()))
	}
	var e *agon.Error
	if _, err := b.Draw("r1", 1); !errors.As(err, &e) || e.Status != 409 {
		t.Errorf("%v", err)
	}
	if _, err := b.Draw("r9", 7); !errors.As(err, &e) || e.Code != "bank_exhausted" {
		t.Errorf("%v", err)
	}
	worn := first[0].ProblemID
	for _, s := range []string{"a", "b", "c", "a", "b"} {
		if err := b.Expose("r1", worn, s); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Entries[worn].Exposures; n != 3 {
		t.Errorf("%d exposures", n)
	}
	if err := b.Expose("r1", public[0].ProblemID, "a"); err == nil {
		t.Error("a public problem is played in a race")
	}
	path := filepath.Join(t.TempDir(), "bank.json")
	if err := b.Save(path); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if b, err = LoadBank(path); err != nil {
		t.Fatal(err)
	}
	retired, err := b.Close("r1")
	if err != nil || !slices.Equal(retired, []string{worn}) {
		t.Errorf("%v, %v", retired, err)
	}
	if p, err := b.Shown(worn); err != nil || p.ProblemID != worn {
		t.Errorf("a retired problem is not shown: %v", err)
	}
	if again, err := b.Close("r1"); again != nil || err != nil {
		t.Errorf("%v, %v", again, err)
	}
	// The next race takes what was least seen: none of the first.
	second, err := b.Draw("r2", 6)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range second {
		if slices.ContainsFunc(first, func(q shop.Problem) bool { return q.ProblemID == p.ProblemID }) {
			t.Errorf("%s is drawn again while fresh ones are left", p.ProblemID)
		}
	}
	if err := b.Expose("r1", first[1].ProblemID, "z"); err == nil {
		t.Error("a closed race is played")
	}
	if _, err := b.Close("nobody"); !errors.As(err, &e) || e.Status != 404 {
		t.Errorf("%v", err)
	}
	// No answer is on both sides.
	clash := hidden[0]
	clash.ProblemID, clash.Query = newID("clash"), "another query"
	clash.Reward = public[0].Reward
	clash.Category, clash.Voucher = public[0].Category, public[0].Voucher
	if err := b.Add(StateHidden, []shop.Problem{clash}); !errors.As(err, &e) || e.Field != "reward" {
		t.Errorf("%v", err)
	}
	if err := b.Add(StateHidden, []shop.Problem{hidden[0]}); err == nil {
		t.Error("a problem is added twice")
	}
}

func FuzzReadBank(f *testing.F) {
	f.Add([]byte(`{"version":1,"policy":{},"entries":{},"races":[{"id":"r","problems":["x"],"open":true}]}`))
	f.Add([]byte(`{"version":1,"entries":{"x":{"state":"racing","problem":` + oro + `}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, err := ReadBank(bytes.NewReader(raw))
		if err != nil {
			return
		}
		_, _ = b.Draw("fuzz", 1)
		_, _ = b.Close("fuzz")
		if err := b.check(); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzReadSuite(f *testing.F) {
	f.Add([]byte("[" + oro + "]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := ReadSuite(bytes.NewReader(raw))
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := WriteSuite(&b, list); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadSuite(&b); err != nil {
			t.Fatalf("%v: %s", err, b.String())
		}
	})
}

// Plain wishes are in the catalogue's words, exclude nothing, and comparing words
// solves most of them: what a small model is to learn has to be learnable.
func TestPlainWishes(t *testing.T) {
	x, err := demoIndex()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Index: x, Encoder: encode.Ngram{}, NoVectors: true, Seed: 5, Counts: Counts{shop.CategoryProduct: {Easy: 40}}, Plain: true}
	made, err := Make(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	g := &generator{c: c}
	solved := 0
	for _, m := range made {
		it := m.Problem.Reward.Items[0]
		if m.Problem.Unanswerable || len(it.Exclude) > 0 || !strings.HasPrefix(m.Problem.Query, "I am looking for this: ") {
			t.Errorf("%q excludes %v, unanswerable %v", m.Problem.Query, it.Exclude, m.Problem.Unanswerable)
		}
		for _, a := range it.Attributes {
			for k, v := range a {
				if k != "brand" && !strings.Contains(m.Problem.Query, k+": "+v[0]) {
					t.Errorf("%q does not say %s: %s", m.Problem.Query, k, v[0])
				}
			}
		}
		p, err := x.Product(t.Context(), it.ProductID)
		if err != nil {
			t.Fatal(err)
		}
		said := strings.TrimSuffix(strings.TrimPrefix(m.Problem.Query, "I am looking for this: "), ".")
		head, rest, _ := strings.Cut(said, ", ")
		lucky, err := g.guessed(t.Context(), []item{{p: p, want: it, head: head, said: strings.Split(rest, ", ")}}, shop.CategoryProduct)
		if err != nil {
			t.Fatal(err)
		}
		if lucky {
			solved++
		}
	}
	if solved < 28 {
		t.Errorf("comparing words solves %d of 40, want at least 28", solved)
	}
}
