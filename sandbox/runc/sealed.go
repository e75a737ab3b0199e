package runc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// errScript says that a runtime is a script, which is not run from memory.
var errScript = errors.New("not a program")

// sealed copies a program into memory that nobody can change any more. A runtime
// that finds itself in such a file knows that no box can overwrite it through
// /proc, and spares the copy, mount and second execution by which it would
// otherwise make sure at each start of a box.
func sealed(path string) (*os.File, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	var magic [4]byte
	if _, err := io.ReadFull(in, magic[:]); err != nil || !bytes.Equal(magic[:], []byte("\x7fELF")) {
		return nil, errScript
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate("runc", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 every such file can be executed
		fd, err = unix.MemfdCreate("runc", flags)
	}
	if err != nil {
		return nil, fmt.Errorf("make file in memory: %w", err)
	}
	out := os.NewFile(uintptr(fd), "runc")
	if _, err = io.Copy(out, in); err == nil {
		err = unix.Fchmod(fd, 0o500)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("seal %s: %w", path, err)
	}
	return out, nil
}
