package plain

import (
	"fmt"
	"strings"
)

// Count says how many there are of a thing: "1 run", "2 runs", "3 canaries". n is a
// whole number of any type, one is the thing's name for a single one.
func Count(n any, one string) string {
	s := fmt.Sprint(n)
	switch stem, y := strings.CutSuffix(one, "y"); {
	case s == "1":
		return s + " " + one
	case y && !strings.HasSuffix(stem, "a") && !strings.HasSuffix(stem, "e") && !strings.HasSuffix(stem, "o"):
		return s + " " + stem + "ies"
	}
	return s + " " + one + "s"
}
