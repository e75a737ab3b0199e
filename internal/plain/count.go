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

// Some names up to most of names, and counts the rest: "a, b and c", "a, b and 3 more".
func Some(names []string, most int) string {
	n := len(names)
	if n > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", n-most)
	}
	if n < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
}
