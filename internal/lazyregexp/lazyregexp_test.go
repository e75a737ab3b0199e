package lazyregexp

import "testing"

func TestNew(t *testing.T) {
	re := New(`^a+$`)
	if first := re(); !first.MatchString("aaa") || first != re() {
		t.Fatal("it is compiled twice, or wrongly")
	}
	defer func() {
		if recover() == nil {
			t.Fatal("a wrong expression is taken in a test")
		}
	}()
	New(`(`)
}
