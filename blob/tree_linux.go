package blob

import (
	"os"

	"golang.org/x/sys/unix"
)

// openPlain opens p for reading without waiting for the other end of a FIFO
// that may have taken the file's place.
func openPlain(root *os.Root, p string) (*os.File, error) {
	return root.OpenFile(p, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
}

// renameNew renames a directory onto a name that must not exist: a plain
// rename would replace an empty directory.
func renameNew(from, to string) error {
	return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
}
