// Package score turns an episode of the shopping arena into numbers. Compat
// reproduces ORO's scorer exactly, faults included; Strict mends each of the
// faults by name (see Fixes). The rules of a run (coefficient, threshold of a
// challenger, weights) stand here too.
//
// Everything in an episode was written by a contestant. Only catalogue,
// reward, voucher and encoder are trusted.
package score

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"

	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// ErrUnscored is wrapped by what Score returns where ORO's scorer raises and
// the problem ends without a score. It is the agent's doing.
var ErrUnscored = errors.New("episode cannot be scored")

// ErrLookup is wrapped where the catalogue or the encoder failed: ours, never
// the agent's.
var ErrLookup = errors.New("look up product")

// MaxIDs bounds the ids that are read from one answer.
const MaxIDs = 1000

// Catalogue looks products up. It returns nil for an id that no product has;
// an error means that nobody knows. It is called at once from many goroutines
// and does its own caching.
type Catalogue interface {
	Product(ctx context.Context, id string) (*shop.Product, error)
}

// Products is a catalogue in memory.
type Products map[string]*shop.Product

// Product returns the product of that id.
func (p Products) Product(_ context.Context, id string) (*shop.Product, error) { return p[id], nil }

// Config says how to score. The zero value is Compat without an encoder.
type Config struct {
	// Fix is Compat, Strict, or any set of fixes.
	Fix Fix
	// Encoder encodes titles; nil makes a title constraint shop.ErrNoEncoder.
	Encoder shop.Encoder
	// DropTitles leaves title constraints out where there is no encoder, as
	// ORO's scorer does silently. Validators that differ in it disagree.
	DropTitles bool
	// Threshold is the cosine from which a title is met; 0 = shop.SimilarityThreshold.
	Threshold float64
	// OrderFree matches answers of Shop and Voucher problems to items in the
	// order that scores best, instead of the order in which they were asked.
	// Ids beyond the number of items stay unread, so that a list of guesses buys nothing.
	OrderFree bool
}

// Scorer scores episodes. It may be used at once from many goroutines.
type Scorer struct {
	cfg Config
}

// New makes a scorer.
func New(cfg Config) *Scorer {
	if cfg.Threshold == 0 {
		cfg.Threshold = shop.SimilarityThreshold
	}
	return &Scorer{cfg}
}

// Score is the score record of one episode. A Product problem without a found
// product has only Length and Format; missing fields read as 0.
type Score struct {
	Length float64 `json:"length"` // 1/steps where the last step terminates
	Format float64 `json:"format"` // share of steps in the right form
	*Outcome
	Shop   *float64 `json:"shop,omitempty"`   // Shop problems: 1 if all came from one shop
	Budget *float64 `json:"budget,omitempty"` // Voucher problems: 1 if within the budget
}

// Outcome is the part of a score that judges products; shares in [0, 1],
// means over items where a problem has several.
type Outcome struct {
	Product  float64 `json:"product"` // found in the catalogue
	GT       float64 `json:"gt"`      // the ground truth itself
	Rule     float64 `json:"rule"`    // constraints met
	Title    float64 `json:"title"`
	Price    float64 `json:"price"`
	Service  float64 `json:"service"`
	SKUAttrs float64 `json:"sku & attrs"`
}

// MarshalJSON writes the fields that there are, in one order.
func (s *Score) MarshalJSON() ([]byte, error) {
	b := make([]byte, 0, 192)
	add := func(name string, f float64) {
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, '"', ':')
		b = strconv.AppendFloat(b, f, 'f', -1, 64)
		b = append(b, ',')
	}
	b = append(b, '{')
	add("length", s.Length)
	add("format", s.Format)
	if o := s.Outcome; o != nil {
		add("product", o.Product)
		add("gt", o.GT)
		add("rule", o.Rule)
		add("title", o.Title)
		add("price", o.Price)
		add("service", o.Service)
		add("sku & attrs", o.SKUAttrs)
	}
	if s.Shop != nil {
		add("shop", *s.Shop)
	}
	if s.Budget != nil {
		add("budget", *s.Budget)
	}
	b[len(b)-1] = '}'
	return b, nil
}

// Success reports whether the episode solved a problem of category (any case).
func (s *Score) Success(category string) bool {
	if s == nil || s.Outcome == nil || s.Rule < 1 {
		return false
	}
	switch strings.ToLower(category) {
	case "shop":
		return s.Shop != nil && *s.Shop >= 1
	case "voucher":
		return s.Budget != nil && *s.Budget >= 1
	}
	return true
}

var tapes = sync.Pool{New: func() any { return new(tape) }}

