package score

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Limits of an episode.
const (
	// MaxEpisode bounds the JSON of one episode, in bytes.
	MaxEpisode = 64 << 20
	maxDepth   = 500
)

// kind is the kind of a JSON value.
type kind uint8

const (
	kindNull kind = iota + 1
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

// node is one value of a document: where it stands and where its next sibling
// is. The children of an object are names and values in turn.
type node struct {
	kind       kind
	start, end int32
	next       int32 // index of the node after this one and all below it
}

// tape is a parsed JSON document, flat: an episode of megabytes is read in one
// pass without building its values, since scoring looks at few of them. Like
// Python's reader it takes NaN, Infinity and -Infinity as numbers, and lets the
// last of equal names win.
type tape struct {
	src   []byte
	nodes []node
}

// parse reads src into t, reusing t's memory.
func (t *tape) parse(src []byte) error {
	if len(src) > MaxEpisode {
		return fmt.Errorf("output: %d bytes are too many (limit %d)", len(src), MaxEpisode)
	}
	t.src, t.nodes = src, t.nodes[:0]
	i, err := t.value(space(src, 0), 0)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if i = space(src, i); i != len(src) {
		return fmt.Errorf("output: text after the JSON value at byte %d", i)
	}
	return nil
}

func space(s []byte, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\r' || s[i] == '\t') {
		i++
	}
	return i
}

func bad(i int) error { return fmt.Errorf("not JSON at byte %d", i) }

// value reads the value that starts at i and returns where it ends.
func (t *tape) value(i, depth int) (int, error) {
	s := t.src
	if i >= len(s) {
		return i, errors.New("JSON ends too early")
	}
	at := len(t.nodes)
	t.nodes = append(t.nodes, node{start: int32(i)})
	var k kind
	var end int
	var err error
	switch c := s[i]; {
	case c == '"':
		k = kindString
		end, err = str(s, i)
	case c == '{' || c == '[':
		if depth >= maxDepth {
			return i, fmt.Errorf("nested too deeply (limit %d)", maxDepth)
		}
		if k = kindArray; c == '{' {
			k = kindObject
		}
		end, err = t.children(i, depth, k)
	case c == 't':
		k, end, err = word(s, i, "true", kindBool)
	case c == 'f':
		k, end, err = word(s, i, "false", kindBool)
	case c == 'n':
		k, end, err = word(s, i, "null", kindNull)
	case c == 'N':
		k, end, err = word(s, i, "NaN", kindNumber)
	case c == 'I':
		k, end, err = word(s, i, "Infinity", kindNumber)
	case c == '-' && i+1 < len(s) && s[i+1] == 'I':
		k, end, err = word(s, i, "-Infinity", kindNumber)
	default:
		k = kindNumber
		end, err = number(s, i)
	}
	if err != nil {
		return i, err
	}
	t.nodes[at].kind, t.nodes[at].end, t.nodes[at].next = k, int32(end), int32(len(t.nodes))
	return end, nil
}

func (t *tape) children(i, depth int, k kind) (int, error) {
	s := t.src
	closing := byte(']')
	if k == kindObject {
		closing = '}'
	}
	i = space(s, i+1)
	if i < len(s) && s[i] == closing {
		return i + 1, nil
	}
	for {
		var err error
		if k == kindObject {
			if i >= len(s) || s[i] != '"' {
				return i, bad(i)
			}
			end, err := str(s, i)
			if err != nil {
				return i, err
			}
			t.nodes = append(t.nodes, node{kindString, int32(i), int32(end), int32(len(t.nodes) + 1)})
			if i = space(s, end); i >= len(s) || s[i] != ':' {
				return i, bad(i)
			}
			i = space(s, i+1)
		}
		if i, err = t.value(i, depth+1); err != nil {
			return i, err
		}
		i = space(s, i)
		switch {
		case i >= len(s):
			return i, errors.New("JSON ends too early")
		case s[i] == closing:
			return i + 1, nil
		case s[i] != ',':
			return i, bad(i)
		}
		i = space(s, i+1)
	}
}

func word(s []byte, i int, w string, k kind) (kind, int, error) {
	if !bytes.HasPrefix(s[i:], []byte(w)) {
		return 0, i, bad(i)
	}
	return k, i + len(w), nil
}

