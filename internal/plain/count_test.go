package plain

import "testing"

func TestCount(t *testing.T) {
	for _, x := range []struct {
		n         any
		one, want string
	}{
		{0, "run", "0 runs"},
		{1, "run", "1 run"},
		{uint16(2), "run", "2 runs"},
		{3, "canary", "3 canaries"},
		{1, "canary", "1 canary"},
		{2, "key", "2 keys"},
		{2, "entry", "2 entries"},
	} {
		if got := Count(x.n, x.one); got != x.want {
			t.Errorf("Count(%v, %q) = %q, want %q", x.n, x.one, got, x.want)
		}
	}
}
