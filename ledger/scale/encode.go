package scale

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agon-arena/agon/auth"
)

// Encode appends v as a value of type t. It takes what Decode gives and what
// JSON makes of it (ParseJSON), and besides: any Go integer or decimal text for a number;
// hex with 0x, []byte or text for bytes; a single case as text; structs as
// lists in the order of their fields; for MultiAddress an address.
func Encode(b []byte, t *Type, v any) ([]byte, error) { return encode(b, t, v, 0) }

// ParseJSON reads one JSON value; numbers stay exact.
func ParseJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("read JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("read JSON: text after the value")
	}
	return v, nil
}

func unfit(t *Type, v any) error {
	s := fmt.Sprintf("%v", v)
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return fmt.Errorf("%q does not fit %s", s, t)
}

func encode(b []byte, t *Type, v any, depth int) ([]byte, error) {
	if depth > MaxDepth {
		return nil, fmt.Errorf("%w: values nest deeper than %d", ErrLimit, MaxDepth)
	}
	switch t.Form {
	case Composite:
		if t.isAccount() {
			pub, err := account(v)
			if err != nil {
				return nil, err
			}
			return append(b, pub[:]...), nil
		}
		return encodeFields(b, t, t.Fields, v, depth)
	case Tuple:
		return encodeFields(b, t, t.Fields, v, depth)
	case Variants:
		return encodeCase(b, t, v, depth)
	case Sequence, Array:
		return encodeList(b, t, v, depth)
	case Primitive:
		return encodePrim(b, t, v)
	case Compacted:
		p, ok := compactOf(t.Elem)
		if !ok {
			if t.Elem.empty {
				return b, nil
			}
			return nil, unfit(t, v)
		}
		if n, ok := v.(uint16); ok && p.width() >= 2 { // of weights there are many
			return AppendCompact(b, uint64(n)), nil
		}
		n, err := number(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t, err)
		}
		if n.Sign() < 0 || n.BitLen() > 8*p.width() {
			return nil, unfit(t, v)
		}
		return appendCompactBig(b, n), nil
	}
	return nil, unfit(t, v)
}

// account reads an account: an address, 32 bytes or their hex.
func account(v any) (pub [32]byte, err error) {
	switch x := v.(type) {
	case [32]byte:
		return x, nil
	case []byte:
		return pub, copy32(&pub, x)
	case Bytes:
		return pub, copy32(&pub, x)
	case string:
		if raw, ok := unhex(x); ok {
			return pub, copy32(&pub, raw)
		}
		return auth.ParseSS58(x)
	}
	return pub, fmt.Errorf("%v is not an account", v)
}

func copy32(to *[32]byte, b []byte) error {
	if len(b) != 32 {
		return fmt.Errorf("account of %d bytes: want 32", len(b))
	}
	copy(to[:], b)
	return nil
}

// unhex reads hex that begins with 0x.
func unhex(s string) ([]byte, bool) {
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok {
		return nil, false
	}
	b, err := hex.DecodeString(digits)
	return b, err == nil
}

func encodeFields(b []byte, t *Type, fields []Field, v any, depth int) (_ []byte, err error) {
	named := len(fields) > 0 && fields[0].Name != ""
	if m, ok := v.(Map); ok {
		v = map[string]any(m)
	}
	if len(fields) == 0 {
		switch x := v.(type) {
		case nil:
			return b, nil
		case []any:
			if len(x) == 0 {
				return b, nil
			}
		case map[string]any:
			if len(x) == 0 {
				return b, nil
			}
		}
		return nil, unfit(t, v)
	}
	if m, ok := v.(map[string]any); ok && named {
		for _, f := range fields {
			x, ok := m[f.Name]
			if !ok {
				if _, opt := f.Type.isOption(); !opt {
					return nil, fmt.Errorf("field %s is missing", f.Name)
				}
			}
			if b, err = encode(b, f.Type, x, depth+1); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
				return nil, fmt.Errorf("field %s is unknown", name)
			}
		}
		return b, nil
	}
	if len(fields) == 1 {
		out, err := encode(slices.Clip(b), fields[0].Type, v, depth+1)
		if err == nil || !named {
			return out, err
		}
	}
	list, ok := v.([]any)
	if !ok || len(list) != len(fields) {
		return nil, unfit(t, v)
	}
	for i, f := range fields {
		if b, err = encode(b, f.Type, list[i], depth+1); err != nil {
			return nil, fmt.Errorf("field %d %s: %w", i, f.Name, err)
		}
	}
	return b, nil
}

func encodeCase(b []byte, t *Type, v any, depth int) ([]byte, error) {
	if inner, ok := t.isOption(); ok {
		switch x := v.(type) {
		case nil:
			return append(b, 0), nil
		case Value:
			if x.Name == "Some" {
				return encode(append(b, 1), inner, x.Of, depth+1)
			}
			if x.Name == "None" && x.Of == nil {
				return append(b, 0), nil
			}
		case map[string]any:
			if of, ok := x["Some"]; ok && len(x) == 1 {
				return encode(append(b, 1), inner, of, depth+1)
			}
		}
		return encode(append(b, 1), inner, v, depth+1)
	}
	var name string
	var of any
	switch x := v.(type) {
	case Value:
		name, of = x.Name, x.Of
	case string:
		name = x
	case map[string]any:
		if len(x) == 1 {
			for name, of = range x {
			}
		}
	}
	c, ok := t.Case(name)
	if !ok {
		if id, isAddress := t.Case("Id"); isAddress && t.Name() == "MultiAddress" {
			return encodeFields(append(b, id.Index), t, id.Fields, v, depth)
		}
		if c, of, ok = sizedRaw(t, name, of); !ok {
			return nil, unfit(t, v)
		}
	}
	out, err := encodeFields(append(b, c.Index), t, c.Fields, of, depth)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return out, nil
}

