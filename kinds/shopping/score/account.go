package score

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/internal/plain"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Account is what a score is the sum of: which product was taken for each wanted
// item, and which of the wishes each meets. Its words come from the catalogue and
// the problem; every one is bounded.
type Account struct {
	Items []Matched `json:"items"`
	// Shops counts the shops that the products are from.
	Shops int  `json:"shops"`
	Sum   *Sum `json:"sum,omitempty"` // Voucher problems
}

// Matched is one wanted item.
type Matched struct {
	Wanted string  `json:"wanted"`           // the item's own product id
	Chosen *Chosen `json:"chosen,omitempty"` // nil: the answer has no product of the catalogue for it
	Exact  bool    `json:"exact,omitempty"`  // the item itself: it meets everything
	Checks []Check `json:"checks,omitempty"` // the first maxChecks
	Met    int     `json:"met"`              // of all checks
	Of     int     `json:"of"`
}

// Chosen is a product as a card shows it. Price is in the catalogue's currency.
type Chosen struct {
	ID    string  `json:"id"`
	Title string  `json:"title"`
	Brand string  `json:"brand,omitempty"`
	Shop  string  `json:"shop"`
	Price float64 `json:"price"`
}

// Check is one wish beside what the product has.
type Check struct {
	What string `json:"what"`
	Want string `json:"want"`
	Got  string `json:"got"`
	Met  bool   `json:"met"`
}

// Sum is what the chosen products cost, in the catalogue's currency.
type Sum struct {
	Total   float64 `json:"total"`
	After   float64 `json:"after"` // with the voucher, where it may be used
	Applies bool    `json:"applies"`
	Budget  float64 `json:"budget"`
	Voucher string  `json:"voucher"` // what it says, in words
	Within  bool    `json:"within"`
}

// Bounds of an account's words.
const (
	maxChecks = 24
	maxWord   = 200 // bytes
)

// Explain is Score with the account of it. The account is nil where the error is not.
func (s *Scorer) Explain(ctx context.Context, p *shop.Problem, cat Catalogue, output []byte) (*Score, *Account, error) {
	acc := &Account{}
	out, err := s.score(ctx, p, cat, output, acc)
	if err != nil {
		return nil, nil, err
	}
	return out, acc, nil
}

// add notes what was taken for an item; p is nil where nothing was. met is how
// many of the item's titles its title is like; below 0: titles were left out.
func (a *Account) add(it *shop.Item, p *shop.Product, met int) {
	if a == nil {
		return
	}
	m := Matched{Wanted: plain.Short(it.ProductID, maxWord)}
	if p == nil {
		a.Items = append(a.Items, m)
		return
	}
	m.Exact = p.ProductID == it.ProductID
	m.Chosen = &Chosen{ID: plain.Short(p.ProductID, maxWord), Title: plain.Short(p.Title, maxWord), Brand: plain.Short(p.Brand, maxWord), Shop: plain.Short(p.ShopID, maxWord), Price: p.Price}
	check := func(ok bool, what, want, got string) {
		m.Of++
		if ok {
			m.Met++
		}
		if len(m.Checks) < maxChecks {
			m.Checks = append(m.Checks, Check{plain.Short(what, maxWord), plain.Short(want, maxWord), plain.Short(got, maxWord), ok})
		}
	}
	if n := len(it.Title); n > 0 && (met >= 0 || m.Exact) {
		check(m.Exact || met == n, "title like", strings.Join(it.Title, "; "), p.Title)
	}
	for _, b := range it.Price {
		check(b.Holds(p.Price), "price", priceWords(b), money(p.Price))
	}
	for _, want := range it.Service {
		check(contains(p.Service, want), "service", want, strings.Join(p.Service, ", "))
	}
	option := bestOption(it, p)
	for _, w := range wishes(it) {
		got := slices.Clone(p.Attributes[w[0]])
		if v, ok := option[w[0]]; ok && !contains(got, v) {
			got = append(got, v)
		}
		check(contains(got, w[1]), w[0], w[1], strings.Join(got, ", "))
	}
	for _, w := range unwanted(it) {
		got := p.Attributes[w[0]]
		check(!contains(got, w[1]), w[0], "not "+w[1], strings.Join(got, ", "))
	}
	a.Items = append(a.Items, m)
	a.Shops = a.shops()
}

func (a *Account) shops() int {
	seen := map[string]bool{}
	for _, m := range a.Items {
		if m.Chosen != nil {
			seen[m.Chosen.Shop] = true
		}
	}
	return len(seen)
}

// pay adds the products up and takes the voucher off where it may be used.
func (a *Account) pay(s *Scorer, v *shop.Voucher) {
	if a == nil {
		return
	}
	sum := &Sum{Budget: v.Budget, Voucher: voucherWords(v)}
	all := len(a.Items) > 0
	for _, m := range a.Items {
		if m.Chosen == nil {
			all = false
			continue
		}
		sum.Total += m.Chosen.Price
	}
	sum.After = sum.Total
	if after, applies, err := s.discounted(v, sum.Total, a.Shops == 1); err == nil && applies {
		sum.After, sum.Applies = after, true
	}
	sum.Within = all && sum.After <= v.Budget
	a.Sum = sum
}

// bestOption is the SKU option with which a product meets most; nil: none helps.
func bestOption(it *shop.Item, p *shop.Product) (best map[string]string) {
	most, _ := pairs(it, p, nil)
	for _, k := range slices.Sorted(maps.Keys(p.SKUOptions)) {
		if n, _ := pairs(it, p, p.SKUOptions[k]); n > most {
			best, most = p.SKUOptions[k], n
		}
	}
	return best
}

// wishes are the pairs of key and value that an item asks of options and attributes.
func wishes(it *shop.Item) (out [][2]string) {
	for _, m := range it.SKUOptions {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out = append(out, [2]string{k, m[k]})
		}
	}
	for _, m := range it.Attributes {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			for _, v := range m[k] {
				out = append(out, [2]string{k, v})
			}
		}
	}
	return out
}

func money(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) }

func priceWords(b shop.PriceBound) string {
	switch b.Mode {
	case shop.PriceLess:
		return "at most " + money(*b.Hi)
	case shop.PriceGreater:
		return "at least " + money(*b.Lo)
	}
	return money(*b.Lo) + " to " + money(*b.Hi)
}

func voucherWords(v *shop.Voucher) string {
	var b strings.Builder
	switch {
	case v.DiscountType == shop.DiscountFixed && v.FaceValue != nil:
		b.WriteString(money(*v.FaceValue) + " off")
	case v.DiscountType == shop.DiscountPercentage && v.Discount != nil:
		fmt.Fprintf(&b, "%s %% off", strconv.FormatFloat(100**v.Discount, 'f', -1, 64))
		if v.Cap != nil {
			b.WriteString(", " + money(*v.Cap) + " at most")
		}
	default:
		return "a voucher that cannot be read"
	}
	b.WriteString(" above " + money(v.Threshold))
	if v.VoucherType == shop.VoucherShop {
		b.WriteString(", all from one shop")
	}
	return b.String()
}

// unwanted are the pairs that a product must not have, in order.
func unwanted(it *shop.Item) [][2]string {
	var out [][2]string
	for _, m := range it.Exclude {
		for k, vs := range m {
			for _, v := range vs {
				out = append(out, [2]string{k, v})
			}
		}
	}
	slices.SortFunc(out, func(a, b [2]string) int { return strings.Compare(a[0]+"\x00"+a[1], b[0]+"\x00"+b[1]) })
	return out
}
