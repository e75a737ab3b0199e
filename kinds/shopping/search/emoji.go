package search

import (
	"unicode"
	"unicode/utf8"
)

// pictographs are the characters that are an emoji by themselves (Unicode's
// Extended_Pictographic, in the version of Lucene 9): each is a word.
var pictographs = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0xa9, 0xa9, 1},
		{0xae, 0xae, 1},
		{0x203c, 0x203c, 1},
		{0x2049, 0x2049, 1},
		{0x2122, 0x2122, 1},
		{0x2139, 0x2139, 1},
		{0x2194, 0x2199, 1},
		{0x21a9, 0x21aa, 1},
		{0x231a, 0x231b, 1},
		{0x2328, 0x2328, 1},
		{0x2388, 0x2388, 1},
		{0x23cf, 0x23cf, 1},
		{0x23e9, 0x23f3, 1},
		{0x23f8, 0x23fa, 1},
		{0x24c2, 0x24c2, 1},
		{0x25aa, 0x25ab, 1},
		{0x25b6, 0x25b6, 1},
		{0x25c0, 0x25c0, 1},
		{0x25fb, 0x25fe, 1},
		{0x2600, 0x2605, 1},
		{0x2607, 0x2612, 1},
		{0x2614, 0x2685, 1},
		{0x2690, 0x2705, 1},
		{0x2708, 0x2712, 1},
		{0x2714, 0x2714, 1},
		{0x2716, 0x2716, 1},
		{0x271d, 0x271d, 1},
		{0x2721, 0x2721, 1},
		{0x2728, 0x2728, 1},
		{0x2733, 0x2734, 1},
		{0x2744, 0x2744, 1},
		{0x2747, 0x2747, 1},
		{0x274c, 0x274c, 1},
		{0x274e, 0x274e, 1},
		{0x2753, 0x2755, 1},
		{0x2757, 0x2757, 1},
		{0x2763, 0x2767, 1},
		{0x2795, 0x2797, 1},
		{0x27a1, 0x27a1, 1},
		{0x27b0, 0x27b0, 1},
		{0x27bf, 0x27bf, 1},
		{0x2934, 0x2935, 1},
		{0x2b05, 0x2b07, 1},
		{0x2b1b, 0x2b1c, 1},
		{0x2b50, 0x2b50, 1},
		{0x2b55, 0x2b55, 1},
		{0x3030, 0x3030, 1},
		{0x303d, 0x303d, 1},
		{0x3297, 0x3297, 1},
		{0x3299, 0x3299, 1},
	},
	R32: []unicode.Range32{
		{0x1f000, 0x1f0ff, 1},
		{0x1f10d, 0x1f10f, 1},
		{0x1f12f, 0x1f12f, 1},
		{0x1f16c, 0x1f171, 1},
		{0x1f17e, 0x1f17f, 1},
		{0x1f18e, 0x1f18e, 1},
		{0x1f191, 0x1f19a, 1},
		{0x1f1ad, 0x1f1e5, 1},
		{0x1f201, 0x1f20f, 1},
		{0x1f21a, 0x1f21a, 1},
		{0x1f22f, 0x1f22f, 1},
		{0x1f232, 0x1f23a, 1},
		{0x1f23c, 0x1f23f, 1},
		{0x1f249, 0x1f53d, 1},
		{0x1f546, 0x1f64f, 1},
		{0x1f680, 0x1f6ff, 1},
		{0x1f774, 0x1f77f, 1},
		{0x1f7d5, 0x1f7ff, 1},
		{0x1f80c, 0x1f80f, 1},
		{0x1f848, 0x1f84f, 1},
		{0x1f85a, 0x1f85f, 1},
		{0x1f888, 0x1f88f, 1},
		{0x1f8ae, 0x1f8ff, 1},
		{0x1f90c, 0x1f93a, 1},
		{0x1f93c, 0x1f945, 1},
		{0x1f947, 0x1fffd, 1},
	},
	LatinOffset: 2,
}

const (
	joinEmoji = 0x200d // zero width joiner
	asText    = 0xfe0e // presentation selectors
	asEmoji   = 0xfe0f
	keycap    = 0x20e3
)

func isPictograph(r rune) bool { return r > 0xa8 && unicode.Is(pictographs, r) }
func isFlag(r rune) bool       { return r >= 0x1f1e6 && r <= 0x1f1ff }
func isSkin(r rune) bool       { return r >= 0x1f3fb && r <= 0x1f3ff }

// emojiAt is how many bytes the emoji at the start of s has, 0 where there is
// none: a flag of two letters, a keycap, or pictographs joined into one.
func emojiAt(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case r == '#' || r == '*':
		next, m := utf8.DecodeRuneInString(s[n:])
		if next == asEmoji {
			n += m
			next, m = utf8.DecodeRuneInString(s[n:])
		}
		if next == keycap {
			return attached(s, n+m)
		}
		return 0
	case isFlag(r):
		n = attached(s, n)
		if r, m := utf8.DecodeRuneInString(s[n:]); isFlag(r) {
			return attached(s, n+m)
		}
		return 0
	case r == joinEmoji:
		if r, _ := utf8.DecodeRuneInString(s[n:]); !isPictograph(r) {
			return 0
		}
	case isPictograph(r):
		n = pictographAt(s)
	default:
		return 0
	}
	for { // while one more is joined
		last, _ := utf8.DecodeLastRuneInString(s[:n])
		next, _ := utf8.DecodeRuneInString(s[n:])
		if last != joinEmoji || !isPictograph(next) {
			return n
		}
		n += pictographAt(s[n:])
	}
}

// pictographAt is the length of one pictograph with its tone and its marks.
func pictographAt(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	if r, m := utf8.DecodeRuneInString(s[n:]); isSkin(r) {
		n += m
	}
	if r, m := utf8.DecodeRuneInString(s[n:]); r == asEmoji {
		n += m
		if r, m := utf8.DecodeRuneInString(s[n:]); r == joinEmoji {
			n += m
		}
		return n
	}
	return attached(s, n)
}

// attached moves n past the marks that belong to what stands before.
func attached(s string, n int) int {
	for n < len(s) {
		r, m := utf8.DecodeRuneInString(s[n:])
		if c := classOf(r); c != attachment && c != mark || r == asText || r == asEmoji {
			break
		}
		n += m
	}
	return n
}
