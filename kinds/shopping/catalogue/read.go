// Package catalogue reads and makes catalogues: one product per line of JSON, in
// ShoppingBench's schema, bare or as the product of {id, contents, product}; plain,
// or packed with gzip or zstd.
package catalogue

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/plain"
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
	// Skip is called for a line that is wrong, and the reader goes on with the next; nil:
	// the first such line ends the catalogue.
	Skip func(line int, err error)

	in   *bufio.Reader
	err  error // of unpacking
	line int
	seen map[string]int32 // product_id -> line
	buf  []byte
}

// maxWindow bounds the memory of unpacking a zstd frame, in bytes.
const maxWindow = 256 << 20

// NewReader reads from in, which it unpacks by the bytes that it begins with.
func NewReader(in io.Reader) *Reader {
	r := &Reader{in: bufio.NewReaderSize(in, 256<<10), seen: map[string]int32{}}
	head, err := r.in.Peek(4)
	if err != nil {
		return r // shorter than any packed file
	}
	switch {
	case head[0] == 0x1f && head[1] == 0x8b:
		z, err := gzip.NewReader(r.in)
		if err != nil {
			r.err = invalid("file", "", "the file begins as gzip and is none: %v", err)
			return r
		}
		r.in = bufio.NewReaderSize(z, 256<<10)
	case string(head) == "\x28\xb5\x2f\xfd":
		z, err := zstd.NewReader(r.in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
		if err != nil {
			r.err = invalid("file", "", "the file begins as zstd and is none: %v", err)
			return r
		}
		r.in = bufio.NewReaderSize(z, 256<<10)
	}
	return r
}

// Next returns the next product and its line without the end, which stays
// valid until the next call. io.EOF ends the catalogue; any other error is an
// *agon.Error that names line, field and limit. Blank lines are skipped.
func (r *Reader) Next() (*shop.Product, []byte, error) {
	for {
		line, err := r.readLine()
		long := errors.Is(err, errLong)
		if err != nil && !long {
			return nil, nil, err
		}
		if !long && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		p, own, err := r.product(line, long)
		switch {
		case err == nil:
			return p, own, nil
		case r.Skip == nil || errors.Is(err, errMany):
			return nil, nil, err
		}
		r.Skip(r.line, err)
	}
}

// errMany and errLong are what a catalogue has too much of.
var errMany, errLong = errors.New("too many products"), errors.New("the line is too long")

// product reads a line, and remembers its id.
func (r *Reader) product(line []byte, long bool) (*shop.Product, []byte, error) {
	if long {
		return nil, nil, invalid("line", fmt.Sprintf("%d bytes", MaxLine), "line %d is too long", r.line)
	}
	p, own, err := parse(line)
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
		e := invalid("products", fmt.Sprintf("%d products", MaxProducts), "line %d: too many products", r.line)
		e.Err = errMany
		return nil, nil, e
	}
	r.seen[p.ProductID] = int32(r.line)
	return p, own, nil
}

// readLine returns errLong for a line beyond MaxLine, when it has passed its end.
func (r *Reader) readLine() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	r.line++
	r.buf = r.buf[:0]
	long := false
	for {
		part, err := r.in.ReadSlice('\n')
		if !long {
			r.buf = append(r.buf, part...)
		}
		if len(r.buf) > MaxLine+2 {
			long = true
			if r.Skip == nil {
				return nil, errLong // nobody goes on
			}
			r.buf = r.buf[:0]
		}
		switch {
		case long && (err == nil || errors.Is(err, io.EOF)):
			return nil, errLong
		case err == nil || (errors.Is(err, io.EOF) && len(r.buf) > 0):
			return bytes.TrimRight(r.buf, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, invalid("file", "", "line %d: the file cannot be read further: %v", r.line, err)
		}
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
	ProductID *id      `json:"product_id"`
	ShopID    *id      `json:"shop_id"`
	Title     *string  `json:"title"`
	Price     *float64 `json:"price"`
}

// id is a text, or a whole number that stands for its digits, as exports have it.
type id string

// anyID is the field of an id's error until it is known which one it is.
const anyID = "product_id, shop_id"

// wrongID names the first id of a product that is none.
func wrongID(line []byte) string {
	var ids struct {
		Product json.RawMessage `json:"product_id"`
	}
	var x id
	if json.Unmarshal(line, &ids) == nil && len(ids.Product) > 0 && json.Unmarshal(ids.Product, &x) != nil {
		return "product_id"
	}
	return "shop_id"
}

func (x *id) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] != '"' {
		if len(b) > MaxID || !wholeNumber(b) {
			return &json.UnmarshalTypeError{Value: "value", Type: reflect.TypeFor[string](), Field: anyID}
		}
		*x = id(b)
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	*x = id(s)
	return nil
}

