// Command lease measures the path of a lease over HTTP: `agon serve` as its own
// process on a durable store, and 200 (then 20) workers of 20 validators that
// claim runs and report results over /v1, each request signed.
//
//	make build && go run ./bench/lease [-finished 1000000]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
)

// Who plays. A validator may hold 16 leases of the demo arena.
const (
	validators = 20
	perOne     = 10
)

type options struct {
	bin      string
	listen   string
	finished int
	queued   int
	runFor   time.Duration
	rate     int
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", "bin/agon", "the program under measurement")
	flag.StringVar(&o.listen, "listen", "127.0.0.1:18912", "its address")
	flag.IntVar(&o.finished, "finished", 0, "measure once more with so many finished runs in the store")
	flag.IntVar(&o.queued, "queued", 6000, "submissions in the queue, 27 runs each")
	flag.DurationVar(&o.runFor, "for", 6*time.Second, "time of each measurement, after a third of it to warm up")
	flag.IntVar(&o.rate, "rate", 3000, "pairs/s of the paced measurement")
	flag.Parse()
	if err := measure(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "lease:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, o options) error {
	fmt.Printf("workers of %d validators; caller and server share the machine\n\n", validators)
	fmt.Println("| finished runs | workers | pace | pairs/s | claim p50 | claim p99 | result p50 | result p99 | worst | CPU of a pair: server, workers |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|")
	counts := []int{0}
	if o.finished > 0 {
		counts = append(counts, o.finished)
	}
	for _, n := range counts {
		if err := one(ctx, o, n); err != nil {
			return err
		}
	}
	return nil
}

// one measures a server whose store holds so many finished runs.
func one(ctx context.Context, o options, finished int) error {
	dir, err := os.MkdirTemp("", "agon-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	stop, _, err := serve(ctx, o, dir) // makes the arena, the ledger and the operator's key
	if err != nil {
		return err
	}
	keys, err := register(ctx, o, dir)
	if err == nil {
		err = stop()
	}
	if err != nil {
		return err
	}
	if err := fill(ctx, filepath.Join(dir, "agon.db"), finished, o.queued); err != nil {
		return fmt.Errorf("fill the store: %w", err)
	}
	stop, pid, err := serve(ctx, o, dir)
	if err != nil {
		return err
	}
	defer func() { _ = stop() }()
	audience, err := audienceOf(ctx, o)
	if err != nil {
		return err
	}
	l := load{addr: o.listen, audience: audience, keys: keys}
	if _, err := l.run(o.runFor/3, validators*perOne, 0); err != nil {
		return err
	}
	for _, m := range []struct{ workers, rate int }{{validators * perOne, 0}, {validators * perOne, o.rate}, {validators * perOne, o.rate / 2}, {validators, 0}} {
		server, own := cpu(strconv.Itoa(pid)), cpu("self")
		s, err := l.run(o.runFor, m.workers, m.rate)
		if err != nil {
			return err
		}
		pairs := float64(len(s.results))
		server, own = cpu(strconv.Itoa(pid))-server, cpu("self")-own
		pace := "as fast as it goes"
		if m.rate > 0 {
			pace = fmt.Sprintf("%d/s", m.rate)
		}
		fmt.Printf("| %d | %d | %s | %.0f | %s | %s | %s | %s | %s | %.0f µs, %.0f µs |\n", finished, m.workers, pace, s.rate,
			ms(s.claims, 50), ms(s.claims, 99), ms(s.results, 50), ms(s.results, 99), ms(append(s.claims, s.results...), 100), server/pairs*1e6, own/pairs*1e6)
	}
	return nil
}

// cpu is the processor time that a process has used, in seconds.
func cpu(pid string) float64 {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	user, _ := strconv.ParseFloat(f[11], 64) // in ticks of 10 ms
	sys, _ := strconv.ParseFloat(f[12], 64)
	return (user + sys) / 100
}

// ms is a percentile in milliseconds.
func ms(times []time.Duration, percent int) string {
	if len(times) == 0 {
		return "–"
	}
	slices.Sort(times)
	return fmt.Sprintf("%.1f ms", float64(times[min(len(times)-1, len(times)*percent/100)].Microseconds())/1000)
}

// serve starts the server on dir and waits until it answers.
func serve(ctx context.Context, o options, dir string) (stop func() error, pid int, err error) {
	cmd := exec.CommandContext(ctx, o.bin, "serve", "--data", dir, "--listen", o.listen)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "AGON_") })
	if os.Getenv("AGON_BENCH_STDERR") != "" {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Start(); err != nil {
		return nil, 0, err
	}
	stop = func() error {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		_ = cmd.Wait()                         // by our signal
		return nil
	}
	for range 1500 {
		if _, err = audienceOf(ctx, o); err == nil {
			return stop, cmd.Process.Pid, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, 0, errors.Join(fmt.Errorf("the server does not answer: %w", err), stop())
}

func audienceOf(ctx context.Context, o options) (string, error) {
	c, err := client.New("http://"+o.listen, nil)
	if err != nil {
		return "", err
	}
	c.Tries = 1
	if as, err := c.Arenas(ctx); err != nil || len(as) == 0 {
		return "", errors.Join(errors.New("no arena yet"), err)
	}
	s, err := c.Server(ctx)
	if err != nil {
		return "", err
	}
	return s.Audience, nil
}

// register makes the validators' keys and registers them as the operator.
func register(ctx context.Context, o options, dir string) ([]*auth.Key, error) {
	w := auth.Wallet{Path: filepath.Join(dir, "wallets"), Name: "operator", Hotkey: "default"}
	op, err := w.LoadHotkey()
	if err != nil {
		return nil, err
	}
	c, err := client.New("http://"+o.listen, op)
	if err != nil {
		return nil, err
	}
	var keys []*auth.Key
	for range validators {
		hot, err := auth.NewKey()
		if err != nil {
			return nil, err
		}
		cold, err := auth.NewKey()
		if err != nil {
			return nil, err
		}
		if err := c.Register(ctx, netuid, client.RegisterRequest{Hotkey: hot.SS58(), Coldkey: cold.SS58(), Validator: true}); err != nil {
			return nil, fmt.Errorf("register a validator: %w", err)
		}
		keys = append(keys, hot)
	}
	return keys, nil
}
