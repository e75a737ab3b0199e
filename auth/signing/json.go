package signing

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a JSON text. Re-ordering members costs a copy
// per level, so the bound is also one on the work.
const maxDepth = 256

// CanonicalJSON writes one JSON text in the form that hashed bodies take: members
// sorted by code point (of members of one name the last stands), no blanks,
// every character outside printable ASCII escaped, numbers as they are spelled.
// The caller bounds the text's size.
func CanonicalJSON(text []byte) ([]byte, error) { return canonical(text, false) }

// PythonJSON is CanonicalJSON with numbers as Python would print them after
// reading them: 1E5 becomes 100000.0, 0.10 becomes 0.1, -0 becomes 0.
func PythonJSON(text []byte) ([]byte, error) { return canonical(text, true) }

func canonical(text []byte, python bool) ([]byte, error) {
	w := writer{in: text, out: make([]byte, 0, len(text)+len(text)/8), python: python}
	w.blanks()
	if err := w.value(0); err != nil {
		return nil, fmt.Errorf("json at byte %d: %w", w.at, err)
	}
	w.blanks()
	if w.at != len(w.in) {
		return nil, fmt.Errorf("json at byte %d: text after the value", w.at)
	}
	return w.out, nil
}

// writer reads in from at and appends the canonical form to out.
type writer struct {
	in     []byte
	at     int
	out    []byte
	python bool
}

var errEnd = errors.New("text ends within a value")

func (w *writer) blanks() {
	for w.at < len(w.in) && (w.in[w.at] == ' ' || w.in[w.at] == '\t' || w.in[w.at] == '\n' || w.in[w.at] == '\r') {
		w.at++
	}
}

// peek skips blanks and returns the next byte, 0 at the end.
func (w *writer) peek() byte {
	w.blanks()
	if w.at == len(w.in) {
		return 0
	}
	return w.in[w.at]
}

func (w *writer) value(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	switch c := w.peek(); {
	case c == 0 && w.at == len(w.in):
		return errEnd
	case c == '{':
		return w.object(depth)
	case c == '[':
		return w.array(depth)
	case c == '"':
		s, err := w.str()
		if err != nil {
			return err
		}
		w.out = appendQuoted(w.out, s)
		return nil
	case c == '-' || c >= '0' && c <= '9':
		return w.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(w.in[w.at:], []byte(word)) {
			w.at += len(word)
			w.out = append(w.out, word...)
			return nil
		}
	}
	return errors.New("not a value")
}

func (w *writer) array(depth int) error {
	w.at++
	w.out = append(w.out, '[')
	if w.peek() == ']' {
		w.at++
		w.out = append(w.out, ']')
		return nil
	}
	for {
		if err := w.value(depth + 1); err != nil {
			return err
		}
		switch w.peek() {
		case ',':
			w.at++
			w.out = append(w.out, ',')
		case ']':
			w.at++
			w.out = append(w.out, ']')
			return nil
		default:
			return errors.New("want , or ] after an element")
		}
	}
}

// member is one member of an object: its name, and where name, colon and value
// stand in the output.
type member struct {
	name       []byte
	start, end int
}

func (w *writer) object(depth int) error {
	w.at++
	w.out = append(w.out, '{')
	body := len(w.out)
	if w.peek() == '}' {
		w.at++
		w.out = append(w.out, '}')
		return nil
	}
	var members []member
	sorted := true
	for {
		if w.peek() != '"' {
			return errors.New("want a member's name in quotes")
		}
		name, err := w.str()
		if err != nil {
			return err
		}
		if w.peek() != ':' {
			return errors.New("want : after a member's name")
		}
		w.at++
		m := member{name: name, start: len(w.out)}
		w.out = append(appendQuoted(w.out, name), ':')
		if err := w.value(depth + 1); err != nil {
			return err
		}
		m.end = len(w.out)
		sorted = sorted && (len(members) == 0 || bytes.Compare(members[len(members)-1].name, name) < 0)
		members = append(members, m)
		c := w.peek()
		if c == '}' {
			w.at++
			break
		}
		if c != ',' {
			return errors.New("want , or } after a member")
		}
		w.at++
		w.out = append(w.out, ',')
	}
	if !sorted {
		w.reorder(body, members)
	}
	w.out = append(w.out, '}')
	return nil
}

// reorder sorts the members that stand in out from body on, and drops all but
// the last of one name.
func (w *writer) reorder(body int, members []member) {
	old := bytes.Clone(w.out[body:])
	slices.SortStableFunc(members, func(a, b member) int { return bytes.Compare(a.name, b.name) })
	w.out = w.out[:body]
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(m.name, members[i+1].name) {
			continue
		}
		if len(w.out) > body {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, old[m.start-body:m.end-body]...)
	}
}

// str reads a string. The result is UTF-8, but that half a surrogate pair
// (which JSON can spell and Python keeps) is three bytes as well: so the order
// of the bytes is the order of the code points.
func (w *writer) str() ([]byte, error) {
	w.at++ // the quote
	var s []byte
	for w.at < len(w.in) {
		switch c := w.in[w.at]; {
		case c == '"':
			w.at++
			return s, nil
		case c == '\\':
			var err error
			if s, err = w.escape(s); err != nil {
				return nil, err
			}
		case c < 0x20:
			return nil, errors.New("control character in a string")
		case c < utf8.RuneSelf:
			s = append(s, c)
			w.at++
		default:
			r, n := utf8.DecodeRune(w.in[w.at:])
			if r == utf8.RuneError && n == 1 {
				return nil, errors.New("not UTF-8")
			}
			s = append(s, w.in[w.at:w.at+n]...)
			w.at += n
		}
	}
	return nil, errEnd
}

