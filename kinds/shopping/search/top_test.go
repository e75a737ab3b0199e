package search

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/kinds/shopping/catalogue"
)

// Where a catalogue is larger than what a query walks over at once, words are
// left out and windows passed over; the answers stay those of every product's score.
func TestFindAcrossWindows(t *testing.T) {
	products := generated(t, 3*span+100)
	for i, p := range products { // equal texts: many equal scores, which ids decide
		if i%3 == 0 {
			p.Title, p.SKUOptions, p.Attributes = "black lamp", nil, map[string][]string{"n": {strings.Repeat("original ", 1+i%4)}}
		}
	}
	x, docs := indexOf(t, products), naiveDocs(products)
	r := catalogue.NewRandom(5, "windows")
	ptr := func(f float64) *float64 { return &f }
	var s scratch
	answered := map[string]int{}
	title := func() string { return products[1+3*r.N(len(products)/3)].Title }
	for i, text := range []string{"black original", "yes black original premium lamp", "original " + title(), title() + " " + title(), "lamp lamp yes"} {
		all := naiveScores(docs, text)
		k := keeper{x: x, limit: window}
		if err := x.search(t.Context(), text, &filter{}, &s, &k); err != nil {
			t.Fatal(err)
		}
		first := k.best()
		if len(first) != min(window, len(all)) {
			t.Fatalf("%q: %d hits of %d", text, len(first), len(all))
		}
		for j, d := range first {
			if x.ID(d.doc) != all[j].p.ProductID || d.score != float32(all[j].score) {
				t.Fatalf("%q: place %d is %s with %v, want %s with %v", text, j+1, x.ID(d.doc), d.score, all[j].p.ProductID, float32(all[j].score))
			}
		}
		for j := range 24 {
			q := Query{Text: text, Page: 1 + 4*r.N(2), Sort: Sort(r.N(4))}
			kind := []string{"all", "some", "few", "shop"}[j%4]
			switch kind {
			case "some":
				q.Lo = ptr(float64(r.N(400)))
			case "few":
				q.Lo, q.Hi = ptr(200), ptr(200+float64(r.N(5)))
			case "shop":
				q.Shop = products[r.N(len(products))].ShopID
			}
			for _, compat := range []bool{true, false} {
				hits, err := x.find(t.Context(), q, compat)
				if err != nil {
					t.Fatal(err)
				}
				got, want := found(x, hits), naivePage(slices.Clone(all), q, compat, window)
				if !slices.Equal(got, want) {
					t.Fatalf("%s, compat %v, %+v:\n got %v\nwant %v", kind, compat, q, got, want)
				}
				if len(got) > 0 {
					answered[fmt.Sprintf("%d %s %v", i, kind, compat)]++
				}
			}
		}
	}
	if len(answered) < 36 {
		t.Errorf("only these kinds of queries found anything: %v", answered)
	}
}

// A counter stops at its limit, and counts what stands before its floor only.
func TestCounting(t *testing.T) {
	products := generated(t, 2*span)
	x := indexOf(t, products)
	var s scratch
	k := keeper{x: x, limit: 500}
	if err := x.search(t.Context(), "black original premium", &filter{}, &s, &k); err != nil {
		t.Fatal(err)
	}
	best := k.best()
	for _, place := range []int{0, 1, 99, 499} {
		for _, limit := range []int{50, 1000} {
			c := keeper{x: x, limit: limit, floor: &best[place], counting: true}
			if err := x.search(t.Context(), "black original premium", &filter{}, &s, &c); err != nil {
				t.Fatal(err)
			}
			if want := min(place, limit); c.count != want || c.full() != (want == limit) {
				t.Errorf("before place %d stand %d (full %v), want %d", place, c.count, c.full(), want)
			}
		}
	}
}
