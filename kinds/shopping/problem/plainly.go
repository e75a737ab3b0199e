package problem

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Wishes in the catalogue's own words (Config.Plain), in one form, so that a small
// model can learn to read them: sdk's agon.mini does.

// plainHead is what titles call the goods.
func plainHead(it item) string { return ascii(it.names)[0] }

// plainDemands asks for attributes, a choice, a service and a price as the product
// has them, in an order by chance.
func plainDemands(r *catalogue.Random, p *shop.Product, priced bool) []demand {
	var out []demand
	for _, k := range slices.Sorted(maps.Keys(p.Attributes)) {
		vs := p.Attributes[k]
		if len(vs) == 0 || vs[0] == "no brand" || strings.Contains(vs[0], ", ") {
			continue
		}
		words := k + ": " + vs[0]
		if k == "brand" {
			words = "of the brand " + vs[0]
		}
		out = append(out, demand{func(it *shop.Item) { it.Attributes = append(it.Attributes, map[string][]string{k: {vs[0]}}) }, words})
	}
	if names := slices.Sorted(maps.Keys(p.SKUOptions)); len(names) > 0 {
		option := p.SKUOptions[pick(r, names)]
		if ks := slices.Sorted(maps.Keys(option)); len(ks) > 0 {
			k := pick(r, ks)
			v := option[k]
			out = append(out, demand{func(it *shop.Item) { it.SKUOptions = append(it.SKUOptions, map[string]string{k: v}) }, "to be had in " + k + " " + v})
		}
	}
	if len(p.Service) > 0 && r.Bool(.4) {
		s := pick(r, p.Service)
		if words := plainServices[s]; words != "" {
			out = append(out, demand{func(it *shop.Item) { it.Service = append(it.Service, s) }, words})
		}
	}
	for i := len(out) - 1; i > 0; i-- {
		j := r.N(i + 1)
		out[i], out[j] = out[j], out[i]
	}
	if priced {
		hi := twoDigits(p.Price*(1.1+.5*r.Float())) + 1
		lo := math.Max(1, twoDigits(p.Price*(.55+.35*r.Float())))
		bound := []shop.PriceBound{{Mode: shop.PriceBetween, Lo: &lo, Hi: &hi}}
		out = slices.Insert(out, min(len(out), r.N(3)), demand{func(it *shop.Item) { it.Price = bound }, "priced between " + money(lo) + " and " + money(hi) + " pesos"})
	}
	return out
}

var plainServices = map[string]string{"official": "from an official store", "freeShipping": "with free shipping", "COD": "with cash on delivery", "flashsale": "that is on flash sale"}

// plainQuery is a wish for one product.
func plainQuery(it item) string {
	return "I am looking for this: " + strings.Join(append([]string{it.head}, it.said...), ", ") + "."
}
