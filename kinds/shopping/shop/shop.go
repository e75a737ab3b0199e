// Package shop holds the nouns of the shopping arena: products of a
// catalogue, problems with their rewards and vouchers, and the encoder that
// says how alike two titles are. The fields are those of ShoppingBench and of
// ORO's problem suites, so that their files load unchanged.
package shop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Categories of problems, as ORO's suites spell them. Scoring reads them in
// lower case.
const (
	CategoryProduct = "Product" // one product under constraints
	CategoryShop    = "Shop"    // several products of one shop
	CategoryVoucher = "Voucher" // several products within a budget, a voucher helps
)

// Product is one product of a catalogue. Keys and values of SKU options and
// attributes are lower case and compared exactly.
type Product struct {
	ProductID        string                       `json:"product_id"`
	ShopID           string                       `json:"shop_id"`
	Brand            string                       `json:"brand"`
	Category         string                       `json:"category"`
	Title            string                       `json:"title"`
	ShortDescription string                       `json:"short_description"`
	Description      string                       `json:"description"`
	Specification    string                       `json:"specification"`
	Price            float64                      `json:"price"` // in the catalogue's currency
	SoldCount        int64                        `json:"sold_count"`
	SKUOptions       map[string]map[string]string `json:"sku_options"` // "1" -> {key: value}
	Attributes       map[string][]string          `json:"attributes"`
	MainImageURL     string                       `json:"main_image_url"`
	ProductURL       string                       `json:"product_url"`
	Service          []string                     `json:"service"` // of Services
}

// Services are the names that a product's service list may hold.
func Services() []string { return []string{"official", "freeShipping", "COD", "flashsale"} }

// Modes of a price constraint; every bound is inclusive.
const (
	PriceLess    = "less than"
	PriceGreater = "greater than"
	PriceBetween = "between"
)

// PriceBound is one price constraint, {mode: [lo, hi]} in JSON; the bound that
// a mode does not use is null there.
type PriceBound struct {
	Mode   string
	Lo, Hi *float64
}

// Holds reports whether price p meets the constraint.
func (b PriceBound) Holds(p float64) bool {
	return (b.Mode == PriceLess || p >= *b.Lo) && (b.Mode == PriceGreater || p <= *b.Hi)
}

// UnmarshalJSON reads {mode: [lo, hi]} and refuses a mode without the bounds it uses.
func (b *PriceBound) UnmarshalJSON(raw []byte) error {
	var m map[string][]*float64
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("price: want {mode: [low, high]}: %w", err)
	}
	if len(m) != 1 {
		return fmt.Errorf("price: want one mode, got %d", len(m))
	}
	for mode, v := range m {
		if len(v) != 2 {
			return fmt.Errorf("price: %.40q wants two bounds, got %d", mode, len(v))
		}
		*b = PriceBound{Mode: mode, Lo: v[0], Hi: v[1]}
	}
	return b.check()
}

func (b PriceBound) check() error {
	switch {
	case b.Mode != PriceLess && b.Mode != PriceGreater && b.Mode != PriceBetween:
		return fmt.Errorf("price: mode %.40q: want %q, %q or %q", b.Mode, PriceLess, PriceGreater, PriceBetween)
	case b.Mode != PriceLess && b.Lo == nil, b.Mode != PriceGreater && b.Hi == nil:
		return fmt.Errorf("price: %q lacks a bound", b.Mode)
	}
	return nil
}

// MarshalJSON writes {mode: [lo, hi]}.
func (b PriceBound) MarshalJSON() ([]byte, error) {
	if err := b.check(); err != nil {
		return nil, err
	}
	return json.Marshal(map[string][]*float64{b.Mode: {b.Lo, b.Hi}})
}

// Item is what one wanted product must be: its ground truth and the
// constraints that another product is measured by.
type Item struct {
	ProductID  string                `json:"product_id"`
	Title      []string              `json:"title,omitempty"`
	Price      []PriceBound          `json:"price,omitempty"`
	Service    []string              `json:"service,omitempty"`
	SKUOptions []map[string]string   `json:"sku_options,omitempty"`
	Attributes []map[string][]string `json:"attributes,omitempty"`
	// Exclude are attributes that a product must not have: an extension of ORO's
	// form, whose own scorer does not read it.
	Exclude []map[string][]string `json:"exclude,omitempty"`
}

// Reward lists the wanted products in order. In JSON it is an object for a
// Product problem (One) and a list for the others.
type Reward struct {
	Items []Item
	One   bool
}

