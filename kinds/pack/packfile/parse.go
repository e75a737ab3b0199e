package packfile

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parser reads a value from a text. Names may be there twice; the last one counts.
type parser struct {
	s string
	i int
}

func (p *parser) space() {
	for p.i < len(p.s) && strings.IndexByte(" \t\n\r", p.s[p.i]) >= 0 {
		p.i++
	}
}

func (p *parser) take(word string) bool {
	if strings.HasPrefix(p.s[p.i:], word) {
		p.i += len(word)
		return true
	}
	return false
}

func (p *parser) bad(what string) error { return fmt.Errorf("%s at byte %d", what, p.i) }

func (p *parser) value(depth int) (Value, error) {
	if depth > maxDepth {
		return Value{}, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	if p.i >= len(p.s) {
		return Value{}, p.bad("a value is missing")
	}
	switch {
	case p.s[p.i] == '{':
		return p.object(depth)
	case p.s[p.i] == '[':
		return p.list(depth)
	case p.s[p.i] == '"':
		s, err := p.str()
		return Value{Kind: String, Str: s}, err
	case p.take("null"):
		return Value{Kind: Null}, nil
	case p.take("true"):
		return Value{Kind: Bool, Bool: true}, nil
	case p.take("false"):
		return Value{Kind: Bool}, nil
	case p.take("NaN"):
		return Value{Kind: Float, Float: math.NaN()}, nil
	case p.take("Infinity"):
		return Value{Kind: Float, Float: math.Inf(1)}, nil
	case p.take("-Infinity"):
		return Value{Kind: Float, Float: math.Inf(-1)}, nil
	}
	return p.number()
}

func (p *parser) digits() int {
	start := p.i
	for p.i < len(p.s) && p.s[p.i] >= '0' && p.s[p.i] <= '9' {
		p.i++
	}
	return p.i - start
}

func (p *parser) number() (Value, error) {
	start := p.i
	p.take("-")
	if !p.take("0") && p.digits() == 0 {
		p.i = start
		return Value{}, p.bad("no value begins")
	}
	whole := p.i
	float := false
	// A point or an exponent counts only with digits after it; without them the number ended before it.
	if p.take(".") {
		if p.digits() > 0 {
			float = true
		} else {
			p.i = whole
		}
	}
	if at := p.i; p.i == whole || float {
		if p.take("e") || p.take("E") {
			if !p.take("+") {
				p.take("-")
			}
			if p.digits() > 0 {
				float = true
			} else {
				p.i = at
			}
		}
	}
	text := p.s[start:p.i]
	if !float {
		if len(strings.TrimPrefix(text, "-")) > maxDigits {
			return Value{}, fmt.Errorf("an integer of more than %d digits at byte %d", maxDigits, start)
		}
		if text == "-0" {
			text = "0"
		}
		return Value{Kind: Int, Int: text}, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range is infinite, or zero
		return Value{}, p.bad("no number")
	}
	return Value{Kind: Float, Float: f}, nil
}

func (p *parser) list(depth int) (Value, error) {
	v := Value{Kind: List}
	p.i++
	p.space()
	if p.take("]") {
		return v, nil
	}
	for {
		e, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		v.List = append(v.List, e)
		p.space()
		switch {
		case p.take("]"):
			return v, nil
		case !p.take(","):
			return v, p.bad("a comma or ] is missing")
		}
		p.space()
	}
}

func (p *parser) object(depth int) (Value, error) {
	p.i++
	p.space()
	if p.take("}") {
		return Value{Kind: Object, Fields: map[string]Value{}}, nil
	}
	var v Value // until the object is whole
	var keys []string
	var list []Value
	for {
		if p.i >= len(p.s) || p.s[p.i] != '"' {
			return v, p.bad("a name is missing")
		}
		key, err := p.str()
		if err != nil {
			return v, err
		}
		p.space()
		if !p.take(":") {
			return v, p.bad("a colon is missing")
		}
		p.space()
		e, err := p.value(depth + 1)
		if err != nil {
			return v, err
		}
		keys, list = append(keys, key), append(list, e)
		p.space()
		switch {
		case p.take("}"):
			return fields(keys, list), nil
		case !p.take(","):
			return v, p.bad("a comma or } is missing")
		}
		p.space()
	}
}

// fields is an object whose names may be there twice: the last of a name wins. Its map
// has its size from the start, since payloads have one field for each of 256 miners.
func fields(keys []string, list []Value) Value {
	v := Value{Kind: Object, Fields: make(map[string]Value, len(keys)), Keys: keys[:0]}
	for i, k := range keys {
		if _, twice := v.Fields[k]; !twice {
			v.Keys = append(v.Keys, k)
		}
		v.Fields[k] = list[i]
	}
	return v
}

func (p *parser) str() (string, error) {
	p.i++
	n := p.i
	for n < len(p.s) && p.s[n] >= 0x20 && p.s[n] != '"' && p.s[n] != '\\' {
		n++
	}
	if n < len(p.s) && p.s[n] == '"' { // without escapes, as most are
		text := p.s[p.i:n]
		p.i = n + 1
		return text, nil
	}
	var b strings.Builder
	for {
		rest := p.s[p.i:]
		n := strings.IndexFunc(rest, func(r rune) bool { return r == '"' || r == '\\' || r < 0x20 })
		if n < 0 {
			return "", p.bad("a string does not end")
		}
		b.WriteString(rest[:n])
		p.i += n
		switch p.s[p.i] {
		case '"':
			p.i++
			return b.String(), nil
		case '\\':
			if err := p.escape(&b); err != nil {
				return "", err
			}
		default:
			return "", p.bad("a control character stands in a string")
		}
	}
}

func (p *parser) escape(b *strings.Builder) error {
	if p.i+1 >= len(p.s) {
		return p.bad("a string does not end")
	}
	c := p.s[p.i+1]
	if at := strings.IndexByte(`"\/bfnrt`, c); at >= 0 {
		b.WriteByte("\"\\/\b\f\n\r\t"[at])
		p.i += 2
		return nil
	}
	r, ok := p.hex4()
	if c != 'u' || !ok {
		return p.bad("a bad escape")
	}
	p.i += 6
	if r >= 0xd800 && r < 0xdc00 && strings.HasPrefix(p.s[p.i:], `\u`) {
		if low, ok := p.hex4(); ok && low >= 0xdc00 && low < 0xe000 {
			p.i += 6
			r = 0x10000 + (r-0xd800)<<10 + (low - 0xdc00)
		}
	}
	if r >= 0xd800 && r < 0xe000 {
		b.Write([]byte{0xed, byte(0x80 | r>>6&0x3f), byte(0x80 | r&0x3f)})
		return nil
	}
	b.WriteRune(r)
	return nil
}

// hex4 reads the four digits of the \u that stands at p.i.
func (p *parser) hex4() (rune, bool) {
	if p.i+6 > len(p.s) {
		return 0, false
	}
	var r rune
	for _, c := range []byte(p.s[p.i+2 : p.i+6]) {
		d := strings.IndexByte("0123456789abcdef", c|0x20)
		if d < 0 || c < '0' {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}
