// Command flood measures what strangers cost: `agon serve` as its own process,
// an honest miner that sends signed submissions at a steady pace, first alone,
// then beside 200 connections of 200 addresses without a registered key. Each
// request is timed from when it was due.
//
//	make build && go run ./bench/flood [-for 1m] [-rate 1000]
package main

import (
	"bufio"
	"bytes"
	"context"
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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
)

const arena = "demo-coding"

func main() {
	bin := flag.String("bin", "bin/agon", "the program under measurement")
	listen := flag.String("listen", "127.0.0.1:18914", "its address")
	runFor := flag.Duration("for", time.Minute, "time of the flood; the calm before it is a third")
	rate := flag.Int("rate", 1000, "requests of strangers a second, of all together")
	conns := flag.Int("connections", 200, "connections of strangers")
	flag.Parse()
	if err := measure(context.Background(), *bin, *listen, *runFor, *rate, *conns); err != nil {
		fmt.Fprintln(os.Stderr, "flood:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, bin, listen string, runFor time.Duration, rate, conns int) error {
	dir, err := os.MkdirTemp("", "agon-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	cmd := exec.CommandContext(ctx, bin, "serve", "--data", dir, "--listen", listen)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "AGON_") })
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGINT) // it may have ended
		_ = cmd.Wait()                         // by our signal
	}()
	miner, err := register(ctx, "http://"+listen, dir)
	if err != nil {
		return err
	}
	licence, err := enter(ctx, miner)
	if err != nil {
		return err
	}
	calm, err := honest(ctx, miner, licence, runFor/3)
	if err != nil {
		return fmt.Errorf("in the calm: %w", err)
	}
	before := resident(cmd.Process.Pid)
	held, err := hold(listen, conns, cmd.Process.Pid)
	if err != nil {
		return err
	}
	s := &strangers{addr: listen, audience: held.audience(ctx, miner), conns: conns, rate: rate}
	over := make(chan struct{})
	var wg sync.WaitGroup
	s.run(&wg, over)
	stormy, err := honest(ctx, miner, licence, runFor)
	close(over)
	wg.Wait()
	if err != nil {
		return fmt.Errorf("in the flood: %w", err)
	}
	peak := resident(cmd.Process.Pid)
	fmt.Printf("honest miner p50 %s, p99 %s alone; p50 %s, p99 %s in the flood (%.1fx); %.0f requests/s of strangers, %d taken; %d bodies held open: +%d MB; resident %d MB before, %d MB after\n",
		ms(calm, 50), ms(calm, 99), ms(stormy, 50), ms(stormy, 99), float64(percentile(stormy, 99))/float64(percentile(calm, 99)),
		float64(s.sent.Load())/runFor.Seconds(), s.taken.Load(), conns, held.grew, before, peak)
	fmt.Printf("BenchmarkFlood 1 %d held-MB %.3f x-calm-p99\n", held.grew, float64(percentile(stormy, 99))/float64(percentile(calm, 99)))
	if n := s.taken.Load(); n > 0 {
		return fmt.Errorf("%d requests of strangers were taken", n)
	}
	return nil
}

// register waits for the server and registers a miner as its operator.
func register(ctx context.Context, url, dir string) (*client.Client, error) {
	c, err := client.New(url, nil)
	if err != nil {
		return nil, err
	}
	c.Tries = 1
	for i := 0; ; i++ {
		as, err := c.Arenas(ctx)
		if err == nil && len(as) > 0 {
			break
		}
		if i == 1500 {
			return nil, errors.Join(errors.New("the server does not answer"), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	op, err := auth.Wallet{Path: filepath.Join(dir, "wallets"), Name: "operator", Hotkey: "default"}.LoadHotkey()
	if err != nil {
		return nil, err
	}
	o, err := client.New(url, op)
	if err != nil {
		return nil, err
	}
	hot, err := auth.NewKey()
	if err != nil {
		return nil, err
	}
	cold, err := auth.NewKey()
	if err != nil {
		return nil, err
	}
	a, err := o.Arena(ctx, arena)
	if err != nil {
		return nil, err
	}
	if err := o.Register(ctx, a.Netuid, client.RegisterRequest{Hotkey: hot.SS58(), Coldkey: cold.SS58()}); err != nil {
		return nil, err
	}
	m, err := client.New(url, hot)
	if err != nil {
		return nil, err
	}
	m.Tries = 1
	return m, nil
}

// enter sends the miner's submission and returns the arena's licence.
func enter(ctx context.Context, c *client.Client) (licence string, err error) {
	a, err := c.Arena(ctx, arena)
	if err != nil {
		return "", err
	}
	_, err = submit(ctx, c, a.Licence)
	return a.Licence, err
}

// submit sends the same submission again: the server checks the signature, the
// key, the body and the store, and keeps one.
func submit(ctx context.Context, c *client.Client, licence string) (*client.Submission, error) {
	return c.Submit(ctx, arena, client.SubmitRequest{Name: "honest", Licence: licence, Files: []client.File{{Path: "agent.py", Content: []byte("def agent_main(input):\n    return ''\n")}}})
}

// honest sends 20 submissions a second and returns how long each took.
func honest(ctx context.Context, c *client.Client, licence string, d time.Duration) ([]time.Duration, error) {
	const every = 50 * time.Millisecond
	var took []time.Duration
	began := time.Now()
	for due := began; due.Sub(began) < d; due = due.Add(every) {
		time.Sleep(time.Until(due))
		if _, err := submit(ctx, c, licence); err != nil {
			return nil, err
		}
		took = append(took, time.Since(due))
	}
	return took, nil
}

// holding is what connections cost that each keep a body unfinished.
type holding struct{ grew int }

func (holding) audience(ctx context.Context, c *client.Client) string {
	s, err := c.Server(ctx)
	if err != nil {
		return ""
	}
	return s.Audience
}

// hold opens connections that announce 64 MiB without a signature, send 1 MiB of
// it and wait, and measures how much the server grows.
func hold(addr string, n, pid int) (holding, error) {
	before := resident(pid)
	var list []net.Conn
	for i := range n {
		c, err := dial(addr, i)
		if err != nil {
			return holding{}, err
		}
		list = append(list, c)
		_ = c.SetWriteDeadline(time.Now().Add(time.Second)) // who is refused early reads no more
		_, _ = fmt.Fprintf(c, "PUT /v1/blobs/sha256:%064d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", i, 64<<20)
		_, _ = c.Write(make([]byte, 1<<20))
	}
	peak := resident(pid)
	for _, c := range list {
		_ = c.Close()
	}
	return holding{max(0, peak-before)}, nil
}

// dial comes from one of 200 addresses of the loopback.
func dial(addr string, i int) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%200))}, Timeout: 5 * time.Second}
	return d.Dial("tcp", addr)
}

