// Package pack knows what a policy pack is: the file that a miner of a
// policy-pack arena enters. It reads packs as the arena's other clients do
// (Python's JSON), writes their canonical form and hash, says what is wrong
// with them, builds them, and knows the strings, windows and contexts by which
// validators of such arenas agree. It is pure.
package packfile

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agon-arena/agon"
)

// Limits of what Parse reads.
const (
	// MaxBytes bounds a pack as it comes from outside, in bytes.
	MaxBytes = 64 << 10
	// maxDepth bounds nesting. Python's own reader gives up at about 1,000.
	maxDepth = 900
	// maxDigits bounds an integer, as Python does.
	maxDigits = 4300
)

// Kind is the type of a Value.
type Kind uint8

// Kinds of values. The zero value is not a kind of JSON.
const (
	Absent Kind = iota
	Null
	Bool
	Int
	Float
	String
	List
	Object
)

// Value is a JSON value as Python's json module knows it: integers of any
// size, NaN and infinities, lone surrogates. Strings hold a lone surrogate as
// the three bytes that UTF-8 would give it, so that comparing bytes orders them
// by code point.
type Value struct {
	Kind   Kind
	Bool   bool
	Int    string // decimal, without leading zeros
	Float  float64
	Str    string
	List   []Value
	Keys   []string // of an object, in the order of their first appearance
	Fields map[string]Value
}

// Get returns a field of an object; Absent where there is none.
func (v Value) Get(key string) Value { return v.Fields[key] }

// refuse is an error about the pack's bytes.
func refuse(code, limit, format string, args ...any) error {
	return &agon.Error{Code: code, Status: 422, Field: "pack", Limit: limit, Message: "pack: " + fmt.Sprintf(format, args...)}
}

// Parse reads one JSON value as Python's json.loads does, with limits. The
// error is an *agon.Error of code not_json, not_utf8 or too_large.
func Parse(b []byte) (Value, error) {
	if len(b) > MaxBytes {
		return Value{}, refuse("too_large", fmt.Sprintf("%d bytes", MaxBytes), "it has %d bytes", len(b))
	}
	return ParseLimit(b)
}

// ParseLimit is Parse without the limit of bytes, for what was bounded before.
func ParseLimit(b []byte) (Value, error) {
	if !utf8.Valid(b) {
		return Value{}, refuse("not_utf8", "", "it is not UTF-8")
	}
	if strings.HasPrefix(string(b[:min(3, len(b))]), "\ufeff") {
		return Value{}, refuse("not_json", "", "it begins with a byte order mark")
	}
	p := &parser{s: string(b)}
	p.space()
	v, err := p.value(0)
	if err == nil {
		if p.space(); p.i < len(p.s) {
			err = fmt.Errorf("text after the value at byte %d", p.i)
		}
	}
	if err != nil {
		return Value{}, refuse("not_json", "", "it is not JSON: %v", err)
	}
	return v, nil
}

// Canonical is the form whose hash names a pack: sorted keys, ", " and ": ",
// ASCII only.
func (v Value) Canonical() []byte {
	return v.append(nil, style{sorted: true, comma: ", ", colon: ": "})
}

// Compact is the canonical form without spaces, as consensus payloads use it.
func (v Value) Compact() []byte { return v.append(nil, style{sorted: true, comma: ",", colon: ":"}) }

// Plain is Python's default spelling: fields in the order in which they came.
func (v Value) Plain() []byte { return v.append(nil, style{comma: ", ", colon: ": "}) }

// Readable is Plain with characters beyond ASCII as they are.
func (v Value) Readable() []byte {
	return v.append(nil, style{comma: ", ", colon: ": ", unicode: true})
}

// Indented is Plain with two blanks an indent, as tools print lists.
func (v Value) Indented() string {
	return string(v.indent(nil, "\n"))
}

