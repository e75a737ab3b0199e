package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// A program that was started while a tick held its lock has the file until it
// runs; the next tick does not meet it.
func TestLockEndsWithItsTick(t *testing.T) {
	k := &Keeper{}
	k.cfg.Path = filepath.Join(t.TempDir(), "state.json")
	unlock, err := k.lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.lock(); err == nil {
		t.Fatal("two hold the lock")
	}
	child := copyOf(t, k.cfg.Path+".lock")
	defer func() { _ = unix.Close(child) }()
	if err := unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := k.lock()
	if err != nil {
		t.Fatalf("after the tick: %v", err)
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
}

// copyOf duplicates the descriptor of an open file, as a fork does.
func copyOf(t *testing.T, path string) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%s", e.Name())); err != nil || at != path {
			continue
		}
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Dup(n)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	t.Fatal("the file is not open")
	return 0
}
