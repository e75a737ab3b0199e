package problem

import (
	"context"
	"errors"
	"fmt"
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
	// ORO keeps to what ORO's own scorer reads: each problem has an answer, and no
	// value is excluded. Where its validators play, both scorers say the same.
	ORO bool
	// Plain asks in the catalogue's own words, excludes nothing and always has an
	// answer: sets to learn on, which comparing words solves.
	Plain bool
}

// tries bounds the search for a problem of a wanted difficulty.
const tries = 4000

// Generate makes problems whose ground truth exists, is the only answer that the
// words allow, is found with the arena's tools by who understands the words
// (Solve), and solves the problem by the scorer's own word, in both modes. Some
// have no answer at all (shop.Problem.Unanswerable). The difficulty is measured,
// not declared: where does a search for what the query calls the goods, with
// their price and services, list the ground truth?
//
//	easy    every item on the first page (of one to two items)
//	medium  every item within the five pages that there are
//	hard    an item stands on none of them: one has to search otherwise
func Generate(ctx context.Context, c Config) ([]shop.Problem, error) {
	made, err := Make(ctx, c)
	if err != nil {
		return nil, err
	}
	out := make([]shop.Problem, len(made))
	for i := range made {
		out[i] = made[i].Problem
	}
	return out, nil
}

// Made is a problem with what its query means.
type Made struct {
	Problem shop.Problem
	Reading Reading
}

