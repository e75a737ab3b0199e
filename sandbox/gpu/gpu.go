// Package gpu finds the accelerators of this machine, describes what a box needs to
// use them, keeps each for one user at a time, and reads and times them. What speaks
// with a maker's devices is a Driver; Nvidia is the one that there is.
//
// Threat model: the machine, its driver and the specifications in /etc/cdi are the
// operator's; what they say is still read with limits, since a broken file must not
// stop a validator. Code in a box is hostile: it gets the devices' nodes, and with
// them the kernel driver's whole surface (docs/gpu.md). Nothing that it says of a
// device, of clocks or of time is believed.
package gpu

import (
	"context"
	"errors"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
)

// Driver is what agon needs of a maker's accelerators. Safe for concurrent use.
// gputest has its suite.
type Driver interface {
	// Devices are the GPUs of this machine that boxes can be given, by index. A machine
	// without any has none, which is not an error; ErrDriver: they cannot be asked for.
	Devices(ctx context.Context) ([]Device, error)
	// Attach describes what a box needs to use devices, each of which Devices has
	// named. Errors wrap sandbox.ErrHost.
	Attach(ctx context.Context, devices []Device) (*sandbox.Devices, error)
	// Sample reads how a device does now. Errors wrap ErrDriver.
	Sample(ctx context.Context, d Device) (Sample, error)
	// Timer times what other processes do on a device. Errors wrap ErrDriver. Close it.
	Timer(ctx context.Context, d Device) (Timer, error)
}

// ErrDriver marks a device or driver that does not answer, or not in a way that is
// understood: a failure of this machine.
var ErrDriver = errors.New("the GPU's driver does not answer")

// Device is one GPU of this machine.
type Device struct {
	agon.GPU
	UUID  string // as its driver names it: "GPU-…"; it stays on this machine
	Index int    // as its driver counts
	Minor int    // of its node: /dev/nvidiaMINOR
}

// Sample is how a device does at a moment.
type Sample struct {
	At          time.Time `json:"at"`
	ClockMHz    int64     `json:"clock_mhz"`     // of what computes
	MemoryMHz   int64     `json:"memory_mhz"`    // of its memory
	MaxMHz      int64     `json:"max_clock_mhz"` // that it can run at
	Celsius     int64     `json:"celsius"`
	MilliWatts  int64     `json:"milliwatts"`
	MemoryBytes int64     `json:"memory_bytes"` // in use, by everybody
	// Slowed are the reasons for which it runs slower than it could, of SlowReasons.
	Slowed []string `json:"slowed,omitempty"`
}

// Timer times a span by the device's own clock, from a process that no contestant's
// code runs in. A span covers everything that the device does between Start and Stop, by
// whomever it was asked; the caller holds the device alone (Locks).
type Timer interface {
	// Start marks the begin of a span.
	Start(ctx context.Context) error
	// Stop marks its end, waits until the device has come there, and says how long it was.
	Stop(ctx context.Context) (time.Duration, error)
	Close() error
}

// Facts are what records say of devices.
func Facts(devices []Device) []agon.GPU {
	out := make([]agon.GPU, len(devices))
	for i, d := range devices {
		out[i] = d.GPU
	}
	return out
}
