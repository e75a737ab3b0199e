package search

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Limits of a request.
const (
	// MaxQuery bounds q, in bytes: Compat takes what the other server took, within reason.
	MaxQuery       = 256 << 10
	MaxQueryStrict = 4 << 10
	// MaxIDs bounds product_ids.
	MaxIDs       = 1000
	MaxIDsStrict = 50
	// maxPage is compat's; strict goes on to the end of the hits within maxPageStrict.
	maxPage       = 5
	maxPageStrict = 1000
	maxURL        = 1 << 20
	maxReply      = 16 << 20
)

// Service answers the routes of ORO's search server over one index. It may be
// shared by all runs.
type Service struct {
	Index *Index
	// Strict mends the quirks: it sorts before it cuts, says what is wrong with
	// a request instead of answering [], and trims ids.
	Strict bool
}

// Problem is the body of an error.
type Problem struct {
	Error string `json:"error"`
	Field string `json:"field,omitempty"`
	Limit string `json:"limit,omitempty"`
}

func refuse(field, limit, format string, args ...any) error {
	return &agon.Error{
		Code: "invalid_argument", Status: http.StatusBadRequest, Field: field, Limit: limit, Message: fmt.Sprintf(format, args...), Mend: "kinds/shopping/README.md lists the arguments",
	}
}

// ServeHTTP answers GET /, /health, /find_product, /view_product_information
// and /get_product_raw.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		answer(w, http.StatusMethodNotAllowed, marshal(Problem{Error: "only GET is allowed"}))
		return
	}
	if len(r.URL.RawQuery) > maxURL {
		answer(w, http.StatusRequestURITooLong, marshal(Problem{Error: "the query is too long", Limit: strconv.Itoa(maxURL) + " bytes"}))
		return
	}
	args := parseQuery(r.URL.RawQuery)
	var body []byte
	var err error
	switch r.URL.Path {
	case "/":
		body = []byte(`{"service":"search-server","endpoints":["/find_product","/view_product_information","/get_product_raw","/health"]}`)
	case "/health":
		body = []byte(`{"status":"healthy","service":"search-server"}`)
	case "/find_product":
		body, err = s.Find(r.Context(), args)
	case "/view_product_information":
		body, err = s.View(r.Context(), args)
	case "/get_product_raw":
		body, err = s.Raw(r.Context(), args)
	default:
		err = &agon.Error{Code: "not_found", Status: http.StatusNotFound, Message: "not found"}
	}
	var refused *agon.Error
	switch {
	case err == nil:
		answer(w, http.StatusOK, body)
	case errors.As(err, &refused):
		answer(w, refused.Status, marshal(Problem{refused.Message, refused.Field, refused.Limit}))
	case r.Context().Err() != nil:
		answer(w, http.StatusServiceUnavailable, marshal(Problem{Error: "the request was given up"}))
	default:
		answer(w, http.StatusInternalServerError, marshal(Problem{Error: err.Error()}))
	}
}

func marshal(p Problem) []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic("search: a text does not encode: " + err.Error())
	}
	return b
}

func answer(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone
}

// Args are the parameters of a request; the first of equal names counts.
type Args map[string]string

// parseQuery reads a query string as Python's servers do: "+" is a blank, a
// broken escape stays as it is, only "&" separates.
func parseQuery(raw string) Args {
	args := Args{}
	for len(raw) > 0 && len(args) < 50 {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		name, value, _ := strings.Cut(pair, "=")
		name = unescape(name)
		if _, ok := args[name]; !ok {
			args[name] = unescape(value)
		}
	}
	return args
}

func unescape(s string) string {
	if out, err := url.QueryUnescape(s); err == nil {
		return strings.ToValidUTF8(out, "\uFFFD")
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			b.WriteByte(' ')
		case s[i] == '%' && i+2 < len(s) && hexDigit(s[i+1]) >= 0 && hexDigit(s[i+2]) >= 0:
			b.WriteByte(byte(hexDigit(s[i+1])<<4 | hexDigit(s[i+2])))
			i += 2
		default:
			b.WriteByte(s[i])
		}
	}
	return strings.ToValidUTF8(b.String(), "\uFFFD")
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// operators are the characters of Lucene's query syntax; each becomes a blank.
const operators = `+-&|!(){}[]^"~*?:\/`

func sanitize(q string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && strings.IndexByte(operators, byte(r)) >= 0 {
			return ' '
		}
		return r
	}, q))
}

// quoted is what a second quoting leaves of text that is not ASCII.
var quoted = lazyregexp.New(`(?:%[89A-Fa-f][0-9A-Fa-f])+`)

// unquote undoes the second quoting of a query that its sender quoted before the client did.
func unquote(q string) string {
	return quoted().ReplaceAllStringFunc(q, func(run string) string {
		if out := unescape(run); !strings.ContainsRune(out, utf8.RuneError) {
			return out
		}
		return run
	})
}

// Find answers find_product: a list of at most ten products.
func (s *Service) Find(ctx context.Context, args Args) ([]byte, error) {
	q, err := s.query(args)
	if err != nil || q == nil {
		return []byte("[]"), err
	}
	find := s.Index.Compat
	if s.Strict {
		find = s.Index.Strict
	}
	hits, err := find(ctx, *q)
	if errors.Is(err, ErrTooManyTerms) {
		return nil, refuse("q", fmt.Sprintf("%d different words", MaxTerms), "q: %v", err)
	}
	if err != nil {
		return nil, err
	}
	return s.list(hits, rowFind)
}

