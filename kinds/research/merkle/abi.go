package merkle

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Limits of values of foreign JSON.
const (
	maxTypes   = 64
	maxNesting = 4
	maxBytes   = 1 << 20 // of one bytes or string value
	maxItems   = 100_000 // of one array value
)

// Encode is Solidity's abi.encode of values of elementary types and arrays of
// them: address, bool, uintN, intN, bytesN, bytes, string, T[], T[k]. Integers
// are JSON numbers, or texts in decimal or 0x hex; bytes are 0x hex.
func Encode(types []string, values []any) ([]byte, error) {
	parsed, err := parseTypes(types)
	if err != nil {
		return nil, err
	}
	return parsed.encode(values)
}

// signature is a list of types, read once for many rows.
type signature []abiType

func (s signature) encode(values []any) ([]byte, error) {
	if len(s) != len(values) {
		return nil, fmt.Errorf("%d values for %d types", len(values), len(s))
	}
	return encodeList(s, values)
}

func parseTypes(types []string) (signature, error) {
	if len(types) == 0 || len(types) > maxTypes {
		return nil, fmt.Errorf("types: %d, want 1 to %d", len(types), maxTypes)
	}
	parsed := make(signature, len(types))
	for i, s := range types {
		t, err := parseType(s, 0)
		if err != nil {
			return nil, fmt.Errorf("types[%d]: %w", i, err)
		}
		parsed[i] = t
	}
	return parsed, nil
}

type abiType struct {
	kind string // uint, int, address, bool, fixed (bytesN), bytes, string, array
	size int    // bits of integers, bytes of fixed
	elem *abiType
	n    int // of an array; -1: dynamic
}

func parseType(s string, depth int) (abiType, error) {
	if depth > maxNesting || len(s) > 60 {
		return abiType{}, fmt.Errorf("type %.40q is nested too deep", s)
	}
	if strings.HasSuffix(s, "]") {
		i := strings.LastIndexByte(s, '[')
		if i < 0 {
			return abiType{}, fmt.Errorf("unknown type %.40q", s)
		}
		elem, err := parseType(s[:i], depth+1)
		if err != nil {
			return abiType{}, err
		}
		n := -1
		if in := s[i+1 : len(s)-1]; in != "" {
			if n, err = strconv.Atoi(in); err != nil || n < 1 || n > maxItems {
				return abiType{}, fmt.Errorf("type %.40q: bad length", s)
			}
		}
		return abiType{kind: "array", elem: &elem, n: n}, nil
	}
	switch s {
	case "address", "bool", "bytes", "string":
		return abiType{kind: s}, nil
	case "uint", "int":
		return abiType{kind: s, size: 256}, nil
	}
	number := func(prefix string, low, high, step int) (int, bool) {
		in, ok := strings.CutPrefix(s, prefix)
		if !ok || in == "" || in[0] == '0' {
			return 0, false
		}
		n, err := strconv.Atoi(in)
		return n, err == nil && n >= low && n <= high && n%step == 0
	}
	if n, ok := number("uint", 8, 256, 8); ok {
		return abiType{kind: "uint", size: n}, nil
	}
	if n, ok := number("int", 8, 256, 8); ok {
		return abiType{kind: "int", size: n}, nil
	}
	if n, ok := number("bytes", 1, 32, 1); ok {
		return abiType{kind: "fixed", size: n}, nil
	}
	return abiType{}, fmt.Errorf("unknown type %.40q", s)
}

func (t abiType) dynamic() bool {
	switch t.kind {
	case "bytes", "string":
		return true
	case "array":
		return t.n < 0 || t.elem.dynamic()
	}
	return false
}

// head is how many bytes a value takes in the head of a list.
func (t abiType) head() int {
	if t.kind == "array" && !t.dynamic() {
		return t.n * t.elem.head()
	}
	return 32
}

func encodeList(types []abiType, values []any) ([]byte, error) {
	headLen := 0
	for _, t := range types {
		headLen += t.head()
	}
	var head, tail []byte
	for i, t := range types {
		b, err := encodeValue(t, values[i])
		if err != nil {
			return nil, fmt.Errorf("value %d: %w", i, err)
		}
		if !t.dynamic() {
			head = append(head, b...)
			continue
		}
		head = append(head, word(int64(headLen+len(tail)))...)
		tail = append(tail, b...)
	}
	return append(head, tail...), nil
}

