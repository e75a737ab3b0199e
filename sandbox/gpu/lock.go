package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
)

// Locks gives devices to one user at a time, across all processes of this machine
// that use the same directory: a file for each card, locked with flock, which the
// kernel frees when its holder dies. Who works on the machine besides agon is not kept
// away; the samples show what it does to the clocks.
type Locks struct {
	// Dir holds the files. All validators of a machine must have the same: DefaultLocks.
	Dir string
	// Again is how often a waiter looks; 0 is half a second.
	Again time.Duration
}

// DefaultLocks is the directory of this machine's locks.
const DefaultLocks = "/run/lock/agon-gpu"

// Hold is some devices of which nobody else has any.
type Hold struct {
	Devices []Device
	files   []*os.File
}

// Free gives the devices back. Idempotent.
func (h *Hold) Free() {
	for _, f := range h.files {
		_ = f.Close() // which unlocks it
	}
	h.files = nil
}

// ErrNotHere says that this machine has no devices as they are asked for.
var ErrNotHere = errors.New("this machine has no such GPUs")

// Take waits until the devices for a need are free and holds them, all of one model.
// waiting is called once when it has to wait; it may be nil. Errors: ErrNotHere, those
// of Devices, of the directory (sandbox.ErrHost), and ctx's.
func (l Locks) Take(ctx context.Context, d Driver, need *agon.GPUNeed, waiting func()) (*Hold, error) {
	list, err := d.Devices(ctx)
	if err != nil {
		return nil, err
	}
	if need.Choose(Facts(list)) == nil {
		return nil, fmt.Errorf("%w: want %s", ErrNotHere, need)
	}
	if err := os.MkdirAll(l.Dir, 0o755); err != nil { //nolint:gosec // validators of several users share it
		return nil, fmt.Errorf("%w: lock GPUs: %w", sandbox.ErrHost, err)
	}
	again := l.Again
	if again <= 0 {
		again = time.Second / 2
	}
	tick := time.NewTicker(again)
	defer tick.Stop()
	for {
		h, err := l.try(list, need)
		if h != nil || err != nil {
			return h, err
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// try holds devices for a need if enough are free. It never waits with some of them
// in its hands, so that two users of several cards do not wait for each other.
func (l Locks) try(list []Device, need *agon.GPUNeed) (h *Hold, err error) {
	free := &Hold{}
	defer func() { free.Free() }()
	files := map[string]*os.File{}
	for _, d := range list {
		if !need.Fits(d.GPU) {
			continue
		}
		f, err := l.lock(d.ID)
		if err != nil {
			return nil, fmt.Errorf("%w: lock GPU %d: %w", sandbox.ErrHost, d.Index, err)
		}
		if f == nil {
			continue // somebody has it
		}
		free.Devices, free.files = append(free.Devices, d), append(free.files, f)
		files[d.ID] = f
		if chosen := need.Choose(Facts(free.Devices)); chosen != nil {
			h = &Hold{}
			for _, g := range chosen {
				i := slices.IndexFunc(free.Devices, func(d Device) bool { return d.ID == g.ID })
				h.Devices, h.files = append(h.Devices, free.Devices[i]), append(h.files, files[g.ID])
				free.files = slices.DeleteFunc(free.files, func(f *os.File) bool { return f == files[g.ID] })
			}
			return h, nil
		}
	}
	return nil, nil
}

// Held reports whether somebody on this machine holds a device now.
func (l Locks) Held(d Device) bool {
	if _, err := os.Stat(filepath.Join(l.Dir, d.ID)); err != nil {
		return false
	}
	f, err := l.lock(d.ID)
	if f != nil {
		_ = f.Close()
	}
	return f == nil && err == nil
}

// lock locks the file of a card; nil: somebody has it. A file's name is a card's id, so
// that a link that somebody put there is the only trap: it is not followed.
func (l Locks) lock(id string) (*os.File, error) {
	if strings.ContainsAny(id, "/.") {
		return nil, fmt.Errorf("id %.40q", id)
	}
	f, err := os.OpenFile(filepath.Join(l.Dir, id), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o666) //nolint:gosec // validators of several users lock it
	if err != nil {
		return nil, err
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case err == nil:
		return f, nil
	case errors.Is(err, unix.EWOULDBLOCK):
		return nil, f.Close()
	default:
		return nil, errors.Join(err, f.Close())
	}
}