// UnmarshalJSON reads an object or a list.
func (r *Reward) UnmarshalJSON(raw []byte) error {
	raw = bytes.TrimSpace(raw)
	*r = Reward{}
	if len(raw) > 0 && raw[0] == '{' {
		r.One, r.Items = true, make([]Item, 1)
		return json.Unmarshal(raw, &r.Items[0])
	}
	return json.Unmarshal(raw, &r.Items)
}

// MarshalJSON writes an object or a list.
func (r Reward) MarshalJSON() ([]byte, error) {
	if r.One && len(r.Items) == 1 {
		return json.Marshal(r.Items[0])
	}
	return json.Marshal(r.Items)
}

// Voucher is the rule of a Voucher problem. Money is in the catalogue's currency.
type Voucher struct {
	VoucherType       string   `json:"voucher_type"` // VoucherPlatform or VoucherShop
	Threshold         float64  `json:"threshold"`    // total from which it may be used
	DiscountType      string   `json:"discount_type"`
	FaceValue         *float64 `json:"face_value"` // of a fixed one
	Discount          *float64 `json:"discount"`   // of a percentage, 0..1
	Cap               *float64 `json:"cap"`        // most that a percentage takes off
	PriceAfterVoucher float64  `json:"price_after_voucher"`
	Budget            float64  `json:"budget"`
}

// Values of a voucher's types.
const (
	VoucherPlatform    = "platform" // products of any shops
	VoucherShop        = "shop"     // products of one shop only
	DiscountFixed      = "fixed"
	DiscountPercentage = "percentage"
)

// Problem is one problem of a suite: what an agent is asked, and what only the
// scorer may see (Reward, Voucher, TitleVectors).
type Problem struct {
	ProblemID  string   `json:"problem_id,omitempty"` // UUID
	Query      string   `json:"query"`
	Category   string   `json:"category"`
	Difficulty string   `json:"difficulty"`
	Title      string   `json:"title"`
	Reward     Reward   `json:"reward"`
	Voucher    *Voucher `json:"voucher,omitempty"`
	// TitleVectors are the encoder's vectors of the reward's titles, made when
	// the problem was.
	TitleVectors map[string][]float32 `json:"reward_title_embeddings,omitempty"`
	// TitleEncoder names who made them; "" = not told, as in ORO's suites.
	TitleEncoder string `json:"title_encoder,omitempty"`
	// Unanswerable says that no product of the catalogue is what is asked for: the
	// answer is to recommend nothing and to terminate with status failure. An
	// extension of ORO's form, whose own scorer solves no such problem.
	Unanswerable bool `json:"unanswerable,omitempty"`
}

// Public is what an agent is told of a problem, nothing else.
type Public struct {
	ProblemID  string `json:"problem_id"`
	Query      string `json:"query"`
	Category   string `json:"category"`
	Difficulty string `json:"difficulty"`
	Title      string `json:"title"`
}

// Public leaves out what only the scorer may see.
func (p *Problem) Public() Public {
	return Public{p.ProblemID, p.Query, p.Category, p.Difficulty, p.Title}
}

// ErrNoEncoder is returned where a title constraint has to be judged and
// nothing can encode titles. A constraint is never dropped for it.
var ErrNoEncoder = errors.New("no title encoder is configured")

// Encoder turns titles into vectors whose cosine says how alike they are.
// Encode returns one vector per title, all of one length, in order; the same
// title always gives the same vector. It may be called at once from many
// goroutines and does not retry. An error is the encoder's failure, never the
// contestant's.
type Encoder interface {
	// Name identifies model and version; vectors of different names are never compared.
	Name() string
	Encode(ctx context.Context, titles []string) ([][]float32, error)
}

// SimilarityThreshold is the cosine from which a title counts as met.
const SimilarityThreshold = 0.7

// Cosine is the cosine of two vectors; 0 where one of them has no length.
func Cosine(a, b []float32) (float64, error) {
	if len(a) != len(b) || len(a) == 0 {
		return 0, fmt.Errorf("compare title vectors: %d and %d dimensions", len(a), len(b))
	}
	var ab, aa, bb float64
	for i, x := range a {
		x, y := float64(x), float64(b[i])
		ab += x * y
		aa += x * x
		bb += y * y
	}
	if aa == 0 || bb == 0 {
		return 0, nil
	}
	return ab / (math.Sqrt(aa) * math.Sqrt(bb)), nil
}
