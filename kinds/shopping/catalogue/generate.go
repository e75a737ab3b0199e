package catalogue

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/seeds"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Version names the tables and rules of Generate: equal options give equal
// bytes while it stays.
const Version = "1"

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
			id: strconv.Itoa(500_000 + i*7 + r.N(7)), name: name, language: language, home: r.N(len(categories)), official: r.Float() * r.Float(), cod: r.Float(),
		})
	}
	r = NewRandom(o.Seed, "brands")
	for range categories {
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
	ci := s.home
	if r.Bool(.45) {
		ci = r.N(len(categories))
	}
	c := categories[ci]
	brand := "no brand"
	if r.Bool(.85) {
		brand = pick(r, g.brands[ci])
	}
	language := "en"
	if r.Bool(.7) {
		language = s.language
	}
	p := &shop.Product{
		// A bijection below 2^30: ids say nothing about order.
		ProductID: strconv.Itoa(1_000_000_000 + int((uint32(i)*0x9e3779b1^g.mask)&0x3fffffff)),
		ShopID:    s.id, Brand: brand, Category: c.path, Attributes: map[string][]string{}, SKUOptions: map[string]map[string]string{}, Service: []string{},
	}
	noun := pick(r, c.names[language])
	title := g.title(r, c, p, language, brand, noun)
	p.Title = title
	g.options(r, c, p)
	// Only products and sums, each rounded on its own: every machine gets the same price.
	v := (r.Float() + r.Float()) / 2
	v = float64(v * v)
	p.Price = math.Round(c.lo + float64((c.hi-c.lo)*v))
	if r.Bool(.4) {
		p.Price -= []float64{.01, .5, .05}[r.N(3)]
	}
	v = r.Float()
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
	english := c.names["en"][0]
	p.ShortDescription = capital(noun) + " · " + s.name
	var d []string
	for range 3 + r.N(4) {
		line := pick(r, sentences)
		line = strings.Replace(line, "%s", english, 1)
		d = append(d, line)
	}
	p.Description = title + ". " + strings.Join(d, " ")
	var spec []string
	for _, a := range c.attrs {
		if vs := p.Attributes[a.key]; len(vs) > 0 {
			spec = append(spec, a.key+": "+strings.Join(vs, ", "))
		}
	}
	p.Specification = strings.Join(spec, "; ")
	p.MainImageURL = "https://img.shop.example/" + p.ProductID + ".jpg"
	p.ProductURL = "https://shop.example/products/" + p.ProductID
	return p
}

// title joins brand, adjective, noun, an attribute and a closer in the order of the language.
func (g *generator) title(r *Random, c category, p *shop.Product, language, brand, noun string) string {
	main := pick(r, c.attrs)
	value := pick(r, main.values)
	p.Attributes[main.key] = []string{value}
	show := value
	if value == "yes" || value == "no" {
		show = ""
		if value == "yes" {
			show = main.key
		}
	}
	adjective := pick(r, adjectives[language])
	parts := []string{}
	if brand != "no brand" {
		parts = append(parts, capital(brand))
	}
	switch language {
	case "en", "fil", "zh":
		parts = append(parts, adjective, noun, show)
	default: // the noun comes first
		parts = append(parts, noun, adjective, show)
	}
	if r.Bool(.5) {
		parts = append(parts, strings.ToUpper(string(rune('a'+r.N(26))))+strconv.Itoa(10+r.N(990)))
	}
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

func (g *generator) options(r *Random, c category, p *shop.Product) {
	for _, a := range c.attrs {
		if _, ok := p.Attributes[a.key]; ok || r.Bool(.15) {
			continue
		}
		vs := []string{pick(r, a.values)}
		if v := pick(r, a.values); v != vs[0] && v != "yes" && v != "no" && vs[0] != "yes" && vs[0] != "no" && r.Bool(.2) {
			vs = append(vs, v)
		}
		p.Attributes[a.key] = vs
	}
	p.Attributes["brand"] = []string{p.Brand}
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
