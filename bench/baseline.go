package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// baseline is an earlier run: what it measured, and the kind of machine.
type baseline struct {
	machine string
	pace    time.Duration      // what paced took there
	figures map[string]float64 // by key
}

// paced is how long this machine takes for a fixed piece of work on every core:
// longer where others use them.
func paced() time.Duration {
	begun := time.Now()
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			b := make([]byte, 1<<20)
			for range 40 {
				sum := sha256.Sum256(b)
				copy(b, sum[:])
			}
		})
	}
	wg.Wait()
	return time.Since(begun)
}

// slack is how many times as long things may take here and now as where the
// baseline was taken; ratios and sizes may not be worse for that.
func (old baseline) slack(unit string, pace time.Duration) float64 {
	if old.pace == 0 || strings.HasPrefix(unit, "x") || strings.Contains(unit, "%") || strings.HasSuffix(unit, "MB") || strings.HasSuffix(unit, "KB") {
		return 1
	}
	return max(1, float64(pace)/float64(old.pace))
}

func key(row string, f figure) string { return row + "\x00" + f.Bench + "\x00" + f.Unit }

// machine says how many cores of what this machine has.
func machine() string {
	model := "unknown"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for l := range strings.Lines(string(b)) {
			if name, v, ok := strings.Cut(l, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("%d x %s", runtime.NumCPU(), model)
}

// readBaseline reads a file that writeBaseline wrote; none is an empty baseline.
func readBaseline(path string) (baseline, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return baseline{}, nil
	} else if err != nil {
		return baseline{}, err
	}
	old := baseline{figures: map[string]float64{}}
	row := ""
	for l := range strings.Lines(string(b)) {
		l = strings.TrimSpace(l)
		if v, ok := strings.CutPrefix(l, "cpu: "); ok {
			old.machine = v
		}
		if v, ok := strings.CutPrefix(l, "pace: "); ok {
			if old.pace, err = time.ParseDuration(v); err != nil {
				return baseline{}, fmt.Errorf("%s: pace: %w", path, err)
			}
		}
		if v, ok := strings.CutPrefix(l, "row: "); ok {
			row = v
		}
		for _, f := range figures(l) {
			old.figures[key(row, f)] = f.Value
		}
	}
	if old.machine == "" {
		return baseline{}, fmt.Errorf("%s: no line `cpu: ...`", path)
	}
	return old, nil
}

// writeBaseline writes every figure in Go's benchmark format: one `row: NAME`
// before the figures of each row.
func writeBaseline(path string, list []result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\ncpu: %s\npace: %s\n", runtime.GOOS, runtime.GOARCH, machine(), paced().Round(time.Microsecond))
	for _, res := range list {
		fmt.Fprintf(&b, "\nrow: %s\n", res.Row)
		for _, f := range res.Measured {
			fmt.Fprintf(&b, "Benchmark%s-%d 1 %v %s\n", f.Bench, runtime.NumCPU(), f.Value, f.Unit)
		}
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
