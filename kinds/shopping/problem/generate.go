package problem

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/search"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Config is what problems are made of.
type Config struct {
	Index   *search.Index
	Encoder shop.Encoder // makes the vectors of the reward's titles
	// NoVectors leaves them out of the problems, for an encoder that every scorer has.
	NoVectors bool
	Seed      uint64 // whoever knows it knows the answers: keep a hidden set's secret
	Label     string // of the set; other labels give other problems
	Counts    Counts
	// Pool splits the products among sets: only those whose id falls into pool
	// Pool of Pools are ground truth, so that sets of different pools share no
	// answer. 0 pools = all products.
	Pool, Pools int
	// Avoid are ids that may not be ground truth either.
	Avoid map[string]bool
}

// tries bounds the search for a problem of a wanted difficulty.
const tries = 4000

// Generate makes problems whose ground truth exists, is found by search, and
// solves the problem by the scorer's own word, in both modes. The difficulty
// is measured, not declared: where does a search for the words of the query,
// with its price and services, list the ground truth?
//
//	easy    every item on the first page (of one to two items)
//	medium  every item within the five pages that there are
//	hard    an item stands on none of them: one has to search otherwise
func Generate(ctx context.Context, c Config) ([]shop.Problem, error) {
	if c.Index == nil || c.Encoder == nil {
		return nil, errors.New("generate problems: an index and an encoder are needed")
	}
	n := c.Counts.Total()
	if n < 1 || n > MaxProblems {
		return nil, invalid("count", fmt.Sprintf("1 to %d", MaxProblems), "count %d is out of bounds", n)
	}
	g := &generator{c: c, used: map[string]bool{}, shops: map[string][]string{}, parsed: map[string]*shop.Product{}}
	if err := g.read(ctx); err != nil {
		return nil, err
	}
	var out []shop.Problem
	for _, category := range []string{shop.CategoryProduct, shop.CategoryShop, shop.CategoryVoucher} {
		i := 0
		for _, band := range []string{Easy, Medium, Hard} {
			for range c.Counts[category][band] {
				i++
				p, err := g.problem(ctx, category, band, i)
				if err != nil {
					return nil, err
				}
				out = append(out, *p)
			}
		}
	}
	return out, nil
}

type generator struct {
	c      Config
	ids    []string                 // that may be ground truth, sorted
	shops  map[string][]string      // ids by shop, of shops with several
	names  []string                 // of shops, sorted
	used   map[string]bool          // ids that are ground truth already
	parsed map[string]*shop.Product // at most maxCached
}

func (g *generator) read(ctx context.Context) error {
	for id := range g.c.Index.IDs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if g.c.Avoid[id] || (g.c.Pools > 0 && poolOf(id, g.c.Pools) != g.c.Pool) {
			continue
		}
		g.ids = append(g.ids, id)
		g.shops[g.c.Index.ShopOf(id)] = append(g.shops[g.c.Index.ShopOf(id)], id)
	}
	for name, ids := range g.shops {
		if len(ids) < 3 {
			delete(g.shops, name)
		}
	}
	for name := range g.shops {
		g.names = append(g.names, name)
	}
	slices.Sort(g.names)
	if len(g.ids) == 0 || len(g.names) == 0 {
		return invalid("catalogue", "", "the catalogue is too small: it has %d products and %d shops with three or more of them to ask for", len(g.ids), len(g.names))
	}
	return nil
}

// maxCached bounds the products that are kept parsed.
const maxCached = 20_000

