package problem

import (
	"context"
	"slices"
	"strings"

	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/search"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

const (
	// rivals is how many products that a search for the words finds are compared
	// with a ground truth.
	rivals = 300
	// maxFitting bounds the products that fit an item: with more the words say too little.
	maxFitting = 12
	// maxCombinations bounds what is tried of the products that fit several items.
	maxCombinations = 20_000
	// maxGrouped is the largest catalogue whose products are all grouped by category.
	maxGrouped = 200_000
)

// fitting are the products that fit the words of an item, the ground truth
// among them, in order of ids: those that meet it, and those that say in their
// text what they do not say in their attributes. nil: more than maxFitting do.
func (g *generator) fitting(ctx context.Context, it *item) ([]*shop.Product, error) {
	ids, err := g.likely(ctx, it)
	if err != nil {
		return nil, err
	}
	plain := it.want
	plain.ProductID, plain.Title = "", nil
	var out []*shop.Product
	for _, id := range ids {
		p, err := g.product(ctx, id)
		if err != nil {
			return nil, err
		}
		if p.ProductID != it.p.ProductID && !score.Meets(&plain, p) && !g.seems(&plain, p) {
			continue
		}
		if out = append(out, p); len(out) > maxFitting {
			return nil, nil
		}
	}
	return out, nil
}

// likely are the ids of products that may be what an item is called.
func (g *generator) likely(ctx context.Context, it *item) ([]string, error) {
	if list := g.grouped[it.p.Category]; g.grouped != nil && catalogue.GoodsOf(it.p.Category) != nil {
		return list, nil
	}
	var ids []string
	if it.p.ProductID != "" {
		ids = append(ids, it.p.ProductID)
	}
	q := search.Query{Text: it.head, Service: it.want.Service}
	for _, b := range it.want.Price {
		q.Lo, q.Hi = b.Lo, b.Hi
	}
	hits, err := g.c.Index.Best(ctx, q, rivals)
	if err != nil {
		return nil, err
	}
	for _, d := range hits {
		p, err := g.product(ctx, g.c.Index.ID(d))
		if err != nil {
			return nil, err
		}
		if p.ProductID != it.p.ProductID && strings.Contains(strings.ToLower(p.Title), strings.ToLower(it.head)) {
			ids = append(ids, p.ProductID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// seems reports whether a buyer could take a product for one that meets the
// item: what it lacks in attributes stands in its text, or is spelt as some do.
func (g *generator) seems(it *shop.Item, p *shop.Product) bool {
	q := *p
	q.Attributes = map[string][]string{}
	for k, vs := range p.Attributes {
		q.Attributes[k] = vs
	}
	text := strings.ToLower(p.Title + "\n" + p.Description)
	changed := false
	for _, m := range it.Attributes {
		for k, vs := range m {
			for _, v := range vs {
				has := p.Attributes[k]
				told := len(has) == 0 && (strings.Contains(text, k+": "+v) || v != "yes" && v != "no" && strings.Contains(text, v))
				if told || catalogue.Sloppy(v) != "" && slices.Contains(has, catalogue.Sloppy(v)) {
					q.Attributes[k] = append(slices.Clone(has), v)
					changed = true
				}
			}
		}
	}
	return changed && score.Meets(it, &q)
}

// leastCrowd is how many answers a problem shall have for who heeds only what
// the goods are called, what they cost and how they come: a lucky draw among
// fewer would solve too many.
const leastCrowd = 9

// crowd counts them; of a Shop problem, within one shop each.
func (g *generator) crowd(ctx context.Context, items []item, category string) (int, error) {
	all := map[string]int{} // by shop; "" where shops do not matter
	for i := range items {
		it := &items[i]
		ids, err := g.likely(ctx, it)
		if err != nil {
			return 0, err
		}
		bare := shop.Item{Price: it.want.Price, Service: it.want.Service}
		here := map[string]int{}
		for _, id := range ids {
			p, err := g.product(ctx, id)
			if err != nil {
				return 0, err
			}
			if !score.Meets(&bare, p) {
				continue
			}
			if category == shop.CategoryShop {
				here[p.ShopID]++
			} else {
				here[""]++
			}
		}
		for s, n := range here {
			if i > 0 {
				n *= all[s]
			}
			here[s] = n
		}
		all = here
	}
	n := 0
	for _, m := range all {
		n += m
	}
	return n, nil
}

// combinations counts the answers that the words of a problem allow, up to 2:
// each takes one fitting product for each item. ok is false where there are too
// many to count.
func combinations(category string, fit [][]*shop.Product, v *shop.Voucher) (n int, ok bool) {
	total := 1
	for _, list := range fit {
		if total *= len(list); total > maxCombinations {
			return 0, false
		}
	}
	chosen := make([]*shop.Product, len(fit))
	var walk func(i int)
	walk = func(i int) {
		if n > 1 {
			return
		}
		if i == len(fit) {
			if allowed(category, chosen, v) {
				n++
			}
			return
		}
		for _, p := range fit[i] {
			chosen[i] = p
			walk(i + 1)
		}
	}
	walk(0)
	return n, true
}

// allowed reports whether products go together: of one shop, within the budget.
func allowed(category string, chosen []*shop.Product, v *shop.Voucher) bool {
	total, one := 0.0, true
	for _, p := range chosen {
		total += p.Price
		one = one && p.ShopID == chosen[0].ShopID
	}
	switch category {
	case shop.CategoryShop:
		return one
	case shop.CategoryVoucher:
		return score.Within(v, total, one)
	}
	return true
}
