package score

import (
	"strings"

	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// unanswered scores a problem that nothing answers: right is who recommends
// nothing and says so at the end.
func unanswered(out *Score, p *shop.Problem, e episode) {
	var right float64
	if e.gaveUp && len(e.ids) == 0 {
		right = 1
	}
	out.Outcome = &Outcome{GT: right, Rule: right}
	switch strings.ToLower(p.Category) {
	case "shop":
		out.Shop = &right
	case "voucher":
		out.Budget = &right
	}
}

// Within reports whether products that cost total fit a voucher's budget, by
// the mended rules; oneShop says whether all come from one shop.
func Within(v *shop.Voucher, total float64, oneShop bool) bool {
	ok, err := (&Scorer{cfg: Config{Fix: Strict}}).within(v, total, oneShop)
	return ok && err == nil
}
