package ncd

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/agon-arena/agon/engine/copycat"
)

// Text is a policy text prepared for many comparisons. It is immutable.
type Text struct {
	norm  string
	size  int    // of norm, compressed alone
	grams []gram // sampled, distinct
	total uint32 // weight of all grams
}

// gram is a sampled run of gramLen bytes, and what its first place costs in
// the text's own compression, in units of 1/16 bit.
type gram struct {
	hash   uint32
	weight uint32
}

const (
	gramLen = 8
	// sampleMask keeps one gram of four, by its hash, so that two texts keep the same ones.
	sampleMask = 3
	// shortText is below which too few grams are left to tell anything.
	shortText = 1024
	// caution divides what the prefilter believes that a text adds. A text that
	// adds a fifth is not a copy any more; one is only passed over unmeasured
	// where its grams say two fifths.
	caution = 0.5
)

// Comparer compares prepared texts exactly, and quickly where most are not
// alike. Not safe for concurrent use.
type Comparer struct {
	c *compressor
	// earlier is the text whose grams are in table, whose state the compressor keeps.
	earlier *Text
	table   gramTable
	// Measured counts the pairs that were compressed, Passed those that the prefilter decided.
	Measured, Passed int
}

// NewComparer makes a comparer; Close gives its memory back.
func NewComparer() *Comparer { return &Comparer{c: newCompressor()} }

// Close ends the comparer.
func (k *Comparer) Close() { k.c.close() }

// Prepare normalises a policy text and measures it once.
func (k *Comparer) Prepare(text string) *Text {
	t := &Text{norm: NormaliseText(text)}
	t.size = k.c.size(t.norm)
	t.grams, t.total = sample(t.norm)
	return t
}

// Sizes compares two texts exactly.
func (k *Comparer) Sizes(earlier, later *Text) Sizes {
	k.Measured++
	return Sizes{earlier.size, later.size, k.c.after(earlier.norm, later.norm)}
}

// Similar reports whether a later text reaches the threshold. similarity is
// exact where the pair was measured, else 0: then the text is far from it.
func (k *Comparer) Similar(earlier, later *Text, threshold float64) (similarity float64, measured, reached bool) {
	if k.far(earlier, later, threshold) {
		k.Passed++
		return 0, false, false
	}
	s := k.Sizes(earlier, later).Similarity()
	return s, true, s >= threshold
}

// far reports whether the pair cannot reach the threshold.
//
// Joined, two texts compress to no less than the larger one alone, but for a
// few bytes of shared code tables. And what is in neither the earlier text nor
// earlier in the later one must be paid for: the weight of the later text's
// grams that the earlier one lacks says how much that is.
func (k *Comparer) far(earlier, later *Text, threshold float64) bool {
	small, large := float64(min(earlier.size, later.size)), float64(max(earlier.size, later.size))
	most := small + (1-threshold)*large // the joined length at the threshold
	if 0.9*large-32 > most {
		return true
	}
	if len(earlier.norm) < shortText || len(later.norm) < shortText || later.total == 0 {
		return false
	}
	if k.earlier != earlier {
		k.table.fill(earlier.grams)
		k.earlier = earlier
	}
	// What it may add before the pair is out of reach, in the later text's weights.
	limit := (most - float64(earlier.size)) / (caution * float64(later.size)) * float64(later.total)
	if limit < 0 {
		return true
	}
	novel, bound := uint64(0), uint64(limit)
	for _, g := range later.grams {
		if !k.table.has(g.hash) {
			if novel += uint64(g.weight); novel > bound {
				return true
			}
		}
	}
	return false
}

// sample returns the distinct grams whose hash is sampled, in order of their
// first place, with the cost of that place.
func sample(s string) ([]gram, uint32) {
	if len(s) < shortText {
		return nil, 0
	}
	cost := costs(s)
	seen := make(map[uint32]struct{}, len(s)/(sampleMask+1))
	var out []gram
	total := uint32(0)
	for i := 0; i+gramLen <= len(s); i++ {
		h := gramHash(s[i : i+gramLen])
		if h&sampleMask != 0 {
			continue
		}
		if _, ok := seen[h]; ok {
			continue
		}
		seen[h] = struct{}{}
		out = append(out, gram{h, uint32(cost[i])})
		total += uint32(cost[i])
	}
	return out, total
}

