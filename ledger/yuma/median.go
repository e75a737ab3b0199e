package yuma

// medians is consensus: for each column the weight that validators with more
// than kappa of the active stake support (step 6).
func medians(m matrix, active []fx, columns int, kappa fx) []fx {
	out := make([]fx, columns)
	var stake []fx
	cols := make([][]entry, columns) // by column: entry.col is the place in stake
	for i, row := range m {
		if active[i] == 0 {
			continue
		}
		for _, e := range row {
			cols[e.col] = append(cols[e.col], entry{len(stake), e.value})
		}
		stake = append(stake, active[i])
	}
	if len(stake) == 0 {
		return out
	}
	normalize(stake)
	total := sum(stake)
	s := &selection{
		stake: stake, score: make([]fx, len(stake)), minority: total - kappa,
		all: make([]int, len(stake)), low: make([]int, 0, len(stake)), high: make([]int, 0, len(stake)),
	}
	for j, col := range cols {
		if len(col) == 0 {
			continue // all scores are zero, and so is their median
		}
		clear(s.score)
		for _, e := range col {
			s.score[e.col] = e.value
		}
		out[j] = s.median(total)
	}
	return out
}

// selection is a quickselect by stake. Its slices are scratch space.
type selection struct {
	stake, score   []fx
	minority       fx
	all, low, high []int
}

// median returns the score at which the stake below first exceeds the minority.
// The pivot is the middle of the indices that are left, in their order: the
// same on every machine.
func (s *selection) median(total fx) fx {
	for i := range s.all {
		s.all[i] = i
	}
	left := s.all
	var below fx   // stake with scores below all that are left
	bound := total // stake of these and of what is left
	for len(left) > 1 {
		pivot := s.score[left[len(left)/2]]
		s.low, s.high = s.low[:0], s.high[:0]
		var lowStake, highStake fx
		for _, i := range left {
			switch {
			case s.score[i] < pivot:
				lowStake = add(lowStake, s.stake[i])
				s.low = append(s.low, i)
			case s.score[i] > pivot:
				highStake = add(highStake, s.stake[i])
				s.high = append(s.high, i)
			}
		}
		switch {
		case s.minority < below+lowStake && len(s.low) > 0:
			bound = below + lowStake
			left = append(left[:0], s.low...)
		case bound-highStake <= s.minority && len(s.high) > 0:
			below = bound - highStake
			left = append(left[:0], s.high...)
		default:
			return pivot
		}
	}
	return s.score[left[0]]
}
