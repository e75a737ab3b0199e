// Package catalogue reads and makes catalogues: one product per line of JSON,
// in ShoppingBench's schema.
package catalogue

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Limits of a catalogue. They are checked while reading.
const (
	MaxProducts    = 5_000_000
	MaxLine        = 1 << 20 // bytes of a product's line
	MaxID          = 64      // bytes of product_id and shop_id
	MaxTitle       = 1000    // characters
	MaxText        = 65_536  // bytes of any other text
	MaxSKUOptions  = 100
	MaxKeys        = 200 // keys of attributes, or of one SKU option
	MaxValues      = 200 // values of one attribute
	MaxValue       = 500 // bytes of a key or a value of SKU options and attributes
	MaxPrice       = 1e12
	maxFieldInText = 60
)

// Reader reads the products of a catalogue, one after the other. It keeps the
// ids that it has seen and refuses a second product of one id.
type Reader struct {
	in   *bufio.Reader
	line int
	seen map[string]int32 // product_id -> line
	buf  []byte
}

// NewReader reads from in.
func NewReader(in io.Reader) *Reader {
	return &Reader{in: bufio.NewReaderSize(in, 256<<10), seen: map[string]int32{}}
}

// Line is the number of the line that was read last, from 1.
func (r *Reader) Line() int { return r.line }