func word(n int64) []byte {
	var w [32]byte
	big.NewInt(n).FillBytes(w[:])
	return w[:]
}

func pad(b []byte) []byte {
	if n := len(b) % 32; n > 0 {
		b = append(b, make([]byte, 32-n)...)
	}
	return b
}

func encodeValue(t abiType, v any) ([]byte, error) {
	switch t.kind {
	case "uint", "int":
		n, err := integer(v)
		if err != nil {
			return nil, err
		}
		return encodeInt(t, n)
	case "bool":
		b, ok := v.(bool)
		if !ok {
			return nil, errors.New("want true or false")
		}
		if b {
			return word(1), nil
		}
		return word(0), nil
	case "address":
		b, err := hexBytes(v, 20)
		if err != nil {
			return nil, err
		}
		return append(make([]byte, 12), b...), nil
	case "fixed":
		b, err := hexBytes(v, t.size)
		if err != nil {
			return nil, err
		}
		return pad(b), nil
	case "bytes":
		b, err := hexBytes(v, -1)
		if err != nil {
			return nil, err
		}
		return append(word(int64(len(b))), pad(b)...), nil
	case "string":
		s, ok := v.(string)
		if !ok || len(s) > maxBytes {
			return nil, fmt.Errorf("want a text of at most %d bytes", maxBytes)
		}
		return append(word(int64(len(s))), pad([]byte(s))...), nil
	}
	list, ok := v.([]any)
	if !ok || len(list) > maxItems || t.n >= 0 && len(list) != t.n {
		return nil, errors.New("want a list of the type's length")
	}
	types := make([]abiType, len(list))
	for i := range types {
		types[i] = *t.elem
	}
	b, err := encodeList(types, list)
	if err == nil && t.n < 0 {
		b = append(word(int64(len(list))), b...)
	}
	return b, err
}

func encodeInt(t abiType, n *big.Int) ([]byte, error) {
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(t.size))
	if t.kind == "int" {
		high.Rsh(high, 1)
		low.Neg(high)
	}
	if n.Cmp(low) < 0 || n.Cmp(high) >= 0 {
		return nil, fmt.Errorf("%s is out of the range of %s%d", n, t.kind, t.size)
	}
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), 256))
	}
	var w [32]byte
	n.FillBytes(w[:])
	return w[:], nil
}

// integer reads a JSON number, or a text in decimal or 0x hex.
func integer(v any) (*big.Int, error) {
	s := ""
	switch v := v.(type) {
	case json.Number:
		s = v.String()
	case string:
		s = v
	case float64:
		s = strconv.FormatFloat(v, 'f', -1, 64)
	case int:
		s = strconv.Itoa(v)
	default:
		return nil, errors.New("want an integer")
	}
	if len(s) > 100 {
		return nil, errors.New("integer is too long")
	}
	if i := strings.IndexAny(s, "eE."); i >= 0 && !strings.HasPrefix(s, "0x") {
		if e := strings.IndexAny(s, "eE"); e >= 0 {
			if n, err := strconv.Atoi(s[e+1:]); err != nil || n < -80 || n > 80 {
				return nil, fmt.Errorf("%.40q is not an integer", s)
			}
		}
		r, ok := new(big.Rat).SetString(s)
		if !ok || !r.IsInt() {
			return nil, fmt.Errorf("%.40q is not an integer", s)
		}
		return r.Num(), nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil && s[0] != '+' { // nearly all of them
		return new(big.Int).SetUint64(n), nil
	}
	base := 10
	if h, ok := strings.CutPrefix(s, "0x"); ok {
		s, base = h, 16
	}
	if s == "" || strings.ContainsAny(s, "_+") {
		return nil, errors.New("want an integer")
	}
	n, ok := new(big.Int).SetString(s, base)
	if !ok {
		return nil, fmt.Errorf("%.40q is not an integer", s)
	}
	return n, nil
}

// hexBytes reads 0x hex of n bytes; n < 0: any.
func hexBytes(v any, n int) ([]byte, error) {
	s, ok := v.(string)
	if !ok || len(s) > 2*maxBytes+2 {
		return nil, errors.New("want 0x and hex digits")
	}
	h, ok := strings.CutPrefix(s, "0x")
	if !ok {
		h = s
	}
	b, err := hex.DecodeString(h)
	if err != nil || n >= 0 && len(b) != n {
		return nil, fmt.Errorf("%.80q: want 0x and %d hex digits", s, 2*max(n, 0))
	}
	return b, nil
}
