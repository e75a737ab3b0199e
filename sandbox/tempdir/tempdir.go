// Package tempdir makes temporary directories whose names say who made them, so
// that those of killed processes can be swept.
package tempdir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox/internal/tree"
)

var nameRE = lazyregexp.New(`^agon-[a-z]{1,20}-([0-9]+)-([0-9]+)-[0-9]+$`)

// Make makes a directory for this process in os.TempDir; what is a word of its
// use. The caller removes it.
func Make(what string) (string, error) {
	pid := os.Getpid()
	dir, err := os.MkdirTemp("", fmt.Sprintf("agon-%s-%d-%s-", what, pid, startTime(pid)))
	if err != nil {
		return "", fmt.Errorf("make temporary directory: %w", err)
	}
	return dir, nil
}

// Remove removes a directory that may hold what hostile code made. It stops at
// a mount rather than empty it.
func Remove(dir string) error { return tree.Remove(dir) }

// Sweep removes the directories of this user's dead processes in dir, which is
// os.TempDir if empty, and returns how many. Other names are left alone; a mount
// in one keeps it.
func Sweep(dir string) (int, error) {
	list, err := Abandoned(dir)
	n := 0
	for _, d := range list {
		if e := tree.Remove(d); e != nil {
			err = errors.Join(err, e)
			continue
		}
		n++
	}
	return n, err
}

// Abandoned lists what Sweep would remove.
func Abandoned(dir string) ([]string, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	ents, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read temporary directories: %w", err)
	}
	var out []string
	for _, e := range ents {
		m := nameRE().FindStringSubmatch(e.Name())
		if m == nil || !e.IsDir() {
			continue
		}
		fi, err := e.Info()
		if err != nil {
			continue
		}
		st, ok := fi.Sys().(*syscall.Stat_t)
		pid, err := strconv.Atoi(m[1])
		if !ok || int(st.Uid) != os.Geteuid() || err != nil || startTime(pid) == m[2] {
			continue
		}
		out = append(out, filepath.Join(dir, e.Name()))
	}
	return out, nil
}

// startTime is field 22 of /proc/PID/stat, which tells processes with one number apart.
func startTime(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "0"
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 {
		return "0"
	}
	return f[19]
}
