// Command boxes measures print(1) by Python side by side in one run, each way in turn: the
// bare interpreter, one call of bwrap, a box of each of agon's drivers from its start to
// its end, and go-judge where its program is named.
//
//	go run ./bench/boxes [-rounds 20] [-judge PROGRAM]
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

func main() {
	netns.MaybeChild()
	rounds := flag.Int("rounds", 20, "how often each is measured")
	judge := flag.String("judge", "", "measure go-judge too: its `program`")
	flag.Parse()
	if err := measure(context.Background(), *rounds, *judge); err != nil {
		fmt.Fprintln(os.Stderr, "boxes:", err)
		os.Exit(1)
	}
}

// way is one way to have print(1) said.
type way struct {
	name, is string
	do       func() (string, error)
	took     []time.Duration
}

// hello is what is run, by the interpreter of a root file system.
var hello = []string{"-I", "-c", "print(1)"}

func measure(ctx context.Context, rounds int, judge string) (err error) {
	root, err := rootfs.Ensure(ctx, rootfs.Config{Log: os.Stderr})
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "agon-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	python := root + "/usr/bin/python3"
	ways := []*way{
		{name: "bare Python", is: "no box", do: program(root, append([]string{python}, hello...)...)},
		{name: "bwrap", is: "namespaces, by one call of it: no filter of system calls, no limits", do: program(root, append([]string{
			"bwrap", "--unshare-all", "--die-with-parent",
			"--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--setenv", "PYTHONHOME", "/usr", "python3",
		}, hello...)...)},
	}
	if judge != "" {
		run, stop, err := startJudge(ctx, judge, dir)
		if err != nil {
			return err
		}
		defer stop()
		ways = append(ways, &way{name: "go-judge", is: "POST /run to a server that keeps its containers; the machine's Python", do: run})
	}
	for _, name := range []string{"bwrap", "runc", "runsc"} {
		d, _, err := probe.Probe(ctx, probe.Config{Rootfs: root, StateDir: dir, Want: name})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		ways = append(ways, &way{name: "agon, " + name, is: "a new box: limits, doors, a layer over a tree; removed afterwards", do: box(ctx, d, root, tree)})
	}
	for range rounds {
		for _, w := range ways {
			began := time.Now()
			out, err := w.do()
			if err != nil || strings.TrimSpace(out) != "1" {
				return fmt.Errorf("%s: %q: %w", w.name, out, err)
			}
			w.took = append(w.took, time.Since(began))
		}
	}
	fmt.Printf("print(1) by Python, %d times each in turn\n\n| way | what one is | p50 | to bare |\n|---|---|---|---|\n", rounds)
	for _, w := range ways {
		slices.Sort(w.took)
		p50 := w.took[len(w.took)/2]
		fmt.Printf("| %s | %s | %.1f ms | %.1fx |\n", w.name, w.is, float64(p50.Microseconds())/1000, float64(p50)/float64(ways[0].took[len(w.took)/2]))
	}
	return nil
}

func program(root string, args ...string) func() (string, error) {
	return func() (string, error) {
		c := exec.Command(args[0], args[1:]...)
		c.Env = []string{"PATH=/usr/bin:/bin", "PYTHONHOME=" + root + "/usr"}
		out, err := c.Output()
		return string(out), err
	}
}

func box(ctx context.Context, d sandbox.Driver, root, tree string) func() (string, error) {
	return func() (string, error) {
		b, err := d.Start(ctx, sandbox.Spec{
			Name: "bench", Rootfs: root,
			Limits: agon.Limits{WallMS: 60_000, CPUMilli: 2000, MemoryBytes: 256 << 20, Pids: 64, DiskBytes: 32 << 20, Inodes: 4096, OutputBytes: 1 << 20},
			Mounts: []sandbox.Mount{{Kind: sandbox.MountOverlay, Source: tree, Target: "/repo"}, {Kind: sandbox.MountScratch, Target: "/sandbox"}},
			Doors:  []sandbox.Door{{Listen: "127.0.0.1:80", Target: "http://127.0.0.1:1"}},
		})
		if err != nil {
			return "", err
		}
		var out strings.Builder
		_, err = b.Exec(ctx, sandbox.Cmd{Args: append([]string{"python3"}, hello...), Stdout: &out})
		return out.String(), errors.Join(err, b.Close())
	}
}

// startJudge starts go-judge, and returns what has it run the program.
func startJudge(ctx context.Context, bin, dir string) (run func() (string, error), stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	at := ln.Addr().String()
	if err := ln.Close(); err != nil { // go-judge opens it again
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, bin, "-http-addr", at, "-silent")
	cmd.Dir = dir
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill() // it holds nothing that outlives it
		_ = cmd.Wait()
	}
	body, err := json.Marshal(map[string]any{"cmd": []any{map[string]any{
		"args": append([]string{"/usr/bin/python3"}, hello...), "env": []string{"PATH=/usr/bin:/bin"},
		"files":    []any{map[string]any{"content": ""}, map[string]any{"name": "stdout", "max": 1000}, map[string]any{"name": "stderr", "max": 1000}},
		"cpuLimit": 10 * time.Second, "memoryLimit": 256 << 20, "procLimit": 64,
	}}})
	if err != nil {
		stop()
		return nil, nil, err
	}
	run = func() (string, error) {
		resp, err := http.Post("http://"+at+"/run", "application/json", bytes.NewReader(body))
		if err != nil {
			return "", err
		}
		defer func() { _ = resp.Body.Close() }()
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return "", err
		}
		var list []struct {
			Status string            `json:"status"`
			Files  map[string]string `json:"files"`
		}
		if err := json.Unmarshal(b, &list); err != nil || len(list) != 1 || list[0].Status != "Accepted" {
			return "", fmt.Errorf("go-judge says: %.300s: %w", b, err)
		}
		return list[0].Files["stdout"], nil
	}
	for tries := 0; ; tries++ {
		_, err := run()
		if err == nil || tries == 100 {
			if err != nil {
				stop()
			}
			return run, stop, err
		}
		time.Sleep(50 * time.Millisecond) // it opens its port when it is ready
	}
}
