package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	got := figures("goos: linux\nBenchmarkSign-2   \t   100\t 14073 ns/op\t 71625 op/s/core\nBenchmarkFind/a-b 1 0.25 p50-ms\nPASS\nBenchmarkBroken\n")
	want := []figure{{"Sign", "ns/op", 14073}, {"Sign", "op/s/core", 71625}, {"Find/a-b", "p50-ms", 0.25}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestBarsOfRows(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rows() {
		if _, err := bars(r.bars); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		if seen[r.name] || r.cmd == "" {
			t.Errorf("%q stands twice or has no command", r.name)
		}
		seen[r.name] = true
	}
	for _, bad := range []string{"", "ns/op", "ns/op < 3", "ns/op <= x", "a b c <= 3"} {
		if _, err := bars(bad); err == nil {
			t.Errorf("%q is taken as a bar", bad)
		}
	}
}

// played is a row that prints one value after the other.
func played(bars string, values ...float64) (row, *int) {
	n := 0
	return row{"r", bars, "cmd", func(context.Context) (string, error) {
		if n >= len(values) {
			return "", errors.New("asked too often")
		}
		n++
		return line("X", values[n-1], "ms"), nil
	}}, &n
}

func TestVerdicts(t *testing.T) {
	old := baseline{figures: map[string]float64{key("r", figure{Bench: "X", Unit: "ms"}): 100}}
	for _, c := range []struct {
		name, bars string
		values     []float64
		runs, code int
		holds      bool
	}{
		{"as before", "ms <= 200", []float64{110}, 1, 0, true},
		{"a miss is no regression", "ms <= 90", []float64{110}, 1, 0, false},
		{"once slow", "ms <= 200", []float64{150, 101}, 2, 0, true},
		{"three times slow", "ms <= 120", []float64{150, 140, 130}, 3, 1, false},
		{"less where more is asked", "ms >= 50", []float64{80, 85, 84}, 3, 1, true},
		{"more where more is asked", "ms >= 50", []float64{300}, 1, 0, true},
		{"nothing to measure", "ms <= 1", nil, 0, 2, false},
		{"another unit", "MB <= 1", []float64{5}, 1, 2, false},
	} {
		r, n := played(c.bars, c.values...)
		res, err := measure(t.Context(), r, old)
		if err != nil || *n != c.runs || res.code() != c.code {
			t.Errorf("%s: %v, %d runs, code %d (%s)", c.name, err, *n, res.code(), res.Error)
			continue
		}
		if c.code < 2 && res.Barred[0].Holds != c.holds {
			t.Errorf("%s: holds is %v", c.name, !c.holds)
		}
	}
}

func TestBaselineComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "b.txt")
	f := figure{"A/b", "x", 2.5}
	if err := writeBaseline(path, []result{{Row: "a row: of two", Measured: []figure{f}}}); err != nil {
		t.Fatal(err)
	}
	old, err := readBaseline(path)
	if err != nil || old.machine != machine() || old.figures[key("a row: of two", f)] != 2.5 {
		t.Fatalf("%+v, %v", old, err)
	}
	if _, err := readBaseline(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("row: a\nBenchmarkA 1 2 x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readBaseline(path); err == nil {
		t.Fatal("a baseline without a machine is taken")
	}
}

// A machine that is busy, or slower, is not taken for a slower program.
func TestBusyMachine(t *testing.T) {
	old := baseline{pace: time.Nanosecond, figures: map[string]float64{}}
	for _, unit := range []string{"ms", "x-python"} {
		old.figures[key("r", figure{Bench: "X", Unit: unit})] = 100
	}
	r, n := played("ms <= 1000", 150)
	if res, err := measure(t.Context(), r, old); err != nil || *n != 1 || res.code() != 0 {
		t.Errorf("%v, %d runs, %+v", err, *n, res)
	}
	if s := old.slack("x-python", time.Hour); s != 1 {
		t.Errorf("a ratio has a slack of %v", s)
	}
}

func TestTableIsNarrow(t *testing.T) {
	var b strings.Builder
	head(&b)
	for _, r := range rows() {
		list, err := bars(r.bars)
		if err != nil {
			t.Fatal(err)
		}
		res := result{Row: r.name}
		for _, w := range list {
			worse := -0.128
			res.Barred = append(res.Barred, verdict{figure: figure{w.bench, w.unit, w.limit * 1.0371}, Bar: w.String(), Worse: &worse})
		}
		res.print(&b)
	}
	for l := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimRight(l, "\n"))); n > 100 {
			t.Errorf("%d columns: %s", n, l)
		}
	}
}