func gramHash(s string) uint32 {
	_ = s[7]
	x := uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 | uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
	x *= 0x9e3779b97f4a7c15
	return uint32(x>>32) ^ uint32(x>>11)
}

// costs says for every byte what it costs about in a compression of s, in
// units of 1/16 bit: a greedy parse with rough prices.
func costs(s string) []uint16 {
	const tableBits = 14
	out := make([]uint16, len(s))
	last := make([]int32, 1<<tableBits)
	for i := 0; i < len(s); {
		n, dist := 0, 0
		if i+4 <= len(s) {
			x := uint32(s[i]) | uint32(s[i+1])<<8 | uint32(s[i+2])<<16 | uint32(s[i+3])<<24
			at := &last[x*2654435761>>(32-tableBits)]
			if j := int(*at) - 1; j >= 0 {
				for n < 258 && i+n < len(s) && s[j+n] == s[i+n] {
					n++
				}
				dist = i - j
			}
			*at = int32(i) + 1
		}
		if n < 4 {
			out[i] = 6 * 16
			i++
			continue
		}
		w := uint16((8 + bits.Len(uint(dist))) * 16 / n)
		for end := i + n; i < end; i++ {
			out[i] = max(1, w)
		}
	}
	return out
}

// gramTable is a set of hashes with open places.
type gramTable struct {
	slots []uint32 // hash, 0 for a free place
	zero  bool
	// maybe has a bit for every hash that is there: most that are asked for are
	// not, and these few bytes stay in the nearest cache.
	maybe [1024]uint64
}

func (t *gramTable) fill(grams []gram) {
	n := 1 << bits.Len(uint(len(grams)*2+1))
	if len(t.slots) != n {
		t.slots = make([]uint32, n)
	} else {
		clear(t.slots)
	}
	t.zero = false
	clear(t.maybe[:])
	for _, g := range grams {
		t.maybe[g.hash>>8&1023] |= 1 << (g.hash >> 2 & 63)
		if g.hash == 0 {
			t.zero = true
			continue
		}
		i := int(g.hash>>2) & (n - 1)
		for t.slots[i] != 0 {
			i = (i + 1) & (n - 1)
		}
		t.slots[i] = g.hash
	}
}

func (t *gramTable) has(h uint32) bool {
	if t.maybe[h>>8&1023]>>(h>>2&63)&1 == 0 {
		return false
	}
	if h == 0 {
		return t.zero
	}
	mask := len(t.slots) - 1
	for i := int(h>>2) & mask; t.slots[i] != 0; i = (i + 1) & mask {
		if t.slots[i] == h {
			return true
		}
	}
	return false
}

// Entry is a pack that stands in line to be played.
type Entry struct {
	Key   string // who, unique
	Hash  string // of the pack
	Block uint64 // of its first commitment; lower came earlier
	Text  string // its policy text
	Bare  bool   // it has no policy text: only its hash is compared
}

// Copy says why an entry is none of its own.
type Copy struct {
	Of         string  // the key of the original
	Similarity float64 // of the policy texts; 1 where the whole pack is the same
	Same       bool    // the same bytes
}

// Exclude finds the copies among entries: the same pack by another key, then
// policy texts that are too similar to an earlier one. Of several at one block
// the first of the list counts as earlier. Chains end at the true original.
func (k *Comparer) Exclude(entries []Entry, threshold float64) map[string]Copy {
	order := slices.Clone(entries)
	slices.SortStableFunc(order, func(a, b Entry) int {
		switch {
		case a.Block < b.Block:
			return -1
		case a.Block > b.Block:
			return 1
		}
		return 0
	})
	out := map[string]Copy{}
	first := map[string]string{} // hash → key
	members := map[string][]string{}
	var heads []Entry
	for _, e := range order {
		if of, ok := first[e.Hash]; ok {
			out[e.Key] = Copy{Of: of, Similarity: 1, Same: true}
			members[of] = append(members[of], e.Key)
			continue
		}
		first[e.Hash] = e.Key
		if !e.Bare {
			heads = append(heads, e)
		}
	}
	texts := make([]*Text, len(heads))
	for i, e := range heads {
		texts[i] = k.Prepare(e.Text)
	}
	flagged := make([]bool, len(heads))
	for i, a := range heads {
		if flagged[i] {
			continue
		}
		for j := i + 1; j < len(heads); j++ {
			if flagged[j] {
				continue
			}
			s, _, reached := k.Similar(texts[i], texts[j], threshold)
			if texts[i].norm == "" && texts[j].norm == "" {
				s, reached = 1, true // two packs that say nothing
			}
			if !reached {
				continue
			}
			flagged[j] = true
			b := heads[j]
			out[b.Key] = Copy{Of: a.Key, Similarity: s}
			for _, m := range members[b.Key] {
				out[m] = Copy{Of: a.Key, Similarity: s}
			}
		}
	}
	return out
}

