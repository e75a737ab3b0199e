// Package search finds the products of a catalogue: an inverted index with
// Lucene's BM25, and the HTTP service that agents and scorers ask, with the
// quirks of ORO's search server (compat) or without them (strict).
//
// A general engine is not used: compat needs the exact rank of hits among the
// first 10,000, which engines give only by collecting all of them.
package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// BM25 as Pyserini sets it. The floats are of 32 bits, as Lucene computes:
// 1 - b of them is not their 0.6, and the order of near ties depends on it.
const (
	k1 float32 = 0.9
	b  float32 = 0.4
)

// Limits of a query.
const (
	// MaxTerms bounds the different words of a query; Lucene's limit.
	MaxTerms = 1024
	// window is how many hits compat looks at before it filters.
	window = 10_000
	// relevant is how many of them it keeps before it sorts.
	relevant = 50
	pageSize = 10
)

// Meta tells what an index was made of.
type Meta struct {
	Version   int         `json:"version"`
	Catalogue agon.Digest `json:"catalogue"` // of the lines
	Products  int         `json:"products"`
	Terms     int         `json:"terms"`
	Postings  int         `json:"postings"`
	Tokens    int64       `json:"tokens"` // words of all products
	Documents int         `json:"documents"`
}

// Index is a built index. It is immutable and may be read at once from many
// goroutines; Close ends that. Columns stand in memory, products on disk.
type Index struct {
	meta  Meta
	blobs io.ReaderAt
	file  io.Closer // nil for one in memory
	row   []uint32  // of a product: its place in the catalogue
	// blobAt has three ends per row and a first 0: find row, view row, raw.
	blobAt []uint64

	ids       []byte // of all rows
	idAt      []uint32
	rank      []uint32 // place of a product among all ids, sorted
	byRank    []uint32
	price     []float64
	sold      []int64
	shop      []uint32
	shops     map[string]uint32
	shopNames []string // by number
	service   []uint8  // a bit for each of shop.Services
	norm      []uint8  // length, as Lucene keeps it

	terms  map[string]uint32
	postAt []uint64
	posts  []uint32
	tf     []uint8

	inverse [256]float32 // of the norm
	boundAt []uint32     // of a term's first bound
	bounds  []float32
	free    chan *scratch
}

// scratch is the memory of one running query.
type scratch struct {
	sum     []float64 // of the products of a window
	touched []uint32
	clauses []clause
	order   []int // of clauses, by what they can add
	tables  [][tableFreq][256]float64
	an      analyzer
}

// ready makes what is derived from the columns.
func (x *Index) ready() {
	x.shopNames = make([]string, len(x.shops))
	for s, i := range x.shops {
		x.shopNames[i] = s
	}
	average := float32(1)
	if x.meta.Documents > 0 {
		average = float32(float64(x.meta.Tokens) / float64(x.meta.Documents))
	}
	rest := float32(1)
	rest -= b // at run time: the compiler would compute it exactly
	for i := range x.inverse {
		part := float32(b*float32(byte4ToInt(uint8(i)))) / average
		x.inverse[i] = 1 / float32(k1*float32(rest+part))
	}
	n := 2 * runtime.GOMAXPROCS(0)
	x.free = make(chan *scratch, n)
	for range n {
		x.free <- &scratch{} // its memory comes with the first query
	}
	x.bound()
}

// Meta tells what the index was made of.
func (x *Index) Meta() Meta { return x.meta }

// Close ends the index; running queries fail.
func (x *Index) Close() error {
	if x.file == nil {
		return nil
	}
	return x.file.Close()
}

// Sort is the order of results.
type Sort uint8

// Orders.
const (
	ByRelevance Sort = iota
	BySales          // sold_count, greatest first
	ByPriceAsc
	ByPriceDesc
)

// Query is what to find.
type Query struct {
	Text   string
	Shop   string   // shop_id; "" = any
	Lo, Hi *float64 // price, both inclusive
	// Service lists what a product must all offer; names that are not a service match nothing.
	Service []string
	Sort    Sort
	Page    int // from 1, ten products each
}

