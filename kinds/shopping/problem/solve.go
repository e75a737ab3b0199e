package problem

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/search"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Reading is what a reader who misses nothing takes out of a query: what the
// goods may be called, and what they must be in the catalogue's own words. It
// names no product, and no title.
type Reading struct {
	Category string        `json:"category"`
	Items    []ReadItem    `json:"items"`
	Voucher  *shop.Voucher `json:"voucher,omitempty"`
}

// ReadItem is one wanted product of a Reading.
type ReadItem struct {
	Names []string  `json:"names"`
	Want  shop.Item `json:"want"` // product_id and title are empty
}

// Tools answers find_product and view_product_information, with JSON.
type Tools func(ctx context.Context, tool string, args map[string]string) ([]byte, error)

// IndexTools are the tools over an index, as a strict arena answers them.
func IndexTools(x *search.Index) Tools {
	s := &search.Service{Index: x, Strict: true}
	return func(ctx context.Context, tool string, args map[string]string) ([]byte, error) {
		if tool == "find_product" {
			return s.Find(ctx, args)
		}
		return s.View(ctx, args)
	}
}

const (
	maxPages  = 5
	pageSize  = 10
	maxViewed = 50
)

// Solve is the reference solver: it knows what the query means and nothing
// else, and finds the answer with the arena's tools. No ids: it found nothing
// that fits, and gives up. Errors are the tools'.
func Solve(ctx context.Context, ask Tools, r Reading) ([]string, error) {
	found := make([][]*shop.Product, len(r.Items))
	var err error
	for i := range r.Items {
		if i > 0 && r.Category == shop.CategoryShop {
			var here []*shop.Product
			for _, s := range shopsOf(found[0]) {
				list, err := seek(ctx, ask, &r.Items[i], s)
				if err != nil {
					return nil, err
				}
				here = append(here, list...)
			}
			found[i] = here
		} else if found[i], err = seek(ctx, ask, &r.Items[i], ""); err != nil {
			return nil, err
		}
		if len(found[i]) == 0 {
			return nil, nil
		}
	}
	chosen := make([]*shop.Product, len(found))
	var walk func(i int) bool
	walk = func(i int) bool {
		if i == len(found) {
			return allowed(r.Category, chosen, r.Voucher)
		}
		for _, p := range found[i] {
			chosen[i] = p
			if walk(i + 1) {
				return true
			}
		}
		return false
	}
	if !walk(0) {
		return nil, nil
	}
	var ids []string
	for _, p := range chosen {
		ids = append(ids, p.ProductID)
	}
	return ids, nil
}

func shopsOf(list []*shop.Product) []string {
	var out []string
	for _, p := range list {
		if !slices.Contains(out, p.ShopID) {
			out = append(out, p.ShopID)
		}
	}
	return out
}

// seek lists the products that meet an item, of one shop if it is named: it
// searches for every name of the goods, alone and beside what is asked of them.
func seek(ctx context.Context, ask Tools, it *ReadItem, of string) ([]*shop.Product, error) {
	var extra []string
	for _, m := range it.Want.Attributes {
		for _, vs := range m {
			extra = append(extra, vs...)
		}
	}
	for _, m := range it.Want.SKUOptions {
		for _, v := range m {
			extra = append(extra, v)
		}
	}
	hits := map[string]*shop.Product{}
	var order []string
	for _, name := range it.Names {
		for _, q := range []string{name, strings.TrimSpace(name + " " + strings.Join(extra, " "))} {
			for page := 1; page <= maxPages; page++ {
				list, err := find(ctx, ask, it, q, of, page)
				if err != nil {
					return nil, err
				}
				for _, p := range list {
					if hits[p.ProductID] == nil {
						hits[p.ProductID] = p
						order = append(order, p.ProductID)
					}
				}
				if len(list) < pageSize {
					break
				}
			}
		}
	}
	if err := view(ctx, ask, hits, order); err != nil {
		return nil, err
	}
	var out []*shop.Product
	for _, id := range order {
		if p := hits[id]; called(p, it.Names) && score.Meets(&it.Want, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// find asks for one page of hits.
func find(ctx context.Context, ask Tools, it *ReadItem, q, of string, page int) ([]*shop.Product, error) {
	args := map[string]string{"q": q, "page": strconv.Itoa(page)}
	if of != "" {
		args["shop_id"] = of
	}
	if len(it.Want.Service) > 0 {
		args["service"] = strings.Join(it.Want.Service, ",")
	}
	lo, hi := "", ""
	for _, b := range it.Want.Price {
		if b.Lo != nil {
			lo = money(*b.Lo)
		}
		if b.Hi != nil {
			hi = money(*b.Hi)
		}
	}
	if lo+hi != "" {
		args["price"] = lo + "-" + hi
	}
	b, err := ask(ctx, "find_product", args)
	if err != nil {
		return nil, err
	}
	var list []*shop.Product
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("find_product: %w", err)
	}
	return list, nil
}

// view fills in what a search does not tell of products.
func view(ctx context.Context, ask Tools, hits map[string]*shop.Product, ids []string) error {
	for part := range slices.Chunk(ids, maxViewed) {
		b, err := ask(ctx, "view_product_information", map[string]string{"product_ids": strings.Join(part, ",")})
		if err != nil {
			return err
		}
		var list []*shop.Product
		if err := json.Unmarshal(b, &list); err != nil {
			return fmt.Errorf("view_product_information: %w", err)
		}
		for _, v := range list {
			if p := hits[v.ProductID]; p != nil {
				p.ShortDescription, p.SKUOptions, p.Attributes = v.ShortDescription, v.SKUOptions, v.Attributes
			}
		}
	}
	return nil
}

// called reports whether a product is what the names say: by its short
// description where that begins with what it is, else by its title.
func called(p *shop.Product, names []string) bool {
	what, _, ok := strings.Cut(strings.ToLower(p.ShortDescription), " · ")
	for _, n := range names {
		n = strings.ToLower(n)
		if (ok && what == n) || (!ok && strings.Contains(strings.ToLower(p.Title), n)) {
			return true
		}
	}
	return false
}
