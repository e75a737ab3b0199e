package scale

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"unicode/utf8"

	"github.com/agon-arena/agon/auth"
)

// A value, as Decode gives and Encode takes it, is
//
//	bool, uint64, int64, *big.Int (from 128 bits), string (text, char)
//	Bytes           bytes: Vec<u8> and [u8; n], in JSON 0x…
//	string          an account, as its SS58 address; Encode takes its 32 bytes in hex too
//	[]any           lists, tuples and structs without names
//	Map             structs with names
//	Value           a case of an enumeration; in JSON "Name" or {"Name": …}
//	nil             None and ()
//
// A struct or a case of one field without a name is that field. Some(x) is x,
// but Value{"Some", x} where x may itself be nil.

// Bytes are bytes; in JSON hex with 0x.
type Bytes []byte

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) { return []byte("0x" + hex.EncodeToString(b)), nil }

// Map is a struct by the names of its fields.
type Map map[string]any

// Value is a case of an enumeration with what it holds; Of is nil for nothing.
type Value struct {
	Name string
	Of   any
}

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.Of == nil && v.Name != "Some" {
		return json.Marshal(v.Name)
	}
	return json.Marshal(map[string]any{v.Name: v.Of})
}

// DecodeAll reads one value of type t that takes all of b.
func DecodeAll(t *Type, b []byte) (any, error) {
	r := NewReader(b)
	v := r.Value(t)
	if err := r.End(); err != nil {
		return nil, err
	}
	return v, nil
}

// Value takes a value of type t; nil after an error.
func (r *Reader) Value(t *Type) any {
	if r.err != nil {
		return nil
	}
	v := r.value(t, 0)
	if r.err != nil {
		return nil
	}
	return v
}

// Skip passes over a value of type t and returns its bytes.
func (r *Reader) Skip(t *Type) []byte {
	from := r.at
	r.Value(t)
	if r.err != nil {
		return nil
	}
	return r.b[from:r.at:r.at]
}

func (r *Reader) value(t *Type, depth int) any {
	if r.values++; r.err == nil {
		switch {
		case depth > MaxDepth:
			r.fail(fmt.Errorf("%w: values nest deeper than %d", ErrLimit, MaxDepth))
		case r.values > maxValues:
			r.fail(fmt.Errorf("%w: more than %d values", ErrLimit, maxValues))
		}
	}
	if r.err != nil {
		return nil
	}
	switch t.Form {
	case Composite:
		if t.isAccount() {
			var pub [32]byte
			copy(pub[:], r.Bytes(32))
			return auth.EncodeSS58(pub)
		}
		return r.fields(t.Fields, depth)
	case Tuple:
		return r.fields(t.Fields, depth)
	case Variants:
		return r.variant(t, depth)
	case Sequence:
		n := r.Length(t.Elem.least)
		return r.elems(t.Elem, n, depth)
	case Array:
		n := int(t.Len)
		if n > max(r.Left(), maxEmpty) {
			r.fail(fmt.Errorf("%w: an array of %d, %d bytes left", ErrShort, n, r.Left()))
			return nil
		}
		return r.elems(t.Elem, n, depth)
	case Primitive:
		return r.primitive(t.Prim)
	case Compacted:
		return r.compacted(t.Elem)
	case Bits:
		return r.bits(t)
	}
	r.fail(fmt.Errorf("type %s cannot be read", t))
	return nil
}

func (r *Reader) fields(fields []Field, depth int) any {
	if len(fields) == 0 {
		return nil
	}
	if inner, ok := newtype(fields); ok {
		return r.value(inner, depth+1)
	}
	if fields[0].Name == "" {
		out := make([]any, len(fields))
		for i, f := range fields {
			if out[i] = r.value(f.Type, depth+1); r.err != nil {
				return nil
			}
		}
		return out
	}
	out := make(Map, len(fields))
	for _, f := range fields {
		if out[f.Name] = r.value(f.Type, depth+1); r.err != nil {
			return nil
		}
	}
	return out
}