// ErrTooManyTerms is returned for a query of more than MaxTerms different words.
var ErrTooManyTerms = fmt.Errorf("more than %d different words", MaxTerms)

// filter is a query's filters, compiled.
type filter struct {
	any     bool // there is one
	never   bool // nothing passes
	shop    uint32
	hasShop bool
	lo, hi  float64
	service uint8
}

func (x *Index) filter(q Query) filter {
	f := filter{lo: math.Inf(-1), hi: math.Inf(1)}
	if q.Shop != "" {
		f.any, f.hasShop = true, true
		id, ok := x.shops[q.Shop]
		if !ok {
			f.never = true
		}
		f.shop = id
	}
	if q.Lo != nil {
		f.any, f.lo = true, *q.Lo
	}
	if q.Hi != nil {
		f.any, f.hi = true, *q.Hi
	}
	for _, s := range q.Service {
		i := slices.Index(shop.Services(), s)
		if i < 0 {
			f.never = true
			continue
		}
		f.any = true
		f.service |= 1 << i
	}
	f.any = f.any || f.never
	return f
}

func (x *Index) passes(f *filter, d uint32) bool {
	return x.price[d] >= f.lo && x.price[d] <= f.hi && x.service[d]&f.service == f.service && (!f.hasShop || x.shop[d] == f.shop)
}

// Compat answers as ORO's server does: of the first 10,000 hits by relevance
// those that pass the filters, of these the first 50, and only then sorted. It
// returns numbers of products.
func (x *Index) Compat(ctx context.Context, q Query) ([]uint32, error) {
	return x.find(ctx, q, true)
}

// Strict filters all hits and sorts all that pass.
func (x *Index) Strict(ctx context.Context, q Query) ([]uint32, error) {
	return x.find(ctx, q, false)
}

// Relevant are the hits of all five pages of Compat; q.Page does not count.
func (x *Index) Relevant(ctx context.Context, q Query) ([]uint32, error) {
	q.Page = 1
	return x.hits(ctx, q, true)
}

// Best are the first n hits of Strict; q.Page does not count.
func (x *Index) Best(ctx context.Context, q Query, n int) ([]uint32, error) {
	q.Page = (n + pageSize - 1) / pageSize
	hits, err := x.hits(ctx, q, false)
	return hits[:min(n, len(hits))], err
}

func (x *Index) find(ctx context.Context, q Query, compat bool) ([]uint32, error) {
	hits, err := x.hits(ctx, q, compat)
	from := (q.Page - 1) * pageSize
	if err != nil || q.Page < 1 || from >= len(hits) {
		return nil, err
	}
	return hits[from:min(len(hits), from+pageSize)], nil
}

