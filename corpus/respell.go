package corpus

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"
)

// errSpelling says that respell does not read a value: the slow way does.
var errSpelling = errors.New("not as the encoder spells it")

// respell appends the JSON value at the begin of src in its canonical spelling, which is
// what appendTree writes of its tree, without making the tree. src is as encoding/json
// writes it: valid, and without blanks.
func respell(dst, src []byte) (out, rest []byte, err error) {
	if len(src) == 0 {
		return nil, nil, errSpelling
	}
	switch src[0] {
	case '{':
		return respellObject(dst, src)
	case '[':
		return respellList(dst, src)
	case '"':
		n := stringEnd(src)
		if n < 0 {
			return nil, nil, errSpelling
		}
		if dst, err = respellString(dst, src[:n]); err != nil {
			return nil, nil, err
		}
		return dst, src[n:], nil
	}
	n := bytes.IndexAny(src, ",]}\n") // a number, true, false, null
	if n < 0 {
		n = len(src)
	}
	return append(dst, src[:n]...), src[n:], nil
}

func respellList(dst, src []byte) (out, rest []byte, err error) {
	dst, src = append(dst, '['), src[1:]
	if len(src) > 0 && src[0] == ']' {
		return append(dst, ']'), src[1:], nil
	}
	for {
		if dst, src, err = respell(dst, src); err != nil {
			return nil, nil, err
		}
		if len(src) == 0 || src[0] != ',' && src[0] != ']' {
			return nil, nil, errSpelling
		}
		c := src[0]
		dst, src = append(dst, c), src[1:]
		if c == ']' {
			return dst, src, nil
		}
	}
}

// member is one of an object as it was written to the output.
type member struct {
	key      string
	from, to int // of the output, with the key
}

func respellObject(dst, src []byte) (out, rest []byte, err error) {
	dst, src = append(dst, '{'), src[1:]
	if len(src) > 0 && src[0] == '}' {
		return append(dst, '}'), src[1:], nil
	}
	begin := len(dst)
	var room [16]member // most objects have no more
	list, sorted := room[:0], true
	for {
		n := -1
		if len(src) > 0 && src[0] == '"' {
			n = stringEnd(src)
		}
		if n < 0 || n >= len(src) || src[n] != ':' {
			return nil, nil, errSpelling
		}
		m := member{from: len(dst)}
		if dst, err = respellString(dst, src[:n]); err != nil {
			return nil, nil, err
		}
		if m.key = string(dst[m.from+1 : len(dst)-1]); strings.IndexByte(m.key, '\\') >= 0 && json.Unmarshal(dst[m.from:], &m.key) != nil {
			return nil, nil, errSpelling
		}
		if dst, src, err = respell(append(dst, ':'), src[n+1:]); err != nil {
			return nil, nil, err
		}
		m.to = len(dst)
		sorted = sorted && (len(list) == 0 || list[len(list)-1].key < m.key)
		list = append(list, m)
		if len(src) == 0 || src[0] != ',' && src[0] != '}' {
			return nil, nil, errSpelling
		}
		c := src[0]
		src = src[1:]
		if c == '}' {
			break
		}
		dst = append(dst, ',')
	}
	if sorted {
		return append(dst, '}'), src, nil
	}
	slices.SortStableFunc(list, func(a, b member) int { return strings.Compare(a.key, b.key) })
	tmp := make([]byte, 0, len(dst)-begin)
	for i, m := range list {
		if i+1 < len(list) && list[i+1].key == m.key {
			continue // of equal keys the last one counts
		}
		if len(tmp) > 0 {
			tmp = append(tmp, ',')
		}
		tmp = append(tmp, dst[m.from:m.to]...)
	}
	return append(append(dst[:begin], tmp...), '}'), src, nil
}

// stringEnd is where the string at the begin of src ends, -1 if it does not.
func stringEnd(src []byte) int {
	for i := 1; i < len(src); {
		n := bytes.IndexByte(src[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		back := 0
		for src[i-1-back] == '\\' { // the opening quote ends it
			back++
		}
		i++
		if back%2 == 0 {
			return i
		}
	}
	return -1
}

// respellString appends a string, quotes and all. Escapes that appendString writes too
// stay; of the others the string is read and written anew.
func respellString(dst, src []byte) ([]byte, error) {
	plain := utf8.Valid(src)
	for i := 0; plain; {
		n := bytes.IndexByte(src[i:], '\\')
		if n < 0 {
			return append(dst, src...), nil
		}
		if i += n + 2; i > len(src) {
			return nil, errSpelling
		}
		plain = strings.IndexByte(`"\ntrbf`, src[i-1]) >= 0
	}
	var s string
	if err := json.Unmarshal(src, &s); err != nil {
		return nil, err
	}
	return appendString(dst, s), nil
}
