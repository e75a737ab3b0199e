package main

import (
	"os"
	"testing"
	"time"

	"github.com/agon-arena/agon/sandbox/netns"
)

// The process that is killed is this program again.
func TestMain(m *testing.M) {
	netns.MaybeChild()
	if len(os.Args) > 1 && os.Args[1] == "-child" {
		main()
		return
	}
	os.Exit(m.Run())
}

// make soak and make kills play the long versions.
func TestShort(t *testing.T) {
	driver := "runc"
	if os.Geteuid() != 0 {
		t.Log("LOUD: runc needs root; bwrap is soaked instead")
		driver = "bwrap"
	}
	t.Run("soak", func(t *testing.T) {
		if err := run(t.Context(), options{driver: driver, boxes: 8, length: 4 * time.Second}); err != nil {
			t.Error(err)
		}
	})
	t.Run("kills", func(t *testing.T) {
		if err := run(t.Context(), options{driver: driver, boxes: 4, kills: 4}); err != nil {
			t.Error(err)
		}
	})
}