// Score scores one episode: output is the JSON list of steps that the agent
// returned. Errors: ErrUnscored (the agent's), ErrLookup and
// shop.ErrNoEncoder (ours), and others for a problem that is wrong itself.
func (s *Scorer) Score(ctx context.Context, p *shop.Problem, cat Catalogue, output []byte) (*Score, error) {
	return s.score(ctx, p, cat, output, nil)
}

// score is Score; it fills in acc where there is one.
func (s *Scorer) score(ctx context.Context, p *shop.Problem, cat Catalogue, output []byte, acc *Account) (*Score, error) {
	t, _ := tapes.Get().(*tape)
	defer func() {
		t.src = nil // do not keep an episode alive
		tapes.Put(t)
	}()
	if err := t.parse(output); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnscored, err)
	}
	e, err := s.read(t)
	if err != nil {
		return nil, err
	}
	out := &Score{Length: e.length, Format: e.format}
	if p.Unanswerable {
		unanswered(out, p, e)
		return out, nil
	}
	switch category := strings.ToLower(p.Category); category {
	case "product":
		err = s.product(ctx, out, p, cat, e.ids, acc)
	case "shop", "voucher":
		err = s.several(ctx, out, p, cat, e.ids, category == "voucher", acc)
	default:
		if s.cfg.Fix.has(FixUnknownCategory) {
			return nil, fmt.Errorf("category %.40q: want %s, %s or %s", p.Category, shop.CategoryProduct, shop.CategoryShop, shop.CategoryVoucher)
		}
		err = s.product(ctx, out, p, cat, e.ids, acc)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (s *Scorer) product(ctx context.Context, out *Score, p *shop.Problem, cat Catalogue, ids []string, acc *Account) error {
	if len(p.Reward.Items) != 1 {
		return fmt.Errorf("reward: a %s problem has one item, got %d", shop.CategoryProduct, len(p.Reward.Items))
	}
	if len(ids) == 0 {
		acc.add(&p.Reward.Items[0], nil, 0)
		return nil
	}
	found, err := s.lookup(ctx, cat, ids[:1])
	if err != nil || found[0] == nil {
		acc.add(&p.Reward.Items[0], nil, 0)
		return err
	}
	met, err := s.titles(ctx, p, found)
	if err != nil {
		return err
	}
	o := s.match(&p.Reward.Items[0], found[0], met[0])
	out.Outcome = &o
	acc.add(&p.Reward.Items[0], found[0], met[0])
	return nil
}

// several scores Shop and Voucher problems: item i against id i.
func (s *Scorer) several(ctx context.Context, out *Score, p *shop.Problem, cat Catalogue, ids []string, voucher bool, acc *Account) error {
	items := p.Reward.Items
	if len(items) == 0 || len(items) > maxItems {
		return fmt.Errorf("reward: want 1 to %d items, got %d", maxItems, len(items))
	}
	var zero float64
	out.Outcome = &Outcome{}
	if voucher {
		out.Budget = &zero
		if p.Voucher == nil {
			return errors.New("voucher: a Voucher problem has none")
		}
	} else {
		out.Shop = &zero
	}
	found, err := s.lookup(ctx, cat, ids[:min(len(ids), len(items))])
	if err != nil {
		return err
	}
	order := make([]int, len(items)) // of each item, the index of its product; -1 for none
	for i := range order {
		if order[i] = i; i >= len(found) {
			order[i] = -1
		}
	}
	if s.cfg.OrderFree {
		if order, err = s.bestOrder(ctx, p, found); err != nil {
			return err
		}
	}
	chosen := make([]*shop.Product, len(items))
	for i, j := range order {
		if j >= 0 {
			chosen[i] = found[j]
		}
	}
	met, err := s.titles(ctx, p, chosen)
	if err != nil {
		return err
	}
	hits, total, shops := 0, 0.0, map[string]bool{}
	sum := out.Outcome
	for i := range items {
		acc.add(&items[i], chosen[i], met[i])
		if chosen[i] == nil {
			continue
		}
		o := s.match(&items[i], chosen[i], met[i])
		sum.Product += o.Product
		sum.GT += o.GT
		sum.Rule += o.Rule
		sum.Title += o.Title
		sum.Price += o.Price
		sum.Service += o.Service
		sum.SKUAttrs += o.SKUAttrs
		if o.Rule > 0 {
			hits++
			total += chosen[i].Price
			shops[chosen[i].ShopID] = true
		}
	}
	n := float64(len(items))
	for _, f := range []*float64{&sum.Product, &sum.GT, &sum.Rule, &sum.Title, &sum.Price, &sum.Service, &sum.SKUAttrs} {
		*f /= n
	}
	if voucher {
		acc.pay(s, p.Voucher)
	}
	if hits < len(items) {
		return nil
	}
	one := 1.0
	if !voucher {
		if len(shops) == 1 {
			out.Shop = &one
		}
		return nil
	}
	within, err := s.within(p.Voucher, total, len(shops) == 1)
	if within {
		out.Budget = &one
	}
	return err
}

// within reports whether products that cost total fit the budget. The voucher
// is looked at only where they do not fit without.
func (s *Scorer) within(v *shop.Voucher, total float64, oneShop bool) (bool, error) {
	if total <= v.Budget {
		return true, nil
	}
	after, applies, err := s.discounted(v, total, oneShop)
	return applies && after <= v.Budget, err
}

// discounted is what products that cost total come to with the voucher; applies
// is false where it may not be used on them.
func (s *Scorer) discounted(v *shop.Voucher, total float64, oneShop bool) (after float64, applies bool, err error) {
	if v.VoucherType != shop.VoucherPlatform && (v.VoucherType != shop.VoucherShop || !oneShop) {
		return total, false, nil
	}
	if total < v.Threshold || (total == v.Threshold && s.cfg.Fix.has(FixThreshold)) {
		return total, false, nil
	}
	switch v.DiscountType {
	case shop.DiscountFixed:
		if v.FaceValue == nil {
			return total, false, fmt.Errorf("%w: voucher.face_value is null", ErrUnscored)
		}
		after = total - *v.FaceValue
	case shop.DiscountPercentage:
		if v.Discount == nil || (v.Cap == nil && !s.cfg.Fix.has(FixNullCap)) {
			return total, false, fmt.Errorf("%w: voucher.discount or voucher.cap is null", ErrUnscored)
		}
		after = total * float64(1-*v.Discount)
		if v.Cap != nil {
			after = max(after, total-*v.Cap)
		}
	default:
		return total, false, fmt.Errorf("voucher.discount_type %.40q: want %q or %q", v.DiscountType, shop.DiscountFixed, shop.DiscountPercentage)
	}
	return after, true, nil
}

func (s *Scorer) lookup(ctx context.Context, cat Catalogue, ids []string) ([]*shop.Product, error) {
	found := make([]*shop.Product, len(ids))
	for i, id := range ids {
		p, err := cat.Product(ctx, id)
		if err != nil {
			if s.cfg.Fix.has(FixLookup) || ctx.Err() != nil {
				return nil, fmt.Errorf("%w %.60q: %w", ErrLookup, id, err)
			}
			continue // ORO's scorer takes it as not found
		}
		found[i] = p
	}
	return found, nil
}

// match measures one product against one item. met is how many of the item's
// titles the product's is like; -1 where titles were left out.
func (s *Scorer) match(it *shop.Item, p *shop.Product, met int) Outcome {
	o := Outcome{Product: 1}
	hits, all := 0, 0
	share := func(h, n int) float64 {
		hits, all = hits+h, all+n
		if n == 0 {
			return 0
		}
		return float64(h) / float64(n)
	}
	if gt := it.ProductID == p.ProductID; gt {
		o.GT, met = 1, len(it.Title)
	}
	if met >= 0 {
		o.Title = share(met, len(it.Title))
	}
	n := 0
	for _, b := range it.Price {
		if b.Holds(p.Price) {
			n++
		}
	}
	o.Price = share(n, len(it.Price))
	n = 0
	for _, want := range it.Service {
		if contains(p.Service, want) {
			n++
		}
	}
	o.Service = share(n, len(it.Service))
	o.SKUAttrs = share(options(it, p))
	switch {
	case o.GT == 1:
		o.Rule = 1
	case all > 0:
		o.Rule = float64(hits) / float64(all)
	}
	return o
}

// Meets reports whether p meets every constraint of the item but its titles.
func Meets(it *shop.Item, p *shop.Product) bool {
	plain := *it
	plain.ProductID, plain.Title = "", nil
	o := (&Scorer{}).match(&plain, p, 0)
	bare := len(plain.Price)+len(plain.Service)+len(plain.SKUOptions)+len(plain.Attributes)+len(plain.Exclude) == 0
	return bare || o.Rule == 1
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}

// options counts the pairs of SKU and attribute constraints that p meets with
// its best SKU option, or with none.
func options(it *shop.Item, p *shop.Product) (hits, all int) {
	hits, all = pairs(it, p, nil)
	for _, option := range p.SKUOptions {
		if hits == all {
			break
		}
		n, _ := pairs(it, p, option)
		hits = max(hits, n)
	}
	return hits, all
}

func pairs(it *shop.Item, p *shop.Product, option map[string]string) (hits, all int) {
	hit := func(k, v string) bool {
		got, ok := option[k]
		return (ok && got == v) || contains(p.Attributes[k], v)
	}
	for _, m := range it.SKUOptions {
		for k, v := range m {
			if all++; hit(k, v) {
				hits++
			}
		}
	}
	for _, m := range it.Attributes {
		for k, vs := range m {
			for _, v := range vs {
				if all++; hit(k, v) {
					hits++
				}
			}
		}
	}
	for _, m := range it.Exclude {
		for k, vs := range m {
			for _, v := range vs {
				if all++; !contains(p.Attributes[k], v) {
					hits++
				}
			}
		}
	}
	return hits, all
}

// titles says of each chosen product how many of its item's titles it meets;
// all products of a problem are encoded in one call. A ground truth needs no
// encoding. -1 means that title constraints are left out.
func (s *Scorer) titles(ctx context.Context, p *shop.Problem, chosen []*shop.Product) ([]int, error) {
	met := make([]int, len(chosen))
	var texts []string
	at := map[string]int{}
	need := func(title string) {
		if _, ok := at[title]; !ok {
			at[title] = len(texts)
			texts = append(texts, title)
		}
	}
	for i, c := range chosen {
		it := &p.Reward.Items[i]
		if c == nil || c.ProductID == it.ProductID || len(it.Title) == 0 {
			continue
		}
		if s.cfg.Encoder == nil {
			if s.cfg.DropTitles && !s.cfg.Fix.has(FixEncoder) {
				met[i] = -1
				continue
			}
			return nil, fmt.Errorf("title constraint of %.60q: %w", it.ProductID, shop.ErrNoEncoder)
		}
		if p.TitleEncoder != "" && p.TitleEncoder != s.cfg.Encoder.Name() {
			return nil, fmt.Errorf("title constraint of %.60q was made for %.60q, not for %.60q: %w", it.ProductID, p.TitleEncoder, s.cfg.Encoder.Name(), shop.ErrNoEncoder)
		}
		need(c.Title)
		for _, want := range it.Title {
			if p.TitleVectors[want] == nil {
				need(want)
			}
		}
	}
	if len(texts) == 0 {
		return met, nil
	}
	vectors, err := s.cfg.Encoder.Encode(ctx, texts)
	if err != nil {
		return nil, fmt.Errorf("%w: encode titles: %w", ErrLookup, err)
	}
	if len(vectors) != len(texts) {
		return nil, fmt.Errorf("%w: encode titles: %d vectors for %d titles", ErrLookup, len(vectors), len(texts))
	}
	for i, c := range chosen {
		it := &p.Reward.Items[i]
		if c == nil || c.ProductID == it.ProductID || len(it.Title) == 0 || met[i] < 0 {
			continue
		}
		for _, want := range it.Title {
			v := p.TitleVectors[want]
			if v == nil {
				v = vectors[at[want]]
			}
			like, err := shop.Cosine(vectors[at[c.Title]], v)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrLookup, err)
			}
			if like >= s.cfg.Threshold {
				met[i]++
			}
		}
	}
	return met, nil
}

