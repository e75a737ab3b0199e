package score

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// An account's checks add up to the score that they explain, whatever was
// answered, and Explain scores as Score does.
func TestAccountAddsUp(t *testing.T) {
	p := wanted()
	enc := shop.Vectors{Model: "test", Table: map[string][]float32{"T": {1, 0}, "like T": {1, .1}, "other": {0, 1}}}
	size := map[string]map[string]string{"1": {"size": "s"}, "2": {"size": "l"}}
	cat := Products{
		"A": {ProductID: "A", Title: "T", Price: 15},
		"B": {ProductID: "B", Title: "like T", Price: 12, ShopID: "s", Service: []string{"COD"}, SKUOptions: size, Attributes: map[string][]string{"brand": {"x"}, "colour": {"red"}}},
		"C": {ProductID: "C", Title: "other", Price: 99},
	}
	s := New(Config{Fix: Strict, Encoder: enc})
	for id, want := range map[string]struct {
		met, of int
		exact   bool
	}{"A": {of: 6, met: 2, exact: true}, "B": {met: 6, of: 7}, "C": {met: 0, of: 7}} {
		ep := episodeOf(recommend(id))
		got, acc, err := s.Explain(context.Background(), p, cat, ep)
		if err != nil || len(acc.Items) != 1 || acc.Items[0].Chosen == nil {
			t.Fatalf("%s: %+v, %v", id, acc, err)
		}
		m := acc.Items[0]
		plainly, err := s.Score(context.Background(), p, cat, ep)
		if err != nil || !reflect.DeepEqual(got, plainly) {
			t.Errorf("%s: Explain scores %+v, Score %+v, %v", id, got, plainly, err)
		}
		if m.Exact != want.exact || m.Exact != (got.GT == 1) {
			t.Errorf("%s: exact %v", id, m.Exact)
		}
		if !m.Exact && (m.Met != want.met || m.Of != want.of || float64(m.Met)/float64(m.Of) != got.Rule) {
			t.Errorf("%s: %d of %d met, rule %v, %+v", id, m.Met, m.Of, got.Rule, m.Checks)
		}
	}
	_, acc, err := s.Explain(context.Background(), p, cat, episodeOf(recommend("B")))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := json.Marshal(acc.Items[0].Checks)
	for _, want := range []string{
		`{"what":"title like","want":"T","got":"like T","met":true}`, `{"what":"price","want":"10.00 to 20.00","got":"12.00","met":true}`,
		`{"what":"service","want":"COD","got":"COD","met":true}`, `{"what":"size","want":"l","got":"l","met":true}`, `{"what":"colour","want":"blue","got":"red","met":false}`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s is not among %s", want, b)
		}
	}
	if _, acc, err = s.Explain(context.Background(), p, cat, episodeOf(recommend("nosuch"))); err != nil || len(acc.Items) != 1 || acc.Items[0].Chosen != nil || acc.Items[0].Wanted != "A" {
		t.Errorf("of a product that is not there: %+v, %v", acc, err)
	}
}

// The sum is what the products cost, less the voucher where it may be used, and
// says "within" when the score does.
func TestAccountOfVoucher(t *testing.T) {
	v := shop.Voucher{VoucherType: shop.VoucherShop, Threshold: 20, DiscountType: shop.DiscountPercentage, Discount: ptr(.5), Cap: ptr(5)}
	p := &shop.Problem{Category: "voucher", Reward: shop.Reward{Items: []shop.Item{{ProductID: "1"}, {ProductID: "2"}}}, Voucher: &v}
	cat := Products{"1": {ProductID: "1", Price: 15, ShopID: "s"}, "2": {ProductID: "2", Price: 15, ShopID: "s"}, "3": {ProductID: "3", Price: 15, ShopID: "t"}}
	for _, c := range []struct {
		budget float64
		ids    string
		want   Sum
	}{
		{25, "1,2", Sum{Total: 30, After: 25, Applies: true, Within: true}},
		{24, "1,2", Sum{Total: 30, After: 25, Applies: true}},
		{30, "1,2", Sum{Total: 30, After: 25, Applies: true, Within: true}},
		{25, "1", Sum{Total: 15, After: 15}},
		{25, "1,3", Sum{Total: 30, After: 30}},
	} {
		v.Budget = c.budget
		c.want.Budget, c.want.Voucher = c.budget, "50 % off, 5.00 at most above 20.00, all from one shop"
		got, acc, err := New(Config{Fix: Strict}).Explain(context.Background(), p, cat, episodeOf(recommend(c.ids)))
		if err != nil || acc.Sum == nil || *acc.Sum != c.want {
			t.Errorf("budget %v, %s: %+v, %v, want %+v", c.budget, c.ids, acc.Sum, err, c.want)
			continue
		}
		if within := got.Success(p.Category); within != c.want.Within {
			t.Errorf("budget %v, %s: the score says %v, the account %v", c.budget, c.ids, within, c.want.Within)
		}
	}
}