// query reads the parameters of find_product; nil means that compat answers [].
func (s *Service) query(args Args) (*Query, error) {
	limit := MaxQuery
	if s.Strict {
		limit = MaxQueryStrict
	}
	if n := len(args["q"]); n > limit {
		return nil, refuse("q", fmt.Sprintf("%d bytes", limit), "q: %d bytes are too many", n)
	}
	q := &Query{Text: sanitize(args["q"]), Shop: args["shop_id"]}
	if s.Strict {
		q.Text = sanitize(unquote(args["q"]))
		return q, s.strictQuery(q, args)
	}
	page, ok := digits(args["page"])
	if !ok || page < 1 || page > maxPage || q.Text == "" {
		return nil, nil
	}
	q.Page = page
	if price := args["price"]; strings.Count(price, "-") == 1 {
		lo, hi, _ := strings.Cut(price, "-")
		q.Lo, q.Hi = bound(lo), bound(hi)
	}
	q.Sort = sorts[args["sort"]]
	known := shop.Services()
	for name := range strings.SplitSeq(args["service"], ",") {
		if slices.Contains(known, name) && !slices.Contains(q.Service, name) {
			q.Service = append(q.Service, name)
		}
	}
	return q, nil
}

var sorts = map[string]Sort{"order": BySales, "priceasc": ByPriceAsc, "pricedesc": ByPriceDesc}

func digits(s string) (int, bool) {
	if s == "" || len(s) > 9 || strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// bound is one side of a price; nil where it is open or no number.
func bound(s string) *float64 {
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) {
		return nil
	}
	return &f
}

func (s *Service) strictQuery(q *Query, args Args) error {
	if q.Text == "" {
		return refuse("q", "", "q: say what to look for")
	}
	q.Page = 1
	if v, ok := args["page"]; ok {
		page, good := digits(v)
		if !good || page < 1 || page > maxPageStrict {
			return refuse("page", fmt.Sprintf("1 to %d", maxPageStrict), "page %.20q: want a number", v)
		}
		q.Page = page
	}
	if v := args["price"]; v != "" {
		lo, hi, ok := strings.Cut(v, "-")
		q.Lo, q.Hi = bound(lo), bound(hi)
		blank := func(s string) bool { return strings.TrimSpace(s) == "" }
		if !ok || (q.Lo == nil && !blank(lo)) || (q.Hi == nil && !blank(hi)) || (q.Lo == nil && q.Hi == nil) || (q.Lo != nil && q.Hi != nil && *q.Lo > *q.Hi) {
			return refuse("price", "", `price %.40q: want "low-high"; one side may be left out`, v)
		}
	}
	if v := args["sort"]; v != "" && v != "default" {
		var ok bool
		if q.Sort, ok = sorts[v]; !ok {
			return refuse("sort", "order, priceasc, pricedesc, default", "sort %.40q is unknown", v)
		}
	}
	known := shop.Services()
	for name := range strings.SplitSeq(args["service"], ",") {
		name = strings.TrimSpace(name)
		if name == "" || name == "default" {
			continue
		}
		if !slices.Contains(known, name) {
			return refuse("service", strings.Join(known, ", "), "service %.40q is unknown", name)
		}
		if !slices.Contains(q.Service, name) {
			q.Service = append(q.Service, name)
		}
	}
	return nil
}

// View answers view_product_information. Compat answers 500 without ids, as
// the other server does.
func (s *Service) View(_ context.Context, args Args) ([]byte, error) {
	if _, ok := args["product_ids"]; !ok && !s.Strict {
		return nil, &agon.Error{Code: "invalid_argument", Status: http.StatusInternalServerError, Field: "product_ids", Message: "product_ids is missing"}
	}
	return s.byID(args, rowView)
}

// Raw answers get_product_raw: whole products, for scorers only.
func (s *Service) Raw(_ context.Context, args Args) ([]byte, error) {
	return s.byID(args, rowRaw)
}

func (s *Service) byID(args Args, row int) ([]byte, error) {
	v := args["product_ids"]
	if v == "" {
		if s.Strict {
			return nil, refuse("product_ids", "", "product_ids: name at least one product")
		}
		return []byte("[]"), nil
	}
	limit := MaxIDs
	if s.Strict {
		limit = MaxIDsStrict
	}
	if n := strings.Count(v, ",") + 1; n > limit {
		return nil, refuse("product_ids", fmt.Sprintf("%d ids", limit), "product_ids: %d are too many", n)
	}
	var found []uint32
	for id := range strings.SplitSeq(v, ",") {
		if s.Strict {
			if id = strings.TrimSpace(id); id == "" {
				continue
			}
		}
		if d, ok := s.Index.lookup(id); ok {
			found = append(found, d)
		}
	}
	return s.list(found, row)
}

// list writes rows as a JSON list.
func (s *Service) list(found []uint32, row int) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('[')
	for i, d := range found {
		blob, err := s.Index.blob(d, row)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if b.Write(blob); b.Len() > maxReply {
			return nil, refuse("product_ids", fmt.Sprintf("%d bytes", maxReply), "product_ids: these products are too much for one reply")
		}
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}
