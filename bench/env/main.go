// Command env measures an environment server as trainers meet it: `agon env serve` as a
// process of its own, asked over its ORS routes by a scripted policy on the same machine.
// It prints whole episodes a second (open, search, answer, end with the reward, close), the
// time of a call with one caller, and what the server holds with 1,000 sessions open.
//
// With -boxes it measures whole agents in boxes instead (POST /run).
//
//	make build && go run ./bench/env [-for 5s] [-workers 16] [-boxes]
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	length := flag.Duration("for", 5*time.Second, "of each measurement")
	workers := flag.Int("workers", 16, "that play at once")
	inBoxes := flag.Bool("boxes", false, "play whole agents in boxes")
	flag.Parse()
	if err := run(*length, *workers, *inBoxes); err != nil {
		fmt.Fprintln(os.Stderr, "env:", err)
		os.Exit(1)
	}
}

// door asks one server.
type door struct {
	url    string
	client *http.Client
	tasks  []string
	n      atomic.Int64
}

// serve starts an environment server and waits until it says where it is.
func serve(cmd *exec.Cmd, workers int) (d *door, stop func(), err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("%w (make build)", err)
	}
	stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}
	var ready struct{ URL string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("agon env serve: %w", err)
	}
	return &door{url: ready.URL, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}}, stop, nil
}

func (d *door) post(path, session string, body any) ([]byte, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, d.url+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Session-ID", session)
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %.200s", path, resp.Status, out)
	}
	return out, err
}

func (d *door) open() (session string, err error) {
	n := d.n.Add(1)
	session = "bench-" + strconv.FormatInt(n, 10)
	_, err = d.post("/create", session, map[string]any{"task_spec": map[string]string{"key": d.tasks[n%int64(len(d.tasks))]}})
	return session, err
}

// call returns how long it took.
func (d *door) call(session, name string, args any) (time.Duration, error) {
	begun := time.Now()
	out, err := d.post("/call", session, map[string]any{"name": name, "input": args})
	if err == nil && !bytes.Contains(out, []byte(`"ok":true`)) {
		err = fmt.Errorf("%s: %.300s", name, out)
	}
	return time.Since(begun), err
}

// episode is a scripted policy: it searches, answers with a product and ends.
func (d *door) episode() ([]time.Duration, error) {
	s, err := d.open()
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	for _, c := range []struct {
		name string
		args map[string]string
	}{{"find_product", map[string]string{"q": "light lunch box of steel"}}, {"recommend_product", map[string]string{"product_ids": "1213249719"}}, {"terminate", map[string]string{"status": "success"}}} {
		t, err := d.call(s, c.name, c.args)
		if err != nil {
			return nil, err
		}
		took = append(took, t)
	}
	_, err = d.post("/delete", s, map[string]any{})
	return took, err
}

func run(length time.Duration, workers int, inBoxes bool) (err error) {
	agon, err := filepath.Abs("bin/agon")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "agon-bench-env-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if inBoxes {
		return boxes(agon, dir, length, workers)
	}
	cmd := exec.Command(agon, "env", "serve", "--arena", "demo-shopping", "--listen", "127.0.0.1:0", "--data", dir, "-o", "jsonl")
	d, stop, err := serve(cmd, workers)
	if err != nil {
		return err
	}
	defer stop()
	var list struct {
		Tasks []struct{ Key string }
	}
	b, err := d.post("/tasks", "", map[string]string{"split": "train"})
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil || len(list.Tasks) == 0 {
		return errors.Join(err, errors.New("the server lists no task"))
	}
	for _, t := range list.Tasks {
		d.tasks = append(d.tasks, t.Key)
	}
	if _, err := d.episode(); err != nil { // the index is opened
		return err
	}
	one, took, err := d.play(1, length)
	if err != nil {
		return err
	}
	many, _, err := d.play(workers, length)
	if err != nil {
		return err
	}
	for range 1000 {
		s, err := d.open()
		if err == nil {
			_, err = d.call(s, "find_product", map[string]string{"q": "red shoes"})
		}
		if err != nil {
			return err
		}
	}
	mb, err := resident(cmd.Process.Pid)
	if err != nil {
		return err
	}
	slices.Sort(took)
	ms := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Microseconds()) / 1000 }
	fmt.Printf("%.0f episodes/s with %d callers, %.0f/s with one; a call: p50 %.2f ms, p99 %.2f ms; 1,000 sessions open: %d MB resident\n", many, workers, one, ms(.5), ms(.99), mb)
	fmt.Printf("BenchmarkEnvironment 1 %.1f episodes/s %.3f p50-ms %.3f p99-ms %d MB\n", many, ms(.5), ms(.99), mb)
	return nil
}

// play has workers play whole episodes and returns how many a second, and the time of each call.
func (d *door) play(workers int, length time.Duration) (rate float64, took []time.Duration, err error) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	n := 0
	begun := time.Now()
	for range workers {
		wg.Go(func() {
			var own []time.Duration
			done := 0
			for time.Since(begun) < length {
				t, e := d.episode()
				if e != nil {
					mu.Lock()
					err = e
					mu.Unlock()
					return
				}
				own = append(own, t...)
				done++
			}
			mu.Lock()
			took, n = append(took, own...), n+done
			mu.Unlock()
		})
	}
	wg.Wait()
	return float64(n) / time.Since(begun).Seconds(), took, err
}

// resident is the memory that a process holds, in MB.
func resident(pid int) (int, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			return kb / 1000, err
		}
	}
	return 0, errors.New("no VmRSS")
}
