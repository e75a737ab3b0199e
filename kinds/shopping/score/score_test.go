package score

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/shopping/shop"
)

func ptr(f float64) *float64 { return &f }

// step writes one step with a message and a time.
func step(message string) string {
	return `{"completion":{"message":` + message + `},"extra_info":{"timestamp":1}}`
}

// say writes a step that thinks and calls one tool.
func say(name, params string) string {
	return step(`{"think":"ok","tool_call":[{"name":"` + name + `","parameters":` + params + `}]}`)
}

func recommend(ids string) string { return say("recommend_product", `{"product_ids":"`+ids+`"}`) }

func episodeOf(steps ...string) []byte { return []byte("[" + strings.Join(steps, ",") + "]") }

func mustScore(t *testing.T, cfg Config, p *shop.Problem, cat Catalogue, out []byte) *Score {
	t.Helper()
	s, err := New(cfg).Score(context.Background(), p, cat, out)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wanted() *shop.Problem {
	return &shop.Problem{Category: "Product", Reward: shop.Reward{One: true, Items: []shop.Item{{
		ProductID: "A", Title: []string{"T"}, Price: []shop.PriceBound{{Mode: shop.PriceBetween, Lo: ptr(10), Hi: ptr(20)}}, Service: []string{"COD"},
		SKUOptions: []map[string]string{{"size": "l"}}, Attributes: []map[string][]string{{"brand": {"x"}, "colour": {"red", "blue"}}},
	}}}}
}

func TestOneProduct(t *testing.T) {
	b := &shop.Product{
		ProductID: "B", Title: "other", Price: 15, Service: []string{"COD"},
		SKUOptions: map[string]map[string]string{"1": {"size": "l"}}, Attributes: map[string][]string{"brand": {"x"}, "colour": {"red"}},
	}
	both := *b
	both.Attributes = map[string][]string{"brand": {"x"}, "colour": {"red", "blue"}}
	a := &shop.Product{ProductID: "A", Title: "T", Price: 99}
	for name, c := range map[string]struct {
		p                         *shop.Product
		gt, rule, title, price, o float64
	}{
		"one colour":   {b, 0, 5. / 6, 0, 1, .75},
		"both":         {&both, 0, 1, 0, 1, 1},
		"ground truth": {a, 1, 1, 1, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustScore(t, Config{DropTitles: true}, wanted(), Products{c.p.ProductID: c.p}, episodeOf(recommend(c.p.ProductID)))
			if s.GT != c.gt || !near(s.Rule, c.rule) || s.Title != c.title || s.Price != c.price || !near(s.SKUAttrs, c.o) {
				t.Errorf("%+v", *s.Outcome)
			}
		})
	}
}

