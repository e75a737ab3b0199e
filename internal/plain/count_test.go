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

func TestSome(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	for n, want := range map[int]string{0: "", 1: "a", 2: "a and b", 3: "a, b and c", 5: "a, b, c and 2 more"} {
		if got := Some(names[:n], 3); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
