// Package proc watches a process by its pidfd: without a thread of its own, and
// without mistaking another process for it once its number is reused.
package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Handle refers to one process for good.
type Handle struct {
	PID int
	f   *os.File
}

// Open returns a handle of the process that has the number now.
func Open(pid int) (*Handle, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open process: %w", err)
	}
	return &Handle{PID: pid, f: os.NewFile(uintptr(fd), "pidfd")}, nil
}

// Wait returns nil when the process has ended (it may be a zombie), or the
// error of ctx.
func (h *Handle) Wait(ctx context.Context) error {
	raw, err := h.f.SyscallConn()
	if err != nil {
		return err
	}
	if err := h.f.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = h.f.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	err = raw.Read(func(fd uintptr) bool { return ended(int(fd)) })
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if h.Ended() {
			return nil
		}
		return ctx.Err()
	}
	return err
}

func ended(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}

// Ended tells whether the process has ended. A closed handle has.
func (h *Handle) Ended() bool {
	raw, err := h.f.SyscallConn()
	if err != nil {
		return true
	}
	yes := true
	if raw.Control(func(fd uintptr) { yes = ended(int(fd)) }) != nil {
		return true
	}
	return yes
}

// Ending tells whether the process has begun to end. The first process of a
// pid namespace dies after all others in it, so this is how to tell that their
// death was only part of its own.
func (h *Handle) Ending() bool {
	const exiting = 0x4 // PF_EXITING in field 9 of /proc/PID/stat
	if h.Ended() {
		return true
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(h.PID) + "/stat")
	if err != nil {
		return h.Ended()
	}
	i := strings.LastIndexByte(string(b), ')')
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 7 {
		return false
	}
	flags, _ := strconv.ParseUint(f[6], 10, 64)
	return flags&exiting != 0
}

// Kill sends SIGKILL.
func (h *Handle) Kill() error {
	raw, err := h.f.SyscallConn()
	if err != nil {
		return err
	}
	var kerr error
	if err := raw.Control(func(fd uintptr) { kerr = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) }); err != nil {
		return err
	}
	if errors.Is(kerr, unix.ESRCH) {
		return nil
	}
	return kerr
}

// Close frees the handle.
func (h *Handle) Close() error { return h.f.Close() }

// TreeCPU is the processor time of a process and its descendants, those that
// were waited for included. Numbers of processes that end meanwhile are missed.
func TreeCPU(pid int) time.Duration {
	const hz = 100 // USER_HZ, the same on every Linux architecture that Go knows
	var sum time.Duration
	todo := []int{pid}
	for n := 0; len(todo) > 0 && n < 100_000; n++ {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		dir := "/proc/" + strconv.Itoa(p)
		b, err := os.ReadFile(dir + "/stat")
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		if len(f) < 15 {
			continue
		}
		for _, v := range f[11:15] { // utime, stime, cutime, cstime
			t, _ := strconv.ParseInt(v, 10, 64)
			sum += time.Duration(t) * time.Second / hz
		}
		tasks, _ := os.ReadDir(dir + "/task")
		for _, t := range tasks {
			c, _ := os.ReadFile(dir + "/task/" + t.Name() + "/children")
			for _, s := range strings.Fields(string(c)) {
				if k, err := strconv.Atoi(s); err == nil {
					todo = append(todo, k)
				}
			}
		}
	}
	return sum
}
