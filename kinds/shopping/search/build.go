package search

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/shopping/catalogue"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// builder gathers products in the order in which they come.
type builder struct {
	x      *Index
	out    io.Writer
	at     uint64
	sum    hash.Hash
	an     analyzer
	counts map[uint32]int
	order  []uint32
	buf    bytes.Buffer
	enc    *json.Encoder
	// The forward index: terms of all products one after the other.
	term []uint32
	tf   []uint8
	ends []uint64
	df   []uint32
}

func newBuilder(out io.Writer) *builder {
	w := &builder{
		x:   &Index{shops: map[string]uint32{}, terms: map[string]uint32{}, blobAt: []uint64{0}, idAt: []uint32{0}},
		out: out, sum: sha256.New(), counts: map[uint32]int{},
	}
	w.enc = json.NewEncoder(&w.buf)
	w.enc.SetEscapeHTML(false)
	return w
}

// findRow is a product as find_product lists it.
type findRow struct {
	ProductID string   `json:"product_id"`
	ShopID    string   `json:"shop_id"`
	Title     string   `json:"title"`
	Price     float64  `json:"price"`
	Service   []string `json:"service"`
	SoldCount int64    `json:"sold_count"`
}

// viewRow is a product as view_product_information shows it.
type viewRow struct {
	ProductID        string                       `json:"product_id"`
	ShortDescription string                       `json:"short_description"`
	Description      string                       `json:"description"`
	SKUOptions       map[string]map[string]string `json:"sku_options"`
	Attributes       map[string][]string          `json:"attributes"`
}

func (w *builder) add(p *shop.Product) error {
	q := *p // absent lists and objects are empty ones
	if q.Service == nil {
		q.Service = []string{}
	}
	if q.SKUOptions == nil {
		q.SKUOptions = map[string]map[string]string{}
	}
	if q.Attributes == nil {
		q.Attributes = map[string][]string{}
	}
	x := w.x
	if len(x.ids)+len(q.ProductID) > 1<<32-1 {
		return errors.New("build index: ids are too long together")
	}
	for _, row := range []any{
		findRow{q.ProductID, q.ShopID, q.Title, q.Price, q.Service, q.SoldCount},
		viewRow{q.ProductID, q.ShortDescription, q.Description, q.SKUOptions, q.Attributes},
		&q,
	} {
		w.buf.Reset()
		if err := w.enc.Encode(row); err != nil {
			return fmt.Errorf("build index: %w", err)
		}
		line := bytes.TrimSuffix(w.buf.Bytes(), []byte("\n"))
		if _, err := w.out.Write(line); err != nil {
			return fmt.Errorf("build index: %w", err)
		}
		w.at += uint64(len(line))
		x.blobAt = append(x.blobAt, w.at)
	}
	x.ids = append(x.ids, q.ProductID...)
	x.idAt = append(x.idAt, uint32(len(x.ids)))
	x.price = append(x.price, q.Price)
	x.sold = append(x.sold, q.SoldCount)
	id, ok := x.shops[q.ShopID]
	if !ok {
		id = uint32(len(x.shops))
		x.shops[strings.Clone(q.ShopID)] = id
	}
	x.shop = append(x.shop, id)
	var service uint8
	for i, s := range shop.Services() {
		if slices.Contains(q.Service, s) {
			service |= 1 << i
		}
	}
	x.service = append(x.service, service)
	w.words(&q)
	return nil
}

