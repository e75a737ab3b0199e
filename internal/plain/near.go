package plain

// maxNear bounds the names that are compared, in bytes.
const maxNear = 80

// Near returns the name of list that was meant by one that is not in it, or "":
// at most a third of its letters differ.
func Near(name string, list []string) string {
	if len(name) > maxNear {
		return ""
	}
	best, at := "", len(name)/3+1
	for _, n := range list {
		if len(n) > maxNear {
			continue
		}
		if d := distance(name, n); d <= at {
			best, at = n, d-1
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diag
			if a[i] != b[j] {
				cost++
			}
			diag = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
