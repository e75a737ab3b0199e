package validator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/gpu"
)

// GPUs are the accelerators of a validator's machine.
type GPUs struct {
	Driver gpu.Driver
	Locks  gpu.Locks
	// Every is how often a device is looked at while a span is measured; 0: a second.
	Every time.Duration
}

// Offered are the devices that claims name; none where boxes cannot be given any.
func (g *GPUs) Offered(ctx context.Context, boxes sandbox.Driver) ([]agon.GPU, error) {
	if g == nil || !sandbox.GivesDevices(boxes) {
		return nil, nil
	}
	list, err := g.Driver.Devices(ctx)
	return gpu.Facts(list), err
}

// offerFor is how long a look at the machine's GPUs holds.
const offerFor = time.Minute

// offer is what claims say of the machine's GPUs, looked at once a minute.
type offer struct {
	mu   sync.Mutex // guards all below
	at   time.Time
	list []agon.GPU
}

func (o *offer) now(ctx context.Context, p *Player, log *slog.Logger) []agon.GPU {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.at.IsZero() && p.Now().Sub(o.at) < offerFor {
		return o.list
	}
	list, err := p.GPUs.Offered(ctx, p.Driver)
	if err != nil {
		log.Warn("this machine's GPUs are not offered", "err", err, "fix", "agon doctor --gpu")
	}
	o.at, o.list = p.Now(), list
	return list
}

// held are the devices of one attempt, from its first box to its end: all boxes of it,
// and so both sides of its pairs, are on the same ones, and nobody else has any.
type held struct {
	mu   sync.Mutex // guards all below; held while the devices are waited for
	hold *gpu.Hold
	all  []agon.GPU
	void string // why the last span that was void was
	done bool
}

// given are the devices that boxes of the attempt had, by id.
func (h *held) given() []agon.GPU {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all
}

// devices are those that are held now.
func (h *held) devices() []gpu.Device {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold == nil {
		return nil
	}
	return h.hold.Devices
}

func (h *held) free() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = true
	if h.hold != nil {
		h.hold.Free()
		h.hold = nil
	}
}

// withGPUs gives a box the devices that the run's tasks ask for. They are taken before
// the first box and stay until the attempt ends.
func (e *env) withGPUs(ctx context.Context, spec sandbox.Spec) (sandbox.Spec, error) {
	need, err := agon.NeedOf(e.job.Run.Tasks)
	if err != nil {
		e.note(agon.FaultTask, "GPUs: "+err.Error())
		return spec, err
	}
	if need == nil || spec.Apart || spec.Root || spec.Network {
		return spec, nil
	}
	spec.Devices, err = e.attach(ctx, need)
	if err != nil {
		if ctx.Err() == nil && !errors.Is(err, errEnded) {
			e.note(agon.FaultValidator, "GPUs: "+err.Error())
		}
		return spec, fmt.Errorf("GPUs: %w", err)
	}
	spec.Limits.GPUs, spec.Limits.GPUMemoryBytes = int64(need.Count), need.MemoryBytes
	return spec, nil
}

// attach takes the devices, unless the attempt has them, and describes them.
func (e *env) attach(ctx context.Context, need *agon.GPUNeed) (*sandbox.Devices, error) {
	g := e.p.GPUs
	if g == nil {
		return nil, fmt.Errorf("%w: this validator has none", gpu.ErrNotHere)
	}
	h := &e.gpus
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return nil, errEnded
	}
	if h.hold == nil {
		from := e.p.Now()
		hold, err := g.Locks.Take(ctx, g.Driver, need, func() {
			e.rec.Record(agon.EventNote, "", map[string]any{"text": "waits for " + need.String() + ": other runs of this machine have them", "gpu": "waiting"})
		})
		if err != nil {
			return nil, err
		}
		h.hold, h.all = hold, gpu.Facts(hold.Devices)
		slices.SortFunc(h.all, func(a, b agon.GPU) int { return strings.Compare(a.ID, b.ID) })
		e.rec.Record(agon.EventNote, "", map[string]any{
			"text": "has " + agon.Driver{GPUs: h.all}.HardwareClass() + " alone", "gpu": "held", "devices": h.all, "waited_ms": e.p.Now().Sub(from).Milliseconds(),
		})
	}
	return g.Driver.Attach(ctx, h.hold.Devices)
}

// Span implements kind.Accelerated.
func (e *env) Span(ctx context.Context, timed bool, f func() error) (s kind.GPUSpan, err error) {
	devices := e.gpus.devices()
	if len(devices) == 0 {
		return s, f()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var timer gpu.Timer
	if timed {
		if timer, err = e.p.GPUs.Driver.Timer(ctx, devices[0]); err != nil {
			e.note(agon.FaultValidator, "timing on the GPU: "+err.Error())
			return s, fmt.Errorf("time on the GPU: %w", err)
		}
		defer timer.Close()
	}
	look := e.p.GPUs.sampler(ctx, devices)
	if timer != nil {
		if err := timer.Start(ctx); err != nil {
			_, _ = look()
			e.note(agon.FaultValidator, "timing on the GPU: "+err.Error())
			return s, fmt.Errorf("time on the GPU: %w", err)
		}
	}
	ferr := f()
	if timer != nil {
		s.Took, err = timer.Stop(ctx)
	}
	samples, serr := look()
	if err = errors.Join(err, serr); err != nil && ctx.Err() == nil {
		e.note(agon.FaultValidator, "reading the GPU: "+err.Error())
		return s, fmt.Errorf("read the GPU: %w", err)
	}
	s.Samples = samples
	return s, ferr
}

// sampler reads the devices now and every so often until its function is called, which
// reads them once more and returns all, a list for each device.
func (g *GPUs) sampler(ctx context.Context, devices []gpu.Device) (stop func() ([][]gpu.Sample, error)) {
	all := make([][]gpu.Sample, len(devices))
	read := func() error {
		for i, d := range devices {
			s, err := g.Driver.Sample(ctx, d)
			if err != nil {
				return err
			}
			all[i] = append(all[i], s)
		}
		return nil
	}
	every := g.Every
	if every <= 0 {
		every = time.Second
	}
	err := read() // before the span begins
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for err == nil {
			select {
			case <-over:
				err = read()
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				if len(all[0]) < maxSamples {
					err = read()
				}
			}
		}
	}()
	return func() ([][]gpu.Sample, error) {
		close(over)
		<-done
		return all, err
	}
}

// maxSamples bounds what is kept of one span.
const maxSamples = 100_000

// Void implements kind.Accelerated: from the samples, which the engine itself has read.
func (e *env) Void(spans ...kind.GPUSpan) string {
	why := ""
	for i := range e.gpus.devices() {
		var list []gpu.Sample
		for _, s := range spans {
			if i < len(s.Samples) {
				list = append(list, s.Samples[i]...)
			}
		}
		if why == "" {
			why = gpu.Unsteady(list)
		}
	}
	if why != "" {
		e.rec.Record(agon.EventNote, "", map[string]any{"text": "a comparison is void: " + why, "gpu": "void"})
		e.gpus.mu.Lock()
		e.gpus.void = why
		e.gpus.mu.Unlock()
	}
	return why
}

// GiveUp implements kind.Accelerated. Without a span that was void it blames nobody.
func (e *env) GiveUp() error {
	e.gpus.mu.Lock()
	why := e.gpus.void
	e.gpus.mu.Unlock()
	if why == "" {
		return errors.New("nothing was void")
	}
	e.note(agon.FaultValidator, "this machine's GPU is too unsteady to compare on: "+why)
	return fmt.Errorf("too many comparisons were void: %s", why)
}