// Make is Generate that also tells what each query means.
func Make(ctx context.Context, c Config) ([]Made, error) {
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
	var out []Made
	for _, category := range []string{shop.CategoryProduct, shop.CategoryShop, shop.CategoryVoucher} {
		i := 0
		for _, band := range []string{Easy, Medium, Hard} {
			for range c.Counts[category][band] {
				i++
				m, err := g.problem(ctx, category, band, i)
				if err != nil {
					return nil, err
				}
				out = append(out, *m)
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
	// grouped are all ids by category, sorted; nil where the catalogue is too large.
	grouped map[string][]string
	// dense are ids by shop, of products of which the shop sells several kinds.
	dense map[string][]string
}

func (g *generator) read(ctx context.Context) error {
	if g.c.Index.Meta().Documents <= maxGrouped {
		g.grouped = map[string][]string{}
	}
	for id := range g.c.Index.IDs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if g.grouped != nil {
			p, err := g.product(ctx, id)
			if err != nil {
				return err
			}
			g.grouped[p.Category] = append(g.grouped[p.Category], id)
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
	g.denseOnes()
	slices.Sort(g.names)
	for _, ids := range g.grouped {
		slices.Sort(ids)
	}
	if len(g.ids) == 0 || len(g.names) == 0 {
		return invalid("catalogue", "", "the catalogue is too small: it has %d products and %d shops with three or more of them to ask for", len(g.ids), len(g.names))
	}
	return nil
}

// denseShop is how many products of a category a shop sells that is dense in it.
const denseShop = 4

// denseOnes finds what dense shops sell.
func (g *generator) denseOnes() {
	g.dense = map[string][]string{}
	in := map[[2]string]int{}
	for category, ids := range g.grouped {
		for _, id := range ids {
			in[[2]string{category, g.c.Index.ShopOf(id)}]++
		}
	}
	for category, ids := range g.grouped {
		if catalogue.GoodsOf(category) == nil {
			continue
		}
		for _, id := range ids {
			if s := g.c.Index.ShopOf(id); in[[2]string{category, s}] >= denseShop && g.shops[s] != nil && slices.Contains(g.shops[s], id) {
				g.dense[s] = append(g.dense[s], id)
			}
		}
	}
	for _, ids := range g.dense {
		slices.Sort(ids)
	}
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

// crowdTries bounds the search for a problem with rivals.
const crowdTries = 300

// hopeless is the share of Product and Voucher problems that have no answer. It
// is small: who always gives up must not gain by it.
const hopeless = .12

func (g *generator) problem(ctx context.Context, category, band string, number int) (*Made, error) {
	form := catalogue.NewRandom(g.c.Seed, "form", g.c.Label, category, band, strconv.Itoa(number))
	unanswerable := category != shop.CategoryShop && form.Bool(hopeless) && !g.c.ORO && !g.c.Plain
	for try := range tries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r := catalogue.NewRandom(g.c.Seed, "problem", g.c.Label, category, band, strconv.Itoa(number), strconv.Itoa(try))
		m, err := g.attempt(ctx, r, category, band, unanswerable, try < crowdTries && !g.c.Plain, try < tries*3/4 && !g.c.Plain)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue
		}
		m.Problem.Title = fmt.Sprintf("%s %d", category, number)
		for _, it := range m.Problem.Reward.Items {
			g.used[it.ProductID] = true
		}
		return m, nil
	}
	return nil, invalid("count", "", "no %s problem of difficulty %s was found in %d tries: the catalogue is too small for so many", category, band, tries)
}

// attempt draws one problem; nil where the draw is of no use. crowded wants rivals
// that only what is asked of them tells apart, and sifted leaves out most of what
// comparing words solves: a small catalogue may have no other.
func (g *generator) attempt(ctx context.Context, r *catalogue.Random, category, band string, unanswerable, crowded, sifted bool) (*Made, error) {
	items, fit, err := g.items(ctx, r, category, band, unanswerable)
	if err != nil || items == nil {
		return nil, err
	}
	if g.c.ORO && slices.ContainsFunc(items, func(it item) bool { return len(it.want.Exclude) > 0 }) {
		return nil, nil
	}
	p := shop.Problem{Category: category, Difficulty: band, TitleEncoder: g.c.Encoder.Name(), TitleVectors: map[string][]float32{}}
	p.Reward.One = category == shop.CategoryProduct
	if category == shop.CategoryVoucher {
		if p.Voucher = voucher(r, items); p.Voucher == nil {
			return nil, nil
		}
	}
	if got, err := g.measure(ctx, items, category); err != nil || got != band {
		return nil, err
	}
	if n, err := g.crowd(ctx, items, category); err != nil || (crowded && n < leastCrowd) {
		return nil, err
	}
	want := 1
	if unanswerable {
		want = 0
		if ok, err := g.spoil(ctx, r, items, fit, p.Voucher); err != nil || !ok {
			return nil, err
		}
	}
	if n, ok := combinations(category, fit, p.Voucher); !ok || n != want {
		return nil, nil
	}
	var id [16]byte
	r.Bytes(id[:])
	p.ProblemID, p.Query, p.Unanswerable = uuidOf(id[:]), words(r, category, items, p.Voucher), unanswerable
	if g.c.Plain && category == shop.CategoryProduct {
		p.Query = plainQuery(items[0])
	}
	m := &Made{Reading: Reading{Category: category, Voucher: p.Voucher}}
	for i, it := range items {
		blank := it.want
		blank.ProductID, blank.Title = "", nil
		m.Reading.Items = append(m.Reading.Items, ReadItem{it.names, blank})
		if unanswerable { // no product has this id; nobody else's problem names it
			it.want.ProductID, it.want.Title = fmt.Sprintf("none-%s-%d", p.ProblemID[:13], i+1), nil
		}
		p.Reward.Items = append(p.Reward.Items, it.want)
	}
	if err := g.vectors(ctx, &p); err != nil {
		return nil, err
	}
	m.Problem = p
	if ok, err := g.solvable(ctx, m); err != nil || !ok {
		return nil, err
	}
	if !unanswerable && sifted && !r.Bool(shareGuessed) {
		if lucky, err := g.guessed(ctx, items, category); err != nil || lucky {
			return nil, err
		}
	}
	return m, g.prove(ctx, &m.Problem)
}

// solvable reports whether the reference solver comes to the answer.
func (g *generator) solvable(ctx context.Context, m *Made) (bool, error) {
	ids, err := Solve(ctx, IndexTools(g.c.Index), m.Reading)
	if err != nil || m.Problem.Unanswerable {
		return err == nil && len(ids) == 0, err
	}
	for i, it := range m.Problem.Reward.Items {
		if i >= len(ids) || ids[i] != it.ProductID {
			return false, nil
		}
	}
	return true, nil
}

// spoil changes a problem so that nothing answers it any more, and what fits
// with it: a budget below the cheapest choice, or a price that nothing has.
func (g *generator) spoil(ctx context.Context, r *catalogue.Random, items []item, fit [][]*shop.Product, v *shop.Voucher) (bool, error) {
	if v != nil {
		v.Budget = math.Floor(v.Budget * (.45 + .3*r.Float()))
		return v.Budget >= 1, nil
	}
	it := &items[0]
	lowest := math.Inf(1)
	for _, p := range fit[0] {
		lowest = min(lowest, p.Price)
	}
	hi := twoDigits(lowest * (.4 + .3*r.Float()))
	if hi < 2 || len(it.want.Price) > 0 {
		return false, nil
	}
	it.want.Price = []shop.PriceBound{{Mode: shop.PriceLess, Hi: &hi}}
	it.said = append(it.said, "for at most "+money(hi)+" pesos")
	var err error
	fit[0], err = g.fitting(ctx, &item{p: &shop.Product{Category: it.p.Category}, want: it.want, head: it.head})
	return err == nil && len(fit[0]) == 0, err
}

// items draws products and says what is asked of them, with the products that
// fit each; nil where the draw is of no use.
func (g *generator) items(ctx context.Context, r *catalogue.Random, category, band string, unanswerable bool) ([]item, [][]*shop.Product, error) {
	n, ids, limit := 1, g.ids, 1
	switch category {
	case shop.CategoryShop:
		n, limit = 2, 6
		if band != Easy && r.Bool(.5) {
			n = 3
		}
		ids = g.shops[pick(r, g.names)]
	case shop.CategoryVoucher:
		n, limit = 1+r.N(2), 4
		if band != Easy {
			n = 1 + r.N(4)
		}
		if r.Bool(.3) {
			ids = g.shops[pick(r, g.names)]
		}
	}
	var out []item
	var fit [][]*shop.Product
	// A price narrows a search: where one is to look further, few wishes have it.
	priced := !unanswerable && r.Bool(.35)
	kinds := map[string]bool{}
	for range 6 * n {
		id := pick(r, ids)
		if len(out) == 0 && category == shop.CategoryShop && len(g.dense[g.c.Index.ShopOf(id)]) > 0 {
			id = pick(r, g.dense[g.c.Index.ShopOf(id)])
		}
		if g.used[id] {
			continue
		}
		p, err := g.product(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		if kinds[p.Category] || p.Price < 3 {
			continue
		}
		it, fits, err := g.describe(ctx, r, p, band, limit, priced)
		if err != nil {
			return nil, nil, err
		}
		if fits == nil {
			continue
		}
		kinds[p.Category] = true // two items of one kind would be told apart by luck
		out, fit = append(out, it), append(fit, fits)
		if len(out) == n {
			return out, fit, nil
		}
	}
	return nil, nil, nil
}

// describe asks so much of a product that at most limit products fit, and says
// it in words; no products: it cannot.
func (g *generator) describe(ctx context.Context, r *catalogue.Random, p *shop.Product, band string, limit int, priced bool) (item, []*shop.Product, error) {
	known := catalogue.GoodsOf(p.Category)
	it, ok := begin(r, p, band, known)
	if !ok {
		return it, nil, nil
	}
	const least = 3 // demands
	asked := demands(r, p, known, priced)
	if g.c.Plain {
		it.head, asked = plainHead(it), plainDemands(r, p, priced)
	}
	for i, d := range asked {
		d.add(&it.want)
		it.said = append(it.said, d.words)
		if i+1 < least {
			continue
		}
		fits, err := g.fitting(ctx, &it)
		if err != nil || (fits != nil && len(fits) <= limit) {
			return it, fits, err
		}
	}
	return it, nil, nil
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
	call := fmt.Sprintf(`{"name":"recommend_product","parameters":{"product_ids":%q}}`, strings.Join(ids, ","))
	versions := []*shop.Problem{p, anonymous(p)}
	if p.Unanswerable {
		call, versions = `{"name":"terminate","parameters":{"status":"failure"}}`, versions[:1]
	}
	answer := []byte(`[{"completion":{"message":{"think":"x","tool_call":[` + call + `]}},"extra_info":{"timestamp":1}}]`)
	for _, q := range versions {
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
