package corpus

import (
	"math"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Near-duplicates are found by MinHash: the share of equal minima estimates the
// Jaccard similarity of two texts' shingles.
const (
	minima       = 64
	bands        = 16 // of 4 rows: candidates from about 0.5 similarity on
	shingleWords = 5
	// NearDuplicate is the similarity from which two records count as one.
	NearDuplicate = 0.8
	// SameQuery is the similarity from which two queries are one problem in other words.
	SameQuery = 0.6
)

// Normalise is how texts are compared: lower case, everything but letters and
// digits a blank, blanks collapsed.
func Normalise(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	gap := false
	for _, r := range s {
		if r < utf8.RuneSelf { // nearly all
			switch {
			case r >= 'A' && r <= 'Z':
				r += 'a' - 'A'
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			default:
				gap = true
				continue
			}
			if gap && b.Len() > 0 {
				b.WriteByte(' ')
			}
			gap = false
			b.WriteByte(byte(r))
			continue
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			if gap && b.Len() > 0 {
				b.WriteByte(' ')
			}
			gap = false
			b.WriteRune(unicode.ToLower(r))
		} else {
			gap = true
		}
	}
	return b.String()
}

func hash64(s string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return mix(h)
}

// mix spreads the bits of x (the finaliser of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// shingles are the hashes of n words in a row of a normalised text; a shorter text is one shingle.
func shingles(normal string, n int) []uint64 {
	words := strings.Fields(normal)
	if len(words) == 0 {
		return nil
	}
	if len(words) < n {
		return []uint64{hash64(normal)}
	}
	out := make([]uint64, 0, len(words)-n+1)
	each := make([]uint64, len(words))
	for i, w := range words {
		each[i] = hash64(w)
	}
	for i := range len(words) - n + 1 {
		h := uint64(n)
		for _, w := range each[i : i+n] {
			h = mix(bits.RotateLeft64(h, 17) ^ w)
		}
		out = append(out, h)
	}
	return out
}

// Signature is the MinHash of a text.
type Signature [minima]uint64

func signature(sh []uint64) (s Signature) {
	for i := range s {
		s[i] = math.MaxUint64
	}
	for _, h := range sh {
		for i := range s {
			if v := mix(h + uint64(i)*0x9e3779b97f4a7c15); v < s[i] {
				s[i] = v
			}
		}
	}
	return s
}

func (s *Signature) similarity(o *Signature) float64 {
	n := 0
	for i := range s {
		if s[i] == o[i] {
			n++
		}
	}
	return float64(n) / minima
}

// index finds texts like one that was seen before.
type index struct {
	sigs    []Signature
	buckets map[uint64][]int
}

func newIndex() *index { return &index{buckets: map[uint64][]int{}} }

// like returns the numbers of earlier texts at least as similar as bound, and
// adds s. Empty texts are like nothing.
func (x *index) like(s Signature, bound float64) (out []int) {
	if s[0] == math.MaxUint64 {
		x.sigs = append(x.sigs, s)
		return nil
	}
	seen := map[int]bool{}
	n := len(x.sigs)
	for b := range bands {
		const rows = minima / bands
		h := uint64(b)
		for _, v := range s[b*rows : (b+1)*rows] {
			h = mix(bits.RotateLeft64(h, 13) ^ v)
		}
		for _, i := range x.buckets[h] {
			if !seen[i] {
				seen[i] = true
				if x.sigs[i].similarity(&s) >= bound {
					out = append(out, i)
				}
			}
		}
		x.buckets[h] = append(x.buckets[h], n)
	}
	x.sigs = append(x.sigs, s)
	return out
}

// union is a union-find over strings.
type union struct{ parent map[string]string }

func newUnion() *union { return &union{parent: map[string]string{}} }

func (u *union) find(k string) string {
	p, ok := u.parent[k]
	if !ok {
		u.parent[k] = k
		return k
	}
	if p == k {
		return k
	}
	r := u.find(p)
	u.parent[k] = r
	return r
}

// join puts two keys into one set, named by the smaller of its names.
func (u *union) join(a, b string) {
	a, b = u.find(a), u.find(b)
	if a == b {
		return
	}
	if b < a {
		a, b = b, a
	}
	u.parent[b] = a
}