// str returns the end of the string that starts at i.
func str(s []byte, i int) (int, error) {
	for i++; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			if i+1 >= len(s) {
				return i, errors.New("JSON ends too early")
			}
			switch s[i+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				i += 2
			case 'u':
				for j := i + 2; j < i+6; j++ {
					if j >= len(s) || !hex(s[j]) {
						return i, bad(i)
					}
				}
				i += 6
			default:
				return i, bad(i)
			}
		case c < 0x20:
			return i, bad(i)
		default:
			// Most of an episode is text: look at eight bytes at a time for a
			// quote, a backslash or a control character.
			for i+8 <= len(s) {
				w := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
					uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
				const ones, high = 0x0101010101010101, 0x8080808080808080
				q, b := w^(ones*'"'), w^(ones*'\\')
				if ((q-ones)&^q|(b-ones)&^b|(w-ones*0x20)&^w)&high != 0 {
					break
				}
				i += 8
			}
			for i < len(s) && s[i] >= 0x20 && s[i] != '"' && s[i] != '\\' {
				i++
			}
		}
	}
	return i, errors.New("JSON ends too early")
}

func hex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func number(s []byte, i int) (int, error) {
	digits := func(i int) int {
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i
	}
	from := i
	if i < len(s) && s[i] == '-' {
		i++
	}
	end := digits(i)
	if end == i || (s[i] == '0' && end > i+1) {
		return i, bad(from)
	}
	i = end
	if i < len(s) && s[i] == '.' {
		if end = digits(i + 1); end == i+1 {
			return i, bad(from)
		}
		i = end
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if end = digits(j); end == j {
			return i, bad(from)
		}
		i = end
	}
	return i, nil
}

// get returns the value of a name in object n, or -1. The last of equal names
// wins.
func (t *tape) get(n int, name string) int {
	found := -1
	if n < 0 || t.nodes[n].kind != kindObject {
		return found
	}
	for i := n + 1; i < int(t.nodes[n].next); {
		v := int(t.nodes[i].next)
		if t.is(i, name) {
			found = v
		}
		i = int(t.nodes[v].next)
	}
	return found
}

// kind is the kind of node n; 0 where there is none.
func (t *tape) kind(n int) kind {
	if n < 0 {
		return 0
	}
	return t.nodes[n].kind
}

// is reports whether string n reads s.
func (t *tape) is(n int, s string) bool {
	raw := t.src[t.nodes[n].start+1 : t.nodes[n].end-1]
	if len(raw) <= len(s) { // an escape is longer than what it stands for
		return string(raw) == s
	}
	return bytes.IndexByte(raw, '\\') >= 0 && t.text(n) == s
}

// text is the text of string n. What is not UTF-8 becomes U+FFFD, as do lone
// surrogates.
func (t *tape) text(n int) string {
	v := t.nodes[n]
	raw := t.src[v.start:v.end]
	if bytes.IndexByte(raw, '\\') < 0 {
		return strings.ToValidUTF8(string(raw[1:len(raw)-1]), "\uFFFD")
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		panic("score: a string that was read is none: " + err.Error()) // str checked it
	}
	return s
}

// empty reports whether n is an empty string, list or object.
func (t *tape) empty(n int) bool {
	switch v := t.nodes[n]; v.kind {
	case kindString:
		return v.end-v.start == 2
	case kindArray, kindObject:
		return int(v.next) == n+1
	}
	return false
}

// each calls f for every child of list n until it returns false.
func (t *tape) each(n int, f func(child int) bool) {
	for i := n + 1; i < int(t.nodes[n].next); i = int(t.nodes[i].next) {
		if !f(i) {
			return
		}
	}
}

// positive reports whether number n is above 0, as Python reads it; what is not
// a number (NaN) is not below.
func (t *tape) positive(n int) bool {
	raw := t.src[t.nodes[n].start:t.nodes[n].end]
	switch {
	case raw[0] == '-':
		return false
	case bytes.IndexByte(raw, 'e') < 0 && bytes.IndexByte(raw, 'E') < 0:
		return bytes.ContainsAny(raw, "123456789NI")
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f > 0 || err != nil // beyond the range is infinite
}

// tags are the marks of a rendered message; any of them inside a part breaks its format.
var tags = [...]string{"<think>", "</think>", "<tool_call>", "</tool_call>", "<response>", "</response>"}

// tagged reports whether any string at or below n holds a tag.
func (t *tape) tagged(n int) bool {
	// A tag needs "<", which may be escaped: without both there is none, and
	// strings need not be looked at one by one.
	raw := t.src[t.nodes[n].start:t.nodes[n].end]
	if bytes.IndexByte(raw, '<') < 0 && !bytes.Contains(raw, []byte(`\u003`)) {
		return false
	}
	for i := n; i < int(t.nodes[n].next); i++ {
		if t.nodes[i].kind != kindString {
			continue
		}
		s := t.text(i)
		for _, tag := range tags {
			if strings.Contains(s, tag) {
				return true
			}
		}
	}
	return false
}