// Next returns the next product and its line without the end, which stays
// valid until the next call. io.EOF ends the catalogue; any other error is an
// *agon.Error that names line, field and limit. Blank lines are skipped.
func (r *Reader) Next() (*shop.Product, []byte, error) {
	for {
		line, err := r.readLine()
		if err != nil {
			return nil, nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		p, err := Parse(line)
		if err != nil {
			var e *agon.Error
			if errors.As(err, &e) {
				e.Message = fmt.Sprintf("line %d: %s", r.line, e.Message)
			}
			return nil, nil, err
		}
		if first, ok := r.seen[p.ProductID]; ok {
			return nil, nil, invalid("product_id", "", "line %d: product_id %q stands on line %d already", r.line, p.ProductID, first)
		}
		if len(r.seen) >= MaxProducts {
			return nil, nil, invalid("products", fmt.Sprintf("%d products", MaxProducts), "line %d: too many products", r.line)
		}
		r.seen[p.ProductID] = int32(r.line)
		return p, line, nil
	}
}

func (r *Reader) readLine() ([]byte, error) {
	r.line++
	r.buf = r.buf[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		r.buf = append(r.buf, part...)
		if len(r.buf) > MaxLine+2 {
			return nil, invalid("line", fmt.Sprintf("%d bytes", MaxLine), "line %d is too long", r.line)
		}
		switch {
		case err == nil || (errors.Is(err, io.EOF) && len(r.buf) > 0):
			return bytes.TrimRight(r.buf, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("read catalogue: %w", err)
		}
	}
}

// ReadAll reads a whole catalogue into memory.
func ReadAll(in io.Reader) ([]*shop.Product, error) {
	r := NewReader(in)
	var out []*shop.Product
	for {
		p, _, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
}

func invalid(field, limit, format string, args ...any) *agon.Error {
	return &agon.Error{
		Code: "invalid_catalogue", Status: 422, Field: field, Limit: limit, Message: fmt.Sprintf(format, args...),
		Mend: "mend that line; kinds/shopping/README.md lists the fields",
	}
}

// required are the fields without which a product cannot be found, filtered or scored.
type required struct {
	ProductID *string  `json:"product_id"`
	ShopID    *string  `json:"shop_id"`
	Title     *string  `json:"title"`
	Price     *float64 `json:"price"`
}

// Parse reads one product. Fields outside the schema are ignored; an error is
// an *agon.Error that names the field.
func Parse(line []byte) (*shop.Product, error) {
	if !utf8.Valid(line) {
		return nil, invalid("line", "", "not UTF-8")
	}
	var both struct {
		required
		product
	}
	if err := json.Unmarshal(line, &both); err != nil {
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) && t.Field != "" {
			name := cut(lastName(t.Field))
			return nil, invalid(name, "", "%s: %s does not fit, want %s", name, t.Value, want(t.Type.String()))
		}
		return nil, invalid("line", "", "not a JSON object: %v", err)
	}
	req := both.required
	for _, f := range []struct {
		name string
		ok   bool
	}{{"product_id", req.ProductID != nil}, {"shop_id", req.ShopID != nil}, {"title", req.Title != nil}, {"price", req.Price != nil}} {
		if !f.ok {
			return nil, invalid(f.name, "", "%s is missing", f.name)
		}
	}
	q := both.product
	p := &shop.Product{
		ProductID: *req.ProductID, ShopID: *req.ShopID, Title: *req.Title, Price: *req.Price,
		Brand: q.Brand, Category: q.Category, ShortDescription: q.ShortDescription, Description: q.Description, Specification: q.Specification,
		SoldCount: q.SoldCount, SKUOptions: q.SKUOptions, Attributes: q.Attributes, MainImageURL: q.MainImageURL, ProductURL: q.ProductURL, Service: q.Service,
	}
	if err := Check(p); err != nil {
		return nil, err
	}
	return p, nil
}

// product is what of a product may be missing.
type product struct {
	Brand            string                       `json:"brand"`
	Category         string                       `json:"category"`
	ShortDescription string                       `json:"short_description"`
	Description      string                       `json:"description"`
	Specification    string                       `json:"specification"`
	SoldCount        int64                        `json:"sold_count"`
	SKUOptions       map[string]map[string]string `json:"sku_options"`
	Attributes       map[string][]string          `json:"attributes"`
	MainImageURL     string                       `json:"main_image_url"`
	ProductURL       string                       `json:"product_url"`
	Service          []string                     `json:"service"`
}

func lastName(field string) string {
	field = strings.TrimPrefix(field, "required.")
	return strings.TrimPrefix(field, "product.")
}

func want(goType string) string {
	switch {
	case strings.HasPrefix(goType, "map"):
		return "an object"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case goType == "string":
		return "text"
	case goType == "int64":
		return "a whole number"
	}
	return "a number"
}

func cut(s string) string {
	if len(s) > maxFieldInText {
		return strings.ToValidUTF8(s[:maxFieldInText], "") + "…"
	}
	return s
}

// Check reports the first thing that is wrong with a product, as an *agon.Error.
func Check(p *shop.Product) error {
	for _, f := range []struct {
		name, s string
	}{{"product_id", p.ProductID}, {"shop_id", p.ShopID}} {
		switch {
		case f.s == "":
			return invalid(f.name, "", "%s is empty", f.name)
		case len(f.s) > MaxID:
			return invalid(f.name, fmt.Sprintf("%d bytes", MaxID), "%s: %d bytes are too many", f.name, len(f.s))
		case strings.ContainsFunc(f.s, func(r rune) bool { return r == ',' || unicode.IsSpace(r) || unicode.IsControl(r) }):
			return invalid(f.name, "", "%s %q: commas, blanks and control characters cannot be asked for", f.name, f.s)
		}
	}
	if strings.TrimSpace(p.Title) == "" {
		return invalid("title", "", "title is empty")
	}
	if n := utf8.RuneCountInString(p.Title); n > MaxTitle {
		return invalid("title", fmt.Sprintf("%d characters", MaxTitle), "title: %d characters are too many", n)
	}
	for _, f := range []struct {
		name, s string
	}{
		{"title", p.Title},
		{"brand", p.Brand},
		{"category", p.Category},
		{"short_description", p.ShortDescription},
		{"description", p.Description},
		{"specification", p.Specification},
		{"main_image_url", p.MainImageURL},
		{"product_url", p.ProductURL},
	} {
		if err := text(f.name, f.s, MaxText); err != nil {
			return err
		}
	}
	if !(p.Price >= 0 && p.Price <= MaxPrice) || math.IsNaN(p.Price) {
		return invalid("price", fmt.Sprintf("0 to %g", MaxPrice), "price %v is out of bounds", p.Price)
	}
	if p.SoldCount < 0 {
		return invalid("sold_count", "at least 0", "sold_count %d is out of bounds", p.SoldCount)
	}
	known := shop.Services()
	for i, s := range p.Service {
		if !slices.Contains(known, s) {
			return invalid("service", strings.Join(known, ", "), "service %.40q is unknown", s)
		}
		if slices.Contains(p.Service[:i], s) {
			return invalid("service", "", "service %q is listed twice", s)
		}
	}
	return checkOptions(p)
}

func checkOptions(p *shop.Product) error {
	if len(p.SKUOptions) > MaxSKUOptions {
		return invalid("sku_options", fmt.Sprintf("%d options", MaxSKUOptions), "sku_options: %d are too many", len(p.SKUOptions))
	}
	for name, option := range p.SKUOptions {
		if err := text("sku_options", name, MaxValue); err != nil {
			return err
		}
		if len(option) > MaxKeys {
			return invalid("sku_options", fmt.Sprintf("%d keys", MaxKeys), "sku_options: %d keys are too many", len(option))
		}
		for k, v := range option {
			if err := cmpErr(text("sku_options", k, MaxValue), text("sku_options", v, MaxValue)); err != nil {
				return err
			}
		}
	}
	if len(p.Attributes) > MaxKeys {
		return invalid("attributes", fmt.Sprintf("%d keys", MaxKeys), "attributes: %d keys are too many", len(p.Attributes))
	}
	for k, vs := range p.Attributes {
		if err := text("attributes", k, MaxValue); err != nil {
			return err
		}
		if len(vs) > MaxValues {
			return invalid("attributes", fmt.Sprintf("%d values", MaxValues), "attributes: %d values of one key are too many", len(vs))
		}
		for _, v := range vs {
			if err := text("attributes", v, MaxValue); err != nil {
				return err
			}
		}
	}
	return nil
}

func cmpErr(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func text(field, s string, limit int) error {
	switch {
	case len(s) > limit:
		return invalid(field, fmt.Sprintf("%d bytes", limit), "%s: %d bytes are too many", field, len(s))
	case strings.IndexByte(s, 0) >= 0:
		return invalid(field, "", "%s holds a NUL byte", field)
	}
	return nil
}
