// Package disk tells how much room a disk has.
package disk

import "golang.org/x/sys/unix"

// Room returns what a process without privileges may still write to the disk that
// dir lies on, and the size of it, both in bytes. dir must be there.
func Room(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * s.Bsize, int64(s.Blocks) * s.Bsize, nil
}
