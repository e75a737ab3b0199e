package search

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// naiveDoc is a product with its words.
type naiveDoc struct {
	p     *shop.Product
	tf    map[string]int
	n     int
	score float64
}

func naiveDocs(products []*shop.Product) []naiveDoc {
	var a analyzer
	docs := make([]naiveDoc, len(products))
	for i, p := range products {
		d := naiveDoc{p: p, tf: map[string]int{}}
		texts := []string{p.Title}
		for _, o := range p.SKUOptions {
			for _, v := range o {
				texts = append(texts, v)
			}
		}
		for _, vs := range p.Attributes {
			texts = append(texts, vs...)
		}
		for _, s := range texts {
			a.terms(s, func(t string) bool { d.tf[t]++; d.n++; return true })
		}
		docs[i] = d
	}
	return docs
}

// naive finds in the slowest way that could be right.
func naive(docs []naiveDoc, q Query, compat bool, window int) []string {
	return naivePage(naiveScores(docs, q.Text), q, compat, window)
}

// naivePage is a page of all hits.
func naivePage(hits []naiveDoc, q Query, compat bool, window int) []string {
	if compat {
		hits = hits[:min(window, len(hits))]
	}
	hits = slices.DeleteFunc(hits, func(d naiveDoc) bool {
		for _, s := range q.Service {
			if !slices.Contains(d.p.Service, s) {
				return true
			}
		}
		return (q.Shop != "" && d.p.ShopID != q.Shop) || (q.Lo != nil && d.p.Price < *q.Lo) || (q.Hi != nil && d.p.Price > *q.Hi)
	})
	if compat {
		hits = hits[:min(relevant, len(hits))]
	}
	slices.SortStableFunc(hits, func(a, b naiveDoc) int {
		switch q.Sort {
		case BySales:
			return cmp.Compare(b.p.SoldCount, a.p.SoldCount)
		case ByPriceAsc:
			return cmp.Compare(a.p.Price, b.p.Price)
		case ByPriceDesc:
			return cmp.Compare(b.p.Price, a.p.Price)
		}
		return 0
	})
	from := min(len(hits), (q.Page-1)*pageSize)
	var ids []string
	for _, d := range hits[from:min(len(hits), from+pageSize)] {
		ids = append(ids, d.p.ProductID)
	}
	return ids
}

// naiveScores are all hits, best first.
func naiveScores(docs []naiveDoc, text string) []naiveDoc {
	var a analyzer
	total := 0
	n := float64(len(docs))
	for _, d := range docs {
		total += d.n
	}
	average := float32(float64(total) / n)
	var words []string
	counts, df := map[string]int{}, map[string]float64{}
	a.terms(text, func(t string) bool {
		if counts[t]++; counts[t] == 1 {
			words = append(words, t)
			for _, d := range docs {
				if d.tf[t] > 0 {
					df[t]++
				}
			}
		}
		return true
	})
	var hits []naiveDoc
	for _, d := range docs {
		for _, w := range words {
			if d.tf[w] > 0 {
				weight := float32(counts[w]) * float32(math.Log(1+(n-df[w]+.5)/(df[w]+.5)))
				inverse := 1 / (k1 * ((1 - b) + b*float32(byte4ToInt(intToByte4(d.n)))/average))
				d.score += float64(weight - weight/(1+float32(d.tf[w])*inverse))
			}
		}
		if d.score > 0 {
			hits = append(hits, d)
		}
	}
	slices.SortFunc(hits, func(a, b naiveDoc) int {
		return cmp.Or(cmp.Compare(float32(b.score), float32(a.score)), strings.Compare(a.p.ProductID, b.p.ProductID))
	})
	return hits
}

func found(x *Index, hits []uint32) []string {
	var ids []string
	for _, d := range hits {
		ids = append(ids, string(x.id(d)))
	}
	return ids
}

func TestFindAgainstNaive(t *testing.T) {
	products := generated(t, 600)
	x, docs := indexOf(t, products), naiveDocs(products)
	r := catalogue.NewRandom(5, "test")
	ptr := func(f float64) *float64 { return &f }
	some := 0
	for i := range 150 {
		title := strings.Fields(products[r.N(len(products))].Title)
		q := Query{Text: title[r.N(len(title))] + " " + title[r.N(len(title))], Page: 1 + r.N(3), Sort: Sort(r.N(4))}
		if r.Bool(.3) {
			q.Shop = products[r.N(len(products))].ShopID
		}
		if r.Bool(.4) {
			q.Lo = ptr(float64(r.N(400)))
		}
		if r.Bool(.3) {
			q.Hi = ptr(float64(200 + r.N(2000)))
		}
		if r.Bool(.4) {
			q.Service = shop.Services()[:1+r.N(2)]
		}
		for _, compat := range []bool{true, false} {
			hits, err := x.find(t.Context(), q, compat)
			if err != nil {
				t.Fatal(err)
			}
			got, want := found(x, hits), naive(docs, q, compat, window)
			if !slices.Equal(got, want) {
				t.Errorf("query %d, compat %v, %+v:\n got %v\nwant %v", i, compat, q, got, want)
			}
			if len(want) > 1 {
				some++
			}
		}
	}
	if some < 100 {
		t.Errorf("only %d queries found anything", some)
	}
}

// Beyond 10,000 hits compat looks at no more of them; strict does.
func TestWindow(t *testing.T) {
	var products []*shop.Product
	for i := range window + 200 {
		p := &shop.Product{ProductID: fmt.Sprintf("%06d", i), ShopID: "many", Title: "lamp", Price: 5}
		switch { // the worse half of 400 by relevance has another shop
		case i >= window+197:
			p.ShopID, p.Title = "last", "lamp of a very long title indeed"
		case i >= 9900 && i%2 == 0:
			p.ShopID = "few"
		case i >= 9900:
			p.ShopID, p.Title = "long", "lamp of a very long title indeed"
		}
		products = append(products, p)
	}
	x, docs := indexOf(t, products), naiveDocs(products)
	for _, s := range []string{"few", "long", "many", "last"} {
		for _, page := range []int{1, 5} {
			q := Query{Text: "lamp", Shop: s, Page: page}
			hits, err := x.Compat(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := found(x, hits), naive(docs, q, true, window); !slices.Equal(got, want) {
				t.Errorf("%s, page %d: %v, want %v", s, page, got, want)
			}
		}
	}
	q := Query{Text: "lamp", Shop: "long", Page: 15}
	compat, err := x.Compat(t.Context(), q)
	if err != nil || len(compat) != 0 {
		t.Errorf("compat: %v, %v", found(x, compat), err)
	}
	strict, err := x.Strict(t.Context(), q)
	if err != nil || len(strict) != 8 {
		t.Errorf("strict: %v, %v", found(x, strict), err)
	}
}