// strangers send requests that nobody may make.
type strangers struct {
	addr, audience string
	conns, rate    int
	sent, taken    atomic.Int64
}

func (s *strangers) run(wg *sync.WaitGroup, over <-chan struct{}) {
	every := time.Duration(s.conns) * time.Second / time.Duration(s.rate)
	for i := range s.conns {
		wg.Go(func() {
			key, err := auth.NewKey()
			if err != nil {
				return
			}
			t := time.NewTicker(every)
			defer t.Stop()
			var c net.Conn
			var r *bufio.Reader
			for n := 0; ; n++ {
				select {
				case <-over:
					return
				case <-t.C:
				}
				if c == nil {
					if c, err = dial(s.addr, i); err != nil {
						c = nil
						continue
					}
					r = bufio.NewReader(c)
				}
				ok, keep := s.one(c, r, key, i, n)
				s.sent.Add(1)
				if ok {
					s.taken.Add(1)
				}
				if !keep {
					_ = c.Close()
					c = nil
				}
			}
		})
	}
}

// one sends a request: unsigned, signed by a key of nobody, signed wrongly, a
// large body, or no HTTP at all. It says whether it was taken and whether the
// connection can be used again.
func (s *strangers) one(c net.Conn, r *bufio.Reader, key *auth.Key, i, n int) (taken, keep bool) {
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	body := []byte(`{"name":"x","licence":"MIT","files":[{"path":"agent.py","content":"cGFzcwo="}]}`)
	method, target := http.MethodPost, "/v1/arenas/"+arena+"/submissions"
	switch (i + n) % 5 {
	case 1:
		method, target, body = http.MethodPut, "/v1/blobs/sha256:"+strings.Repeat("0", 64), make([]byte, 64<<10)
	case 2:
		method, target, body = http.MethodPost, "/web/sessions", nil
	case 3:
		_, _ = io.WriteString(c, "\x16\x03\x01 no HTTP\r\n\r\n")
		return false, false
	}
	req, err := http.NewRequest(method, "http://"+s.addr+target, bytes.NewReader(body))
	if err != nil {
		return false, false
	}
	if kind := (i + n) % 5; kind != 0 {
		if err := auth.SignRequest(req, body, key, s.audience, time.Now()); err != nil {
			return false, false
		}
		if kind == 4 {
			req.Header.Set(auth.HeaderNonce, "wrong")
		}
	}
	if err := req.Write(c); err != nil {
		return false, false
	}
	resp, err := http.ReadResponse(r, req)
	if err != nil {
		return false, false
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	// Anybody may sign in to look at pages: there are sessions per key, and the operator's always.
	return resp.StatusCode < 300 && target != "/web/sessions", !resp.Close
}

// resident is the resident memory of a process in MB.
func resident(pid int) int {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	n, err := strconv.Atoi(f[1])
	if err != nil {
		return 0
	}
	return n * os.Getpagesize() >> 20
}

func percentile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(times))
	return s[min(len(s)-1, len(s)*percent/100)]
}

func ms(times []time.Duration, percent int) string {
	return fmt.Sprintf("%.1f ms", float64(percentile(times, percent).Microseconds())/1000)
}
