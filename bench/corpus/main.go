// Command corpus measures the corpus filter beside a straightforward one in
// Python on the same logs, and what a build of a million steps takes.
//
//	go run ./bench/corpus [-runs 300] [-python python3]
//	go run ./bench/corpus -steps 1000000
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/corpus"
	"github.com/agon-arena/agon/corpus/corpustest"
)

func main() {
	log.SetFlags(0)
	runs := flag.Int("runs", 300, "runs to filter")
	steps := flag.Int("steps", 0, "build a corpus of this many steps instead, and print the peak of memory")
	python := flag.String("python", "python3", "interpreter of the other filter")
	profile := flag.String("cpuprofile", "", "write a profile of the filter here")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			log.Fatal(err)
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			log.Fatal(err)
		}
		defer pprof.StopCPUProfile()
	}
	if *steps > 0 {
		if err := build(*steps); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := compare(*runs, *python); err != nil {
		log.Fatal(err)
	}
}

// source has conversations below 14,336 bytes, so that bytes decide the token limit.
func source(runs int) corpustest.Source {
	return corpustest.Source{Problems: (runs + 3) / 4, Agents: 4, Steps: 24, Words: 28}
}

func compare(runs int, python string) error {
	runtime.GOMAXPROCS(1)
	dir, err := os.MkdirTemp("", "agon-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "events.jsonl")
	bytesOf, err := writeLogs(source(runs), path)
	if err != nil {
		return err
	}
	// The log as a source hands it over: events whose data is as it was stored.
	logs, err := readLogs(path)
	if err != nil {
		return err
	}
	f := corpus.NewFilter()
	var got []corpus.Filtered
	debug.FreeOSMemory()
	began := processTime()
	for _, events := range logs {
		got = append(got, f.Run("coding", events))
	}
	ours := processTime() - began
	cmd := exec.Command(python, "bench/corpus_filter.py", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("python filter: %w", err)
	}
	var theirs struct {
		Seconds float64           `json:"seconds"` // of filtering, lines parsed before
		Rows    []corpus.Filtered `json:"rows"`
	}
	if err := json.Unmarshal(out, &theirs); err != nil {
		return err
	}
	if !slices.Equal(got, theirs.Rows) {
		for i := range min(len(got), len(theirs.Rows)) {
			if got[i] != theirs.Rows[i] {
				return fmt.Errorf("run %d: %+v, python says %+v", i, got[i], theirs.Rows[i])
			}
		}
		return fmt.Errorf("%d verdicts, python has %d", len(got), len(theirs.Rows))
	}
	mb := float64(bytesOf) / 1e6
	fmt.Printf("%.0f MB of %d runs: %.0f MB/s a core; python %.1f MB/s; %.0fx; same verdicts\n", mb, len(logs), mb/ours.Seconds(), mb/theirs.Seconds, theirs.Seconds/ours.Seconds())
	fmt.Printf("BenchmarkFilter 1 %.1f MB/s %.2f x-python\n", mb/ours.Seconds(), theirs.Seconds/ours.Seconds())
	return nil
}

func writeLogs(s corpustest.Source, path string) (int64, error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriter(f)
	var n int64
	for i := range s.Len() {
		events, err := s.Events(context.Background(), corpustest.ID(i), 1, 0, s.Steps)
		if err != nil {
			return 0, err
		}
		for _, e := range events {
			b, err := json.Marshal(e)
			if err != nil {
				return 0, err
			}
			n += int64(len(e.Data))
			w.Write(append(b, '\n')) //nolint:errcheck // Flush says it
		}
	}
	if err := w.Flush(); err != nil {
		return 0, err
	}
	return n, f.Close()
}

func readLogs(path string) ([][]agon.Event, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out [][]agon.Event
	for l := range bytes.Lines(b) {
		var e agon.Event
		if err := json.Unmarshal(l, &e); err != nil {
			return nil, err
		}
		if n := len(out); n == 0 || out[n-1][0].Run != e.Run {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], e)
	}
	return out, nil
}

// build makes a corpus of steps and prints what memory is resident, at each
// fifth of reading and of writing, and the peak.
func build(steps int) error {
	dir, err := os.MkdirTemp("", "agon-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := corpustest.Source{Agents: 20, Steps: 20, Words: 20}
	s.Problems = steps / s.Agents / s.Steps
	marks := map[string][]string{}
	mark := func(phase string, done, of int) {
		if done%max(1, of/5) == 0 {
			marks[phase] = append(marks[phase], status("VmRSS:"))
		}
	}
	began := time.Now()
	r, err := corpus.Build(context.Background(), corpus.Config{
		Source: s, Out: filepath.Join(dir, "out"), PerColdkey: 1 << 30,
		Progress: func(runs, _ int) { mark("read", runs, s.Len()) },
		Wrote:    func(rows, of int) { mark("wrote", rows, of) },
	})
	if err != nil {
		return err
	}
	fmt.Printf("%d rows of %d steps in %s, %s of processors; MB resident at each fifth: reading %s; writing %s; peak %s\n", r.Rows, s.Len()*s.Steps,
		time.Since(began).Round(time.Second), processTime().Round(time.Second), strings.Join(marks["read"], " "), strings.Join(marks["wrote"], " "), status("VmHWM:"))
	return nil
}

// processTime is what this process has used of processors: other work on the
// machine does not count.
func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// status is a field of this process's memory, in MB.
func status(field string) string {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) > 1 && f[0] == field {
			if kb, err := strconv.Atoi(f[1]); err == nil {
				return strconv.Itoa(kb / 1024)
			}
		}
	}
	return "unknown"
}
