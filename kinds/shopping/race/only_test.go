// What only the tests of this package need.

package race

import (
	"fmt"
	"slices"
)

// Final reports whether a submission stays at s.
func (s Stage) Final() bool { return s != StageQualifying && s != StageRacing }

// Next checks a transition.
func Next(from, to State) error {
	if !slices.Contains(States[from], to) {
		return fmt.Errorf("a race that is %s cannot become %s", from, to)
	}
	return nil
}
