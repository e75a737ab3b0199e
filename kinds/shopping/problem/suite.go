// Package problem makes, reads and rotates the problems of shopping arenas.
package problem

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// Limits of a suite.
const (
	MaxSuite    = 64 << 20 // bytes
	MaxProblems = 10_000
	MaxQuery    = 8_000 // characters
	MaxItems    = 12
	maxPairs    = 100 // constraints of one item
)

// Difficulties of generated problems, see Generate.
const (
	Easy   = "easy"
	Medium = "medium"
	Hard   = "hard"
)

func invalid(field, limit, format string, args ...any) *agon.Error {
	return &agon.Error{
		Code: "invalid_suite", Status: 422, Field: field, Limit: limit, Message: fmt.Sprintf(format, args...),
		Mend: "kinds/shopping/README.md lists the fields of a problem",
	}
}

// ReadSuite reads a suite in ORO's form: a JSON list of problems. A problem
// without an id gets one that depends on its content and place only. Errors
// are *agon.Error and name problem and field.
func ReadSuite(in io.Reader) ([]shop.Problem, error) {
	b, err := io.ReadAll(io.LimitReader(in, MaxSuite+1))
	if err != nil {
		return nil, fmt.Errorf("read suite: %w", err)
	}
	if len(b) > MaxSuite {
		return nil, invalid("suite", fmt.Sprintf("%d bytes", MaxSuite), "the suite is too large")
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, invalid("suite", "", "want a JSON list of problems: %v", err)
	}
	if len(raw) == 0 || len(raw) > MaxProblems {
		return nil, invalid("suite", fmt.Sprintf("1 to %d problems", MaxProblems), "%d problems", len(raw))
	}
	out := make([]shop.Problem, len(raw))
	seen := map[string]int{}
	for i, r := range raw {
		p := &out[i]
		if err := Parse(r, p); err != nil {
			var e *agon.Error
			if errors.As(err, &e) {
				e.Message = fmt.Sprintf("problem %d: %s", i+1, e.Message)
			}
			return nil, err
		}
		if p.ProblemID == "" {
			p.ProblemID = newID("suite", strconv.Itoa(i), string(r))
		}
		if at, ok := seen[p.ProblemID]; ok {
			return nil, invalid("problem_id", "", "problem %d: problem_id %q is that of problem %d already", i+1, p.ProblemID, at)
		}
		seen[p.ProblemID] = i + 1
	}
	return out, nil
}

// Parse reads one problem and checks it.
func Parse(raw []byte, p *shop.Problem) error {
	if !utf8.Valid(raw) {
		return invalid("problem", "", "not UTF-8")
	}
	if err := json.Unmarshal(raw, p); err != nil {
		var t *json.UnmarshalTypeError
		if errors.As(err, &t) && t.Field != "" {
			return invalid(t.Field, "", "%.80s: %s does not fit", t.Field, t.Value)
		}
		return invalid("problem", "", "not a problem: %v", err)
	}
	return Check(p)
}

// Check reports the first thing that is wrong with a problem, as an *agon.Error.
func Check(p *shop.Problem) error {
	if p.ProblemID != "" && !isUUID(p.ProblemID) {
		return invalid("problem_id", "", "problem_id %.60q: want a UUID", p.ProblemID)
	}
	for _, f := range []struct {
		name, s string
		limit   int
	}{{"query", p.Query, MaxQuery}, {"title", p.Title, 500}, {"difficulty", p.Difficulty, 40}, {"category", p.Category, 40}} {
		if n := utf8.RuneCountInString(f.s); n > f.limit {
			return invalid(f.name, fmt.Sprintf("%d characters", f.limit), "%s: %d characters are too many", f.name, n)
		}
		if strings.IndexByte(f.s, 0) >= 0 {
			return invalid(f.name, "", "%s holds a NUL byte", f.name)
		}
	}
	if strings.TrimSpace(p.Query) == "" {
		return invalid("query", "", "query is empty")
	}
	n := len(p.Reward.Items)
	switch strings.ToLower(p.Category) {
	case "product":
		if !p.Reward.One && n != 1 {
			return invalid("reward", "1", "reward: a Product problem has one item, got %d", n)
		}
	case "shop", "voucher":
		if p.Reward.One || n < 1 || n > MaxItems {
			return invalid("reward", fmt.Sprintf("1 to %d items", MaxItems), "reward: want a list of items, got %d", n)
		}
	default:
		return invalid("category", strings.Join([]string{shop.CategoryProduct, shop.CategoryShop, shop.CategoryVoucher}, ", "), "category %.40q is unknown", p.Category)
	}
	for i := range p.Reward.Items {
		if err := checkItem(&p.Reward.Items[i], i); err != nil {
			return err
		}
	}
	return checkVoucher(p)
}

func checkItem(it *shop.Item, i int) error {
	at := fmt.Sprintf("reward[%d]", i)
	if it.ProductID == "" || len(it.ProductID) > 64 {
		return invalid(at+".product_id", "64 bytes", "%s.product_id: want 1 to 64 bytes", at)
	}
	n := len(it.Title) + len(it.Price) + len(it.Service)
	for _, m := range it.SKUOptions {
		n += len(m)
	}
	for _, m := range it.Attributes {
		for _, vs := range m {
			n += len(vs)
		}
	}
	if n > maxPairs {
		return invalid(at, fmt.Sprintf("%d constraints", maxPairs), "%s: %d constraints are too many", at, n)
	}
	return nil
}