func (w *writer) escape(s []byte) ([]byte, error) {
	if w.at+1 >= len(w.in) {
		return nil, errEnd
	}
	c := w.in[w.at+1]
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		w.at += 2
		return append(s, "\"\\/\b\f\n\r\t"[i]), nil
	}
	unit, ok := w.unit()
	if !ok {
		return nil, errors.New("unknown escape")
	}
	w.at += 6
	if unit >= 0xd800 && unit < 0xdc00 {
		if low, ok := w.unit(); ok && low >= 0xdc00 && low < 0xe000 {
			w.at += 6
			unit = (unit-0xd800)<<10 + (low - 0xdc00) + 0x10000
		}
	}
	if unit >= 0xd800 && unit < 0xe000 {
		return append(s, 0xe0|byte(unit>>12), 0x80|byte(unit>>6)&0x3f, 0x80|byte(unit)&0x3f), nil
	}
	return utf8.AppendRune(s, rune(unit)), nil
}

// unit reads \uXXXX at w.at without moving on.
func (w *writer) unit() (uint32, bool) {
	if w.at+6 > len(w.in) || w.in[w.at] != '\\' || w.in[w.at+1] != 'u' {
		return 0, false
	}
	var u uint32
	for _, c := range w.in[w.at+2 : w.at+6] {
		d, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		u = u<<4 | uint32(d)
	}
	return u, true
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// appendQuoted writes s, which str has read, in quotes and printable ASCII.
func appendQuoted(out, s []byte) []byte {
	out = append(out, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
			i++
		case c >= 0x20 && c < 0x7f:
			out = append(out, c)
			i++
		case c < utf8.RuneSelf:
			if j := strings.IndexByte("\b\f\n\r\t", c); j >= 0 {
				out = append(out, '\\', "bfnrt"[j])
			} else {
				out = appendUnit(out, uint32(c))
			}
			i++
		default:
			r, n := decodeWide(s[i:])
			if r >= 0x10000 {
				out = appendUnit(appendUnit(out, 0xd800+(r-0x10000)>>10), 0xdc00+(r-0x10000)&0x3ff)
			} else {
				out = appendUnit(out, r)
			}
			i += n
		}
	}
	return append(out, '"')
}

// decodeWide decodes the code point at the start of s, half pairs included.
func decodeWide(s []byte) (uint32, int) {
	r, n := utf8.DecodeRune(s)
	if n > 1 {
		return uint32(r), n
	}
	return uint32(s[0]&0xf)<<12 | uint32(s[1]&0x3f)<<6 | uint32(s[2]&0x3f), 3
}

func appendUnit(out []byte, u uint32) []byte {
	const digits = "0123456789abcdef"
	return append(out, '\\', 'u', digits[u>>12&15], digits[u>>8&15], digits[u>>4&15], digits[u&15])
}

func (w *writer) number() error {
	start := w.at
	digits := func() bool {
		from := w.at
		for w.at < len(w.in) && w.in[w.at] >= '0' && w.in[w.at] <= '9' {
			w.at++
		}
		return w.at > from
	}
	at := func(set string) bool { return w.at < len(w.in) && strings.IndexByte(set, w.in[w.at]) >= 0 }
	if at("-") {
		w.at++
	}
	if at("0") {
		w.at++
	} else if !digits() {
		return errors.New("not a number")
	}
	float := false
	if at(".") {
		w.at++
		float = true
		if !digits() {
			return errors.New("want digits after the point")
		}
	}
	if at("eE") {
		w.at++
		float = true
		if at("+-") {
			w.at++
		}
		if !digits() {
			return errors.New("want digits in the exponent")
		}
	}
	literal := string(w.in[start:w.at])
	if w.python {
		literal = PythonNumber(literal, float)
	}
	w.out = append(w.out, literal...)
	return nil
}

// PythonNumber prints a JSON number as Python does after reading it; float says
// whether the literal has a point or an exponent.
func PythonNumber(literal string, float bool) string {
	if !float {
		if literal == "-0" {
			return "0"
		}
		return literal
	}
	// The only error is a value out of range, which gives an infinity, as in Python.
	f, _ := strconv.ParseFloat(literal, 64)
	return pythonFloat(f)
}

// pythonFloat is repr(float): the shortest digits that read back, with an
// exponent below 1e-4 and from 1e16 on.
func pythonFloat(f float64) string {
	s := strconv.FormatFloat(f, 'e', -1, 64)
	mantissa, exponent, ok := strings.Cut(s, "e")
	if !ok { // Inf
		return map[string]string{"+Inf": "Infinity", "-Inf": "-Infinity"}[s]
	}
	e, err := strconv.Atoi(exponent)
	if err != nil {
		panic("signing: exponent of a formatted float: " + err.Error())
	}
	if e < -4 || e >= 16 {
		return fmt.Sprintf("%se%+03d", mantissa, e)
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
