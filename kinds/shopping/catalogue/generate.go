package catalogue

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Version names the tables and rules of Generate: equal options give equal
// bytes while it stays.
const Version = "2"

// Options say what to generate.
type Options struct {
	Products int    // 1 to MaxProducts
	Seed     uint64 // the same seed gives the same bytes
}

// Check reports options that are out of bounds, as an *agon.Error.
func (o Options) Check() error {
	if o.Products < 1 || o.Products > MaxProducts {
		return &agon.Error{
			Code: "invalid_argument", Status: 422, Field: "products", Limit: fmt.Sprintf("1 to %d", MaxProducts),
			Message: fmt.Sprintf("products: %d is out of bounds", o.Products), Mend: "ask for fewer products",
		}
	}
	return nil
}

// Generate writes a catalogue of invented products, one JSON object a line.
// Products share brands, categories and shops, so that near matches are many.
func Generate(w io.Writer, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	buf := bufio.NewWriterSize(w, 256<<10)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	g := newGenerator(o)
	for i := range o.Products {
		if err := enc.Encode(g.product(i)); err != nil {
			return fmt.Errorf("write catalogue: %w", err)
		}
	}
	if err := buf.Flush(); err != nil {
		return fmt.Errorf("write catalogue: %w", err)
	}
	return nil
}

// Products generates into memory.
func Products(o Options) ([]*shop.Product, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	g := newGenerator(o)
	out := make([]*shop.Product, o.Products)
	for i := range out {
		out[i] = g.product(i)
	}
	return out, nil
}

// Random is a small generator (splitmix64) whose numbers never change with a
// library. It is not for secrets.
type Random struct{ state uint64 }

// NewRandom is domain-separated: different labels give unrelated numbers.
func NewRandom(seed uint64, labels ...string) *Random {
	s := seeds.Derive("shop", append([]string{strconv.FormatUint(seed, 10)}, labels...)...)
	return &Random{uint64(s)}
}

// Uint64 is the next number.
func (r *Random) Uint64() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// N is a number in [0, n).
func (r *Random) N(n int) int { return int(r.Uint64() % uint64(n)) }

// Float is a number in [0, 1).
func (r *Random) Float() float64 { return float64(r.Uint64()>>11) / (1 << 53) }

// Bool is true with chance p.
func (r *Random) Bool(p float64) bool { return r.Float() < p }

// Bytes fills b.
func (r *Random) Bytes(b []byte) {
	for i := 0; i < len(b); i += 8 {
		var w [8]byte
		binary.BigEndian.PutUint64(w[:], r.Uint64())
		copy(b[i:], w[:])
	}
}

func pick[T any](r *Random, list []T) T { return list[r.N(len(list))] }

type store struct {
	id, name, language string
	home               int // index of the category it mostly sells
	official, cod      float64
}

type generator struct {
	o      Options
	stores []store
	brands [][]string // by category
	mask   uint32
}

const productsPerStore = 14

func newGenerator(o Options) *generator {
	g := &generator{o: o}
	r := NewRandom(o.Seed, "shops", strconv.Itoa(o.Products))
	g.mask = uint32(r.Uint64()) & 0x3fffffff
	n := max(3, o.Products/productsPerStore)
	for i := range n {
		name := word(r, 2) + " " + pick(r, shopWords)
		language := "en"
		if r.Bool(.5) {
			language = pick(r, languages)
		}
		g.stores = append(g.stores, store{
			id: strconv.Itoa(500_000 + i*7 + r.N(7)), name: name, language: language, home: r.N(len(all())), official: r.Float() * r.Float(), cod: r.Float(),
		})
	}
	r = NewRandom(o.Seed, "brands")
	for range all() {
		var list []string
		for range 9 {
			list = append(list, word(r, 2+r.N(2)))
		}
		g.brands = append(g.brands, list)
	}
	return g
}

func word(r *Random, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(pick(r, syllables))
	}
	return b.String()
}

