// What only the tests of this package need.

package play

import "fmt"

// CheckName says what is wrong with an agent's name, "" if nothing.
func CheckName(name string) string {
	if !nameForm().MatchString(name) {
		return fmt.Sprintf("want 1 to %d of A-Z, a-z, 0-9, blank, _, . and -", MaxName)
	}
	return ""
}
