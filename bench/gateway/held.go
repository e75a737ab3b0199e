package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"
)

// holding is an upstream whose streams stay open from their middle on until it is asked
// for /release.
type holding struct {
	release chan struct{}
	once    sync.Once
}

func (u *holding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/release" {
		u.once.Do(func() { close(u.release) })
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	f := w.(http.Flusher)
	for i, c := range replySSE {
		if i == len(replySSE)/2 {
			select {
			case <-u.release:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = w.Write(c)
		f.Flush()
	}
}

// open begins a stream through p and returns it once half of its events are there.
func (p *part) open(req []byte) (net.Conn, *bufio.Reader, error) {
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		return nil, nil, err
	}
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	br := bufio.NewReaderSize(c, 4<<10)
	if _, err = c.Write(req); err == nil {
		for seen := 0; seen < len(replySSE)/2; {
			line, err := br.ReadSlice('\n')
			if err != nil {
				_ = c.Close()
				return nil, nil, fmt.Errorf("after %d events: %w", seen, err)
			}
			if bytes.HasPrefix(line, []byte("data: ")) {
				seen++
			}
		}
	}
	return c, br, err
}

// streams holds n streams open through the proxy and through agon, prints what memory each
// takes, and has all end well.
func streams(n int) error {
	runtime.LockOSThread() // children die with the thread that made them
	fmt.Printf("| part | RSS before | RSS with %d open streams | ended whole |\n|---|---|---|---|\n", n)
	for _, role := range []string{"proxy", "agon"} {
		up, err := start("holding", "")
		if err != nil {
			return err
		}
		p, err := start(role, "http://"+up.addr)
		if err != nil {
			return err
		}
		before := p.rss()
		held, ended, err := p.hold(n, "http://"+up.addr+"/release")
		if err != nil {
			return fmt.Errorf("%s: %w", role, err)
		}
		fmt.Printf("| %s | %d MB | %d MB | %d |\n", role, before, held, ended)
		if role == "agon" {
			fmt.Printf("BenchmarkStreams 1 %d MB %d ended\n", held, ended)
		}
		p.stop()
		up.stop()
	}
	return nil
}

// hold opens n streams, measures, releases them and counts those that end with [DONE].
func (p *part) hold(n int, release string) (mb, ended int, err error) {
	req := p.request(true)
	var mu sync.Mutex
	var conns []net.Conn
	var readers []*bufio.Reader
	var first error
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range n / 50 {
				c, br, err := p.open(req)
				mu.Lock()
				if err != nil {
					first = errors.Join(first, err)
					mu.Unlock()
					return
				}
				conns, readers = append(conns, c), append(readers, br)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if first != nil {
		return 0, 0, first
	}
	mb = p.rss()
	resp, err := http.Get(release)
	if err != nil {
		return 0, 0, err
	}
	_ = resp.Body.Close()
	for i, c := range conns {
		wg.Go(func() {
			for {
				line, err := readers[i].ReadSlice('\n')
				if err != nil || bytes.HasPrefix(line, []byte("data: [DONE]")) {
					mu.Lock()
					if err == nil {
						ended++
					}
					mu.Unlock()
					_ = c.Close()
					return
				}
			}
		})
	}
	wg.Wait()
	return mb, ended, nil
}

// paced calls p at an even pace of rate calls a second for d, over so many connections, and
// returns how long after its time each call was answered: a call that waits for the one
// before it on its connection waits for us.
func (p *part) paced(callers int, rate float64, d time.Duration) ([]time.Duration, error) {
	req := p.request(false)
	every := time.Duration(float64(callers) / rate * float64(time.Second))
	begin := time.Now()
	var mu sync.Mutex
	var all []time.Duration
	var first error
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			mine, err := p.pace(req, begin.Add(every*time.Duration(i)/time.Duration(callers)), begin.Add(d), every)
			mu.Lock()
			all, first = append(all, mine...), errors.Join(first, err)
			mu.Unlock()
		})
	}
	wg.Wait()
	slices.Sort(all)
	return all, first
}

// pace makes the calls of one connection.
func (p *part) pace(req []byte, at, end time.Time, every time.Duration) (mine []time.Duration, err error) {
	c, err := net.Dial("tcp", p.addr)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	br := bufio.NewReaderSize(c, 64<<10)
	due := time.NewTimer(0)
	defer due.Stop()
	for ; at.Before(end); at = at.Add(every) {
		due.Reset(time.Until(at))
		<-due.C
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Write(req); err != nil {
			return nil, err
		}
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s: status %d, %w", p.name, resp.StatusCode, err)
		}
		mine = append(mine, time.Since(at))
	}
	return mine, nil
}
