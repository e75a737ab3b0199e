package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
)

// start runs bin/agon with its own data directory and returns its address.
func start(ctx context.Context, args ...string) (cmd *exec.Cmd, url string, clean func(), err error) {
	dir, err := os.MkdirTemp("", "agon-bench-")
	if err != nil {
		return nil, "", nil, err
	}
	const listen = "127.0.0.1:18900"
	cmd = exec.CommandContext(ctx, "bin/agon", append(args, "--data", dir, "--listen", listen)...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "AGON_LLM_") }), "AGON_URL=http://"+listen)
	if err := cmd.Start(); err != nil {
		return nil, "", nil, err
	}
	clean = func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	url = "http://" + listen
	for ctx.Err() == nil {
		if resp, err := http.Get(url + "/v1/server"); err == nil {
			resp.Body.Close()
			return cmd, url, clean, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	clean()
	return nil, "", nil, ctx.Err()
}

func firstScored(ctx context.Context) (string, error) {
	began := time.Now()
	_, url, clean, err := start(ctx, "up")
	if err != nil {
		return "", err
	}
	defer clean()
	c, err := client.New(url, nil)
	if err != nil {
		return "", err
	}
	for {
		ov, err := c.Overview(ctx)
		if err != nil {
			return "", err
		}
		if ov.Runs.Scored > 0 {
			return line("FirstScored", time.Since(began).Seconds(), "s"), nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// idle is what a server holds that nobody asks anything.
func idle(ctx context.Context) (string, error) {
	cmd, _, clean, err := start(ctx, "serve")
	if err != nil {
		return "", err
	}
	defer clean()
	time.Sleep(3 * time.Second)
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(cmd.Process.Pid), "status"))
	if err != nil {
		return "", err
	}
	mb := map[string]float64{} // of what is resident: everything, and what no file backs
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) > 1 && (f[0] == "VmRSS:" || f[0] == "RssAnon:") {
			kb, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				return "", err
			}
			mb[f[0]] = kb / 1024
		}
	}
	if len(mb) == 2 {
		return line("Idle", mb["VmRSS:"], "MB", mb["RssAnon:"], "own-MB"), nil
	}
	return "", errors.New("no VmRSS and RssAnon")
}

// overhead plays the demo and takes, of each counted attempt, the time from
// lease to result that was not spent in boxes.
func overhead(ctx context.Context) (string, error) {
	_, url, clean, err := start(ctx, "up")
	if err != nil {
		return "", err
	}
	defer clean()
	c, err := client.New(url, nil)
	if err != nil {
		return "", err
	}
	var over []time.Duration
	for len(over) < 30 { // the first runs are those of nop and repair's quick ones
		time.Sleep(time.Second)
		over = over[:0]
		p, err := c.Runs(ctx, "", "", string(agon.RunScored), client.ListOptions{Limit: 200})
		if err != nil {
			return "", err
		}
		for _, r := range p.Items {
			full, err := c.Run(ctx, r.Run.Run)
			if err != nil {
				return "", err
			}
			for _, a := range full.List {
				if a.Counted {
					over = append(over, a.EndedAt.Sub(a.LeasedAt)-time.Duration(a.BoxMS)*time.Millisecond)
				}
			}
		}
	}
	slices.Sort(over)
	return line("Overhead", ms(over[len(over)/2]), "p50-ms", ms(over[len(over)*95/100]), "p95-ms"), nil
}

func keyShow(ctx context.Context) (string, error) {
	dir, err := os.MkdirTemp("", "agon-bench-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	env := append(os.Environ(), "AGON_WALLET_PATH="+dir)
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, "bin/agon", args...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, tail(out))
		}
		return nil
	}
	if err := run("key", "new", "bench"); err != nil {
		return "", err
	}
	var took []time.Duration
	for range 20 {
		began := time.Now()
		if err := run("key", "show", "-o", "json"); err != nil {
			return "", err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return line("KeyShow", ms(took[10]), "p50-ms", ms(took[0]), "min-ms"), nil
}

// size is that of the program.
func size(context.Context) (string, error) {
	st, err := os.Stat("bin/agon")
	if err != nil {
		return "", err
	}
	return line("Size", float64(st.Size())/1e6, "MB"), nil
}

// line is one line in the format of Go's benchmarks: figures and their units in turns.
func line(name string, figures ...any) string {
	var b strings.Builder
	b.WriteString("Benchmark" + name + " 1")
	for i, f := range figures {
		if i%2 == 0 {
			fmt.Fprintf(&b, " %.6g", f)
		} else {
			fmt.Fprintf(&b, " %s", f)
		}
	}
	return b.String() + "\n"
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