// product makes product i. It depends on seed, count and i only.
func (g *generator) product(i int) *shop.Product {
	r := NewRandom(g.o.Seed, "product", strconv.Itoa(i))
	// A few shops sell most: the square makes low indices likelier.
	u := r.Float()
	s := g.stores[int(u*u*float64(len(g.stores)))]
	of := i
	if r.Bool(shareVariants) {
		of -= 1 + r.N(variantReach)
	}
	own := max(of, 0) == i
	t := g.thing(max(of, 0))
	language := "en"
	if r.Bool(.7) {
		language = s.language
	}
	p := &shop.Product{
		// A bijection below 2^30: ids say nothing about order.
		ProductID: strconv.Itoa(1_000_000_000 + int((uint32(i)*0x9e3779b1^g.mask)&0x3fffffff)),
		ShopID:    s.id, Brand: t.brand, Category: t.c.path, Attributes: t.attributes, SKUOptions: map[string]map[string]string{}, Service: []string{},
	}
	noun := pick(r, t.c.namesIn(language))
	if !own {
		g.vary(r, t.c, p)
	}
	p.Title = g.title(r, t, p, language, noun)
	g.options(r, t.c, p)
	p.Price = t.price
	if !own { // other shops ask for 80 to 125 percent
		p.Price = max(1, math.Round(float64(p.Price*(.8+float64(.45*r.Float())))))
	}
	switch {
	case r.Bool(shareBundles):
		g.bundle(r, p)
	case r.Bool(shareParts):
		g.part(r, t.c, p, noun)
	}
	if r.Bool(.4) && p.Price > 2 {
		p.Price -= []float64{.01, .5, .05}[r.N(3)]
	}
	g.trade(r, s, p)
	english := t.c.names["en"][0]
	p.ShortDescription = capital(noun) + " · " + s.name
	d := []string{capital(noun) + "."}
	if strings.HasPrefix(p.Category, PartsPath) {
		p.ShortDescription, d = "Accessory · "+s.name, nil
	}
	for range 3 + r.N(4) {
		line := pick(r, sentences)
		line = strings.Replace(line, "%s", english, 1)
		d = append(d, line)
	}
	p.Description = strings.Join(d, " ")
	p.MainImageURL = "https://img.shop.example/" + p.ProductID + ".jpg"
	p.ProductURL = "https://shop.example/products/" + p.ProductID
	g.dirty(r, t.c, p)
	return p
}

// trade says how often a product was sold, and with which services it comes.
func (g *generator) trade(r *Random, s store, p *shop.Product) {
	v := r.Float()
	v = float64(v * v)
	v = float64(v * v)
	p.SoldCount = int64(float64(30_000 * float64(v*r.Float())))
	for _, f := range []struct {
		name   string
		chance float64
	}{{"official", s.official}, {"freeShipping", .4}, {"COD", s.cod}, {"flashsale", .12}} {
		if r.Bool(f.chance) {
			p.Service = append(p.Service, f.name)
		}
	}
}

// thing is what a listing is about: shops that list the same thing share it.
type thing struct {
	c                category
	brand, adjective string
	model            string // "" for half of them
	attributes       map[string][]string
	price            float64
}

// thing makes thing i; the maps are the caller's.
func (g *generator) thing(i int) thing {
	r := NewRandom(g.o.Seed, "thing", strconv.Itoa(i))
	u := r.Float()
	ci := g.stores[int(u*u*float64(len(g.stores)))].home
	if r.Bool(.45) {
		ci = r.N(len(all()))
	}
	t := thing{c: all()[ci], brand: "no brand", attributes: map[string][]string{}}
	if r.Bool(.85) {
		t.brand = pick(r, g.brands[ci])
	}
	t.adjective = pick(r, adjectives["en"])
	if r.Bool(.5) {
		t.model = strings.ToUpper(string(rune('a'+r.N(26)))) + strconv.Itoa(10+r.N(990))
	}
	for _, a := range t.c.attrs {
		vs := []string{pick(r, a.values)}
		if v := pick(r, a.values); v != vs[0] && v != "yes" && v != "no" && vs[0] != "yes" && vs[0] != "no" && r.Bool(.1) {
			vs = append(vs, v)
		}
		t.attributes[a.key] = vs
	}
	t.attributes["brand"] = []string{t.brand}
	// Only products and sums, each rounded on its own: every machine gets the same price.
	v := (r.Float() + r.Float()) / 2
	v = float64(v * v)
	t.price = math.Round(t.c.lo + float64((t.c.hi-t.c.lo)*v))
	return t
}

// title joins brand, adjective, noun, an attribute and a closer in the order of the language.
func (g *generator) title(r *Random, t thing, p *shop.Product, language, noun string) string {
	main := pick(r, t.c.attrs)
	value := p.Attributes[main.key][0]
	if r.Bool(shareLies) {
		value = pick(r, main.values)
	}
	show := value
	if value == "yes" || value == "no" {
		show = ""
		if value == "yes" {
			show = main.key
		}
	}
	adjective := t.adjective
	if i := slices.Index(adjectives["en"], adjective); i >= 0 {
		adjective = adjectives[language][i]
	}
	parts := []string{}
	if p.Brand != "no brand" && r.Bool(.9) {
		parts = append(parts, capital(p.Brand))
	}
	switch language {
	case "en", "fil", "zh":
		parts = append(parts, adjective, noun, show)
	default: // the noun comes first
		parts = append(parts, noun, adjective, show)
	}
	parts = append(parts, t.model)
	if r.Bool(.6) {
		parts = append(parts, pick(r, closers[language]))
	}
	kept := parts[:0]
	for _, s := range parts {
		if s != "" {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, " ")
}

// options are what a buyer may choose.
func (g *generator) options(r *Random, c category, p *shop.Product) {
	n := 1 + r.N(6)
	seen := map[string]bool{}
	for range n {
		option, key := map[string]string{}, ""
		for _, a := range c.sku {
			v := pick(r, a.values)
			option[a.key] = v
			key += v + "/"
		}
		if !seen[key] {
			seen[key] = true
			p.SKUOptions[strconv.Itoa(len(seen))] = option
		}
	}
}

func capital(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return string(s[0]-'a'+'A') + s[1:]
}