func (v Value) indent(b []byte, line string) []byte {
	st := style{comma: ", ", colon: ": "}
	switch {
	case v.Kind == List && len(v.List) > 0:
		b = append(b, '[')
		for i, e := range v.List {
			if i > 0 {
				b = append(b, ',')
			}
			b = e.indent(append(append(b, line...), "  "...), line+"  ")
		}
		return append(append(b, line...), ']')
	case v.Kind == Object && len(v.Keys) > 0:
		b = append(b, '{')
		for i, k := range v.Keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(append(append(b, line...), "  "...), k, false), ": "...)
			b = v.Fields[k].indent(b, line+"  ")
		}
		return append(append(b, line...), '}')
	}
	return v.append(b, st)
}

// Obj makes an object of names and values in turn, in that order.
func Obj(pairs ...any) Value {
	v := Value{Kind: Object, Fields: map[string]Value{}}
	for i := 0; i+1 < len(pairs); i += 2 {
		k, ok := pairs[i].(string)
		if !ok {
			panic("pack: a name is not text")
		}
		v.Keys = append(v.Keys, k)
		v.Fields[k] = Of(pairs[i+1])
	}
	return v
}

// With returns a copy of an object with one more field, or another value of it.
func (v Value) With(key string, e Value) Value {
	out := Value{Kind: Object, Keys: slices.Clone(v.Keys), Fields: make(map[string]Value, len(v.Fields)+1)}
	for k, f := range v.Fields {
		out.Fields[k] = f
	}
	if _, ok := out.Fields[key]; !ok {
		out.Keys = append(out.Keys, key)
	}
	out.Fields[key] = e
	return out
}

// MarshalJSON writes the value as standard JSON: lone surrogates, NaN and
// infinities, which that has not, become U+FFFD and null.
func (v Value) MarshalJSON() ([]byte, error) {
	return v.append(nil, style{comma: ",", colon: ":", unicode: true, strict: true}), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Value) UnmarshalJSON(b []byte) error {
	x, err := ParseLimit(b)
	if err == nil {
		*v = x
	}
	return err
}

// Truth is Python's idea of whether a value counts as true.
func (v Value) Truth() bool {
	switch v.Kind {
	case Bool:
		return v.Bool
	case Int:
		return v.Int != "0"
	case Float:
		return v.Float != 0
	case String:
		return v.Str != ""
	case List:
		return len(v.List) > 0
	case Object:
		return len(v.Keys) > 0
	}
	return false
}

type style struct {
	sorted       bool
	unicode      bool
	strict       bool
	comma, colon string
}

func (v Value) append(b []byte, st style) []byte {
	switch v.Kind {
	case Absent, Null:
		return append(b, "null"...)
	case Bool:
		return strconv.AppendBool(b, v.Bool)
	case Int:
		return append(b, v.Int...)
	case Float:
		if st.strict && (math.IsNaN(v.Float) || math.IsInf(v.Float, 0)) {
			return append(b, "null"...)
		}
		return append(b, FloatRepr(v.Float)...)
	case String:
		if st.strict {
			return appendString(b, printable(v.Str), true)
		}
		return appendString(b, v.Str, st.unicode)
	case List:
		b = append(b, '[')
		for i, e := range v.List {
			if i > 0 {
				b = append(b, st.comma...)
			}
			b = e.append(b, st)
		}
		return append(b, ']')
	}
	keys := v.Keys
	if st.sorted {
		keys = slices.Sorted(slices.Values(keys))
	}
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, st.comma...)
		}
		b = append(appendString(b, k, st.unicode), st.colon...)
		b = v.Fields[k].append(b, st)
	}
	return append(b, '}')
}

const hexDigits = "0123456789abcdef"

func appendUnit(b []byte, u rune) []byte {
	return append(b, '\\', 'u', hexDigits[u>>12&15], hexDigits[u>>8&15], hexDigits[u>>4&15], hexDigits[u&15])
}

// nextRune decodes one code point, lone surrogates included.
func nextRune(s string) (rune, int) {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 && len(s) >= 3 && s[0] == 0xed {
		return 0xd000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3
	}
	return r, n
}

