package plain

import (
	"strings"
	"testing"
)

func TestNear(t *testing.T) {
	list := []string{"demo-coding", "demo-claim", "demo-pack", strings.Repeat("x", 100)}
	for name, want := range map[string]string{
		"demo-clam": "demo-claim", "demo-packs": "demo-pack", "nope": "", "": "", "coding": "", strings.Repeat("x", 99): "",
	} {
		if got := Near(name, list); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
