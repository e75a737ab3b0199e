package runsc_test

import (
	"testing"

	"github.com/agon-arena/agon/sandbox/sandboxtest"
)

func TestAttacks(t *testing.T) { sandboxtest.RunAttacks(t, suite(t)) }
