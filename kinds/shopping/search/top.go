package search

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"
)

// How a query runs. Products are numbered by length, shortest first, so that
// what a word can add to a score falls with the numbers. A query walks over
// windows of products. In each it knows the most that every word can add; words
// that together cannot lift a product among the best are only looked up for
// products that other words lift near enough. A window in which all words
// together are too weak is passed over.
const (
	span      = 1 << 12 // products of a window
	blockSize = 1 << 7  // postings that share one bound
	// slack covers that sums of the same numbers in another order differ in the last bits.
	slack = 1 + 1e-9
	// tableFreq and tables bound the tables of scores that a query makes.
	tableFreq = 4
	tables    = 16
)

// clause is a word of a query.
type clause struct {
	posts  []uint32
	tf     []uint8
	bounds []float32 // the greatest x of every block
	weight float32
	table  *[tableFreq][256]float64 // nil: computed for every posting
	from   int                      // first posting of the window
	to     int                      // first posting after it
	most   float64                  // that it can add in the window
	weak   bool                     // it is only looked up
}

// part is what a word adds to a score; it grows with x, the product's
// frequency of the word over its length.
func (c *clause) part(x float32) float64 { return float64(c.weight - c.weight/(1+x)) }

func (x *Index) partAt(c *clause, i int) float64 {
	freq, norm := c.tf[i], x.norm[c.posts[i]]
	if c.table != nil && freq < tableFreq {
		return c.table[freq][norm]
	}
	return c.part(float32(freq) * x.inverse[norm])
}

// bound fills in the greatest x of every block of every word.
func (x *Index) bound() {
	x.boundAt = make([]uint32, len(x.postAt))
	n := uint32(0)
	for i := range len(x.postAt) - 1 {
		n += uint32((x.postAt[i+1] - x.postAt[i] + blockSize - 1) / blockSize)
		x.boundAt[i+1] = n
	}
	x.bounds = make([]float32, n)
	for i := range len(x.postAt) - 1 {
		from, to := x.postAt[i], x.postAt[i+1]
		list := x.bounds[x.boundAt[i]:x.boundAt[i+1]]
		for j := from; j < to; j++ {
			at := &list[(j-from)/blockSize]
			*at = max(*at, float32(x.tf[j])*x.inverse[x.norm[x.posts[j]]])
		}
	}
}

// clauses are the words of a text that the index knows, in their order.
func (x *Index) clauses(text string, s *scratch) error {
	s.clauses = s.clauses[:0]
	at := map[string]int{} // of every different word, known or not
	counts, ids := make([]int, 0, 16), make([]uint32, 0, 16)
	tooMany := false
	s.an.terms(text, func(t string) bool {
		if i, ok := at[t]; ok {
			if i >= 0 {
				counts[i]++
			}
			return true
		}
		if len(at) == MaxTerms {
			tooMany = true
			return false
		}
		at[t] = -1
		if id, ok := x.terms[t]; ok {
			at[t] = len(ids)
			counts, ids = append(counts, 1), append(ids, id)
		}
		return true
	})
	if tooMany {
		return ErrTooManyTerms
	}
	n := float64(x.meta.Documents)
	for i, id := range ids {
		from, to := x.postAt[id], x.postAt[id+1]
		df := float64(to - from)
		c := clause{
			posts: x.posts[from:to], tf: x.tf[from:to], bounds: x.bounds[x.boundAt[id]:x.boundAt[id+1]],
			weight: float32(counts[i]) * float32(math.Log(1+(n-df+.5)/(df+.5))),
		}
		if len(c.posts) > 4096 && i < tables { // the table pays
			if len(s.tables) <= i {
				s.tables = append(s.tables, make([][tableFreq][256]float64, i+1-len(s.tables))...)
			}
			c.table = &s.tables[i]
			for freq := range c.table {
				for norm, inverse := range x.inverse {
					c.table[freq][norm] = c.part(float32(freq) * inverse)
				}
			}
		}
		s.clauses = append(s.clauses, c)
	}
	return nil
}

// seek is the first posting from i on whose product is not below limit.
func seek(posts []uint32, i int, limit uint32) int {
	step := 1
	for i+step <= len(posts) && posts[i+step-1] < limit {
		i += step
		step *= 2
	}
	end := min(len(posts), i+step)
	return i + sort.Search(end-i, func(j int) bool { return posts[i+j] >= limit })
}

// window moves all clauses to the next window that has postings. It reports
// where it starts, or false after the last.
func (s *scratch) window() (uint32, bool) {
	base, some := uint32(math.MaxUint32), false
	for i := range s.clauses {
		c := &s.clauses[i]
		if c.from = c.to; c.from < len(c.posts) {
			base, some = min(base, c.posts[c.from]), true
		}
	}
	if !some {
		return 0, false
	}
	base -= base % span
	for i := range s.clauses {
		c := &s.clauses[i]
		c.most = 0
		if c.from == len(c.posts) || c.posts[c.from] >= base+span {
			continue
		}
		c.to = seek(c.posts, c.from, base+span)
		c.most = c.part(slices.Max(c.bounds[c.from/blockSize : (c.to-1)/blockSize+1]))
	}
	return base, true
}