// maxItems bounds the items of a problem.
const maxItems = 12

// bestOrder gives each item the index of a product so that the sum of rules is
// greatest; of equal ones the first in order of indices.
func (s *Scorer) bestOrder(ctx context.Context, p *shop.Problem, found []*shop.Product) ([]int, error) {
	items := p.Reward.Items
	rules := make([][]float64, len(items))
	for i := range items {
		rules[i] = make([]float64, len(found))
		for j, f := range found {
			if f == nil {
				continue
			}
			chosen := make([]*shop.Product, len(items))
			chosen[i] = f
			met, err := s.titles(ctx, p, chosen)
			if err != nil {
				return nil, err
			}
			rules[i][j] = s.match(&items[i], f, met[i]).Rule
		}
	}
	type state struct {
		sum  float64
		pick int // for this item; -1 = none
	}
	// best[i][used] is the best that items i.. can make of the products not in used.
	best := make([][]state, len(items)+1)
	for i := range best {
		best[i] = make([]state, 1<<len(found))
	}
	for i := len(items) - 1; i >= 0; i-- {
		for used := range best[i] {
			b := state{math.Inf(-1), -1}
			for j := range found {
				if used&(1<<j) == 0 && rules[i][j]+best[i+1][used|1<<j].sum > b.sum {
					b = state{rules[i][j] + best[i+1][used|1<<j].sum, j}
				}
			}
			if none := best[i+1][used].sum; none > b.sum {
				b = state{none, -1}
			}
			best[i][used] = b
		}
	}
	order, used := make([]int, len(items)), 0
	for i := range items {
		order[i] = best[i][used].pick
		if order[i] >= 0 {
			used |= 1 << order[i]
		}
	}
	return order, nil
}

// round4 rounds to four decimals as Python does: correctly, ties to even.
func round4(x float64) float64 {
	f, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 4, 64), 64)
	if err != nil {
		return x // not finite
	}
	return f
}
