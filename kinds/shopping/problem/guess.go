package problem

import (
	"context"
	"slices"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// shareGuessed is how many of the problems that matching words solves are kept:
// without the others a suite would measure luck and parsing.
const shareGuessed = .1

// guessed reports whether a shopper comes to the answer who understands prices
// and services, and of all else only compares words: of what a search for the
// name of the goods finds he takes what has most of its values in the query.
func (g *generator) guessed(ctx context.Context, items []item, category string) (bool, error) {
	ask := IndexTools(g.c.Index)
	best := make([][]guess, len(items))
	for i := range items {
		var err error
		if best[i], err = guesses(ctx, ask, &items[i], ""); err != nil || len(best[i]) == 0 {
			return false, err
		}
	}
	right := func(i int, p *shop.Product) bool { return p.ProductID == items[i].p.ProductID }
	if category != shop.CategoryShop {
		for i := range items {
			if !right(i, best[i][0].p) {
				return false, nil
			}
		}
		return true, nil
	}
	// The shop where all things together fit best.
	sum, ok := -1.0, false
	for _, first := range best[0][:min(6, len(best[0]))] {
		n, good := first.n, right(0, first.p)
		for i := 1; i < len(items); i++ {
			list, err := guesses(ctx, ask, &items[i], first.p.ShopID)
			if err != nil {
				return false, err
			}
			if len(list) == 0 {
				n = -1
				break
			}
			n, good = n+list[0].n, good && right(i, list[0].p)
		}
		if n > sum {
			sum, ok = n, good
		}
	}
	return ok, nil
}

type guess struct {
	p *shop.Product
	n float64
}

// negated are the parts of a wish that say what a product must not be.
var negated = lazyregexp.New(`(?:anything but|do not want|other than|not) [^,;()]*`)

// guesses lists what a search for an item finds, what has most in common with
// its words first, of equal ones the cheapest.
func guesses(ctx context.Context, ask Tools, it *item, of string) ([]guess, error) {
	want := ReadItem{Want: shop.Item{Price: it.want.Price, Service: it.want.Service}}
	said := strings.Join(it.said, ", ")
	yes, no := negated().ReplaceAllString(said, " "), strings.Join(negated().FindAllString(said, -1), " ")
	hits, order := map[string]*shop.Product{}, []string{}
	long := it.head + " " + yes
	for _, q := range []string{it.head, long[:min(len(long), 300)]} {
		for page := 1; page <= 2; page++ {
			list, err := find(ctx, ask, &want, strings.ToValidUTF8(q, ""), of, page)
			if err != nil {
				return nil, err
			}
			for _, p := range list {
				if hits[p.ProductID] == nil {
					hits[p.ProductID], order = p, append(order, p.ProductID)
				}
			}
			if len(list) < pageSize || of != "" || len(hits) >= 2*pageSize {
				break
			}
		}
	}
	if err := view(ctx, ask, hits, order); err != nil {
		return nil, err
	}
	var out []guess
	for _, id := range order {
		p := hits[id]
		out = append(out, guess{p, common(p, yes, no, it.head)})
	}
	slices.SortStableFunc(out, func(a, b guess) int {
		switch {
		case a.n > b.n || (a.n == b.n && a.p.Price < b.p.Price):
			return -1
		case a.n < b.n || a.p.Price > b.p.Price:
			return 1
		}
		return 0
	})
	return out, nil
}

// common counts the values of a product that the wish names, less those that it
// does not want; the words of its name that the title has count up to 2.
func common(p *shop.Product, yes, no, head string) float64 {
	fixed := 0.0
	for k, vs := range p.Attributes {
		for _, v := range vs {
			if names(yes, k, v) {
				fixed++
			}
			if names(no, k, v) {
				fixed -= 2
			}
		}
	}
	most := 0.0
	for _, option := range p.SKUOptions {
		n := 0.0
		for k, v := range option {
			if names(yes, k, v) {
				n++
			}
		}
		most = max(most, n)
	}
	words, title := strings.Fields(strings.ToLower(head)), strings.Fields(strings.ToLower(p.Title))
	n := 0
	for _, w := range words {
		if slices.Contains(title, w) {
			n++
		}
	}
	return fixed + most + 2*float64(n)/float64(max(1, len(words)))
}

// names reports whether a text holds a value as a word of its own; of yes and
// no, the key.
func names(text, key, value string) bool {
	switch value {
	case "yes":
		value = key
	case "no":
		value = "without " + key
	}
	at := strings.Index(text, value)
	return at >= 0 && (at == 0 || !letter(text[at-1])) && (at+len(value) == len(text) || !letter(text[at+len(value)]))
}

func letter(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '.'
}
