package main

import (
	"bufio"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// timeUnit is what Go's benchmarks give for one operation, in nanoseconds.
const timeUnit = "ns/op"

// figure is one measured number: `Sign 14073 ns/op` is {Sign, ns/op, 14073}.
type figure struct {
	Bench string  `json:"bench"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
}

// figures reads the lines of Go's benchmark format; everything else is passed over.
func figures(out string) []figure {
	var list []figure
	sc := bufio.NewScanner(strings.NewReader(out))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			if _, err := strconv.Atoi(name[i+1:]); err == nil {
				name = name[:i]
			}
		}
		for i := 2; i+1 < len(f); i += 2 {
			if v, err := strconv.ParseFloat(f[i], 64); err == nil {
				list = append(list, figure{name, f[i+1], v})
			}
		}
	}
	return list
}

// bar is what a figure has to reach.
type bar struct {
	bench, unit string // bench may be empty: the row's first figure of that unit
	least       bool   // at least; else at most
	limit       float64
}

// bars reads `[BENCH] UNIT <=|>= NUMBER`, several with `; ` between them.
func bars(text string) ([]bar, error) {
	var list []bar
	for part := range strings.SplitSeq(text, "; ") {
		f := strings.Fields(part)
		if len(f) == 3 {
			f = append([]string{""}, f...)
		}
		if len(f) != 4 || f[2] != "<=" && f[2] != ">=" {
			return nil, fmt.Errorf("bar %q: want [BENCH] UNIT <=|>= NUMBER", part)
		}
		limit, err := strconv.ParseFloat(f[3], 64)
		if err != nil {
			return nil, fmt.Errorf("bar %q: %w", part, err)
		}
		list = append(list, bar{f[0], f[1], f[2] == ">=", limit})
	}
	return list, nil
}

// String is `<= 20`: the unit stands with the figure, but for times.
func (b bar) String() string {
	limit := show(b.limit, b.unit)
	if b.unit != timeUnit {
		limit = strings.TrimSuffix(limit, " "+b.unit)
	}
	if b.least {
		return ">= " + limit
	}
	return "<= " + limit
}

// of finds the figure that a bar speaks of.
func (b bar) of(list []figure) (figure, bool) {
	for _, f := range list {
		if f.Unit == b.unit && (b.bench == "" || f.Bench == b.bench) {
			return f, true
		}
	}
	return figure{}, false
}

func (b bar) holds(v float64) bool {
	if b.least {
		return v >= b.limit
	}
	return v <= b.limit
}

// better is the better one of two values.
func (b bar) better(x, y float64) float64 {
	if b.least {
		return math.Max(x, y)
	}
	return math.Min(x, y)
}

// worse is by which share now is worse than then: 0.2 is a fifth slower or
// larger. It is negative where now is better.
func (b bar) worse(then, now float64) float64 {
	if then <= 0 || now <= 0 {
		return 0
	}
	if b.least {
		return then/now - 1
	}
	return now/then - 1
}

// show is a value as people read it.
func show(v float64, unit string) string {
	if unit == timeUnit {
		d := time.Duration(v)
		switch {
		case d >= time.Second:
			return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + " s"
		case d >= time.Millisecond:
			return strconv.FormatFloat(v/1e6, 'f', 2, 64) + " ms"
		}
		return strconv.FormatFloat(v/1e3, 'f', 2, 64) + " µs"
	}
	switch a := math.Abs(v); {
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64) + " " + unit
	case a < 1:
		return strconv.FormatFloat(v, 'g', 3, 64) + " " + unit
	}
	return strconv.FormatFloat(v, 'f', 2, 64) + " " + unit
}