func (g *generator) product(ctx context.Context, id string) (*shop.Product, error) {
	if p := g.parsed[id]; p != nil {
		return p, nil
	}
	p, err := g.c.Index.Product(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(g.parsed) >= maxCached {
		clear(g.parsed)
	}
	g.parsed[id] = p
	return p, nil
}

// poolOf spreads ids over pools by their hash.
func poolOf(id string, pools int) int {
	return int(seeds.Derive("shop-pool", id) % int64(pools))
}

func pick[T any](r *catalogue.Random, list []T) T { return list[r.N(len(list))] }

// item is one wanted product with the words that tell an agent of it.
type item struct {
	p    *shop.Product
	want shop.Item
	head string   // "premium matte lipstick"
	said []string // constraints in words
}

func (g *generator) problem(ctx context.Context, category, band string, number int) (*shop.Problem, error) {
	for try := range tries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := catalogue.NewRandom(g.c.Seed, "problem", g.c.Label, category, band, strconv.Itoa(number), strconv.Itoa(try))
		items, err := g.items(ctx, r, category, band, try >= tries/4)
		if err != nil {
			return nil, err
		}
		if items == nil {
			continue
		}
		p := &shop.Problem{Category: category, Difficulty: band, Title: fmt.Sprintf("%s %d", category, number), TitleEncoder: g.c.Encoder.Name(), TitleVectors: map[string][]float32{}}
		p.Reward.One = category == shop.CategoryProduct
		for _, it := range items {
			p.Reward.Items = append(p.Reward.Items, it.want)
		}
		if category == shop.CategoryVoucher {
			if p.Voucher = voucher(r, items); p.Voucher == nil {
				continue
			}
		}
		got, err := g.measure(ctx, items, category)
		if err != nil {
			return nil, err
		}
		if got != band {
			continue
		}
		if clear, err := g.unambiguous(ctx, items, category); err != nil {
			return nil, err
		} else if !clear {
			continue
		}
		p.Query = words(r, category, items, p.Voucher)
		var id [16]byte
		r.Bytes(id[:])
		p.ProblemID = uuidOf(id[:])
		if err := g.vectors(ctx, p); err != nil {
			return nil, err
		}
		if err := g.prove(ctx, p); err != nil {
			return nil, err
		}
		for _, it := range items {
			g.used[it.p.ProductID] = true
		}
		return p, nil
	}
	return nil, invalid("count", "", "no %s problem of difficulty %s was found in %d tries: the catalogue is too small for so many", category, band, tries)
}

// items draws products and says what is asked of them; nil where the draw is
// of no use. loose tells less of a Medium item: in a small catalogue more would
// find it at once.
func (g *generator) items(ctx context.Context, r *catalogue.Random, category, band string, loose bool) ([]item, error) {
	n, ids := 1, g.ids
	switch category {
	case shop.CategoryShop:
		n = 2
		if band != Easy && r.Bool(.5) {
			n = 3
		}
		ids = g.shops[pick(r, g.names)]
	case shop.CategoryVoucher:
		n = 1 + r.N(2)
		if band != Easy {
			n = 1 + r.N(4)
		}
		if r.Bool(.3) {
			ids = g.shops[pick(r, g.names)]
		}
	}
	var out []item
	kinds := map[string]bool{}
	for range 6 * n {
		id := pick(r, ids)
		if g.used[id] {
			continue
		}
		p, err := g.product(ctx, id)
		if err != nil {
			return nil, err
		}
		if kinds[p.Category] || p.Price < 1 {
			continue
		}
		it, ok := describe(r, p, band, loose)
		if !ok {
			continue
		}
		kinds[p.Category] = true // two items of one kind would be told apart by luck
		if out = append(out, it); len(out) == n {
			return out, nil
		}
	}
	return nil, nil
}

