package plain

import (
	"strings"
	"testing"
)

func TestNear(t *testing.T) {
	list := []string{"north-harbour", "north-island", "south-cape", strings.Repeat("x", 100)}
	for name, want := range map[string]string{
		"north-iland": "north-island", "south-capes": "south-cape", "nope": "", "": "", "harbour": "", strings.Repeat("x", 99): "",
	} {
		if got := Near(name, list); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