func checkVoucher(p *shop.Problem) error {
	if strings.ToLower(p.Category) != "voucher" {
		return nil
	}
	v := p.Voucher
	if v == nil {
		return invalid("voucher", "", "voucher is missing")
	}
	if v.VoucherType != shop.VoucherPlatform && v.VoucherType != shop.VoucherShop {
		return invalid("voucher.voucher_type", "platform, shop", "voucher.voucher_type %.40q is unknown", v.VoucherType)
	}
	switch v.DiscountType {
	case shop.DiscountFixed:
		if v.FaceValue == nil {
			return invalid("voucher.face_value", "", "voucher.face_value is missing")
		}
	case shop.DiscountPercentage:
		if v.Discount == nil || !(*v.Discount >= 0 && *v.Discount <= 1) {
			return invalid("voucher.discount", "0 to 1", "voucher.discount is missing or out of bounds")
		}
	default:
		return invalid("voucher.discount_type", "fixed, percentage", "voucher.discount_type %.40q is unknown", v.DiscountType)
	}
	if fixed := v.DiscountType == shop.DiscountFixed; fixed && (v.Discount != nil || v.Cap != nil) || !fixed && v.FaceValue != nil {
		return invalid("voucher", "", "voucher: a face_value and a discount contradict each other, one must be null")
	}
	money := []float64{v.Threshold, v.Budget, v.PriceAfterVoucher}
	for _, f := range []*float64{v.FaceValue, v.Cap} {
		if f != nil {
			money = append(money, *f)
		}
	}
	for _, f := range money {
		if math.IsNaN(f) || math.IsInf(f, 0) || f < 0 {
			return invalid("voucher", "", "voucher: threshold, budget, price_after_voucher, face_value and cap want a number of at least 0")
		}
	}
	if v.PriceAfterVoucher > v.Budget && !p.Unanswerable {
		return invalid("voucher", "", "voucher: its answer costs %v with the voucher, over the budget of %v", v.PriceAfterVoucher, v.Budget)
	}
	return nil
}

// WriteSuite writes a suite in ORO's form.
func WriteSuite(w io.Writer, problems []shop.Problem) error {
	b, err := marshal(problems)
	if err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return fmt.Errorf("write suite: %w", err)
	}
	return nil
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode problems: %w", err)
	}
	return b.Bytes(), nil
}

// newID makes a UUID of labels: version 8, which leaves its bits to us.
func newID(labels ...string) string {
	h := sha256.New()
	for _, l := range labels {
		fmt.Fprintf(h, "%d:%s", len(l), l)
	}
	return uuidOf(h.Sum(nil))
}

func uuidOf(b []byte) string {
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:16])
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(s) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') {
			return false
		} else if !dash && !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return true
}

// Files of a task directory, see package task.
const (
	problemFile = "environment/problem.json"
	rewardFile  = "tests/reward.json"
)

// taskName is the name of the i-th problem's task.
func taskName(p *shop.Problem, i int) string {
	return fmt.Sprintf("%s-%s-%02d", slug(p.Category), slug(p.Difficulty), i+1)
}

// WriteTasks writes one task directory per problem below dir, which must not
// exist yet: what the agent sees in environment/problem.json, the whole
// problem in tests/reward.json. It returns the directories' names, in order.
func WriteTasks(dir, source string, problems []shop.Problem) ([]string, error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write tasks: %w", err)
	}
	var names []string
	for i := range problems {
		p := &problems[i]
		name := taskName(p, i)
		names = append(names, name)
		shown, err := marshal(p.Public())
		if err != nil {
			return nil, err
		}
		kept, err := marshal(p)
		if err != nil {
			return nil, err
		}
		for file, b := range map[string][]byte{
			"task.toml": []byte(taskConf(name, source, p)), "instruction.md": []byte("# " + p.Title + "\n\n" + p.Query + "\n"), problemFile: shown, rewardFile: kept,
		} {
			to := filepath.Join(dir, name, filepath.FromSlash(file))
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return nil, fmt.Errorf("write tasks: %w", err)
			}
			if err := os.WriteFile(to, b, 0o644); err != nil {
				return nil, fmt.Errorf("write tasks: %w", err)
			}
		}
	}
	return names, nil
}

func taskConf(name, source string, p *shop.Problem) string {
	return fmt.Sprintf(`version = "1.0"

[task]
name = "agon/shopping-%s"
description = %s
keywords = ["shopping", %s]

[metadata]
difficulty = %s
source = %s
licence = "MIT"

[agon]
kind = "shopping"
`, name, quote(p.Category+": "+p.Title), quote(strings.ToLower(p.Category)), quote(p.Difficulty), quote(source))
}

// quote writes a TOML string of at most 150 characters: JSON's escapes are
// TOML's too, but for control characters, which are left out.
func quote(s string) string {
	n := 0
	s = strings.Map(func(r rune) rune {
		if n++; n > 150 || unicode.IsControl(r) {
			return -1
		}
		return r
	}, s)
	b, err := json.Marshal(s)
	if err != nil {
		panic("problem: a text does not encode: " + err.Error())
	}
	return string(b)
}

// slug makes a part of a file's name of foreign text.
func slug(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(s))
	if s == "" {
		return "any"
	}
	return s[:min(len(s), 20)]
}