// Measures are further ways to tell a copy, for the blind spots of the
// compression distance: words replaced, halves swapped, texts longer than the
// compressor's window, other files of the pack.
type Measures struct {
	NCD      float64 `json:"ncd"`      // later after earlier: the one that arenas agree on
	Reverse  float64 `json:"reverse"`  // earlier after later
	Shingles float64 `json:"shingles"` // share of the shorter text's runs of four words that the other has too, in any order
	Words    float64 `json:"words"`    // longest common sequence of words, as a share of both
	Files    float64 `json:"files"`    // Shingles over all files of the packs
}

// Thresholds of the stricter measures, from which on a text is a copy.
const (
	ShinglesThreshold = 0.50
	WordsThreshold    = 0.75
	FilesThreshold    = 0.60
)

// Strict reports whether any measure says copy.
func (m Measures) Strict() bool {
	return m.NCD >= NCDThreshold || m.Reverse >= NCDThreshold || m.Shingles >= ShinglesThreshold || m.Words >= WordsThreshold || m.Files >= FilesThreshold
}

// Measure compares two policy texts and the whole of their packs' files.
func (k *Comparer) Measure(earlier, later string, earlierFiles, laterFiles []string) Measures {
	a, b := k.Prepare(earlier), k.Prepare(later)
	m := Measures{NCD: k.Sizes(a, b).Similarity(), Reverse: k.Sizes(b, a).Similarity()}
	if a.norm == "" && b.norm == "" {
		m.NCD, m.Reverse = 1, 1
	}
	wa, wb := wordsOf(earlier), wordsOf(later)
	m.Shingles, m.Words = containment(wa, wb), common(wa, wb)
	all := func(list []string) (out []string) {
		for _, f := range list {
			out = append(out, wordsOf(f)...)
		}
		return out
	}
	m.Files = containment(all(earlierFiles), all(laterFiles))
	return m
}

// maxWords bounds what the stricter measures read of a text.
const maxWords = 16_384

// wordsOf are the words that are compared: spelled alike where they look alike, so that
// hidden characters, letters of other scripts, case and what stands for blanks hide nothing.
func wordsOf(text string) []string {
	w := copycat.Words(text)
	return w[:min(len(w), maxWords)]
}

const shingle = 4

func shingles(words []string) map[string]struct{} {
	out := map[string]struct{}{}
	for i := 0; i+shingle <= len(words); i++ {
		out[strings.Join(words[i:i+shingle], " ")] = struct{}{}
	}
	if len(words) > 0 && len(words) < shingle {
		out[strings.Join(words, " ")] = struct{}{}
	}
	return out
}

func containment(a, b []string) float64 {
	x, y := shingles(a), shingles(b)
	if len(x) > len(y) {
		x, y = y, x
	}
	if len(x) == 0 {
		return 0
	}
	n := 0
	for s := range x {
		if _, ok := y[s]; ok {
			n++
		}
	}
	return float64(n) / float64(len(x))
}

// common is the length of the longest common sequence of words, twice, over
// the number of words of both. A row of the table is one big number, so 64
// places are one step.
func common(a, b []string) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	n := (len(a) + 63) / 64
	where := map[string][]uint64{}
	for i, w := range a {
		if where[w] == nil {
			where[w] = make([]uint64, n)
		}
		where[w][i/64] |= 1 << (i % 64)
	}
	row := make([]uint64, n)
	for i := range row {
		row[i] = ^uint64(0)
	}
	for _, w := range b {
		m := where[w]
		if m == nil {
			continue
		}
		carry := uint64(0)
		for i, v := range row {
			u := v & m[i]
			sum, c := bits.Add64(v, u, carry)
			carry = c
			row[i] = sum | v&^m[i]
		}
	}
	zeros := 0
	for i, v := range row {
		if i == n-1 && len(a)%64 != 0 {
			v |= ^uint64(0) << (len(a) % 64)
		}
		zeros += bits.OnesCount64(^v)
	}
	return 2 * float64(zeros) / float64(len(a)+len(b))
}