// describe chooses what is asked of a product, and puts it in words.
func describe(r *catalogue.Random, p *shop.Product, band string, loose bool) (item, bool) {
	it := item{p: p, want: shop.Item{ProductID: p.ProductID, Title: []string{p.Title}}}
	// The harder, the less is told of the title, and the less narrows a search.
	loose = loose && band == Medium
	it.head = head(p, band)
	if loose {
		it.head = head(p, Hard)
	}
	if it.head == "" {
		return it, false
	}
	if p.Brand != "" && p.Brand != "no brand" && (band == Easy || band == Medium && !loose && r.Bool(.5)) {
		it.want.Attributes = append(it.want.Attributes, attribute(p, "brand", &it, "of the brand %s")...)
	}
	round := func(f float64) float64 { // to two digits
		unit := 1.0
		for f >= 100*unit {
			unit *= 10
		}
		return math.Floor(f/unit) * unit
	}
	lo, hi := round(p.Price*(.55+.35*r.Float())), round(p.Price*(1.15+.8*r.Float()))+1
	mode := r.N(4)
	if band == Hard {
		mode = r.N(2)
	}
	switch mode {
	case 0:
		it.want.Price = []shop.PriceBound{{Mode: shop.PriceGreater, Lo: &lo}}
		it.said = append(it.said, "that costs at least "+money(lo)+" pesos")
	case 1:
		it.want.Price = []shop.PriceBound{{Mode: shop.PriceLess, Hi: &hi}}
		it.said = append(it.said, "for at most "+money(hi)+" pesos")
	default:
		it.want.Price = []shop.PriceBound{{Mode: shop.PriceBetween, Lo: &lo, Hi: &hi}}
		it.said = append(it.said, "priced between "+money(lo)+" and "+money(hi)+" pesos")
	}
	if len(p.Service) > 0 && band != Hard && r.Bool(.6) {
		s := pick(r, p.Service)
		it.want.Service = []string{s}
		it.said = append(it.said, map[string]string{
			"official": "from an official store", "freeShipping": "with free shipping", "COD": "with cash on delivery", "flashsale": "that is on flash sale",
		}[s])
	}
	var keys []string
	for k := range p.Attributes {
		if k != "brand" && len(p.Attributes[k]) > 0 {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	wanted := 1
	switch band {
	case Medium:
		wanted = 1 + r.N(3)
	case Hard:
		wanted = len(keys) // nothing else tells it from its rivals
	}
	for range min(wanted, len(keys)) {
		i := r.N(len(keys))
		it.want.Attributes = append(it.want.Attributes, attribute(p, keys[i], &it, "")...)
		keys = slices.Delete(keys, i, i+1)
	}
	if len(p.SKUOptions) > 0 && (band == Hard || r.Bool(.4)) {
		var names []string
		for name := range p.SKUOptions {
			names = append(names, name)
		}
		slices.Sort(names)
		option := p.SKUOptions[pick(r, names)]
		var ks []string
		for k := range option {
			ks = append(ks, k)
		}
		slices.Sort(ks)
		if len(ks) > 0 {
			k := pick(r, ks)
			it.want.SKUOptions = []map[string]string{{k: option[k]}}
			it.said = append(it.said, "to be had in "+k+" "+option[k])
		}
	}
	return it, true
}

func attribute(p *shop.Product, k string, it *item, form string) []map[string][]string {
	vs := p.Attributes[k]
	if len(vs) == 0 {
		return nil
	}
	if form == "" {
		form = k + ": %s"
	}
	it.said = append(it.said, fmt.Sprintf(form, vs[0]))
	return []map[string][]string{{k: {vs[0]}}}
}

// head is what a product is called: its title without brand and model, cut
// after the goods' name where the short description begins with it ("Name ·
// shop"), else after a few words. The harder, the less of it.
func head(p *shop.Product, band string) string {
	var title []string
	for i, w := range strings.Fields(p.Title) {
		if (i == 0 && strings.EqualFold(w, p.Brand)) || model(w) {
			continue
		}
		if w = strings.Trim(w, ",.;:()[]"); w != "" {
			title = append(title, w)
		}
	}
	name, _, ok := strings.Cut(p.ShortDescription, " · ")
	goods := strings.Fields(strings.ToLower(name))
	if ok && len(goods) > 0 {
		for i := 0; i+len(goods) <= len(title); i++ {
			if !slices.EqualFunc(title[i:i+len(goods)], goods, strings.EqualFold) {
				continue
			}
			from, to := 0, i+len(goods)
			switch {
			case band == Hard:
				from = i
			case i == 0 && band == Easy: // the qualities come after the name
				to = min(len(title), to+2)
			}
			return strings.Join(title[from:to], " ")
		}
	}
	n := map[string]int{Easy: 4, Medium: 3, Hard: 2}[band]
	return strings.Join(title[:min(n, len(title))], " ")
}

// model reports a word of capitals and digits: nobody asks for it.
func model(w string) bool {
	return strings.ContainsFunc(w, unicode.IsDigit) && strings.ContainsFunc(w, unicode.IsUpper) && strings.ToUpper(w) == w
}

func money(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// measure tells the difficulty: it searches as a plain agent would.
func (g *generator) measure(ctx context.Context, items []item, category string) (string, error) {
	worst := 0
	for i, it := range items {
		q := search.Query{Text: it.head, Service: it.want.Service, Page: 1}
		if i > 0 && category == shop.CategoryShop {
			q.Shop = it.p.ShopID // known from the first
		}
		for _, b := range it.want.Price {
			q.Lo, q.Hi = b.Lo, b.Hi
		}
		for _, m := range it.want.Attributes {
			for k, vs := range m {
				if k == "brand" {
					q.Text += " " + vs[0]
				}
			}
		}
		hits, err := g.c.Index.Relevant(ctx, q)
		if err != nil {
			return "", err
		}
		page := 6
		if i := slices.IndexFunc(hits, func(d uint32) bool { return g.c.Index.ID(d) == it.p.ProductID }); i >= 0 {
			page = 1 + i/10
		}
		if worst = max(worst, page); worst > 5 {
			break
		}
	}
	switch {
	case worst == 1:
		return Easy, nil
	case worst <= 5:
		return Medium, nil
	}
	return Hard, nil
}

// rivals is how many products that a search for the words finds are compared
// with a ground truth.
const rivals = 300

// unambiguous reports whether every product that fits the words of an item is
// right by its title too: what an agent cannot know must not cost it the answer.
func (g *generator) unambiguous(ctx context.Context, items []item, category string) (bool, error) {
	for i, it := range items {
		q := search.Query{Text: it.head, Service: it.want.Service}
		if i > 0 && category == shop.CategoryShop {
			q.Shop = it.p.ShopID
		}
		for _, b := range it.want.Price {
			q.Lo, q.Hi = b.Lo, b.Hi
		}
		hits, err := g.c.Index.Best(ctx, q, rivals)
		if err != nil {
			return false, err
		}
		titles := []string{it.p.Title}
		for _, d := range hits {
			p, err := g.product(ctx, g.c.Index.ID(d))
			if err != nil {
				return false, err
			}
			if p.ProductID != it.p.ProductID && score.Meets(&it.want, p) && strings.Contains(strings.ToLower(p.Title), strings.ToLower(it.head)) {
				titles = append(titles, p.Title)
			}
		}
		vectors, err := g.c.Encoder.Encode(ctx, titles)
		if err != nil {
			return false, fmt.Errorf("generate problems: %w", err)
		}
		for _, v := range vectors[1:] {
			like, err := shop.Cosine(vectors[0], v)
			if err != nil {
				return false, err
			}
			if like < shop.SimilarityThreshold {
				return false, nil
			}
		}
	}
	return true, nil
}

// voucher makes one that the items need: without it they exceed the budget,
// with it they fit, and their total is above the threshold in either reading.
func voucher(r *catalogue.Random, items []item) *shop.Voucher {
	total, one := 0.0, true
	for _, it := range items {
		total += it.p.Price
		one = one && it.p.ShopID == items[0].p.ShopID
	}
	if total < 12 {
		return nil
	}
	v := &shop.Voucher{VoucherType: shop.VoucherPlatform, Threshold: math.Floor(total * (.5 + .45*r.Float())), DiscountType: shop.DiscountFixed}
	if one && r.Bool(.6) {
		v.VoucherType = shop.VoucherShop
	}
	if v.Threshold >= total {
		return nil
	}
	var after float64
	if r.Bool(.5) {
		off := max(2, math.Floor(total*(.08+.2*r.Float())))
		v.FaceValue = &off
		after = total - off
	} else {
		share := float64(5+r.N(40)) / 100
		limit := max(2, math.Floor(total*share*(.6+.8*r.Float())))
		v.DiscountType, v.Discount, v.Cap = shop.DiscountPercentage, &share, &limit
		after = max(float64(total*(1-share)), total-limit)
	}
	v.PriceAfterVoucher = math.Round(after*100) / 100
	v.Budget = math.Ceil(after)
	if v.Budget >= total {
		return nil
	}
	return v
}

// words puts a problem in words, in one of several ways.
func words(r *catalogue.Random, category string, items []item, v *shop.Voucher) string {
	one := func(it item) string { return it.head + ", " + strings.Join(it.said, ", ") }
	if category == shop.CategoryProduct {
		return fmt.Sprintf(pick(r, []string{
			"I am looking for this: %s.", "Can you find me one product: %s?", "Please help me to buy the following: %s.", "I need this, and only one: %s. Which one fits?",
		}), one(items[0]))
	}
	var list []string
	for i, it := range items {
		list = append(list, pick(r, [][]string{{"First", "To begin with"}, {"Second", "Then"}, {"Third", "Besides"}, {"Fourth", "Last"}}[min(i, 3)])+": "+one(it)+".")
	}
	text := strings.Join(list, " ")
	if category == shop.CategoryShop {
		return fmt.Sprintf(pick(r, []string{
			"Find one shop that sells all of these products. %s", "I want to order everything from the same shop, so that it comes in one parcel. %s", "Which shop offers these together? %s",
		}), text)
	}
	rules := []string{"It is a voucher of the platform: the products may come from any shops."}
	if v.VoucherType == shop.VoucherShop {
		rules[0] = "It is a voucher of a shop: all products must come from one shop."
	}
	off := "takes " + money(deref(v.FaceValue)) + " pesos off."
	if v.DiscountType == shop.DiscountPercentage {
		off = "takes " + money(math.Round(deref(v.Discount)*100)) + " % off, at most " + money(deref(v.Cap)) + " pesos."
	}
	rules = append(rules, "When the total exceeds "+money(v.Threshold)+" pesos it "+off, "My budget after the voucher is "+money(v.Budget)+" pesos.")
	for i := range rules {
		rules[i] = strconv.Itoa(i+1) + ". " + rules[i]
	}
	intro := pick(r, []string{"I have a voucher and a budget, and I want the following.", "Help me to spend my voucher on these.", "With my voucher I would like to buy:"})
	return intro + " " + text + " Rules of the voucher: " + strings.Join(rules, " ")
}

func deref(f *float64) float64 {
	if f == nil {
		return 0
	}
	return *f
}

func (g *generator) vectors(ctx context.Context, p *shop.Problem) error {
	if g.c.NoVectors {
		p.TitleVectors = nil
		return nil
	}
	for _, it := range p.Reward.Items {
		v, err := g.c.Encoder.Encode(ctx, it.Title)
		if err != nil {
			return fmt.Errorf("generate problems: %w", err)
		}
		for i, t := range it.Title {
			p.TitleVectors[t] = v[i]
		}
	}
	return nil
}

// prove scores the ground truth, and each item by another id, so that the
// constraints themselves are met: a problem that its own answer does not solve
// is a defect of ours.
func (g *generator) prove(ctx context.Context, p *shop.Problem) error {
	var ids []string
	for _, it := range p.Reward.Items {
		ids = append(ids, it.ProductID)
	}
	answer := fmt.Appendf(nil, `[{"completion":{"message":{"think":"x","tool_call":[{"name":"recommend_product","parameters":{"product_ids":%q}}]}},"extra_info":{"timestamp":1}}]`, strings.Join(ids, ","))
	for _, q := range []*shop.Problem{p, anonymous(p)} {
		for _, fix := range []score.Fix{score.Compat, score.Strict} {
			s, err := score.New(score.Config{Fix: fix, Encoder: g.c.Encoder}).Score(ctx, q, g.c.Index, answer)
			if err != nil {
				return fmt.Errorf("generate problems: score the ground truth: %w", err)
			}
			if !s.Success(p.Category) {
				return fmt.Errorf("generate problems: %q is not solved by its ground truth (%v)", p.Query, fix)
			}
		}
	}
	return Check(p)
}

// anonymous is a problem whose items have no ground truth: only constraints count.
func anonymous(p *shop.Problem) *shop.Problem {
	q := *p
	q.Reward.Items = slices.Clone(p.Reward.Items)
	for i := range q.Reward.Items {
		q.Reward.Items[i].ProductID = "-"
	}
	return &q
}

// The demo that comes with agon: a catalogue that a seed makes anew, and the
// suite "shopping/demo" of package tasks.
const (
	DemoProducts = 5000
	DemoSeed     = 2026
	DemoProblems = 12
)

// DemoCatalogue is the demo's catalogue as a stream of lines. Close it.
func DemoCatalogue() io.ReadCloser {
	r, w := io.Pipe()
	go func() { // ends with the catalogue, or with the reader
		w.CloseWithError(catalogue.Generate(w, catalogue.Options{Products: DemoProducts, Seed: DemoSeed}))
	}()
	return r
}

// DemoSuite is how the demo's public suite is made. Everybody knows its answers.
func DemoSuite(x *search.Index, e shop.Encoder) Config {
	return Config{Index: x, Encoder: e, NoVectors: true, Seed: DemoSeed, Label: "demo", Counts: Suite(DemoProblems, false), Pools: 2}
}

// DemoHidden is how hidden problems beside the demo's suite are made: n of
// them, with a seed that must stay secret. They share no answer with the suite.
func DemoHidden(x *search.Index, e shop.Encoder, seed uint64, n int) Config {
	return Config{Index: x, Encoder: e, NoVectors: true, Seed: seed, Label: "hidden", Counts: Suite(n, false), Pool: 1, Pools: 2}
}
