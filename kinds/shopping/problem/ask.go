package problem

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// item is one wanted product with the words that tell an agent of it.
type item struct {
	p     *shop.Product
	want  shop.Item
	names []string // what the goods are called in titles, as one would know who speaks the language
	head  string   // "premium matte lipstick", or "something that opens tinned food"
	said  []string // constraints in words
}

// demand is one thing that can be asked of a product.
type demand struct {
	add   func(*shop.Item)
	words string
}

// begin starts an item: what the goods are called in the query. ok is false
// for a product that nobody would ask for.
func begin(r *catalogue.Random, p *shop.Product, band string, known *catalogue.Goods) (item, bool) {
	it := item{p: p, want: shop.Item{ProductID: p.ProductID, Title: []string{p.Title}}}
	if known == nil {
		it.head = head(p, band)
		it.names = []string{it.head}
		return it, it.head != "" && !strings.HasPrefix(p.Category, catalogue.PartsPath)
	}
	it.names = known.Names
	it.head = known.Names[0]
	plain := ascii(known.Names)
	switch {
	case len(known.Said) > 0 && (band == Hard || (band == Medium && r.Bool(.6)) || r.Bool(.35)):
		it.head = pick(r, known.Said)
	case r.Bool(.5):
		it.head = pick(r, plain)
	}
	return it, true
}

// ascii are the names that a query in English may hold.
func ascii(names []string) []string {
	var out []string
	for _, n := range names {
		if !strings.ContainsFunc(n, func(r rune) bool { return r > 127 }) {
			out = append(out, n)
		}
	}
	return out[:max(1, min(2, len(out)))]
}

