//go:build !linux

package agent

import (
	"errors"
	"net"
)

// peerUID refuses everybody: who asks cannot be told here.
func peerUID(*net.UnixConn) (int, error) {
	return -1, errors.New("the user of a socket's other end is known on Linux only")
}

// Protect is known on Linux only.
func Protect() error { return errors.New("a process keeps its memory to itself on Linux only") }