// words indexes title, values of SKU options and values of attributes.
func (w *builder) words(p *shop.Product) {
	x, n := w.x, 0
	clear(w.counts)
	w.order = w.order[:0]
	count := func(t string) bool {
		id, ok := x.terms[t]
		if !ok {
			id = uint32(len(x.terms))
			x.terms[strings.Clone(t)] = id
			w.df = append(w.df, 0)
		}
		if w.counts[id] == 0 {
			w.order = append(w.order, id)
		}
		w.counts[id]++
		n++
		return true
	}
	w.an.terms(p.Title, count)
	for _, name := range sorted(p.SKUOptions) {
		for _, k := range sorted(p.SKUOptions[name]) {
			w.an.terms(p.SKUOptions[name][k], count)
		}
	}
	for _, k := range sorted(p.Attributes) {
		for _, v := range p.Attributes[k] {
			w.an.terms(v, count)
		}
	}
	for _, id := range w.order {
		w.term = append(w.term, id)
		w.tf = append(w.tf, uint8(min(255, w.counts[id])))
		w.df[id]++
	}
	w.ends = append(w.ends, uint64(len(w.term)))
	x.norm = append(x.norm, intToByte4(n))
	x.meta.Tokens += int64(n)
	if n > 0 {
		x.meta.Documents++
	}
}

// sorted lists the keys of m: the same catalogue gives the same bytes.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// arrange numbers the products by length, shortest first: queries see the best of a word's products first.
func (w *builder) arrange() {
	x := w.x
	x.row = make([]uint32, len(x.norm))
	for i := range x.row {
		x.row[i] = uint32(i)
	}
	slices.SortStableFunc(x.row, func(a, b uint32) int { return cmp.Compare(x.norm[a], x.norm[b]) })
	x.price, x.sold, x.shop = arranged(x.price, x.row), arranged(x.sold, x.row), arranged(x.shop, x.row)
	x.service, x.norm = arranged(x.service, x.row), arranged(x.norm, x.row)
}

func arranged[T any](list []T, row []uint32) []T {
	out := make([]T, len(list))
	for d, i := range row {
		out[d] = list[i]
	}
	return out
}

// finish turns the forward index over. Blobs are the caller's.
func (w *builder) finish() *Index {
	x := w.x
	w.arrange()
	x.postAt = make([]uint64, len(w.df)+1)
	for i, n := range w.df {
		x.postAt[i+1] = x.postAt[i] + uint64(n)
	}
	x.posts, x.tf = make([]uint32, len(w.term)), make([]uint8, len(w.term))
	next := slices.Clone(x.postAt[:len(w.df)])
	for d, row := range x.row {
		from := uint64(0)
		if row > 0 {
			from = w.ends[row-1]
		}
		for i := from; i < w.ends[row]; i++ {
			at := next[w.term[i]]
			next[w.term[i]]++
			x.posts[at], x.tf[at] = uint32(d), w.tf[i]
		}
	}
	x.byRank = make([]uint32, len(x.norm))
	for d := range x.byRank {
		x.byRank[d] = uint32(d)
	}
	slices.SortFunc(x.byRank, func(a, b uint32) int { return bytes.Compare(x.id(a), x.id(b)) })
	x.rank = make([]uint32, len(x.norm))
	for i, d := range x.byRank {
		x.rank[d] = uint32(i)
	}
	x.meta.Version, x.meta.Products, x.meta.Terms, x.meta.Postings = formatVersion, len(x.norm), len(w.df), len(x.posts)
	x.meta.Catalogue = agon.Digest("sha256:" + hex.EncodeToString(w.sum.Sum(nil)))
	return x
}

// read adds every product of a catalogue.
func (w *builder) read(ctx context.Context, r *catalogue.Reader) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		p, line, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		_, _ = w.sum.Write(line) // a hash does not fail
		_, _ = w.sum.Write([]byte("\n"))
		if err := w.add(p); err != nil {
			return err
		}
	}
}

// Memory builds an index of a catalogue in memory, for small ones.
func Memory(ctx context.Context, in io.Reader) (*Index, error) {
	var blobs bytes.Buffer
	w := newBuilder(&blobs)
	if err := w.read(ctx, catalogue.NewReader(in)); err != nil {
		return nil, err
	}
	x := w.finish()
	x.blobs = bytes.NewReader(blobs.Bytes())
	x.ready()
	return x, nil
}
