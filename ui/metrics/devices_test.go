package metrics

import (
	"testing"

	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// giving is a driver that can give boxes devices.
type giving struct{ sandbox.Driver }

func (giving) GivesDevices() bool { return true }

// Counting a driver's boxes does not hide that it can give them devices.
func TestCountedDriverGivesDevices(t *testing.T) {
	plain := fake.New(fake.Config{})
	if d := (countedDriver{Driver: giving{plain}}); !sandbox.GivesDevices(d) {
		t.Error("a driver that gives devices does not when its boxes are counted")
	}
	if d := (countedDriver{Driver: plain}); sandbox.GivesDevices(d) != sandbox.GivesDevices(plain) {
		t.Error("a driver that gives none does when its boxes are counted")
	}
}
