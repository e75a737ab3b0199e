package copycat

import "sync"

// Bounds above which two submissions are of one cluster.
const (
	// ContainedBound is how much of the smaller one's weight the larger one has.
	ContainedBound = 0.7
	// JaccardBound is how much of all that both have is the same.
	JaccardBound = 0.5
	// LeastWeight is what a sketch must weigh, besides what is common, to be
	// compared by containment: short ones are like each other by chance.
	LeastWeight = 40
	// contained in something much larger says little: a library holds everything.
	mostTimes = 6
)

// Measures by which a match was found, in the order of their strength.
const (
	MeasureExact      = "exact"      // the same bytes
	MeasureStructure  = "structure"  // the same shapes of statements and runs of words
	MeasureContained  = "contained"  // most of one stands in the other
	MeasureBehaviour  = "behaviour"  // the same requests on the same tasks
	MeasureCompressed = "compressed" // one says little that the other does not
)

// Match is an earlier submission that a new one is like.
type Match struct {
	ID         string
	Measure    string
	Similarity float64
}

// Index finds what a new submission is like, among many. Safe for concurrent use.
type Index struct {
	mu     sync.RWMutex
	ids    []string
	list   []Sketch
	exact  map[string]int
	at     map[uint64][]int32 // by print; common ones are not in it
	common map[uint64]bool
}

// NewIndex returns an index that does not compare what stands in common: what a
// kind gives away, its templates and samples.
func NewIndex(common ...Sketch) *Index {
	x := &Index{exact: map[string]int{}, at: map[uint64][]int32{}, common: map[uint64]bool{}}
	for _, s := range common {
		for _, p := range s.Prints {
			x.common[p.Hash] = true
		}
	}
	return x
}

// Len is how many sketches there are.
func (x *Index) Len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.ids)
}

// Add puts a submission into the index.
func (x *Index) Add(id string, s Sketch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := int32(len(x.ids)) //nolint:gosec // far fewer than 2^31
	x.ids, x.list = append(x.ids, id), append(x.list, s)
	if _, ok := x.exact[string(s.Exact)]; !ok {
		x.exact[string(s.Exact)] = int(n)
	}
	for _, p := range s.Prints {
		if !x.common[p.Hash] {
			x.at[p.Hash] = append(x.at[p.Hash], n)
		}
	}
}

// Nearest returns the earlier submission that s is most like, if it is of one
// cluster with it.
func (x *Index) Nearest(s Sketch) (m Match, ok bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if i, same := x.exact[string(s.Exact)]; same {
		return Match{x.ids[i], MeasureExact, 1}, true
	}
	x.each(s, func(c Match) {
		if !ok || c.Similarity > m.Similarity {
			m, ok = c, true
		}
	})
	return m, ok
}

// Matches returns all earlier submissions that are of one cluster with s, in the
// order in which they were added.
func (x *Index) Matches(s Sketch) (out []Match) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	x.each(s, func(m Match) { out = append(out, m) })
	return out
}

func (x *Index) each(s Sketch, found func(m Match)) {
	shared := make([]float32, len(x.ids))
	own := 0.0
	for _, p := range s.Prints {
		if x.common[p.Hash] {
			continue
		}
		own += float64(p.Weight)
		for _, i := range x.at[p.Hash] {
			shared[i] += p.Weight
		}
	}
	for i, w := range shared {
		// A cheap bound first: most have nothing in common.
		if float64(w) < 0.3*min(own, x.list[i].Weight) || w == 0 {
			continue
		}
		contained, jaccard := Overlap(x.list[i], s, x.common)
		other := x.weight(i)
		small, large := min(own, other), max(own, other)
		c := Match{ID: x.ids[i]}
		switch {
		case jaccard >= JaccardBound:
			c.Measure, c.Similarity = MeasureStructure, jaccard
		case contained >= ContainedBound && small >= LeastWeight && large <= mostTimes*small:
			c.Measure, c.Similarity = MeasureContained, contained
		default:
			continue
		}
		found(c)
	}
}

// weight is that of a sketch without what is common.
func (x *Index) weight(i int) float64 {
	if len(x.common) == 0 {
		return x.list[i].Weight
	}
	w := 0.0
	for _, p := range x.list[i].Prints {
		if !x.common[p.Hash] {
			w += float64(p.Weight)
		}
	}
	return w
}