// A missing encoder is an error, never a dropped constraint, and strict does
// not even let one ask for the drop.
func TestMissingEncoder(t *testing.T) {
	cat := Products{"B": {ProductID: "B", Title: "other"}}
	for _, cfg := range []Config{{}, {Fix: Strict}, {Fix: Strict, DropTitles: true}, {Encoder: shop.Vectors{}}} {
		if _, err := New(cfg).Score(context.Background(), wanted(), cat, episodeOf(recommend("B"))); !errors.Is(err, shop.ErrNoEncoder) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// Vectors of one encoder are not compared with those of another.
func TestOtherEncoder(t *testing.T) {
	p := wanted()
	p.TitleVectors, p.TitleEncoder = map[string][]float32{"T": {1, 0}}, "m1"
	cat := Products{"B": {ProductID: "B", Title: "other"}}
	for name, want := range map[string]error{"m1": nil, "m2": shop.ErrNoEncoder} {
		enc := shop.Vectors{Model: name, Table: map[string][]float32{"other": {1, .1}}}
		s, err := New(Config{Encoder: enc}).Score(context.Background(), p, cat, episodeOf(recommend("B")))
		if !errors.Is(err, want) || (err == nil && s.Title != 1) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func TestVouchers(t *testing.T) {
	items := []shop.Item{{ProductID: "1"}, {ProductID: "2"}}
	run := func(fix Fix, v shop.Voucher, shops ...string) (float64, error) {
		cat := Products{"1": {ProductID: "1", Price: 15, ShopID: shops[0]}, "2": {ProductID: "2", Price: 15, ShopID: shops[len(shops)-1]}}
		s, err := New(Config{Fix: fix}).Score(context.Background(), &shop.Problem{Category: "voucher", Reward: shop.Reward{Items: items}, Voucher: &v}, cat, episodeOf(recommend("1,2")))
		if err != nil {
			return 0, err
		}
		return *s.Budget, nil
	}
	v := shop.Voucher{VoucherType: shop.VoucherShop, Threshold: 30, DiscountType: shop.DiscountPercentage, Discount: ptr(.34), Cap: ptr(5)}
	for _, c := range []struct {
		budget float64
		shops  []string
		want   float64
	}{{24, []string{"s"}, 0}, {25, []string{"s"}, 1}, {26, []string{"s"}, 1}, {30, []string{"s"}, 1}, {26, []string{"s", "t"}, 0}, {30, []string{"s", "t"}, 1}} {
		v.Budget = c.budget
		if got, err := run(Compat, v, c.shops...); err != nil || got != c.want {
			t.Errorf("budget %v, shops %v: %v, %v", c.budget, c.shops, got, err)
		}
	}
	v.Budget = 26
	if got, err := run(FixThreshold, v, "s"); err != nil || got != 0 {
		t.Errorf("threshold-equality: %v, %v", got, err)
	}
	v.Cap, v.Threshold, v.Budget = nil, 29, 20
	if _, err := run(Compat, v, "s"); !errors.Is(err, ErrUnscored) {
		t.Errorf("a null cap raises in compat: %v", err)
	}
	if got, err := run(FixNullCap, v, "s"); err != nil || got != 1 {
		t.Errorf("null-cap: %v, %v", got, err)
	}
}

func TestShopOrder(t *testing.T) {
	attr := func(v string) []map[string][]string { return []map[string][]string{{"kind": {v}}} }
	p := &shop.Problem{Category: "Shop", Reward: shop.Reward{Items: []shop.Item{{ProductID: "A", Attributes: attr("a")}, {ProductID: "B", Attributes: attr("b")}}}}
	cat := Products{}
	for _, id := range []string{"A", "B", "C", "D"} {
		cat[id] = &shop.Product{ProductID: id, ShopID: "s", Attributes: map[string][]string{"kind": {strings.ToLower(id)}}}
	}
	for _, c := range []struct {
		ids        string
		free       bool
		rule, shop float64
	}{
		{"A,B", false, 1, 1},
		{"B,A", false, 0, 0},
		{"A,B,C,D", false, 1, 1},
		{"A", false, .5, 0},
		{"", false, 0, 0},
		{"B,A", true, 1, 1},
		{"C,D,A,B", true, 0, 0},
		{"A,B,C,D", true, 1, 1},
		{"B", true, .5, 0},
	} {
		s := mustScore(t, Config{OrderFree: c.free}, p, cat, episodeOf(recommend(c.ids)))
		if s.Rule != c.rule || *s.Shop != c.shop {
			t.Errorf("%s (order free: %v): rule %v, shop %v", c.ids, c.free, s.Rule, *s.Shop)
		}
	}
}

func TestPositive(t *testing.T) {
	for in, want := range map[string]bool{
		"1": true, "0": false, "-1": false, "-0": false, "0.0": false, "0.5": true, "1e-400": false, "1e400": true, "0e5": false, "0.0E9": false, "2E-3": true,
		"NaN": true, "Infinity": true, "-Infinity": false, "1700000000000": true,
	} {
		var tp tape
		if err := tp.parse([]byte(in)); err != nil {
			t.Fatal(err)
		}
		if got := tp.positive(0); got != want {
			t.Errorf("%s: %v", in, got)
		}
	}
}

// A score is written as its fields say, and can be read again.
func TestScoreJSON(t *testing.T) {
	one := 1.0
	for _, s := range []*Score{{}, {Length: .25, Format: 1. / 3}, {Outcome: &Outcome{Rule: 1, SKUAttrs: .5}, Budget: &one}, {Outcome: &Outcome{}, Shop: &one}} {
		type plain Score // without MarshalJSON
		want, err := json.Marshal((*plain)(s))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := json.Marshal(s); err != nil || string(got) != string(want) && strings.ReplaceAll(string(want), `\u0026`, "&") != string(got) {
			t.Errorf("%s, want %s, %v", got, want, err)
		}
	}
}

func TestSplitIDs(t *testing.T) {
	for in, want := range map[string][]string{
		"p1, p2\t,\np3 ": {"p1", "p2", "p3"}, "p3,p1,p2,p1": {"p3", "p1", "p2"}, "p1,p1": {"p1"}, " , ,": nil, "": nil, "\x1cp\u00a0": {"p"},
	} {
		if got := splitIDs(in); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if n := len(splitIDs(strings.Repeat("x,", 9))); n != 1 {
		t.Errorf("%d ids", n)
	}
	var many strings.Builder
	for i := range 3 * MaxIDs {
		fmt.Fprintf(&many, "%d,", i)
	}
	if n := len(splitIDs(many.String())); n != MaxIDs {
		t.Errorf("%d ids", n)
	}
}

func TestFormat(t *testing.T) {
	for name, c := range map[string]struct {
		step           string
		compat, strict float64
	}{
		"think and call":           {say("x", "{}"), 1, 1},
		"empty list is absent":     {step(`{"think":"a","tool_call":[]}`), 0, 0},
		"think only":               {step(`{"think":"a"}`), 0, 0},
		"no think":                 {step(`{"response":"a"}`), 0, 0},
		"empty think":              {step(`{"think":"","response":"a"}`), 0, 0},
		"response":                 {step(`{"think":"a","response":"b"}`), 1, 1},
		"all three":                {step(`{"think":"a","tool_call":[{"name":"x","parameters":{}}],"response":"b"}`), 1, 1},
		"tag in think":             {step(`{"think":"a <tool_call> b","response":"b"}`), 0, 0},
		"closing tag in think":     {step(`{"think":"</think>","response":"b"}`), 0, 0},
		"escaped tag":              {step(`{"think":"\u003cthink\u003e","response":"b"}`), 0, 0},
		"tag in response":          {step(`{"think":"a","response":"<think>"}`), 0, 0},
		"tag in parameters":        {say("x", `{"q":["<response>"]}`), 0, 0},
		"tag as a key":             {say("x", `{"</response>":1}`), 0, 0},
		"tag in a result":          {step(`{"think":"a","tool_call":[{"name":"x","parameters":{},"result":"<think>"}]}`), 0, 1},
		"name is not text":         {step(`{"think":"a","tool_call":[{"name":1,"parameters":{}}]}`), 0, 0},
		"parameters are a list":    {say("x", `[]`), 0, 0},
		"no parameters":            {step(`{"think":"a","tool_call":[{"name":"x"}]}`), 0, 0},
		"entry is not an object":   {step(`{"think":"a","tool_call":["x"]}`), 0, 0},
		"other marks do no harm":   {step(`{"think":"a < b <obs>","response":"b"}`), 1, 1},
		"no time":                  {`{"completion":{"message":{"think":"a","response":"b"}}}`, .5, .5},
		"time is text":             {`{"completion":{"message":{"think":"a","response":"b"}},"extra_info":{"timestamp":"1"}}`, .5, .5},
		"time is 0":                {`{"completion":{"message":{"think":"a","response":"b"}},"extra_info":{"timestamp":0}}`, .5, .5},
		"time is true":             {`{"completion":{"message":{"think":"a","response":"b"}},"extra_info":{"timestamp":true}}`, 1, .5},
		"last of equal names wins": {`{"completion":{"message":{"think":"a","think":"","response":"b"}},"extra_info":{"timestamp":1}}`, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for fix, want := range map[Fix]float64{Compat: c.compat, Strict: c.strict} {
				if s := mustScore(t, Config{Fix: fix}, wanted(), Products{}, episodeOf(c.step)); s.Format != want {
					t.Errorf("%v: %v, want %v", fix, s.Format, want)
				}
			}
		})
	}
}

func TestLength(t *testing.T) {
	end := say("terminate", `{"status":"success"}`)
	for name, c := range map[string]struct {
		out  []byte
		want float64
	}{
		"three": {episodeOf(say("x", "{}"), say("x", "{}"), end), 1. / 3}, "not last": {episodeOf(end, say("x", "{}")), 0}, "none": {episodeOf(), 0},
	} {
		if s := mustScore(t, Config{}, wanted(), Products{}, c.out); s.Length != c.want {
			t.Errorf("%s: %v", name, s.Length)
		}
	}
	s := mustScore(t, Config{}, wanted(), Products{}, episodeOf())
	if m := fields(t, s); len(m) != 2 || m["length"] != 0 || m["format"] != 0 {
		t.Errorf("an empty episode has %v", m)
	}
}

// TestFixes shows each fault of ORO's scorer, and that its fix alone mends it.
func TestFixes(t *testing.T) {
	right := &shop.Product{ProductID: "7", Price: 15}
	p := &shop.Problem{Category: "Product", Reward: shop.Reward{One: true, Items: []shop.Item{{ProductID: "7"}}}}
	rule := func(s *Score) float64 {
		if s.Outcome == nil {
			return 0
		}
		return s.Rule
	}
	type outcome struct {
		rule float64
		err  error
	}
	good := recommend("7")
	for name, c := range map[string]struct {
		fix            Fix
		steps          []string
		category       string
		compat, strict outcome
	}{
		"null think":              {FixMalformedStep, []string{good, step(`{"think":null}`)}, "", outcome{0, ErrUnscored}, outcome{1, nil}},
		"null tool_call":          {FixMalformedStep, []string{good, step(`{"think":"a","tool_call":null}`)}, "", outcome{0, ErrUnscored}, outcome{1, nil}},
		"wrong obs":               {FixMalformedStep, []string{good, step(`{"think":"a","obs":"x"}`)}, "", outcome{0, ErrUnscored}, outcome{1, nil}},
		"last step without":       {FixMalformedStep, []string{good, `{}`}, "", outcome{0, ErrUnscored}, outcome{1, nil}},
		"last message null":       {FixMalformedStep, []string{good, `{"completion":{"message":null}}`}, "", outcome{0, ErrUnscored}, outcome{1, nil}},
		"last step a number":      {FixMalformedStep, []string{good, `7`}, "", outcome{0, ErrUnscored}, outcome{1, nil}},
		"entry without a name":    {FixMalformedStep, []string{step(`{"think":"a","tool_call":[{},{"name":"recommend_product","parameters":{"product_ids":"7"}}]}`)}, "", outcome{0, nil}, outcome{1, nil}},
		"numeric ids":             {FixNumericIDs, []string{say("recommend_product", `{"product_ids":7}`)}, "", outcome{0, nil}, outcome{1, nil}},
		"wiped by none":           {FixWipedAnswer, []string{good, say("recommend_product", `{}`)}, "", outcome{0, nil}, outcome{1, nil}},
		"wiped by a list":         {FixWipedAnswer, []string{good, say("recommend_product", `{"product_ids":["7"]}`)}, "", outcome{0, nil}, outcome{1, nil}},
		"unknown category":        {FixUnknownCategory, []string{good}, "web", outcome{1, nil}, outcome{0, errUnknown}},
		"no parameters, both":     {0, []string{good, step(`{"think":"a","tool_call":[{"name":"recommend_product"}]}`)}, "", outcome{1, nil}, outcome{1, nil}},
		"later overrides earlier": {0, []string{recommend("8"), good}, "", outcome{1, nil}, outcome{1, nil}},
		"middle step without":     {0, []string{`{}`, good}, "", outcome{1, nil}, outcome{1, nil}},
	} {
		t.Run(name, func(t *testing.T) {
			for fix, want := range map[Fix]outcome{Compat: c.compat, c.fix: c.strict, Strict: c.strict} {
				if fix == 0 && c.fix == 0 {
					want = c.compat
				}
				q := *p
				if c.category != "" {
					q.Category = c.category
				}
				s, err := New(Config{Fix: fix}).Score(context.Background(), &q, Products{"7": right}, episodeOf(c.steps...))
				switch {
				case want.err == errUnknown:
					if err == nil {
						t.Errorf("%v: no error", fix)
					}
				case want.err != nil:
					if !errors.Is(err, want.err) {
						t.Errorf("%v: %v, want %v", fix, err, want.err)
					}
				case err != nil || rule(s) != want.rule:
					t.Errorf("%v: %+v, %v, want rule %v", fix, s, err, want.rule)
				}
			}
		})
	}
}

var errUnknown = errors.New("any error")

type broken struct{}

func (broken) Product(context.Context, string) (*shop.Product, error) {
	return nil, errors.New("connection refused")
}

func TestFailedLookup(t *testing.T) {
	if s := mustScore(t, Config{}, wanted(), broken{}, episodeOf(recommend("A"))); s.Outcome != nil {
		t.Errorf("compat takes a failed lookup as not found: %+v", s)
	}
	if _, err := New(Config{Fix: FixLookup}).Score(context.Background(), wanted(), broken{}, episodeOf(recommend("A"))); !errors.Is(err, ErrLookup) {
		t.Errorf("strict says whose failure it is: %v", err)
	}
}

func TestQuality(t *testing.T) {
	verdicts := []Verdict{ptr(.9), nil, ptr(0), ptr(2), ptr(-1)}
	if q := Quality(Compat, verdicts); *q != .38 {
		t.Errorf("compat %v", *q)
	}
	if q := Quality(Strict, verdicts); *q != .475 {
		t.Errorf("strict %v", *q)
	}
	if q := Quality(Strict, []Verdict{nil}); q != nil {
		t.Errorf("nothing judged is %v", *q)
	}
	if q := Quality(Compat, nil); *q != 0 {
		t.Errorf("%v", *q)
	}
}

func TestFixNames(t *testing.T) {
	if len(fixNames) != 11 || Strict.has(fixEnd) || !Strict.has(FixJudgeFailure) {
		t.Fatal("a fix lacks a name")
	}
	for _, f := range []Fix{Compat, Strict, FixNullCap, FixMalformedStep | FixJudgeFailure} {
		if got, ok := ParseFix(f.String()); !ok || got != f {
			t.Errorf("%v is read as %v, %v", f, got, ok)
		}
	}
	for _, s := range []string{"", "null-cap,", "Strict"} {
		if f, ok := ParseFix(s); ok {
			t.Errorf("%q is %v", s, f)
		}
	}
}

func TestWeights(t *testing.T) {
	field := func(n int) (f []Finisher, mg []string) {
		mg = []string{"burn"}
		for i := range n {
			f = append(f, Finisher{fmt.Sprintf("h%03d", i), fmt.Sprintf("v%03d", i), float64(n - i)})
			mg = append(mg, fmt.Sprintf("h%03d", i))
		}
		return f, mg
	}
	for n, want := range map[int]int64{2: 21845, 5: 21845, 6: 21846, 10: 21848, 30: 21880, 50: 21945, 100: 22253, 256: 24554} {
		f, mg := field(n)
		rand.New(rand.NewPCG(1, 2)).Shuffle(n, func(i, j int) { f[i], f[j] = f[j], f[i] })
		w, err := Weights(f, mg, .25, .75)
		if err != nil || w[1] != want || w[0] != MaxWeight {
			t.Errorf("%d finishers: %v, %v", n, w, err)
		}
	}
	f, mg := field(4)
	for _, r := range [][2]float64{{-.1, 1.1}, {1.1, -.1}, {.6, .5}, {.6, .3}, {0, 0}} {
		if _, err := Weights(f, mg, r[0], r[1]); err == nil {
			t.Errorf("%v: no error", r)
		}
	}
	two, mg2 := field(2)
	for r, want := range map[[2]float64][2]int64{{.5, .5}: {65535, 65535}, {1, 0}: {0, 65535}, {0, 1}: {65535, 0}} {
		if w, err := Weights(two, mg2, r[0], r[1]); err != nil || w[0] != want[0] || w[1] != want[1] {
			t.Errorf("%v: %v, %v", r, w, err)
		}
	}
	many, mgMany := field(92) // K 46, S 1035
	if _, err := Weights(many, mgMany, .99, .01); err == nil {
		t.Error("a burn smaller than the tail is not an error")
	}
	w, err := Weights(two, []string{"h000"}, .25, .75)
	if err != nil || w[0] != 87380 || Clamp(w)[0] != MaxWeight {
		t.Errorf("the best at uid 0: %v, %v", w, err)
	}
}

func TestLaw(t *testing.T) {
	l := Law{Initial: .1, Floor: .02, HalfLifeS: 3600}
	last := 1.
	for now := 0.; now < 1e6; now += 1800 {
		bar := l.Bar(.5, 0, now)
		if bar > last || bar < .52 {
			t.Fatalf("at %v: %v after %v", now, bar, last)
		}
		last = bar
	}
	if l.Bar(.5, 100, 0) != l.Bar(.5, 100, 100) || !near(l.Bar(.5, 100, 100), .6) {
		t.Error("a clock that runs backwards moves the bar")
	}
	for _, l := range []Law{{.1, .2, 1}, {.1, -1, 1}, {.1, 0, 0}} {
		if l.Check() == nil {
			t.Errorf("%+v passes", l)
		}
	}
}

func TestHostileEpisodes(t *testing.T) {
	for name, out := range map[string]string{
		"nothing": "", "not a list": "{}", "null": "null", "cut off": `[{"completion":`, "deep": strings.Repeat("[", 1<<20), "text after": "[] x",
		"control character": "[\"\x01\"]", "bad escape": `["\x"]`, "bad number": "[01]", "half a word": "[tru]",
	} {
		if _, err := New(Config{}).Score(context.Background(), wanted(), Products{}, []byte(out)); !errors.Is(err, ErrUnscored) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// An episode of ten megabytes is scored like any other.
	big := step(`{"think":"ok","tool_call":[{"name":"find","parameters":{},"result":"` + strings.Repeat("product \\u00e9 ", 1<<20) + `"}]}`)
	if s := mustScore(t, Config{Fix: Strict}, wanted(), Products{"A": {ProductID: "A"}}, episodeOf(big, recommend("A"))); s.Rule != 1 || s.Format != 1 {
		t.Errorf("%+v", s)
	}
}

// FuzzTape compares the reader with encoding/json.
func FuzzTape(f *testing.F) {
	for _, s := range []string{`[]`, `{"a":[1,-2.5e+3,"x\u00e9\"",null,true,false]}`, `[{"a":1,"a":2}]`, "[\"\xff\"]", `["\ud800"]`, `[1,]`, `{"a" : "b" , "c":[{}]}`, `"01234567\"89abcdefg"`, `[NaN,Infinity,-Infinity]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		var tp tape
		err := tp.parse(src)
		if err == nil {
			walk(t, &tp, 0)
		}
		if strings.Contains(string(src), "N") || strings.Contains(string(src), "I") || strings.Count(string(src), "[")+strings.Count(string(src), "{") > maxDepth {
			return // where the two differ on purpose
		}
		if valid := json.Valid(src); valid != (err == nil) {
			t.Fatalf("%q: valid %v, %v", src, valid, err)
		}
		if err != nil {
			return
		}
		var v any
		if json.Unmarshal(src, &v) != nil {
			return // a number beyond float64
		}
		if obj, ok := v.(map[string]any); ok {
			for k, want := range obj {
				n := tp.get(0, k)
				if s, ok := want.(string); ok && strings.ToValidUTF8(k, "") == k && !strings.Contains(k, "\uFFFD") && (n < 0 || (tp.text(n) != s && !strings.Contains(s, "\uFFFD"))) {
					t.Fatalf("%q: %q differs", src, k)
				}
			}
		}
	})
}

func walk(t *testing.T, tp *tape, n int) {
	v := tp.nodes[n]
	if int(v.next) <= n || int(v.next) > len(tp.nodes) || v.start >= v.end {
		t.Fatalf("node %d: %+v of %d", n, v, len(tp.nodes))
	}
	if v.kind == kindString {
		_ = tp.text(n)
	}
	tp.each(n, func(c int) bool { walk(t, tp, c); return true })
}

// FuzzScore must neither panic nor give a score outside its bounds.
func FuzzScore(f *testing.F) {
	f.Add([]byte(`[{"completion":{"message":{"think":"ok","tool_call":[{"name":"recommend_product","parameters":{"product_ids":"A"}}]}}}]`))
	f.Add([]byte(`[{"completion":{"message":{"think":null}}}]`))
	f.Add([]byte(`[1,[],{"completion":7}]`))
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, fix := range []Fix{Compat, Strict} {
			s, err := New(Config{Fix: fix, DropTitles: true, Encoder: shop.Vectors{Table: map[string][]float32{"T": {1}}}}).
				Score(context.Background(), wanted(), Products{"A": {ProductID: "A"}}, out)
			if err == nil && (s.Format < 0 || s.Format > 1 || s.Length < 0 || s.Length > 1) {
				t.Fatalf("%+v", s)
			}
		}
	})
}
