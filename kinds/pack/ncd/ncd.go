// Package ncd compares policy texts by how well one compresses after the other
// (normalised compression distance), and finds copies among many of them.
package ncd

import (
	"strings"
	"unicode"

	"github.com/agon-arena/agon/calc"
)

// NCDThreshold is from which similarity on a policy text is a copy.
const NCDThreshold = 0.80

// NormaliseText prepares a policy text for comparison: lower case as Python
// makes it, heading marks and the blanks after them gone, white space in runs
// of one.
func NormaliseText(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	runes := []rune(text)
	space, begun := false, false
	for i := 0; i < len(runes); i++ {
		r := runes[i]
		if r == '#' {
			for i+1 < len(runes) && runes[i+1] == '#' {
				i++
			}
			for i+1 < len(runes) && runes[i+1] == ' ' {
				i++
			}
			continue
		}
		if pySpace(r) {
			space = true
			continue
		}
		if space && begun {
			b.WriteByte(' ')
		}
		space, begun = false, true
		switch {
		case r == 'İ':
			b.WriteString("i\u0307")
		case r == 'Σ':
			if finalSigma(runes, i) {
				b.WriteRune('ς')
			} else {
				b.WriteRune('σ')
			}
		case r < 0x80 && r >= 'A' && r <= 'Z':
			b.WriteByte(byte(r) | 0x20)
		case r < 0x80:
			b.WriteByte(byte(r))
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

// pySpace are the characters that Python's \s matches in text.
func pySpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// finalSigma: a letter with case stands before it, none after it, marks not counted.
func finalSigma(s []rune, at int) bool {
	look := func(step int) bool {
		for i := at + step; i >= 0 && i < len(s); i += step {
			if !caseIgnorable(s[i]) {
				return cased(s[i])
			}
		}
		return false
	}
	return look(-1) && !look(1)
}

func cased(r rune) bool {
	return unicode.In(r, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

func caseIgnorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune("'.:·’‘․‧︓﹒﹕＇．：΄՟״", r)
}

// Sizes are the lengths from which a similarity follows: of two normalised
// texts alone and joined, compressed.
type Sizes struct{ A, B, AB int }

// Similarity is 1 minus the normalised compression distance. It is about 0.95
// for a text and itself, and may fall below 0.
func (s Sizes) Similarity() float64 {
	if s.A == 0 || s.B == 0 {
		return 0 // no compressed text is that short
	}
	small, large := min(s.A, s.B), max(s.A, s.B)
	return 1 - float64(s.AB-small)/float64(large)
}

func (c *compressor) compare(a, b string) Sizes {
	return Sizes{c.size(a), c.size(b), c.after(a, b)}
}

type ncdOut struct {
	CA  int     `json:"ca"`
	CB  int     `json:"cb"`
	CAB int     `json:"cab"`
	CBA int     `json:"cba"`
	AB  float64 `json:"sim_ab"`
	BA  float64 `json:"sim_ba"`
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	return []calc.Rule{
		calc.Func("trajectoryrl.ncd_normalize", "{text} -> {normalized, zlib9_len}: what is compared of a policy text, and its compressed length", func(in struct {
			Text string `json:"text"`
		},
		) (out struct {
			Normalized string `json:"normalized"`
			Len        int    `json:"zlib9_len"`
		}, err error,
		) {
			c := newCompressor()
			defer c.close()
			out.Normalized = NormaliseText(in.Text)
			out.Len = c.size(out.Normalized)
			return out, nil
		}),
		calc.Func("trajectoryrl.ncd", "{a, b} -> {ca, cb, cab, cba, sim_ab, sim_ba}: lengths and similarities of two policy texts, a the earlier", func(in struct {
			A string `json:"a"`
			B string `json:"b"`
		},
		) (ncdOut, error) {
			c := newCompressor()
			defer c.close()
			a, b := NormaliseText(in.A), NormaliseText(in.B)
			ab := c.compare(a, b)
			ba := Sizes{ab.B, ab.A, c.after(b, a)}
			return ncdOut{ab.A, ab.B, ab.AB, ba.AB, ab.Similarity(), ba.Similarity()}, nil
		}),
	}
}
