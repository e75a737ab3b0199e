package agent

import (
	"fmt"
	"net"
	"syscall"
)

// peerUID returns the user who opened the other end, as the kernel knows it.
func peerUID(conn *net.UnixConn) (int, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("read peer: %w", err)
	}
	var cred *syscall.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return -1, fmt.Errorf("read peer: %w", err)
	}
	if cerr != nil {
		return -1, fmt.Errorf("read peer: %w", cerr)
	}
	return int(cred.Uid), nil
}