// nilable reports whether a value of t may be nil, so that Some of it must be said.
func nilable(t *Type) bool {
	for range MaxDepth {
		if _, ok := t.isOption(); ok || t.empty {
			return true
		}
		inner, ok := newtype(t.Fields)
		if !ok || t.Form != Composite && t.Form != Tuple {
			return false
		}
		t = inner
	}
	return true
}

func (r *Reader) variant(t *Type, depth int) any {
	index := r.U8()
	if r.err != nil {
		return nil
	}
	c := t.byIndex[index]
	if c == nil {
		r.fail(fmt.Errorf("%s has no case %d", t, index))
		return nil
	}
	if inner, ok := t.isOption(); ok {
		if index == 0 {
			return nil
		}
		v := r.value(inner, depth+1)
		if nilable(inner) {
			return Value{"Some", v}
		}
		return v
	}
	return Value{c.Name, r.fields(c.Fields, depth)}
}

func (r *Reader) elems(t *Type, n, depth int) any {
	if t.isU8() {
		return Bytes(append([]byte{}, r.Bytes(n)...))
	}
	if t.least == 0 && n > maxEmpty {
		r.fail(fmt.Errorf("%w: %d empty values", ErrLimit, n))
		return nil
	}
	if r.err != nil {
		return nil
	}
	out := make([]any, 0, min(n, 4096))
	for range n {
		v := r.value(t, depth+1)
		if r.err != nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}

func (r *Reader) primitive(p Prim) any {
	switch p {
	case Bool:
		return r.Bool()
	case Str:
		return r.Text()
	case Char:
		n := r.U32()
		if n > utf8.MaxRune || !utf8.ValidRune(rune(n)) {
			r.fail(fmt.Errorf("%d is not a character", n))
			return nil
		}
		return string(rune(n))
	}
	w := p.width()
	if w <= 8 {
		n := r.uint(w)
		if p.signed() {
			shift := 64 - 8*w
			return int64(n<<shift) >> shift
		}
		return n
	}
	b := r.Bytes(w)
	if b == nil {
		return nil
	}
	n := fromLittle(b)
	if p.signed() && b[w-1] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*w)))
	}
	return n
}

// compacted takes Compact<t>: a number, or a struct of one, or ().
func (r *Reader) compacted(t *Type) any {
	p, ok := compactOf(t)
	switch {
	case !ok && t.empty:
		return nil
	case !ok:
		r.fail(fmt.Errorf("read Compact<%s>: it has no such form", t))
		return nil
	}
	n := r.CompactBig()
	if r.err == nil && n.BitLen() > 8*p.width() {
		r.fail(fmt.Errorf("compact number of %d bits for %s", n.BitLen(), primNames[p]))
		return nil
	}
	if p.width() > 8 {
		return n
	}
	return n.Uint64()
}

func compactOf(t *Type) (Prim, bool) {
	for range MaxDepth {
		if t.Form == Primitive {
			return t.Prim, t.Prim >= U8 && t.Prim <= U256
		}
		if (t.Form != Composite && t.Form != Tuple) || len(t.Fields) != 1 {
			return 0, false
		}
		t = t.Fields[0].Type
	}
	return 0, false
}

// bits takes a bit sequence; its value is a text of 0 and 1.
func (r *Reader) bits(t *Type) any {
	n := r.Compact()
	width := 8
	if t.Elem.Form == Primitive && t.Elem.Prim >= U8 && t.Elem.Prim <= U64 {
		width = 8 * t.Elem.Prim.width()
	}
	if n > uint64(r.Left())*8 {
		r.fail(fmt.Errorf("%w: %d bits, %d bytes left", ErrShort, n, r.Left()))
		return nil
	}
	b := r.Bytes((int(n) + width - 1) / width * (width / 8))
	if r.err != nil {
		return nil
	}
	msb := t.order != nil && t.order.Name() == "Msb0"
	out := make([]byte, n)
	for i := range out {
		word, bit := i/width, i%width
		if msb {
			bit = width - 1 - bit
		}
		out[i] = '0' + b[word*(width/8)+bit/8]>>(bit%8)&1
	}
	return string(out)
}
