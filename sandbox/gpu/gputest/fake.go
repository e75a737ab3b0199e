package gputest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/gpu"
)

// Fake is a gpu.Driver without hardware: its cards are names, its clocks what a test
// sets, its times what a test queues. Its nodes are those of a test, too.
type Fake struct {
	// Cards are this machine's.
	Cards []gpu.Device
	// Nodes are the device nodes of a card, beside those that all share.
	Nodes  map[int]sandbox.DeviceNode
	Shared []sandbox.DeviceNode
	Now    func() time.Time

	mu      sync.Mutex // guards what follows
	samples []gpu.Sample
	spans   []time.Duration
}

// NewFake returns a machine with n cards of a model and so much memory.
func NewFake(n int, model string, memory int64) *Fake {
	f := &Fake{Nodes: map[int]sandbox.DeviceNode{}, Shared: []sandbox.DeviceNode{{Path: "/dev/zero", Major: 1, Minor: 5}}}
	f.Now = time.Now //nolint:forbidigo // only tests use this driver
	for i := range n {
		uuid := fmt.Sprintf("GPU-0fade000-0000-0000-0000-%012d", i)
		f.Cards = append(f.Cards, gpu.Device{GPU: agon.GPU{ID: agon.GPUID(uuid), Model: model, MemoryBytes: memory, Driver: "0.0.1"}, UUID: uuid, Index: i, Minor: i})
		f.Nodes[i] = sandbox.DeviceNode{Path: fmt.Sprintf("/dev/agonfake%d", i), Major: 1, Minor: int64(3 + i)}
	}
	return f
}

// Sampled queues samples; the last stays.
func (f *Fake) Sampled(s ...gpu.Sample) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.samples = append(f.samples, s...)
}

// Timed queues the lengths of spans; after them spans take no time.
func (f *Fake) Timed(d ...time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spans = append(f.spans, d...)
}

// Devices implements gpu.Driver.
func (f *Fake) Devices(context.Context) ([]gpu.Device, error) { return slices.Clone(f.Cards), nil }

// Attach implements gpu.Driver.
func (f *Fake) Attach(_ context.Context, devices []gpu.Device) (*sandbox.Devices, error) {
	out := &sandbox.Devices{Nodes: slices.Clone(f.Shared), Env: []string{"AGON_FAKE_GPU=1"}}
	for _, d := range devices {
		n, ok := f.Nodes[d.Index]
		if !ok {
			return nil, fmt.Errorf("%w: no fake GPU %d", sandbox.ErrHost, d.Index)
		}
		out.IDs, out.Nodes = append(out.IDs, d.ID), append(out.Nodes, n)
	}
	return out, nil
}

// Sample implements gpu.Driver.
func (f *Fake) Sample(context.Context, gpu.Device) (gpu.Sample, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := gpu.Sample{ClockMHz: 1400, MaxMHz: 1500, MemoryMHz: 1000, Celsius: 40}
	if len(f.samples) > 0 {
		s = f.samples[0]
		if len(f.samples) > 1 {
			f.samples = f.samples[1:]
		}
	}
	s.At = f.Now()
	return s, nil
}

// Timer implements gpu.Driver.
func (f *Fake) Timer(context.Context, gpu.Device) (gpu.Timer, error) { return &fakeTimer{f: f}, nil }

type fakeTimer struct {
	f               *Fake
	started, closed bool
}

func (t *fakeTimer) Start(ctx context.Context) error {
	if t.closed {
		return gpu.ErrDriver
	}
	t.started = true
	return ctx.Err()
}

func (t *fakeTimer) Stop(ctx context.Context) (time.Duration, error) {
	if !t.started || t.closed {
		return 0, gpu.ErrDriver
	}
	t.started = false
	t.f.mu.Lock()
	defer t.f.mu.Unlock()
	if len(t.f.spans) == 0 {
		return 0, ctx.Err()
	}
	d := t.f.spans[0]
	t.f.spans = t.f.spans[1:]
	return d, ctx.Err()
}

func (t *fakeTimer) Close() error { t.closed = true; return nil }
