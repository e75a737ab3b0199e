package client

import (
	"fmt"
	"testing"

	"github.com/agon-arena/agon"
)

func TestZeros(t *testing.T) {
	run := func(reason string, list ...agon.Score) Run {
		return Run{Run: agon.Run{Reason: reason, Scores: list}}
	}
	got := Zeros([]Run{
		run("", agon.Score{Detail: "tests"}, agon.Score{Detail: "empty patch"}, agon.Score{Value: 1, Detail: "fine"}),
		run("", agon.Score{Detail: "empty patch"}), run("it raised", agon.Score{}), run("", agon.Score{}),
	})
	if s := fmt.Sprint(got); s != "[{empty patch 2} {tests 1} {it raised 1}]" {
		t.Error(s)
	}
}
