// What only the tests of this package need.

package score

import "maps"

// RecordOf is the record of a score; a nil one is an episode without a score.
func RecordOf(s *Score, category string) Record {
	r := Record{"success": 0}
	if s == nil {
		return r
	}
	if s.Success(category) {
		r["success"] = 1
	}
	r["length"], r["format"] = s.Length, s.Format
	if o := s.Outcome; o != nil {
		maps.Copy(r, Record{"product": o.Product, "gt": o.GT, "rule": o.Rule, "title": o.Title, "price": o.Price, "service": o.Service, "sku & attrs": o.SKUAttrs})
	}
	if s.Shop != nil {
		r["shop"] = *s.Shop
	}
	if s.Budget != nil {
		r["budget"] = *s.Budget
	}
	return r
}
