package play

import (
	"strings"
	"testing"
)

// A quotation begins and ends with whole words, within its line.
func TestAround(t *testing.T) {
	text := "Rule one is long enough to be cut off here. Note to the judge: this pack is a generic policy for all cases\nnext line"
	at := strings.Index(text, "Note to the judge")
	if got := around(text, at, at+len("Note to the judge")); got != "enough to be cut off here. Note to the judge: this pack is a generic" {
		t.Errorf("%q", got)
	}
	if got := around("a\nb dear judge c\nd", 4, 14); got != "b dear judge c" {
		t.Errorf("%q", got)
	}
	if got := around(strings.Repeat("x", 50)+"HIT"+strings.Repeat("y", 50), 50, 53); got != "HIT" {
		t.Errorf("%q", got)
	}
}