// sizedRaw finds the case of {"Raw": bytes} in an enumeration that has one case
// for each length (Raw0, Raw1, …), as commitments do.
func sizedRaw(t *Type, name string, of any) (*Variant, any, bool) {
	if name != "Raw" {
		return nil, nil, false
	}
	if of == nil {
		of = Bytes{}
	}
	raw, err := byteString(of)
	if err != nil {
		return nil, nil, false
	}
	c, ok := t.Case("Raw" + itoa(uint64(len(raw))))
	if ok && len(c.Fields) == 0 {
		return c, nil, len(raw) == 0
	}
	return c, Bytes(raw), ok
}

// byteString reads bytes: hex with 0x, or text as it is.
func byteString(v any) ([]byte, error) {
	switch x := v.(type) {
	case []byte:
		return x, nil
	case Bytes:
		return x, nil
	case [32]byte:
		return x[:], nil
	case string:
		if b, ok := unhex(x); ok {
			return b, nil
		}
		if strings.HasPrefix(x, "0x") {
			return nil, errors.New("bytes begin with 0x and are not hex")
		}
		return []byte(x), nil
	case []any:
		out := make([]byte, len(x))
		for i, e := range x {
			n, err := number(e)
			if err != nil || !n.IsUint64() || n.Uint64() > 255 {
				return nil, fmt.Errorf("element %d is not a byte", i)
			}
			out[i] = byte(n.Uint64())
		}
		return out, nil
	}
	return nil, fmt.Errorf("%v is not bytes", v)
}

func encodeList(b []byte, t *Type, v any, depth int) (_ []byte, err error) {
	if t.Elem.isU8() {
		raw, err := byteString(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t, err)
		}
		if t.Form == Sequence {
			return AppendBlob(b, raw), nil
		}
		// A hash may be given as bare hex: its length leaves no doubt.
		if s, ok := v.(string); ok && len(raw) != int(t.Len) && len(s) == 2*int(t.Len) {
			if h, err := hex.DecodeString(s); err == nil {
				raw = h
			}
		}
		if len(raw) != int(t.Len) {
			return nil, fmt.Errorf("%d bytes for %s", len(raw), t)
		}
		return append(b, raw...), nil
	}
	var list []any
	switch x := v.(type) {
	case []any:
		list = x
	case []uint16:
		list = anys(x)
	case []uint64:
		list = anys(x)
	case []string:
		list = anys(x)
	case map[string]any: // a BTreeMap is a struct around a list of pairs; it may be given as an object
		for _, k := range slices.Sorted(maps.Keys(x)) {
			list = append(list, []any{k, x[k]})
		}
	default:
		return nil, unfit(t, v)
	}
	if t.Form == Array && len(list) != int(t.Len) {
		return nil, fmt.Errorf("%d elements for %s", len(list), t)
	}
	if t.Form == Sequence {
		b = AppendCompact(b, uint64(len(list)))
	}
	for i, e := range list {
		if b, err = encode(b, t.Elem, e, depth+1); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	return b, nil
}

func anys[T any](s []T) []any {
	out := make([]any, len(s))
	for i := range s {
		out[i] = s[i]
	}
	return out
}

func encodePrim(b []byte, t *Type, v any) ([]byte, error) {
	switch t.Prim {
	case Bool:
		x, ok := v.(bool)
		if !ok {
			return nil, unfit(t, v)
		}
		if x {
			return append(b, 1), nil
		}
		return append(b, 0), nil
	case Str:
		s, ok := v.(string)
		if !ok || !utf8.ValidString(s) {
			return nil, unfit(t, v)
		}
		return AppendBlob(b, s), nil
	case Char:
		s, ok := v.(string)
		if !ok || utf8.RuneCountInString(s) != 1 {
			return nil, unfit(t, v)
		}
		n := uint32([]rune(s)[0])
		return append(b, byte(n), byte(n>>8), byte(n>>16), byte(n>>24)), nil
	}
	n, err := number(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	width := t.Prim.width()
	one := big.NewInt(1)
	low, high := new(big.Int), new(big.Int).Lsh(one, uint(8*width))
	if t.Prim.signed() {
		high.Rsh(high, 1)
		low.Neg(high)
	}
	if n.Cmp(low) < 0 || n.Cmp(high) >= 0 {
		return nil, fmt.Errorf("%s does not fit %s", n, t)
	}
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(one, uint(8*width)))
	}
	raw := n.FillBytes(make([]byte, width))
	slices.Reverse(raw)
	return append(b, raw...), nil
}

// number reads a whole number.
func number(v any) (*big.Int, error) {
	switch x := v.(type) {
	case uint64:
		return new(big.Int).SetUint64(x), nil
	case uint32:
		return big.NewInt(int64(x)), nil
	case uint16:
		return big.NewInt(int64(x)), nil
	case uint8:
		return big.NewInt(int64(x)), nil
	case int64:
		return big.NewInt(x), nil
	case int:
		return big.NewInt(int64(x)), nil
	case *big.Int:
		return x, nil
	case json.Number:
		return number(string(x))
	case string:
		if n, ok := new(big.Int).SetString(x, 10); ok && len(x) <= 80 {
			return n, nil
		}
	}
	return nil, fmt.Errorf("%v is not a whole number", v)
}
