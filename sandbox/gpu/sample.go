package gpu

import (
	"context"
	"debug/elf"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

func hostMachine() elf.Machine {
	if runtime.GOARCH == "arm64" {
		return elf.EM_AARCH64
	}
	return elf.EM_X86_64
}

const slowIdle = "idle"

// slowReasons are the bits of nvidia-smi's clocks_throttle_reasons.active.
var slowReasons = []struct {
	bit  uint64
	name string
	bad  bool // what ran meanwhile cannot be compared
}{
	{0x1, slowIdle, false},
	{0x2, "clocks_set", false}, // the operator has set them: what makes times comparable
	{0x4, "power_cap", false},  // both sides of a pair meet it; drift decides
	{0x8, "hw_slowdown", true},
	{0x10, "sync_boost", false},
	{0x20, "sw_thermal", true},
	{0x40, "hw_thermal", true},
	{0x80, "power_brake", true},
	{0x100, "display", false},
}

// sampleFields are asked of nvidia-smi, in the order of parseSample.
const sampleFields = "clocks.sm,clocks.mem,clocks.max.sm,temperature.gpu,power.draw,memory.used,clocks_throttle_reasons.active"

// Sample implements Driver.
func (n *Nvidia) Sample(ctx context.Context, d Device) (Sample, error) {
	out, err := n.c.Query(ctx, "--id="+d.UUID, "--query-gpu="+sampleFields, "--format=csv,noheader,nounits")
	if err != nil {
		return Sample{}, fmt.Errorf("%w: nvidia-smi: %w", ErrDriver, err)
	}
	s, err := parseSample(out)
	if err != nil {
		return Sample{}, fmt.Errorf("%w: %w", ErrDriver, err)
	}
	s.At = n.c.Now().UTC()
	return s, nil
}

// parseSample reads the answer to sampleFields. Power is not known of every card.
func parseSample(b []byte) (s Sample, err error) {
	rows, err := csvRows(b, 7, 1)
	if err != nil {
		return s, err
	}
	if len(rows) != 1 {
		return s, fmt.Errorf("nvidia-smi: %d rows for one GPU", len(rows))
	}
	f := rows[0]
	for i, to := range []*int64{&s.ClockMHz, &s.MemoryMHz, &s.MaxMHz, &s.Celsius} {
		if *to, err = strconv.ParseInt(f[i], 10, 64); err != nil || *to < 0 || *to > 1_000_000 {
			return s, fmt.Errorf("nvidia-smi: field %d of %s is %.40q", i+1, sampleFields, f[i])
		}
	}
	if w, err := strconv.ParseFloat(f[4], 64); err == nil && w >= 0 && w < 1e6 {
		s.MilliWatts = int64(math.Round(w * 1000))
	}
	mib, err := strconv.ParseInt(f[5], 10, 64)
	if err != nil || mib < 0 || mib > 1<<22 {
		return s, fmt.Errorf("nvidia-smi: memory.used is %.40q", f[5])
	}
	s.MemoryBytes = mib << 20
	bits, err := strconv.ParseUint(strings.TrimPrefix(f[6], "0x"), 16, 64)
	if err != nil {
		return s, fmt.Errorf("nvidia-smi: clocks_throttle_reasons.active is %.40q", f[6])
	}
	for _, r := range slowReasons {
		if bits&r.bit != 0 {
			s.Slowed = append(s.Slowed, r.name)
		}
	}
	return s, nil
}

// Drift is how far the clock may move between two samples of a comparison.
const Drift = 0.03

// Unsteady says why times that were measured while samples of one device were taken
// cannot be compared, or "". What it is slowed by counts always, its clock only under
// load: that of an idle device says nothing.
func Unsteady(samples []Sample) string {
	var low, high, memory int64
	for _, s := range samples {
		for _, r := range slowReasons {
			if r.bad && slices.Contains(s.Slowed, r.name) {
				return fmt.Sprintf("the GPU was slowed (%s) at %d MHz and %d °C", r.name, s.ClockMHz, s.Celsius)
			}
		}
		if slices.Contains(s.Slowed, slowIdle) {
			continue
		}
		if high == 0 {
			low, memory = s.ClockMHz, s.MemoryMHz
		}
		low, high = min(low, s.ClockMHz), max(high, s.ClockMHz)
		if s.MemoryMHz != memory {
			return fmt.Sprintf("the clock of the GPU's memory moved from %d to %d MHz", memory, s.MemoryMHz)
		}
	}
	if float64(high-low) > Drift*float64(high) {
		return fmt.Sprintf("the GPU's clock moved between %d and %d MHz, over %g %%", low, high, Drift*100)
	}
	return ""
}
