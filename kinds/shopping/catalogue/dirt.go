package catalogue

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// What real catalogues are like: sellers shout, stuff titles with words, spell
// badly, leave out attributes or contradict themselves, list each other's goods
// again, sell bundles and spare parts, and quote prices in money of elsewhere.
const (
	shareVariants  = .38 // of products: another shop's listing of a product close by
	shareBundles   = .05 // several in one parcel
	shareParts     = .05 // accessories whose title names the goods they belong to
	shareMissing   = .22 // of attributes: not filled in
	shareLies      = .07 // of titles: another value than the attribute has
	shareSloppy    = .05 // of values: as nobody else spells them
	variantReach   = 9   // how far away the product may be that a variant is of
	maxTitleRunes  = 240
	shareSameThing = .45 // of variants: no attribute differs
)

// front, hype and tail are what sellers put around a title.
var (
	front = []string{"[COD]", "🔥HOT🔥", "[READY STOCK]", "100% ORIGINAL", "SALE!!", "✅", "(NEW)", "【Ph Stock】", "9.9 SALE", "BUY 1 TAKE 1?"}
	hype  = []string{"high quality", "trending", "viral", "korean fashion", "cod", "cheap", "on sale", "good quality", "authentic", "affordable", "free shipping", "best", "2026 new", "for men women", "for kids adults", "gift"}
	parts = []string{"replacement part for %s", "storage case for %s", "cleaning kit for %s", "spare lid for %s", "sticker for %s", "protective cover for %s"}
)

// sloppy is how some spell a value.
var sloppy = map[string]string{
	"stainless steel": "s/s", "polyester": "poly", "cotton": "100% cotton", "plastic": "plastik", "leather": "pu leather", "navy blue": "navy", "black": "blk",
	"white": "wht", "grey": "gray", "silicone": "silicon", "yes": "y", "no": "n/a", "microfiber": "micro fibre", "aluminium": "alu alloy", "wood": "wooden",
}

// currencies are quoted in descriptions: units that one peso is worth.
var currencies = []struct {
	name string
	rate float64
}{{"USD", .0175}, {"SGD", .0235}, {"MYR", .078}, {"THB", .6}, {"IDR", 280}}

// dirty makes of a listing what a seller would have written.
func (g *generator) dirty(r *Random, c category, p *shop.Product) {
	var filled, told []string
	for _, a := range c.attrs {
		vs := p.Attributes[a.key]
		if len(vs) == 0 {
			continue
		}
		switch {
		case r.Bool(shareMissing):
			delete(p.Attributes, a.key)
			if r.Bool(.5) {
				told = append(told, capital(a.key)+": "+strings.Join(vs, ", ")+".")
			}
			continue
		case r.Bool(shareSloppy):
			if s, ok := sloppy[vs[0]]; ok {
				p.Attributes[a.key] = []string{s}
			}
		}
		filled = append(filled, a.key+": "+strings.Join(p.Attributes[a.key], ", "))
	}
	p.Specification = strings.Join(filled, "; ")
	if len(told) > 0 {
		p.Description += " " + strings.Join(told, " ")
	}
	if r.Bool(.2) {
		m := pick(r, currencies)
		p.Description += fmt.Sprintf(" Price abroad: %s %s.", m.name, strconv.FormatFloat(math.Round(float64(p.Price*m.rate)*100)/100, 'f', -1, 64))
	}
	p.Title = g.shout(r, p.Title)
}

// shout writes a title as sellers do. The words of the goods stay, in nearly all of them.
func (g *generator) shout(r *Random, title string) string {
	if r.Bool(.04) {
		title = misspell(r, title)
	}
	words := []string{title}
	if r.Bool(.3) {
		words = slices.Insert(words, 0, pick(r, front))
	}
	for range r.N(4) {
		if r.Bool(.6) {
			words = append(words, pick(r, hype))
		}
	}
	title = strings.Join(words, " ")
	switch {
	case r.Bool(.12):
		title = strings.ToUpper(title)
	case r.Bool(.2):
		list := strings.Fields(title)
		for i := range list {
			list[i] = capital(list[i])
		}
		title = strings.Join(list, " ")
	}
	if list := []rune(title); len(list) > maxTitleRunes {
		title = strings.TrimSpace(string(list[:maxTitleRunes]))
	}
	return title
}

// misspell swaps two letters of the longest word.
func misspell(r *Random, title string) string {
	list := strings.Fields(title)
	at := 0
	for i, w := range list {
		if len(w) > len(list[at]) {
			at = i
		}
	}
	b := []rune(list[at])
	if len(b) < 4 {
		return title
	}
	i := 1 + r.N(len(b)-2)
	b[i], b[i-1] = b[i-1], b[i]
	list[at] = string(b)
	return strings.Join(list, " ")
}

// vary makes a listing of the same goods by another shop: the price differs,
// and in most of them one thing that a buyer may care for.
func (g *generator) vary(r *Random, c category, p *shop.Product) {
	if r.Bool(shareSameThing) {
		return
	}
	a := pick(r, c.attrs)
	vs := p.Attributes[a.key]
	for range 4 {
		if v := pick(r, a.values); len(vs) == 0 || v != vs[0] {
			p.Attributes[a.key] = []string{v}
			return
		}
	}
}

// bundle makes several pieces of one product in a parcel.
func (g *generator) bundle(r *Random, p *shop.Product) {
	n := 2 + r.N(3)
	p.Title = fmt.Sprintf("Bundle of %d %s", n, p.Title)
	p.Attributes["bundle"] = []string{fmt.Sprintf("%d in 1", n)}
	p.Price = math.Round(float64(p.Price * (float64(n) - float64(.1*float64(n)))))
}

// part makes a listing of something that belongs to the goods and is none of them.
func (g *generator) part(r *Random, c category, p *shop.Product, noun string) {
	p.Title = fmt.Sprintf(pick(r, parts), noun)
	if p.Brand != "no brand" {
		p.Title = capital(p.Brand) + " " + p.Title
	}
	p.Category = PartsPath + c.path
	p.Attributes = map[string][]string{"brand": {p.Brand}, "goes with": {noun}}
	p.Price = math.Max(5, math.Round(float64(p.Price*.15)))
}

// PartsPath begins the categories of what belongs to other goods.
const PartsPath = "accessories > for "

// Sloppy is how some sellers spell a value; "" where all spell it alike.
func Sloppy(value string) string { return sloppy[value] }