func appendString(b []byte, s string, keep bool) []byte {
	b = append(b, '"')
	for len(s) > 0 {
		if c := s[0]; c >= 0x20 && c < 0x7f && c != '"' && c != '\\' {
			b, s = append(b, c), s[1:]
			continue
		}
		r, n := nextRune(s)
		switch at := strings.IndexRune("\"\\\n\r\t\b\f", r); {
		case at >= 0:
			b = append(b, '\\', `"\nrtbf`[at])
		case r >= 0x20 && r < 0x7f, keep && r >= 0x7f && (r < 0xd800 || r > 0xdfff):
			b = append(b, s[:n]...)
		case r > 0xffff:
			b = appendUnit(b, 0xd800+(r-0x10000)>>10)
			b = appendUnit(b, 0xdc00+(r-0x10000)&0x3ff)
		default:
			b = appendUnit(b, r)
		}
		s = s[n:]
	}
	return append(b, '"')
}

// FloatRepr spells a float as Python does.
func FloatRepr(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0:
		if math.Signbit(f) {
			return "-0.0"
		}
		return "0.0"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	_, exp, _ := strings.Cut(s, "e")
	n, _ := strconv.Atoi(exp) // FormatFloat wrote it
	if n < -4 || n >= 16 {
		return s // a two-digit exponent with its sign, as Python's
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// Text spells a value as Python's str() does.
func (v Value) Text() string {
	if v.Kind == String {
		return printable(v.Str)
	}
	return v.repr()
}

func printable(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func (v Value) repr() string {
	switch v.Kind {
	case Absent, Null:
		return "None"
	case Bool:
		if v.Bool {
			return "True"
		}
		return "False"
	case Int:
		return v.Int
	case Float:
		switch s := FloatRepr(v.Float); s {
		case "NaN":
			return "nan"
		case "Infinity", "-Infinity":
			return strings.Replace(s, "Infinity", "inf", 1)
		default:
			return s
		}
	case String:
		return Repr(v.Str)
	case List:
		parts := make([]string, len(v.List))
		for i, e := range v.List {
			parts[i] = e.repr()
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	parts := make([]string, len(v.Keys))
	for i, k := range v.Keys {
		parts[i] = Repr(k) + ": " + v.Fields[k].repr()
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// PyRepr spells a value as Python's repr() does.
func (v Value) PyRepr() string { return v.repr() }

// Repr spells a string as Python's repr() does.
func Repr(s string) string {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b := []byte{quote}
	for len(s) > 0 {
		r, n := nextRune(s)
		switch {
		case r == rune(quote) || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == ' ', unicode.IsPrint(r):
			b = append(b, s[:n]...)
		case r < 0x100:
			b = append(b, '\\', 'x', hexDigits[r>>4], hexDigits[r&15])
		case r < 0x10000:
			b = appendUnit(b, r)
		default:
			b = fmt.Appendf(b, `\U%08x`, r)
		}
		s = s[n:]
	}
	return string(append(b, quote))
}

// Of makes a value of Go's own: nil, bool, int, float64, string, []any,
// []string and map[string]any, whose keys come sorted. Anything else panics.
func Of(x any) Value {
	switch x := x.(type) {
	case nil:
		return Value{Kind: Null}
	case Value:
		return x
	case bool:
		return Value{Kind: Bool, Bool: x}
	case int:
		return Value{Kind: Int, Int: strconv.Itoa(x)}
	case int64:
		return Value{Kind: Int, Int: strconv.FormatInt(x, 10)}
	case float64:
		return Value{Kind: Float, Float: x}
	case string:
		return Value{Kind: String, Str: x}
	case []string:
		v := Value{Kind: List}
		for _, s := range x {
			v.List = append(v.List, Of(s))
		}
		return v
	case []any:
		v := Value{Kind: List}
		for _, e := range x {
			v.List = append(v.List, Of(e))
		}
		return v
	case map[string]any:
		v := Value{Kind: Object, Fields: map[string]Value{}}
		for k, e := range x {
			v.Keys = append(v.Keys, k)
			v.Fields[k] = Of(e)
		}
		slices.Sort(v.Keys)
		return v
	}
	panic(fmt.Sprintf("pack: no JSON value is made of %T", x))
}
