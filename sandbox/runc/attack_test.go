package runc_test

import (
	"testing"

	"github.com/agon-arena/agon/sandbox/sandboxtest"
)

func TestAttacks(t *testing.T) {
	d, root, dir := setup(t)
	sandboxtest.RunAttacks(t, sandboxtest.Config{Driver: d, Rootfs: root, StateDir: dir})
}
