package problem

import (
	"slices"
	"strings"

	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Counts says how many problems of each category and difficulty to make.
type Counts map[string]map[string]int

// Suite spreads n problems: a third of each category, and of each 7 easy to 3
// medium, as ORO's suites do; with hard, 5 to 3 to 2.
func Suite(n int, hard bool) Counts {
	c := Counts{}
	for i, category := range []string{shop.CategoryProduct, shop.CategoryShop, shop.CategoryVoucher} {
		m := (n + 2 - i) / 3
		bands := map[string]int{Easy: (m*7 + 5) / 10}
		if hard {
			bands[Easy] = (m + 1) / 2
			bands[Hard] = m / 5
		}
		bands[Medium] = m - bands[Easy] - bands[Hard]
		c[category] = bands
	}
	return c
}

// Only spreads n problems over the named kinds of problem alone: a category
// ("Product": 7 easy to 3 medium, as Suite does) or one of its difficulties
// ("Product/easy"). An error is an *agon.Error of the field only.
func Only(n int, names []string, hard bool) (Counts, error) {
	c := Counts{}
	for i, name := range names {
		category, band, one := strings.Cut(name, "/")
		known := slices.Contains([]string{shop.CategoryProduct, shop.CategoryShop, shop.CategoryVoucher}, category)
		if !known || (one && !slices.Contains([]string{Easy, Medium, Hard}, band)) {
			return nil, invalid("only", "Product, Shop, Voucher; easy, medium, hard", "--only %.40q: no such problems", name)
		}
		m := (n + len(names) - 1 - i) / len(names)
		if c[category] == nil {
			c[category] = map[string]int{}
		}
		if one {
			c[category][band] += m
			continue
		}
		for band, k := range Suite(3*m, hard)[category] {
			c[category][band] += k
		}
	}
	return c, nil
}

// Total is how many problems there are.
func (c Counts) Total() int {
	n := 0
	for _, bands := range c {
		for _, m := range bands {
			n += m
		}
	}
	return n
}
