// What only the tests of this package need.

package consensus

// Filter drops submissions that must not be counted. The order of the rest is kept.
func Filter(list []Submission, want Expect) ([]Submission, Counts) {
	kept, c, _ := filter(list, want)
	return kept, c
}
