package gputest_test

import (
	"testing"

	"github.com/agon-arena/agon/sandbox/gpu/gputest"
)

func TestFake(t *testing.T) { gputest.Run(t, gputest.NewFake(2, "Fake 1000", 1<<30)) }