// demands are the things that can be asked of a product, in an order by chance.
// priced says whether its price is one of them.
func demands(r *catalogue.Random, p *shop.Product, known *catalogue.Goods, priced bool) []demand {
	var out []demand
	var keys []string
	for k := range p.Attributes {
		if len(p.Attributes[k]) > 0 {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		if d, ok := attributeDemand(r, p, known, k); ok {
			out = append(out, d)
		}
	}
	if d, ok := optionDemand(r, p, known); ok {
		out = append(out, d)
	}
	if len(p.Service) > 0 && r.Bool(.4) {
		s := pick(r, p.Service)
		out = append(out, demand{func(it *shop.Item) { it.Service = append(it.Service, s) }, pick(r, serviceWords[s])})
	}
	for i := len(out) - 1; i > 0; i-- {
		j := r.N(i + 1)
		out[i], out[j] = out[j], out[i]
	}
	if priced {
		at := min(len(out), r.N(3))
		out = slices.Insert(out, at, priceDemand(r, p))
	}
	return out
}

var serviceWords = map[string][]string{
	"official":     {"from the maker's own store", "no reseller, please", "from an official store"},
	"freeShipping": {"without any delivery fee", "that is sent for nothing", "with free shipping"},
	"COD":          {"paid at my door", "I pay the courier in notes", "with cash on delivery"},
	"flashsale":    {"that is reduced for a few hours only", "on flash sale", "part of a lightning offer"},
}

// attributeDemand asks for an attribute by its value, by what it must not be,
// or by a bound. Values that only one seller writes so are never asked for.
func attributeDemand(r *catalogue.Random, p *shop.Product, known *catalogue.Goods, k string) (demand, bool) {
	vs := p.Attributes[k]
	v := vs[0]
	switch {
	case k == "brand":
		if v == "no brand" || r.Bool(.85) {
			return demand{}, false
		}
		return demand{func(it *shop.Item) { it.Attributes = append(it.Attributes, map[string][]string{k: {v}}) }, pick(r, []string{"of the brand " + v, "by " + v, "it should be a " + v})}, true
	case k == "bundle":
		return demand{func(it *shop.Item) { it.Attributes = append(it.Attributes, map[string][]string{k: {v}}) }, "as a parcel, " + v}, true
	case known == nil:
		return demand{func(it *shop.Item) { it.Attributes = append(it.Attributes, map[string][]string{k: {v}}) }, k + ": " + v}, true
	}
	values := known.Values[k]
	if !slices.Contains(values, v) {
		return demand{}, false
	}
	without := func(list []string) func(*shop.Item) {
		return func(it *shop.Item) {
			it.Exclude = append(it.Exclude, map[string][]string{k: list})
		}
	}
	if _, ordered, ok := sizeOf(values, v); ok && len(vs) == 1 && len(ordered) > 2 && r.Bool(.45) {
		at := slices.Index(ordered, v)
		if at > 0 && (at == len(ordered)-1 || r.Bool(.5)) {
			return demand{without(ordered[:at]), fmt.Sprintf("%s: not below %s", k, v)}, true
		}
		return demand{without(ordered[at+1:]), fmt.Sprintf("%s: not above %s", k, v)}, true
	}
	if len(values) > 2 && r.Bool(.4) {
		var others []string
		for _, o := range values {
			if !slices.Contains(vs, o) {
				others = append(others, o)
			}
		}
		if n := len(others); n > 0 {
			i := r.N(n)
			list := []string{others[i]}
			if n > 2 && r.Bool(.7) {
				list = append(list, others[(i+1)%n])
			}
			slices.Sort(list)
			said := slices.Clone(list)
			if r.Bool(.6) {
				for i, o := range said {
					said[i], _ = clause(r, k, o)
				}
				return demand{without(list), "not " + strings.Join(said, ", nor ")}, true
			}
			return demand{without(list), pick(r, []string{"anything but " + strings.Join(said, " or ") + " as " + k, "as to " + k + ", I do not want " + strings.Join(said, " or "), k + " other than " + strings.Join(said, " and ")})}, true
		}
	}
	words := k + " " + v
	if r.Bool(.97) {
		words, _ = clause(r, k, v)
	}
	return demand{func(it *shop.Item) { it.Attributes = append(it.Attributes, map[string][]string{k: {v}}) }, words}, true
}

// optionDemand asks for something that a buyer chooses.
func optionDemand(r *catalogue.Random, p *shop.Product, known *catalogue.Goods) (demand, bool) {
	var names []string
	for name := range p.SKUOptions {
		names = append(names, name)
	}
	if len(names) == 0 {
		return demand{}, false
	}
	slices.Sort(names)
	option := p.SKUOptions[pick(r, names)]
	var ks []string
	for k := range option {
		ks = append(ks, k)
	}
	if len(ks) == 0 {
		return demand{}, false
	}
	slices.Sort(ks)
	k := pick(r, ks)
	v := option[k]
	words := "to be had in " + k + " " + v
	if known != nil && r.Bool(.97) {
		if s, ok := clause(r, k, v); ok {
			words = pick(r, []string{"there must be a choice: ", "I would take it "}) + s
		}
	}
	return demand{func(it *shop.Item) { it.SKUOptions = append(it.SKUOptions, map[string]string{k: v}) }, words}, true
}

// rates are what a unit of foreign money costs in pesos, as queries say it.
var rates = []struct {
	name string
	rate float64
}{{"US dollars", 57}, {"euros", 62}, {"Singapore dollars", 43}, {"ringgit", 13}}

// priceDemand bounds the price, now and then in money of elsewhere.
func priceDemand(r *catalogue.Random, p *shop.Product) demand {
	lo, hi := twoDigits(p.Price*(.55+.35*r.Float())), twoDigits(p.Price*(1.1+.5*r.Float()))+1
	say := func(f float64) string { return money(f) + " pesos" }
	if r.Bool(.3) {
		m := pick(r, rates)
		hi = math.Ceil(hi/m.rate) * m.rate
		lo = math.Max(1, math.Floor(lo/m.rate)) * m.rate
		say = func(f float64) string {
			return fmt.Sprintf("%s %s (%s pesos each)", money(roundTo(f/m.rate)), m.name, money(m.rate))
		}
		if lo > p.Price {
			lo = 1
		}
	}
	switch r.N(4) {
	case 0:
		return demand{
			func(it *shop.Item) { it.Price = []shop.PriceBound{{Mode: shop.PriceGreater, Lo: &lo}} },
			pick(r, []string{"that costs at least " + say(lo), "I distrust what is cheaper than " + say(lo), "from " + say(lo) + " upwards"}),
		}
	case 1, 2:
		return demand{
			func(it *shop.Item) { it.Price = []shop.PriceBound{{Mode: shop.PriceLess, Hi: &hi}} },
			pick(r, []string{"for at most " + say(hi), "I will not pay more than " + say(hi), say(hi) + " is my limit"}),
		}
	}
	return demand{
		func(it *shop.Item) { it.Price = []shop.PriceBound{{Mode: shop.PriceBetween, Lo: &lo, Hi: &hi}} },
		pick(r, []string{"priced between " + say(lo) + " and " + say(hi), "somewhere from " + say(lo) + " to " + say(hi)}),
	}
}

// twoDigits rounds down to two digits.
func twoDigits(f float64) float64 {
	unit := 1.0
	for f >= 100*unit {
		unit *= 10
	}
	return math.Floor(f/unit) * unit
}

// words puts a problem in words, in one of several ways.
func words(r *catalogue.Random, category string, items []item, v *shop.Voucher) string {
	one := func(it item) string {
		parts := slices.Clone(it.said)
		switch r.N(3) {
		case 0:
			return it.head + ", " + strings.Join(parts, ", ")
		case 1:
			return it.head + " – " + strings.Join(parts, "; ")
		}
		n := (len(parts) + 1) / 2
		s := it.head + ", " + strings.Join(parts[:n], ", ")
		if len(parts) > n {
			s += " (and " + strings.Join(parts[n:], ", and ") + ")"
		}
		return s
	}
	if category == shop.CategoryProduct {
		return fmt.Sprintf(pick(r, []string{
			"I am looking for this: %s.", "Can you find me one product: %s?", "My aunt asked me for the following: %s.", "I need this, and only one: %s. Which one fits?",
			"Hi! Long story short, I want %s. Thanks", "what would you recommend: %s",
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
		rules[0] = "It is a voucher of a shop: it counts only where all products come from one shop."
	}
	off := "takes " + money(deref(v.FaceValue)) + " pesos off."
	if v.DiscountType == shop.DiscountPercentage {
		off = "takes " + money(math.Round(deref(v.Discount)*100)) + " % off, at most " + money(deref(v.Cap)) + " pesos."
	}
	rules = append(rules, "When the total exceeds "+money(v.Threshold)+" pesos it "+off, "Whatever I use, I can pay "+money(v.Budget)+" pesos in all.")
	for i := range rules {
		rules[i] = fmt.Sprintf("%d. %s", i+1, rules[i])
	}
	intro := pick(r, []string{"I have a voucher and a budget, and I want the following.", "Help me to spend my voucher on these.", "With my voucher I would like to buy:"})
	return intro + " " + text + " Rules of the voucher: " + strings.Join(rules, " ")
}

// voucher makes one for items: most are needed, so that without it they exceed
// the budget and with it they fit, and their total is above the threshold in
// either reading. Some are of no use: the threshold is out of reach, and the
// items must fit the budget as they are.
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
	if r.Bool(.25) {
		off := max(2, math.Floor(total*.1))
		v.FaceValue, v.Threshold = &off, math.Ceil(total*(1.3+.4*r.Float()))
		v.PriceAfterVoucher, v.Budget = math.Round(total*100)/100, math.Ceil(total)
		return v
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