func wholeNumber(b []byte) bool {
	return len(b) > 0 && !slices.ContainsFunc(b, func(c byte) bool { return c < '0' || c > '9' })
}

// count is a whole number, also where it is written 12.0.
type count int64

func (x *count) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var f float64
	if err := json.Unmarshal(b, &f); err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return &json.UnmarshalTypeError{Value: "number", Type: reflect.TypeFor[int64](), Field: "sold_count"}
	}
	*x = count(f)
	return nil
}

// parse also returns the product's own JSON: the line, what stands in it as
// product, or, where values were of another form, the product written anew.
func parse(line []byte) (*shop.Product, []byte, error) {
	if !utf8.Valid(line) {
		return nil, nil, invalid("line", "", "not UTF-8")
	}
	var form struct {
		ID      *id             `json:"id"`
		Product json.RawMessage `json:"product"`
		Own     json.RawMessage `json:"product_id"`
	}
	outer, own := id(""), line
	if json.Unmarshal(line, &form) == nil && form.Own == nil && len(form.Product) > 0 && form.Product[0] == '{' {
		if own = form.Product; form.ID != nil {
			outer = *form.ID
		}
	}
	p, same, err := parseProduct(own)
	if err != nil {
		return nil, nil, err
	}
	if outer != "" && string(outer) != p.ProductID {
		return nil, nil, invalid("id", "", "id %.64q is not that of its product, %.64q", string(outer), p.ProductID)
	}
	if !same {
		if own, err = json.Marshal(p); err != nil {
			return nil, nil, invalid("line", "", "cannot be written: %v", err)
		}
	}
	return p, own, nil
}

// parseProduct reports, too, whether every value has the form of the schema.
func parseProduct(line []byte) (p *shop.Product, same bool, err error) {
	var both struct {
		required
		product
	}
	if err := json.Unmarshal(line, &both); err != nil {
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) && t.Field != "" {
			name := plain.Short(lastName(t.Field), maxFieldInText)
			if name == anyID {
				name = wrongID(line)
			}
			return nil, false, invalid(name, "", "%s: %s does not fit, want %s", name, t.Value, want(t.Type.String()))
		}
		return nil, false, invalid("line", "", "not a JSON object: %v", err)
	}
	req := both.required
	for _, f := range []struct {
		name string
		ok   bool
	}{{"product_id", req.ProductID != nil}, {"shop_id", req.ShopID != nil}, {"title", req.Title != nil}, {"price", req.Price != nil}} {
		if !f.ok {
			return nil, false, invalid(f.name, "", "%s is missing", f.name)
		}
	}
	q := both.product
	p = &shop.Product{
		ProductID: string(*req.ProductID), ShopID: string(*req.ShopID), Title: *req.Title, Price: *req.Price,
		Brand: q.Brand, Category: q.Category, ShortDescription: q.ShortDescription, Description: q.Description, Specification: q.Specification,
		SoldCount: int64(q.SoldCount), SKUOptions: q.SKUOptions, Attributes: q.Attributes, MainImageURL: q.MainImageURL, ProductURL: q.ProductURL, Service: q.Service,
	}
	if err := Check(p); err != nil {
		return nil, false, err
	}
	var plain struct {
		ProductID *string `json:"product_id"`
		ShopID    *string `json:"shop_id"`
		SoldCount int64   `json:"sold_count"`
	}
	return p, json.Unmarshal(line, &plain) == nil, nil
}

// product is what of a product may be missing.
type product struct {
	Brand            string                       `json:"brand"`
	Category         string                       `json:"category"`
	ShortDescription string                       `json:"short_description"`
	Description      string                       `json:"description"`
	Specification    string                       `json:"specification"`
	SoldCount        count                        `json:"sold_count"`
	SKUOptions       map[string]map[string]string `json:"sku_options"`
	Attributes       map[string][]string          `json:"attributes"`
	MainImageURL     string                       `json:"main_image_url"`
	ProductURL       string                       `json:"product_url"`
	Service          []string                     `json:"service"`
}

func lastName(field string) string {
	field = strings.TrimPrefix(field, "required.")
	field = strings.TrimPrefix(field, "product.")
	if a, b, ok := strings.Cut(field, "."); ok && a == b { // a type that names its field itself
		return a
	}
	return field
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