// search offers k every product that it may want and that passes f.
func (x *Index) search(ctx context.Context, text string, f *filter, s *scratch, k *keeper) error {
	if err := x.clauses(text, s); err != nil {
		return err
	}
	if s.sum == nil {
		s.sum = make([]float64, span)
	}
	s.order = s.order[:0]
	for i := range s.clauses {
		s.order = append(s.order, i)
	}
	for !k.full() {
		base, ok := s.window()
		if !ok {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		slices.SortFunc(s.order, func(a, b int) int { return cmp.Compare(s.clauses[a].most, s.clauses[b].most) })
		weak, rest := 0, 0.0 // words that cannot do alone, and the most that they can add
		for weak < len(s.order) && k.hopeless(rest+s.clauses[s.order[weak]].most) {
			rest += s.clauses[s.order[weak]].most
			weak++
		}
		if weak < len(s.order) {
			x.walk(base, s.order[:weak], rest, f, s, k)
		}
	}
	return nil
}

// walk scores the products of a window.
func (x *Index) walk(base uint32, weak []int, rest float64, f *filter, s *scratch, k *keeper) {
	for _, i := range weak {
		s.clauses[i].weak = true
	}
	touched := s.touched[:0]
	for i := range s.clauses { // in the order of the words: sums depend on it
		c := &s.clauses[i]
		if c.weak {
			continue
		}
		for j := c.from; j < c.to; j++ {
			d := c.posts[j] - base
			if s.sum[d] == 0 {
				touched = append(touched, d)
			}
			s.sum[d] += x.partAt(c, j)
		}
	}
	for _, at := range touched {
		sum, d := s.sum[at], base+at
		s.sum[at] = 0
		if k.hopeless(sum+rest) || (f.any && !x.passes(f, d)) {
			continue
		}
		if score, ok := x.finish(d, sum, rest, weak, s, k); ok {
			k.offer(hit{doc: d, score: score, rank: x.rank[d]})
		}
	}
	for _, i := range weak {
		s.clauses[i].weak = false
	}
	s.touched = touched
}

// finish adds what the weak words give, the strongest first. It reports false
// where the product turns out to be hopeless.
func (x *Index) finish(d uint32, sum, rest float64, weak []int, s *scratch, k *keeper) (float32, bool) {
	added := false
	for i := len(weak) - 1; i >= 0; i-- {
		c := &s.clauses[weak[i]]
		rest -= c.most
		if j, ok := slices.BinarySearch(c.posts[c.from:c.to], d); ok {
			sum += x.partAt(c, c.from+j)
			added = true
		}
		if k.hopeless(sum + max(0, rest)) {
			return 0, false
		}
	}
	if score := float32(sum * slack); !added || score == float32(sum/slack) {
		return float32(sum), true
	}
	sum = 0 // near the middle between two floats: only the order of the words decides
	for i := range s.clauses {
		c := &s.clauses[i]
		if j, ok := slices.BinarySearch(c.posts[c.from:c.to], d); ok {
			sum += x.partAt(c, c.from+j)
		}
	}
	return float32(sum), true
}

// hit is a product that was found.
type hit struct {
	doc   uint32
	score float32
	rank  uint32 // of its id: decides between equal scores
}

// better reports whether a stands before b by relevance: greater score, then smaller id.
func (a hit) better(b hit) bool {
	if a.score != b.score {
		return a.score > b.score
	}
	return a.rank < b.rank
}

// keeper keeps the best of what it is offered, or counts it.
type keeper struct {
	x     *Index
	order Sort
	limit int
	list  []hit // at most twice the limit
	// floor is the worst that can still be among the best; nil: everything can.
	floor *hit
	// counting: nothing is kept; what stands before the floor is counted up to the limit.
	counting bool
	count    int
}

// hopeless reports whether a product of at most that score is not wanted.
func (k *keeper) hopeless(score float64) bool {
	return k.floor != nil && k.order == ByRelevance && float32(score*slack) < k.floor.score
}

// full reports whether a counter has all that it counts.
func (k *keeper) full() bool { return k.counting && k.count == k.limit }

func (k *keeper) before(a, b hit) bool {
	if k.order != ByRelevance {
		if c := k.x.compare(k.order, a.doc, b.doc); c != 0 {
			return c < 0
		}
	}
	return a.better(b)
}

func (k *keeper) offer(d hit) {
	switch {
	case k.floor != nil && !k.before(d, *k.floor):
	case k.counting:
		k.count = min(k.limit, k.count+1)
	default:
		k.list = append(k.list, d)
		if len(k.list) == 2*k.limit || (len(k.list) == k.limit && k.floor == nil) {
			k.cut()
		}
	}
}

// cut leaves the best of the list, in no order, and sets the floor to the worst of them.
func (k *keeper) cut() {
	lo, hi := 0, len(k.list) // the place limit-1 is in [lo, hi)
	for hi-lo > 1 {
		pivot := k.list[lo+(hi-lo)/2]
		i, j := lo, hi-1
		for i <= j {
			for k.before(k.list[i], pivot) {
				i++
			}
			for k.before(pivot, k.list[j]) {
				j--
			}
			if i <= j {
				k.list[i], k.list[j] = k.list[j], k.list[i]
				i++
				j--
			}
		}
		switch {
		case k.limit-1 <= j:
			hi = j + 1
		case k.limit-1 >= i:
			lo = i
		default:
			lo, hi = k.limit-1, k.limit
		}
	}
	k.list = k.list[:k.limit]
	floor := k.list[k.limit-1]
	k.floor = &floor
}

// best are the products that were kept, best first. The keeper ends with it.
func (k *keeper) best() []hit {
	slices.SortFunc(k.list, func(a, b hit) int {
		switch {
		case k.before(a, b):
			return -1
		case k.before(b, a):
			return 1
		}
		return 0
	})
	return k.list[:min(k.limit, len(k.list))]
}

func docs(hits []hit) []uint32 {
	list := make([]uint32, len(hits))
	for i, d := range hits {
		list[i] = d.doc
	}
	return list
}