// hits are those of the first pages: five in compat, else as many as q.Page says.
func (x *Index) hits(ctx context.Context, q Query, compat bool) ([]uint32, error) {
	f := x.filter(q)
	if q.Page < 1 || f.never || len(x.norm) == 0 {
		return nil, nil
	}
	var s *scratch
	select {
	case s = <-x.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { x.free <- s }()
	if compat {
		list, err := x.compat(ctx, q.Text, &f, s)
		if err != nil {
			return nil, err
		}
		x.sort(list, q.Sort)
		return list, nil
	}
	k := keeper{x: x, order: q.Sort, limit: q.Page * pageSize}
	if err := x.search(ctx, q.Text, &f, s, &k); err != nil {
		return nil, err
	}
	return docs(k.best()), nil
}

// compat are the first 50 that pass f of the first 10,000 hits.
func (x *Index) compat(ctx context.Context, text string, f *filter, s *scratch) ([]uint32, error) {
	k := keeper{x: x, limit: relevant}
	if err := x.search(ctx, text, f, s, &k); err != nil {
		return nil, err
	}
	hits := k.best()
	all := 0 // at least as many as there are hits
	for _, c := range s.clauses {
		all += len(c.posts)
	}
	if !f.any || all <= window || len(hits) == 0 {
		return docs(hits), nil
	}
	if len(hits) == relevant { // mostly fewer than 10,000 stand before the last of them
		before := keeper{x: x, limit: window, floor: &hits[relevant-1], counting: true}
		if err := x.search(ctx, text, &filter{}, s, &before); err != nil {
			return nil, err
		}
		if !before.full() {
			return docs(hits), nil
		}
	}
	first := keeper{x: x, limit: window}
	if err := x.search(ctx, text, &filter{}, s, &first); err != nil {
		return nil, err
	}
	passed := slices.DeleteFunc(docs(first.best()), func(d uint32) bool { return !x.passes(f, d) })
	return passed[:min(relevant, len(passed))], nil
}

// sort orders hits, which are in order of relevance; equal ones keep it.
func (x *Index) sort(hits []uint32, order Sort) {
	if order != ByRelevance {
		slices.SortStableFunc(hits, func(a, b uint32) int { return x.compare(order, a, b) })
	}
}

func (x *Index) compare(order Sort, a, b uint32) int {
	var less, more bool
	switch order {
	case BySales:
		less, more = x.sold[a] > x.sold[b], x.sold[a] < x.sold[b]
	case ByPriceAsc:
		less, more = x.price[a] < x.price[b], x.price[a] > x.price[b]
	case ByPriceDesc:
		less, more = x.price[a] > x.price[b], x.price[a] < x.price[b]
	}
	switch {
	case less:
		return -1
	case more:
		return 1
	}
	return 0
}

// row kinds of blobs.
const (
	rowFind = iota
	rowView
	rowRaw
	rows
)

// blob reads one row of product d.
func (x *Index) blob(d uint32, row int) ([]byte, error) {
	i := int(x.row[d])*rows + row
	out := make([]byte, x.blobAt[i+1]-x.blobAt[i])
	if _, err := x.blobs.ReadAt(out, int64(x.blobAt[i])); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read product: %w", err)
	}
	return out, nil
}

func (x *Index) id(d uint32) []byte {
	i := x.row[d]
	return x.ids[x.idAt[i]:x.idAt[i+1]]
}

// ID is the product_id of a product that Compat or Strict returned.
func (x *Index) ID(d uint32) string { return string(x.id(d)) }

// lookup finds the product of an id.
func (x *Index) lookup(id string) (uint32, bool) {
	i, ok := slices.BinarySearchFunc(x.byRank, id, func(d uint32, id string) int { return strings.Compare(string(x.id(d)), id) })
	if !ok {
		return 0, false
	}
	return x.byRank[i], true
}

// ShopOf is the shop_id of a product, "" where there is none of that id.
func (x *Index) ShopOf(id string) string {
	d, ok := x.lookup(id)
	if !ok {
		return ""
	}
	return x.shopNames[x.shop[d]]
}

// Product returns the product of an id, nil where there is none. It makes an
// Index the catalogue of a scorer.
func (x *Index) Product(_ context.Context, id string) (*shop.Product, error) {
	d, ok := x.lookup(id)
	if !ok {
		return nil, nil
	}
	raw, err := x.blob(d, rowRaw)
	if err != nil {
		return nil, err
	}
	p := new(shop.Product)
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("read product %s: %w", id, err)
	}
	return p, nil
}

// IDs calls yield for the id of every product, sorted, until it returns false.
func (x *Index) IDs(yield func(id string) bool) {
	for _, d := range x.byRank {
		if !yield(string(x.id(d))) {
			return
		}
	}
}

// byte4ToInt and intToByte4 are how Lucene keeps a length in a byte: exact to
// 40, then with four significant bits.
func byte4ToInt(v uint8) int {
	const free = 24
	if v < free {
		return int(v)
	}
	return free + int4ToInt(int(v)-free)
}

func int4ToInt(i int) int {
	m, shift := i&7, i>>3-1
	if shift < 0 {
		return m
	}
	return (m | 8) << shift
}

func intToByte4(n int) uint8 {
	const free = 24
	if n < free {
		return uint8(n)
	}
	n = min(n, math.MaxInt32) - free
	width := bits.Len(uint(n))
	if width < 4 {
		return uint8(free + n)
	}
	shift := width - 4
	return uint8(free + (n>>shift&7 | (shift+1)<<3))
}
